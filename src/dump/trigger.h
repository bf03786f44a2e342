/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DUMP_TRIGGER_H
#define DUMP_TRIGGER_H

/*
 * Wakers: a signal or a write to a FIFO sets a trigger, and a thread acts on it
 *
 * With a FIFO, the thread sleeps until it is triggered.  Without a FIFO, there
 * is no thread at first; the signal wakes the watchdog, which starts one.
 *
 *  A. A waker is never freed, because a signal handler may find it at any
 *     time.  It is reused.
 *  B. The handler only sets the triggers and posts the semaphores of the wakers
 *     with its signal, and posts the watchdog's semaphore.
 *  C. A program may close descriptors that are not its own, and files that it
 *     opens later may get the same numbers.  So a waker has only one
 *     descriptor, that of its FIFO.  The waker checks the descriptor before it
 *     reads or closes it, and opens the FIFO again if the program has closed
 *     the descriptor.
 */

#include <stdbool.h>

enum trigger {
	TRIGGER_CALL = 1, /* waker_wake() was called */
	TRIGGER_SIGNAL = 2,
	TRIGGER_FIFO = 4,
};

struct waker;

/*
 * Acquire a waker.
 * @signal: the signal that triggers it, or 0
 * @fifo:   path of the FIFO that triggers it, or ""; created if it is missing
 *
 * Return COHORT_OK; COHORT_INVALID if the signal has a handler or cannot have
 * one, or if the file is not a FIFO; or COHORT_NO_MEMORY.
 */
int waker_get(int signal, const char *fifo, struct waker **out);

void waker_put(struct waker *waker);

/* Wake the thread in waker_wait() if there is a FIFO.  May be called from any
 * thread. */
void waker_wake(struct waker *waker);

/* Return true if waker_wait() would return a trigger now. */
bool waker_was_woken(const struct waker *waker);

/* Return the triggers and clear them.  With a FIFO, first sleep until a trigger
 * is set.  Only one thread at a time may call this. */
int waker_wait(struct waker *waker);

#endif
