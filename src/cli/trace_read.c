/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort trace: reading dumps, also what is left of damaged ones
 *
 * A file that is no JSON is read line by line: a dump has its head, and then each
 * entry, on a line of its own, so that what is whole can be told from what is not.
 */

#include "trace.h"

#include "cli.h"

#ifdef HAVE_JSON_C

#include <errno.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guard/dump.h"

typedef struct json_object object;

/* Room for what tells dumps of one name apart, see dump.h. */
#define OF_SIZE 112

/* Which dump something is from. */
struct source {
	char process[96]; /* HOST.PID.SERIAL */
	unsigned verdict; /* its number, 0: it was asked for */
	char of[OF_SIZE]; /* all of that */
};

/* A rank as it is put together. */
struct part {
	struct flight_rank rank;
	size_t room;
	size_t recorded; /* entries that its file says it has */
	bool is_whole;   /* from a file of its own, not from a merged one */
	struct source source;
};

struct reader {
	struct trace *trace;
	bool has_facts;
	struct source facts; /* where they are from */
	int n;
	struct part *parts; /* room for COHORT_MAX_RANKS */

	/* Of the file that is being read. */
	const char *file;
	struct source source;
	struct part *part; /* that entries are of, NULL: of none to be kept */
	size_t damaged;
	bool is_whole;
};

