/* SPDX-License-Identifier: Apache-2.0 */

/* The model of cohort trace: everything that is computed from the dumps, for
 * all writers */

#include "cli/trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "cli/common/cli.h"
#include "core/cause.h"

/* Number of collectives to show before and after the collective that the trace
 * is about */
#define BEFORE 6
#define BEHIND 3

const struct flight_op *trace_find(const struct flight_rank *r, uint64_t number)
{
	for (size_t i = r->n; i-- > 0;)
		if (r->ops[i].number == number)
			return &r->ops[i];
	return NULL;
}

const struct flight_op *trace_first(const struct flight *f, uint64_t number)
{
	const struct flight_op *op = NULL;

	for (int r = 0; number && r < f->size && !op; r++)
		op = trace_find(&f->ranks[r], number);
	return op;
}

/* Return one more than the number of the last collective that every rank has
 * completed. A collective that is older than a rank's records counts as
 * completed by the rank. */
static uint64_t first_open(const struct flight *f)
{
	size_t n = f->meetings_count, i;
	size_t *done = cli_need(calloc(n + 1, sizeof(*done)));
	const struct flight_rank *r;
	uint64_t first;

	for (r = f->ranks; r < f->ranks + f->size; r++) {
		first = UINT64_MAX;
		for (i = 0; i < r->n; i++)
			if (r->ops[i].number)
				first = MIN(first, r->ops[i].number);
		for (i = 0; i < n && f->lowest + i < first; i++)
			done[i]++;
		for (i = 0; i < r->n; i++)
			if (r->ops[i].number >= f->lowest &&
			    r->ops[i].state == FLIGHT_COMPLETED)
				done[r->ops[i].number - f->lowest]++;
	}
	/* Search from the end. A collective is rarely done if an earlier one is
	 * not. */
	for (i = n; i > 0 && done[i - 1] < (size_t)f->size; i--)
		;
	free(done);
	return f->lowest + i;
}

/* Find the collective that the trace is about: the collective of the verdict or
 * the cause; otherwise the first one that is not done on all ranks; otherwise
 * the last one. */
static void find_window(const struct flight *f, struct trace_window *w)
{
	uint64_t last =
		f->meetings_count ? f->lowest + f->meetings_count - 1 : 0;

	w->is_stalled = true;
	if (f->has_verdict && f->verdict.collective) {
		w->front = f->verdict.collective;
	} else if (f->cause.collective) {
		w->front = f->cause.collective;
	} else if (last) {
		w->front = first_open(f);
		w->is_stalled = w->front <= last;
		w->front = MIN(w->front, last);
	}
	w->first = w->last = w->front;
	if (!last)
		return;
	w->first = f->lowest;
	if (w->front > BEFORE && w->front - BEFORE > w->first)
		w->first = MIN(w->front - BEFORE, last);
	w->last = MIN(w->front + BEHIND, last);
}

static int compare_numbers(uint64_t x, uint64_t y)
{
	return (x > y) - (x < y);
}

static int compare(const void *a, const void *b)
{
	return compare_numbers(*(const uint64_t *)a, *(const uint64_t *)b);
}

static struct trace_spread spread(uint64_t *ns, size_t n)
{
	struct trace_spread s = { .n = n };

	if (!n)
		return s;
	qsort(ns, n, sizeof(*ns), compare);
	s.p50 = ns[(n - 1) / 2];
	s.p95 = ns[(n - 1) * 95 / 100];
	s.max = ns[n - 1];
	return s;
}

/* For each rank, compute how often it called last and how late. @scratch has
 * room for all calls of a rank. */
static void find_late(struct trace_model *m, uint64_t *scratch)
{
	const struct flight *f = m->flight;
	const struct flight_meeting *meeting, *end;
	struct trace_rank *rank = m->ranks;

	end = f->meetings + f->meetings_count;
	for (int r = 0; r < f->size && f->size > 1; r++, rank++) {
		for (meeting = f->meetings; meeting < end; meeting++) {
			if (meeting->joined < f->size)
				continue;
			rank->of++;
			if (meeting->last == r)
				scratch[rank->last++] =
					meeting->last_ns - meeting->first_ns;
		}
		rank->late = spread(scratch, rank->last);
	}
}

static uint64_t sum(uint64_t a, uint64_t b)
{
	return b < UINT64_MAX - a ? a + b : UINT64_MAX;
}

/* The progress of follow() through the calls of a rank */
struct walk {
	uint64_t busy_until_ns; /* latest end of any call so far */
	/* @busy_until_ns is an upper bound: the end was observed late */
	bool is_bound;
	uint64_t drawn_until_ns;
};

