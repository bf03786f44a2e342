/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Ranks that launch together, against aborts at random moments
 *
 * Each rank makes calls at its own pace, every third round one of them stops calling,
 * and the group is aborted some time.  Checked: all ranks have launched the same number
 * of collectives; what a rank was refused it has not launched, and its output is as it
 * was; the output is freed at once.
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
	int quits;    /* a rank, or -1 */
	int quits_at; /* its call */
	int launched[RANKS];
	struct cohort_abort *handle;
	atomic_int called;
};

static const struct platform *real;
static _Thread_local int launched;

static ncclResult_t all_reduce(const void *send, void *recv, size_t count,
                               ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
	launched++;
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

/* One call with an output of its own; what it or its wait answers. */
static int make(struct cohort_comm *c, int i)
{
	int32_t *recv = malloc(sizeof(*recv)), send = i;
	const int before = launched;
	uint64_t ticket;
	int rc;

	if (!recv)
		stress_fail("no memory");
	*recv = UNTOUCHED;
	rc = call(c, i % 4 == 3, &send, recv, &ticket);
	if (rc == COHORT_OK && launched == before)
		stress_fail("rank %d has not launched call %d",
		            cohort_comm_rank(c), i);
	if (rc != COHORT_OK && launched == before && *recv != UNTOUCHED)
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

	launched = 0;
	for (i = 0; rc == COHORT_OK; i++) {
		if (rank == round->quits && i == round->quits_at)
			break;
		stress_spin(stress_random(&seed) % 3000);
		atomic_fetch_add(&round->called, 1);
		rc = make(c, i);
	}
	if (rc != COHORT_OK && rc != COHORT_ABORTED)
		stress_fail("rank %d is told %d: %s", rank, rc,
		            cohort_last_error());
	round->launched[rank] = launched;
	return 0;
}

/* While ranks are in a call, or on their way, or wait for the one that has quit. */
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
	return NULL;
}

static void run(struct round *round)
{
	struct cohort_group_options o;
	struct cohort_comm *comms[RANKS];
	struct cohort_group *group;
	pthread_t thread;
	int r;

	cohort_group_options_init(&o);
	o.launch = COHORT_LAUNCH_TOGETHER;
	o.recorder_slots = 16;
	group = ranks_split(RANKS, &o, comms);
	round->handle = cohort_comm_abort_handle(comms[0]);
	if (pthread_create(&thread, NULL, fire, round))
		stress_fail("no thread");
	if (cohort_group_run(group, worker, round, NULL) != COHORT_ABORTED)
		stress_fail("run: %s", cohort_last_error());
	pthread_join(thread, NULL);
	for (r = 1; r < RANKS; r++)
		if (round->launched[r] != round->launched[0])
			stress_fail("rank 0 has launched %d, rank %d %d",
			            round->launched[0], r, round->launched[r]);
	ranks_must(cohort_group_close(group), "close");
	cohort_abort_put(round->handle);
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
	for (n = 0; stress_go_on(argc, argv); n++) {
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
