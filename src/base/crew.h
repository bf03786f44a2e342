/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CREW_H
#define BASE_CREW_H

/*
 * A pool of threads for work that takes time or may hang: ending a clique,
 * taking stacks, looking up names of functions, calling callbacks, writing
 * dumps
 *
 * Starting a thread allocates memory, which takes a lock that a hung thread may
 * hold.  So a few workers are always idle, and a job can start without a new
 * thread.  The prober calls crew_refill() to replace busy workers; threads that
 * must not hang never start a thread.
 *
 *  A. Only crew_get(), crew_fill() and crew_refill() start threads or allocate
 *     memory.
 *  B. A job starts as soon as a worker is idle, in the order of the calls of
 *     crew_run().
 *  C. A job that hangs occupies its worker.  The last crew_put() abandons that
 *     worker.
 */

#include <stdbool.h>
#include <stdint.h>

struct job {
	/* The crew owns the job from crew_run() until it is done. */
	bool (*fn)(void *arg);
	void *arg;
	char name[16]; /* name of the thread while the job runs */

	/* Constant; true if the job makes native calls.  Because these can
	 * affect later calls of the same thread, the thread ends after the job,
	 * unless it is the only idle one. */
	bool is_native;

	/* Guarded by the lock in crew.c. */
	enum { JOB_DONE, JOB_WAITS, JOB_RUNS } state;
	bool rerun; /* crew_run() was called while the job ran */
	struct job *next;
};

/* Acquire a reference to the crew.  The first reference starts the idle
 * workers.  Return COHORT_OK or COHORT_SYSTEM. */
int crew_get(void);

/* Release a reference.  The release of the last reference ends the workers. */
void crew_put(void);

/* Run @fn(@arg) on a worker whose thread is named by @format.  If @job is
 * already waiting, it runs only once.  If it is already running with the same
 * arguments, it runs again afterwards.
 * @job: zeroed before the first call
 * @fn:  returns false if it has freed @job */
void crew_run(struct job *job, bool (*fn)(void *arg), void *arg,
              const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Cancel the job if no worker has started it.  Return true if the job is now
 * done, or was done before; false if it is running. */
bool crew_cancel(struct job *job);

/* Wait until the job is done.  Return false if @deadline_ns passes first; if it
 * is 0, do not wait.  A job that was never run is done. */
bool crew_await(struct job *job, uint64_t deadline_ns);

/* Sleep until a job finds no idle worker, crew_wake_refill() is called, or
 * @deadline_ns passes; then call crew_fill().  Only one thread at a time may
 * call this. */
void crew_refill(uint64_t deadline_ns);

void crew_wake_refill(void);

/* Start the missing workers.  A thread of the program also calls this before it
 * starts a job, because there may be no prober. */
void crew_fill(void);

#endif
