/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_COMMUNICATOR_H
#define API_COMMUNICATOR_H

#include "core/comm_lock.h"

/* comm_check(), and process_check_closely(). */
int comm_check_fork(const struct cohort_comm *comm);

/* Copy the clique's cause; its status is COHORT_OK if there is none. */
void cause_copy(struct clique *clique, struct cohort_cause *out);

/* Call @fn with the lock held, also if the clique has ended. */
int comm_inside(struct cohort_comm *comm, int (*fn)(struct cohort_comm *));

struct device_scope;

/* Take the lock, as comm_enter() does with @with_cause, and the rank's device;
 * and leave both.  On an error neither is entered. */
int comm_enter_on_device(struct cohort_comm *comm, bool with_cause,
                         struct device_scope *scope);
void comm_leave_on_device(struct cohort_comm *comm,
                          const struct device_scope *scope);

/* Wait for a ticket, or for all tickets given out so far, like cohort_wait()
 * but up to a deadline.  A deadline of 0: do only what is cheap, then check. */
int comm_await(struct cohort_comm *comm, uint64_t ticket, uint64_t deadline_ns);
int comm_await_all(struct cohort_comm *comm, uint64_t deadline_ns);

/* Help the operation of @ticket along until @until_ns, then check it:
 * COHORT_TIMED_OUT if it is not done.  For a caller that is waiting for
 * something else at the same time. */
int comm_carry_on(struct cohort_comm *comm, uint64_t ticket, uint64_t until_ns);

/* Let the work queued on the communicator's own stream proceed even though no
 * thread is waiting for it.  May make a system call. */
void comm_flush(struct cohort_comm *comm);

struct registration;

/*
 * comm_give_back(): call @inside(@comm, @what) with the lock held, in a memory
 * section.  While it returns COHORT_TIMED_OUT, wait until the clique's end has
 * deregistered all memory, and call it again.  Its result; COHORT_WEDGED after
 * the abort deadline; COHORT_STATE in a quiet section, which would keep the
 * library from freeing.  @call is for texts.
 *
 * comm_free_registered(), with the lock held, on the device: end @registration,
 * if there is one, and free its memory.  COHORT_STATE if the memory was
 * registered by another call.
 */
int comm_give_back(struct cohort_comm *comm,
                   int (*inside)(struct cohort_comm *comm, void *what),
                   void *what, const char *call);
int comm_free_registered(struct cohort_comm *comm,
                         struct registration *registration, void *memory,
                         bool has_ended);

/* COHORT_INVALID for a deadline of less than 1 ms, which is a time in another
 * unit, most likely.  0, for the default, is none.  @owner: "deadlines->", for
 * the error. */
int deadlines_check(const char *owner,
                    const struct cohort_deadlines *deadlines);

/* Undo all pushes and pauses.  The caller holds the lock, or @comm is closed. */
int deadlines_forget(struct cohort_comm *comm);

/* Take the lock, and undo all pushes and pauses. */
int deadlines_reset(struct cohort_comm *comm);

#endif
