/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads dumps, intact or damaged
 *
 * The first line of a dump is its head, and each further line is an entry. If a
 * file is not valid JSON, it is read line by line, so that its intact lines can
 * be used.
 */

#include "cli/trace/trace.h"

#include <stdlib.h>

#include "base/util.h"
#include "cli/common/cli.h"

#ifdef HAVE_JSON_C

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/trace/value.h"
#include "dump/dump.h"

typedef struct json_object object;

/* The dump from which the facts or a rank were read */
struct source {
	char process[96]; /* name of the process: HOST.PID.SERIAL, or "" */
	unsigned verdict; /* number of the verdict, or 0 if there is none */
	/* @process with the mark of a dump (dump.h) */
	char name[96 + DUMP_MARK];
};

/* A rank whose dumps are being read */
struct part {
	struct flight_rank rank;
	size_t room;     /* capacity of rank.ops */
	size_t recorded; /* number of operations according to the file */
	struct source source;
};

struct reader {
	struct trace *trace;
	struct source facts; /* dump that provided the trace's facts */
	struct part *parts;  /* by rank; those without a source are missing */

	/* a file of trace events, or NULL if there is none */
	const char *chrome;

	/* number of operations to read per rank of a merged file, or 0 for
	 * all */
	size_t most;

	/* State of the file that is being read */
	const char *file;
	struct values values;
	struct source source;
	struct flight one; /* facts from the current file */
	struct trace_stacks stacks;

	/* Rank of the next entries if has_part is true. Otherwise the entries
	 * are dropped. */
	struct part now;
	bool has_part;
	bool is_whole;   /* the file is a dump of one rank, not a merged one */
	size_t damaged;  /* number of damaged lines */
	size_t left_out; /* number of entries left out for wrong values */
};

/* Add a line about the current file to the trace's problems. */
__attribute__((format(printf, 2, 3))) static void
add_problem(struct reader *r, const char *format, ...)
{
	struct trace *t = r->trace;
	size_t size;
	char line[256], *text;
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	size = strlen(r->file) + strlen(line) + sizeof(": ");
	text = cli_need(malloc(size));
	snprintf(text, size, "%s: %s", r->file, line);
	t->problems =
		cli_need(realloc(t->problems, ((size_t)t->n_problems + 1) *
	                                              sizeof(*t->problems)));
	t->problems[t->n_problems++] = text;
}

static const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

/* Add lines about wrong values and damaged lines in the current file to the
 * trace's problems. */
static void report_wrong(struct reader *r)
{
	const struct value_wrong *w = r->values.keys;
	size_t more = r->values.wrong;

	for (; w < r->values.keys + r->values.n; w++) {
		more -= w->n;
		if (w->n > 1)
			add_problem(r, "%s, and %zu more", w->text, w->n - 1);
		else
			add_problem(r, "%s", w->text);
	}
	if (more)
		add_problem(r, "%zu value%s of other keys %s wrong", more,
		            plural(more), more == 1 ? "is" : "are");
	if (r->left_out)
		add_problem(r, "%zu operation%s with wrong values %s left out",
		            r->left_out, plural(r->left_out),
		            r->left_out == 1 ? "is" : "are");
	if (r->damaged)
		add_problem(r, "%zu line%s cannot be read", r->damaged,
		            plural(r->damaged));
}

/* Size above which files are not read */
#define FILE_MOST ((size_t)1 << 30)

/* Load a file and append a zero byte. Return NULL, with errno, if it cannot be
 * read. */
static char *load_file(const char *file, size_t *n_out)
{
	/* Do not wait for the writer of a FIFO, and treat it as empty. */
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err;
	FILE *in = fd < 0 ? NULL : cli_need(fdopen(fd, "r"));
	size_t n = 0, room = 1 << 16, got;
	char *text = NULL, *zero;

	if (!in)
		return NULL;
	fcntl(fd, F_SETFL, 0);
	do {
		room *= 2;
		text = cli_need(realloc(text, room + 1));
		got = fread(text + n, 1, room - n, in);
		n += got;
	} while (n == room && n < FILE_MOST);
	err = ferror(in) ? errno : n < FILE_MOST ? 0 : EFBIG;
	fclose(in);
	if (err) {
		free(text);
		errno = err;
		return NULL;
	}
	text[n] = '\0';
	/* Replace zero bytes, which would end the text. A disk that lost power
	 * can leave them in a file. */
	for (zero = text;
	     (zero = memchr(zero, '\0', (size_t)(text + n - zero)));)
		*zero = '\1';
	*n_out = n;
	return text;
}

