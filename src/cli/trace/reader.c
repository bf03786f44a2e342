/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The reader of dumps, and of what is left of damaged ones
 *
 * A dump has its head on the first line and then one entry on each.  A file
 * that is not valid JSON is read line by line, so that its intact lines are
 * kept.
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

	/* The rank whose entries follow, if has_part; else entries are
	 * dropped. */
	struct part now;
	bool has_part;
	bool is_whole;   /* the file is a dump of one rank, not a merged one */
	size_t damaged;  /* lines */
	size_t left_out; /* entries with wrong values */
};

/* ---- problems --------------------------------------------------------- */

/* Add a line about the file to the trace's problems. */
static void add_problem(struct reader *r, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void add_problem(struct reader *r, const char *format, ...)
{
	struct trace *t = r->trace;
	size_t size;
	char line[256], *text;
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	size = strlen(r->file) + strlen(line) + sizeof(": ");
	text = trace_need(malloc(size));
	snprintf(text, size, "%s: %s", r->file, line);
	t->problems =
		trace_need(realloc(t->problems, ((size_t)t->n_problems + 1) *
	                                                sizeof(*t->problems)));
	t->problems[t->n_problems++] = text;
}

/* "s" unless @n is 1. */
static const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

/* Add lines for what was wrong in the file that has been read. */
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

/* ---- text ------------------------------------------------------------- */

/* A larger file is not read. */
#define FILE_MOST ((size_t)1 << 30)

/* Open without waiting for the writer of a FIFO, which counts as empty. */
static int open_file(const char *file)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0)
		fcntl(fd, F_SETFL, 0);
	return fd;
}

/* A disk that lost power may leave zero bytes in a file: they must not end the
 * text. */
static void replace_zeros(char *text, size_t n)
{
	char *zero;

	while ((zero = memchr(text, '\0', n))) {
		*zero = '\1';
		n -= (size_t)(zero + 1 - text);
		text = zero + 1;
	}
}

/* Load a file, with a zero byte behind it.  NULL if it cannot be read, with
 * errno. */
static char *load_file(const char *file, size_t *n_out)
{
	int fd = open_file(file), err;
	FILE *in = fd < 0 ? NULL : trace_need(fdopen(fd, "r"));
	size_t n = 0, room = 1 << 16, got;
	char *text = NULL;

	if (!in)
		return NULL;
	do {
		room *= 2;
		text = trace_need(realloc(text, room + 1));
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
	replace_zeros(text, n);
	*n_out = n;
	return text;
}

/* Parse @n bytes of JSON that a zero byte follows; NULL if they are none.
 * @rest_out is what follows the JSON. */
static object *parse_text(const char *text, size_t n, const char **rest_out)
{
	json_tokener *tokener = trace_need(json_tokener_new());
	object *o = json_tokener_parse_ex(tokener, text, (int)n + 1);
	size_t end = json_tokener_get_parse_end(tokener);

	*rest_out = text + (end < n ? end : n);
	json_tokener_free(tokener);
	return o;
}

/* Parse a line with @end behind it, which completes what the line only begins.
 * NULL if that is no object. */
static object *parse_line(const char *line, const char *end)
{
	size_t n = strlen(line);
	char *text = trace_need(malloc(n + strlen(end) + 1));
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

/* ---- facts ------------------------------------------------------------ */

/* Take the facts that are unknown in @f from @one. */
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

/* The dump of an earlier verdict is better, a requested one is the worst. */
static bool source_is_better(const struct source *a, const struct source *b)
{
	/* 0 less 1 is the greatest number. */
	return a->verdict - 1 < b->verdict - 1;
}

/* Add the stacks of the file's head that the trace does not have: each file of
 * a dump has the same. */
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
		to->at = trace_need(
			realloc(to->at, ((size_t)to->n + 1) * sizeof(*s)));
		to->at[to->n++] = *s;
	}
	r->stacks.n = 0;
}

/* Read the file's facts; false if they are of another group than the trace. */
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
	add_problem(r, "is from group \"%s\", generation %d: left out",
	            one->group, one->generation);
	return false;
}

