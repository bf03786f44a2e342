/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort trace: reading dumps, also what is left of damaged ones
 *
 * A file that is no JSON is read line by line: a dump has its head, and then each
 * entry, on a line of its own, so that what is whole can be told from what is not.
 */

#include "cli/trace/trace.h"

#include <stdlib.h>

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

/* Which dump something is from. */
struct source {
	char process[96];        /* HOST.PID.SERIAL; "": from none */
	unsigned verdict;        /* its number, 0: it was asked for */
	char of[96 + DUMP_MARK]; /* all of that, see dump.h */
};

/* Bytes of a file that are read. */
#define FILE_MOST ((size_t)1 << 30)

/* A rank as it is put together. */
struct part {
	struct flight_rank rank;
	size_t room;
	size_t recorded; /* entries that its file says it has */
	struct source source;
};

struct reader {
	struct trace *trace;
	struct source facts; /* where the trace's are from */
	int n;
	struct part *parts; /* room for COHORT_MAX_RANKS */

	/* Of the file that is being read. */
	const char *file;
	struct values values;
	struct source source;
	struct flight one; /* its facts */

	struct part now; /* that entries are of, */
	bool has_part;   /* false: of none to be kept */
	bool is_whole;   /* it is of one rank, and not a merged one */
	size_t damaged;  /* lines */
	size_t left_out; /* entries with wrong values */
};

/* Memory that was asked for, or the end. */
static void *need(void *memory)
{
	if (!memory) {
		cli_complain("trace", "out of memory");
		exit(CLI_FAILED);
	}
	return memory;
}

static void problem(struct reader *r, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void problem(struct reader *r, const char *format, ...)
{
	struct trace *t = r->trace;
	size_t size = ((size_t)t->n_problems + 1) * sizeof(*t->problems);
	char line[256], *text;
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	size = strlen(r->file) + strlen(line) + sizeof(": ");
	text = need(malloc(size));
	snprintf(text, size, "%s: %s", r->file, line);
	t->problems = need(realloc(t->problems, ((size_t)t->n_problems + 1) *
	                                                sizeof(*t->problems)));
	t->problems[t->n_problems++] = text;
}

static const char *plural(size_t n)
{
	return n == 1 ? "" : "s";
}

/* ---- values ----------------------------------------------------------- */

static const char *trigger_name(int trigger)
{
	static const char *const names[] = { "verdict", "call", "signal",
		                             "fifo" };

	return names[trigger];
}

static int get_verdict(struct values *v, object *o)
{
	return value_name(v, o, "kind", cohort_verdict_text, 256, "verdict");
}

static void get_set(struct values *v, object *o, const char *key, uint64_t *set)
{
	object *list = value_list(v, o, key);
	size_t i, n = list ? json_object_array_length(list) : 0;
	int rank;

	for (i = 0; i < n; i++) {
		rank = value_int_at(v, list, key, i, 0, COHORT_MAX_RANKS - 1,
		                    -1);
		if (rank >= 0)
			rank_set_add(set, rank);
	}
}

/* ---- entries ---------------------------------------------------------- */

static void add_entry(struct reader *r, object *o)
{
	struct part *p = &r->now;

	if (!r->has_part)
		return;
	if (p->rank.n == p->room) {
		p->room = p->room ? 2 * p->room : 256;
		p->rank.ops = need(
			realloc(p->rank.ops, p->room * sizeof(*p->rank.ops)));
	}
	if (trace_entry(&r->values, &p->rank, o, &p->rank.ops[p->rank.n]))
		p->rank.n++;
	else
		r->left_out++;
}

static void add_entries(struct reader *r, object *o)
{
	object *list = value_list(&r->values, o, "entries"), *one;
	size_t i, n = list ? json_object_array_length(list) : 0;

	for (i = 0; i < n; i++) {
		one = value_object_at(&r->values, list, "entries", i);
		if (one)
			add_entry(r, one);
		else
			r->left_out++;
	}
}

/* ---- heads ------------------------------------------------------------ */

static void read_cause(struct values *v, struct flight *f, object *o)
{
	f->cause.status =
		value_int(v, o, "status", INT32_MIN, INT32_MAX, COHORT_SYSTEM);
	f->cause.kind = get_verdict(v, o);
	f->cause.rank = value_rank(v, o, "rank", -1);
	f->cause.collective = value_count(v, o, "collective");
	value_text(v, o, "text", f->cause.text, sizeof(f->cause.text));
}

static void read_verdict(struct values *v, struct flight *f, object *o)
{
	f->has_verdict = true;
	f->verdict.kind = get_verdict(v, o);
	f->verdict.rank = value_rank(v, o, "rank", -1);
	f->verdict.collective = value_count(v, o, "collective");
	get_set(v, o, "joined", f->verdict.joined);
	get_set(v, o, "missing", f->verdict.missing);
	value_text(v, o, "text", f->text, sizeof(f->text));
}

/* What is 0 or empty in @f is not known. */
static void read_facts(struct values *v, object *o, struct flight *f)
{
	object *cause = value_maybe(v, o, "cause");
	object *verdict = value_maybe(v, o, "verdict");
	int trigger;

	value_text(v, o, "group", f->group, sizeof(f->group));
	value_text(v, o, "host", f->host, sizeof(f->host));
	f->generation = value_int(v, o, "generation", 1, INT32_MAX, 0);
	f->world = value_int(v, o, "world", 1, COHORT_MAX_RANKS, 0);
	f->pid = value_int(v, o, "pid", 1, INT32_MAX, 0);
	f->serial = (unsigned)value_int(v, o, "serial", 0, INT32_MAX, 0);
	f->verdict_number =
		(unsigned)value_int(v, o, "verdict_number", 0, INT32_MAX, 0);
	f->now_ns = value_count(v, o, "monotonic_ns");
	f->wall_ns = value_count(v, o, "wall_ns");
	trigger = value_name(v, o, "trigger", trigger_name, 4, "trigger");
	f->trigger = trigger < 0 ? NULL : trigger_name(trigger);
	f->cause.rank = -1;
	if (cause)
		read_cause(v, f, cause);
	if (verdict)
		read_verdict(v, f, verdict);
}

/* Take from @one what is not known of all. */
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
	snprintf(s.of, sizeof(s.of), "%s%s", s.process,
	         dump_mark(s.verdict, mark));
	return s;
}

