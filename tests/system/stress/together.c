/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Races ranks that launch together with aborts at random moments
 *
 * Each rank calls at its own pace. In every third round, one rank stops
 * calling. The group is aborted at some time. Checks that all ranks launched
 * the same number of collectives, that a rank did not launch a call that was
 * refused, and that the output of such a call is unchanged. Outputs are freed
 * immediately.
 */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/ranks.h"
#include "support/stress.h"

#define RANKS 3
#define CALLS 60
#define UNTOUCHED INT32_C(-77)

struct round {
	unsigned long number;
	int quits;    /* the rank that stops calling, or -1 */
	int quits_at; /* number of the call at which it stops */
	struct cohort_abort *handle;
	atomic_int called;
	atomic_bool fired, ended;
};

static const struct platform *real;
static atomic_int launched[RANKS];

static ncclResult_t all_reduce(const void *send, void *recv, size_t count,
                               ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
	int rank;

	if (real->ncclCommUserRank(comm, &rank) != ncclSuccess)
		stress_fail("a launch without a rank");
	atomic_fetch_add(&launched[rank], 1);
	return real->ncclAllReduce(send, recv, count, type, op, comm, stream);
}

static int call(struct cohort_comm *c, bool in_batch, const int32_t *send,
                int32_t *recv, uint64_t *ticket)
{
	void *stream = cohort_comm_stream(c);
	int rc;

	if (!in_batch)
		return cohort_all_reduce(c, send, recv, 1, COHORT_I32,
		                         COHORT_SUM, stream, ticket);
	rc = cohort_batch_begin(c);
	if (rc == COHORT_OK)
		rc = cohort_all_reduce(c, send, recv, 1, COHORT_I32, COHORT_SUM,
		                       NULL, NULL);
	return rc == COHORT_OK ? cohort_batch_end(c, stream, ticket) : rc;
}

static int32_t *make_number(int32_t value)
{
	int32_t *number = malloc(sizeof(*number));

	if (!number)
		stress_fail("no memory");
	*number = value;
	return number;
}

/*
 * Make a call on host memory that can time out. Return its status, or the
 * status of the wait for it.
 */
static int make_timed(struct cohort_comm *c, int i, uint64_t timeout_ns)
{
	const int rank = cohort_comm_rank(c);
	const int before = atomic_load(&launched[rank]);
	int32_t *number = make_number(i);
	int rc = cohort_all_reduce_host(c, number, 1, COHORT_I32, COHORT_SUM,
	                                timeout_ns);

	if (rc == COHORT_OK && *number != RANKS * i)
		stress_fail("sum %d is %d", i, *number);
	free(number);
	if (rc == COHORT_TIMED_OUT)
		rc = cohort_synchronize(c, RANKS_SOON);
	if (rc == COHORT_OK && atomic_load(&launched[rank]) == before)
		stress_fail("rank %d has not launched call %d", rank, i);
	return rc;
}

/* Make a call with its own output. Return its status or the wait's. */
static int make(struct cohort_comm *c, int i)
{
	const int rank = cohort_comm_rank(c);
	const int before = atomic_load(&launched[rank]);
	int32_t *recv = make_number(UNTOUCHED), send = i;
	bool has_launched;
	uint64_t ticket;
	int rc;

	rc = call(c, i % 4 == 3, &send, recv, &ticket);
	has_launched = atomic_load(&launched[rank]) != before;
	if (rc == COHORT_OK && !has_launched)
		stress_fail("rank %d has not launched call %d", rank, i);
	if (rc != COHORT_OK && !has_launched && *recv != UNTOUCHED)
		stress_fail("rank %d: the output of call %d is %d",
		            cohort_comm_rank(c), i, *recv);
	if (rc == COHORT_OK)
		rc = cohort_wait(c, ticket, RANKS_SOON);
	if (rc == COHORT_OK && *recv != RANKS * i)
		stress_fail("sum %d is %d", i, *recv);
	free(recv);
	return rc;
}

