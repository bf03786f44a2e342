/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DUMP_DUMPER_H
#define DUMP_DUMPER_H

/*
 * The thread that writes dumps when it is told of a verdict, by a signal, or by a
 * FIFO
 *
 * It is there if a directory is.  The disk may hang it, and nobody else: what it
 * writes is a copy, and whoever stops it waits no longer than until a deadline.
 */

#include "dump/flight.h"

#define DUMP_PATH 512

struct dump_options {
	char directory[DUMP_PATH]; /* empty: nothing is ever written */
	int signal;                /* 0: none */
	char fifo[DUMP_PATH];      /* empty: none */
};

struct dumper;

/* Store NULL if there is no directory. */
int dumper_start(struct clique *clique, const struct dump_options *options,
                 struct dumper **out);

/* Have a dump with @verdict written.  NULL: does nothing. */
void dumper_tell(struct dumper *dumper, const struct cohort_verdict *verdict);

/* Have it end once it has written what it was told of, and do not wait for that. */
void dumper_end(struct dumper *dumper);

/* Stop it once it has written what it was told of.  After @deadline_ns it is left
 * behind, to free itself should it come to its end; in any case it does not look at
 * the clique any more. */
void dumper_stop(struct dumper *dumper, uint64_t deadline_ns);

#endif