/* Add the file's facts to the trace: only once a rank of the file counts,
 * because the verdict of a process whose ranks are left out is not that of the
 * others. */
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

/* ---- ranks ------------------------------------------------------------ */

static struct part *find_part(struct reader *r, int rank)
{
	int i;

	for (i = 0; i < r->n; i++)
		if (r->parts[i].rank.rank == rank)
			return &r->parts[i];
	r->parts[r->n] = (struct part){ .rank = { .rank = rank } };
	return &r->parts[r->n++];
}

/* True if @p is to be taken from the file's dump.  If @p is from another dump
 * already, complain, and drop the worse of both. */
static bool choose_source(struct reader *r, struct part *p)
{
	const struct source *now = &r->source, *other = &p->source;
	bool is_it = strcmp(now->process, other->process) == 0 &&
	             source_is_better(now, other);

	if (!*other->name || strcmp(now->name, other->name) == 0)
		return true;
	add_problem(r, "rank %d is from %s, not %s: %s left out", p->rank.rank,
	            now->name, other->name, is_it ? "the latter is" : "it is");
	if (!is_it)
		return false;
	free(p->rank.ops);
	*p = (struct part){ .rank = { .rank = p->rank.rank } };
	return true;
}

/* The entries up to end_rank() belong to the rank that @o describes. */
static void begin_rank(struct reader *r, object *o)
{
	struct values *v = &r->values;
	int rank = value_rank(v, o, "rank", 0);

	if (rank < 0 || !choose_source(r, find_part(r, rank)))
		return;
	adopt_facts(r);
	if (r->trace->flight.world && rank >= r->trace->flight.world)
		add_problem(r, "is from rank %d, in a group of %d ranks", rank,
		            r->trace->flight.world);
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

/* Sort the operations by ticket, and drop duplicates. */
static void sort_rank(struct reader *r)
{
	struct flight_rank *rank = &r->now.rank;
	struct flight_op *ops = rank->ops;
	size_t i, kept = 0;

	if (rank->n)
		qsort(ops, rank->n, sizeof(*ops), by_ticket);
	for (i = 0; i < rank->n; i++)
		if (!kept || ops[kept - 1].r.ticket != ops[i].r.ticket)
			ops[kept++] = ops[i];
	if (kept < rank->n)
		add_problem(r, "%zu operation%s of rank %d %s there twice",
		            rank->n - kept, plural(rank->n - kept), rank->rank,
		            rank->n - kept == 1 ? "is" : "are");
	rank->n = kept;
}

/* If several files have a rank, the one with most of its operations counts. */
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
	p = find_part(r, r->now.rank.rank);
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
		p->rank.ops = trace_need(
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

/* ---- lines ------------------------------------------------------------ */

/* How the line of an entry begins. */
#define ENTRY "{\"record_id\":"

/* Read the ranks of a merged file. */
static void read_ranks(struct reader *r, object *o)
{
	object *ranks = value_of(&r->values, o, "ranks", json_type_array), *one;
	size_t i = 0;

	while ((one = value_next(&r->values, ranks, "ranks", &i))) {
		begin_rank(r, one);
		add_entries(r, one);
		end_rank(r);
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
		add_problem(r, "is not a dump");
		return false;
	}
	facts = value_of(&r->values, o, "cohort", json_type_object);
	if (!facts || !read_facts(r, facts))
		return false;
	r->is_whole = !json_object_object_get_ex(o, "ranks", NULL);
	if (r->is_whole) {
		begin_rank(r, facts);
		add_entries(r, o);
	} else {
		read_ranks(r, o);
	}
	return true;
}

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
		o = parse_line(line, is_rank ? "]}" : "");
		r->damaged += !o;
	}
	/* A line that cannot be read may have begun another rank. */
	if (is_rank || is_end || (!o && !begins_with(line, ENTRY)))
		if (!r->is_whole)
			end_rank(r);
	if (o && is_rank)
		begin_rank(r, o);
	else if (o)
		add_entry(r, o);
	json_object_put(o);
}

