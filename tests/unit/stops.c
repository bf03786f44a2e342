/* SPDX-License-Identifier: Apache-2.0 */

/*
 * When the process did not run: what is noticed of it, and what a clock makes of it
 */

#include <criterion/criterion.h>

#include "watch/stops.h"

#define GROSS 100

TestSuite(stops);

static struct stops s;

static bool note(uint64_t from, uint64_t asked, uint64_t now)
{
	return stops_note(&s, from, asked, now, GROSS);
}

Test(stops, what_is_a_little_late_is_no_stop)
{
	cr_assert_not(note(1000, 1500, 1400)); /* was woken */
	cr_assert_not(note(1000, 1500, 1600));
	cr_assert_eq(s.n, 0);
	cr_assert(note(1000, 1500, 1601));
	cr_assert_eq(s.n, 1);
}

Test(stops, a_clock_stands_still_during_a_stop)
{
	note(1000, 1010, 5000);
	cr_assert_eq(stops_shift(&s, 400),
	             4400); /* 600 before it have passed */
	cr_assert_eq(stops_shift(&s, 1000), 5000);
	cr_assert_eq(stops_shift(&s, 3000), 5000);
	cr_assert_eq(stops_shift(&s, 5000), 5000);
	cr_assert_eq(stops_shift(&s, 5001), 5001);
}

Test(stops, of_several_stops_each_counts_once)
{
	note(1000, 1010, 2000);
	note(2500, 2510, 4000);
	cr_assert_eq(stops_shift(&s, 900), 900 + 1000 + 1500);
	cr_assert_eq(stops_shift(&s, 2100), 2100 + 1500);
	cr_assert_eq(stops_shift(&s, 3000), 4000);
}

Test(stops, the_oldest_are_kept_as_one_of_their_length)
{
	uint64_t t;
	int i;

	for (i = 0; i < 3 * STOPS_KEPT; i++) {
		t = 10000 + 1000 * (uint64_t)i;
		cr_assert(note(t, t + 1, t + 500));
		note(t + 500, t + 600, t + 600);
	}
	cr_assert_eq(s.n, STOPS_KEPT);
	cr_assert_eq(stops_shift(&s, 0), 3 * STOPS_KEPT * 500);
}

/* A machine that is always late would otherwise never find anything. */
Test(stops, who_always_oversleeps_is_not_stopped)
{
	uint64_t t = 10000;
	int i;

	for (i = 0; i < STOPS_IN_A_ROW; i++, t += 1000) {
		cr_assert(note(t, t + 1, t + 1000));
		cr_assert_not(note(t + 1000, t + 1000, t + 1001));
	}
	cr_assert_not(note(t, t + 1, t + 1000));
	cr_assert_not(note(t + 1000, t + 2000, t + 2050)); /* an ordinary one */
	cr_assert(note(t + 2050, t + 2051, t + 9000));
}

static uint64_t state = 1;

static uint64_t below(uint64_t n)
{
	state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (state >> 33) % n;
}

/* A clock is never moved back, nor past the last stop; a later one never comes before
 * an earlier; and what ran in between is not given back. */
static void check_random(uint64_t end, uint64_t ran)
{
	uint64_t a = below(end), b = below(end), x, y;

	x = stops_shift(&s, a);
	y = stops_shift(&s, b);
	cr_assert_geq(x, a);
	cr_assert(x == a || x <= s.kept[s.n - 1].to_ns);
	cr_assert(a < b ? x <= y : y <= x);
	cr_assert_eq(end - stops_shift(&s, 0), ran);
}

Test(stops, hold_what_must_hold)
{
	uint64_t t, ran, from, i, k;

	for (i = 0; i < 20000; i++) {
		s = (struct stops){ .n = 0 };
		for (k = t = ran = 0; k < 1 + below(20); k++) {
			from = t + 1 + below(1000);
			ran += from - t;
			t = from + GROSS + 2 + below(5000);
			cr_assert(note(from, from + 1, t));
			check_random(t, ran);
		}
	}
}
