/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort trace: what it is about, and how long things took
 */

#include "trace.h"

#include <stdlib.h>
#include <string.h>

/* Collectives before and behind the one that it is about. */
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

/* True if every rank has done it, as far as is known. */
static bool is_done(const struct flight *f, uint64_t number)
{
	const struct flight_op *op;
	int r;

	for (r = 0; r < f->size; r++) {
		op = trace_find(&f->ranks[r], number);
		if (op ? op->state != FLIGHT_COMPLETED
		       : f->ranks[r].n && f->ranks[r].ops[0].number <= number)
			return false;
	}
	return true;
}

static uint64_t highest(const struct flight *f)
{
	return f->meetings_count ? f->lowest + f->meetings_count - 1 : 0;
}

uint64_t trace_front(const struct trace *t)
{
	const struct flight *f = &t->flight;
	uint64_t last = highest(f), number = last;

	if (f->has_verdict && f->verdict.collective)
		return f->verdict.collective;
	if (f->cause.collective)
		return f->cause.collective;
	/* From the end: what is done behind something that is not is rare. */
	while (number > f->lowest && number && !is_done(f, number))
		number--;
	return number < last ? number + 1 : last;
}

struct trace_window trace_window(const struct trace *t)
{
	uint64_t front = trace_front(t), last = highest(&t->flight);
	struct trace_window w = { t->flight.lowest, front + BEHIND };

	if (front > BEFORE && front - BEFORE > w.first)
		w.first = front - BEFORE;
	if (w.last > last)
		w.last = last;
	if (w.first > w.last)
		w.first = w.last;
	return w;
}

/* ---- spreads ---------------------------------------------------------- */

/* Times that are gathered. */
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

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The end of gathering. */
static struct trace_spread spread_of(struct times *t)
{
	struct trace_spread s = { .n = t->n };

	if (t->n) {
		qsort(t->ns, t->n, sizeof(*t->ns), compare);
		s.p50 = t->ns[(t->n - 1) / 2];
		s.p95 = t->ns[(t->n - 1) * 95 / 100];
		s.max = t->ns[t->n - 1];
	}
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

struct site {
	struct trace_site s;
	struct times queueing, waiting, execution, between;
	uint64_t total_ns;
};

struct sites {
	size_t n, room;
	struct site *at;
};

static bool is_same(const struct trace_site *s, const struct record *r,
                    const char *tag, const char *label)
{
	return s->record.kind == r->kind && s->record.is_batch == r->is_batch &&
	       s->record.type == r->type && s->record.count == r->count &&
	       s->record.n == r->n && strcmp(s->tag, tag) == 0 &&
	       strcmp(s->label, label) == 0;
}

/* The site of a call, made if need be; NULL without memory. */
static struct site *find_site(struct sites *sites, const struct record *r,
                              const char *tag, const char *label)
{
	struct site *more;
	size_t i;

	for (i = 0; i < sites->n; i++)
		if (is_same(&sites->at[i].s, r, tag, label))
			return &sites->at[i];
	if (sites->n == sites->room) {
		i = sites->room ? 2 * sites->room : 16;
		more = realloc(sites->at, i * sizeof(*more));
		if (!more)
			return NULL;
		sites->at = more;
		sites->room = i;
	}
	sites->at[sites->n] = (struct site){
		.s = { .call = record_name(r),
		       .record = *r,
		       .tag = tag,
		       .label = label },
	};
	return &sites->at[sites->n++];
}

/* The times of one call that is done; those before it were at @busy_until_ns. */
static bool add_call(struct site *site, const struct flight *f,
                     const struct flight_op *op, uint64_t busy_until_ns)
{
	struct flight_span s =
		flight_span(f, op, busy_until_ns, op->r.finished_ns);
	uint64_t called = op->r.submitted_ns;
	bool ok = add(&site->queueing, s.begin_ns - called);

	if (op->number && f->size > 1)
		ok &= add(&site->waiting, s.joined_ns - s.begin_ns);
	ok &= add(&site->execution, s.end_ns - s.joined_ns);
	if (busy_until_ns)
		ok &= add(&site->between,
		          called > busy_until_ns ? called - busy_until_ns : 0);
	site->s.calls++;
	site->total_ns += s.end_ns - called;
	return ok;
}

static bool add_rank(struct sites *sites, const struct flight *f,
                     const struct flight_rank *r)
{
	uint64_t busy_until_ns = 0;
	const struct flight_op *op;
	struct site *site;

	for (op = r->ops; op < r->ops + r->n; op++) {
		if (!op->r.finished_ns)
			continue;
		site = find_site(sites, &op->r, flight_tag(r, op),
		                 flight_label(r, op));
		if (!site || !add_call(site, f, op, busy_until_ns))
			return false;
		if (op->r.finished_ns > busy_until_ns)
			busy_until_ns = op->r.finished_ns;
	}
	return true;
}

static int by_total(const void *a, const void *b)
{
	uint64_t x = ((const struct site *)a)->total_ns;
	uint64_t y = ((const struct site *)b)->total_ns;

	return (x < y) - (x > y);
}

static bool find_sites(const struct flight *f, struct trace_figures *figures)
{
	struct sites sites = { 0 };
	bool ok = true;
	size_t i;
	int r;

	for (r = 0; r < f->size; r++)
		ok &= add_rank(&sites, f, &f->ranks[r]);
	if (sites.n)
		qsort(sites.at, sites.n, sizeof(*sites.at), by_total);
	figures->sites = calloc(sites.n + 1, sizeof(*figures->sites));
	for (i = 0; i < sites.n; i++) {
		sites.at[i].s.queueing = spread_of(&sites.at[i].queueing);
		sites.at[i].s.waiting = spread_of(&sites.at[i].waiting);
		sites.at[i].s.execution = spread_of(&sites.at[i].execution);
		sites.at[i].s.between = spread_of(&sites.at[i].between);
		if (figures->sites)
			figures->sites[figures->n_sites++] = sites.at[i].s;
	}
	free(sites.at);
	return ok && figures->sites;
}

bool trace_figures(const struct trace *t, struct trace_figures *figures)
{
	int n = t->flight.size;

	*figures = (struct trace_figures){
		.n_late = n,
		.late = calloc((size_t)n, sizeof(*figures->late)),
	};
	return figures->late && find_late(&t->flight, figures->late) &&
	       find_sites(&t->flight, figures);
}

void trace_figures_free(struct trace_figures *figures)
{
	free(figures->late);
	free(figures->sites);
}
