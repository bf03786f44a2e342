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

#include "sim/nccl/group.h"

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
