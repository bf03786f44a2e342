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
	/* The acquire makes the load of the flag precede the load of the
	 * clique.  In freed memory the flag reads as cleared, but the clique as
	 * NULL. */
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
			"the communicator's generation was freed, because its "
			"group has been respawned %d times since: use the "
			"communicators of the current generation",
			FORMER_KEPT + 1);
	return process_check();
}

enum purpose { TO_SUBMIT, WITH_CAUSE, TO_CLOSE };

/* The communicator that this thread may enter although it is bound to another
 * thread. */
static __thread const struct cohort_comm *helped;

const struct cohort_comm *comm_set_helped(const struct cohort_comm *c)
{
	const struct cohort_comm *before = helped;

	helped = c;
	return before;
}

int comm_refuse_owner(const struct cohort_comm *c)
{
	const int tid =
		atomic_load_explicit(&c->lock.owner_tid, memory_order_relaxed);
	char name[THREAD_NAME_SIZE];

	thread_lives(tid, name);
	return error_set(
		COHORT_OWNER,
		"rank %d is bound to thread %d \"%s\": only that thread may "
		"use it until it calls cohort_comm_unbind()",
		c->rank, tid, name);
}

/* If the communicator is bound to another thread, return COHORT_OWNER.  Let any
 * thread pass once the clique is stale, because any thread may then query it
 * and free its resources. */
static int check_not_bound(const struct cohort_comm *c)
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
	/* The acquire shows this thread what the previous call did; it pairs
	 * with comm_unreserve(). */
	return atomic_load_explicit(&c->lock.staging_thread,
	                            memory_order_acquire);
}

void comm_reserve(struct cohort_comm *c)
{
	/* Relaxed, because the lock orders this store. */
	atomic_store_explicit(&c->lock.staging_thread, owner_self(),
	                      memory_order_relaxed);
}

void comm_unreserve(struct cohort_comm *c)
{
	if (staging_thread_of(c) == owner_self())
		atomic_store_explicit(&c->lock.staging_thread, 0,
		                      memory_order_release);
}

bool comm_is_reserved(const struct cohort_comm *c)
{
	return staging_thread_of(c);
}

bool comm_is_in_use(const struct cohort_comm *c)
{
	return atomic_load(&c->lock.held) || atomic_load(&c->lock.holders) ||
	       comm_is_reserved(c);
}

static int check_owner(const struct cohort_comm *c, enum purpose purpose)
{
	return purpose == TO_CLOSE && clique_cause(c->clique)
	               ? COHORT_OK
	               : check_not_bound(c);
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
	                 "rank %d: its worker was abandoned; the cause: %s",
	                 c->rank, text);
}

static int refuse_ended(const struct cohort_comm *c)
{
	const struct cohort_cause *cause = clique_explained_cause(c->clique);

	if (cause && !atomic_load(&c->clique->stale) &&
	    !atomic_load(&c->thread.abandoned))
		return cause_error(cause);
	return comm_refuse_stale(c);
}

static int check_open(const struct cohort_comm *c, enum purpose purpose)
{
	if (atomic_load_explicit(&c->lock.closed, memory_order_relaxed))
		return error_set(COHORT_STATE,
		                 "the communicator of rank %d was closed",
		                 c->rank);
	return purpose == TO_SUBMIT && cause_or_closing(c->clique->end)
	               ? refuse_ended(c)
	               : COHORT_OK;
}

static int check_entry(struct cohort_comm *c, enum purpose purpose)
{
	/* Check again: now that the lock is held, the owner cannot change. */
	int rc = check_owner(c, purpose);
	uintptr_t keeper = staging_thread_of(c);

	if (rc != COHORT_OK)
		return rc;
	if (keeper && keeper != owner_self())
		return error_set(
			COHORT_BUSY,
			"rank %d: another thread is inside a call with "
			"host memory",
			c->rank);
	rc = check_open(c, purpose);
	if (rc != COHORT_OK || purpose != TO_CLOSE)
		return rc;
	/* Do not even set @closing if there is a holder, because comm_hold()
	 * fails while it is set. */
	if (!atomic_load(&c->lock.holders)) {
		atomic_store(&c->lock.closing, true);
		if (!atomic_load(&c->lock.holders))
			return COHORT_OK;
		atomic_store(&c->lock.closing, false);
	}
	return error_set(COHORT_BUSY,
	                 "rank %d: another thread is inside a call", c->rank);
}

static int lock_comm(struct cohort_comm *c, enum purpose purpose)
{
	/* Check before taking the lock, so that a thread that may not enter
	 * never blocks the owner. */
	int rc = check_owner(c, purpose);

	if (rc != COHORT_OK)
		return rc;
	/* seq_cst, because the lock must be taken before the cause is loaded:
	 * see cause.h. */
	while (atomic_exchange(&c->lock.held, 1)) {
		if (staging_thread_of(c) != owner_self())
			return error_set(COHORT_BUSY,
			                 "rank %d: another thread is inside a "
			                 "call",
			                 c->rank);
		/* Another thread has just taken the lock.  It will see the
		 * reservation and release the lock. */
		sched_yield();
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
	return lock_comm(c, with_cause ? WITH_CAUSE : TO_SUBMIT);
}

int comm_enter_to_close(struct cohort_comm *c)
{
	return lock_comm(c, TO_CLOSE);
}

void comm_leave(struct cohort_comm *c)
{
	/* The release publishes what this thread did inside.  After this store,
	 * no member may be read. */
	atomic_store_explicit(&c->lock.held, 0, memory_order_release);
}

int comm_hold(struct cohort_comm *c)
{
	int rc = check_owner(c, TO_SUBMIT);

	if (rc != COHORT_OK)
		return rc;
	/* seq_cst, like lock.held. */
	atomic_fetch_add(&c->lock.holders, 1);
	rc = check_open(c, TO_SUBMIT);
	if (rc == COHORT_OK && atomic_load(&c->lock.closing))
		rc = error_set(
			COHORT_BUSY,
			"rank %d: another thread is closing the communicator",
			c->rank);
	if (rc != COHORT_OK)
		comm_release(c);
	return rc;
}

void comm_release(struct cohort_comm *c)
{
	atomic_fetch_sub(&c->lock.holders, 1);
}

int comm_refuse_detached(const struct cohort_comm *c, int status,
                         const char *what)
{
	return error_set(status,
	                 "%s: ticket %llu of rank %d (a host-memory call that "
	                 "timed out) has not been launched yet",
	                 what, (unsigned long long)c->left.ticket, c->rank);
}

int comm_await_detached(struct cohort_comm *c)
{
	struct backoff b = BACKOFF;

	while (atomic_load(&c->lock.is_detached)) {
		if (clique_cause(c->clique))
			return clique_error(c->clique);
		/* Waiting would never end, because the launch waits for this
		 * thread's memory section to end. */
		if (memory_section_is_open())
			return comm_refuse_detached(
				c, COHORT_STATE,
				"the call was made between "
				"cohort_quiet_begin() and cohort_quiet_end()");
		backoff_wait(&b, UINT64_MAX);
	}
	return COHORT_OK;
}
