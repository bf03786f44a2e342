/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort top: what dumps say of the ranks at one moment, and since the moment before
 *
 * Processes dump one after the other, and a rank must not count as behind because its
 * process was first.  So each rank is compared with how far the others were at the time
 * of its own dump, which the times of their calls say.
 */

#include "cli/top/top.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *top_state_name(enum top_state state)
{
	static const char *const names[] = {
		[TOP_NEVER] = "none",      [TOP_IN_CALL] = "in call",
		[TOP_BETWEEN] = "between", [TOP_OUTSIDE] = "outside",
		[TOP_WAITING] = "waiting", [TOP_GONE] = "gone",
		[TOP_SILENT] = "silent",
	};

	return names[state];
}

const char *top_sort_name(int sort)
{
	static const char *const names[] = { "rank", "last", "rate" };

	return sort >= 0 && sort < 3 ? names[sort] : NULL;
}

/* ---- a rank ------------------------------------------------------------ */

static uint64_t since(uint64_t time_ns, uint64_t then_ns)
{
	return time_ns > then_ns ? time_ns - then_ns : 0;
}

static bool is_open(const struct flight_op *op)
{
	return op->state != FLIGHT_COMPLETED &&
	       (op->r.outcome == COHORT_OK ||
	        op->r.outcome == COHORT_TIMED_OUT);
}

static void count_open(struct top_rank *out, const struct flight_rank *r)
{
	size_t i;

	for (i = 0; i < r->n; i++)
		out->in_flight += is_open(&r->ops[i]);
	out->is_more = r->lost && r->n && out->in_flight == r->n;
}

static enum top_state state_of(const struct flight_rank *r, uint64_t ago_ns,
                               size_t in_flight)
{
	return !r->tid                   ? TOP_NEVER
	       : r->alive == 0           ? TOP_GONE
	       : r->inside               ? TOP_IN_CALL
	       : ago_ns < TOP_OUTSIDE_NS ? TOP_BETWEEN
	       : in_flight               ? TOP_WAITING
	                                 : TOP_OUTSIDE;
}

static void describe_last(struct top_rank *out, const struct flight_rank *r,
                          const struct flight_op *op)
{
	snprintf(out->call, sizeof(out->call), "%s", record_name(&op->r));
	snprintf(out->tag, sizeof(out->tag), "%s", flight_tag(r, op));
	snprintf(out->label, sizeof(out->label), "%s", flight_label(r, op));
	out->bytes = op->r.bytes;
	out->ticket = op->r.ticket;
	out->ago_ns = since(out->time_ns, op->r.submitted_ns);
}

/* The bytes of calls behind @ticket that move data between ranks.  Those that are not on
 * record count as if they were like the others. */
static double bytes_behind(const struct flight_rank *r, uint64_t ticket)
{
	const struct flight_op *op, *end = r->ops + r->n;
	double bytes = 0, all;
	size_t seen = 0;

	for (op = r->ops; op < end; op++) {
		if (op->r.ticket <= ticket)
			continue;
		seen++;
		if (op->r.kind != OP_COPY && op->r.kind != OP_SPLIT)
			bytes += (double)op->r.bytes;
	}
	if (!seen)
		return 0;
	all = (double)(r->ops[r->n - 1].r.ticket - ticket);
	return bytes * (all / (double)seen);
}

/* The number of the first collective on record; 0: none is. */
static uint64_t first_number(const struct flight_rank *r)
{
	size_t i;

	for (i = 0; i < r->n; i++)
		if (r->ops[i].number)
			return r->ops[i].number;
	return 0;
}

static const struct top_rank *find_before(const struct top_sample *before,
                                          const struct top_rank *rank,
                                          int generation)
{
	int i;

	for (i = 0; before && before->generation == generation && i < before->n;
	     i++)
		if (before->ranks[i].rank == rank->rank &&
		    before->ranks[i].pid == rank->pid)
			return &before->ranks[i];
	return NULL;
}

static void find_rates(struct top_rank *out, const struct flight_rank *r,
                       const struct top_rank *before)
{
	const uint64_t first = first_number(r);
	struct top_rank start = { .collectives = out->collectives };
	double seconds;

	if (!before && r->n) {
		start.time_ns = r->ops[0].r.submitted_ns;
		start.ticket = r->ops[0].r.ticket - 1;
		if (first)
			start.collectives = first - 1;
		before = &start;
	}
	/* A silent rank has the time of its last dump. */
	if (!before || before->time_ns >= out->time_ns ||
	    before->collectives > out->collectives)
		return;
	seconds = (double)(out->time_ns - before->time_ns) / 1e9;
	out->collectives_rate =
		(double)(out->collectives - before->collectives) / seconds;
	out->bytes_rate = bytes_behind(r, before->ticket) / seconds;
}

static void take_rank(struct top_rank *out, const struct flight *f,
                      const struct flight_rank *r)
{
	*out = (struct top_rank){
		.rank = r->rank,
		.device = r->device,
		.pid = f->pid,
		.time_ns = f->now_ns,
		.collectives = r->last_enqueued > INT64_MAX / 2
		                       ? 0 /* a wrong value */
		                       : r->last_enqueued,
		.collectives_rate = NAN,
		.bytes_rate = NAN,
	};
	if (r->n)
		describe_last(out, r, &r->ops[r->n - 1]);
	/* What was in flight at the end of the group is not any more. */
	if (f->cause.status == COHORT_OK)
		count_open(out, r);
	out->state =
		state_of(r, r->n ? out->ago_ns : UINT64_MAX, out->in_flight);
}

