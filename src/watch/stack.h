/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_STACK_H
#define WATCH_STACK_H

/*
 * The stacks of other threads, as addresses
 *
 * A real-time signal is sent to those threads, whose handler stores where they are.  It
 * takes no memory, and no lock where the unwinder takes none: with glibc 2.35 and
 * libgcc 12 or later, and as long as no frames are registered by hand, as some
 * compilers at run time do.  With an older glibc it does not unwind: a stack is then
 * the one place where the thread is.
 *
 *  A. Whoever asks waits until the deadline and no longer, whatever the threads do;
 *     and of one that does not answer the others know nothing.
 *  B. The handler stays while a signal that was sent has not come: as it then would
 *     end the process.  It never takes the place of one of the program's.
 *  C. A thread that answers too late stores nothing where anybody looks.
 *  D. The handler overruns no alternate stack.  Without room for the unwinder it stores
 *     the one place where the thread is.  A thread whose alternate stack does not even
 *     take the kernel's frame is not asked.
 *
 * The handler runs on the alternate stack where a thread has one.  Programs have one
 * because their own stacks are small: a goroutine's has a few KiB, with other memory
 * of the program right below it, and a handler there would overwrite that in silence.
 * An alternate stack that is too small is rare, and a thread sees its own before it is
 * asked (base/thread.h).
 */

#include <stdint.h>

/* Of one thread, and of threads at a time. */
#define STACK_FRAMES 64
#define STACKS 8

struct stack {
	int tid;         /* whose */
	const char *why; /* there is none, for people; NULL: there is */
	int count;
	void *frames
		[STACK_FRAMES]; /* the innermost first: where it is, and then
	                               where calls return to */
};

/* Be ready: what the first use of the unwinder does is done now. */
void stack_prepare(void);

/* Ask the threads of @n stacks, at most STACKS, by signal @signo, until
 * @deadline_ns.  None of them is the caller. */
void stack_take(int signo, struct stack *stacks, int n, uint64_t deadline_ns);

/* Take the handler back, if a thread that has answered late has left it there. */
void stack_retire(int signo);

#endif
