/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_COMM_H
#define API_COMM_H

#include "core/clique.h"

/* COHORT_INVALID for NULL; COHORT_FORKED, see base/process.h. */
int comm_check(const struct cohort_comm *comm);
int comm_check_closely(const struct cohort_comm *comm);

/* Copy the clique's cause; its status is COHORT_OK if there is none. */
void cause_copy(struct clique *clique, struct cohort_cause *out);

/* What @fn does inside the gate, also of a clique that has ended. */
int comm_inside(struct cohort_comm *comm, int (*fn)(struct cohort_comm *));

struct device_scope;

/* Into the gate, as gate_enter() with @with_cause, and to the rank's device; and back
 * out of both.  Nothing is entered unless COHORT_OK. */
int comm_enter_on_device(struct cohort_comm *comm, bool with_cause,
                         struct device_scope *scope);
void comm_leave_on_device(struct cohort_comm *comm,
                          const struct device_scope *scope);

/* What every call that queues something comes to: it is submitted, or kept while a
 * batch is open. */
int comm_submit(struct cohort_comm *comm, const struct op *op,
                uint64_t *ticket);

/* cohort_wait() up to a deadline, 0: do what is cheap, and see; and for all tickets
 * given out so far. */
int comm_await(struct cohort_comm *comm, uint64_t ticket, uint64_t deadline_ns);
int comm_await_all(struct cohort_comm *comm, uint64_t deadline_ns);

/* Do what can be done for @ticket until @until_ns, and look: COHORT_TIMED_OUT if it
 * is not done.  For who waits for something else meanwhile. */
int comm_carry_on(struct cohort_comm *comm, uint64_t ticket, uint64_t until_ns);

/* Have what is queued on its own stream go on while nobody waits for it; may make a
 * system call. */
void comm_flush(struct cohort_comm *comm);

struct registration;

/* Wait until NCCL knows of no memory any more, as the clique has a cause, or
 * COHORT_WEDGED.  And free memory of which it does not, or is told, inside the gate and
 * on the device: COHORT_STATE if it was registered otherwise. */
int comm_await_reclaim(struct cohort_comm *comm);
int comm_free_registered(struct cohort_comm *comm,
                         struct registration *registration, void *memory,
                         bool has_ended);

/* Forget what was pushed and paused: inside the gate; and going through it. */
int deadlines_forget(struct cohort_comm *comm);
int deadlines_reset(struct cohort_comm *comm);

#endif