static struct trace_call follow(const struct trace_model *m,
                                const struct flight_rank *r,
                                const struct flight_op *op, struct walk *w)
{
	uint64_t called = op->r.submitted_ns, end_ns = op->r.finished_ns;
	struct flight_span s =
		flight_span(m->flight, op, w->busy_until_ns, end_ns);
	bool begins = end_ns && (!w->is_bound || w->busy_until_ns <= called);
	struct trace_call c = {
		.op = op,
		.tag = flight_tag(r, op),
		.label = flight_label(r, op),
	};

	memset(c.ns, 0xff, sizeof(c.ns)); /* TRACE_UNKNOWN */
	if (begins)
		c.ns[TRACE_QUEUEING] = s.begin_ns - called;
	if (begins && op->number && m->flight->size > 1)
		c.ns[TRACE_WAITING] = s.joined_ns - s.begin_ns;
	if (end_ns && !op->r.finished_at_most &&
	    (begins || s.joined_ns > s.begin_ns))
		c.ns[TRACE_EXECUTION] = s.end_ns - s.joined_ns;
	if (end_ns && w->busy_until_ns && !w->is_bound)
		c.ns[TRACE_BETWEEN] = called - MIN(called, w->busy_until_ns);
	if (end_ns > w->busy_until_ns) {
		w->busy_until_ns = end_ns;
		w->is_bound = op->r.finished_at_most;
	}
	if (!end_ns && op->state != FLIGHT_COMPLETED && op->r.outcome >= 0)
		end_ns = m->now_ns;
	c.drawn = flight_span(m->flight, op, w->drawn_until_ns, end_ns);
	if (end_ns)
		w->drawn_until_ns = c.drawn.end_ns;
	return c;
}

static void add_calls(struct trace_model *m, const struct flight_rank *r,
                      struct trace_rank *sums)
{
	struct walk w = { .busy_until_ns = 0 };
	struct trace_call c;

	for (const struct flight_op *op = r->ops; op < r->ops + r->n; op++) {
		c = follow(m, r, op, &w);
		m->calls[m->n_calls] = c;
		sums->newest = &m->calls[m->n_calls++];
		/* These times do not overlap, so the sums cannot overflow. */
		sums->waiting_ns += c.drawn.joined_ns - c.drawn.begin_ns;
		if (!op->r.finished_at_most)
			sums->execution_ns +=
				c.drawn.end_ns - c.drawn.joined_ns;
		sums->bytes = sum(sums->bytes, op->r.bytes);
	}
}