/* Parse @n bytes of JSON with a zero byte after them. Store the rest of the
 * text in *@rest_out. Return NULL if the text is not JSON. */
static object *parse_text(const char *text, size_t n, const char **rest_out)
{
	json_tokener *tokener = cli_need(json_tokener_new());
	object *o = json_tokener_parse_ex(tokener, text, (int)n + 1);
	size_t end = json_tokener_get_parse_end(tokener);

	*rest_out = text + (end < n ? end : n);
	json_tokener_free(tokener);
	return o;
}

/* Parse a line with @end appended, which closes an object that only starts on
 * this line. Return NULL if the result is not an object. */
static object *parse_line(const char *line, const char *end)
{
	size_t n = strlen(line);
	char *text = cli_need(malloc(n + strlen(end) + 1));
	const char *rest;
	object *o;

	strcpy(text, line);
	if (!*end && n && text[n - 1] == ',')
		text[n - 1] = '\0';
	strcat(text, end);
	o = parse_text(text, strlen(text), &rest);
	if (!json_object_is_type(o, json_type_object) || *rest) {
		json_object_put(o);
		o = NULL;
	}
	free(text);
	return o;
}

/* Copy to @f all facts of @one that are unknown in @f. */
static void add_facts(struct flight *f, const struct flight *one)
{
	if (!*f->group)
		memcpy(f->group, one->group, sizeof(f->group));
	if (!f->generation)
		f->generation = one->generation;
	if (!f->world)
		f->world = one->world;
	if (!*f->host)
		memcpy(f->host, one->host, sizeof(f->host));
	if (!f->pid)
		f->pid = one->pid;
	if (!f->now_ns)
		f->now_ns = one->now_ns;
	if (!f->wall_ns)
		f->wall_ns = one->wall_ns;
	if (!f->trigger)
		f->trigger = one->trigger;
	if (f->cause.status == COHORT_OK)
		f->cause = one->cause;
	if (f->has_verdict || !one->has_verdict)
		return;
	f->has_verdict = true;
	f->verdict = one->verdict;
	memcpy(f->text, one->text, sizeof(f->text));
}

static struct source source_of(const struct flight *f)
{
	struct source s = { .verdict = f->verdict_number };
	char mark[DUMP_MARK];

	snprintf(s.process, sizeof(s.process), "%.63s.%d.%u", f->host, f->pid,
	         f->serial);
	snprintf(s.name, sizeof(s.name), "%s%s", s.process,
	         dump_mark(s.verdict, mark));
	return s;
}

/* Return whether @a is better than @b. The dump of an earlier verdict is
 * better. A dump that was only requested is the worst. */
static bool source_is_better(const struct source *a, const struct source *b)
{
	/* The verdict number 0 of a requested dump wraps to the largest
	 * number. */
	return a->verdict - 1 < b->verdict - 1;
}

/* Add the stacks in the file's head that the trace does not have yet. Usually
 * all files of a dump have the same stacks. */
static void adopt_stacks(struct reader *r)
{
	struct trace_stacks *to = &r->trace->stacks;
	struct trace_stack *s;
	int i;

	for (s = r->stacks.at; s < r->stacks.at + r->stacks.n; s++) {
		for (i = 0; i < to->n; i++)
			if (to->at[i].tid == s->tid &&
			    strcmp(to->at[i].process, s->process) == 0)
				break;
		if (i < to->n) {
			free(s->frames);
			continue;
		}
		to->at = cli_need(
			realloc(to->at, ((size_t)to->n + 1) * sizeof(*s)));
		to->at[to->n++] = *s;
	}
	r->stacks.n = 0;
}

/* Read the group and the process that the file is about. Return false if the
 * trace is about another group. */
