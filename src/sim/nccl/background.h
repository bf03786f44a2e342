/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_BACKGROUND_H
#define SIM_NCCL_BACKGROUND_H

/*
 * Groups of communicators that do not block (ncclConfig_t): a thread per group
 * does what the group's end would have done, and the end returns ncclInProgress
 *
 * Until the thread is done, ncclInProgress is also the state of every
 * communicator of the group, and nothing but a question for it or an abort is
 * allowed; then it is the group's result.
 */

#include "sim/nccl/batch.h"

struct background {
	/* Owned by the thread; references, as an owner may abort one before the
	 * group has come so far. */
	struct batch batch;
	struct ncclComm **comms; /* that are in progress */
	size_t count;

	/* Atomic; those of them that have not settled, and the thread.  Acquire
	 * and release: the last one frees it. */
	atomic_size_t users;

	/* Atomic; one of them is aborted: what has not met need not wait any
	 * more (release). */
	atomic_bool ended;

	/* Atomic; the thread looks at no communicator any more (release). */
	atomic_bool done;
};

/* One user less; the last one frees it. */
void background_put(struct background *background);

/* Start a thread for a batch that is not empty, which is forgotten; it is done at
 * once, and the error returned, if there can be no thread. */
ncclResult_t background_run(struct batch *batch);

/* The batch is not done for @error, which is the state of those of its communicators
 * that do not block. */
void background_fail(const struct batch *batch, ncclResult_t error);

/* Wait until what @comm is in is done, and give it back.  Any thread; at once if it
 * is in none. */
void background_settle(struct ncclComm *comm);

/* The same for who aborts @comm or revokes it: others of its group that have not met
 * wait no more. */
void background_end(struct ncclComm *comm);

/* @comm is freed: nobody will settle. */
void background_drop(struct ncclComm *comm);

#endif
