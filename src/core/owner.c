/* SPDX-License-Identifier: Apache-2.0 */

#include "core/owner.h"

#include <pthread.h>

#include "base/process.h"
#include "base/scoped_lock.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/clique.h"
#include "core/clique_tree.h"
#include "core/comm_lock.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Constant after the first bind.  A thread sets a value for the key only to
 * make the destructor run. */
static pthread_key_t key;
static bool key_is_made;

/* Communicators that have an owner.  Guarded by lock. */
static struct cohort_comm *owned;

static uintptr_t load_owner(const struct cohort_comm *c)
{
	return atomic_load_explicit(&c->lock.owner, memory_order_relaxed);
}

/* Relaxed, because a thread that is not the owner does not need to see the
 * owner's earlier stores.  The lock orders everything else. */
static void store_owner(struct cohort_comm *c, uintptr_t owner)
{
	atomic_store_explicit(&c->lock.owner, owner, memory_order_relaxed);
}

/* Remove *@at from the list of owned communicators, and clear its owner. */
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

/* Let owner_exits() end the cliques of this thread's communicators with a cause
 * that is more specific than the thread's exit.  Call it without the lock,
 * because owner_exits() takes time. */
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

/* Unbind the communicators of a thread that exits.  A communicator lock that
 * the thread holds stays held, so the abort will end as WEDGED. */
static void thread_exits(void *unused)
{
	struct cohort_comm **at = &owned, *kept = NULL, *c;
	struct clique *kept_by;

	(void)unused;
	if (process_is_child())
		return; /* in a forked child, the lock may stay held */
	if (atomic_load(&owner_exits))
		explain_exit();
	pthread_mutex_lock(&lock);
	while ((c = *at)) {
		if (load_owner(c) != owner_self()) {
			at = &c->thread.next_owned;
			continue;
		}
		atomic_store(&(*at)->thread.orphaned, true);
		/* A closed rank makes no further call, so the exit need not end
		 * the clique. */
		if (!atomic_load(&c->lock.closed))
			fire(c);
		unlink_locked(at);
		if (c->thread.kept_by) {
			c->thread.next_owned = kept;
			kept = c;
		}
	}
	pthread_mutex_unlock(&lock);
	/* Release the references without the lock, because the last one frees
	 * cliques. */
	while ((c = kept)) {
		kept = c->thread.next_owned;
		kept_by = c->thread.kept_by;
		c->thread.kept_by = NULL;
		clique_put_abandoned(kept_by);
	}
}

static void make_key(void)
{
	key_is_made = pthread_key_create(&key, thread_exits) == 0;
}

static bool end_ranks_at_exit(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_key);
	return key_is_made && pthread_setspecific(key, &lock) == 0;
}

bool owner_is_self(const struct cohort_comm *c)
{
	return load_owner(c) == owner_self();
}

int owner_bind(struct cohort_comm *c)
{
	/* Check the owner again, because the communicator's lock lets any
	 * thread enter once the clique is stale. */
	uintptr_t owner = load_owner(c);
	bool is_stale;

	if (owner)
		return owner == owner_self() ? COHORT_ALREADY
		                             : comm_refuse_owner(c);
	if (!end_ranks_at_exit())
		return error_set(COHORT_SYSTEM,
		                 "cannot bind rank %d: cannot register a "
		                 "handler for the exit of this thread",
		                 c->rank);
	pthread_mutex_lock(&lock);
	is_stale = atomic_load(&c->clique->stale);
	if (!is_stale) {
		c->thread.next_owned = owned;
		owned = c;
		atomic_store_explicit(&c->lock.owner_tid, thread_id(),
		                      memory_order_relaxed);
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
		clique_put_abandoned(kept_by);
	return COHORT_OK;
}

void owner_forget(const struct clique *q)
{
	struct cohort_comm **at = &owned;

	SCOPED_LOCK(&lock);
	while (*at)
		if ((*at)->clique == q)
			unlink_locked(at);
		else
			at = &(*at)->thread.next_owned;
}

void owner_keep(struct clique *q)
{
	struct clique *root = clique_tree_root(q);
	struct cohort_comm **at = &owned, *c;
	int kept = 0;

	pthread_mutex_lock(&lock);
	while ((c = *at)) {
		/* Also unbind communicators of cliques that were split from @q
		 * and closed before it. */
		if ((c->clique == q || c->thread.kept_by == q) &&
		    load_owner(c) == owner_self()) {
			/* The communicator was kept by a reference to @root,
			 * which is released below. */
			kept += c->thread.kept_by != NULL;
			c->thread.kept_by = NULL;
			unlink_locked(at);
			continue;
		}
		if (c->clique == q && !c->thread.kept_by) {
			clique_get_abandoned(root);
			c->thread.kept_by = root;
		}
		at = &c->thread.next_owned;
	}
	pthread_mutex_unlock(&lock);
	while (kept--)
		clique_put_abandoned(root);
}
