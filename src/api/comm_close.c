/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Closing a communicator
 *
 * Closing the last communicator of a split clique, or of ranks that joined by
 * ID, also ends the generation.
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
#include "processes/peers.h"

/* End a generation that belongs to no group, after its last rank was closed.
 * Return @rc, or the error of ending or freeing the generation. */
static int end_all(struct generation *g, int rc)
{
	struct clique *parent = g->clique->parent;
	struct peers *peers;
	int ended, freed = COHORT_OK;

	if (parent) {
		ended = generation_end_later(g);
		generation_sweep(parent);
	} else {
		peers = g->peers;
		ended = generation_end(g);
		freed = generation_free(g);
		if (peers)
			peers_leave(peers);
	}
	return freed != COHORT_OK ? freed : ended != COHORT_OK ? ended : rc;
}

/* Return true if @q was split from a clique that has ended.  The thread that
 * closes or respawns the parent's group also ends @q.  That thread may be
 * ending @q right now, or may have finished while an abandoned worker still
 * closes its rank. */
static bool is_ended_by_parent(const struct clique *q)
{
	const struct clique *parent = q->parent; /* dangling once @q is stale */

	return atomic_load(&q->stale) || (parent && clique_cause(parent));
}

/* Publish that a rank of this process was closed, or could not be closed,
 * because other processes may be waiting for the rank. */
static void publish_closed(const struct cohort_comm *comm)
{
	const struct remote *remote = comm->clique->remote;

	if (remote)
		remote->publish_event(comm, REMOTE_CLOSED);
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
	/* From here on, no new call can be submitted. */
	atomic_store(&comm->lock.closed, true);
	comm_leave(comm);
	watch_wake(q); /* other ranks may be waiting for this one */
	publish_closed(comm);
	/* Wait without the lock, because an abort needs it. */
	rc = comm_await_all(comm, clock_deadline(q->deadlines.close_ns));
	if (rc == COHORT_TIMED_OUT) {
		atomic_store(&comm->lock.closing, false);
		atomic_store(&comm->lock.closed, false);
		publish_closed(comm);
		return rc;
	}
	/* No lock is needed, because no other thread enters a closed
	 * communicator. */
	deadlines_forget(comm);
	batch_drop(comm);
	is_owner = owner_is_self(comm);
	if (atomic_fetch_sub(&q->open, 1) == 1 && q->ends_with_last &&
	    !is_ended_by_parent(q))
		return end_all(q->owning_generation, rc);
	/* If @comm is not bound to this thread, do not access it, because
	 * another thread may be freeing it now. */
	if (is_owner && owner_unbind(comm) == COHORT_OK)
		clique_put(q);
	return rc;
}
