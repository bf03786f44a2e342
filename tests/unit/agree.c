/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Test of a rank that calls after another rank's mismatch and before the end of
 * the group
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>

#include "core/clique.h"
#include "support/expect.h"
#include "support/ranks.h"

static void *call_maximum(void *comm)
{
	static int32_t value;
	int rc = cohort_all_reduce(comm, &value, &value, 1, COHORT_I32,
	                           COHORT_MAX, NULL, NULL);

	return (void *)(intptr_t)rc;
}

/* Rank 2's call matches rank 0's, but rank 1's mismatch must keep it from being
 * launched. */
Test(agree, call_after_a_mismatch_returns_the_mismatch, .timeout = 60)
{
	struct cohort_comm *c[3];
	struct cohort_group *group = ranks_ahead(3, NULL, c);
	const _Atomic uint64_t *word = &c[0]->clique->agreed[0];
	struct cohort_cause cause;
	int32_t a = 1, b = 1;
	uint64_t t = ranks_sum(c[0], &a), before = atomic_load(word);
	pthread_t other;
	void *rc;

	pthread_create(&other, NULL, call_maximum, c[1]);
	while (atomic_load(word) == before)
		sched_yield();
	cr_assert_eq(cohort_all_reduce(c[2], &b, &b, 1, COHORT_I32, COHORT_SUM,
	                               NULL, NULL),
	             COHORT_MISMATCH);
	pthread_join(other, &rc);
	cr_assert_eq((intptr_t)rc, COHORT_MISMATCH);
	cr_assert_eq(cohort_wait(c[0], t, RANKS_SOON), COHORT_MISMATCH);
	cohort_group_cause(group, &cause);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	expect_close(group);
}
