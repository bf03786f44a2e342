/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the detection of periods in which the process was not running, and
 * of how these periods shift a clock
 */

#include <criterion/criterion.h>

#include "base/random.h"
#include "watch/stops.h"

#define GROSS 100

TestSuite(stops);

static struct stops s;

static bool note(uint64_t from, uint64_t asked, uint64_t now)
{
	return stops_record(&s, from, asked, now, GROSS);
}

Test(stops, short_delay_does_not_count_as_a_process_stop)
{
	cr_assert_not(note(1000, 1500, 1400)); /* the thread woke up early */
	cr_assert_not(note(1000, 1500, 1600));
	cr_assert_eq(s.n, 0);
	cr_assert(note(1000, 1500, 1601));
	cr_assert_eq(s.n, 1);
}

Test(stops, deadline_clock_stands_still_while_the_process_is_stopped)
{
	note(1000, 1010, 5000);
	/* 600 ns had passed before the stop. */
	cr_assert_eq(stops_shift(&s, 400), 4400);
	cr_assert_eq(stops_shift(&s, 1000), 5000);
	cr_assert_eq(stops_shift(&s, 3000), 5000);
	cr_assert_eq(stops_shift(&s, 5000), 5000);
	cr_assert_eq(stops_shift(&s, 5001), 5001);
}

Test(stops, each_of_several_process_stops_counts_once)
{
	note(1000, 1010, 2000);
	note(2500, 2510, 4000);
	cr_assert_eq(stops_shift(&s, 900), 900 + 1000 + 1500);
	cr_assert_eq(stops_shift(&s, 2100), 2100 + 1500);
	cr_assert_eq(stops_shift(&s, 3000), 4000);
}

Test(stops, oldest_process_stops_are_merged_into_one_of_equal_length)
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

/* ---- delays that are not stops ------------------------------------------ */

static uint64_t active(uint64_t cpu, uint64_t delayed, int cores)
{
	const struct activity before = { 5000, 700 };
	const struct activity now = { 5000 + cpu, 700 + delayed };

	return stops_active_ns(&before, &now, cores);
}

Test(stops, process_is_active_while_its_threads_run_on_all_cores)
{
	cr_assert_eq(active(0, 0, 2), 0);
	cr_assert_eq(active(800, 0, 1), 800);
	cr_assert_eq(active(800, 0, 16), 50);
}

Test(stops, process_is_active_while_its_thread_waits_for_a_core)
{
	cr_assert_eq(active(0, 300, 2), 300);
	cr_assert_eq(active(800, 300, 2), 400);
}

/* The watchdog treats the time in which the process was active as part of the
 * sleep that it requested. */
Test(stops, only_the_inactive_part_of_a_delay_counts_as_a_stop)
{
	cr_assert_not(note(1000 + 7900, 1010 + 7900, 9000));
	cr_assert_eq(stops_shift(&s, 900), 900);
	cr_assert(note(9000 + 3000, 9010 + 3000, 17000));
	cr_assert_eq(stops_shift(&s, 900), 900 + 5000);
}

/* If every delay counted as a stop, a hang would never be found on a machine
 * that is always late. */
Test(stops, thread_that_always_oversleeps_does_not_count_as_a_stop)
{
	uint64_t t = 10000;
	int i;

	for (i = 0; i < STOPS_IN_A_ROW; i++, t += 1000) {
		cr_assert(note(t, t + 1, t + 1000));
		cr_assert_not(note(t + 1000, t + 1000, t + 1001));
	}
	cr_assert_not(note(t, t + 1, t + 1000));
	/* An ordinary delay ends the series of long ones. */
	cr_assert_not(note(t + 1000, t + 2000, t + 2050));
	cr_assert(note(t + 2050, t + 2051, t + 9000));
}

static uint64_t state = 1;

static uint64_t below(uint64_t n)
{
	return random_next(&state) % n;
}

/*
 * Check random clocks:
 *
 *  - a clock is never moved back or past the last stop
 *  - the order of two clocks does not change
 *  - a clock that starts at 0 measures exactly the time that the process ran
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

Test(stops, clocks_shifted_by_random_stops_obey_the_rules)
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
