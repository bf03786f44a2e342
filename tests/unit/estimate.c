/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of adaptive limits: the formula, and properties for random observations
 */

#include <criterion/criterion.h>

#include "base/random.h"
#include "watch/adaptive.h"

#define MS UINT64_C(1000000)
#define S (1000 * MS)
#define NEVER UINT64_MAX

TestSuite(estimate);

static struct estimate e;
static struct adaptive asked = { .factor = 8, .warmup = 3, .floor_ns = MS };

/* Add a first observation, which does not count, and @n observations of
 * @took_ns. */
static void given(uint64_t took_ns, int n)
{
	estimate_add(&e, S, 0);
	while (n--)
		estimate_add(&e, took_ns, 0);
}

static uint64_t limit(uint64_t most_ns)
{
	return estimate_limit(&e, &asked, most_ns);
}

Test(estimate, adaptive_estimate_sets_no_limit_during_the_warm_up)
{
	given(10 * MS, 2);
	cr_assert_eq(limit(NEVER), NEVER);
	cr_assert_eq(limit(5 * S), 5 * S);
	estimate_add(&e, 10 * MS, 0);
	cr_assert_eq(limit(NEVER), 80 * MS);
}

Test(estimate, adaptive_estimate_sets_no_limit_without_observations)
{
	asked.warmup = 0;
	cr_assert_eq(limit(5 * S), 5 * S);
	estimate_add(&e, S, 0);
	cr_assert_eq(limit(5 * S), 5 * S);
	estimate_add(&e, 10 * MS, 0);
	cr_assert_eq(limit(5 * S), 80 * MS);
}

Test(estimate, adaptive_estimate_sets_no_limit_if_the_factor_is_0)
{
	given(10 * MS, 100);
	asked.factor = 0;
	cr_assert_eq(limit(5 * S), 5 * S);
}

Test(estimate, adaptive_estimate_ignores_the_first_observation)
{
	given(10 * MS, 3);
	cr_assert_eq(estimate_window(&e).longest_ns, 10 * MS);
	cr_assert_eq(estimate_window(&e).count, 3);
}

Test(estimate, adaptive_estimate_has_a_floor_and_a_ceiling)
{
	given(10, 3);
	cr_assert_eq(limit(5 * S), MS);
	cr_assert_eq(limit(MS / 2), MS / 2);
	estimate_add(&e, 2 * S, 0);
	cr_assert_eq(limit(5 * S), 5 * S);
	estimate_add(&e, UINT64_MAX / 2, 0);
	cr_assert_eq(limit(NEVER), NEVER);
}

Test(estimate, adaptive_estimate_widens_at_once_after_an_outlier)
{
	given(10 * MS, 1000);
	estimate_add(&e, 70 * MS, 0);
	cr_assert_eq(limit(NEVER), 560 * MS);
}

/*
 * An outlier is forgotten only after enough time and enough later observations.
 */
Test(estimate, adaptive_estimate_forgets_an_outlier_after_two_windows)
{
	uint64_t i, t = 0;

	given(70 * MS, 1);
	for (i = 0; i < 10 * WINDOW_COUNT; i++)
		estimate_add(&e, 10 * MS, t);
	cr_assert_eq(limit(NEVER), 560 * MS, "the outlier was recent");
	for (t = i = 0; i < 3; i++)
		estimate_add(&e, 10 * MS, t += 10 * WINDOW_NS);
	cr_assert_eq(limit(NEVER), 560 * MS, "few have followed it");
	for (i = 0; i < WINDOW_COUNT; i++)
		estimate_add(&e, 10 * MS, t += WINDOW_NS);
	cr_assert_eq(limit(NEVER), 80 * MS);
}

/* ---- properties ------------------------------------------------------- */

static uint64_t state = 1;

static uint64_t below(uint64_t n)
{
	return random_next(&state) % n;
}

static uint64_t at_least(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/*
 * Check the limits after random observations:
 *
 *  - no limit is below the floor, unless the ceiling is lower, or above the
 *    ceiling
 *  - no limit is below the factor times any of the last WINDOW_COUNT
 *    observations
 *  - no limit is above the factor times the longest observation
 *  - a higher factor or a longer warm-up never makes a limit shorter
 */
static void check(const uint64_t *last, uint64_t longest, uint64_t seen)
{
	const struct adaptive higher = { .factor = asked.factor + 1,
		                         .warmup = asked.warmup,
		                         .floor_ns = asked.floor_ns };
	const struct adaptive later = { .factor = asked.factor,
		                        .warmup = asked.warmup + 1,
		                        .floor_ns = asked.floor_ns };
	uint64_t most = MS + below(100 * S), ns = limit(most), i;
	uint64_t lowest = asked.floor_ns < most ? asked.floor_ns : most;

	cr_assert_leq(ns, most);
	cr_assert_geq(ns, lowest);
	cr_assert_geq(estimate_limit(&e, &higher, most), ns);
	cr_assert_geq(estimate_limit(&e, &later, most), ns);
	if (seen <= asked.warmup) {
		cr_assert_eq(ns, most);
		return;
	}
	cr_assert_leq(ns, at_least(lowest, asked.factor * longest));
	for (i = 0; i < WINDOW_COUNT; i++)
		cr_assert(ns == most || ns >= asked.factor * last[i]);
}

static void try_some(void)
{
	uint64_t last[WINDOW_COUNT] = { 0 };
	uint64_t i, n = 5000, took, t = 0, longest = 0;

	e = (struct estimate){ .seen = 0 };
	asked.factor = 2 + (unsigned)below(20);
	asked.warmup = 1 + (unsigned)below(200);
	asked.floor_ns = below(50 * MS);
	for (i = 1; i <= n; i++) {
		took = below(below(100) ? 10 * MS : S);
		t += below(2 * WINDOW_NS / WINDOW_COUNT);
		estimate_add(&e, took, t);
		if (i > 1) {
			longest = at_least(longest, took);
			last[i % WINDOW_COUNT] = took;
		}
		if (i < 2 * asked.warmup || i % 97 == 0)
			check(last, longest, i);
		if (i <= WINDOW_COUNT)
			continue;
		cr_assert_geq(estimate_window(&e).count, WINDOW_COUNT);
	}
}

Test(estimate, adaptive_limits_of_random_observations_obey_the_rules)
{
	int i;

	for (i = 0; i < 200; i++)
		try_some();
}
