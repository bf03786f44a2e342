/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests that the library's threads make no native call while no call is overdue
 */

#include <criterion/criterion.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/ranks.h"
#include "support/spread.h"
#include "support/witness.h"

#define MS UINT64_C(1000000)
/* Time in which every periodic thread checks several times */
#define SPAN (300 * MS)
/* Shortest time between two checks that find an overdue call */
#define LATE (25 * MS)
#define CALLS 6 /* native calls of one check: three for each rank */

TestSuite(quiet, .init = witness_install, .timeout = 120);

/* Make a sum on both ranks, and return how long it took. */
static uint64_t sum(struct cohort_group *group)
{
	static int32_t values[2];
	const void *send[] = { &values[0], &values[1] };
	void *recv[] = { &values[0], &values[1] };
	const uint64_t began = test_now();
	uint64_t ticket;

	cr_assert_eq(cohort_group_all_reduce(group, send, recv, 1, COHORT_I32,
	                                     COHORT_SUM, NULL, &ticket),
	             COHORT_OK, "%s", cohort_last_error());
	cr_assert_eq(cohort_group_wait(group, ticket, COHORT_FOREVER),
	             COHORT_OK);
	return test_now() - began;
}

/*
 * A call is in flight at all times. It can be overdue only if this thread had
 * to wait for a core.
 */
Test(quiet, library_threads_make_no_native_call_before_one_is_overdue)
{
	struct cohort_group *group = ranks_open(2, NULL);
	unsigned long before, calls, allowed;
	const char *last;
	uint64_t until;

	spread_not("the test makes the calls of all ranks");
	witness_ignore();
	/* Do not count the calls that opened the group. */
	before = witness_calls(&last);
	allowed = CALLS * (sum(group) / LATE);
	until = test_now() + SPAN;
	while (test_now() < until)
		allowed += CALLS * (sum(group) / LATE);
	calls = witness_calls(&last) - before;
	cr_assert_leq(calls, allowed, "%lu calls, the last of %s; %lu allowed",
	              calls, last, allowed);
	expect_close(group);
}
