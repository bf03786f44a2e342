/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Two communicators on the same devices that are used in a different order on
 * different ranks: each of two ranks waits in one for the other, which waits in the
 * other one
 */

#include <stdio.h>

#include "core/clique_tree.h"
#include "watch/snapshot.h"

/* ---- pure ------------------------------------------------------------- */

/* True if what was called at @then, before what was called at @later (0: not yet),
 * keeps that from going on. */
static bool keeps(const struct crossing_side *side, uint64_t then,
                  uint64_t later, bool later_has_started, bool all_joined)
{
	if (!then)
		return false;
	if (!later)
		return side->is_held;
	/* What is marked as started may still wait for room on the device. */
	return later > then && (all_joined || !later_has_started);
}

static bool is_first(const struct crossing_side *side, bool all_joined)
{
	return side->there >= 0 && keeps(side, side->here_ns, side->there_ns,
	                                 side->started_there, all_joined);
}

static bool is_second(const struct crossing_side *side, bool all_joined)
{
	return side->there >= 0 && keeps(side, side->there_ns, side->here_ns,
	                                 side->started_here, all_joined);
}

bool crossing_is(const struct crossing_side *first,
                 const struct crossing_side *second, bool all_joined)
{
	return is_first(first, all_joined) && is_second(second, all_joined);
}

/* ---- looking ---------------------------------------------------------- */

static const struct cohort_comm *comm_on(const struct clique *q, int device)
{
	int i;

	for (i = 0; i < q->size; i++)
		if (q->comms[i].device == device)
			return &q->comms[i];
	return NULL;
}

static bool is_busy(const struct rank_snapshot *r)
{
	return r->waiting || r->inside;
}

static bool is_same_thread(const struct rank_snapshot *a,
                           const struct rank_snapshot *b)
{
	return !a->tid || !b->tid || a->tid == b->tid;
}

/* What a rank has called here and there; one that is done in either has none there. */
static struct crossing_side side_of(const struct rank_snapshot *here,
                                    const struct clique *other, uint64_t front)
{
	const struct cohort_comm *c = comm_on(other, here->device);
	struct crossing_side side = { .rank = here->rank, .there = -1 };
	struct rank_snapshot there;

	if (!c)
		return side;
	snapshot_part(&there, c, front);
	if (there.done || here->done)
		return side;
	side.there = there.rank;
	side.here_ns = here->joined ? here->arrived_ns : 0;
	side.there_ns = there.joined ? there.arrived_ns : 0;
	side.is_held = is_same_thread(here, &there) &&
	               (is_busy(here) || is_busy(&there));
	side.started_here = here->started;
	side.started_there = there.started;
	side.call_there = there.call;
	return side;
}

static bool all_have_called(const struct clique *q, uint64_t front)
{
	int i;

	for (i = 0; i < q->size; i++)
		if (agree_called(&q->comms[i]) < front)
			return false;
	return true;
}

static uint64_t first_arrival(const struct snapshot *s)
{
	uint64_t first = UINT64_MAX;
	int i;

	for (i = 0; i < s->size; i++)
		if (s->ranks[i].joined && s->ranks[i].arrived_ns < first)
			first = s->ranks[i].arrived_ns;
	return first;
}

/* Of two watchdogs that see the same one is the first. */
static void visit_ended(struct snapshot *s, const struct clique *other,
                        const struct cohort_cause *cause)
{
	if (cause->kind != COHORT_VERDICT_ORDER ||
	    cause->time_ns < first_arrival(s))
		return;
	s->crossing.exists = true;
	snprintf(s->crossing.group, sizeof(s->crossing.group), "%s",
	         other->name);
	text_set(s->crossing.ended, sizeof(s->crossing.ended), "%s",
	         cause->text);
}

static void visit(const struct clique *other, void *arg)
{
	struct snapshot *s = arg;
	uint64_t front = 0;
	struct crossing_side side, first = { .there = -1 }, second = first;
	bool all_joined;
	int i;

	if (s->crossing.exists)
		return;
	if (clique_cause(other))
		visit_ended(s, other, clique_cause(other));
	else if (!cause_any(other->end))
		front = snapshot_front(other);
	if (!front)
		return;
	all_joined = s->all_joined && all_have_called(other, front);
	for (i = 0; i < s->size; i++) {
		side = side_of(&s->ranks[i], other, front);
		if (first.there < 0 && is_first(&side, all_joined))
			first = side;
		if (second.there < 0 && is_second(&side, all_joined))
			second = side;
	}
	if (!crossing_is(&first, &second, all_joined))
		return;
	s->crossing.exists = true;
	s->crossing.collective = front;
	s->crossing.first = first;
	s->crossing.second = second;
	snprintf(s->crossing.group, sizeof(s->crossing.group), "%s",
	         other->name);
}

void crossing_take(struct snapshot *s, const struct clique *q)
{
	s->crossing.exists = false;
	s->crossing.ended[0] = '\0';
	if (s->front)
		clique_tree_visit(q, visit, s);
}
