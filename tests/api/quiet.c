/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The library's threads make no native call while nothing is overdue
 */

#include <criterion/criterion.h>

#include "base/clock.h"
#include "support/ranks.h"
#include "support/spread.h"
#include "support/witness.h"

#define MS UINT64_C(1000000)
/* several rounds of every thread that checks regularly */
#define SPAN (300 * MS)
/* the least time between two checks that find one call overdue */
#define LATE (25 * MS)
#define CALLS 6 /* native calls of one check: three for each rank */

TestSuite(quiet, .init = witness_install, .timeout = 120);

/* One collective of both ranks; returns how long it took. */
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

/*
 * There is always a call in flight.  It is overdue only if this thread had to
 * wait for a core meanwhile.
 */
Test(quiet, no_native_call_is_made_while_nothing_is_overdue)
{
	struct cohort_group *group = ranks_open(2, NULL);
	unsigned long before, calls, allowed;
	const char *last;
	uint64_t until;

	spread_not("the test calls for all ranks");
	witness_ignore();
	/* The calls with which the group was opened do not count. */
	before = witness_calls(&last);
	allowed = CALLS * (sum(group) / LATE);
	until = clock_now() + SPAN;
	while (clock_now() < until)
		allowed += CALLS * (sum(group) / LATE);
	calls = witness_calls(&last) - before;
	cr_assert_leq(calls, allowed, "%lu calls, the last of %s; %lu allowed",
	              calls, last, allowed);
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}
