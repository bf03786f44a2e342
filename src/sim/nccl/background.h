/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_BACKGROUND_H
#define SIM_NCCL_BACKGROUND_H

/*
 * Runs groups that contain nonblocking communicators (ncclConfig_t) on a
 * background thread, one thread per group
 *
 * ncclGroupEnd() immediately returns ncclInProgress.  Until the thread is done,
 * each communicator of the group reports ncclInProgress, and the program may
 * only query or abort the communicator.  After that, the communicators report
 * the result of the group.
 */

#include "sim/nccl/nccl_group.h"

struct background {
	/* Owned by the background thread, which holds references to the
	 * communicators, because the program can abort a communicator before
	 * the thread has reached it. */
	struct batch batch;
	struct ncclComm **comms; /* communicators that report ncclInProgress */
	size_t count;

	/* Atomic; reference count: one for each communicator that has not
	 * released this object, plus one for the thread.  Decremented with
	 * acquire and release, because the last user frees the object. */
	atomic_size_t users;

	/* Atomic; set with release if a communicator of the group is being
	 * aborted or revoked.  Ranks that still wait for other ranks then stop
	 * waiting. */
	atomic_bool ended;

	/* Atomic; set with release once the thread no longer uses any
	 * communicator. */
	atomic_bool done;
};

/*
 * background_run - run a batch on a new thread
 * @batch: what to run; must not be empty, and is empty on return
 *
 * Returns:
 *   ncclInProgress   the thread is running
 *   ncclSystemError  no memory or no thread; none of the batch was run
 */
ncclResult_t background_run(struct batch *batch);

/*
 * background_fail - report that a group was not run
 * @batch: the batch of that group
 * @error: the new state of the batch's nonblocking communicators
 */
void background_fail(const struct batch *batch, ncclResult_t error);

/* Wait until the background operation of @comm is done, and release it.
 * Returns immediately if @comm has none.  May be called from any thread. */
void background_settle(struct ncclComm *comm);

/* Cut short the background operation of @comm, which is being aborted or
 * revoked, and release it once it is done.  Ranks of the same group that still
 * wait for other ranks stop waiting. */
void background_end(struct ncclComm *comm);

/* Release the background operation of a communicator that is being freed,
 * without waiting for it. */
void background_drop(struct ncclComm *comm);

#endif
