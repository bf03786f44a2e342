/* SPDX-License-Identifier: Apache-2.0 */

#include "core/owner.h"

#include <pthread.h>

#include "base/list.h"
#include "base/process.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/clique.h"
#include "core/clique_tree.h"
#include "core/comm_lock.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Constant after the first bind; its value in a thread is only there so that
 * the destructor runs. */
static pthread_key_t key;
static bool key_is_made;

/* Guarded by lock: communicators that have an owner. */
static struct cohort_comm *owned;

static uintptr_t load_owner(const struct cohort_comm *c)
{
	return atomic_load_explicit(&c->lock.owner, memory_order_relaxed);
}

/* Relaxed: a thread that is not the owner has no use for what the owner did
 * before; the lock orders the rest. */
static void store_owner(struct cohort_comm *c, uintptr_t owner)
{
	atomic_store_explicit(&c->lock.owner, owner, memory_order_relaxed);
}

/* Take *@at out of the list. */
static void unlink_locked(struct cohort_comm **at)
{
	struct cohort_comm *c = *at;

	*at = c->thread.next_owned;
	store_owner(c, 0);
}

static struct cohort_comm **find_locked(const struct cohort_comm *c)
{
	struct cohort_comm **at = &owned;

	while (*at && *at != c)
		at = &(*at)->thread.next_owned;
	return at;
}

static void fire(struct cohort_comm *c)
{
	const struct cohort_cause cause = {
		.status = COHORT_THREAD_EXITED,
		.kind = COHORT_VERDICT_THREAD_EXITED,
		.rank = c->rank,
	};
	char name[THREAD_NAME_SIZE] = "?", who[RANK_NAME_SIZE];

	pthread_getname_np(pthread_self(), name, sizeof(name));
	clique_fire(c->clique, &cause,
	            "the thread of %s (%d \"%s\") has exited",
	            clique_name_rank(c->clique, c->rank, who), thread_id(),
	            name);
}

void (*_Atomic owner_exits)(struct cohort_comm *comm);

/* Let owner_exits() end the cliques of this thread's communicators with a
 * better cause than the exit.  Without the lock, as that takes its time. */
static void explain_exit(void)
{
	struct cohort_comm *c = NULL, *last = NULL;

	for (;;) {
		pthread_mutex_lock(&lock);
		for (c = last ? last->thread.next_owned : owned; c;
		     c = c->thread.next_owned)
			if (load_owner(c) == owner_self() &&
			    !atomic_load(&c->lock.closed))
				break;
		pthread_mutex_unlock(&lock);
		if (!c)
			return;
		atomic_load (&owner_exits)(c);
		last = c;
	}
}

/* A thread's end.  The communicators stay bound to nobody; a lock that it left
 * occupied stays so, and the abort will find it wedged. */
static void thread_exits(void *unused)
{
	struct cohort_comm **at = &owned, *kept = NULL, *c;
	struct clique *kept_by;

	(void)unused;
	if (process_is_child())
		return; /* the lock may be held by a thread that is not here */
	if (atomic_load(&owner_exits))
		explain_exit();
	pthread_mutex_lock(&lock);
	while ((c = *at)) {
		if (load_owner(c) != owner_self()) {
			at = &c->thread.next_owned;
			continue;
		}
		atomic_store(&(*at)->thread.orphaned, true);
		/* A closed rank has no next call that would be missed. */
		if (!atomic_load(&c->lock.closed))
			fire(c);
		unlink_locked(at);
		if (c->thread.kept_by) {
			c->thread.next_owned = kept;
			kept = c;
		}
	}
	pthread_mutex_unlock(&lock);
	/* Without the lock: each may hold the last reference to its family. */
	while ((c = kept)) {
		kept = c->thread.next_owned;
		kept_by = c->thread.kept_by;
		c->thread.kept_by = NULL;
		clique_put_straggler(kept_by);
	}
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

bool owner_is_self(const struct cohort_comm *c)
{
	return load_owner(c) == owner_self();
}

/* Checked again here: the lock lets any thread in once the clique is stale. */
int owner_bind(struct cohort_comm *c)
{
	uintptr_t owner = load_owner(c);
	bool is_stale;

	if (owner)
		return owner == owner_self() ? COHORT_ALREADY
		                             : comm_refuse_owner(c);
	if (!watch_this_thread())
		return error_set(COHORT_SYSTEM,
		                 "cannot watch for the end of this thread");
	pthread_mutex_lock(&lock);
	is_stale = atomic_load(&c->clique->stale);
	if (!is_stale) {
		c->thread.next_owned = owned;
		owned = c;
		store_owner(c, owner_self());
	}
	pthread_mutex_unlock(&lock);
	return is_stale ? comm_refuse_stale(c) : COHORT_OK;
}

int owner_unbind(struct cohort_comm *c)
{
	uintptr_t owner = load_owner(c);
	struct clique *kept_by;

	if (owner != owner_self())
		return owner ? comm_refuse_owner(c) : COHORT_ALREADY;
	pthread_mutex_lock(&lock);
	clique_get(c->clique);
	unlink_locked(find_locked(c));
	kept_by = c->thread.kept_by;
	c->thread.kept_by = NULL;
	pthread_mutex_unlock(&lock);
	if (kept_by)
		clique_put_straggler(kept_by);
	return COHORT_OK;
}

void owner_forget(const struct clique *q)
{
	struct cohort_comm **at = &owned;

	pthread_mutex_lock(&lock);
	while (*at)
		if ((*at)->clique == q)
			unlink_locked(at);
		else
			at = &(*at)->thread.next_owned;
	pthread_mutex_unlock(&lock);
}

void owner_keep(struct clique *q)
{
	struct clique *root = clique_tree_root(q);
	struct cohort_comm **at = &owned, *c;
	int kept = 0;

	pthread_mutex_lock(&lock);
	while ((c = *at)) {
		/* Including communicators of what was split from it and closed
		 * before it. */
		if ((c->clique == q || c->thread.kept_by == q) &&
		    load_owner(c) == owner_self()) {
			kept += c->thread.kept_by != NULL; /* by @root */
			c->thread.kept_by = NULL;
			unlink_locked(at);
			continue;
		}
		if (c->clique == q && !c->thread.kept_by) {
			clique_get_straggler(root);
			c->thread.kept_by = root;
		}
		at = &c->thread.next_owned;
	}
	pthread_mutex_unlock(&lock);
	while (kept--)
		clique_put_straggler(root);
}
