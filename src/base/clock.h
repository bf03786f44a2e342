/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

/*
 * Monotonic time in nanoseconds, and deadlines in it
 */

#include <stdint.h>
#include <time.h>

#define NS_PER_S UINT64_C(1000000000)

static inline uint64_t clock_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* The time @timeout_ns from now; UINT64_MAX stays "never". */
static inline uint64_t clock_deadline(uint64_t timeout_ns)
{
	uint64_t now = clock_now();

	return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

#endif
