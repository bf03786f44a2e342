/* SPDX-License-Identifier: Apache-2.0 */

#include "base/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/random.h>

#include "base/status.h"

/* Atomic; set by the fork, when there is one thread.  Relaxed: nobody else. */
static atomic_bool forked;

static void in_child(void)
{
	atomic_store_explicit(&forked, true, memory_order_relaxed);
}

static void watch_once(void)
{
	pthread_atfork(NULL, NULL, in_child);
}

void process_watch(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_once);
}

bool process_is_forked(void)
{
	return atomic_load_explicit(&forked, memory_order_relaxed);
}

uint64_t process_number(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static uint64_t number; /* guarded by lock */
	uint64_t drawn;

	pthread_mutex_lock(&lock);
	if (!number &&
	    getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
		number = 0;
	drawn = number;
	pthread_mutex_unlock(&lock);
	return drawn;
}

int process_check(void)
{
	if (!process_is_forked())
		return COHORT_OK;
	return error_set(COHORT_FORKED, "in the child of a fork");
}
