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

#include "sim/nccl/nccl_group.h"

struct background {
	/* Owned by the thread, which holds references to the communicators: an
	 * owner may abort one before the group has got to it. */
	struct batch batch;
	struct ncclComm **comms; /* that are in progress */
	size_t count;

	/* Atomic; how many of the communicators have not settled, and one for
	 * the thread.  Acquire and release: the last user frees it. */
	atomic_size_t users;

	/* Atomic; one of the group's communicators is being aborted: ranks that
	 * have not met need not wait any longer (release). */
	atomic_bool ended;

	/* Atomic; the thread looks at no communicator any more (release). */
	atomic_bool done;
};

/* Start a thread to run a non-empty batch, and forget the batch.  If no thread
 * can be started, none of the batch is run, and the error is returned. */
ncclResult_t background_run(struct batch *batch);

/* Note that the batch is not run, because of @error, which becomes the state of
 * its nonblocking communicators. */
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
