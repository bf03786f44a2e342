/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort top: computes from dumps what the ranks are doing and how fast
 *
 * Processes dump one after the other. A rank must not count as behind only
 * because its process dumped first. So each rank is compared with the calls
 * that other ranks had made at the time of its own dump.
 */

#include "cli/top/top.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"

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

static uint64_t since(uint64_t time_ns, uint64_t then_ns)
{
	return time_ns > then_ns ? time_ns - then_ns : 0;
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

static const struct top_rank *find_before(const struct top_sample *before,
                                          const struct top_rank *rank,
                                          int generation)
{
	for (int i = 0;
	     before && before->generation == generation && i < before->n; i++)
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
	/* For a silent rank, use the time of its last dump. */
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
	/* Assume the average size for calls that are not on record. */
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
	const struct flight_op *op;

	*out = (struct top_rank){
		.rank = r->rank,
		.tid = r->tid,
		.device = r->device,
		.pid = f->pid,
		.time_ns = f->now_ns,
		.collectives = r->last_enqueued > INT64_MAX / 2
		                       ? 0 /* the dump has a wrong value */
		                       : r->last_enqueued,
		.collectives_rate = NAN,
		.bytes_rate = NAN,
	};
	if (r->n) {
		op = &r->ops[r->n - 1];
		text_copy(out->call, sizeof(out->call), record_name(&op->r));
		text_copy(out->tag, sizeof(out->tag), flight_tag(r, op));
		text_copy(out->label, sizeof(out->label), flight_label(r, op));
		out->bytes = op->r.bytes;
		out->ticket = op->r.ticket;
		out->ago_ns = since(out->time_ns, op->r.submitted_ns);
	}
	/* Nothing is in flight after the end of the group. */
	for (op = r->ops; op < r->ops + r->n; op++)
		out->in_flight += f->cause.status == COHORT_OK &&
		                  op->state != FLIGHT_COMPLETED &&
		                  (op->r.outcome == COHORT_OK ||
		                   op->r.outcome == COHORT_TIMED_OUT);
	out->is_more = r->lost && r->n && out->in_flight == r->n;
	out->state =
		state_of(r, r->n ? out->ago_ns : UINT64_MAX, out->in_flight);
}

/* Return the number of collectives that the foremost rank in all dumps had
 * called at a time, according to the recorded calls. */
static uint64_t front_at(struct top_dump *const *dumps, int n, uint64_t time_ns)
{
	const struct flight_meeting *m;
	const struct flight *f;
	uint64_t front = 0, number;

	for (int i = 0; i < n; i++) {
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

/* Return the last rank to call a collective, or NULL if a rank has not called
 * it. */
static struct top_rank *find_last(const struct top_sample *s,
                                  struct top_dump *const *dumps, int n,
                                  uint64_t number)
{
	struct top_rank *first = s->ranks, *last = NULL;
	const struct flight_meeting *m;
	const struct flight *f;
	uint64_t time_ns = 0;

	for (int i = 0; i < n; i++, first += f->size) {
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

/* Copy the facts from the newest dump. Copy the cause from any dump that has
 * one. */
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

	take_facts(s, f);
	for (int r = 0; r < COHORT_RANK_WORDS; r++)
		s->missing[r] &= dumps[i]->trace->missing[r];
	for (int r = 0; r < f->size; r++) {
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

void sample_take(struct top_sample *s, struct top_dump *const *dumps, int n,
                 unsigned round, const struct top_sample *before)
{
	const struct flight *f = &dumps[0]->trace->flight;
	struct top_rank *last;
	size_t ranks = 1;

	*s = (struct top_sample){ .cause = { .rank = -1 } };
	memset(s->missing, 0xff, sizeof(s->missing));
	for (int i = 0; i < n; i++)
		ranks += (size_t)dumps[i]->trace->flight.size;
	s->ranks = cli_need(calloc(ranks, sizeof(*s->ranks)));
	for (int i = 0; i < n; i++)
		take_dump(s, dumps, n, i, round, before);
	for (uint64_t i = 0; i < f->meetings_count; i++) {
		last = find_last(s, dumps, n, f->lowest + i);
		if (!last)
			continue;
		s->met++;
		last->last++;
	}
	sample_sort(s, TOP_BY_RANK);
}

void sample_free(struct top_sample *s)
{
	free(s->ranks);
	s->ranks = NULL;
	s->n = 0;
}

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
	for (int i = 0; i < s->n; i++)
		s->ranks[i].key = key_of(&s->ranks[i], sort);
	if (s->n)
		qsort(s->ranks, (size_t)s->n, sizeof(*s->ranks), by_key);
}
