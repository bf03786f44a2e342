/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_BACKGROUND_H
#define SIM_NCCL_BACKGROUND_H

/*
 * Groups of communicators that do not block (ncclConfig_t): a thread per group
 * does what the group's end would have done, and the end returns ncclInProgress
 *
 * Until the thread is done, ncclInProgress is also the state of every
 * communicator of the group, and nothing is allowed but to ask for the state or
 * to abort.  Then the state is the group's result.
 */

#include "sim/nccl/batch.h"

struct background {
	/* Owned by the thread.  The communicators are referenced, as an owner
	 * may abort one before the group has come so far. */
	struct batch batch;
	struct ncclComm **comms; /* that are in progress */
	size_t count;

	/* Atomic; how many of the communicators have not settled, and one for
	 * the thread.  Acquire and release: the last user frees it. */
	atomic_size_t users;

	/* Atomic; a communicator of the group is aborted: what has not met need
	 * not wait any more (release). */
	atomic_bool ended;

	/* Atomic; the thread looks at no communicator any more (release). */
	atomic_bool done;
};

/* One user less; the last one frees it. */
void background_put(struct background *background);

/* Start a thread for a batch that is not empty, and forget the batch.  If there
 * can be no thread it is done at once, and the error is returned. */
ncclResult_t background_run(struct batch *batch);

/* The batch is not done because of @error, which becomes the state of those of
 * its communicators that do not block. */
void background_fail(const struct batch *batch, ncclResult_t error);

/* Wait until the group that @comm is in progress with is done, and release it.
 * Any thread; returns at once if there is none. */
void background_settle(struct ncclComm *comm);

/* As background_settle(), for a thread that aborts or revokes @comm: other
 * ranks of its group that have not met do not wait any more. */
void background_end(struct ncclComm *comm);

/* @comm is freed, and no thread will settle. */
void background_drop(struct ncclComm *comm);

#endif
