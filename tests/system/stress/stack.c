/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Collects the stack of a thread that is stuck in malloc() while it holds the
 * allocator's only lock
 *
 * The verdict must contain that stack and be on time: no thread that takes part
 * in the verdict may need memory.
 */

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/ranks.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

int main(void)
{
	fputs("the sanitizer has an allocator of its own\n", stderr);
	return 77;
}

#else

#define MS UINT64_C(1000000)

/* Keeps a function visible by name and on the stack. */
#define PLACE __attribute__((visibility("default"), noinline))

PLACE void stuck_with_the_lock(void);
PLACE void waiting_for_memory(void);

static atomic_bool is_back, is_there, may_go;
static int32_t values[2];
static char reported[1200];

void stuck_with_the_lock(void)
{
	const struct timespec soon = { .tv_nsec = 20000000 };

	atomic_store(&is_there, true);
	while (!atomic_load(&may_go))
		nanosleep(&soon, NULL);
}

/* ---- the allocator ---------------------------------------------------- */

static pthread_mutex_t heap = PTHREAD_MUTEX_INITIALIZER;
/* Volatile, because the compiler assumes that malloc() does not read it. */
static _Thread_local volatile bool gets_stuck;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *memory, size_t size);
void __libc_free(void *memory);

PLACE void *malloc(size_t size)
{
	void *memory;

	pthread_mutex_lock(&heap);
	if (gets_stuck)
		stuck_with_the_lock();
	memory = __libc_malloc(size);
	pthread_mutex_unlock(&heap);
	return memory;
}

PLACE void *calloc(size_t n, size_t size)
{
	void *memory;

	pthread_mutex_lock(&heap);
	memory = __libc_calloc(n, size);
	pthread_mutex_unlock(&heap);
	return memory;
}

PLACE void *realloc(void *old, size_t size)
{
	void *memory;

	pthread_mutex_lock(&heap);
	memory = __libc_realloc(old, size);
	pthread_mutex_unlock(&heap);
	return memory;
}

PLACE void free(void *memory)
{
	pthread_mutex_lock(&heap);
	__libc_free(memory);
	pthread_mutex_unlock(&heap);
}

/* ---- the ranks -------------------------------------------------------- */

void waiting_for_memory(void)
{
	void *volatile memory; /* volatile, to keep the call */

	gets_stuck = true;
	memory = malloc(100);
	gets_stuck = false;
	free(memory);
}

static int keep_stack(const struct cohort_verdict *v, void *user)
{
	(void)user;
	snprintf(reported, sizeof(reported), "%s", v->ranks[1].stack);
	/* Let that rank go before the abort completes, which can need
	 * memory. */
	atomic_store(&may_go, true);
	return 0;
}

static int go_there(struct cohort_comm *c, void *user)
{
	int rank = cohort_comm_rank(c);

	(void)user;
	if (ranks_sum_wait(c, &values[rank]) != COHORT_OK)
		return 1;
	if (rank == 1) {
		while (!atomic_load(&is_back))
			continue;
		waiting_for_memory();
		return 0;
	}
	atomic_store(&is_back, true);
	while (!atomic_load(&is_there))
		continue;
	ranks_sum_wait(c, &values[0]);
	return 0;
}

/*
 * Number of attempts. On a busy machine, a thread might not answer in time, or
 * its names might not be found in time.
 */
#define ATTEMPTS 30

static bool is_late(void)
{
	return strstr(reported, "the thread does not answer") ||
	       strstr(reported,
	              "the names of its functions were not found in time");
}

static int stall(struct cohort_cause *cause)
{
	struct cohort_group_options o;
	struct cohort_group *group;
	int rc;

	atomic_store(&is_back, false);
	atomic_store(&is_there, false);
	atomic_store(&may_go, false);
	cohort_group_options_init(&o);
	o.deadlines.join_ns = 100 * MS;
	o.stack_signal = SIGRTMIN + 3;
	o.on_verdict = keep_stack;
	group = ranks_open(2, &o);
	rc = cohort_group_run(group, go_there, NULL, cause);
	ranks_must(cohort_group_close(group), "close");
	return rc;
}

int main(void)
{
	struct cohort_cause cause;
	int i, rc = stall(&cause);

	for (i = 1; i < ATTEMPTS && rc == COHORT_STALLED && is_late(); i++)
		rc = stall(&cause);
	if (rc == COHORT_STALLED &&
	    strstr(reported, "stuck_with_the_lock+0x") &&
	    strstr(reported, " < malloc+0x") &&
	    strstr(reported, " < waiting_for_memory+0x"))
		return 0;
	fprintf(stderr, "%d: %s\nstack: %s\n", rc, cause.text, reported);
	return 1;
}

#endif
