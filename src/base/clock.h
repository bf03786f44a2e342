/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

/* Monotonic time in nanoseconds, and deadlines on that clock */

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_S UINT64_C(1000000000)

static inline uint64_t clock_read(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static inline uint64_t clock_now(void)
{
	return clock_read(CLOCK_MONOTONIC);
}

/* Return the time @timeout_ns after @now_ns.  UINT64_MAX means never. */
static inline uint64_t clock_after(uint64_t now_ns, uint64_t timeout_ns)
{
	return timeout_ns > UINT64_MAX - now_ns ? UINT64_MAX
	                                        : now_ns + timeout_ns;
}

/* Return the time @timeout_ns from now.  UINT64_MAX means never. */
static inline uint64_t clock_deadline(uint64_t timeout_ns)
{
	if (timeout_ns == UINT64_MAX) /* saves reading the clock */
		return UINT64_MAX;
	return clock_after(clock_now(), timeout_ns);
}

/* Convert a time for a system call, which accepts at most INT64_MAX. */
static inline struct timespec clock_timespec(uint64_t time_ns)
{
	if (time_ns > INT64_MAX)
		time_ns = INT64_MAX;
	return (struct timespec){
		.tv_sec = (time_t)(time_ns / NS_PER_S),
		.tv_nsec = (long)(time_ns % NS_PER_S),
	};
}

/* Initialize a condition variable whose timed waits use CLOCK_MONOTONIC. */
static inline void clock_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

/* Wait for @sem until @deadline_ns.  Return true if it was posted. */
static inline bool clock_await(sem_t *sem, uint64_t deadline_ns)
{
	struct timespec until = clock_timespec(deadline_ns);
	int rc;

	do
		rc = sem_clockwait(sem, CLOCK_MONOTONIC, &until);
	while (rc && errno == EINTR);
	return rc == 0;
}

#endif
