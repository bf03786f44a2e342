/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DUMP_DUMPER_H
#define DUMP_DUMPER_H

/*
 * The dumper: writes a dump on a verdict, on a signal, or on a write to a FIFO
 *
 * It is a job of the crew while there is something to write, and with a FIFO
 * always: even a check of a FIFO may hang.  The disk may hang this job and
 * nothing else: it writes a copy, and the thread that stops it waits until a
 * deadline and no longer.
 */

#include "dump/flight.h"

#define DUMP_PATH 512

struct dump_options {
	char directory[DUMP_PATH]; /* empty: nothing is ever written */
	int signal;                /* 0: none */
	char fifo[DUMP_PATH];      /* empty: none */
};

struct dumper;

/* Prepare the dumper, or store NULL if no directory is set.  COHORT_OK,
 * COHORT_INVALID, COHORT_NO_MEMORY, COHORT_SYSTEM. */
int dumper_start(struct clique *clique, const struct dump_options *options,
                 struct dumper **out);

/* Have a dump with @verdict written, and with the stacks that were taken for
 * it, if @stacks is not NULL.  Does nothing if @dumper is NULL. */
void dumper_tell(struct dumper *dumper, const struct cohort_verdict *verdict,
                 const struct stack_traces *stacks);

/* Write a dump if a signal has asked for one: the handler wakes the watchdog,
 * which calls this.  Does nothing if @dumper is NULL. */
void dumper_poll(struct dumper *dumper);

/*
 * Wait until the dumps of all verdicts so far are written, but not after
 * @deadline_ns, nor once dumper_stop() has given up.  dumper_hold() comes
 * before, and keeps the dumper from being freed until dumper_await() returns.
 * Both do nothing if @dumper is NULL.
 */
void dumper_hold(struct dumper *dumper);
void dumper_await(struct dumper *dumper, uint64_t deadline_ns);

/* Have the dumper end once it has written what it was told of.  Does not
 * wait. */
void dumper_end(struct dumper *dumper);

/* Stop the dumper once it has written what it was told of.  After @deadline_ns
 * it is left behind and frees itself if it ever ends.  In either case it no
 * longer reads the clique. */
void dumper_stop(struct dumper *dumper, uint64_t deadline_ns);

#endif