/* Read what is intact of a file that is not valid JSON. */
static void salvage(struct reader *r, char *text)
{
	char *line = strsep(&text, "\n");
	object *head = parse_line(line, "]}");
	bool keep = head && read_head(r, head);

	if (!head)
		add_problem(r, "its head cannot be read: left out");
	json_object_put(head);
	while (keep && text && (line = strsep(&text, "\n")))
		read_line(r, line);
	if (keep)
		add_problem(r, "is damaged, or ends in the middle");
}

/* Take out the entries of each rank before its last @most.  Returns how long
 * the text is then.  A text without the lines of a merged file stays as it
 * is. */
static size_t keep_last(char *text, size_t n, size_t most)
{
	char *end = text + n, *to = end, *line, *next;
	size_t run = 0;

	for (next = end; next > text; next = line) {
		line = memrchr(text, '\n', (size_t)(next - text) - 1);
		line = line ? line + 1 : text;
		run = begins_with(line, ENTRY) ? run + 1 : 0;
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
				r,
				"has data behind its end, which are not read");
	} else {
		salvage(r, text);
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
	if (!text && errno == EISDIR)
		add_problem(r, "is a directory: give the fr_*_merged.json "
		               "of one dump in it");
	else if (!text)
		add_problem(r, "%s", strerror(errno));
	else if (!n)
		add_problem(r, "is empty");
	else
		read_text(r, text, n);
	report_wrong(r);
	free(text);
}

/* ---- the trace -------------------------------------------------------- */

static int by_rank(const void *a, const void *b)
{
	return ((const struct part *)a)->rank.rank -
	       ((const struct part *)b)->rank.rank;
}

/* Make the trace's flight from the parts. */
static void make_flight(struct reader *r)
{
	struct flight *f = &r->trace->flight, facts = *f;
	struct flight_op *ops;
	size_t most = 1;
	int i;

	for (i = 0; i < r->n; i++)
		most = MAX(most, r->parts[i].rank.n);
	trace_need(flight_init(f, r->n, (unsigned)most) ? f->memory : NULL);
	facts.size = f->size;
	facts.slots = f->slots;
	facts.ranks = f->ranks;
	facts.meetings = f->meetings;
	facts.memory = f->memory;
	facts.bytes = f->bytes;
	*f = facts;
	qsort(r->parts, (size_t)r->n, sizeof(*r->parts), by_rank);
	for (i = 0; i < r->n; i++) {
		ops = f->ranks[i].ops;
		if (r->parts[i].rank.n)
			memcpy(ops, r->parts[i].rank.ops,
			       r->parts[i].rank.n * sizeof(*ops));
		f->ranks[i] = r->parts[i].rank;
		f->ranks[i].ops = ops;
	}
	flight_meet(f);
}

/* Find the ranks without a dump. */
static void find_missing(struct reader *r)
{
	struct trace *t = r->trace;
	int rank, i;

	for (rank = 0; rank < t->flight.world && rank < COHORT_MAX_RANKS;
	     rank++)
		rank_set_add(t->missing, rank);
	for (i = 0; i < r->n; i++)
		t->missing[r->parts[i].rank.rank / 64] &=
			~(UINT64_C(1) << r->parts[i].rank.rank % 64);
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
	find_missing(&r);
	if (r.n)
		make_flight(&r);
	trace->is_found = r.n > 0;
	for (i = 0; i < r.n; i++)
		free(r.parts[i].rank.ops);
	free(r.parts);
	trace_stacks_free(&r.stacks);
	r.file = r.chrome;
	if (!trace->is_found && r.chrome)
		add_problem(&r, "has trace events for viewers: give the "
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

bool trace_is_able(const char *command)
{
#ifndef HAVE_JSON_C
	cli_complain(command, "built without json-c: install libjson-c-dev "
	                      "(Debian, Ubuntu) and pkg-config, then make "
	                      "again");
	return false;
#else
	(void)command;
	return true;
#endif
}

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

void trace_stacks_free(struct trace_stacks *s)
{
	int i;

	for (i = 0; i < s->n; i++)
		free(s->at[i].frames);
	free(s->at);
	*s = (struct trace_stacks){ .n = 0 };
}
