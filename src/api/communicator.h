/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_COMMUNICATOR_H
#define API_COMMUNICATOR_H

#include "core/comm_lock.h"

/* Check @comm like comm_check(), and also detect a child process that shares
 * the parent's memory (process_check_closely()). */
int comm_check_fork(const struct cohort_comm *comm);

/* Check the list of @n ranks that the program passed as the argument @name, and
 * add the ranks to the empty @set.  Return COHORT_INVALID if a rank is not in
 * the range 0 to @size - 1, or occurs twice. */
int rank_list_check(const char *name, const int *ranks, int n, int size,
                    uint64_t *set);

/* Copy the cause of @clique to @out.  If @clique has no cause, set the status
 * in @out to COHORT_OK. */
void cause_copy(struct clique *clique, struct cohort_cause *out);

/* Call @fn with the lock of @comm held, even if the clique has a cause.  Return
 * the result of @fn, or the reason why the lock could not be taken. */
int comm_call_locked(struct cohort_comm *comm, int (*fn)(struct cohort_comm *));

struct device_scope;

/* Take the lock of @comm as comm_enter() does, and make the rank's device
 * current.  On an error, do neither. */
int comm_enter_on_device(struct cohort_comm *comm, bool with_cause,
                         struct device_scope *scope);

void comm_leave_on_device(struct cohort_comm *comm,
                          const struct device_scope *scope);

/* Wait for @ticket like cohort_wait(), but until @deadline_ns.  If @deadline_ns
 * is 0, check without waiting. */
int comm_await(struct cohort_comm *comm, uint64_t ticket, uint64_t deadline_ns);

/* Wait like comm_await() for all tickets given out so far. */
int comm_await_all(struct cohort_comm *comm, uint64_t deadline_ns);

/* Run queued work of @ticket's operation until @until_ns, then check the
 * operation.  Return COHORT_TIMED_OUT if it is not done.  Used by callers that
 * wait for another event at the same time. */
int comm_run_queued(struct cohort_comm *comm, uint64_t ticket,
                    uint64_t until_ns);

/* Submit the work queued on the communicator's own stream, so that it proceeds
 * even if no thread waits for it.  May make a system call. */
void comm_flush(struct cohort_comm *comm);

struct registration;

/*
 * Call @inside(@comm, @what) with the lock held, in a memory section
 * (core/launch_lock.h).  If @inside returns COHORT_TIMED_OUT, wait until the
 * reaper has deregistered all memory, and call @inside again.
 * @call: name of the API function, for error texts
 *
 * Returns:
 *   COHORT_WEDGED  the abort deadline has passed
 *   COHORT_STATE   this thread is in a quiet section, in which the library
 *                  cannot free memory
 *   otherwise      the result of @inside, or of comm_enter()
 */
int comm_release_memory(struct cohort_comm *comm,
                        int (*inside)(struct cohort_comm *comm, void *what),
                        void *what, const char *call);

/* Deregister and free @memory, which cohort_alloc_registered() has allocated.
 * Return COHORT_STATE if the memory was registered by another call.  The caller
 * holds the lock, and the rank's device is current.
 * @has_ended: true if the clique has ended, so that the memory is deregistered
 *             already */
int comm_free_registered(struct cohort_comm *comm,
                         struct registration *registration, void *memory,
                         bool has_ended);

/* Return COHORT_INVALID if a deadline is less than 1 ms but not 0, because the
 * caller has probably used another unit.
 * @owner: prefix of the members' names in the error text: "deadlines->" */
int deadlines_check(const char *owner,
                    const struct cohort_deadlines *deadlines);

/* Undo all deadline pushes and pauses of the rank.  The caller holds the lock,
 * or @comm is closed. */
int deadlines_forget(struct cohort_comm *comm);

/* Take the lock and undo all deadline pushes and pauses of the rank. */
int deadlines_reset(struct cohort_comm *comm);

#endif
