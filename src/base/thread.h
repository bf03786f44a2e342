/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

/*
 * The library's threads and locks
 *
 * Threads are named, and block every signal except the signals that their own
 * faults raise, so that the program's handlers run on the program's threads.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct text;

/* Start @fn(@arg) on a thread named by @format, truncated to 15 bytes, or with
 * the caller's name if @format is NULL.  Return 0 or an errno value. */
int thread_start(pthread_t *thread, void *(*fn)(void *), void *arg,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Replace each byte of a thread's name that is not valid UTF-8 with '?'.  A
 * name that was truncated may end in part of a character. */
void thread_sanitize_name(char *name);

/* Return the calling thread's id, as gettid() does. */
int thread_id(void);

#define THREAD_NAME_SIZE 16 /* kernel's limit, including the zero */

/* Return true if thread @tid of this process has ended, even if it is the main
 * thread, which the system keeps as a zombie. */
bool thread_has_ended(int tid);

/* Return true if thread @tid of this process is alive, and store its name, or
 * "" if that is unknown or the thread has ended. */
bool thread_lives(int tid, char name[THREAD_NAME_SIZE]);

#define THREAD_STATE_SIZE 64

/* Store the state of a thread of this process in the operating system: "asleep
 * in futex", "running", or "" if it is unknown. */
void thread_state(int tid, char state[THREAD_STATE_SIZE]);

/*
 * thread_awaits - return the thread that another thread waits for
 * @tid: a thread of this process
 *
 * Returns:
 *   a thread's id  @tid waits for that thread in pthread_join()
 *   -1             @tid is asleep in another futex, like a thread that waits
 *                  for a lock, a condition variable, or an object of C++, Rust
 *                  or Python
 *   0              otherwise, or if unknown
 */
int thread_awaits(int tid);

/* Like thread_lives() and thread_state(), but for a thread of process @pid.
 * Details that this process lacks permission to read are omitted. */
bool thread_of_lives(int64_t pid, int tid, char name[THREAD_NAME_SIZE]);
void thread_of_state(int64_t pid, int tid, char state[THREAD_STATE_SIZE]);

/* Return the total time for which the calling thread has been ready to run but
 * waited for a core; 0 if unknown. */
uint64_t thread_delayed_ns(void);

/* Return the letter of a process's state in /proc: 'T' or 't' if stopped, 'Z'
 * or 'X' if it has ended; 0 if unknown. */
char thread_process_state(int64_t pid);

/* Return whether a process has ended, even if its parent has not reaped it. */
bool thread_process_is_gone(int64_t pid);

/* Return "is stopped" or "is stopped by a debugger" for a stopped process, and
 * NULL for any other process. */
const char *thread_process_stop(int64_t pid);

int64_t thread_process_parent(int64_t pid);

/* Return the words for a state's letter in /proc: "asleep" for 'S'. */
const char *thread_state_name(char state);

/*
 * thread_process_end - return how another process of this machine has ended
 * @pid:   its pid
 * @pidfd: its pidfd, or -1 if the system has none
 *
 * The system keeps the status of a process of this user until its parent has
 * reaped it, and from Linux 6.15 on for as long as a pidfd of the process is
 * open.
 *
 * Returns a status as from waitpid(); -1 if the process has not started to end
 * or its status is unknown.
 */
int thread_process_end(int64_t pid, int pidfd);

/* Append how a process has ended, such as "was killed by signal 9" or "has
 * exited with status 3"; "is gone" if @status is -1. */
void thread_add_end(struct text *t, int status);

bool thread_blocks(int tid, int signo);

/* Return true if thread @tid had too small an alternate signal stack for a
 * handler when it first called thread_id().  A signal whose handler runs on
 * such a stack ends the process.  Only the thread itself can query its
 * stack. */
bool thread_has_small_signal_stack(int tid);

/* Check the calling thread's alternate signal stack again in its next
 * thread_id(). */
void thread_recheck_signal_stack(void);

/* Store the ids of up to @room threads of this process.  Return the number of
 * threads, or 0 if they cannot be listed.  Allocates no memory. */
int thread_list(int *tids, int room);

/* Call write(), but suppress the signal @signo that would accompany the error
 * @error. */
ssize_t write_quietly(int fd, const void *bytes, size_t n, int signo,
                      int error);

/* Initialize a mutex whose waiters spin briefly before they sleep. */
void lock_init(pthread_mutex_t *lock);

#endif
