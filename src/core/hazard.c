/* SPDX-License-Identifier: Apache-2.0 */

#include "core/hazard.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/list.h"
#include "base/scoped_lock.h"

struct hazard {
	/* Atomic; the announced communicator.  The store is a release and the
	 * load an acquire, so that the thread's accesses to the previous
	 * communicator come before a free. */
	_Atomic uintptr_t comm;

	bool is_listed;      /* used by this thread only */
	struct hazard *next; /* guarded by lock */
};

static _Thread_local struct hazard own;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct hazard *all; /* guarded by lock */

/* The key's destructor removes an exiting thread from the list.  Constant after
 * the first announcement. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool key_is_made;

/* Atomic; true if a thread could not be listed, so that its communicator is
 * unknown. */
static atomic_bool is_incomplete;

static void unlist(void *arg)
{
	struct hazard *h = arg;

	pthread_mutex_lock(&lock);
	list_remove(all, h, next);
	pthread_mutex_unlock(&lock);
	h->is_listed = false;
}

static void make_key(void)
{
	key_is_made = pthread_key_create(&key, unlist) == 0;
}

static void list_own(void)
{
	pthread_once(&once, make_key);
	own.is_listed = true;
	if (!key_is_made || pthread_setspecific(key, &own) != 0) {
		atomic_store(&is_incomplete, true);
		return;
	}
	SCOPED_LOCK(&lock);
	list_add(all, &own, next);
}

void hazard_announce(const struct cohort_comm *comm)
{
	if (!own.is_listed)
		list_own();
	atomic_store_explicit(&own.comm, (uintptr_t)comm, memory_order_release);
	/* Keep the compiler from moving later accesses before the store.  A
	 * barrier for the CPU is not needed here, because has_barrier() issues
	 * one on all threads. */
	atomic_signal_fence(memory_order_seq_cst);
}

/* Issue a full memory barrier on all threads of the process.  Return false if
 * the kernel cannot. */
static bool has_barrier(void)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0) == 0)
		return true;
	/* A process must register before its first use of this barrier. */
	return syscall(SYS_membarrier,
	               MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0) == 0 &&
	       syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0) ==
	               0;
}

bool hazard_is_announced(const void *memory, size_t bytes)
{
	const struct hazard *h;
	bool is_found = atomic_load(&is_incomplete) || !has_barrier();

	pthread_mutex_lock(&lock);
	for (h = all; h && !is_found; h = h->next)
		is_found =
			atomic_load_explicit(&h->comm, memory_order_acquire) -
				(uintptr_t)memory <
			bytes;
	pthread_mutex_unlock(&lock);
	return is_found;
}
