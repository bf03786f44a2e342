/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The library's threads make no native call while nothing is overdue
 */

#include <criterion/criterion.h>

#include "base/clock.h"
#include "support/ranks.h"
#include "support/witness.h"

#define MS UINT64_C(1000000)
#define SPAN (300 * MS)   /* some looks of every thread that looks */
#define OVERDUE (10 * MS) /* well below what is asked about */

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

/* Calls of other threads while there was always something under way; -1 if the
 * machine was so busy that something was overdue. */
static long calls_while_busy(struct cohort_group *group, const char **last)
{
	const unsigned long before = witness_calls(last);
	const uint64_t until = clock_now() + SPAN;
	uint64_t longest = 0, took;

	while (clock_now() < until) {
		took = sum(group);
		if (took > longest)
			longest = took;
	}
	return longest > OVERDUE ? -1 : (long)(witness_calls(last) - before);
}

Test(quiet, nobody_is_asked_while_nothing_is_overdue)
{
	struct cohort_group *group = ranks_open(2, NULL);
	const char *last;
	long calls = -1;
	int i;

	witness_ignore();
	sum(group);
	for (i = 0; calls < 0 && i < 100; i++)
		calls = calls_while_busy(group, &last);
	cr_assert_eq(calls, 0, "%ld calls, the last of %s", calls, last);
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}