static bool read_facts(struct reader *r, object *o)
{
	struct flight *f = &r->trace->flight, *one = &r->one;

	parse_facts(&r->values, o, one);
	r->source = source_of(one);
	trace_stacks_free(&r->stacks);
	parse_stacks(&r->values, o, r->source.process, &r->stacks);
	if ((!*one->group || !*f->group || strcmp(one->group, f->group) == 0) &&
	    (!one->generation || !f->generation ||
	     one->generation == f->generation))
		return true;
	add_problem(r, "a dump of group \"%s\", generation %d: left out",
	            one->group, one->generation);
	return false;
}

/* Copy the facts that read_facts() has read to the trace. Call this only when a
 * rank of the file is used: if the ranks of a process are left out, its verdict
 * does not apply. */
static void adopt_facts(struct reader *r)
{
	struct flight *f = &r->trace->flight, former = *f;

	adopt_stacks(r);
	if (!*r->facts.name || source_is_better(&r->source, &r->facts)) {
		r->facts = r->source;
		*f = r->one;
		add_facts(f, &former);
	} else {
		add_facts(f, &r->one);
	}
}

/* Return whether to read @rank from this file. If another file with a
 * different process or verdict has provided the rank, report that, and use the
 * better of the two. */
static bool choose_source(struct reader *r, int rank)
{
	struct part *p = &r->parts[rank];
	const struct source *now = &r->source, *other = &p->source;
	bool is_it = strcmp(now->process, other->process) == 0 &&
	             source_is_better(now, other);

	if (!*other->name || strcmp(now->name, other->name) == 0)
		return true;
	add_problem(r,
	            "rank %d is from %s, but from %s in an earlier file: %s "
	            "left out",
	            rank, now->name, other->name,
	            is_it ? "the earlier one is" : "this file is");
	if (!is_it)
		return false;
	free(p->rank.ops);
	*p = (struct part){ .room = 0 };
	return true;
}

static void begin_rank(struct reader *r, object *o)
{
	struct values *v = &r->values;
	int rank = value_rank(v, o, "rank", 0);

	if (rank < 0 || !choose_source(r, rank))
		return;
	adopt_facts(r);
	if (r->trace->flight.world && rank >= r->trace->flight.world)
		add_problem(r, "a dump of rank %d, but the group has %d ranks",
		            rank, r->trace->flight.world);
	r->has_part = true;
	r->now = (struct part){
		.rank = parse_rank(v, o),
		.recorded = value_count(v, o, "recorded"),
		.source = r->source,
	};
	r->now.rank.rank = rank;
}

static int by_ticket(const void *a, const void *b)
{
	uint64_t x = ((const struct flight_op *)a)->r.ticket;
	uint64_t y = ((const struct flight_op *)b)->r.ticket;

	return (x > y) - (x < y);
}

/* Sort the operations by ticket and drop duplicates. */
static void sort_rank(struct reader *r)
{
	struct flight_rank *rank = &r->now.rank;
	struct flight_op *ops = rank->ops;
	size_t kept = 0;

	if (rank->n)
		qsort(ops, rank->n, sizeof(*ops), by_ticket);
	for (size_t i = 0; i < rank->n; i++)
		if (!kept || ops[kept - 1].r.ticket != ops[i].r.ticket)
			ops[kept++] = ops[i];
	if (kept < rank->n)
		add_problem(r,
		            "%zu operation%s of rank %d %s in the file twice",
		            rank->n - kept, plural(rank->n - kept), rank->rank,
		            rank->n - kept == 1 ? "is" : "are");
	rank->n = kept;
}

/* End the rank. If several files have the rank, keep the one with the most
 * operations. */
static void end_rank(struct reader *r)
{
	struct part *p;

	if (!r->has_part)
		return;
	r->has_part = false;
	sort_rank(r);
	if (r->is_whole && r->now.rank.n < r->now.recorded)
		add_problem(r, "%zu of rank %d's %zu operations are missing",
		            r->now.recorded - r->now.rank.n, r->now.rank.rank,
		            r->now.recorded);
	p = &r->parts[r->now.rank.rank];
	if (*p->source.name && r->now.rank.n <= p->rank.n) {
		free(r->now.rank.ops);
		return;
	}
	free(p->rank.ops);
	*p = r->now;
}

