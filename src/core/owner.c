/* SPDX-License-Identifier: Apache-2.0 */

#include "core/owner.h"

#include <pthread.h>

#include "base/process.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/clique.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Constant after the first bind; its value in a thread is only there so that the
 * destructor runs. */
static pthread_key_t key;
static bool key_is_made;

/* Guarded by lock: communicators that have an owner. */
static struct cohort_comm *owned;

static uintptr_t load_owner(const struct cohort_comm *c)
{
	return atomic_load_explicit(&c->owner, memory_order_relaxed);
}

/* Relaxed: a thread that is not the owner has no use for what the owner did
 * before; the gate orders the rest. */
static void store_owner(struct cohort_comm *c, uintptr_t owner)
{
	atomic_store_explicit(&c->owner, owner, memory_order_relaxed);
}

/* Take *@at out of the list. */
static void unlink_locked(struct cohort_comm **at)
{
	struct cohort_comm *c = *at;

	*at = c->next_owned;
	store_owner(c, 0);
}

static struct cohort_comm **find_locked(const struct cohort_comm *c)
{
	struct cohort_comm **at = &owned;

	while (*at && *at != c)
		at = &(*at)->next_owned;
	return at;
}

static void fire(struct cohort_comm *c)
{
	const struct cohort_cause cause = {
		.status = COHORT_THREAD_EXITED,
		.kind = COHORT_VERDICT_THREAD_EXITED,
		.rank = c->rank,
	};
	char name[THREAD_NAME_SIZE] = "?";

	pthread_getname_np(pthread_self(), name, sizeof(name));
	clique_fire(c->clique, &cause,
	            "the thread of rank %d (%d \"%s\") has exited", c->rank,
	            thread_id(), name);
}

/* A thread's end.  The communicators stay bound to nobody; a gate that it left
 * occupied stays so, and the abort will find it wedged. */
static void thread_exits(void *unused)
{
	struct cohort_comm **at = &owned;

	(void)unused;
	if (process_is_forked())
		return; /* the lock may be held by a thread that is not here */
	pthread_mutex_lock(&lock);
	while (*at) {
		if (load_owner(*at) != owner_self()) {
			at = &(*at)->next_owned;
			continue;
		}
		/* A rank that was closed has no next call to make. */
		if (!atomic_load(&(*at)->closed))
			fire(*at);
		unlink_locked(at);
	}
	pthread_mutex_unlock(&lock);
}

static void make_key(void)
{
	key_is_made = pthread_key_create(&key, thread_exits) == 0;
}

static bool watch_this_thread(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_key);
	return key_is_made && pthread_setspecific(key, &lock) == 0;
}

int owner_bind(struct cohort_comm *c)
{
	if (load_owner(c) == owner_self())
		return COHORT_ALREADY;
	if (!watch_this_thread())
		return error_set(COHORT_SYSTEM,
		                 "cannot watch for the end of this thread");
	pthread_mutex_lock(&lock);
	c->next_owned = owned;
	owned = c;
	store_owner(c, owner_self());
	pthread_mutex_unlock(&lock);
	return COHORT_OK;
}

int owner_unbind(struct cohort_comm *c)
{
	struct cohort_comm **at;

	if (!load_owner(c))
		return COHORT_ALREADY;
	pthread_mutex_lock(&lock);
	at = find_locked(c);
	if (*at) /* else its group was closed meanwhile */
		unlink_locked(at);
	pthread_mutex_unlock(&lock);
	return COHORT_OK;
}

void owner_forget(struct clique *q)
{
	struct cohort_comm **at = &owned;

	pthread_mutex_lock(&lock);
	while (*at) {
		if ((*at)->clique == q)
			unlink_locked(at);
		else
			at = &(*at)->next_owned;
	}
	pthread_mutex_unlock(&lock);
}
