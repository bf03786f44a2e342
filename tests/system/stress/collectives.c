/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs random sequences of collectives on several streams
 *
 * Every rank makes the calls of one random sequence at its own pace. It waits
 * for some tickets immediately and for others later, on its own thread or
 * another, and makes streams wait for each other between calls. Checks every
 * result.
 */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/platform.h"
#include "support/native.h"
#include "support/ranks.h"
#include "support/stress.h"

#define RANKS 4
#define STEPS 60
#define MAX_COUNT 3000
#define BIG_COUNT 50000 /* number of elements, more than one share */

/* Number of kinds of calls. The kinds from FIRST_LIST on use lists. */
#define KINDS 11
#define FIRST_LIST 9

struct step {
	int kind;
	size_t count;
	int root;
	int stream; /* 0 to 2, of which 0 is the communicator's own */
	bool wait;
	bool flush; /* flush the stream after the call */
};

struct plan {
	struct step steps[STEPS];
};

static struct step random_step(uint64_t *seed)
{
	struct step s = {
		.kind = (int)(stress_random(seed) % KINDS),
		.count = 1 + stress_random(seed) % MAX_COUNT,
		.root = (int)(stress_random(seed) % RANKS),
		.stream = (int)(stress_random(seed) % 3),
		.wait = stress_random(seed) % 3 == 0,
		.flush = stress_random(seed) % 4 == 0,
	};

	if (stress_random(seed) % 16 == 0)
		s.count = BIG_COUNT;
	return s;
}

/* Return element @i of rank @rank's input in step @k. */
static int32_t input(int k, int rank, size_t i)
{
	return (int32_t)(i % 1000) + 7 * rank + k;
}

static int32_t sum(int k, size_t i)
{
	return RANKS * input(k, 0, i) + 7 * (0 + 1 + 2 + 3);
}

/* Return the expected element @i of rank @rank's output. */
static int32_t output(const struct step *s, int k, int rank, size_t i)
{
	switch (s->kind) {
	case 1:
	case 10:
		return input(k, s->root, i);
	case 2:
		return rank == s->root ? sum(k, i) : -1;
	case 3:
		return input(k, (int)(i / s->count), i % s->count);
	case 4:
		return sum(k, (size_t)rank * s->count + i);
	case 5:
		return rank == s->root
		               ? input(k, (int)(i / s->count), i % s->count)
		               : -1;
	case 6:
		return input(k, s->root, (size_t)rank * s->count + i);
	case 7:
		return input(k, (int)(i / s->count),
		             (size_t)rank * s->count + i % s->count);
	case 8:
		return input(k, (rank + RANKS - 1) % RANKS, i);
	}
	return sum(k, i);
}

/* Send to the next rank of the ring and receive from the previous one. */
static int send_on(struct cohort_comm *c, const struct step *s,
                   const int32_t *send, int32_t *recv, void *stream,
                   uint64_t *ticket)
{
	int rank = cohort_comm_rank(c);
	int rc = cohort_batch_begin(c);

	if (rc == COHORT_OK)
		rc = cohort_send(c, send, s->count, COHORT_I32,
		                 (rank + 1) % RANKS, NULL, NULL);
	if (rc == COHORT_OK)
		rc = cohort_recv(c, recv, s->count, COHORT_I32,
		                 (rank + RANKS - 1) % RANKS, NULL, NULL);
	return rc == COHORT_OK ? cohort_batch_end(c, stream, ticket) : rc;
}

static int call_list(struct cohort_comm *c, const struct step *s,
                     const int32_t *send, int32_t *recv, void *stream,
                     uint64_t *ticket)
{
	const size_t h = s->count / 3;
	const struct cohort_tensor list[] = {
		{ send, recv, h, COHORT_I32 },
		{ send + h, recv + h, s->count - h, COHORT_I32 },
	};

	return s->kind == 10 ? cohort_broadcast_many(c, list, 2, s->root,
	                                             stream, ticket)
	                     : cohort_all_reduce_many(c, list, 2, COHORT_SUM,
	                                              stream, ticket);
}

static int call(struct cohort_comm *c, const struct step *s,
                const int32_t *send, int32_t *recv, void *stream,
                uint64_t *ticket)
{
	if (s->kind >= FIRST_LIST)
		return call_list(c, s, send, recv, stream, ticket);
	switch (s->kind) {
	case 1:
		return cohort_broadcast(c, send, recv, s->count, COHORT_I32,
		                        s->root, stream, ticket);
	case 2:
		return cohort_reduce(c, send, recv, s->count, COHORT_I32,
		                     COHORT_SUM, s->root, stream, ticket);
	case 3:
		return cohort_all_gather(c, send, recv, s->count, COHORT_I32,
		                         stream, ticket);
	case 4:
		return cohort_reduce_scatter(c, send, recv, s->count,
		                             COHORT_I32, COHORT_SUM, stream,
		                             ticket);
	case 5:
		return cohort_gather(c, send, recv, s->count, COHORT_I32,
		                     s->root, stream, ticket);
	case 6:
		return cohort_scatter(c, send, recv, s->count, COHORT_I32,
		                      s->root, stream, ticket);
	case 7:
		return cohort_all_to_all(c, send, recv, s->count, COHORT_I32,
		                         stream, ticket);
	case 8:
		return send_on(c, s, send, recv, stream, ticket);
	}
	return cohort_all_reduce(c, send, recv, s->count, COHORT_I32,
	                         COHORT_SUM, stream, ticket);
}

