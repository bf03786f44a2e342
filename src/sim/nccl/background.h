/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_BACKGROUND_H
#define SIM_NCCL_BACKGROUND_H

/*
 * Runs groups that contain nonblocking communicators (ncclConfig_t) on a
 * background thread, one thread per group
 *
 * ncclGroupEnd() returns ncclInProgress at once.  Until the thread is done,
 * every communicator of the group reports ncclInProgress, and the program may
 * only query its state or abort it.  After the thread is done, the
 * communicators report the result of the group.
 */

#include "sim/nccl/nccl_group.h"

struct background {
	/* Owned by the background thread, which holds references to the
	 * communicators: the program can abort a communicator before the thread
	 * has reached it. */
	struct batch batch;
	struct ncclComm **comms; /* communicators that report ncclInProgress */
	size_t count;

	/* Atomic; reference count: one for each communicator that has not
	 * released this object, plus one for the thread.  Acquire and release,
	 * because the last user frees the object. */
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
 *   ncclSystemError  no memory or no thread; nothing of the batch was run
 */
ncclResult_t background_run(struct batch *batch);

/*
 * background_fail - report that a group was not run
 * @batch: the batch of that group
 * @error: the new state of the batch's nonblocking communicators
 */
void background_fail(const struct batch *batch, ncclResult_t error);

/* Wait until the background operation of @comm is done, and release it.
 * Returns at once if @comm has none.  May be called from any thread. */
void background_settle(struct ncclComm *comm);

/* Wait as background_settle() does, for a thread that aborts or revokes @comm.
 * Ranks of the same group that still wait for other ranks then stop waiting. */
void background_end(struct ncclComm *comm);

/* Release the background operation of a communicator that is being freed,
 * without waiting for it. */
void background_drop(struct ncclComm *comm);

#endif
