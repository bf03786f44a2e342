/* SPDX-License-Identifier: Apache-2.0 */

#include "base/process.h"

#include <pthread.h>
#include <stdatomic.h>

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

int process_check(void)
{
	if (!process_is_forked())
		return COHORT_OK;
	return error_set(COHORT_FORKED, "in the child of a fork");
}
