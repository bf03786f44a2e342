/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_LAUNCH_LOCK_H
#define CORE_LAUNCH_LOCK_H

/*
 * The lock between launches and memory operations: in a launch window, while
 * collectives are being launched, no memory operation begins, and the reverse,
 * in the whole process; and while NCCL connects pairs of ranks, which allocates
 * and launches, neither of the two
 *
 * A memory operation on one device (to allocate, to free, to pin, to destroy a
 * stream or a communicator) may wait for kernels on all devices of the process.
 * A kernel of a collective spins until the other ranks' kernels have come.  So
 * no memory operation may come between the first and the last launch of a
 * collective.  There are three sides: windows, memory sections, and
 * connections.  Any number may stay on one of the first two, or one thread on
 * the third, while nobody stays on the others.  Cliques that share a device
 * have one window open at a time: NCCL wants the collectives of several
 * communicators launched in one order on all their devices.
 *
 *  A. While a window is open no memory section begins, and while a memory
 *     section lasts no window opens; and neither while a connection lasts, nor
 *     another connection; except by D.
 *  B. No side starves: once a thread waits for another side, newcomers wait
 *     behind it; when the last thread leaves a side, all that wait for the next
 *     side come in, or the one connection that came first.  Windows are
 *     followed by memory sections, these by connections, and those by windows.
 *  C. A thread that is inside never waits here: not the ranks of an open
 *     window, and not a thread that begins another memory section inside its
 *     own.
 *  D. A stay of more than LAUNCH_LOCK_LIMIT_NS no longer counts once a thread
 *     waits for its end.
 *  E. The exit of a thread ends its memory section, or its wait, and the turn
 *     (F) for which it waits.
 *  F. Before it comes to its side, a window waits until earlier windows of
 *     cliques that share a device with its clique are closed, or have been open
 *     for a thirtieth of LAUNCH_LOCK_LIMIT_NS: a clique does not pay with its
 *     deadline for a launch of another that hangs.  A clique with ranks in
 *     other processes, which may have another order, neither waits nor is
 *     waited for.
 *
 * Why every wait here is bounded
 *
 * The lock is held for a few assignments, never across a call.  A wait for
 * entry ends when the other side has left (B), when the limit has passed (D),
 * or, for a window and for a rank's call, with the clique's cause.  A newcomer
 * never overtakes a thread that waits.  So a thread waits for one stay of each
 * side at most, and for those connections that came before its own: each no
 * longer than the limit, no matter what hangs.  A window first waits for those
 * before it (F), and they wait in the same way.  This breaks any deadlock cycle
 * through this lock, even one through other processes.
 *
 * The limit is for what hangs.  Otherwise:
 *  - An open window does not wait for memory sections: its ranks have done all
 *    that allocates before they were counted in, and now only launch.  The last
 *    one closes it.  If a launch never returns, the clique gets its cause, and
 *    its reaper closes the window once the abort flags are up: from then on its
 *    kernels exit.  If the flags cannot be raised (WEDGED, or nothing has a
 *    deadline), the limit does it.
 *  - A memory section does not wait for windows: kernels that the operation may
 *    wait for are launched on every rank of the process, and run.  What else
 *    they may wait for has deadlines of its own: ranks of other processes,
 *    sends and receives, groups that launch ahead, work of the program; a
 *    window that waits meanwhile goes on with the limit.
 *  - No thread in a memory section waits for another thread that begins one, as
 *    a newcomer waits behind a window that waits for the first.  A program's
 *    quiet section refuses the calls that wait for the library's threads.
 *  - An init whose ranks are all in this process is one section, of its helper
 *    thread; a caller that leaves that thread ends the section.  A thread that
 *    returns from the call in which it was left begins another section for what
 *    it still makes or gives back.  An init together with other processes waits
 *    for them, and they may wait for a collective with this one: only what
 *    comes after the native init is a section.  A split follows the same two
 *    rules.
 *  - A thread that aborts a clique raises the flags outside of any section, and
 *    begins one only to free.
 *  - A connection of pairs whose ranks are all in this process waits for
 *    nobody.  If it hangs, its caller leaves it and aborts it.  A connection
 *    that involves other processes, or ranks that join from other threads,
 *    takes neither side of the lock.
 *
 * cohort_abort_fire() does not come here, so that a signal handler may call it.
 */

#include <stdbool.h>
#include <stdint.h>

struct clique;

/* No operation that goes well takes so long, and deadlines of groups are
 * longer. */
#define LAUNCH_LOCK_LIMIT_NS UINT64_C(30000000000)

/* A turn (F) lasts a second at most, far longer than the launches of a
 * collective. */
#define LAUNCH_LOCK_TURNS 30

/* For tests: set another limit; how many threads wait, including for a turn
 * (F); how many memory sections there are. */
void launch_lock_set_limit(uint64_t ns);
unsigned launch_lock_waiting(void);
unsigned launch_lock_sections(void);

/*
 * launch_lock_open  - wait for @q's turn (F), and until no memory section
 *                lasts, for a collective of @q that all ranks have called.
 *                COHORT_OK, or @q's cause, and nothing is open
 * launch_lock_close - the last rank has launched, or @q's abort flags are up:
 *                no window of @q is open any more, and its turn has ended
 *
 * Any thread; a clique has one window at a time.
 */
int launch_lock_open(struct clique *q);
void launch_lock_close(struct clique *q);

/*
 * Memory sections of this thread; they nest.
 *
 * memory_section_begin - wait until no window is open, and begin a section
 * memory_section_enter - begin a section in a call of a rank of @q: COHORT_OK,
 *                       or @q's cause, and none is begun
 * memory_section_end   - end the section that was begun last
 * memory_section_is_open    - true inside a section
 */
void memory_section_begin(void);
int memory_section_enter(struct clique *q);
void memory_section_end(void);
bool memory_section_is_open(void);

/* COHORT_STATE in a memory section of this thread, for a call of the program's,
 * @name, that would wait for the end of the section. */
int memory_section_check(const char *name);

/*
 * A memory section that no thread owns, for what a helper thread does and
 * another thread may stop waiting for; and a connection, in no memory section.
 *
 * launch_lock_take       - wait until no window is open and no connection
 *                     lasts, and begin it: returns its number, not 0
 * launch_lock_give       - end the section of that number, once; does nothing
 * for 0
 * launch_lock_take_alone - begin a connection, once nothing else lasts
 * launch_lock_give_alone - end it
 */
unsigned launch_lock_take(void);
void launch_lock_give(unsigned taken);
unsigned launch_lock_take_alone(void);
void launch_lock_give_alone(unsigned taken);

#endif
