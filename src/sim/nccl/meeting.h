/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_MEETING_H
#define SIM_NCCL_MEETING_H

/*
 * Meetings: each rank that joins a communicator (nccl_join.h) waits until all
 * other ranks of the communicator have arrived
 *
 * All ranks of a meeting are in one process.  The last rank to arrive completes
 * the meeting and creates the state that the ranks of each new communicator
 * share.  A rank can leave an incomplete meeting if it is aborted, if the
 * communicator that it splits is aborted, or if another rank of its group
 * cannot join.
 */

#include "sim/nccl/nccl_join.h"

/* Open the meeting of a new unique id.  Return the id's number, or 0 if out of
 * memory. */
uint64_t meeting_open(void);

/* Return a new number that identifies the meeting of an ncclCommInitAll(). */
uint64_t meeting_number(void);

/* Run the joins of one NCCL group.  If one of them cannot arrive at its
 * meeting, none of them arrives.  Waits until the meetings are complete. */
ncclResult_t meeting_run(struct join *first);

/* Return true if @join must stop waiting because its communicator, its parent
 * or its group was aborted. */
bool meeting_is_cut(const struct join *join);

void meeting_place(const struct join *join, struct world *world, int rank);

/* Wake all waiting ranks, so that they notice an abort. */
void meeting_wake(void);

/* Remove the rank of an aborted communicator from its incomplete meeting.
 * Return the communicator's world, or NULL if it has none and never will. */
struct world *meeting_cut(struct ncclComm *comm);

void meeting_forget(struct ncclComm *comm);

/* Return the world of @comm (the state that its ranks share), or NULL if it has
 * none. */
struct world *meeting_world(const struct ncclComm *comm);

/* Detach @comm from its world, which is about to be freed.  A group that has
 * not ended might still hold @comm. */
void meeting_leave_world(struct ncclComm *comm);

#endif