/* The first verdict tells most, and what was asked for least: 0 less 1 is the greatest
 * number. */
static bool is_better(const struct source *a, const struct source *b)
{
	return a->verdict - 1 < b->verdict - 1;
}

/* What all files have to agree about; false: this one is of something else. */
static bool meet_facts(struct reader *r, object *o)
{
	struct flight *f = &r->trace->flight, *one = &r->one;

	*one = (struct flight){ .size = 0 };
	read_facts(&r->values, o, one);
	r->source = source_of(one);
	if ((!*one->group || !*f->group || strcmp(one->group, f->group) == 0) &&
	    (!one->generation || !f->generation ||
	     one->generation == f->generation))
		return true;
	problem(r, "is of group \"%s\", generation %d: left out", one->group,
	        one->generation);
	return false;
}

/* The file's facts count once a rank of it does: the verdict of a process whose ranks
 * are left out is not that of the others. */
static void take_facts(struct reader *r)
{
	struct flight *f = &r->trace->flight, former = *f;

	if (!*r->facts.of || is_better(&r->source, &r->facts)) {
		r->facts = r->source;
		*f = r->one;
		add_facts(f, &former);
	} else {
		add_facts(f, &r->one);
	}
}

static struct part *find_part(struct reader *r, int rank)
{
	int i;

	for (i = 0; i < r->n; i++)
		if (r->parts[i].rank.rank == rank)
			return &r->parts[i];
	r->parts[r->n] = (struct part){ .rank = { .rank = rank } };
	return &r->parts[r->n++];
}

/* True if the file's dump is the one to take @p from, which may be of another already:
 * then that is told, and the worse one dropped. */
static bool choose_source(struct reader *r, struct part *p)
{
	const struct source *now = &r->source, *other = &p->source;
	bool is_it = strcmp(now->process, other->process) == 0 &&
	             is_better(now, other);

	if (!*other->of || strcmp(now->of, other->of) == 0)
		return true;
	problem(r, "rank %d is of %s, not %s: %s left out", p->rank.rank,
	        now->of, other->of, is_it ? "the latter is" : "it is");
	if (!is_it)
		return false;
	free(p->rank.ops);
	*p = (struct part){ .rank = { .rank = p->rank.rank } };
	return true;
}

/* Entries are of this rank from now on, until end_rank(). */
static void begin_rank(struct reader *r, object *o)
{
	struct values *v = &r->values;
	int rank = value_rank(v, o, "rank", 0);

	if (rank < 0 || !choose_source(r, find_part(r, rank)))
		return;
	take_facts(r);
	if (r->trace->flight.world && rank >= r->trace->flight.world)
		problem(r, "is of rank %d, of a group of %d", rank,
		        r->trace->flight.world);
	r->has_part = true;
	r->now = (struct part){
		.rank = {
			.rank = rank,
			.device = value_int(v, o, "device", -1, INT32_MAX, -1),
			.tid = value_int(v, o, "tid", 0, INT32_MAX, 0),
			.lost = value_count(v, o, "lost"),
			.last_enqueued = value_uint(v, o, "last_enqueued", 0,
			                            VALUE_MOST, VALUE_MOST),
		},
		.recorded = value_count(v, o, "recorded"),
		.source = r->source,
	};
}

