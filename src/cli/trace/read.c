/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort trace: reads dumps, and what is left of damaged ones
 *
 * A dump has its head on the first line and then one entry on each.  A file that is not
 * valid JSON is read line by line, so that its intact lines are kept.
 */

#include "cli/trace/trace.h"

#include <stdlib.h>

#include "cli/common/cli.h"

#ifdef HAVE_JSON_C

#include <errno.h>
#include <string.h>

#include "cli/trace/read.h"

typedef struct json_object object;

/* How the line of an entry begins. */
#define ENTRY "{\"record_id\":"

/* Read the ranks of a merged file. */
static void read_ranks(struct reader *r, object *o)
{
	object *ranks = value_list(&r->values, o, "ranks"), *one;
	size_t i, n = ranks ? json_object_array_length(ranks) : 0;

	for (i = 0; i < n; i++) {
		one = value_object_at(&r->values, ranks, "ranks", i);
		if (!one)
			continue;
		reader_begin_rank(r, one);
		reader_add_entries(r, one);
		reader_end_rank(r);
	}
}

/* Read a head, or a whole file; false if the rest of the file is of no use. */
static bool read_head(struct reader *r, object *o)
{
	object *facts;

	if (json_object_object_get_ex(o, "traceEvents", NULL)) {
		r->chrome = r->file;
		return false;
	}
	if (!json_object_object_get_ex(o, "cohort", NULL)) {
		reader_problem(r, "is not a dump");
		return false;
	}
	facts = value_object(&r->values, o, "cohort");
	if (!facts || !reader_meet_facts(r, facts))
		return false;
	r->is_whole = !json_object_object_get_ex(o, "ranks", NULL);
	if (r->is_whole) {
		reader_begin_rank(r, facts);
		reader_add_entries(r, o);
	} else {
		read_ranks(r, o);
	}
	return true;
}

/* ---- files ------------------------------------------------------------- */

static bool begins_with(const char *line, const char *begin)
{
	return strncmp(line, begin, strlen(begin)) == 0;
}

/* Read a line behind the head. */
static void read_line(struct reader *r, const char *line)
{
	bool is_rank = !r->is_whole && begins_with(line, "{\"rank\":");
	bool is_end = *line == ']';
	object *o = NULL;

	if (*line && !is_end) {
		o = trace_parse_line(line, is_rank ? "]}" : "");
		r->damaged += !o;
	}
	/* A line that cannot be read may have begun another rank. */
	if (is_rank || is_end || (!o && !begins_with(line, ENTRY)))
		if (!r->is_whole)
			reader_end_rank(r);
	if (o && is_rank)
		reader_begin_rank(r, o);
	else if (o)
		reader_add_entry(r, o);
	json_object_put(o);
}

/* Read what is intact of a file that is not valid JSON. */
static void salvage(struct reader *r, char *text)
{
	char *line = strsep(&text, "\n");
	object *head = trace_parse_line(line, "]}");
	bool keep = head && read_head(r, head);

	if (!head)
		reader_problem(r, "its head cannot be read: left out");
	json_object_put(head);
	while (keep && text && (line = strsep(&text, "\n")))
		read_line(r, line);
	if (keep)
		reader_problem(r, "is damaged, or ends in the middle");
}

/* Take out the entries of each rank before its last @most.  Returns how long the text is
 * then.  A text without the lines of a merged file stays as it is. */
static size_t keep_last(char *text, size_t n, size_t most)
{
	char *from = text, *to = text, *end = text + n, *next, *line;
	size_t entries, size;

	while (from < end) {
		/* A run of entries, or else one line. */
		entries = 0;
		for (line = from; begins_with(line, ENTRY); line = next) {
			next = strchr(line, '\n');
			next = next ? next + 1 : end;
			entries++;
		}
		for (; entries > most; entries--)
			from = strchr(from, '\n') + 1;
		if (line == from) {
			line = strchr(from, '\n');
			line = line ? line + 1 : end;
		}
		size = (size_t)(line - from);
		memmove(to, from, size);
		from = line;
		to += size;
	}
	*to = '\0';
	return (size_t)(to - text);
}

static void read_text(struct reader *r, char *text, size_t n)
{
	const char *rest;
	object *o;

	if (r->most)
		n = keep_last(text, n, r->most);
	o = trace_parse(text, n, &rest);
	if (json_object_is_type(o, json_type_object)) {
		read_head(r, o);
		if (rest[strspn(rest, " \t\r\n")])
			reader_problem(
				r,
				"has data behind its end, which are not read");
	} else {
		salvage(r, text);
	}
	json_object_put(o);
	reader_end_rank(r);
}

static void read_file(struct reader *r, const char *file)
{
	size_t n = 0;
	char *text = trace_load(file, &n);

	r->file = file;
	r->values = (struct values){ .n = 0 };
	r->damaged = r->left_out = 0;
	if (!text && errno == EISDIR)
		reader_problem(r, "is a directory: give the fr_*_merged.json "
		                  "of one dump in it");
	else if (!text)
		reader_problem(r, "%s", strerror(errno));
	else if (!n)
		reader_problem(r, "is empty");
	else
		read_text(r, text, n);
	reader_tell(r);
	free(text);
}

bool trace_is_able(const char *command)
{
	(void)command;
	return true;
}

bool trace_gather(struct trace *trace, char *const *files, int n, size_t most)
{
	struct reader r = {
		.trace = trace,
		.most = most,
		.parts = trace_need(calloc(COHORT_MAX_RANKS, sizeof(*r.parts))),
	};
	int i;

	for (i = 0; i < n; i++)
		read_file(&r, files[i]);
	reader_find_missing(&r);
	if (r.n)
		reader_put_together(&r);
	trace->is_found = r.n > 0;
	for (i = 0; i < r.n; i++)
		free(r.parts[i].rank.ops);
	free(r.parts);
	trace_stacks_free(&r.stacks);
	r.file = r.chrome;
	if (!trace->is_found && r.chrome)
		reader_problem(&r, "has trace events for viewers: give the "
		                   "fr_*_merged.json of the same dump");
	return trace->is_found;
}

#else

bool trace_is_able(const char *command)
{
	cli_complain(command, "built without json-c: install libjson-c-dev "
	                      "(Debian, Ubuntu) and pkg-config, then make "
	                      "again");
	return false;
}

bool trace_gather(struct trace *trace, char *const *files, int n, size_t most)
{
	(void)trace;
	(void)files;
	(void)n;
	(void)most;
	return false;
}

#endif

int trace_read(struct trace *trace, char *const *files, int n)
{
	int i;

	if (!trace_is_able("trace"))
		return CLI_FAILED;
	if (trace_gather(trace, files, n, 0))
		return CLI_OK;
	for (i = 0; i < trace->n_problems; i++)
		cli_complain("trace", "%s", trace->problems[i]);
	cli_complain("trace", "no file has operations of any rank");
	return CLI_FAILED;
}

void trace_free(struct trace *trace)
{
	int i;

	for (i = 0; i < trace->n_problems; i++)
		free(trace->problems[i]);
	free(trace->problems);
	trace_stacks_free(&trace->stacks);
	flight_fini(&trace->flight);
}
