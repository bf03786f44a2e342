/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_COMM_LOCK_H
#define CORE_COMM_LOCK_H

/*
 * The lock of a communicator, which lets one thread in at a time and never
 * waits
 */

#include "core/clique.h"

/* How many former generations of a group still answer for their tickets;
 * documented in group.h. */
#define FORMER_KEPT 4

/* comm_check(): COHORT_INVALID for NULL, COHORT_STALE if its generation was
 * forgotten, COHORT_FORKED.  comm_protect(): false if it was forgotten.  Both
 * keep @comm from being freed while this thread uses it: see hazard.h. */
int comm_check(const struct cohort_comm *comm);
bool comm_protect(const struct cohort_comm *comm);

/*
 * Take the lock, without waiting.  COHORT_BUSY if another thread holds it,
 * COHORT_OWNER if @comm is bound to another thread, COHORT_STATE if it is
 * closed.  If @with_cause is false, also the status of the clique's cause, or
 * COHORT_STALE.
 */
int comm_enter(struct cohort_comm *comm, bool with_cause);

/* Enter to close @comm, also with a cause.  Once there is a cause, a thread
 * that is not the owner may enter, too: the owner may never come. */
int comm_enter_to_close(struct cohort_comm *comm);

void comm_leave(struct cohort_comm *comm);

/*
 * comm_keep(), with the lock held: let only this thread enter from now on, even
 * after it has left.  comm_unkeep(): end that, if this thread began it.
 */
void comm_keep(struct cohort_comm *comm);
void comm_unkeep(struct cohort_comm *comm);

/* comm_is_kept(): a thread has called comm_keep().  comm_is_taken(): one has,
 * or is inside. */
bool comm_is_kept(const struct cohort_comm *comm);
bool comm_is_taken(const struct cohort_comm *comm);

/*
 * With the lock held, before a native call or the next ticket: if the caller of
 * an earlier call has left before it was launched, wait for its launch.
 * COHORT_OK; the status of a cause; COHORT_STATE in a memory section of this
 * thread's, whose end the launch would wait for.
 */
int comm_await_detached(struct cohort_comm *comm);

/* Refuse @what with @status: the caller of an earlier call has left before it
 * was launched. */
int comm_refuse_detached(const struct cohort_comm *comm, int status,
                         const char *what);

/* COHORT_STALE, and the text that says why no call on @comm can be made any
 * more: its generation was replaced, its group was closed, or its worker was
 * left behind. */
int comm_refuse_stale(const struct cohort_comm *comm);

/*
 * Let this thread enter @comm, to which another thread is bound, on behalf of
 * that one; NULL: no more.  Returns what it was before.
 */
const struct cohort_comm *comm_help(const struct cohort_comm *comm);

/* COHORT_OWNER if @comm is bound to another thread, and the text for that. */
int comm_check_owner(const struct cohort_comm *comm);
int comm_refuse_owner(const struct cohort_comm *comm);

#endif
