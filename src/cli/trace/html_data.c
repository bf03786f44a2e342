/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The data of the page of cohort trace --html: columns of numbers, as JSON
 *
 * Each operation has a row in the columns of "ops", rank after rank.  What many operations
 * share is a row of "calls", to which they point.  Times are relative: to the rank's call
 * before ("submitted", at first to "base_ns"), to the own call ("started", "begin"), to the
 * begin ("joined"), and to the moment when all ranks had joined ("end").
 */

#include "cli/trace/html.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"

/* ---- times ------------------------------------------------------------ */

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

struct html_walk html_walk(const struct flight *f)
{
	struct html_walk w = { .flight = f, .now_ns = f->now_ns };
	const struct flight_op *op;
	int r;

	for (r = 0; r < f->size; r++) {
		for (op = f->ranks[r].ops; op < f->ranks[r].ops + f->ranks[r].n;
		     op++)
			w.now_ns = later(w.now_ns, later(op->r.submitted_ns,
			                                 op->r.finished_ns));
	}
	return w;
}

struct flight_span html_next(struct html_walk *w, const struct flight_op *op)
{
	uint64_t end_ns = op->r.finished_ns;
	struct flight_span s;

	if (!end_ns && op->state != FLIGHT_COMPLETED && op->r.outcome >= 0)
		end_ns = w->now_ns;
	s = flight_span(w->flight, op, w->busy_until_ns, end_ns);
	if (end_ns)
		w->busy_until_ns = s.end_ns;
	return s;
}

/* The time that all others are given from: that of the first call. */
static uint64_t base_of(const struct flight *f)
{
	uint64_t base = UINT64_MAX;
	const struct flight_op *op;
	int r;

	for (r = 0; r < f->size; r++)
		for (op = f->ranks[r].ops; op < f->ranks[r].ops + f->ranks[r].n;
		     op++)
			if (op->r.submitted_ns < base)
				base = op->r.submitted_ns;
	return base == UINT64_MAX ? 0 : base;
}

/* ---- what operations share -------------------------------------------- */

/* An operation, with the texts that its rank has for it. */
struct item {
	const struct flight_op *op;
	const char *tag, *label;
	size_t at;   /* among all operations */
	size_t call; /* the row of "calls" */
};

static int order(uint64_t x, uint64_t y)
{
	return (x > y) - (x < y);
}

static int compare(const void *a, const void *b)
{
	const struct item *i = a, *j = b;
	const struct record *x = &i->op->r, *y = &j->op->r;
	int o = order(x->kind, y->kind);

	o = o ? o : order(x->count, y->count);
	o = o ? o : order(x->bytes, y->bytes);
	o = o ? o : order(x->n, y->n);
	o = o ? o : order((uint64_t)x->type, (uint64_t)y->type);
	o = o ? o : order((uint64_t)x->redop, (uint64_t)y->redop);
	o = o ? o : order((uint64_t)x->root, (uint64_t)y->root);
	o = o ? o : order(x->is_batch, y->is_batch);
	o = o ? o : order(x->from_host, y->from_host);
	o = o ? o : order(i->op->state, j->op->state);
	o = o ? o : order((uint64_t)x->outcome, (uint64_t)y->outcome);
	o = o ? o : strcmp(i->tag, j->tag);
	return o ? o : strcmp(i->label, j->label);
}

/* All operations of a flight. */
struct items {
	size_t n;
	struct item *sorted; /* by what they share */
	struct item **calls; /* the first of each row of "calls" */
	size_t n_calls;
	size_t *call_of; /* by place among all operations */
};

static void items_free(struct items *i)
{
	free(i->sorted);
	free(i->calls);
	free(i->call_of);
}

static void sort_items(struct items *all)
{
	struct item *i;

	if (all->n)
		qsort(all->sorted, all->n, sizeof(*all->sorted), compare);
	for (i = all->sorted; i < all->sorted + all->n; i++) {
		if (i == all->sorted || compare(i - 1, i) != 0)
			all->calls[all->n_calls++] = i;
		all->call_of[i->at] = all->n_calls - 1;
	}
}

/* False if there is no memory. */
static bool find_items(struct items *all, const struct flight *f)
{
	const struct flight_rank *r;
	const struct flight_op *op;
	size_t n = 1;

	for (r = f->ranks; r < f->ranks + f->size; r++)
		n += r->n;
	*all = (struct items){
		.sorted = calloc(n, sizeof(*all->sorted)),
		.calls = calloc(n, sizeof(struct item *)),
		.call_of = calloc(n, sizeof(*all->call_of)),
	};
	if (!all->sorted || !all->calls || !all->call_of) {
		items_free(all);
		return false;
	}
	for (r = f->ranks; r < f->ranks + f->size; r++) {
		for (op = r->ops; op < r->ops + r->n; op++, all->n++)
			all->sorted[all->n] =
				(struct item){ .op = op,
				               .tag = flight_tag(r, op),
				               .label = flight_label(r, op),
				               .at = all->n };
	}
	sort_items(all);
	return true;
}

