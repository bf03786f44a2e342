/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DUMP_TRIGGER_H
#define DUMP_TRIGGER_H

/*
 * Wakers: a signal or a write to a FIFO sets a trigger, on which a thread then
 * acts.  Where there is a FIFO the thread sleeps until it is triggered;
 * otherwise the watchdog, which the signal wakes, starts it
 *
 *  A. A waker is never freed, because a signal handler may find it at any time.
 *     It is reused.
 *  B. The handler does nothing but post semaphores: those of the wakers with
 *     its signal, and the watchdog's.
 *  C. A program may close descriptors that are not its own, and open its files
 *     under their numbers.  So a waker has no descriptor but the FIFO's, which
 *     is checked before it is read or closed, and opened again if it is gone.
 */

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

enum trigger {
	TRIGGER_CALL = 1, /* the library itself */
	TRIGGER_SIGNAL = 2,
	TRIGGER_FIFO = 4,
};

struct waker {
	sem_t posted;

	/* Atomic; the triggers that have come. */
	atomic_uint triggers;

	/* Atomic; the signal that wakes it, 0: none.  Read by the handler. */
	atomic_int signal;

	/* Guarded by the lock in trigger.c. */
	bool is_used;
	int fifo; /* descriptor, -1: none now */
	bool made_fifo;
	char path[512]; /* "": it has no FIFO; constant while it is used */
	dev_t device;
	ino_t inode;

	/* Constant once it is in the list. */
	struct waker *next;
};

/* Get a waker for @signal (0: none) and the FIFO at @fifo ("": none), which is
 * made if it is missing.  COHORT_INVALID for a signal that has a handler
 * already, or cannot have one, and for a file that is not a FIFO;
 * COHORT_NO_MEMORY. */
int waker_get(int signal, const char *fifo, struct waker **out);
void waker_put(struct waker *waker);

/* Wake the thread that waits, if there is a FIFO to wait for.  Any thread
 * may. */
void waker_wake(struct waker *waker);

/* True if there are triggers. */
bool waker_was_woken(const struct waker *waker);

/* Take the triggers.  If there is a FIFO, first sleep until there are some.
 * One thread at a time. */
int waker_wait(struct waker *waker);

#endif
