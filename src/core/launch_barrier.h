/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_LAUNCH_BARRIER_H
#define CORE_LAUNCH_BARRIER_H

/*
 * The barrier of ranks that launch together: no rank of the process launches a
 * collective before all of them have called it
 *
 * The ranks of a clique share one word.  The rank that agree() counts last
 * opens the collective; a waiting rank that sees a cause cancels it.  Whichever
 * happens first decides:
 *
 *	         last rank has called             each rank that has
 *	                                          launched subtracts 1 from n
 *	WAITING ---------------------> OPENED k, ----------> WAITING for k + 1
 *	   |                           n left
 *	   | cause
 *	   v
 *	GIVEN_UP: final, because the clique has ended
 *
 *  A. All ranks of the process launch a collective, or no rank does.
 *  B. No part of a collective is queued before it is opened.  If an abort comes
 *     first, there is no kernel to end, and the buffers are free as soon as the
 *     call has returned.
 *  C. The launch window (launch_lock.h) is open from OPENED until the last rank
 *     has launched: no memory operation of the library comes between the
 *     launches.
 *  D. A call returns once all ranks of the process have launched, or on a
 *     cause, or at the deadline of a call with host memory.  If a call returned
 *     earlier, the caller's next cudaFree(), which waits for the collective,
 *     could block the launches of the other ranks.
 *  E. If a caller times out at the deadline of its own call, a library thread
 *     waits and launches in its place (launch.c).
 */

#include <stdbool.h>
#include <stdint.h>

struct clique;
struct cohort_comm;

/*
 * Wait until all ranks of the process have called collective @number.
 * @comms, @n:  @n consecutive ranks, starting at @comms, that have called the
 *              collective
 * @arrives_last: true if these ranks were counted last; they then open the
 *              collective
 * @deadline_ns: COHORT_FOREVER, except in a call with host memory
 *
 * One thread at a time may call this for a rank: the thread that holds the
 * rank's lock, or the library thread that replaces a caller that timed out.
 *
 * Returns:
 *   COHORT_OK         launch the collective, then call launch_barrier_leave()
 *   COHORT_TIMED_OUT  @deadline_ns has passed; the ranks stay counted, so
 *                     another thread must continue to wait in their place
 *   a cause's status  no rank launches the collective
 */
int launch_barrier_await(struct cohort_comm *comms, int n, uint64_t number,
                         bool arrives_last, uint64_t deadline_ns);

/*
 * Open collective @number, whose launch window is open, for all ranks of the
 * process.  Called by launch_barrier_await() for the ranks that arrive last.
 *
 * Returns:
 *   COHORT_OK         launch the collective
 *   a cause's status  another rank has canceled the collective; the window is
 *                     closed, and no rank launches the collective
 */
int launch_barrier_open(struct clique *clique, uint64_t number);

/* Count @n ranks that have launched the collective or failed to launch it.  The
 * last rank closes the launch window. */
void launch_barrier_leave(struct clique *clique, int n);

/* Wait until all ranks of the process have launched @comm's last collective,
 * the clique gets a cause, or @deadline_ns passes. */
void launch_barrier_await_launched(const struct cohort_comm *comm,
                                   uint64_t deadline_ns);

#endif