static void put_calls(struct json *j, const struct items *all)
{
	struct item **i, **end = all->calls + all->n_calls;
	char call[160];

	json_open(j, "calls", '{');
	json_open(j, "name", '[');
	for (i = all->calls; i < end; i++)
		json_string(j, NULL, record_name(&(*i)->op->r));
	json_close(j, ']');
	json_open(j, "text", '[');
	for (i = all->calls; i < end; i++) {
		*call = '\0';
		record_add(&(struct text){ call, sizeof(call) }, &(*i)->op->r);
		json_string(j, NULL, call);
	}
	json_close(j, ']');
	json_open(j, "bytes", '[');
	for (i = all->calls; i < end; i++)
		json_uint(j, NULL, (*i)->op->r.bytes);
	json_close(j, ']');
	json_open(j, "tag", '[');
	for (i = all->calls; i < end; i++)
		json_string(j, NULL, (*i)->tag);
	json_close(j, ']');
	json_open(j, "label", '[');
	for (i = all->calls; i < end; i++)
		json_string(j, NULL, (*i)->label);
	json_close(j, ']');
	json_open(j, "state", '[');
	for (i = all->calls; i < end; i++)
		json_string(j, NULL, trace_state((*i)->op));
	json_close(j, ']');
	json_open(j, "done", '[');
	for (i = all->calls; i < end; i++)
		json_int(j, NULL, (*i)->op->state == FLIGHT_COMPLETED);
	json_close(j, ']');
	json_close(j, '}');
}

/* ---- columns ---------------------------------------------------------- */

static void put_column(struct json *j, const char *key, const uint64_t *column,
                       size_t n)
{
	size_t i;

	json_open(j, key, '[');
	for (i = 0; i < n; i++)
		json_int(j, NULL, (int64_t)column[i]);
	json_close(j, ']');
}

enum { NUMBER, SUBMITTED, STARTED, BEGIN, JOINED, END, AT_MOST, COLUMNS };

/* Fill in the rows of all ranks; column c begins at columns[c * n]. */
static void fill_columns(uint64_t *columns, size_t n, const struct flight *f)
{
	struct html_walk begin = html_walk(f), w;
	uint64_t base = base_of(f), before;
	const struct flight_rank *r;
	const struct flight_op *op;
	struct flight_span s;
	uint64_t *row = columns;

	for (r = f->ranks; r < f->ranks + f->size; r++) {
		w = begin;
		before = base;
		for (op = r->ops; op < r->ops + r->n; op++, row++) {
			s = html_next(&w, op);
			row[NUMBER * n] = op->number;
			row[SUBMITTED * n] = op->r.submitted_ns - before;
			row[STARTED * n] =
				op->r.started_ns
					? op->r.started_ns - op->r.submitted_ns
					: UINT64_MAX;
			row[BEGIN * n] = s.begin_ns - op->r.submitted_ns;
			row[JOINED * n] = s.joined_ns - s.begin_ns;
			row[END * n] = s.end_ns - s.joined_ns;
			row[AT_MOST * n] = op->r.finished_at_most;
			before = op->r.submitted_ns;
		}
	}
}

/* False if there is no memory. */
static bool put_ops(struct json *j, const struct flight *f,
                    const struct items *all)
{
	static const char *const names[COLUMNS] = { "number",  "submitted",
		                                    "started", "begin",
		                                    "joined",  "end",
		                                    "at_most" };
	uint64_t *columns = calloc(all->n + 1, COLUMNS * sizeof(*columns));
	size_t i;
	int c;

	if (!columns)
		return false;
	fill_columns(columns, all->n, f);
	json_open(j, "ops", '{');
	json_open(j, "call", '[');
	for (i = 0; i < all->n; i++)
		json_uint(j, NULL, all->call_of[i]);
	json_close(j, ']');
	for (c = 0; c < COLUMNS; c++)
		put_column(j, names[c], columns + (size_t)c * all->n, all->n);
	json_close(j, '}');
	free(columns);
	return true;
}

/* The collectives from number "lowest" on: how many ranks have called, the index of the
 * last of them, when the first one called, and how long after it the last one. */
