/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Test of the launch barrier if a rank gives up after the last rank has arrived
 * and before the barrier opens
 */

#include <pthread.h>
#include <sched.h>

#include "core/clique.h"
#include "core/launch_barrier.h"
#include "core/launch_lock.h"
#include "support/expect.h"
#include "support/ranks.h"

#define RANKS 2

static const struct platform *real;
static struct cohort_group *group;
static struct cohort_comm *comms[RANKS];
static atomic_int launches;

static ncclResult_t count_launch(const void *send, void *recv, size_t count,
                                 ncclDataType_t type, ncclRedOp_t op,
                                 ncclComm_t comm, cudaStream_t stream)
{
	launches++;
	return real->ncclAllReduce(send, recv, count, type, op, comm, stream);
}

static void *sum_on_rank_0(void *rc)
{
	static int32_t value = 1;

	*(int *)rc = cohort_all_reduce(comms[0], &value, &value, 1, COHORT_I32,
	                               COHORT_SUM, NULL, NULL);
	return NULL;
}

/* The last rank has opened the window without seeing a cause. */
Test(launch_barrier, no_rank_launches_if_one_gives_up_before_the_barrier_opens,
     .timeout = 60)
{
	static struct platform table;
	struct cohort_group_options o;
	int32_t value = 2;
	struct clique *q;
	uint64_t number;
	pthread_t thread;
	int rc;

	real = place_table();
	table = *real;
	cohort_group_options_init(&o);
	o.launch = COHORT_LAUNCH_TOGETHER;
	table.ncclAllReduce = count_launch;
	platform_override(&table);
	group = ranks_split(RANKS, &o, comms);
	launches = 0; /* calls that connect ranks may have launched */
	pthread_create(&thread, NULL, sum_on_rank_0, &rc);
	while (!atomic_load(&comms[0]->agreement.meeting))
		sched_yield();
	q = comms[0]->clique;
	number = atomic_load(&comms[0]->agreement.meeting);
	cr_assert_eq(launch_lock_open(q), COHORT_OK);
	cohort_group_abort(group, "enough");
	pthread_join(thread, NULL);
	cr_assert_eq(rc, COHORT_ABORTED);
	cr_assert_eq(launch_barrier_open(q, number), COHORT_ABORTED);
	cr_assert_not(q->window);
	expect(cohort_all_reduce(comms[1], &value, &value, 1, COHORT_I32,
	                         COHORT_SUM, NULL, NULL),
	       COHORT_ABORTED, "enough");
	cr_assert_eq(launches, 0);
	cr_assert_eq(value, 2);
	expect_close(group);
}