static int by_ticket(const void *a, const void *b)
{
	uint64_t x = ((const struct flight_op *)a)->r.ticket;
	uint64_t y = ((const struct flight_op *)b)->r.ticket;

	return (x > y) - (x < y);
}

/* Have the operations in their order, each once. */
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
		problem(r, "%zu operation%s of rank %d %s there twice",
		        rank->n - kept, plural(rank->n - kept), rank->rank,
		        rank->n - kept == 1 ? "is" : "are");
	rank->n = kept;
}

/* If several files have a rank, the file with most of its operations counts. */
static void end_rank(struct reader *r)
{
	struct part *p;

	if (!r->has_part)
		return;
	r->has_part = false;
	sort_rank(r);
	if (r->is_whole && r->now.rank.n < r->now.recorded)
		problem(r, "%zu of rank %d's %zu operations are missing",
		        r->now.recorded - r->now.rank.n, r->now.rank.rank,
		        r->now.recorded);
	p = find_part(r, r->now.rank.rank);
	if (*p->source.of && r->now.rank.n <= p->rank.n) {
		free(r->now.rank.ops);
		return;
	}
	free(p->rank.ops);
	*p = r->now;
}

/* The ranks of a merged file. */
static void read_ranks(struct reader *r, object *o)
{
	object *ranks = value_list(&r->values, o, "ranks"), *one;
	size_t i, n = ranks ? json_object_array_length(ranks) : 0;

	for (i = 0; i < n; i++) {
		one = value_object_at(&r->values, ranks, "ranks", i);
		if (!one)
			continue;
		begin_rank(r, one);
		add_entries(r, one);
		end_rank(r);
	}
}

/* A head, or a whole file.  False if there is nothing to be had from it. */
static bool read_head(struct reader *r, object *o)
{
	object *facts;

	if (json_object_object_get_ex(o, "traceEvents", NULL))
		return false;
	if (!json_object_object_get_ex(o, "cohort", NULL)) {
		problem(r, "is no dump");
		return false;
	}
	facts = value_object(&r->values, o, "cohort");
	if (!facts || !meet_facts(r, facts))
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

/* ---- files ------------------------------------------------------------ */

/* @text, whose end is a zero, as JSON, NULL if it is none.  @rest_out: what is behind
 * it. */
static object *parse(const char *text, size_t n, const char **rest_out)
{
	json_tokener *tokener = need(json_tokener_new());
	object *o = json_tokener_parse_ex(tokener, text, (int)n + 1);
	size_t end = json_tokener_get_parse_end(tokener);

	*rest_out = text + (end < n ? end : n);
	json_tokener_free(tokener);
	return o;
}

/* @line as JSON, with @end behind it if it is the begin of something; NULL if it is
 * no object. */
static object *parse_line(const char *line, const char *end)
{
	size_t n = strlen(line);
	char *text = need(malloc(n + strlen(end) + 1));
	const char *rest;
	object *o;

	strcpy(text, line);
	if (!*end && n && text[n - 1] == ',')
		text[n - 1] = '\0';
	strcat(text, end);
	o = parse(text, strlen(text), &rest);
	if (!json_object_is_type(o, json_type_object) || *rest) {
		json_object_put(o);
		o = NULL;
	}
	free(text);
	return o;
}

static bool begins_with(const char *line, const char *begin)
{
	return strncmp(line, begin, strlen(begin)) == 0;
}

/* Behind the head. */
static void read_line(struct reader *r, const char *line)
{
	bool is_rank = !r->is_whole && begins_with(line, "{\"rank\":");
	bool is_end = *line == ']';
	object *o = NULL;

	if (*line && !is_end) {
		o = parse_line(line, is_rank ? "]}" : "");
		r->damaged += !o;
	}
	/* What cannot be read may have been the begin of another rank. */
	if (is_rank || is_end || (!o && !begins_with(line, "{\"record_id\":")))
		if (!r->is_whole)
			end_rank(r);
	if (o && is_rank)
		begin_rank(r, o);
	else if (o)
		add_entry(r, o);
	json_object_put(o);
}

/* What is left of a file that is no JSON. */
static void salvage(struct reader *r, char *text)
{
	char *line = strsep(&text, "\n");
	object *head = parse_line(line, "]}");
	bool keep = head && read_head(r, head);

	if (!head)
		problem(r, "its head cannot be read: left out");
	json_object_put(head);
	while (keep && text && (line = strsep(&text, "\n")))
		read_line(r, line);
	if (keep)
		problem(r, "is damaged, or ends in the middle");
}

/* A FIFO that nobody writes to is empty: nothing waits for a writer. */
static int open_file(const char *file)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd >= 0)
		fcntl(fd, F_SETFL, 0);
	return fd;
}