static void find_times(struct trace_model *m)
{
	const struct flight *f = m->flight;
	const struct flight_op *op;

	m->base_ns = UINT64_MAX;
	m->now_ns = f->now_ns;
	for (int r = 0; r < f->size; r++) {
		m->n_calls += f->ranks[r].n;
		for (op = f->ranks[r].ops; op < f->ranks[r].ops + f->ranks[r].n;
		     op++) {
			m->base_ns = MIN(m->base_ns, op->r.submitted_ns);
			m->now_ns = MAX(m->now_ns, MAX(op->r.submitted_ns,
			                               op->r.finished_ns));
		}
	}
	if (!m->n_calls)
		m->base_ns = 0;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Return the next character of a tag and advance *@at. A whole number counts as
 * the single character '0'. */
static int next_of(const char **at)
{
	char c = **at;

	if (!is_digit(c)) {
		*at += c != '\0';
		return (unsigned char)c;
	}
	while (is_digit(**at))
		++*at;
	return '0';
}

static int compare_tags(const char *a, const char *b)
{
	int x, y;

	do {
		x = next_of(&a);
		y = next_of(&b);
	} while (x && x == y);
	return (x > y) - (x < y);
}

/* Replace each number in @tag that differs from the number in @other with '#'.
 * The tags differ only in numbers. */
static void join_tags(char *tag, const char *other)
{
	const char *from = tag, *number, *other_number;
	size_t n;

	while (*from) {
		number = from;
		other_number = other;
		next_of(&from);
		next_of(&other);
		n = (size_t)(from - number);
		if (n == (size_t)(other - other_number) &&
		    memcmp(number, other_number, n) == 0) {
			memmove(tag, number, n);
			tag += n;
		} else {
			*tag++ = '#';
		}
	}
	*tag = '\0';
}

/* Compare two calls by site. Return 0 if they belong to the same site. */
static int compare_sites(const struct trace_call *a, const struct trace_call *b)
{
	const struct record *x = &a->op->r, *y = &b->op->r;
	int o = compare_numbers(x->kind, y->kind);

	o = o ? o : compare_numbers(x->is_batch, y->is_batch);
	o = o ? o : compare_numbers(x->from_host, y->from_host);
	o = o ? o : compare_numbers((uint64_t)x->type, (uint64_t)y->type);
	o = o ? o : compare_numbers(x->count, y->count);
	o = o ? o : compare_numbers(x->n, y->n);
	o = o ? o : compare_tags(a->tag, b->tag);
	return o ? o : strcmp(a->label, b->label);
}

/* Compare two calls by kind. Return 0 if they are of the same kind, which
 * implies the same site. */
static int compare_kinds(const struct trace_call *a, const struct trace_call *b)
{
	const struct record *x = &a->op->r, *y = &b->op->r;
	int o = compare_sites(a, b);

	o = o ? o : compare_numbers(x->bytes, y->bytes);
	o = o ? o : compare_numbers((uint64_t)x->redop, (uint64_t)y->redop);
	o = o ? o : compare_numbers((uint64_t)x->root, (uint64_t)y->root);
	o = o ? o : compare_numbers(a->op->state, b->op->state);
	o = o ? o : compare_numbers((uint64_t)x->outcome, (uint64_t)y->outcome);
	return o ? o : strcmp(a->tag, b->tag);
}

/* Order calls by site, then by kind, rank and time. */
static int by_kind(const void *a, const void *b)
{
	const struct trace_call *const *x = a, *const *y = b;
	int order = compare_kinds(*x, *y);

	return order ? order : (*x > *y) - (*x < *y);
}

static void add_site(struct trace_model *m, struct trace_call **calls, size_t n,
                     uint64_t *scratch)
{
	struct trace_site *s = &m->sites[m->n_sites];
	const struct trace_call *c, *first = NULL;
	size_t i, k;

	for (i = 0; i < n; i++) {
		c = calls[i];
		if (!c->op->r.finished_ns)
			continue;
		if (!first)
			snprintf(s->tag, sizeof(s->tag), "%s", c->tag);
		if (!first || c < first)
			first = c;
		join_tags(s->tag, c->tag);
		s->calls++;
		s->bounded += c->op->r.finished_at_most;
		for (int t = TRACE_QUEUEING; t <= TRACE_EXECUTION; t++)
			if (c->ns[t] != TRACE_UNKNOWN)
				s->total_ns = sum(s->total_ns, c->ns[t]);
	}
	if (!first)
		return;
	s->op = first->op;
	s->label = first->label;
	for (int t = 0; t < TRACE_TIMES; t++) {
		for (i = k = 0; i < n; i++)
			if (calls[i]->ns[t] != TRACE_UNKNOWN)
				scratch[k++] = calls[i]->ns[t];
		s->times[t] = spread(scratch, k);
	}
	m->n_sites++;
}

static int by_total(const void *a, const void *b)
{
	const struct trace_site *x = a, *y = b;

	return compare_numbers(y->total_ns, x->total_ns);
}

static void find_sites(struct trace_model *m, uint64_t *scratch)
{
	struct trace_call **sorted =
		cli_need(calloc(m->n_calls + 1, sizeof(*sorted)));
	size_t from = 0;

	for (size_t i = 0; i < m->n_calls; i++)
		sorted[i] = &m->calls[i];
	qsort(sorted, m->n_calls, sizeof(*sorted), by_kind);
	for (size_t i = 0; i < m->n_calls; i++) {
		if (!i || compare_kinds(sorted[i - 1], sorted[i]) != 0)
			m->kinds[m->n_kinds++] = sorted[i];
		sorted[i]->kind = m->n_kinds - 1;
		if (i + 1 < m->n_calls &&
		    compare_sites(sorted[i], sorted[i + 1]) == 0)
			continue;
		add_site(m, sorted + from, i + 1 - from, scratch);
		from = i + 1;
	}
	qsort(m->sites, m->n_sites, sizeof(*m->sites), by_total);
	free(sorted);
}

void trace_model(struct trace_model *m, const struct trace *t)
{
	const struct flight *f = &t->flight;
	uint64_t *scratch;
	size_t room;

	*m = (struct trace_model){
		.trace = t,
		.flight = f,
		.culprit = f->has_verdict ? f->verdict.rank : f->cause.rank,
	};
	if (f->has_verdict || f->cause.status != COHORT_OK) {
		m->verdict = cohort_verdict_text(
			f->has_verdict ? f->verdict.kind : f->cause.kind);
		m->text = f->has_verdict ? f->text : f->cause.text;
	}
	find_window(f, &m->window);
	find_times(m);
	room = m->n_calls + 1;
	scratch = cli_need(calloc(room, sizeof(*scratch)));
	m->ranks = cli_need(calloc((size_t)f->size, sizeof(*m->ranks)));
	m->calls = cli_need(calloc(room, sizeof(*m->calls)));
	m->kinds = cli_need(calloc(room, sizeof(struct trace_call *)));
	m->sites = cli_need(calloc(room, sizeof(*m->sites)));
	find_late(m, scratch);
	m->n_calls = 0;
	for (int r = 0; r < f->size; r++)
		add_calls(m, &f->ranks[r], &m->ranks[r]);
	find_sites(m, scratch);
	free(scratch);
}

void trace_model_free(struct trace_model *m)
{
	free(m->ranks);
	free(m->calls);
	free(m->kinds);
	free(m->sites);
}
