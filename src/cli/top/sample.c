/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort top: what dumps say of the ranks at one moment, and since the moment
 * before
 *
 * Processes dump one after the other, and a rank must not count as behind
 * because its process was first.  So each rank is compared with how far the
 * others were at the time of its own dump, which the times of their calls say.
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
	const struct flight_op *op, *end = r->ops + r->n;
	uint64_t from_ns = UINT64_MAX, ticket = 0;
	double seconds, seen = 0, collectives = 0, bytes = 0;

	if (before) {
		from_ns = before->time_ns;
		ticket = before->ticket;
	} else if (r->n) {
		from_ns = r->ops->r.submitted_ns;
		ticket = r->ops->r.ticket - 1;
	}
	/* A silent rank has the time of its last dump. */
	seconds = (double)since(out->time_ns, from_ns) / 1e9;
	if (seconds <= 0 || (before && before->collectives > out->collectives))
		return;
	for (op = r->ops; op < end; op++) {
		if (op->r.ticket <= ticket)
			continue;
		seen++;
		collectives += op->number != 0;
		if (op->r.kind != OP_COPY && op->r.kind != OP_SPLIT)
			bytes += (double)op->r.bytes;
	}
	/* Calls that are not on record count as if they were like the
	 * others. */
	if (seen > 0)
		bytes *= (double)(end[-1].r.ticket - ticket) / seen;
	if (before)
		collectives = (double)(out->collectives - before->collectives);
	out->collectives_rate = collectives / seconds;
	out->bytes_rate = bytes / seconds;
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

/* How many collectives the foremost rank of all dumps had called at a time, as
 * far as is on record. */
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

/* The rank that came last to a collective; NULL if not all ranks have called
 * it. */
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

static int by_key(const void *a, const void *b)
{
	const struct top_rank *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->rank - y->rank;
}

static double key_of(const struct top_rank *r, enum top_sort sort)
{
	if (sort == TOP_BY_LAST)
		return -(double)r->ago_ns;
	if (sort == TOP_BY_RATE && !isnan(r->collectives_rate))
		return r->collectives_rate;
	return -1;
}

void sample_sort(struct top_sample *s, enum top_sort sort)
{
	int i;

	for (i = 0; i < s->n; i++)
		s->ranks[i].key = key_of(&s->ranks[i], sort);
	if (s->n)
		qsort(s->ranks, (size_t)s->n, sizeof(*s->ranks), by_key);
}
