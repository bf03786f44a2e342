/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_LAUNCH_LOCK_H
#define CORE_LAUNCH_LOCK_H

/*
 * The process-wide lock that keeps memory operations away from launches
 *
 * No memory operation (to allocate, free or pin memory, or to destroy a stream
 * or a communicator) may start between the first and the last launch of a
 * collective: docs/gpu.md ("How ranks launch") says why.
 *
 * The lock has three sides.  At any time, any number of windows, or any number
 * of sections, or one connection may be inside (hold the lock):
 *
 *  launch windows    open while the ranks of a clique launch a collective
 *  memory sections   open during a thread's memory operations
 *  connections       open while NCCL connects pairs of ranks, which both
 *                    allocates and launches
 *
 * Rules:
 *
 *  A. While threads of one side are inside, no other side enters, except by
 *     rule D.
 *  B. A thread that enters queues behind threads that wait for another side.
 *     When a side becomes empty, the threads that wait for the next side, in
 *     the order above, enter.
 *  C. A thread that is inside never waits for the lock.
 *  D. Threads wait for at most launch_lock_limit_ns for another side to become
 *     empty.  Then the stays of the threads inside expire: the threads
 *     continue, but no longer count as inside.
 *  E. When a thread exits, its section, its wait and its turn end.
 *  F. Windows of cliques that share a device open one after the other (a turn
 *     each), because NCCL requires the same order of launches on all devices.
 *     Cliques with ranks in other processes take no turns.
 *
 * docs/internals.md ("The launch lock") explains why every wait is bounded and
 * which code is in a section.  cohort_abort_fire() does not use this lock, so a
 * signal handler may call it.
 */

#include <stdbool.h>
#include <stdint.h>

struct clique;

/* Maximum time that a side waits for another one (rule D), initially
 * LAUNCH_LOCK_NS.  No healthy operation takes this long.  Atomic. */
#define LAUNCH_LOCK_NS UINT64_C(30000000000)
extern _Atomic uint64_t launch_lock_limit_ns;

/* A window waits for another clique's turn (rule F) for at most
 * launch_lock_limit_ns divided by this, so that a launch that hangs does not
 * use up the deadlines of other cliques. */
#define LAUNCH_LOCK_TURNS 30

/* For tests: return the number of waiting threads, including threads that wait
 * for a turn (rule F). */
unsigned launch_lock_waiting(void);

/* For tests: return the number of memory sections. */
unsigned launch_lock_sections(void);

/*
 * Open the launch window of @q for a collective that all its ranks have called.
 * Waits for the clique's turn (rule F), and until no memory section or
 * connection holds the lock, or until their stays expire (rule D).  May be
 * called from any thread.  A clique has one window at a time.
 *
 * Returns:
 *   COHORT_OK   the window is open
 *   @q's cause  no window is open
 */
int launch_lock_open(struct clique *q);

/*
 * Close the window of @q, if it is open, and end the clique's turn.  Called by
 * the last rank that has launched, or by the reaper after it has raised the
 * abort flags.  May be called from any thread.
 */
void launch_lock_close(struct clique *q);

/* Begin a memory section of this thread.  Waits until no window or connection
 * holds the lock, or until their stays expire (rule D).  Sections nest. */
void memory_section_begin(void);

/*
 * Begin a memory section in a call of a rank of @q.
 *
 * Returns:
 *   COHORT_OK   the section has begun
 *   @q's cause  no section has begun
 */
int memory_section_enter(struct clique *q);

void memory_section_end(void);

bool memory_section_is_open(void);

/* For diagnostics: return the ID of a thread in a memory section, or 0 if none
 * is recorded.  A thread is recorded only if it begins its section while no
 * other thread is recorded. */
int memory_section_thread(void);

/* Refuse the program's call @name with COHORT_STATE if this thread is in a
 * memory section, because the call would wait for the section to end. */
int memory_section_check(const char *name);

/* Begin a memory section that no thread owns, so that any thread can end it.
 * Waits until no window or connection holds the lock, or until their stays
 * expire (rule D).  Return the section's number, which is not 0. */
unsigned launch_lock_begin_section(void);

/* Begin a connection.  Waits until no window, section or other connection holds
 * the lock, or until their stays expire (rule D).  Return the connection's
 * number.  Do not call it in a memory section. */
unsigned launch_lock_begin_connection(void);

/* End section or connection @number.  Does nothing for 0. */
void launch_lock_end(unsigned number);

#endif
