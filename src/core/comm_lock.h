/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_COMM_LOCK_H
#define CORE_COMM_LOCK_H

/* The lock of a communicator: one thread is inside at a time, and a second
 * thread is refused instead of waiting */

#include "core/clique.h"

/* Number of former generations of a group whose tickets can still be queried,
 * as documented in group.h. */
#define FORMER_KEPT 4

/*
 * Check that a communicator can be used, and protect it from being freed while
 * this thread's call uses it (hazard.h).
 *
 * Returns:
 *   COHORT_OK       @comm can be used
 *   COHORT_INVALID  @comm is NULL
 *   COHORT_STALE    its generation was freed or is being freed
 *   COHORT_FORKED   this is a child process
 */
int comm_check(const struct cohort_comm *comm);

/* Protect @comm like comm_check(), without setting an error.  Return false if
 * its generation was freed or is being freed. */
bool comm_protect(const struct cohort_comm *comm);

/*
 * Take the lock of @comm, without waiting.
 * @with_cause: true to enter even if the clique has ended
 *
 * Returns:
 *   COHORT_OK         this thread is inside
 *   COHORT_BUSY       another thread is inside
 *   COHORT_OWNER      @comm is bound to another thread
 *   COHORT_STATE      @comm is closed
 *   COHORT_STALE      the generation was replaced or closed
 *   a cause's status  the clique has ended
 */
int comm_enter(struct cohort_comm *comm, bool with_cause);

/* Take the lock to close @comm, even if the clique has a cause.  In that case
 * any thread may enter, because the owner may never call again. */
int comm_enter_to_close(struct cohort_comm *comm);

void comm_leave(struct cohort_comm *comm);

/* Let only this thread enter from now on, even after it has released the lock.
 * Call it with the lock held. */
void comm_reserve(struct cohort_comm *comm);

void comm_unreserve(struct cohort_comm *comm);

bool comm_is_reserved(const struct cohort_comm *comm);

/*
 * Keep @comm open without its lock, until comm_release().  Other threads may
 * make calls on it, but close neither it nor its group.
 *
 * Returns the same as comm_enter(), except that COHORT_BUSY means that another
 * thread is closing @comm.
 */
int comm_hold(struct cohort_comm *comm);
void comm_release(struct cohort_comm *comm);

/* Return true if a thread has called comm_reserve() or comm_hold(), or is
 * inside. */
bool comm_is_in_use(const struct cohort_comm *comm);

/*
 * If the caller of an earlier call has timed out before its launch, wait until
 * a library thread has launched the call.  Call this with the lock held, before
 * a native call or before giving out the next ticket.
 *
 * Returns:
 *   COHORT_OK         all earlier calls are launched
 *   COHORT_STATE      this thread is in a memory section, and the launch waits
 *                     until the section ends
 *   a cause's status  the clique has ended
 */
int comm_await_detached(struct cohort_comm *comm);

/* Set the error that says why call @what is refused: an earlier call, whose
 * caller has timed out, is not launched yet.  Return @status. */
int comm_refuse_detached(const struct cohort_comm *comm, int status,
                         const char *what);

/*
 * Set the error that says why no further call on @comm is possible: its
 * generation was replaced, its group was closed, or its worker was abandoned.
 * Return COHORT_STALE.
 */
int comm_refuse_stale(const struct cohort_comm *comm);

/* Let this thread enter @comm on behalf of the thread that @comm is bound to;
 * NULL withdraws the permission.  Return the previous value. */
const struct cohort_comm *comm_set_helped(const struct cohort_comm *comm);

/* Set this thread's error to the message that @comm is bound to another thread,
 * and return COHORT_OWNER. */
int comm_refuse_owner(const struct cohort_comm *comm);

#endif