/* ---- all ranks --------------------------------------------------------- */

/* How many collectives the foremost rank of all dumps had called at a time, as far as is on
 * record. */
static uint64_t front_at(struct top_dump *const *dumps, int n, uint64_t time_ns)
{
	const struct flight_meeting *m;
	const struct flight *f;
	uint64_t front = 0, number;
	int i;

	for (i = 0; i < n; i++) {
		f = &dumps[i]->trace->flight;
		number = f->lowest + f->meetings_count;
		while (number-- > f->lowest && number > front) {
			m = flight_meeting(f, number);
			if (m->joined && m->first_ns <= time_ns)
				front = number;
		}
	}
	return front;
}

/* The rank that came last to a collective; NULL if not all ranks have called it. */
static struct top_rank *find_last(const struct top_sample *s,
                                  struct top_dump *const *dumps, int n,
                                  uint64_t number)
{
	struct top_rank *first = s->ranks, *last = NULL;
	const struct flight_meeting *m;
	const struct flight *f;
	uint64_t time_ns = 0;
	int i;

	for (i = 0; i < n; i++, first += f->size) {
		f = &dumps[i]->trace->flight;
		m = flight_meeting(f, number);
		if (!m || m->joined != f->size)
			return NULL;
		if (m->last_ns < time_ns)
			continue;
		time_ns = m->last_ns;
		last = first + m->last;
	}
	return s->n > 1 ? last : NULL;
}

static void count_last(struct top_sample *s, struct top_dump *const *dumps,
                       int n)
{
	const struct flight *f = &dumps[0]->trace->flight;
	struct top_rank *last;
	uint64_t i;

	for (i = 0; i < f->meetings_count; i++) {
		last = find_last(s, dumps, n, f->lowest + i);
		if (!last)
			continue;
		s->met++;
		last->last++;
	}
}

/* Take the facts of the newest dump, and a cause from any. */
static void take_facts(struct top_sample *s, const struct flight *f)
{
	if (f->now_ns >= s->time_ns) {
		snprintf(s->group, sizeof(s->group), "%s", f->group);
		snprintf(s->host, sizeof(s->host), "%s", f->host);
		s->generation = f->generation;
		s->world = f->world;
		s->time_ns = f->now_ns;
		s->wall_ns = f->wall_ns;
	}
	if (s->cause.status == COHORT_OK)
		s->cause = f->cause;
}

static void take_dump(struct top_sample *s, struct top_dump *const *dumps,
                      int n, int i, unsigned round,
                      const struct top_sample *before)
{
	const struct flight *f = &dumps[i]->trace->flight;
	const uint64_t front = front_at(dumps, n, f->now_ns);
	struct top_rank *out;
	int r;

	take_facts(s, f);
	for (r = 0; r < COHORT_RANK_WORDS; r++)
		s->missing[r] &= dumps[i]->trace->missing[r];
	for (r = 0; r < f->size; r++) {
		out = &s->ranks[s->n++];
		take_rank(out, f, &f->ranks[r]);
		find_rates(out, &f->ranks[r],
		           find_before(before, out, f->generation));
		if (front > out->collectives)
			out->behind = front - out->collectives;
		if (dumps[i]->round != round)
			out->state = TOP_SILENT;
	}
}

bool sample_take(struct top_sample *s, struct top_dump *const *dumps, int n,
                 unsigned round, const struct top_sample *before)
{
	size_t ranks = 1;
	int i;

	*s = (struct top_sample){ .cause = { .rank = -1 } };
	memset(s->missing, 0xff, sizeof(s->missing));
	for (i = 0; i < n; i++)
		ranks += (size_t)dumps[i]->trace->flight.size;
	s->ranks = calloc(ranks, sizeof(*s->ranks));
	if (!s->ranks)
		return false;
	for (i = 0; i < n; i++)
		take_dump(s, dumps, n, i, round, before);
	count_last(s, dumps, n);
	sample_sort(s, TOP_BY_RANK);
	return true;
}

void sample_free(struct top_sample *s)
{
	free(s->ranks);
	s->ranks = NULL;
	s->n = 0;
}

/* ---- order ------------------------------------------------------------- */

static int by_rank(const void *a, const void *b)
{
	return ((const struct top_rank *)a)->rank -
	       ((const struct top_rank *)b)->rank;
}

static int by_last(const void *a, const void *b)
{
	const struct top_rank *x = a, *y = b;

	if (x->ago_ns != y->ago_ns)
		return x->ago_ns < y->ago_ns ? 1 : -1;
	return by_rank(a, b);
}

static int by_rate(const void *a, const void *b)
{
	const double x = ((const struct top_rank *)a)->collectives_rate;
	const double y = ((const struct top_rank *)b)->collectives_rate;

	if (isnan(x) != isnan(y))
		return isnan(x) ? -1 : 1;
	return x < y ? -1 : x > y ? 1 : by_rank(a, b);
}

void sample_sort(struct top_sample *s, enum top_sort sort)
{
	if (s->n)
		qsort(s->ranks, (size_t)s->n, sizeof(*s->ranks),
		      sort == TOP_BY_LAST   ? by_last
		      : sort == TOP_BY_RATE ? by_rate
		                            : by_rank);
}
