/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Times in which the process did not run: which ones are noticed, and how they
 * change a clock
 */

#include <criterion/criterion.h>

#include "base/random.h"
#include "watch/stops.h"

#define GROSS 100

TestSuite(stops);

static struct stops s;

static bool note(uint64_t from, uint64_t asked, uint64_t now)
{
	return stops_note(&s, from, asked, now, GROSS);
}

Test(stops, a_short_delay_is_no_stop)
{
	cr_assert_not(note(1000, 1500, 1400)); /* when it woke */
	cr_assert_not(note(1000, 1500, 1600));
	cr_assert_eq(s.n, 0);
	cr_assert(note(1000, 1500, 1601));
	cr_assert_eq(s.n, 1);
}

Test(stops, a_clock_stands_still_during_a_stop)
{
	note(1000, 1010, 5000);
	cr_assert_eq(stops_shift(&s, 400),
	             4400); /* 600 before the stop have passed */
	cr_assert_eq(stops_shift(&s, 1000), 5000);
	cr_assert_eq(stops_shift(&s, 3000), 5000);
	cr_assert_eq(stops_shift(&s, 5000), 5000);
	cr_assert_eq(stops_shift(&s, 5001), 5001);
}

Test(stops, each_of_several_stops_counts_once)
{
	note(1000, 1010, 2000);
	note(2500, 2510, 4000);
	cr_assert_eq(stops_shift(&s, 900), 900 + 1000 + 1500);
	cr_assert_eq(stops_shift(&s, 2100), 2100 + 1500);
	cr_assert_eq(stops_shift(&s, 3000), 4000);
}

Test(stops, the_oldest_ones_are_merged_into_one_of_their_length)
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

/* ---- what is no stop ---------------------------------------------------- */

static uint64_t active(uint64_t cpu, uint64_t delayed, int cores)
{
	const struct activity before = { 5000, 700 };
	const struct activity now = { 5000 + cpu, 700 + delayed };

	return stops_active_ns(&before, &now, cores);
}

Test(stops, a_process_is_active_while_its_threads_run_on_all_cores)
{
	cr_assert_eq(active(0, 0, 2), 0);
	cr_assert_eq(active(800, 0, 1), 800);
	cr_assert_eq(active(800, 0, 16), 50);
}

Test(stops, a_process_is_active_while_its_thread_waits_for_a_core)
{
	cr_assert_eq(active(0, 300, 2), 300);
	cr_assert_eq(active(800, 300, 2), 400);
}

/* The watchdog passes active time as if it had meant to sleep for longer. */
Test(stops, only_the_rest_of_a_delay_is_a_stop)
{
	cr_assert_not(note(1000 + 7900, 1010 + 7900, 9000));
	cr_assert_eq(stops_shift(&s, 900), 900);
	cr_assert(note(9000 + 3000, 9010 + 3000, 17000));
	cr_assert_eq(stops_shift(&s, 900), 900 + 5000);
}

/* A machine that is always late would otherwise never find a hang. */
Test(stops, a_process_that_always_oversleeps_is_not_stopped)
{
	uint64_t t = 10000;
	int i;

	for (i = 0; i < STOPS_IN_A_ROW; i++, t += 1000) {
		cr_assert(note(t, t + 1, t + 1000));
		cr_assert_not(note(t + 1000, t + 1000, t + 1001));
	}
	cr_assert_not(note(t, t + 1, t + 1000));
	/* an ordinary delay */
	cr_assert_not(note(t + 1000, t + 2000, t + 2050));
	cr_assert(note(t + 2050, t + 2051, t + 9000));
}

static uint64_t state = 1;

static uint64_t below(uint64_t n)
{
	return random_next(&state) % n;
}

/*
 * A clock is never moved back, nor past the last stop; a later clock never
 * comes before an earlier one; and time in which the process ran is not given
 * back.
 */
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

Test(stops, keep_their_rules_for_random_times)
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