/* All of a file and a zero; NULL if it cannot be read, with errno. */
static char *load(const char *file, size_t *n_out)
{
	size_t n = 0, room = 1 << 16;
	int fd = open_file(file), err;
	ssize_t got;
	char *text;

	if (fd < 0)
		return NULL;
	text = need(malloc(room + 1));
	do {
		if (n == room) {
			room *= 2;
			text = need(realloc(text, room + 1));
		}
		got = read(fd, text + n, room - n);
		n += got > 0 ? (size_t)got : 0;
	} while ((got > 0 && n < FILE_MOST) || (got < 0 && errno == EINTR));
	err = got < 0 ? errno : got ? EFBIG : 0;
	close(fd);
	if (err) {
		free(text);
		errno = err;
		return NULL;
	}
	text[n] = '\0';
	*n_out = n;
	return text;
}

/* A zero ends no text: what was on a disk that lost power may have many. */
static void replace_zeros(char *text, size_t n)
{
	char *zero;

	while ((zero = memchr(text, '\0', n))) {
		*zero = '\1';
		n -= (size_t)(zero + 1 - text);
		text = zero + 1;
	}
}

static void read_text(struct reader *r, char *text, size_t n)
{
	const char *rest;
	object *o;

	replace_zeros(text, n);
	o = parse(text, n, &rest);
	if (json_object_is_type(o, json_type_object)) {
		read_head(r, o);
		if (rest[strspn(rest, " \t\r\n")])
			problem(r, "has more behind its end, which is not "
			           "read");
	} else {
		salvage(r, text);
	}
	json_object_put(o);
	end_rank(r);
}

/* What was wrong with the file. */
static void tell(struct reader *r)
{
	const struct value_wrong *w = r->values.keys;
	size_t more = r->values.wrong;

	for (; w < r->values.keys + r->values.n; w++) {
		more -= w->n;
		if (w->n > 1)
			problem(r, "%s, and %zu more", w->text, w->n - 1);
		else
			problem(r, "%s", w->text);
	}
	if (more)
		problem(r, "%zu value%s of other keys %s wrong", more,
		        plural(more), more == 1 ? "is" : "are");
	if (r->left_out)
		problem(r, "%zu operation%s with wrong values %s left out",
		        r->left_out, plural(r->left_out),
		        r->left_out == 1 ? "is" : "are");
	if (r->damaged)
		problem(r, "%zu line%s cannot be read", r->damaged,
		        plural(r->damaged));
}

static void read_file(struct reader *r, const char *file)
{
	size_t n = 0;
	char *text = load(file, &n);

	r->file = file;
	r->values = (struct values){ .n = 0 };
	r->damaged = r->left_out = 0;
	if (!text)
		problem(r, "%s", strerror(errno));
	else if (!n)
		problem(r, "is empty");
	else
		read_text(r, text, n);
	tell(r);
	free(text);
}

/* ---- putting it together ---------------------------------------------- */

static int by_rank(const void *a, const void *b)
{
	return ((const struct part *)a)->rank.rank -
	       ((const struct part *)b)->rank.rank;
}

static void put_together(struct reader *r)
{
	struct flight *f = &r->trace->flight, facts = *f;
	struct flight_op *ops;
	size_t most = 1;
	int i;

	for (i = 0; i < r->n; i++)
		if (r->parts[i].rank.n > most)
			most = r->parts[i].rank.n;
	need(flight_init(f, r->n, (unsigned)most) ? f->memory : NULL);
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

int trace_read(struct trace *trace, char *const *files, int n)
{
	struct reader r = {
		.trace = trace,
		.parts = need(calloc(COHORT_MAX_RANKS, sizeof(*r.parts))),
	};
	int i;

	for (i = 0; i < n; i++)
		read_file(&r, files[i]);
	find_missing(&r);
	if (r.n)
		put_together(&r);
	trace->is_found = r.n > 0;
	for (i = 0; i < r.n; i++)
		free(r.parts[i].rank.ops);
	free(r.parts);
	for (i = 0; !trace->is_found && i < trace->n_problems; i++)
		cli_complain("trace", "%s", trace->problems[i]);
	if (!trace->is_found)
		cli_complain("trace", "no file has operations of any rank");
	return trace->is_found ? CLI_OK : CLI_FAILED;
}

#else

int trace_read(struct trace *trace, char *const *files, int n)
{
	(void)trace;
	(void)files;
	(void)n;
	cli_complain("trace", "built without json-c: install libjson-c-dev "
	                      "(Debian, Ubuntu) and pkg-config, then make "
	                      "again");
	return CLI_FAILED;
}

#endif

void trace_free(struct trace *trace)
{
	int i;

	for (i = 0; i < trace->n_problems; i++)
		free(trace->problems[i]);
	free(trace->problems);
	flight_fini(&trace->flight);
}
