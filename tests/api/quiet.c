/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The library's threads make no native call while nothing is overdue
 */

#include <criterion/criterion.h>

#include "base/clock.h"
#include "support/ranks.h"
#include "support/witness.h"

#define MS UINT64_C(1000000)
#define SPAN (300 * MS) /* some looks of every thread that looks */
#define LATE (25 * MS) /* the least between two looks that find the same call */
#define CALLS 4        /* after a look: two of each rank */

TestSuite(quiet, .init = witness_install, .timeout = 120);

/* One collective of both ranks; how long it took. */
static uint64_t sum(struct cohort_group *group)
{
	static int32_t values[2];
	const void *send[] = { &values[0], &values[1] };
	void *recv[] = { &values[0], &values[1] };
	const uint64_t began = clock_now();
	uint64_t ticket;

	cr_assert_eq(cohort_group_all_reduce(group, send, recv, 1, COHORT_I32,
	                                     COHORT_SUM, NULL, &ticket),
	             COHORT_OK, "%s", cohort_last_error());
	cr_assert_eq(cohort_group_wait(group, ticket, COHORT_FOREVER),
	             COHORT_OK);
	return clock_now() - began;
}

/* There is always something under way.  It is overdue only where this thread was kept
 * from a core meanwhile. */
Test(quiet, nobody_is_asked_while_nothing_is_overdue)
{
	struct cohort_group *group = ranks_open(2, NULL);
	unsigned long before, calls, allowed;
	const char *last;
	uint64_t until;

	witness_ignore();
	before = witness_calls(&last); /* of those that have opened it */
	allowed = CALLS * (sum(group) / LATE);
	until = clock_now() + SPAN;
	while (clock_now() < until)
		allowed += CALLS * (sum(group) / LATE);
	calls = witness_calls(&last) - before;
	cr_assert_leq(calls, allowed, "%lu calls, the last of %s; %lu allowed",
	              calls, last, allowed);
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}
