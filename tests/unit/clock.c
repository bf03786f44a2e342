/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The quick clock that every call reads, beside the clock that it replaces
 */

#include <criterion/criterion.h>
#include <pthread.h>

#include "base/clock.h"

TestSuite(quick, .timeout = 60);

/* No counter has fewer ticks in a second. */
#define SLOWEST_HZ 100000000
#define BEHIND_NS (100000 * (NS_PER_S / SLOWEST_HZ))

/*
 * Long enough for the counter's rate to be known, and measured again several
 * times.
 */
#define LONG_NS (300 * UINT64_C(1000000))

static uint64_t check_once(uint64_t last)
{
	const uint64_t before = clock_now(), quick = clock_quick();
	const uint64_t after = clock_now();

	cr_assert_leq(quick, after, "ahead by %llu ns",
	              (unsigned long long)(quick - after));
	cr_assert_geq(quick + BEHIND_NS, before, "behind by %llu ns",
	              (unsigned long long)(before - quick));
	cr_assert_geq(quick, last, "back by %llu ns",
	              (unsigned long long)(last - quick));
	return quick;
}

static void *check(void *arg)
{
	const uint64_t until = clock_now() + LONG_NS;
	uint64_t last = 0;

	(void)arg;
	while (last < until)
		last = check_once(last);
	return NULL;
}

Test(quick, clock_tells_the_time_and_is_never_ahead)
{
	check(NULL);
}

/* More threads than cores, which are preempted in the middle of a reading. */
Test(quick, clock_does_so_in_threads_that_wait_for_a_core)
{
	pthread_t threads[6];
	int i;

	for (i = 0; i < 6; i++)
		pthread_create(&threads[i], NULL, check, NULL);
	for (i = 0; i < 6; i++)
		pthread_join(threads[i], NULL);
}

#ifdef CLOCK_TICKS
/* How long this thread has run. */
static uint64_t time_on_a_core(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/*
 * A counter that stood still, was set back, or runs at another rate, as may
 * happen when a virtual machine moves to another host: the clock is wrong only
 * for a while, during which the thread runs.
 */
static void change(uint64_t ticks, uint64_t rate_by)
{
	uint64_t until;

	check(NULL);
	clock_base.ticks += ticks;
	clock_base.since_ticks += ticks;
	clock_base.rate = clock_base.rate * rate_by / 16;
	until = time_on_a_core() + LONG_NS;
	while (time_on_a_core() < until)
		clock_quick();
	check(NULL);
}

Test(quick, clock_recovers_from_a_counter_that_was_set)
{
	change(UINT64_C(1) << 40, 16);
	change(-(UINT64_C(1) << 40), 16);
	change(50000, 16);
	change(0, 24);
	change(0, 8);
}
#endif
