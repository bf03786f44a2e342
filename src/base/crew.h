/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CREW_H
#define BASE_CREW_H

/*
 * Threads for work that takes time or may hang: the end of a clique, stacks,
 * names of functions, callbacks, dump files
 *
 * Starting a thread takes memory, and so the allocator's lock, which a hung
 * thread may hold.  So a few workers are always idle, and a job begins on one
 * of them without a new thread.  More are started by the thread that calls
 * crew_refill(), which is the prober: no thread that must not hang starts one.
 *
 *  A. No call here but crew_get(), crew_fill() and crew_refill() starts a
 *     thread or takes memory.
 *  B. A job runs as soon as a worker is idle, in the order of crew_run().
 *  C. A job that hangs costs its worker.  The last crew_put() leaves that
 *     worker behind.
 */

#include <stdbool.h>
#include <stdint.h>

struct job {
	/* Owned by the crew from crew_run() until the job is done. */
	bool (*fn)(void *arg);
	void *arg;
	char name[16]; /* the thread's, while it runs */

	/* Constant; the job makes native calls, and by that changes what later
	 * calls of its thread do.  So that thread ends after it, unless it is
	 * the only one that is idle. */
	bool is_native;

	/* Guarded by the lock in crew.c. */
	enum { JOB_DONE, JOB_WAITS, JOB_RUNS } state;
	bool again; /* it was to be run while it ran */
	struct job *next;
};

/* Start the idle workers if there are none.  COHORT_OK or COHORT_SYSTEM; each
 * success is undone by one crew_put(), the last of which ends the workers. */
int crew_get(void);
void crew_put(void);

/* Run @fn(@arg) on a worker named by @format.  @job is zeroed at first.  A job
 * that waits already runs once; one that runs already, with the same arguments,
 * runs once more after that.  @fn returns false if it has freed @job. */
void crew_run(struct job *job, bool (*fn)(void *arg), void *arg,
              const char *format, ...) __attribute__((format(printf, 4, 5)));

/* True if the job is done, or was never run. */
bool crew_is_done(struct job *job);

/* Take back a job that no worker has begun: it is done.  False if one has. */
bool crew_cancel(struct job *job);

/* Wait until the job is done; false if it is not by @deadline_ns. */
bool crew_await(struct job *job, uint64_t deadline_ns);

/* Sleep until a job finds no idle worker, crew_poke() is called, or
 * @deadline_ns; then crew_fill().  One thread at a time. */
void crew_refill(uint64_t deadline_ns);
void crew_poke(void);

/* Start the workers that are missing: also called by a thread of the program
 * that is about to run a job, because there may be no prober. */
void crew_fill(void);

#endif