static void add_entry(struct reader *r, object *o)
{
	struct part *p = &r->now;

	if (!r->has_part)
		return;
	if (p->rank.n == p->room) {
		p->room = p->room ? 2 * p->room : 256;
		p->rank.ops = cli_need(
			realloc(p->rank.ops, p->room * sizeof(*p->rank.ops)));
	}
	if (parse_entry(&r->values, &p->rank, o, &p->rank.ops[p->rank.n]))
		p->rank.n++;
	else
		r->left_out++;
}

static void add_entries(struct reader *r, object *o)
{
	object *list = value_of(&r->values, o, "entries", json_type_array);
	size_t i = 0, n = 0;
	object *one;

	for (; (one = value_next(&r->values, list, "entries", &i)); n++)
		add_entry(r, one);
	r->left_out += i - n;
}

#define ENTRY "{\"record_id\":"

static void add_no_dump(struct reader *r, bool is_pytorch)
{
	add_problem(r, "not a Cohort dump (fr_*.json)%s",
	            is_pytorch ? "; it is a dump of PyTorch's flight recorder: "
	                         "torchfrtrace reads it"
	                       : "");
}

/* Read @o, which is a dump's parsed first line or a whole parsed file. Return
 * false if the rest of the file is to be ignored. */
static bool read_head(struct reader *r, object *o)
{
	object *facts, *ranks, *one;
	size_t i = 0;

	if (json_object_object_get_ex(o, "traceEvents", NULL)) {
		r->chrome = r->file;
		return false;
	}
	if (!json_object_object_get_ex(o, "cohort", NULL)) {
		add_no_dump(r, json_object_object_get_ex(o, "pg_config", NULL));
		return false;
	}
	facts = value_of(&r->values, o, "cohort", json_type_object);
	if (!facts || !read_facts(r, facts))
		return false;
	r->is_whole = !json_object_object_get_ex(o, "ranks", NULL);
	if (r->is_whole) {
		begin_rank(r, facts);
		add_entries(r, o);
		return true;
	}
	ranks = value_of(&r->values, o, "ranks", json_type_array);
	while ((one = value_next(&r->values, ranks, "ranks", &i))) {
		begin_rank(r, one);
		add_entries(r, one);
		end_rank(r);
	}
	return true;
}

static void read_line(struct reader *r, const char *line)
{
	bool is_rank = !r->is_whole && cli_starts_with(line, "{\"rank\":");
	bool is_end = *line == ']';
	object *o = NULL;

	if (*line && !is_end) {
		o = parse_line(line, is_rank ? "]}" : "");
		r->damaged += !o;
	}
	/* A damaged line may have started another rank. */
	if (is_rank || is_end || (!o && !cli_starts_with(line, ENTRY)))
		if (!r->is_whole)
			end_rank(r);
	if (o && is_rank)
		begin_rank(r, o);
	else if (o)
		add_entry(r, o);
	json_object_put(o);
}

/* Read the intact parts of a file that is not valid JSON. */
static void salvage(struct reader *r, char *text, size_t n)
{
	/* PyTorch's own dumps are pickles. */
	bool is_pytorch = memmem(text, n, "pg_config", 9),
	     is_json = *text == '{';
	char *line = strsep(&text, "\n");
	object *head = parse_line(line, "]}");
	bool keep = head && read_head(r, head);

	if (!head && is_json)
		add_problem(r, "its first line, the head of a dump, is "
		               "damaged: left out");
	else if (!head)
		add_no_dump(r, is_pytorch);
	json_object_put(head);
	while (keep && text && (line = strsep(&text, "\n")))
		read_line(r, line);
	if (keep)
		add_problem(r, "the file is damaged or cut short");
}

/* Remove all but the last @most entries of each rank. Return the length of the
 * remaining text. A text that does not have the lines of a merged file is
 * unchanged. */
static size_t keep_last(char *text, size_t n, size_t most)
{
	char *end = text + n, *to = end, *line, *next;
	size_t run = 0;

	for (next = end; next > text; next = line) {
		line = memrchr(text, '\n', (size_t)(next - text) - 1);
		line = line ? line + 1 : text;
		run = cli_starts_with(line, ENTRY) ? run + 1 : 0;
		if (run > most)
			continue;
		to -= next - line;
		memmove(to, line, (size_t)(next - line));
	}
	memmove(text, to, (size_t)(end - to) + 1);
	return (size_t)(end - to);
}

