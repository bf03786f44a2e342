/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

/*
 * Threads of the library: named, and with every signal blocked but those of their own
 * faults, so that handlers of the program run on the program's threads; and their locks
 */

#include <pthread.h>
#include <stdbool.h>

/*
 * Start @fn(@arg) on a thread named by @format (cut to 15 bytes).  Returns 0 or
 * an errno value.
 */
int thread_start(pthread_t *thread, void *(*fn)(void *), void *arg,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The calling thread's number in the system. */
int thread_id(void);

#define THREAD_NAME_SIZE 16 /* the kernel's, with the zero */

/* True if a thread of this process has ended, by that number: also the first one, which
 * the system keeps as a zombie. */
bool thread_has_ended(int tid);

/* Whether a thread of this process lives, by that number, and its name; "" if it
 * does not or that cannot be read. */
bool thread_lives(int tid, char name[THREAD_NAME_SIZE]);

#define THREAD_STATE_SIZE 64

/* What such a thread is doing, as far as the system tells: "asleep in futex",
 * "running", or "". */
void thread_state(int tid, char state[THREAD_STATE_SIZE]);

/* True if it has signal @signo blocked. */
bool thread_blocks(int tid, int signo);

/* True if, when the thread first asked for its number, its alternate signal stack had
 * no room for a handler: a signal with one that runs there would end the process.
 * Nobody else can see a thread's alternate stack.  thread_look_again(): as if the
 * thread had not asked yet. */
bool thread_is_cramped(int tid);
void thread_look_again(void);

/* A mutex for short critical sections: waiting for it spins a little before it
 * sleeps. */
void lock_init(pthread_mutex_t *lock);

#endif
