/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_GATE_H
#define CORE_GATE_H

/*
 * The gate of a communicator, which lets one thread in at a time
 */

#include "core/clique.h"

/* How many former generations of a group still answer for their tickets; documented in
 * group.h. */
#define FORMER_KEPT 4

/* comm_check(): COHORT_INVALID for NULL, COHORT_STALE if its generation was forgotten,
 * COHORT_FORKED.  comm_is_remembered(): false if it was.  Both announce that this thread
 * uses @comm: see hazard.h. */
int comm_check(const struct cohort_comm *comm);
bool comm_is_remembered(const struct cohort_comm *comm);

/*
 * Be the one thread inside: COHORT_BUSY if another is, COHORT_OWNER if @comm is
 * bound to another thread, COHORT_STATE if it is closed.  If @with_cause is
 * false, also the status of the clique's cause, or COHORT_STALE.  Never blocks.
 */
int gate_enter(struct cohort_comm *comm, bool with_cause);

/* Enter to close @comm, also with a cause.  Once there is a cause, a thread
 * that is not the owner may enter, too: the owner may never come. */
int gate_enter_to_close(struct cohort_comm *comm);

void gate_leave(struct cohort_comm *comm);

/*
 * gate_keep(), inside the gate: let only this thread enter from now on, even
 * after it has left.  gate_unkeep(): end that, if this thread began it.
 */
void gate_keep(struct cohort_comm *comm);
void gate_unkeep(struct cohort_comm *comm);

/* gate_is_kept(): a thread has called gate_keep().  gate_is_taken(): one has, or
 * is inside. */
bool gate_is_kept(const struct cohort_comm *comm);
bool gate_is_taken(const struct cohort_comm *comm);

/*
 * Inside the gate, before a native call or the next ticket: if the caller of an
 * earlier call has left before it was launched, wait for its launch.  COHORT_OK;
 * the status of a cause; COHORT_STATE in a memory section of this thread's,
 * whose end the launch would wait for.
 */
int gate_await_left(struct cohort_comm *comm);

/* Refuse @what with @status: the caller of an earlier call has left before it
 * was launched. */
int gate_refuse_left(const struct cohort_comm *comm, int status,
                     const char *what);

/* COHORT_STALE, and the text that says why no call on @comm can be made any
 * more: its generation was replaced, its group was closed, or its worker was
 * left behind. */
int gate_refuse_stale(const struct cohort_comm *comm);

/*
 * Let this thread enter @comm, to which another thread is bound, on behalf of that one;
 * NULL: no more.  Returns what it was before.
 */
const struct cohort_comm *gate_help(const struct cohort_comm *comm);

/* COHORT_OWNER if @comm is bound to another thread, and the text for that. */
int gate_check_owner(const struct cohort_comm *comm);
int gate_refuse_owner(const struct cohort_comm *comm);

#endif