static void read_text(struct reader *r, char *text, size_t n)
{
	const char *rest;
	object *o;

	if (r->most)
		n = keep_last(text, n, r->most);
	o = parse_text(text, n, &rest);
	if (json_object_is_type(o, json_type_object)) {
		read_head(r, o);
		if (rest[strspn(rest, " \t\r\n")])
			add_problem(
				r, "data after the end of the dump is ignored");
	} else {
		salvage(r, text, n);
	}
	json_object_put(o);
	end_rank(r);
}

static void read_file(struct reader *r, const char *file)
{
	size_t n = 0;
	char *text = load_file(file, &n);

	r->file = file;
	r->values = (struct values){ .n = 0 };
	r->damaged = r->left_out = 0;
	if (!text)
		add_problem(r, "%s", strerror(errno));
	else if (!n)
		add_problem(r, "the file is empty");
	else
		read_text(r, text, n);
	report_wrong(r);
	free(text);
}

/* Move the operations of @n ranks to the trace. */
static void make_flight(struct reader *r, int n)
{
	struct flight *f = &r->trace->flight, facts = *f;
	struct flight_rank *to;
	struct flight_op *ops;
	size_t most = 1;

	for (int i = 0; i < COHORT_MAX_RANKS; i++)
		most = MAX(most, r->parts[i].rank.n);
	cli_need(flight_init(f, n, (unsigned)most) ? f->memory : NULL);
	facts.size = f->size;
	facts.slots = f->slots;
	facts.ranks = f->ranks;
	facts.meetings = f->meetings;
	facts.memory = f->memory;
	facts.bytes = f->bytes;
	*f = facts;
	to = f->ranks;
	for (int i = 0; i < COHORT_MAX_RANKS; i++) {
		if (!*r->parts[i].source.name)
			continue;
		ops = to->ops;
		*to = r->parts[i].rank;
		if (to->n)
			memcpy(ops, to->ops, to->n * sizeof(*ops));
		free(to->ops);
		to->ops = ops;
		to++;
	}
	flight_compute_meetings(f);
}

bool trace_gather(struct trace *trace, char *const *files, int n, size_t most)
{
	struct reader r = {
		.trace = trace,
		.most = most,
		.parts = cli_need(calloc(COHORT_MAX_RANKS, sizeof(*r.parts))),
	};
	int found = 0;

	for (int i = 0; i < n; i++)
		read_file(&r, files[i]);
	for (int i = 0; i < COHORT_MAX_RANKS; i++)
		if (*r.parts[i].source.name)
			found++;
		else if (i < trace->flight.world)
			rank_set_add(trace->missing, i);
	if (found)
		make_flight(&r, found);
	trace->is_found = found;
	free(r.parts);
	trace_stacks_free(&r.stacks);
	r.file = r.chrome;
	if (!trace->is_found && r.chrome)
		add_problem(&r, "has trace events for viewers; give the "
		                "fr_*_merged.json of the same dump");
	return trace->is_found;
}

#else

bool trace_gather(struct trace *trace, char *const *files, int n, size_t most)
{
	(void)trace;
	(void)files;
	(void)n;
	(void)most;
	return false;
}

#endif

bool trace_is_able(void)
{
#ifndef HAVE_JSON_C
	cli_error("built without json-c: install libjson-c-dev "
	          "(Debian, Ubuntu) and pkg-config, then run "
	          "make again");
	return false;
#else
	return true;
#endif
}

void trace_free(struct trace *trace)
{
	for (int i = 0; i < trace->n_problems; i++)
		free(trace->problems[i]);
	free(trace->problems);
	trace_stacks_free(&trace->stacks);
	flight_fini(&trace->flight);
}

void trace_stacks_free(struct trace_stacks *s)
{
	for (int i = 0; i < s->n; i++)
		free(s->at[i].frames);
	free(s->at);
	*s = (struct trace_stacks){ .n = 0 };
}
