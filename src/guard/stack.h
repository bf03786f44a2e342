/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUARD_STACK_H
#define GUARD_STACK_H

/*
 * The stack of another thread, as addresses
 *
 * A real-time signal is sent to that thread, whose handler stores where it is; no
 * lock is taken there, and no memory.  The handler is there from the question to the
 * last answer, and never takes the place of one of the program's.
 *
 *  A. Whoever asks waits until the deadline and no longer, whatever the thread does.
 *  B. The handler stays while a signal that was sent is not answered: as it then
 *     would end the process.
 *  C. A thread that answers too late stores nothing where anybody looks.
 */

#include <stdint.h>

#define STACK_FRAMES 40

struct stack {
	int count;
	void *frames
		[STACK_FRAMES]; /* the innermost first: where it is, and then
	                               where calls return to */
};

/* Be ready: what the first use of the unwinder does is done now. */
void stack_prepare(void);

/* Ask thread @tid by signal @signo, until @deadline_ns.  NULL, or why there is no
 * answer, for people.  Any thread but that one. */
const char *stack_take(int signo, int tid, uint64_t deadline_ns,
                       struct stack *out);

#endif