static size_t sent(const struct step *s)
{
	return s->kind == 4 || s->kind == 6 || s->kind == 7 ? RANKS * s->count
	                                                    : s->count;
}

static size_t received(const struct step *s)
{
	return s->kind == 3 || s->kind == 5 || s->kind == 7 ? RANKS * s->count
	                                                    : s->count;
}

/* The buffers and tickets of one rank that executes a plan */
struct walk {
	struct cohort_comm *comm;
	const struct plan *plan;
	int32_t *send[STEPS], *recv[STEPS];
	uint64_t ticket[STEPS];
};

static void *wait_for_odd(void *arg)
{
	struct walk *w = arg;
	int k;

	for (k = 1; k < STEPS; k += 2)
		if (w->ticket[k])
			ranks_must(cohort_wait(w->comm, w->ticket[k],
			                       RANKS_SOON),
			           "wait elsewhere");
	return NULL;
}

static void prepare(struct walk *w, int k)
{
	const struct step *s = &w->plan->steps[k];
	int rank = cohort_comm_rank(w->comm);
	size_t i;

	w->send[k] = malloc(sent(s) * sizeof(int32_t));
	w->recv[k] = malloc(received(s) * sizeof(int32_t));
	for (i = 0; i < sent(s); i++)
		w->send[k][i] = input(k, rank, i);
	memset(w->recv[k], 0xff, received(s) * sizeof(int32_t));
}

static void check(struct walk *w, int k)
{
	const struct step *s = &w->plan->steps[k];
	int rank = cohort_comm_rank(w->comm);
	size_t i;

	for (i = 0; i < received(s); i++)
		if (w->recv[k][i] != output(s, k, rank, i))
			stress_fail("rank %d, step %d, kind %d, element %zu of "
			            "%zu: %d, not %d",
			            rank, k, s->kind, i, s->count,
			            w->recv[k][i], output(s, k, rank, i));
	free(w->send[k]);
	free(w->recv[k]);
}

static int worker(struct cohort_comm *c, void *user)
{
	struct walk w = { .comm = c, .plan = user };
	const struct platform *p;
	cudaStream_t stream[3];
	pthread_t helper;
	int k;

	p = place_table();
	stream[0] = cohort_comm_stream(c);
	stream[1] = native_stream(p, cohort_comm_device(c));
	stream[2] = NULL; /* the legacy stream */
	for (k = 0; k < STEPS; k++) {
		const struct step *s = &w.plan->steps[k];

		prepare(&w, k);
		ranks_must(call(c, s, w.send[k], w.recv[k], stream[s->stream],
		                &w.ticket[k]),
		           "call");
		if (s->flush)
			p->flush(cohort_comm_device(c), stream[s->stream]);
		if (s->wait)
			ranks_must(cohort_wait(c, w.ticket[k], RANKS_SOON),
			           "wait");
		else if (k % 5 == 0)
			ranks_must(cohort_stream_after(c, w.ticket[k],
			                               stream[k % 3]),
			           "stream after");
		else if (k % 7 == 0)
			ranks_must(cohort_after_stream(c, stream[1]),
			           "after stream");
	}
	pthread_create(&helper, NULL, wait_for_odd, &w);
	ranks_must(cohort_synchronize(c, RANKS_SOON), "synchronize");
	pthread_join(helper, NULL);
	for (k = 0; k < STEPS; k++)
		check(&w, k);
	p->cudaStreamDestroy(stream[1]);
	return 0;
}

int main(int argc, char **argv)
{
	struct cohort_group *group;
	struct plan plan;
	uint64_t seed = 1;
	unsigned long rounds;
	int k;

	group = ranks_open(RANKS, NULL);
	for (rounds = 0; stress_continue(argc, argv); rounds++) {
		for (k = 0; k < STEPS; k++)
			plan.steps[k] = random_step(&seed);
		ranks_must(cohort_group_run(group, worker, &plan, NULL), "run");
	}
	ranks_must(cohort_group_close(group), "close");
	printf("%lu rounds of %d steps\n", rounds, STEPS);
	return 0;
}
