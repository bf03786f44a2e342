/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_STACK_H
#define WATCH_STACK_H

/*
 * Takes the stacks of other threads, as addresses
 *
 * Each thread gets a real-time signal, whose handler stores the addresses of
 * the thread's stack.  The handler allocates no memory.  It takes no lock if
 * the unwinder takes none.  The unwinder takes none with glibc 2.35 and libgcc
 * 12 or later, unless frames are registered by hand, as some run-time compilers
 * do.  With an older glibc the handler does not unwind: the stack is then only
 * the address at which the thread was interrupted.
 *
 *  A. The asking thread waits until its deadline and no longer, whatever the
 *     other threads do.  A thread that does not answer does not affect the
 *     other stacks.
 *  B. The handler stays installed while a signal is pending, because without a
 *     handler the signal would end the process.  It never replaces a handler of
 *     the program.
 *  C. A thread that answers too late writes only to memory that no thread
 *     reads.
 *  D. The handler never overruns an alternate signal stack.  Without room for
 *     the unwinder it stores only the address at which the thread was
 *     interrupted.  A thread whose alternate stack cannot even hold the
 *     kernel's frame is not asked.
 *
 * If a thread has an alternate stack, the handler runs on it, because the
 * thread's own stack may be too small: a goroutine's has a few KiB, and a
 * handler would silently overwrite the memory below it.  An alternate stack
 * that is too small is rare, and is detected before the thread is asked
 * (base/thread.h).
 */

#include <stdint.h>

/* Maximum number of frames of a stack. */
#define STACK_FRAMES 64

/* Maximum number of stacks that are taken at a time. */
#define STACKS 40

struct stack {
	int tid;
	/* Reason why there is no stack; NULL if there is one. */
	const char *why;

	/* 1 if the thread held Python's interpreter lock, 0 if not, -1 if the
	 * process has no Python. */
	int holds_python;
	int count;
	/* Addresses, innermost first: where the thread was interrupted, then
	 * the return addresses of its callers. */
	void *frames[STACK_FRAMES];
};

/* Prepare for stack_take(): use the unwinder once, because its first use opens
 * a library, which the signal handler must not do. */
void stack_prepare(void);

/* Take the stacks of @n threads, at most STACKS, with signal @signo.  Return by
 * @deadline_ns.  The caller must not be one of the threads. */
void stack_take(int signo, struct stack *stacks, int n, uint64_t deadline_ns);

/* Remove the handler if a late answer has kept it installed. */
void stack_retire(int signo);

#endif
