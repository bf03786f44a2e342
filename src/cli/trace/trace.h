/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TRACE_TRACE_H
#define CLI_TRACE_TRACE_H

/*
 * The parts of cohort trace: it reads dumps, computes figures, and prints both
 */

#include <stdbool.h>
#include <stdio.h>

#include "dump/flight.h"
#include "watch/symbolizer.h"

/* A frame of a stack. */
struct trace_frame {
	char path[PLACE_PATH]; /* of the mapped file, or "" */
	char build_id[2 * IMAGE_BUILD_ID + 1];
	uint64_t offset; /* as addr2line takes it */

	/* Found in the file, if it has the same build ID: "f (a.c:12)",
	 * "f+0x2a" or "". */
	char function[PLACE_NAME + 64];
	bool is_other_build; /* the file has another build ID */
};

/* The stack of a thread. */
struct trace_stack {
	char process[96]; /* HOST.PID.SERIAL */
	int rank;         /* -1 if the thread is no missing rank's */
	int tid;
	char thread[THREAD_NAME_SIZE];
	char state[THREAD_STATE_SIZE];
	bool holds_python;     /* it held the interpreter lock */
	char text[STACK_TEXT]; /* as the verdict has it */
	int n;
	struct trace_frame *frames;
};

struct trace_stacks {
	int n;
	struct trace_stack *at;
};

/* The contents of all files, merged. */
struct trace {
	struct flight flight; /* of the ranks that were found, in order */
	bool is_found;        /* some file has a rank */
	uint64_t missing[COHORT_RANK_WORDS]; /* ranks without a dump */

	struct trace_stacks stacks;

	/* What is wrong with the files, a line for each problem. */
	char **problems;
	int n_problems;
};

/* True if dumps can be read; else @command complains of how this was built. */
bool trace_is_able(const char *command);

/*
 * Read the files, also if some are damaged.  False if none has a rank.  What is
 * wrong with them is among the trace's problems, with the files' names as they
 * are.
 * @most: of the operations of a rank in a merged file only this many last ones
 *        are read; 0: all
 */
bool trace_gather(struct trace *trace, char *const *files, int n, size_t most);

/* As trace_gather(), with all operations: CLI_OK, or CLI_FAILED after a
 * complaint. */
int trace_read(struct trace *trace, char *const *files, int n);
void trace_free(struct trace *trace);

void trace_stacks_free(struct trace_stacks *stacks);

/* Return @memory; end the program if that is NULL. */
void *trace_need(void *memory);

/* ---- the model -------------------------------------------------------- */

/* The collectives that are shown. */
struct trace_window {
	uint64_t front;  /* the collective that the trace is about, or 0 */
	bool is_stalled; /* else all are done, and @front is the last */
	uint64_t first, last;
};

/* The times of a call.  Its rank was idle before it, the last of them. */
enum {
	TRACE_QUEUEING,
	TRACE_WAITING,
	TRACE_EXECUTION,
	TRACE_BETWEEN,
	TRACE_TIMES
};

/* A call: an operation of a rank. */
struct trace_call {
	const struct flight_op *op;
	const char *tag, *label;
	size_t kind; /* index of its kind */

	/* Its bar in a picture.  A call that failed, or whose end is not known,
	 * takes no time there. */
	struct flight_span drawn;

	/* Its times, if it has ended: without those that depend on an end that
	 * only a later look found. */
	bool has[TRACE_TIMES];
	uint64_t ns[TRACE_TIMES];
};

/* The spread of some times, in ns. */
struct trace_spread {
	size_t n;
	uint64_t p50, p95, max;
};

/* The figures of a rank. */
struct trace_rank {
	const struct trace_call *newest; /* or NULL */

	/* How often it called last, of how many, and how long after the first
	 * rank. */
	size_t last, of;
	struct trace_spread late;

	/* Sums of all its calls. */
	uint64_t waiting_ns, execution_ns, bytes;
};

/* A site: the calls of one operation, type, count, tag and label.  Tags that
 * differ only in their numbers count as one tag, in which '#' replaces a number
 * that varies. */
struct trace_site {
	const struct flight_op *op; /* one of the calls */
	char tag[TAG_SIZE];
	const char *label;
	size_t calls;      /* those that have ended */
	size_t bounded;    /* calls whose end only a later look found */
	uint64_t total_ns; /* of all calls, without the time between them */
	struct trace_spread times[TRACE_TIMES];
};

/* All that is computed from the dumps. */
struct trace_model {
	const struct trace *trace;
	const struct flight *flight;

	/* The verdict, or else the cause, in words; NULL if the group had not
	 * ended. */
	const char *verdict, *text;
	int culprit; /* a rank, or -1 */

	struct trace_window window;
	uint64_t base_ns, now_ns; /* the first and the last time of all */
	struct trace_rank *ranks; /* as in the flight */

	size_t n_calls;
	/* Rank after rank, in the order of the flight. */
	struct trace_call *calls;

	/* A call of each kind; those of one kind differ only in numbers and
	 * times. */
	size_t n_kinds;
	const struct trace_call **kinds;

	size_t n_sites;
	struct trace_site *sites; /* those with the most time first */
};

void trace_model(struct trace_model *model, const struct trace *trace);
void trace_model_free(struct trace_model *model);

/* Return a rank's record of a collective, or NULL. */
const struct flight_op *trace_find(const struct flight_rank *rank,
                                   uint64_t number);

/* Return the record of a collective on the first rank that has one, or NULL. */
const struct flight_op *trace_first(const struct flight *flight,
                                    uint64_t number);

/* ---- its writers ------------------------------------------------------ */

void trace_print(const struct trace_model *model);
void trace_json(FILE *out, const struct trace_model *model);

/* Write a page for a browser.  False with errno if that fails; ferror() reports
 * what stdio could not write. */
bool trace_html(FILE *out, const struct trace_model *model);

/* Write the data that the page's script draws and sorts, as JSON without
 * '<'. */
void trace_page_data(FILE *out, const struct trace_model *model);

/* A time as text: eight columns, up to a quarter of an hour. */
struct trace_time {
	char at[24];
};

struct trace_time trace_time(uint64_t ns);

/* Return how often a rank called last, in percent. */
double trace_share(const struct trace_rank *rank);

/* When the dump was written, by the local clock: "2026-11-27 15:40:06
 * +0100". */
struct trace_date {
	char at[64];
};

struct trace_date trace_date(const struct flight *flight);

/* The call of an operation in words; "" if @op is NULL. */
struct trace_words {
	char at[160];
};

struct trace_words trace_words(const struct flight_op *op);

/* Return how far an operation is, in words; "none" if @op is NULL. */
const char *trace_state(const struct flight_op *op);

#endif
