/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

/*
 * Threads of the library: named, and with every signal blocked but those of
 * their own faults, so that handlers of the program run on the program's
 * threads; and the library's locks
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct text;

/*
 * Start @fn(@arg) on a thread named by @format, cut to 15 bytes, or, if that is
 * NULL, like the caller.  Returns 0 or an errno value.
 */
int thread_start(pthread_t *thread, void *(*fn)(void *), void *arg,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Replace each byte of a thread's name that is not UTF-8, or is left of a
 * character that was cut, by '?'. */
void thread_mend_name(char *name);

/* The calling thread's number in the system. */
int thread_id(void);

#define THREAD_NAME_SIZE 16 /* the kernel's, with the zero */

/* True if the thread of this process with that number has ended; also if it is
 * the first one, which the system keeps as a zombie. */
bool thread_has_ended(int tid);

/* Whether the thread of this process with that number lives, and its name; ""
 * if it does not or the name cannot be read. */
bool thread_lives(int tid, char name[THREAD_NAME_SIZE]);

#define THREAD_STATE_SIZE 64

/* What a thread of this process is doing, as far as the system tells: "asleep
 * in futex", "running", or "". */
void thread_state(int tid, char state[THREAD_STATE_SIZE]);

/* How long the calling thread has waited for a core so far while it was ready
 * to run; 0 if the system does not say. */
uint64_t thread_delayed_ns(void);

/* The letter of a process's state in the system: 'T' and 't', stopped; 'Z' and
 * 'X', ended; 0: not known. */
char thread_process_state(int64_t pid);

/*
 * thread_process_end - how another process of this machine has ended
 * @pid:   its number
 * @pidfd: of the process, -1 if the system has none
 *
 * The system keeps that for a process of this user until the process's parent
 * has waited for it, and from Linux 6.15 on for as long as there is a pidfd.
 *
 * Returns a status as waitpid() stores it; -1 if the process has not begun to
 * end, or if that is not known.
 */
int thread_process_end(int64_t pid, int pidfd);

/* Add "was killed by signal 9", "has exited with status 3", or "is gone" for
 * -1. */
void thread_add_end(struct text *t, int status);

/* True if thread @tid has signal @signo blocked. */
bool thread_blocks(int tid, int signo);

/* True if the alternate signal stack of thread @tid had no room for a handler
 * when the thread first called thread_id(): a signal whose handler runs there
 * would end the process.  No other thread can see an alternate stack.
 * thread_look_again(): have the next thread_id() of this thread look again. */
bool thread_is_cramped(int tid);
void thread_look_again(void);

/* Store the ids of up to @room threads of this process.  Return the number of
 * threads, or 0 if they cannot be listed.  Takes no memory. */
int thread_list(int *tids, int room);

/* write() that does not raise the signal @signo, which comes with error
 * @error. */
ssize_t write_quietly(int fd, const void *bytes, size_t n, int signo,
                      int error);

/* A mutex for short critical sections: waiting for it spins a little before it
 * sleeps. */
void lock_init(pthread_mutex_t *lock);

#endif
