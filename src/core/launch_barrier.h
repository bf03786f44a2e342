/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_LAUNCH_BARRIER_H
#define CORE_LAUNCH_BARRIER_H

/*
 * The barrier of ranks that launch together: nothing of a collective is launched before all
 * ranks of the process have called it
 *
 * The ranks of a clique share one word.  The rank that is counted in last
 * (agree()) opens the launch window, then stores the collective's number in the
 * word.  A rank that finds a cause while it waits marks the word as cancelled.
 * Each is one exchange of the word, and whichever comes second follows the
 * first:
 *
 *	           last to call                 each rank counts down as
 *	WAITING ----------------> OPENED k, n left ------------------> WAITING, k + 1
 *	   |                                     it has launched
 *	   | cause
 *	   v
 *	GIVEN_UP, for ever: the clique has ended
 *
 *  A. All ranks of the process launch a collective, or none of them does.
 *  B. Before a collective is opened nothing of it is queued: an abort has no
 *     kernel to end, and its buffers are free as soon as the call has answered.
 *  C. From "opened" until the last rank has launched, the window is open
 *     (launch_lock.h): no memory operation of the library comes in between.
 *  D. A call returns once all ranks of the process have launched, or at a cause, or at
 *     the deadline of a call with host memory.  Otherwise the caller's next cudaFree()
 *     could block the other ranks' launches while it waits for the collective.
 *  E. A caller that stops waiting at the deadline of its own call leaves the
 *     rest to a thread of the library's, which waits and launches in its place
 *     (launch.c).
 */

#include <stdbool.h>
#include <stdint.h>

struct clique;
struct cohort_comm;

/*
 * launch_barrier_await  - wait until all ranks of the process have called
 *                   collective @number, as @comms, @n neighbouring ranks, have;
 *                   @comes_last: these were counted in last, and open the
 *                   collective.  COHORT_OK: launch it, then call
 *                   launch_barrier_leave(); the status of a cause: no rank
 *                   launches; COHORT_TIMED_OUT: @deadline_ns has passed, but
 *                   the ranks are still counted in: a thread must go on waiting
 *                   for them
 * launch_barrier_leave  - these ranks have launched the collective, or failed
 * to
 * launch_barrier_await_launched - wait until all ranks of the process have
 *                   launched @comm's last collective, there is a cause, or
 *                   @deadline_ns has passed
 *
 * One thread at a time: with the locks held, or in place of a caller that has
 * left.
 */
int launch_barrier_await(struct cohort_comm *comms, int n, uint64_t number,
                         bool comes_last, uint64_t deadline_ns);
void launch_barrier_leave(struct clique *clique, int n);
void launch_barrier_await_launched(const struct cohort_comm *comm,
                                   uint64_t deadline_ns);

/* For tests, with no call under way: what the last rank does between being
 * counted in and opening, with its window open already; NULL: nothing. */
void launch_barrier_set_pause(void (*pause)(void));

#endif
