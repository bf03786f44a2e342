/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_SCOPED_LOCK_H
#define BASE_SCOPED_LOCK_H

/* Mutexes that are held until the end of a block */

#include <pthread.h>

static inline pthread_mutex_t *scoped_lock_acquire(pthread_mutex_t *mutex)
{
	pthread_mutex_lock(mutex);
	return mutex;
}

static inline void scoped_lock_release(pthread_mutex_t *const *mutex)
{
	pthread_mutex_unlock(*mutex);
}

/* Acquire @mutex and release it at the end of the enclosing block, no matter
 * how the thread leaves the block. */
#define SCOPED_LOCK(mutex) SCOPED_LOCK_AT(mutex, __LINE__)
#define SCOPED_LOCK_AT(mutex, line) SCOPED_LOCK_NAMED(mutex, line)
#define SCOPED_LOCK_NAMED(mutex, line)                                         \
	pthread_mutex_t *const scoped_lock_##line                              \
		__attribute__((cleanup(scoped_lock_release), unused)) =        \
			scoped_lock_acquire(mutex)

#endif
