/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Soak test: eight ranks make random calls for a long time, and sometimes sleep
 * for less than their deadlines. No rank may be blamed for that.
 *
 *  soak [SECONDS [SEED [DEADLINE_MS [FACTOR]]]]
 *
 * All ranks draw the calls from one random sequence, and their sleeps from
 * their own sequences. With FACTOR, deadlines adapt to measured times, and
 * DEADLINE_MS is the shortest one. The program prints what was done and exits
 * with 0, or exits with 1 after the first verdict or wrong result.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/random.h"
#include "support/ranks.h"
#include "support/stress.h"

#define RANKS 8
#define MOST_COUNT 5000
#define BYTES (RANKS * MOST_COUNT * sizeof(int64_t))

/* Calls between two barriers of all ranks; average number of calls between two
 * sleeps */
#define CALLS 64
#define SLEEPY 512

enum call {
	ALL_REDUCE,
	BROADCAST,
	REDUCE,
	ALL_GATHER,
	REDUCE_SCATTER,
	GATHER,
	SCATTER,
	ALL_TO_ALL,
	BARRIER,
	BATCH,
	RING, /* every rank sends to the next one */
	CALLS_THERE_ARE,
};

static const char *const names[] = {
	[ALL_REDUCE] = "all_reduce",
	[BROADCAST] = "broadcast",
	[REDUCE] = "reduce",
	[ALL_GATHER] = "all_gather",
	[REDUCE_SCATTER] = "reduce_scatter",
	[GATHER] = "gather",
	[SCATTER] = "scatter",
	[ALL_TO_ALL] = "all_to_all",
	[BARRIER] = "barrier",
	[BATCH] = "batch",
	[RING] = "send/recv",
};

/* Constant while the ranks run */
static uint64_t deadline_ns, end_ns, seed = 1;
static pthread_barrier_t meeting;

/* Written by one rank, between two barriers */
static bool is_over;

/* Atomic; number of operations that took longer than half of the deadline */
static atomic_int slow;
static atomic_ulong sleeps, checked, done[CALLS_THERE_ARE];

struct rank {
	struct cohort_comm *comm;
	int number;
	void *send, *recv, *other; /* other is for a batch's second call */
	uint64_t calls; /* state of the random sequence of all ranks */
	uint64_t own;   /* state of this rank's own random sequence */
};

/* ---- calls ------------------------------------------------------------ */

static int batch(struct rank *k, size_t count, int type, void *stream,
                 uint64_t *ticket)
{
	int rc = cohort_batch_begin(k->comm), ended;

	if (rc != COHORT_OK)
		return rc;
	rc = cohort_all_gather(k->comm, k->send, k->recv, count, type, NULL,
	                       NULL);
	if (rc == COHORT_OK)
		rc = cohort_broadcast(k->comm, k->send, k->other, count, type,
		                      0, NULL, NULL);
	ended = cohort_batch_end(k->comm, stream, ticket);
	return rc != COHORT_OK ? rc : ended;
}

static int ring(struct rank *k, size_t count, int type, void *stream,
                uint64_t *ticket)
{
	int rc = cohort_batch_begin(k->comm), ended;

	if (rc != COHORT_OK)
		return rc;
	rc = cohort_send(k->comm, k->send, count, type, (k->number + 1) % RANKS,
	                 NULL, NULL);
	if (rc == COHORT_OK)
		rc = cohort_recv(k->comm, k->recv, count, type,
		                 (k->number + RANKS - 1) % RANKS, NULL, NULL);
	ended = cohort_batch_end(k->comm, stream, ticket);
	return rc != COHORT_OK ? rc : ended;
}

static int call(struct rank *k, enum call what, size_t count, int type,
                int root, uint64_t *ticket)
{
	void *stream = cohort_comm_stream(k->comm);

	switch (what) {
	case ALL_REDUCE:
		return cohort_all_reduce(k->comm, k->send, k->recv, count, type,
		                         COHORT_MAX, stream, ticket);
	case BROADCAST:
		return cohort_broadcast(k->comm, k->send, k->recv, count, type,
		                        root, stream, ticket);
	case REDUCE:
		return cohort_reduce(k->comm, k->send, k->recv, count, type,
		                     COHORT_SUM, root, stream, ticket);
	case ALL_GATHER:
		return cohort_all_gather(k->comm, k->send, k->recv, count, type,
		                         stream, ticket);
	case REDUCE_SCATTER:
		return cohort_reduce_scatter(k->comm, k->send, k->recv, count,
		                             type, COHORT_MIN, stream, ticket);
	case GATHER:
		return cohort_gather(k->comm, k->send, k->recv, count, type,
		                     root, stream, ticket);
	case SCATTER:
		return cohort_scatter(k->comm, k->send, k->recv, count, type,
		                      root, stream, ticket);
	case ALL_TO_ALL:
		return cohort_all_to_all(k->comm, k->send, k->recv, count, type,
		                         stream, ticket);
	case BARRIER:
		return cohort_barrier(k->comm, stream, ticket);
	case BATCH:
		return batch(k, count, type, stream, ticket);
	case RING:
		return ring(k, count, type, stream, ticket);
	case CALLS_THERE_ARE:
		break;
	}
	return COHORT_INVALID;
}

/* ---- ranks ------------------------------------------------------------ */

static void must(int rc, const char *what)
{
	if (rc != COHORT_OK)
		stress_fail("%s: %s: %s", what, cohort_status_text(rc),
		            cohort_last_error());
}

