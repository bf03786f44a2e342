/* SPDX-License-Identifier: Apache-2.0 */

#include "base/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/pages.h"
#include "base/scoped_lock.h"
#include "base/status.h"

/* Word that @original points to until process_watch() is called, or always if
 * the kernel cannot wipe pages. */
static atomic_bool unwiped = true;

/* Atomic; pid of the process that is watched, or 0. */
static _Atomic pid_t watched;

/* Atomic; pointer to a word that is true except in a forked child.  Once the
 * process is watched, the word is in a page that the kernel wipes for every
 * child, no matter how the child is created (Linux 4.14). */
static atomic_bool *_Atomic original = &unwiped;

static void mark_forked(void)
{
	atomic_bool *at = atomic_load_explicit(&original, memory_order_relaxed);

	atomic_store_explicit(at, false, memory_order_relaxed);
}

static void map_fork_flag(void)
{
	const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
	atomic_bool *page = pages_alloc(bytes);

	atomic_store_explicit(&watched, getpid(), memory_order_release);
	/* This handler notices fork() even if the kernel cannot wipe pages. */
	pthread_atfork(NULL, NULL, mark_forked);
	if (!page)
		return;
	/* QEMU's user mode accepts any advice, even -1, but ignores it. */
	if (!madvise(page, bytes, -1) ||
	    madvise(page, bytes, MADV_WIPEONFORK)) {
		pages_free(page, bytes);
		return;
	}
	atomic_init(page, true);
	atomic_store_explicit(&original, page, memory_order_release);
}

void process_watch(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, map_fork_flag);
}

static bool is_other_process(void)
{
	pid_t pid = atomic_load_explicit(&watched, memory_order_acquire);

	return pid && pid != getpid();
}

bool process_is_forked(void)
{
	atomic_bool *at = atomic_load_explicit(&original, memory_order_acquire);

	return !atomic_load_explicit(at, memory_order_relaxed) ||
	       (at == &unwiped && is_other_process());
}

bool process_is_child(void)
{
	return process_is_forked() || is_other_process();
}

uint64_t process_number(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static uint64_t number; /* guarded by lock */

	SCOPED_LOCK(&lock);
	if (!number &&
	    getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number))
		number = 0;
	return number;
}

static int check(bool is_child)
{
	if (!is_child)
		return COHORT_OK;
	return error_set(COHORT_FORKED,
	                 "this is a forked child, in which the library cannot "
	                 "be used");
}

int process_check(void)
{
	return check(process_is_forked());
}

int process_check_closely(void)
{
	return check(process_is_child());
}
