/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DUMP_DUMPER_H
#define DUMP_DUMPER_H

/*
 * Write a dump on a verdict, on a signal, or on a write to a FIFO
 *
 * The dumper is a job of the crew (base/crew.h) while there is something to
 * write.  With a FIFO the job always runs, because even checking a FIFO may
 * hang.  If the disk hangs, only this job hangs: it writes a copy of the
 * records, and the thread that stops it waits only until a deadline.
 */

#include "dump/flight.h"

#define DUMP_PATH 512

struct stack_report;

struct dump_options {
	char directory[DUMP_PATH]; /* if empty, no dump is ever written */
	int signal;                /* signal that requests a dump, or 0 */
	int stack_signal; /* signal to take stacks for requested dumps, or 0 */

	/* Take the stacks of @n threads by a signal.  The caller sets the ranks
	 * and thread ids in @reports.  Return false if there is no memory. */
	bool (*take_stacks)(int signo, struct stack_report *reports, int n,
	                    struct stack_traces *out);
	char fifo[DUMP_PATH]; /* if empty, there is no FIFO */
};

struct dumper;

/* Create the dumper, or store NULL if no directory is set.  Return COHORT_OK,
 * COHORT_INVALID or COHORT_NO_MEMORY. */
int dumper_start(struct clique *clique, const struct dump_options *options,
                 struct dumper **out);

/* Request a dump with @verdict and, if @stacks is not NULL, with the stacks
 * that were taken for it.  Does nothing if @dumper is NULL. */
void dumper_post(struct dumper *dumper, const struct cohort_verdict *verdict,
                 const struct stack_traces *stacks);

/* Start a dump if a signal has requested one.  The signal handler wakes the
 * watchdog, which calls this.  Does nothing if @dumper is NULL. */
void dumper_poll(struct dumper *dumper);

/* Keep the dumper from being freed until dumper_await() returns.  Does nothing
 * if @dumper is NULL. */
void dumper_retain(struct dumper *dumper);

/* Wait until the dumps of all verdicts so far are written, until @deadline_ns,
 * or until dumper_stop() has given up.  Follows dumper_retain().  Does nothing
 * if @dumper is NULL. */
void dumper_await(struct dumper *dumper, uint64_t deadline_ns);

/* Let the dumper end after all requested dumps.  Does not wait. */
void dumper_end(struct dumper *dumper);

/* Stop the dumper once it has written all requested dumps.  After @deadline_ns
 * the dumper is abandoned, and frees itself if it ever ends.  In either case it
 * does not read the clique after this function has returned. */
void dumper_stop(struct dumper *dumper, uint64_t deadline_ns);

#endif
