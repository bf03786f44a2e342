/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The end of a communicator: finalize, destroy, abort
 *
 * A release of one rank frees nothing and waits for nothing; the one of the last
 * rank waits for the work of all and frees all.
 */

#include "base/backoff.h"
#include "platform/host/group.h"
#include "platform/host/host.h"

ncclResult_t comm_sync(struct ncclComm *comm)
{
	struct backoff b = BACKOFF;

	/* Acquire: pairs with the release when a launch is done. */
	while (atomic_load_explicit(&comm->pending, memory_order_acquire)) {
		stream_help(comm->last, UINT64_MAX);
		backoff_wait(&b, UINT64_MAX);
	}
	return ncclSuccess;
}

/* All ranks of a world are released. */
static void end_world(struct world *w, const char *function)
{
	int i;

	if (strict_is_on())
		strict_check_free(w, function);
	for (i = 0; i < w->n; i++)
		comm_sync(w->comms[i]);
	if (strict_is_on())
		strict_check_buffers(w, function);
	world_free(w);
}

/* Release one rank; the last one frees all. */
static ncclResult_t comm_reclaim(struct ncclComm *comm, const char *function)
{
	struct world *w = join_world(comm);
	int n;

	if (strict_is_on())
		strict_release(comm, function);
	if (!w) {
		comm_put(comm);
		return ncclSuccess;
	}
	n = w->n; /* once released, w may be gone */
	/* Acquire and release: the last sees what the others did before. */
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

static ncclResult_t run_at_end(group_job_fn fn, struct ncclComm *comm)
{
	ncclResult_t result = group_job(fn, comm), ended;

	ended = group_end();
	return result != ncclSuccess ? result : ended;
}

ncclResult_t host_ncclCommDestroy(ncclComm_t comm)
{
	if (!comm)
		return ncclSuccess;
	if (!comm_is_valid(comm, "ncclCommDestroy"))
		return group_fail(ncclInvalidArgument,
		                  "ncclCommDestroy: not a communicator");
	group_start();
	if (strict_is_on())
		strict_enter(comm, "ncclCommDestroy");
	return run_at_end(comm_destroy, comm);
}

ncclResult_t host_ncclCommAbort(ncclComm_t comm)
{
	if (!comm)
		return ncclSuccess;
	if (!comm_is_valid(comm, "ncclCommAbort"))
		return group_fail(ncclInvalidArgument,
		                  "ncclCommAbort: not a communicator");
	group_start();
	comm_raise(comm);
	return run_at_end(comm_abort, comm);
}

ncclResult_t host_ncclCommFinalize(ncclComm_t comm)
{
	if (!comm)
		return ncclSuccess;
	if (!comm_is_valid(comm, "ncclCommFinalize"))
		return group_fail(ncclInvalidArgument,
		                  "ncclCommFinalize: not a communicator");
	if (comm->finalized)
		return group_fail(ncclInvalidArgument,
		                  "ncclCommFinalize: called twice");
	group_start();
	if (strict_is_on())
		strict_enter(comm, "ncclCommFinalize");
	comm->finalized = true;
	return run_at_end(comm_sync, comm);
}
