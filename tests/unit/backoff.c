/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of deadlines and waits
 *
 * Checks of time compare two measured durations, so that they hold on any
 * machine.
 */

#include <criterion/criterion.h>
#include <pthread.h>

#include "base/backoff.h"
#include "base/clock.h"

TestSuite(backoff, .timeout = 30);

Test(backoff, deadline_of_an_infinite_timeout_never_expires)
{
	cr_assert_eq(clock_deadline(UINT64_MAX), UINT64_MAX);
	cr_assert_eq(clock_deadline(UINT64_MAX - 1), UINT64_MAX);
}

Test(backoff, deadline_is_no_earlier_than_now_plus_the_timeout)
{
	uint64_t before = clock_now();

	cr_assert_geq(clock_deadline(5), before + 5);
	cr_assert_leq(before, clock_now());
}

Test(backoff, repeated_backoff_waits_reach_their_deadline)
{
	uint64_t deadline = clock_deadline(2 * 1000 * 1000);
	struct backoff b = BACKOFF;

	while (clock_now() < deadline)
		backoff_wait(&b, deadline);
	cr_assert_geq(clock_now(), deadline);
}

/* Return a backoff that has waited for a long time, so that its naps are the
 * longest. */
static struct backoff late(void)
{
	return (struct backoff){ .started_ns = 1, .rounds = 1000 };
}

/* Return the duration of 1,000 waits with the longest nap. */
static uint64_t time_waits(struct waited_word *w, uint64_t value)
{
	const uint64_t began = clock_now();
	struct backoff b = late();
	int i;

	for (i = 0; i < 1000; i++)
		backoff_wait_on(&b, UINT64_MAX, w, value);
	return clock_now() - began;
}

Test(backoff, backoff_wait_returns_at_once_if_the_word_has_changed)
{
	struct waited_word w = { .word = 8 };
	const uint64_t asleep_ns = time_waits(NULL, 0);

	cr_assert_lt(10 * time_waits(&w, 7), asleep_ns);
	/* Words are compared by their low 32 bits only, so these waits
	 * sleep. */
	cr_assert_lt(asleep_ns, 10 * time_waits(&w, (UINT64_C(1) << 32) + 8));
}

/* Number of turns so far. It is odd on one thread's turns, even on the
 * other's. */
static struct waited_word turns;

static void take_turns(uint64_t mine)
{
	struct backoff b;
	uint64_t word;
	int i;

	for (i = 0; i < 500; i++) {
		b = late();
		while (word = atomic_load(&turns.word), word % 2 != mine)
			backoff_wait_on(&b, UINT64_MAX, &turns, word);
		atomic_fetch_add(&turns.word, 1);
		backoff_wake(&turns);
	}
}

static void *take_odd_turns(void *unused)
{
	(void)unused;
	take_turns(1);
	return NULL;
}

/* Each wait must end as soon as the other thread changes the word, and not only
 * when a nap ends. */
Test(backoff, backoff_wake_wakes_a_thread_that_waits_on_the_word)
{
	const uint64_t began = clock_now();
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, take_odd_turns, NULL), 0);
	take_turns(0);
	pthread_join(thread, NULL);
	cr_assert_lt(2 * (clock_now() - began), time_waits(NULL, 0));
	cr_assert_eq(atomic_load(&turns.sleepers), 0);
}