static void put_meetings(struct json *j, const struct flight *f)
{
	const struct flight_meeting *m, *end = f->meetings + f->meetings_count;
	uint64_t base = base_of(f);

	json_open(j, "collectives", '{');
	json_uint(j, "lowest", f->lowest);
	json_open(j, "joined", '[');
	for (m = f->meetings; m < end; m++)
		json_int(j, NULL, m->joined);
	json_close(j, ']');
	json_open(j, "last", '[');
	for (m = f->meetings; m < end; m++)
		json_int(j, NULL, m->last);
	json_close(j, ']');
	json_open(j, "first", '[');
	for (m = f->meetings; m < end; m++)
		json_uint(j, NULL, m->joined ? m->first_ns - base : 0);
	json_close(j, ']');
	json_open(j, "behind", '[');
	for (m = f->meetings; m < end; m++)
		json_uint(j, NULL, m->last_ns - m->first_ns);
	json_close(j, ']');
	json_close(j, '}');
}

static void put_ranks(struct json *j, const struct flight *f)
{
	const struct flight_rank *r, *end = f->ranks + f->size;

	json_open(j, "ranks", '{');
	json_open(j, "rank", '[');
	for (r = f->ranks; r < end; r++)
		json_int(j, NULL, r->rank);
	json_close(j, ']');
	json_open(j, "n", '[');
	for (r = f->ranks; r < end; r++)
		json_uint(j, NULL, r->n);
	json_close(j, ']');
	json_close(j, '}');
}

/* Three figures in a row: p50, p95 and most; null if there are no times. */
static void put_spread(struct json *j, const struct trace_spread *s)
{
	if (!s->n) {
		json_null(j, NULL);
		return;
	}
	json_open(j, NULL, '[');
	json_uint(j, NULL, s->p50);
	json_uint(j, NULL, s->p95);
	json_uint(j, NULL, s->max);
	json_close(j, ']');
}

/* Each kind of call: its text, tag, label, how many calls, their time, and spreads. */
static void put_kinds(struct json *j, const struct trace_figures *figures)
{
	const struct trace_site *s, *end = figures->sites + figures->n_sites;
	char call[160];

	json_open(j, "kinds", '[');
	for (s = figures->sites; s < end; s++) {
		*call = '\0';
		record_add(&(struct text){ call, sizeof(call) }, &s->record);
		json_open(j, NULL, '[');
		json_string(j, NULL, call);
		json_string(j, NULL, s->tag);
		json_string(j, NULL, s->label);
		json_uint(j, NULL, s->calls);
		json_uint(j, NULL, s->total_ns);
		put_spread(j, &s->queueing);
		put_spread(j, &s->waiting);
		put_spread(j, &s->execution);
		put_spread(j, &s->between);
		json_close(j, ']');
	}
	json_close(j, ']');
}

/* ---- all of it -------------------------------------------------------- */

static bool put_all(struct json *j, const struct trace *t,
                    const struct trace_figures *figures)
{
	const struct flight *f = &t->flight;
	uint64_t base = base_of(f);
	struct items all;
	char text[24];
	bool ok;

	if (!find_items(&all, f))
		return false;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)base);
	json_open(j, NULL, '{');
	json_int(j, "format", 1);
	/* As text: the script's numbers are exact to 2^53. */
	json_string(j, "base_ns", text);
	json_uint(j, "now", html_walk(f).now_ns - base);
	json_uint(j, "front",
	          figures->window.is_stalled ? figures->window.front : 0);
	json_uint(j, "first", figures->window.first);
	json_int(j, "culprit",
	         f->has_verdict ? f->verdict.rank : f->cause.rank);
	flight_put_set(j, "missing", f->verdict.missing);
	put_ranks(j, f);
	put_meetings(j, f);
	put_calls(j, &all);
	put_kinds(j, figures);
	ok = put_ops(j, f, &all);
	json_close(j, '}');
	items_free(&all);
	return ok;
}

/* In JSON '<' is only in strings, where it may be escaped. */
static void put_escaped(FILE *out, const char *text, size_t n)
{
	const char *mark;

	while ((mark = memchr(text, '<', n))) {
		fwrite(text, 1, (size_t)(mark - text), out);
		fputs("\\u003c", out);
		n -= (size_t)(mark + 1 - text);
		text = mark + 1;
	}
	fwrite(text, 1, n, out);
}

bool html_data(FILE *out, const struct trace *t,
               const struct trace_figures *figures)
{
	char *text = NULL;
	size_t n = 0;
	FILE *memory = open_memstream(&text, &n);
	bool ok =
		memory && put_all(&(struct json){ .out = memory }, t, figures);

	if (memory)
		ok = !ferror(memory) && ok;
	if (memory && fclose(memory))
		ok = false;
	if (ok)
		put_escaped(out, text, n);
	free(text);
	return ok;
}
