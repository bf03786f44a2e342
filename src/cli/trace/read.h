/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_TRACE_READ_H
#define CLI_TRACE_READ_H

/*
 * How dumps are read: the state of a reader, and its parts
 *
 *	read.c      the files in turn, whole or damaged
 *	parts.c     ranks: which file's entries count, and the trace made of them
 *	facts.c     the heads: groups, processes, causes, verdicts and stacks
 *	load.c      files as text, text as JSON
 *	problems.c  what is wrong with the files
 */

#include "cli/trace/trace.h"
#include "cli/trace/value.h"
#include "dump/dump.h"

/* The dump that facts or a rank are taken from. */
struct source {
	char process[96];          /* HOST.PID.SERIAL, or "" for no dump */
	unsigned verdict;          /* its number; 0: the dump was requested */
	char name[96 + DUMP_MARK]; /* the process with the mark of dump.h */
};

/* A rank while its dumps are read. */
struct part {
	struct flight_rank rank;
	size_t room;     /* for operations */
	size_t recorded; /* operations that its file claims to have */
	struct source source;
};

struct reader {
	struct trace *trace;
	struct source facts; /* where the trace's facts are from */
	int n;
	struct part *parts; /* room for COHORT_MAX_RANKS */

	const char *chrome; /* a file of trace events, NULL: there was none */

	size_t most; /* operations of a rank in a merged file, 0: any number */

	/* For the file that is being read. */
	const char *file;
	struct values values;
	struct source source;
	struct flight one; /* its facts */
	struct trace_stacks stacks;

	/* The rank whose entries follow, if has_part; else entries are dropped. */
	struct part now;
	bool has_part;
	bool is_whole;   /* the file is a dump of one rank, not a merged one */
	size_t damaged;  /* lines */
	size_t left_out; /* entries with wrong values */
};

/* ---- problems.c ------------------------------------------------------- */

/* Add a line about the file to the trace's problems. */
void reader_problem(struct reader *r, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Add lines for what was wrong in the file that has been read. */
void reader_tell(struct reader *r);

/* "s" unless @n is 1. */
const char *trace_plural(size_t n);

/* ---- load.c ----------------------------------------------------------- */

/* Load a file, with a zero byte behind it.  NULL if it cannot be read, with errno. */
char *trace_load(const char *file, size_t *n_out);

/* Parse @n bytes of JSON that a zero byte follows; NULL if they are none.  @rest_out is
 * what follows the JSON. */
struct json_object *trace_parse(const char *text, size_t n,
                                const char **rest_out);

/* Parse a line with @end behind it, which completes what the line only begins.  NULL if
 * that is no object. */
struct json_object *trace_parse_line(const char *line, const char *end);

/* ---- facts.c ---------------------------------------------------------- */

/* Read the file's facts; false if they are of another group than the trace. */
bool reader_meet_facts(struct reader *r, struct json_object *o);

/* Add the file's facts to the trace: only once a rank of the file counts, because the
 * verdict of a process whose ranks are left out is not that of the others. */
void reader_take_facts(struct reader *r);

/* The dump of an earlier verdict is better, a requested one is the worst. */
bool source_is_better(const struct source *a, const struct source *b);

/* ---- parts.c ---------------------------------------------------------- */

/* The entries up to reader_end_rank() belong to the rank that @o describes. */
void reader_begin_rank(struct reader *r, struct json_object *o);
void reader_add_entry(struct reader *r, struct json_object *o);
void reader_add_entries(struct reader *r, struct json_object *o);
void reader_end_rank(struct reader *r);

/* Note the ranks without a dump; and make the trace of the ranks that have one. */
void reader_find_missing(struct reader *r);
void reader_put_together(struct reader *r);

#endif
