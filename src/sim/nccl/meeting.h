/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_MEETING_H
#define SIM_NCCL_MEETING_H

/*
 * Meetings of ranks that want to join (nccl_join.h)
 *
 * A meeting is complete when all its ranks have arrived; the last of them makes
 * the worlds.  Until then a rank can leave: when it is aborted (or the parent
 * that it is a child of), or when another of its group cannot join.
 */

#include "sim/nccl/nccl_join.h"

/* Open a meeting by an id: returns a new number for the id, 0 without
 * memory. */
uint64_t meeting_open(void);

/* A new number for ncclCommInitAll(). */
uint64_t meeting_number(void);

/* Let all of a group arrive, or none if one cannot; then wait for the others
 * that are to come. */
ncclResult_t meeting_run(struct join *first);

/* For ranks that meet those of other processes (spans.h): true if @join waits
 * no more, because something of it was aborted; and give its communicator a
 * place in @world. */
bool meeting_is_cut(const struct join *join);
void meeting_place(const struct join *join, struct world *world, int rank);

/* Wake the ranks that wait, so that they see what has ended. */
void meeting_wake(void);

/* @comm is aborted: take the rank that it keeps waiting from its meeting.
 * Returns the communicator's world; NULL if it is in none and never will be. */
struct world *meeting_cut(struct ncclComm *comm);

/* The join of @comm is freed. */
void meeting_forget(struct ncclComm *comm);

/* The world of @comm, or NULL; and leave the world, which is about to be freed
 * while others may still hold the communicator: in a group that has not
 * ended. */
struct world *meeting_world(const struct ncclComm *comm);
void meeting_leave_world(struct ncclComm *comm);

#endif
