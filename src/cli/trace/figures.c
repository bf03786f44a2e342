/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort trace: the collectives around the stall, and how long calls took
 */

#include "cli/trace/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Collectives shown before and behind the one that is in front. */
#define BEFORE 6
#define BEHIND 3

/* ---- the stall -------------------------------------------------------- */

const struct flight_op *trace_find(const struct flight_rank *r, uint64_t number)
{
	size_t i;

	for (i = r->n; i-- > 0;)
		if (r->ops[i].number == number)
			return &r->ops[i];
	return NULL;
}

/* The lowest number of a collective that a rank has on record; UINT64_MAX if it
 * has none. */
static uint64_t first_number(const struct flight_rank *r)
{
	uint64_t first = UINT64_MAX;
	size_t i;

	for (i = 0; i < r->n; i++)
		if (r->ops[i].number && r->ops[i].number < first)
			first = r->ops[i].number;
	return first;
}

/* Count in done[i] the ranks that have done number lowest + i, and in older[i] the
 * ranks whose records begin there: they count as having done all earlier ones. */
static void count_done(const struct flight *f, size_t *done, size_t *older)
{
	const struct flight_rank *r;
	uint64_t first;
	size_t i;

	for (r = f->ranks; r < f->ranks + f->size; r++) {
		first = first_number(r);
		if (first == UINT64_MAX)
			older[f->meetings_count]++;
		else if (first >= f->lowest)
			older[first - f->lowest]++;
		for (i = 0; i < r->n; i++)
			if (r->ops[i].number >= f->lowest &&
			    r->ops[i].state == FLIGHT_COMPLETED)
				done[r->ops[i].number - f->lowest]++;
	}
}

/* The number behind the last collective that all ranks have done; 0 if there is no
 * memory. */
static uint64_t first_open(const struct flight *f)
{
	size_t n = f->meetings_count, i = n, ranks;
	size_t *done = calloc(2 * n + 1, sizeof(*done)), *older = done + n;

	if (!done)
		return 0;
	count_done(f, done, older);
	/* Search from the end, because collectives are rarely done behind one that
	 * is not. */
	for (ranks = older[n]; i > 0; i--) {
		if (done[i - 1] + ranks >= (size_t)f->size)
			break;
		ranks += older[i - 1];
	}
	free(done);
	return f->lowest + i;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Find the collective in front: that of the verdict, else the first that is not
 * done on all ranks, else the last.  False if there is no memory. */
static bool find_window(const struct flight *f, struct trace_window *w)
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
		w->front = smaller(w->front, last);
	}
	w->first = w->last = w->front;
	if (!last)
		return true;
	w->first = f->lowest;
	if (w->front > BEFORE && w->front - BEFORE > w->first)
		w->first = smaller(w->front - BEFORE, last);
	w->last = smaller(w->front + BEHIND, last);
	return w->front;
}

/* ---- spreads ---------------------------------------------------------- */

/* A growing list of times. */
struct times {
	size_t n, room;
	uint64_t *ns;
};

