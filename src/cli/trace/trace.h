/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TRACE_TRACE_H
#define CLI_TRACE_TRACE_H

/*
 * The parts of cohort trace: reading dumps, and saying what is in them
 */

#include <stdbool.h>

#include "dump/flight.h"

struct json;

/* What the files had in them, put together. */
struct trace {
	struct flight flight; /* of the ranks that there are, in their order */
	bool is_found;        /* false: no file could be read */
	uint64_t missing[COHORT_RANK_WORDS]; /* ranks without a dump */

	/* What is wrong with the files, a line for each. */
	char **problems;
	int n_problems;
};

/* Read them.  CLI_OK, also if some are damaged, or CLI_FAILED after a complaint. */
int trace_read(struct trace *trace, char *const *files, int n);
void trace_free(struct trace *trace);

/* The collectives around the one that it is about. */
struct trace_window {
	uint64_t front; /* that one; 0: there is none */
	uint64_t first, last;
};

/* What a rank has of a collective; NULL: not on record. */
const struct flight_op *trace_find(const struct flight_rank *rank,
                                   uint64_t number);

/* ---- figures ---------------------------------------------------------- */

/* Of some times, in ns. */
struct trace_spread {
	size_t n;
	uint64_t p50, p95, max;
};

/* How often a rank came last, and by how much behind the first. */
struct trace_late {
	int rank;
	size_t last, of;
	struct trace_spread late;
};

/* The calls of one kind, type, count, tag and label.  Tags that differ only in their numbers
 * are one, with '#' for a number that is not the same in all. */
struct trace_site {
	const char *call;
	struct record record; /* of one of them */
	char tag[TAG_SIZE];
	const char *label;
	size_t calls;
	uint64_t total_ns; /* of all of them, without what was between */
	struct trace_spread queueing, waiting, execution, between;
};

struct trace_figures {
	struct trace_window window;
	int n_late;
	struct trace_late *late; /* by rank */
	size_t n_sites;
	struct trace_site *sites; /* those with the most time first */
};

/* False without memory. */
bool trace_figures(const struct trace *trace, struct trace_figures *figures);
void trace_figures_free(struct trace_figures *figures);

/* ---- saying it -------------------------------------------------------- */

void trace_print(const struct trace *trace, const struct trace_figures *f);
void trace_json(struct json *json, const struct trace *trace,
                const struct trace_figures *f);

/* The command: @argv[0] is its name, an enum cli_exit is returned. */
int trace_main(int argc, char **argv);

#endif
