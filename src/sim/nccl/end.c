/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Ends communicators: finalize, destroy, abort, revoke
 *
 * Releasing the last rank waits for the work of all ranks and frees everything.
 * Releasing any other rank neither waits nor frees.
 */

#include "base/backoff.h"
#include "sim/cuda/sync.h"
#include "sim/exec/rank_launch.h"
#include "sim/host.h"
#include "sim/nccl/background.h"
#include "sim/nccl/meeting.h"
#include "sim/nccl/nccl_group.h"
#include "sim/strict/strict.h"

static ncclResult_t comm_drain(struct ncclComm *comm)
{
	struct backoff b = BACKOFF;

	while (member_has_work(&comm->member)) {
		stream_help(comm->last, UINT64_MAX);
		if (strict_is_on() && b.started_ns)
			rendezvous_check_wait(comm->last, b.started_ns);
		backoff_wait(&b, UINT64_MAX);
	}
	return ncclSuccess;
}

/* Wait until all work that this rank launched is done and every graph that
 * captured such work is destroyed. */
static ncclResult_t comm_sync(struct ncclComm *comm)
{
	struct backoff b = BACKOFF;

	comm_drain(comm);
	/* The acquire pairs with the release in drop_launch()
	 * (launch_queue.c). */
	while (load_acquire(&comm->captured))
		backoff_wait(&b, UINT64_MAX);
	/* Launches of the destroyed graphs might still be running. */
	return comm_drain(comm);
}

/* Wait for the work of a world, and free the world.  All its ranks in this
 * process have been released. */
static void end_world(struct world *w, const char *function)
{
	int i;

	if (strict_is_on())
		lifetime_check_free(w, function);
	for (i = 0; i < w->n; i++)
		if (w->members[i])
			comm_sync(comm_of(w->members[i]));
	sync_memory();
	if (strict_is_on())
		lifetime_check_buffers(w, function);
	comm_free_world(w);
}

/* Release one rank.  Releasing the last rank frees the world. */
static ncclResult_t comm_reclaim(struct ncclComm *comm, const char *function)
{
	struct world *w = meeting_world(comm);
	int n;

	if (strict_is_on())
		lifetime_release(comm, function);
	if (strict_is_on() && w)
		lifetime_check_mixed(w, comm, function);
	if (!w) {
		comm_put(comm);
		return ncclSuccess;
	}
	n = w->here; /* @w might be freed after the atomic_fetch_add() below. */
	/* Acquire and release, so that the last rank sees what the other ranks
	 * did before. */
	if (atomic_fetch_add_explicit(&w->released, 1, memory_order_acq_rel) ==
	    n - 1)
		end_world(w, function);
	return ncclSuccess;
}

static ncclResult_t comm_destroy(struct ncclComm *comm)
{
	return comm_reclaim(comm, "ncclCommDestroy");
}

static ncclResult_t comm_abort(struct ncclComm *comm)
{
	return comm_reclaim(comm, "ncclCommAbort");
}

/* Destroy @comm, or fail if it is not ready.  NCCL also fails if @comm is not
 * ready, but then leaves the thread inside a group forever; here, only the call
 * fails. */
static ncclResult_t destroy(struct ncclComm *comm)
{
	ncclResult_t result;

	if (strict_is_on())
		lifetime_enter(comm, "ncclCommDestroy");
	store_relaxed(&comm->ending, true);
	result = comm_ready(comm);
	return result == ncclSuccess ? group_job(comm_destroy, comm) : result;
}

ncclResult_t host_ncclCommDestroy(ncclComm_t comm)
{
	if (!comm)
		return ncclSuccess;
	if (!comm_is_valid(comm, "ncclCommDestroy"))
		return group_fail(
			ncclInvalidArgument,
			"ncclCommDestroy: comm is not a communicator");
	group_start();
	return group_end_call(destroy(comm));
}

ncclResult_t host_ncclCommAbort(ncclComm_t comm)
{
	if (!comm)
		return ncclSuccess;
	if (!comm_is_valid(comm, "ncclCommAbort"))
		return group_fail(ncclInvalidArgument,
		                  "ncclCommAbort: comm is not a communicator");
	group_start();
	if (strict_is_on())
		lifetime_check_child(comm, "ncclCommAbort");
	comm_raise(comm);
	background_end(comm);
	store_relaxed(&comm->ending, true);
	return group_end_call(group_job(comm_abort, comm));
}

static ncclResult_t finalize(struct ncclComm *comm)
{
	ncclResult_t result;

	if (strict_is_on())
		lifetime_enter(comm, "ncclCommFinalize");
	result = group_record_error(comm_ready(comm));
	if (result != ncclSuccess)
		return result;
	if (comm->finalized)
		return group_fail(ncclInvalidArgument,
		                  "ncclCommFinalize: the communicator was "
		                  "already finalized or revoked");
	comm->finalized = true;
	return group_job(comm_sync, comm);
}

ncclResult_t host_ncclCommFinalize(ncclComm_t comm)
{
	if (!comm)
		return ncclSuccess;
	if (!comm_is_valid(comm, "ncclCommFinalize"))
		return group_fail(
			ncclInvalidArgument,
			"ncclCommFinalize: comm is not a communicator");
	group_start();
	return comm_answer(comm, group_end_call(finalize(comm)));
}

/* ---- revoke ----------------------------------------------------------- */

ncclResult_t comm_quiesce(struct ncclComm *comm)
{
	ncclResult_t result = comm_drain(comm);
	struct backoff b = BACKOFF;

	/* Other threads might still be cutting short the work of related
	 * communicators, and must find the abort flags raised. */
	while (comm_family_is_cut(comm))
		backoff_wait(&b, UINT64_MAX);
	comm_lower(comm);
	return result;
}

/* Check the arguments in NCCL's order. */
static ncclResult_t check_revoke(struct ncclComm *comm, int flags)
{
	if (flags != NCCL_REVOKE_DEFAULT)
		/* As in NCCL, this error does not fail an open group. */
		return comm_error(ncclInvalidArgument,
		                  "ncclCommRevoke: flags are not 0");
	if (!comm_is_valid(comm, "ncclCommRevoke"))
		return group_fail(ncclInvalidArgument,
		                  "ncclCommRevoke: comm is not a communicator");
	if (load_relaxed(&comm->ending) || comm->finalized)
		return group_fail(
			ncclInvalidArgument,
			"ncclCommRevoke: the communicator is revoked, "
			"finalized, destroyed or aborted");
	return ncclSuccess;
}

static ncclResult_t revoke(struct ncclComm *comm)
{
	if (strict_is_on())
		lifetime_enter(comm, "ncclCommRevoke");
	comm_pulse(comm);
	/* Relaxed, because only the thread that uses the communicator reads the
	 * flag.  Other threads may only abort. */
	store_relaxed(&comm->revoked, true);
	comm->finalized = true;
	background_end(comm);
	return group_job(comm_quiesce, comm);
}

ncclResult_t host_ncclCommRevoke(ncclComm_t comm, int flags)
{
	ncclResult_t result;

	if (!comm)
		return ncclSuccess;
	group_start();
	result = check_revoke(comm, flags);
	if (result == ncclSuccess)
		result = revoke(comm);
	return group_end_call(result);
}
