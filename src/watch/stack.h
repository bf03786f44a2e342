/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_STACK_H
#define WATCH_STACK_H

/*
 * The stacks of other threads, as addresses
 *
 * Each thread is asked by a real-time signal, whose handler stores where the
 * thread is.  The handler takes no memory.  It takes no lock where the unwinder
 * takes none, which is so with glibc 2.35 and libgcc 12 or later, unless frames
 * are registered by hand, as some run-time compilers do.  With an older glibc
 * the handler does not unwind: the stack is then the one address at which the
 * thread is.
 *
 *  A. The asking thread waits until the deadline and no longer, whatever the
 *     others do.  A thread that does not answer does not affect the rest.
 *  B. The handler stays installed while a signal is under way, because without
 *     a handler the signal would end the process.  It never replaces a handler
 *     of the program.
 *  C. A thread that answers too late stores nothing where anything reads.
 *  D. The handler overruns no alternate stack.  Without room for the unwinder
 *     it stores the one address at which the thread is.  A thread whose
 *     alternate stack cannot even hold the kernel's frame is not asked.
 *
 * The handler runs on the alternate stack of a thread that has one.  Programs
 * set one because their own stacks are small: a goroutine's has a few KiB, with
 * other memory of the program right below it, which a handler on that stack
 * would silently overwrite.  An alternate stack that is too small is rare, and
 * each thread's is looked at before the thread is asked (base/thread.h).
 */

#include <stdint.h>

/* Frames of one stack, and stacks that are taken at a time. */
#define STACK_FRAMES 64
#define STACKS 40

struct stack {
	int tid;         /* the thread's id */
	const char *why; /* why there is no stack, NULL if there is one */

	/* Whether the thread held Python's interpreter lock: 1 or 0; -1 if the
	 * process has no Python. */
	int holds_python;
	int count;
	void *frames
		/* The innermost first: where the thread is, then the addresses
		 * that calls return to. */
		[STACK_FRAMES];
};

/* Be ready: have the first use of the unwinder done, as it opens a library. */
void stack_prepare(void);

/* Take the stacks of @n threads, at most STACKS, by signal @signo, until
 * @deadline_ns.  None of the threads is the caller. */
void stack_take(int signo, struct stack *stacks, int n, uint64_t deadline_ns);

/* Remove the handler, which may still be there because a thread answered
 * late. */
void stack_retire(int signo);

#endif