/* Sleep sometimes, for less than half of the deadline. */
static void sleep_sometimes(struct rank *k)
{
	struct timespec t;

	if (stress_random(&k->own) % SLEEPY)
		return;
	t = clock_timespec(stress_random(&k->own) % (deadline_ns / 2));
	nanosleep(&t, NULL);
	sleeps++;
}

/* Make a sum and check its result. */
static void check_sum(struct rank *k)
{
	int32_t value = k->number + 1;

	must(ranks_sum_wait(k->comm, &value), "a sum");
	if (value != RANKS * (RANKS + 1) / 2)
		stress_fail("a sum is %d", value);
	checked++;
}

static void make_call(struct rank *k)
{
	enum call what =
		(enum call)(stress_random(&k->calls) % CALLS_THERE_ARE);
	size_t count = 1 + stress_random(&k->calls) % MOST_COUNT;
	int type = (int)(stress_random(&k->calls) % (COHORT_F8E5M2 + 1));
	int root = (int)(stress_random(&k->calls) % RANKS);
	uint64_t ticket;

	sleep_sometimes(k);
	must(call(k, what, count, type, root, &ticket), names[what]);
	sleep_sometimes(k);
	if (stress_random(&k->own) % 2)
		must(cohort_wait(k->comm, ticket, COHORT_FOREVER), names[what]);
	if (!k->number)
		done[what]++;
}

/*
 * Wait for all ranks, so that no rank is behind when another one checks whether
 * the time is over.
 */
static void meet_all_ranks(void)
{
	if (pthread_barrier_wait(&meeting) == PTHREAD_BARRIER_SERIAL_THREAD)
		is_over = clock_now() >= end_ns;
	pthread_barrier_wait(&meeting);
}

static void *rank_main(void *arg)
{
	struct rank *k = arg;
	int i;

	must(cohort_comm_bind(k->comm), "bind");
	while (!is_over) {
		for (i = 0; i < CALLS; i++)
			make_call(k);
		check_sum(k);
		must(cohort_synchronize(k->comm, COHORT_FOREVER),
		     "synchronize");
		meet_all_ranks();
	}
	must(cohort_comm_unbind(k->comm), "unbind");
	return NULL;
}

/* ---- the group -------------------------------------------------------- */

static int on_verdict(const struct cohort_verdict *v, void *unused)
{
	(void)unused;
	if (v->stage != COHORT_STAGE_SLOW)
		stress_fail("unexpected verdict: %s", v->text);
	slow++;
	return 0;
}

static void rank_init(struct rank *k, struct cohort_comm *comm, int number)
{
	*k = (struct rank){
		.comm = comm,
		.number = number,
		.calls = seed,
		.own = seed ^ random_of((uint64_t)number),
	};
	must(cohort_alloc(comm, BYTES, &k->send), "alloc");
	must(cohort_alloc(comm, BYTES, &k->recv), "alloc");
	must(cohort_alloc(comm, BYTES, &k->other), "alloc");
}

static void run(struct cohort_comm **comms)
{
	struct rank ranks[RANKS];
	pthread_t threads[RANKS];
	int r;

	pthread_barrier_init(&meeting, NULL, RANKS);
	for (r = 0; r < RANKS; r++)
		rank_init(&ranks[r], comms[r], r);
	for (r = 0; r < RANKS; r++)
		pthread_create(&threads[r], NULL, rank_main, &ranks[r]);
	for (r = 0; r < RANKS; r++)
		pthread_join(threads[r], NULL);
	for (r = 0; r < RANKS; r++) {
		must(cohort_free(comms[r], ranks[r].other), "free");
		must(cohort_free(comms[r], ranks[r].recv), "free");
		must(cohort_free(comms[r], ranks[r].send), "free");
	}
	pthread_barrier_destroy(&meeting);
}

static void report(void)
{
	unsigned long all = 0;
	int i;

	for (i = 0; i < CALLS_THERE_ARE; i++)
		all += done[i];
	printf("%lu operations:", all);
	for (i = 0; i < CALLS_THERE_ARE; i++)
		printf("%s %lu %s", i ? "," : "", done[i], names[i]);
	printf("\n%lu sums checked, %lu sleeps, %d slow, no verdict\n",
	       checked / RANKS, sleeps, slow);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1.0;
	struct cohort_comm *comms[RANKS];
	struct cohort_group_options o;
	struct cohort_group *group;

	if (argc > 2)
		seed = strtoull(argv[2], NULL, 0);
	deadline_ns = (argc > 3 ? strtoull(argv[3], NULL, 10) : 2000) * 1000000;
	end_ns = clock_deadline((uint64_t)(seconds * (double)NS_PER_S));
	cohort_group_options_init(&o);
	o.name = "soak";
	o.on_verdict = on_verdict;
	o.slow_ns = deadline_ns / 2;
	if (argc > 4) {
		o.adaptive_factor = (unsigned)strtoul(argv[4], NULL, 10);
		o.adaptive_floor_ns = deadline_ns;
		o.adaptive_warmup = 10;
	} else {
		o.deadlines.join_ns = deadline_ns;
		o.deadlines.exec_ns = deadline_ns;
	}
	group = ranks_split(RANKS, &o, comms);
	run(comms);
	must(cohort_group_close(group), "close");
	report();
	return 0;
}
