/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Deadlines and waits; where a test depends on how long something takes, it is compared with
 * something else
 */

#include <criterion/criterion.h>
#include <pthread.h>

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

/* A backoff that would sleep for an hour, but for the bounds of a nap. */
static struct backoff late(void)
{
	return (struct backoff){ .started_ns = 1, .rounds = 1000 };
}

/* How long 1,000 waits take that have waited for long. */
static uint64_t time_waits(struct waited_word *w, uint64_t value)
{
	const uint64_t began = clock_now();
	struct backoff b = late();
	int i;

	for (i = 0; i < 1000; i++)
		backoff_wait_on(&b, UINT64_MAX, w, value);
	return clock_now() - began;
}

Test(backoff, a_word_that_has_changed_is_not_slept_on)
{
	struct waited_word w = { .word = 8 };
	const uint64_t asleep_ns = time_waits(NULL, 0);

	cr_assert_lt(10 * time_waits(&w, 7), asleep_ns);
	/* The upper half is not looked at. */
	cr_assert_lt(asleep_ns, 10 * time_waits(&w, (UINT64_C(1) << 32) + 8));
}

/* Whose turn it is. */
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

/* Each wait lasts until the other thread's change, not until the end of a nap. */
Test(backoff, a_change_wakes_the_thread_that_sleeps_on_the_word)
{
	const uint64_t began = clock_now();
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, take_odd_turns, NULL), 0);
	take_turns(0);
	pthread_join(thread, NULL);
	cr_assert_lt(2 * (clock_now() - began), time_waits(NULL, 0));
	cr_assert_eq(atomic_load(&turns.sleepers), 0);
}
