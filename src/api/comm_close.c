/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Closing a communicator, and with the last one of a split or a join its
 * generation
 */

#include "api/communicator.h"
#include "api/generation.h"
#include "base/clock.h"
#include "base/status.h"
#include "core/batch.h"
#include "core/comm_lock.h"
#include "core/launch_lock.h"
#include "core/owner.h"
#include "core/remote.h"

/* End a generation that no group owns, as its last rank is closed. */
static int end_all(struct generation *g, int rc)
{
	struct clique *parent = g->clique->parent;
	int ended, freed = COHORT_OK;

	if (parent) {
		ended = generation_end_later(g);
		generation_sweep(parent);
	} else {
		ended = generation_end(g);
		freed = generation_free(g);
	}
	return freed != COHORT_OK ? freed : ended != COHORT_OK ? ended : rc;
}

/* True if @q was split from a clique that has ended.  Whoever closes or
 * respawns that group ends @q, too: perhaps just now; or has ended it, while a
 * worker that was left behind still closes its rank. */
static bool is_ended_by_parent(const struct clique *q)
{
	const struct clique *parent =
		q->parent; /* not valid once @q is stale */

	return atomic_load(&q->stale) || (parent && clique_cause(parent));
}

/* Other processes may wait for this rank. */
static void tell_closed(const struct clique *q)
{
	if (q->remote)
		q->remote->show(q, REMOTE_CLOSED);
}

int cohort_comm_close(struct cohort_comm *comm)
{
	struct clique *q;
	bool is_owner;
	int rc = comm_check_fork(comm);

	if (rc == COHORT_OK)
		rc = memory_section_check("comm_close");
	if (rc != COHORT_OK)
		return rc;
	q = comm->clique;
	rc = q->ends_with_last ? watch_check_callback(q) : COHORT_OK;
	if (rc == COHORT_OK)
		rc = comm_enter_to_close(comm);
	if (rc != COHORT_OK)
		return rc;
	/* From here on no call is submitted. */
	atomic_store_explicit(&comm->lock.closed, true, memory_order_relaxed);
	comm_leave(comm);
	watch_wake(q); /* others may wait for this rank */
	tell_closed(q);
	/* Without the lock: an abort waits until the lock is free. */
	rc = comm_await_all(comm, clock_deadline(q->deadlines.close_ns));
	if (rc == COHORT_TIMED_OUT) {
		atomic_store_explicit(&comm->lock.closed, false,
		                      memory_order_relaxed);
		tell_closed(q);
		return rc;
	}
	deadlines_forget(
		comm); /* no other thread enters a closed communicator */
	batch_drop(comm);
	is_owner = owner_is_self(comm);
	if (atomic_fetch_sub(&q->open, 1) == 1 && q->ends_with_last &&
	    !is_ended_by_parent(q))
		return end_all(q->owning_generation, rc);
	/* Another thread may be freeing @comm, unless it is bound to this
	 * thread. */
	if (is_owner && owner_unbind(comm) == COHORT_OK)
		clique_put(q);
	return rc;
}
