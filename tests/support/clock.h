/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLOCK_H
#define CLOCK_H

/*
 * The monotonic clock in nanoseconds, and waits with a deadline
 */

#include <errno.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Return the time of the monotonic clock, in nanoseconds. */
static inline uint64_t test_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Return the time @timeout_ns from now. */
static inline uint64_t test_deadline(uint64_t timeout_ns)
{
	return test_now() + timeout_ns;
}

/* Sleep briefly, between two checks for another thread's action. */
static inline void test_nap(void)
{
	const struct timespec moment = { .tv_nsec = 20000 };

	nanosleep(&moment, NULL);
}

/* Wait until @sem is posted.  Return false if it was not posted within
 * @timeout_ns. */
static inline bool test_await(sem_t *sem, uint64_t timeout_ns)
{
	const uint64_t until_ns = test_deadline(timeout_ns);
	const struct timespec until = {
		.tv_sec = (time_t)(until_ns / 1000000000),
		.tv_nsec = (long)(until_ns % 1000000000),
	};
	int rc;

	do
		rc = sem_clockwait(sem, CLOCK_MONOTONIC, &until);
	while (rc && errno == EINTR);
	return rc == 0;
}

#endif