static bool add(struct times *t, uint64_t ns)
{
	uint64_t *more;

	if (t->n == t->room) {
		more = realloc(t->ns,
		               (t->room ? 2 * t->room : 64) * sizeof(*more));
		if (!more)
			return false;
		t->ns = more;
		t->room = t->room ? 2 * t->room : 64;
	}
	t->ns[t->n++] = ns;
	return true;
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

/* Sort the times into a spread, and free them. */
static struct trace_spread spread_of(struct times *t)
{
	struct trace_spread s = spread(t->ns, t->n);

	free(t->ns);
	*t = (struct times){ 0 };
	return s;
}

/* ---- who comes last --------------------------------------------------- */

static bool find_late(const struct flight *f, struct trace_late *late)
{
	struct times *times = calloc((size_t)f->size, sizeof(*times));
	const struct flight_meeting *m;
	size_t i, of = 0;
	bool ok = times;
	int r;

	for (i = 0; ok && i < f->meetings_count; i++) {
		m = &f->meetings[i];
		if (m->joined < f->size || f->size < 2)
			continue;
		of++;
		ok = add(&times[m->last], m->last_ns - m->first_ns);
	}
	for (r = 0; times && r < f->size; r++)
		late[r] = (struct trace_late){ .rank = f->ranks[r].rank,
			                       .last = times[r].n,
			                       .of = of,
			                       .late = spread_of(&times[r]) };
	free(times);
	return ok;
}

/* ---- call sites ------------------------------------------------------- */

enum { QUEUEING, WAITING, EXECUTION, BETWEEN, TIMES };

/* A call that has completed. */
struct call {
	const struct flight_op *op;
	const char *tag, *label;
	bool has[TIMES];
	uint64_t ns[TIMES];
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The next character of a tag, in which a number counts as one character. */
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

/* Write '#' for each number in @tag that differs from that in @other; the tags
 * differ in numbers alone. */
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

/* 0 if both calls are of one site. */
static int compare_sites(const struct call *a, const struct call *b)
{
	const struct record *x = &a->op->r, *y = &b->op->r;
	int order = compare_numbers(x->kind, y->kind);

	if (!order)
		order = compare_numbers(x->is_batch, y->is_batch);
	if (!order)
		order = compare_numbers(x->from_host, y->from_host);
	if (!order)
		order = compare_numbers((uint64_t)x->type, (uint64_t)y->type);
	if (!order)
		order = compare_numbers(x->count, y->count);
	if (!order)
		order = compare_numbers(x->n, y->n);
	if (!order)
		order = compare_tags(a->tag, b->tag);
	return order ? order : strcmp(a->label, b->label);
}

/* Order by site, then by rank and time. */
static int by_site(const void *a, const void *b)
{
	const struct call *x = a, *y = b;
	int order = compare_sites(x, y);

	return order ? order : (x->op > y->op) - (x->op < y->op);
}

/* The times of a call; the calls before it had ended at @busy_until_ns, or at some
 * time before that if @is_bound. */
static struct call call_of(const struct flight *f, const struct flight_rank *r,
                           const struct flight_op *op, uint64_t busy_until_ns,
                           bool is_bound)
{
	struct flight_span s =
		flight_span(f, op, busy_until_ns, op->r.finished_ns);
	uint64_t called = op->r.submitted_ns;
	bool begins = !is_bound || busy_until_ns <= called;

	return (struct call){
		.op = op,
		.tag = flight_tag(r, op),
		.label = flight_label(r, op),
		.has = { [QUEUEING] = begins,
		         [WAITING] = begins && op->number && f->size > 1,
		         [EXECUTION] = !op->r.finished_at_most &&
		                       (begins || s.joined_ns > s.begin_ns),
		         [BETWEEN] = busy_until_ns && !is_bound },
		.ns = { [QUEUEING] = s.begin_ns - called,
		        [WAITING] = s.joined_ns - s.begin_ns,
		        [EXECUTION] = s.end_ns - s.joined_ns,
		        [BETWEEN] = called > busy_until_ns
		                            ? called - busy_until_ns
		                            : 0 },
	};
}

static size_t add_calls(struct call *calls, const struct flight *f,
                        const struct flight_rank *r)
{
	uint64_t busy_until_ns = 0;
	const struct flight_op *op;
	bool is_bound = false;
	size_t n = 0;

	for (op = r->ops; op < r->ops + r->n; op++) {
		if (!op->r.finished_ns)
			continue;
		calls[n++] = call_of(f, r, op, busy_until_ns, is_bound);
		if (op->r.finished_ns <= busy_until_ns)
			continue;
		busy_until_ns = op->r.finished_ns;
		is_bound = op->r.finished_at_most;
	}
	return n;
}

static struct trace_spread spread_calls(const struct call *calls, size_t n,
                                        int which, uint64_t *scratch)
{
	size_t i, m = 0;

	for (i = 0; i < n; i++)
		if (calls[i].has[which])
			scratch[m++] = calls[i].ns[which];
	return spread(scratch, m);
}

/* The site of @n calls. */
static struct trace_site site_of(const struct call *calls, size_t n,
                                 uint64_t *scratch)
{
	struct trace_site s = {
		.call = record_name(&calls->op->r),
		.record = calls->op->r,
		.label = calls->label,
		.calls = n,
		.queueing = spread_calls(calls, n, QUEUEING, scratch),
		.waiting = spread_calls(calls, n, WAITING, scratch),
		.execution = spread_calls(calls, n, EXECUTION, scratch),
		.between = spread_calls(calls, n, BETWEEN, scratch),
	};
	size_t i;
	int t;

	snprintf(s.tag, sizeof(s.tag), "%s", calls->tag);
	for (i = 0; i < n; i++) {
		join_tags(s.tag, calls[i].tag);
		s.bounded += calls[i].op->r.finished_at_most;
		for (t = QUEUEING; t <= EXECUTION; t++) {
			if (!calls[i].has[t])
				continue;
			s.total_ns = calls[i].ns[t] < UINT64_MAX - s.total_ns
			                     ? s.total_ns + calls[i].ns[t]
			                     : UINT64_MAX;
		}
	}
	return s;
}

static int by_total(const void *a, const void *b)
{
	const struct trace_site *x = a, *y = b;

	return compare_numbers(y->total_ns, x->total_ns);
}

/* Find the sites of @n calls, which are sorted by site. */
static void find_sites(const struct call *calls, size_t n, uint64_t *scratch,
                       struct trace_figures *figures)
{
	size_t from, to;

	for (from = 0; from < n; from = to) {
		for (to = from + 1; to < n; to++)
			if (compare_sites(&calls[from], &calls[to]) != 0)
				break;
		figures->sites[figures->n_sites++] =
			site_of(calls + from, to - from, scratch);
	}
	qsort(figures->sites, figures->n_sites, sizeof(*figures->sites),
	      by_total);
}

static size_t count_sites(const struct call *calls, size_t n)
{
	size_t i, sites = n > 0;

	for (i = 1; i < n; i++)
		sites += compare_sites(&calls[i - 1], &calls[i]) != 0;
	return sites;
}

/* False if there is no memory. */
static bool sort_calls(const struct flight *f, struct trace_figures *figures)
{
	size_t all = 1, n = 0;
	struct call *calls;
	uint64_t *scratch;
	int r;

	for (r = 0; r < f->size; r++)
		all += f->ranks[r].n;
	calls = calloc(all, sizeof(*calls));
	scratch = calloc(all, sizeof(*scratch));
	for (r = 0; calls && r < f->size; r++)
		n += add_calls(calls + n, f, &f->ranks[r]);
	if (n)
		qsort(calls, n, sizeof(*calls), by_site);
	figures->sites =
		calloc(count_sites(calls, n) + 1, sizeof(*figures->sites));
	if (scratch && figures->sites)
		find_sites(calls, n, scratch, figures);
	free(calls);
	free(scratch);
	return calls && scratch && figures->sites;
}

bool trace_figures(const struct trace *t, struct trace_figures *figures)
{
	const struct flight *f = &t->flight;

	*figures = (struct trace_figures){
		.n_late = f->size,
		.late = calloc((size_t)f->size, sizeof(*figures->late)),
	};
	return figures->late && find_late(f, figures->late) &&
	       find_window(f, &figures->window) && sort_calls(f, figures);
}

void trace_figures_free(struct trace_figures *figures)
{
	free(figures->late);
	free(figures->sites);
}