static void problem(struct reader *r, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void problem(struct reader *r, const char *format, ...)
{
	struct trace *t = r->trace;
	struct text text;
	va_list args;
	int i = t->n_problems < TRACE_PROBLEMS ? t->n_problems++
	                                       : TRACE_PROBLEMS - 1;
	char line[200];

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	text = (struct text){ t->problems[i], sizeof(t->problems[i]) };
	text_add(&text, "%s: %s", r->file, line);
}

/* Memory that was asked for, or the end. */
static void *need(void *memory)
{
	if (!memory) {
		cli_complain("trace", "out of memory");
		exit(CLI_FAILED);
	}
	return memory;
}

/* ---- values ----------------------------------------------------------- */

static object *member(object *o, const char *key)
{
	object *value = NULL;

	if (json_object_is_type(o, json_type_object))
		json_object_object_get_ex(o, key, &value);
	return value;
}

static uint64_t get_uint(object *o, const char *key)
{
	object *value = member(o, key);

	return json_object_is_type(value, json_type_int)
	               ? json_object_get_uint64(value)
	               : 0;
}

static int get_int(object *o, const char *key, int otherwise)
{
	object *value = member(o, key);

	return json_object_is_type(value, json_type_int)
	               ? json_object_get_int(value)
	               : otherwise;
}

static const char *get_text(object *o, const char *key)
{
	object *value = member(o, key);

	return json_object_is_type(value, json_type_string)
	               ? json_object_get_string(value)
	               : "";
}

/* The number of a name in a list, -1: it has none. */
static int find_name(const char *name, const char *(*name_of)(int), int n)
{
	int i;

	for (i = 0; i < n; i++)
		if (strcmp(name, name_of(i)) == 0)
			return i;
	return -1;
}

static const char *kind_name(int kind)
{
	return op_name((enum op_kind)kind);
}

static int find_verdict(const char *name)
{
	int kind;

	for (kind = 0; kind < 256; kind++)
		if (strcmp(name, cohort_verdict_text(kind)) == 0)
			return kind;
	return COHORT_VERDICT_NONE;
}

static void get_set(object *o, const char *key, uint64_t *set)
{
	object *list = member(o, key);
	size_t i;
	int rank;

	if (!json_object_is_type(list, json_type_array))
		return;
	for (i = 0; i < json_object_array_length(list); i++) {
		rank = json_object_get_int(json_object_array_get_idx(list, i));
		if (rank >= 0 && rank < COHORT_MAX_RANKS)
			rank_set_add(set, rank);
	}
}

/* ---- entries ---------------------------------------------------------- */

/* The number of a tag, which is new if need be; 0: none. */
static unsigned tag_number(struct flight_tag *tags, const char *text)
{
	unsigned i;

	if (!*text)
		return 0;
	for (i = 0; i < TAG_SLOTS && tags[i].number; i++)
		if (strcmp(tags[i].text, text) == 0)
			return i + 1;
	if (i == TAG_SLOTS)
		return 0;
	tags[i].number = i + 1;
	snprintf(tags[i].text, sizeof(tags[i].text), "%s", text);
	return i + 1;
}

static enum flight_state get_state(object *o)
{
	const char *state = get_text(o, "state");

	return strcmp(state, "completed") == 0 ? FLIGHT_COMPLETED
	       : strcmp(state, "started") == 0 ? FLIGHT_STARTED
	                                       : FLIGHT_SCHEDULED;
}

/* True of the name of a call with host memory. */
static bool is_from_host(const char *call)
{
	static const char end[] = "_host";
	const size_t n = strlen(call), of = sizeof(end) - 1;

	return n > of && strcmp(call + n - of, end) == 0;
}

/* False if it is no entry. */
static bool read_entry(struct flight_rank *r, object *o, struct flight_op *op)
{
	int kind =
		find_name(get_text(o, "first_call"), kind_name, OP_BATCH + 1);
	int type =
		find_name(get_text(o, "dtype"), type_name, COHORT_F8E5M2 + 1);
	int redop = find_name(get_text(o, "reduce_op"), redop_name,
	                      REDOP_PREMUL_SUM + 1);

	if (kind < 0 || !get_uint(o, "record_id"))
		return false;
	*op = (struct flight_op){
		.r = {
			.ticket = get_uint(o, "record_id"),
			.submitted_ns = get_uint(o, "submitted_ns"),
			.started_ns = get_uint(o, "started_ns"),
			.finished_ns = get_uint(o, "finished_ns"),
			.is_batch = strcmp(get_text(o, "call"), "batch") == 0,
			.from_host = is_from_host(get_text(o, "call")),
			.kind = (enum op_kind)kind,
			.type = type < 0 ? 0 : type,
			.redop = redop < 0 ? 0 : redop,
			.root = get_int(o, "root", get_int(o, "peer", 0)),
			.n = get_uint(o, "tensors"),
			.count = get_uint(o, "count"),
			.bytes = get_uint(o, "bytes"),
			.outcome = get_int(o, "outcome", COHORT_OK),
			.tid = atoi(get_text(o, "thread_id")),
			.tag = tag_number(r->tags, get_text(o, "tag")),
			.label = tag_number(r->labels, get_text(o, "label")),
		},
		.number = get_uint(o, "collective"),
		.pair = get_uint(o, "pair_seq_id"),
		.timeout_ns = get_uint(o, "timeout_ms") * 1000000,
		.state = get_state(o),
	};
	return true;
}

static void add_entry(struct reader *r, object *o)
{
	struct part *p = r->part;

	if (!p)
		return;
	if (p->rank.n == p->room) {
		p->room = p->room ? 2 * p->room : 256;
		p->rank.ops = need(
			realloc(p->rank.ops, p->room * sizeof(*p->rank.ops)));
	}
	if (read_entry(&p->rank, o, &p->rank.ops[p->rank.n]))
		p->rank.n++;
	else
		r->damaged++;
}

static void add_entries(struct reader *r, object *list)
{
	size_t i;

	if (!json_object_is_type(list, json_type_array))
		return;
	for (i = 0; i < json_object_array_length(list); i++)
		add_entry(r, json_object_array_get_idx(list, i));
}

/* ---- heads ------------------------------------------------------------ */

static void read_cause(struct flight *f, object *o)
{
	f->cause.status = get_int(o, "status", COHORT_OK);
	f->cause.kind = find_verdict(get_text(o, "kind"));
	f->cause.rank = get_int(o, "rank", -1);
	f->cause.collective = get_uint(o, "collective");
	snprintf(f->cause.text, sizeof(f->cause.text), "%s",
	         get_text(o, "text"));
}

static void read_verdict(struct flight *f, object *o)
{
	if (!json_object_is_type(o, json_type_object))
		return;
	f->has_verdict = true;
	f->verdict.kind = find_verdict(get_text(o, "kind"));
	f->verdict.rank = get_int(o, "rank", -1);
	f->verdict.collective = get_uint(o, "collective");
	f->verdict.deadline_ns = get_uint(o, "deadline_ns");
	get_set(o, "joined", f->verdict.joined);
	get_set(o, "missing", f->verdict.missing);
	snprintf(f->text, sizeof(f->text), "%s", get_text(o, "text"));
}

static void read_source(struct source *s, object *o)
{
	char mark[DUMP_MARK];

	snprintf(s->process, sizeof(s->process), "%.63s.%d.%d",
	         get_text(o, "host"), get_int(o, "pid", 0),
	         get_int(o, "serial", 0));
	s->verdict = (unsigned)get_uint(o, "verdict_number");
	snprintf(s->of, sizeof(s->of), "%s%s", s->process,
	         dump_mark(s->verdict, mark));
}

/* The first verdict tells most, and what was asked for least: 0 less 1 is the greatest
 * number. */
static bool is_better(const struct source *a, const struct source *b)
{
	return a->verdict - 1 < b->verdict - 1;
}

/* What all files have to agree about; false: this one is of something else. */
static bool read_facts(struct reader *r, object *o)
{
	struct flight *f = &r->trace->flight;
	const char *group = get_text(o, "group");
	int generation = get_int(o, "generation", 0);

	read_source(&r->source, o);
	if (r->has_facts &&
	    (strcmp(group, f->group) != 0 || generation != f->generation)) {
		problem(r, "is of group \"%s\", generation %d: left out", group,
		        generation);
		return false;
	}
	if (r->has_facts && !is_better(&r->source, &r->facts))
		return true;
	r->has_facts = true;
	r->facts = r->source;
	snprintf(f->group, sizeof(f->group), "%s", group);
	snprintf(f->host, sizeof(f->host), "%s", get_text(o, "host"));
	f->generation = generation;
	f->world = get_int(o, "world", 0);
	f->pid = get_int(o, "pid", 0);
	f->now_ns = get_uint(o, "monotonic_ns");
	f->wall_ns = get_uint(o, "wall_ns");
	f->trigger = strcmp(get_text(o, "trigger"), "verdict") == 0  ? "verdict"
	             : strcmp(get_text(o, "trigger"), "signal") == 0 ? "signal"
	             : strcmp(get_text(o, "trigger"), "fifo") == 0   ? "FIFO"
	                                                             : "call";
	read_cause(f, member(o, "cause"));
	read_verdict(f, member(o, "verdict"));
	return true;
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

/* True if the file's dump is the one to take a rank from, which may be of another
 * already; else that is told. */
static bool choose_source(struct reader *r, struct part *p)
{
	const struct source *now = &r->source, *other = &p->source;
	bool is_it = strcmp(now->process, other->process) == 0 &&
	             is_better(now, other);

	if (!*other->of || strcmp(now->of, other->of) == 0)
		return true;
	problem(r, "rank %d is of %s, not %s: %s left out", p->rank.rank,
	        now->of, other->of, is_it ? "the latter is" : "it is");
	if (is_it)
		p->rank.n = 0;
	return is_it;
}

/* Entries are of this rank from now on; those of its own file are more. */
static void read_rank(struct reader *r, object *o)
{
	int rank = get_int(o, "rank", -1);
	struct part *p;

	r->part = NULL;
	if (rank < 0 || rank >= COHORT_MAX_RANKS) {
		r->damaged++;
		return;
	}
	p = find_part(r, rank);
	if (!choose_source(r, p) || (p->rank.n && !r->is_whole))
		return;
	p->source = r->source;
	p->rank.n = 0;
	p->is_whole = r->is_whole;
	p->recorded = get_uint(o, "recorded");
	p->rank.device = get_int(o, "device", -1);
	p->rank.tid = get_int(o, "tid", 0);
	p->rank.alive = get_int(o, "alive", -1);
	p->rank.lost = get_uint(o, "lost");
	p->rank.last_enqueued = get_uint(o, "last_enqueued");
	snprintf(p->rank.thread, sizeof(p->rank.thread), "%s",
	         get_text(o, "thread"));
	r->part = p;
}

/* A head, or a whole file.  False if there is nothing to be had from it. */
static bool read_head(struct reader *r, object *o)
{
	object *facts = member(o, "cohort"), *ranks = member(o, "ranks"), *one;
	size_t i;

	if (member(o, "traceEvents"))
		return false;
	if (!facts) {
		problem(r, "is no dump");
		return false;
	}
	if (!read_facts(r, facts))
		return false;
	r->is_whole = !ranks;
	if (r->is_whole)
		read_rank(r, facts);
	add_entries(r, member(o, "entries"));
	for (i = 0; ranks && i < json_object_array_length(ranks); i++) {
		one = json_object_array_get_idx(ranks, i);
		read_rank(r, one);
		add_entries(r, member(one, "entries"));
	}
	return true;
}

/* ---- files ------------------------------------------------------------ */

/* @line as JSON, with @end behind it if it is the begin of something; NULL if it is
 * neither. */
static object *parse_line(const char *line, const char *end)
{
	size_t n = strlen(line);
	char *text = need(malloc(n + strlen(end) + 1));
	object *o;

	strcpy(text, line);
	if (!*end && n && text[n - 1] == ',')
		text[n - 1] = '\0';
	strcat(text, end);
	o = json_tokener_parse(text);
	free(text);
	return o;
}

/* Behind the head.  False: it is an end. */
static bool read_line(struct reader *r, const char *line)
{
	bool is_rank = strncmp(line, "{\"rank\":", 8) == 0;
	object *o;

	if (*line == ']' || !*line)
		return *line == ']' && line[1] == '}' && !line[2];
	o = parse_line(line, is_rank ? "]}" : "");
	if (!o) {
		r->damaged++;
		return true;
	}
	if (is_rank)
		read_rank(r, o);
	else
		add_entry(r, o);
	json_object_put(o);
	return true;
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

static char *load(const char *file)
{
	FILE *f = fopen(file, "re");
	char *text = NULL;
	size_t n = 0, room = 0;

	if (!f)
		return NULL;
	do {
		room = room ? 2 * room : 1 << 16;
		text = need(realloc(text, room + 1));
		n += fread(text + n, 1, room - n, f);
	} while (n == room);
	if (ferror(f)) {
		free(text);
		text = NULL;
	} else {
		/* A zero ends what can be read. */
		text[n] = '\0';
	}
	fclose(f);
	return text;
}

static void read_file(struct reader *r, const char *file)
{
	char *text = load(file);
	object *o;

	r->file = file;
	r->part = NULL;
	r->damaged = 0;
	if (!text) {
		problem(r, "%s", strerror(errno));
		return;
	}
	o = json_tokener_parse(text);
	if (o)
		read_head(r, o);
	else
		salvage(r, text);
	json_object_put(o);
	free(text);
	if (r->damaged)
		problem(r, "%zu line%s cannot be read", r->damaged,
		        r->damaged > 1 ? "s" : "");
	if (r->part && r->is_whole && r->part->rank.n < r->part->recorded)
		problem(r, "%zu of rank %d's %zu operations are missing",
		        r->part->recorded - r->part->rank.n, r->part->rank.rank,
		        r->part->recorded);
}

/* ---- putting it together ---------------------------------------------- */

static int by_rank(const void *a, const void *b)
{
	return ((const struct part *)a)->rank.rank -
	       ((const struct part *)b)->rank.rank;
}

static int by_ticket(const void *a, const void *b)
{
	uint64_t x = ((const struct flight_op *)a)->r.ticket;
	uint64_t y = ((const struct flight_op *)b)->r.ticket;

	return (x > y) - (x < y);
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
		qsort(ops, f->ranks[i].n, sizeof(*ops), by_ticket);
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
	flight_fini(&trace->flight);
}