static int worker(struct cohort_comm *c, void *user)
{
	struct round *round = user;
	const int rank = cohort_comm_rank(c);
	uint64_t seed = round->number << 8 | (unsigned)rank;
	int i, rc = COHORT_OK;

	for (i = 0; rc == COHORT_OK; i++) {
		if (rank == round->quits && i == round->quits_at)
			break;
		stress_spin(stress_random(&seed) % 3000);
		atomic_fetch_add(&round->called, 1);
		rc = i % 4 == 1 ? make_timed(c, i, stress_random(&seed) % 50000)
		                : make(c, i);
	}
	/*
	 * Stay until the abort, because the library blames a rank that returns.
	 */
	while (rc == COHORT_OK && !atomic_load(&round->fired))
		sched_yield();
	if (rc != COHORT_OK && rc != COHORT_ABORTED)
		stress_fail("rank %d got status %d: %s", rank, rc,
		            cohort_last_error());
	return 0;
}

/*
 * Sometimes delay the last rank after the others count it and before it opens
 * the launch window.
 */
static void *hold(void *arg)
{
	struct round *round = arg;
	uint64_t seed = round->number + 99;

	while (!atomic_load(&round->ended)) {
		ranks_must(cohort_quiet_begin(), "quiet_begin");
		stress_spin(stress_random(&seed) % 5000);
		ranks_must(cohort_quiet_end(), "quiet_end");
		stress_spin(stress_random(&seed) % 20000);
	}
	return NULL;
}

/*
 * Fire while ranks are in a call, between calls, or waiting for the rank that
 * has stopped.
 */
static void *fire(void *arg)
{
	struct round *round = arg;
	uint64_t seed = round->number;
	const int at = round->quits < 0 ? (int)(stress_random(&seed) % CALLS)
	                                : round->quits_at * RANKS;

	while (atomic_load(&round->called) <= at)
		sched_yield();
	stress_spin(stress_random(&seed) % 10000);
	cohort_abort_fire(round->handle, "at random");
	atomic_store(&round->fired, true);
	return NULL;
}

static void run(struct round *round)
{
	struct cohort_group_options o;
	struct cohort_comm *comms[RANKS];
	struct cohort_group *group;
	pthread_t firer, holder;
	int r;

	for (r = 0; r < RANKS; r++)
		atomic_store(&launched[r], 0);
	cohort_group_options_init(&o);
	o.launch = COHORT_LAUNCH_TOGETHER;
	o.recorder_slots = 16;
	group = ranks_split(RANKS, &o, comms);
	round->handle = cohort_comm_abort_handle(comms[0]);
	if (pthread_create(&firer, NULL, fire, round) ||
	    pthread_create(&holder, NULL, hold, round))
		stress_fail("no thread");
	if (cohort_group_run(group, worker, round, NULL) != COHORT_ABORTED)
		stress_fail("run: %s", cohort_last_error());
	pthread_join(firer, NULL);
	atomic_store(&round->ended, true);
	pthread_join(holder, NULL);
	ranks_must(cohort_group_close(group), "close");
	cohort_abort_put(round->handle);
	/* Each call was launched by all ranks or by none, even if its callers
	 * timed out. */
	for (r = 1; r < RANKS; r++)
		if (atomic_load(&launched[r]) != atomic_load(&launched[0]))
			stress_fail("rank 0 has launched %d, rank %d %d",
			            atomic_load(&launched[0]), r,
			            atomic_load(&launched[r]));
}

int main(int argc, char **argv)
{
	static struct platform table;
	uint64_t seed = 3;
	unsigned long n;

	real = place_table();
	table = *real;
	table.ncclAllReduce = all_reduce;
	platform_override(&table);
	for (n = 0; stress_continue(argc, argv); n++) {
		struct round round = {
			.number = n,
			.quits = n % 3 ? -1
			               : (int)(stress_random(&seed) % RANKS),
			.quits_at = (int)(stress_random(&seed) % 20),
		};

		run(&round);
	}
	printf("%lu rounds\n", n);
	return 0;
}
