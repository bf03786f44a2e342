/* SPDX-License-Identifier: Apache-2.0 */

#include "core/comm_lock.h"

#include <sched.h>

#include "base/backoff.h"
#include "base/process.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/hazard.h"
#include "core/launch_lock.h"
#include "core/owner.h"

bool comm_protect(const struct cohort_comm *c)
{
	hazard_announce(c);
	/* Acquire: in this order.  Freed memory has the flag of one that was
	 * not forgotten, but no clique. */
	return !atomic_load_explicit(&c->is_forgotten, memory_order_acquire) &&
	       c->clique;
}

int comm_check(const struct cohort_comm *c)
{
	if (!c)
		return error_set(COHORT_INVALID, "comm is NULL");
	if (!comm_protect(c))
		return error_set(
			COHORT_STALE,
			"the communicator is of a generation that was "
			"forgotten: its group has been respawned %d times "
			"since",
			FORMER_KEPT + 1);
	return process_check();
}

enum purpose { TO_SUBMIT, WITH_CAUSE, TO_CLOSE };

/* What this thread may enter although another one is bound to it. */
static __thread const struct cohort_comm *helped;

const struct cohort_comm *comm_help(const struct cohort_comm *c)
{
	const struct cohort_comm *before = helped;

	helped = c;
	return before;
}

int comm_refuse_owner(const struct cohort_comm *c)
{
	return error_set(COHORT_OWNER, "rank %d is bound to another thread",
	                 c->rank);
}

/* Once the clique is stale, any thread may ask, and give back what it has. */
int comm_check_owner(const struct cohort_comm *c)
{
	uintptr_t owner =
		atomic_load_explicit(&c->lock.owner, memory_order_relaxed);

	if (owner && owner != owner_self() && c != helped &&
	    !atomic_load(&c->clique->stale))
		return comm_refuse_owner(c);
	return COHORT_OK;
}

static uintptr_t staging_thread_of(const struct cohort_comm *c)
{
	/* Acquire: what the call before has done.  Pairs with comm_unkeep(). */
	return atomic_load_explicit(&c->lock.staging_thread,
	                            memory_order_acquire);
}

void comm_keep(struct cohort_comm *c)
{
	/* Relaxed: the lock orders it. */
	atomic_store_explicit(&c->lock.staging_thread, owner_self(),
	                      memory_order_relaxed);
}

void comm_unkeep(struct cohort_comm *c)
{
	if (staging_thread_of(c) == owner_self())
		atomic_store_explicit(&c->lock.staging_thread, 0,
		                      memory_order_release);
}

bool comm_is_kept(const struct cohort_comm *c)
{
	return staging_thread_of(c);
}

bool comm_is_taken(const struct cohort_comm *c)
{
	return atomic_load(&c->lock.held) || comm_is_kept(c);
}

static int check_owner(const struct cohort_comm *c, enum purpose purpose)
{
	return purpose == TO_CLOSE && clique_cause(c->clique)
	               ? COHORT_OK
	               : comm_check_owner(c);
}

int comm_refuse_stale(const struct cohort_comm *c)
{
	const struct clique *q = c->clique;
	const struct cohort_cause *cause = clique_cause(q);
	const char *before = cause ? "; the cause: " : "";
	const char *text = cause ? cause->text : "";

	if (atomic_load(&q->replaced))
		return error_set(COHORT_STALE,
		                 "rank %d: generation %d was replaced by a "
		                 "respawn; use the communicators of the new "
		                 "split%s%s",
		                 c->rank, q->generation, before, text);
	if (atomic_load(&q->stale) || !cause)
		return error_set(COHORT_STALE,
		                 "rank %d: the group was closed%s%s", c->rank,
		                 before, text);
	return error_set(COHORT_STALE,
	                 "rank %d: its worker was left behind; the cause: %s",
	                 c->rank, text);
}

/* The clique has a cause, or was closed in order. */
static int refuse_ended(const struct cohort_comm *c)
{
	const struct cohort_cause *cause = clique_explained_cause(c->clique);

	if (cause && !atomic_load(&c->clique->stale) &&
	    !atomic_load(&c->thread.abandoned))
		return cause_error(cause);
	return comm_refuse_stale(c);
}

static int check_entry(const struct cohort_comm *c, enum purpose purpose)
{
	/* Checked again inside, where the owner cannot change. */
	int rc = check_owner(c, purpose);
	uintptr_t keeper = staging_thread_of(c);

	if (rc != COHORT_OK)
		return rc;
	if (keeper && keeper != owner_self())
		return error_set(COHORT_BUSY,
		                 "another thread is inside a call with host "
		                 "memory of rank %d",
		                 c->rank);
	if (atomic_load_explicit(&c->lock.closed, memory_order_relaxed))
		return error_set(COHORT_STATE,
		                 "the communicator of rank %d was closed",
		                 c->rank);
	return purpose == TO_SUBMIT && cause_or_closing(c->clique->end)
	               ? refuse_ended(c)
	               : COHORT_OK;
}

static int enter(struct cohort_comm *c, enum purpose purpose)
{
	/* Checked before the lock: a thread that may not enter must not keep
	 * the owner out. */
	int rc = check_owner(c, purpose);

	if (rc != COHORT_OK)
		return rc;
	/* seq_cst, see cause.h: first the lock, then the cause. */
	while (atomic_exchange(&c->lock.held, 1)) {
		if (staging_thread_of(c) != owner_self())
			return error_set(COHORT_BUSY,
			                 "another thread is inside the "
			                 "communicator of rank %d",
			                 c->rank);
		sched_yield(); /* the other thread will be refused at once */
	}
	rc = check_entry(c, purpose);
	if (rc != COHORT_OK)
		comm_leave(c);
	else
		atomic_store_explicit(&c->lock.tid, thread_id(),
		                      memory_order_relaxed);
	return rc;
}

int comm_enter(struct cohort_comm *c, bool with_cause)
{
	return enter(c, with_cause ? WITH_CAUSE : TO_SUBMIT);
}

int comm_enter_to_close(struct cohort_comm *c)
{
	return enter(c, TO_CLOSE);
}

void comm_leave(struct cohort_comm *c)
{
	/* Release: what was done inside.  Nothing is looked at after it. */
	atomic_store_explicit(&c->lock.held, 0, memory_order_release);
}

int comm_refuse_detached(const struct cohort_comm *c, int status,
                         const char *what)
{
	return error_set(status,
	                 "%s: ticket %llu of rank %d, a call with host memory "
	                 "that timed out, is not launched",
	                 what, (unsigned long long)c->left.ticket, c->rank);
}

int comm_await_detached(struct cohort_comm *c)
{
	struct backoff b = BACKOFF;

	while (atomic_load(&c->lock.is_detached)) {
		if (clique_cause(c->clique))
			return clique_error(c->clique);
		/* The launch of that call waits for the end of this thread's
		 * section. */
		if (memory_section_is_open())
			return comm_refuse_detached(
				c, COHORT_STATE,
				"called between cohort_quiet_begin() and "
				"cohort_quiet_end()");
		backoff_wait(&b, UINT64_MAX);
	}
	return COHORT_OK;
}
