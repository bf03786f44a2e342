/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_GATE_H
#define CORE_GATE_H

/*
 * The gate of a communicator, which lets one thread in at a time
 */

#include "core/clique.h"

/*
 * Be the one thread inside: COHORT_BUSY if another is, COHORT_OWNER if it is
 * bound to another, COHORT_STATE if it is closed, and if @with_cause is false
 * the status of the clique's cause, if it has one, or COHORT_STALE.  Never blocks.
 */
int gate_enter(struct cohort_comm *comm, bool with_cause);

/* The same to close it, with a cause or without: once there is one, also for another
 * thread than its owner, who may never come. */
int gate_enter_to_close(struct cohort_comm *comm);

void gate_leave(struct cohort_comm *comm);

/*
 * Let only this thread in from now on, also while it is not inside itself; said inside
 * the gate.  The end of that, if it is this thread that is let in: at any time.
 */
void gate_keep(struct cohort_comm *comm);
void gate_unkeep(struct cohort_comm *comm);

/* True if a thread has said so; and if one has, or is inside. */
bool gate_is_kept(const struct cohort_comm *comm);
bool gate_is_taken(const struct cohort_comm *comm);

/* Inside, before a native call or the next ticket: wait until a call whose caller has left
 * is launched.  COHORT_OK; the status of a cause; COHORT_STATE in a memory section of
 * this thread's, whose end that launch would wait for. */
int gate_await_left(struct cohort_comm *comm);

/* @what cannot be while a call whose caller has left is not launched: @status. */
int gate_refuse_left(const struct cohort_comm *comm, int status,
                     const char *what);

/* COHORT_STALE, and the text that says why no call on @comm can be made any more: its
 * generation was replaced, its group was closed, or its worker was left behind. */
int gate_refuse_stale(const struct cohort_comm *comm);

/* COHORT_OWNER if @comm is bound to another thread, and the text for that. */
int gate_check_owner(const struct cohort_comm *comm);
int gate_refuse_owner(const struct cohort_comm *comm);

#endif
