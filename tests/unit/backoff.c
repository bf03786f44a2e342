/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Deadlines and waits; no test here depends on how long anything takes
 */

#include <criterion/criterion.h>

#include "base/backoff.h"
#include "base/clock.h"

TestSuite(backoff, .timeout = 30);

Test(backoff, a_timeout_of_for_ever_never_expires)
{
	cr_assert_eq(clock_deadline(UINT64_MAX), UINT64_MAX);
	cr_assert_eq(clock_deadline(UINT64_MAX - 1), UINT64_MAX);
}

Test(backoff, deadlines_come_after_now)
{
	uint64_t before = clock_now();

	cr_assert_geq(clock_deadline(5), before + 5);
	cr_assert_leq(before, clock_now());
}

Test(backoff, waits_end)
{
	uint64_t deadline = clock_deadline(2 * 1000 * 1000);
	struct backoff b = BACKOFF;

	while (clock_now() < deadline)
		backoff_wait(&b, deadline);
	cr_assert_geq(clock_now(), deadline);
}
