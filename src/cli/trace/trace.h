/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TRACE_TRACE_H
#define CLI_TRACE_TRACE_H

/* cohort trace: reads dumps, computes figures, and prints the dumps and the
 * figures */

#include <stdbool.h>
#include <stdio.h>

#include "dump/flight.h"
#include "watch/symbolizer.h"

struct trace_frame {
	char path[PLACE_PATH]; /* path of the mapped file, or "" */
	char build_id[2 * IMAGE_BUILD_ID + 1];
	/* offset of the frame in the file, as addr2line expects it */
	uint64_t offset;

	/* Name of the function, such as "f (a.c:12)" or "f+0x2a"; "" if it is
	 * unknown, or if @is_other_build is true */
	char function[PLACE_NAME + 64];
	/* the file on this machine has a different build ID */
	bool is_other_build;
};

struct trace_stack {
	char process[96]; /* name of the process: HOST.PID.SERIAL */
	/* the missing rank to which the thread belongs, or -1 */
	int rank;
	int tid;
	char thread[THREAD_NAME_SIZE];
	char state[THREAD_STATE_SIZE];
	bool holds_python;     /* the thread held Python's interpreter lock */
	char text[STACK_TEXT]; /* the stack as shown in the verdict */
	int n;
	struct trace_frame *frames;
};

struct trace_stacks {
	int n;
	struct trace_stack *at;
};

/* The contents of all files, merged */
struct trace {
	struct flight flight; /* the ranks that were found, in order */
	bool is_found;        /* at least one file contains a rank's dump */
	uint64_t missing[COHORT_RANK_WORDS]; /* ranks without a dump */

	struct trace_stacks stacks;

	/* Descriptions of what is wrong with the files, one per problem */
	char **problems;
	int n_problems;
};

/* Return whether dumps can be read. If not, report that this command was built
 * without support for it. */
bool trace_is_able(void);

/*
 * Read the files, even if some are damaged. The trace's problems describe what
 * is wrong with them, and may contain names of files with control characters.
 *
 * @most: number of last operations of a rank to read from a merged file; 0
 *        reads all
 *
 * Return false if no file contains a rank's dump.
 */
bool trace_gather(struct trace *trace, char *const *files, int n, size_t most);

void trace_free(struct trace *trace);

void trace_stacks_free(struct trace_stacks *stacks);

void trace_name_frame(struct trace_frame *frame);

/* End of the name of a merged file, which has all ranks of a process */
#define TRACE_MERGED "_merged.json"

/* ---- the model -------------------------------------------------------- */

/* The collectives to show */
struct trace_window {
	uint64_t front; /* the collective that the trace is about, or 0 */
	/* true if @front is not done; otherwise all are done, and @front is the
	 * last */
	bool is_stalled;
	uint64_t first, last;
};

/* The durations of a call. TRACE_BETWEEN is how long the rank was idle before
 * the call. */
enum {
	TRACE_QUEUEING,
	TRACE_WAITING,
	TRACE_EXECUTION,
	TRACE_BETWEEN,
	TRACE_TIMES
};

#define TRACE_UNKNOWN UINT64_MAX

struct trace_call {
	const struct flight_op *op;
	const char *tag, *label;
	size_t kind; /* index of its kind */

	/* The call's bar in a picture. If the call failed or its end is not
	 * known, the bar has no width. */
	struct flight_span drawn;

	/* The call's durations, or TRACE_UNKNOWN if the call has not ended or
	 * the duration depends on an end that was observed late */
	uint64_t ns[TRACE_TIMES];
};

/* The spread of a set of times, in ns */
struct trace_spread {
	size_t n;
	uint64_t p50, p95, max;
};

struct trace_rank {
	const struct trace_call *newest; /* newest call, or NULL */

	/* Number of collectives that the rank called last, out of @of, and how
	 * long after the first rank it called them */
	size_t last, of;
	struct trace_spread late;

	/* Total times and bytes of the rank's calls */
	uint64_t waiting_ns, execution_ns, bytes;
};

/* A site: calls with the same operation, type, count, tag and label. Tags that
 * differ only in numbers are treated as one tag. In that tag, '#' replaces each
 * number that varies. */
struct trace_site {
	const struct flight_op *op; /* one of the site's calls */
	char tag[TAG_SIZE];
	const char *label;
	size_t calls;      /* number of calls that have ended */
	size_t bounded;    /* number of calls whose end was observed late */
	uint64_t total_ns; /* total time of the calls */
	struct trace_spread times[TRACE_TIMES];
};

struct trace_model {
	const struct trace *trace;
	const struct flight *flight;

	/* The verdict as text or, if there is none, the cause. NULL if the
	 * group had not ended. */
	const char *verdict, *text;
	int culprit; /* the rank to blame, or -1 */

	struct trace_window window;
	uint64_t base_ns, now_ns; /* first and last recorded time */
	struct trace_rank *ranks; /* ranks, in the order of @flight->ranks */

	size_t n_calls;
	struct trace_call *calls; /* calls of all ranks, by rank and time */

	/* One call of each kind. Calls of one kind differ only in their numbers
	 * and times. */
	size_t n_kinds;
	const struct trace_call **kinds;

	size_t n_sites;
	struct trace_site *sites; /* sites, longest total time first */
};

void trace_model(struct trace_model *model, const struct trace *trace);
void trace_model_free(struct trace_model *model);

/* Return a rank's record of a collective, or NULL. */
const struct flight_op *trace_find(const struct flight_rank *rank,
                                   uint64_t number);

/* Return the record of a collective on the first rank that has one, or NULL. */
const struct flight_op *trace_first(const struct flight *flight,
                                    uint64_t number);

/* ---- writers of the model --------------------------------------------- */

void trace_print(const struct trace_model *model);
void trace_json(FILE *out, const struct trace_model *model);

/* Write a page for a browser. Return false, with errno, on failure. If stdio
 * cannot write, ferror() reports it. */
bool trace_html(FILE *out, const struct trace_model *model);

/* Write the data for the page's script, as JSON without '<'. */
void trace_page_data(FILE *out, const struct trace_model *model);

/* A text that a function returns */
struct trace_text {
	char at[512];
};

/* Return a time, which has at most eight columns if it is up to 15 minutes. */
struct trace_text trace_time(uint64_t ns);

/* Return the percentage of the collectives that the rank was the last to
 * call. */
double trace_share(const struct trace_rank *rank);

/* Return the local time at which the dump was written, such as "2026-11-27
 * 15:40:06 +0100". */
struct trace_text trace_date(const struct flight *flight);

/* Return the text for the call of an operation, or "" if @op is NULL. */
struct trace_text trace_words(const struct flight_op *op);

/* Return the text for the state of an operation, or "none" if @op is NULL. */
const char *trace_state(const struct flight_op *op);

#endif
