/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/crossing.h"

#include <stdio.h>

#include "core/clique_tree.h"
#include "watch/describe.h"

/* Start of a row in a verdict's block, see render.h. */
#define ROW "\nwait   "

/* Return true if the rank's call at time @then in one communicator came first,
 * and blocks its call at time @later in the other communicator.  If a time is
 * 0, the rank has not made that call. */
static bool is_made_first(const struct crossing_side *side, uint64_t then,
                          uint64_t later, bool is_held, bool later_has_started,
                          bool all_joined)
{
	if (!then)
		return false;
	if (!later)
		return is_held;
	/* Even an operation that has started, or that another thread has
	 * called, may be blocked, because it may wait for room on the
	 * device. */
	return later > then &&
	       (all_joined || (side->is_one_thread && !later_has_started));
}

static bool is_first(const struct crossing_side *side, bool all_joined)
{
	return side->there >= 0 &&
	       is_made_first(side, side->here_ns, side->there_ns,
	                     side->is_held_here, side->started_there,
	                     all_joined);
}

static bool is_second(const struct crossing_side *side, bool all_joined)
{
	return side->there >= 0 &&
	       is_made_first(side, side->there_ns, side->here_ns,
	                     side->is_held_there, side->started_here,
	                     all_joined);
}

static const struct cohort_comm *comm_on_device(const struct clique *q,
                                                int device)
{
	int i;

	for (i = 0; i < q->size; i++)
		if (q->comms[i].device == device)
			return &q->comms[i];
	return NULL;
}

static bool is_same_thread(const struct rank_snapshot *a,
                           const struct rank_snapshot *b)
{
	return !a->tid || !b->tid || a->is_new || b->is_new || a->tid == b->tid;
}

/* Return true if the rank's call in @in at time @called_ns blocks its thread:
 * the thread waits for that call, or for a later call in @other. */
static bool is_held(const struct rank_snapshot *in,
                    const struct rank_snapshot *other, uint64_t called_ns)
{
	return is_same_thread(in, other) &&
	       (rank_is_blocked(in) || (rank_is_blocked(other) &&
	                                other->last.submitted_ns > called_ns));
}

/* Return the times at which a rank has called the front collective of its
 * communicator @here, and collective @front of @other.  Set .there to -1 if the
 * rank has completed one of them, has left, or is not in @other. */
static struct crossing_side side_of(const struct rank_snapshot *here,
                                    const struct clique *other, uint64_t front)
{
	const struct cohort_comm *c = comm_on_device(other, here->device);
	struct crossing_side side = { .rank = here->rank, .there = -1 };
	struct rank_snapshot there;

	if (!c)
		return side;
	snapshot_part(&there, c, front);
	/* A rank that has left is on neither side of a crossing. */
	if (there.done || here->done || rank_has_left(&there) ||
	    rank_has_left(here))
		return side;
	side.there = there.rank;
	side.here_ns = here->joined ? here->arrived_ns : 0;
	side.there_ns = there.joined ? there.arrived_ns : 0;
	side.is_held_here = is_held(here, &there, side.here_ns);
	side.is_held_there = is_held(&there, here, side.there_ns);
	side.is_one_thread = !here->call.ticket || !there.call.ticket ||
	                     here->call.tid == there.call.tid;
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

/* Return true if @q was ended by a crossing of its own, not by a crossing that
 * ended its parent. */
static bool is_crossing_end(const struct clique *q,
                            const struct cohort_cause *cause)
{
	const struct cohort_cause *above =
		q->parent ? clique_cause(q->parent) : NULL;

	return cause->kind == COHORT_VERDICT_ORDER &&
	       !(above && above->kind == COHORT_VERDICT_ORDER &&
	         above->time_ns <= cause->time_ns);
}

/* Record a crossing that has ended the other group before this snapshot. */
static void visit_ended(struct snapshot *s, const struct clique *other,
                        const struct cohort_cause *cause)
{
	const struct cohort_comm *c = clique_rank(other, cause->rank);

	if (!is_crossing_end(other, cause) || cause->time_ns < first_arrival(s))
		return;
	s->crossing.exists = true;
	s->crossing.culprit = c ? c->device : -1;
	snprintf(s->crossing.group, sizeof(s->crossing.group), "%s",
	         other->name);
	text_set(s->crossing.ended, sizeof(s->crossing.ended), "%s",
	         cause->text);
}

/* Count the ranks of the other communicator.  Of these, also count the ranks
 * that have called this communicator's front collective, and the ranks that
 * have called only the other communicator's. */
static void count_members(struct snapshot *s, const struct clique *other,
                          uint64_t front)
{
	const struct rank_snapshot *r, *end = s->ranks + s->size;
	const struct cohort_comm *c;

	s->crossing.members = other->world_size;
	s->crossing.called = s->crossing.called_there = 0;
	for (r = s->ranks; r < end && !s->all_joined; r++) {
		c = comm_on_device(other, r->device);
		s->crossing.called += r->joined && c;
		s->crossing.called_there +=
			!r->joined && c && agree_called(c) >= front;
	}
	/* For other processes, only the number of ranks is known. */
	if (other->world_size == s->world && !s->all_joined)
		s->crossing.called += s->others_joined;
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
	else if (!cause_or_closing(other->end))
		front = snapshot_front(other);
	if (!front)
		return;
	all_joined = s->all_joined && all_have_called(other, front);
	count_members(s, other, front);
	for (i = 0; i < s->size; i++) {
		side = side_of(&s->ranks[i], other, front);
		if (first.there < 0 && is_first(&side, all_joined))
			first = side;
		if (second.there < 0 && is_second(&side, all_joined))
			second = side;
	}
	if (first.there < 0 || second.there < 0)
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

struct hold {
	const struct rank_snapshot *rank;
	const struct clique *here;
	uint64_t collective;
	struct text *t;
	bool exists;
	bool is_opposed;
};

/* Return true if some rank is blocked by its call of h->collective, and has not
 * called the front collective of @other before it.  A rank that waits in a
 * third communicator is not blocked by that call, so its order is not known
 * yet. */
static bool is_opposed(const struct hold *h, const struct clique *other,
                       uint64_t front)
{
	struct crossing_side side;
	struct rank_snapshot here;
	int i;

	for (i = 0; i < h->here->size; i++) {
		snapshot_part(&here, &h->here->comms[i], h->collective);
		side = side_of(&here, other, front);
		if (is_first(&side, false))
			return true;
	}
	return false;
}

/* Record a crossing if it has ended the other communicator with @cause, after a
 * rank had called h->collective. */
static void visit_hold_ended(struct hold *h, const struct clique *other,
                             const struct cohort_cause *cause)
{
	struct rank_snapshot r;
	int i;

	if (!is_crossing_end(other, cause))
		return;
	for (i = 0; i < h->here->size && !h->exists; i++) {
		snapshot_part(&r, &h->here->comms[i], h->collective);
		h->exists = r.joined && r.arrived_ns <= cause->time_ns;
	}
	h->is_opposed = h->exists;
	if (h->exists)
		text_add(h->t,
		         "group \"%s\", which has ended because the ranks "
		         "called in different orders,",
		         other->name);
}

static void visit_hold(const struct clique *other, void *arg)
{
	struct hold *h = arg;
	const struct cohort_cause *cause = clique_cause(other);
	const uint64_t front = h->exists || cause_or_closing(other->end)
	                               ? 0
	                               : snapshot_front(other);
	const struct crossing_side side =
		front ? side_of(h->rank, other, front)
		      : (struct crossing_side){ .there = -1 };

	if (!h->exists && cause)
		visit_hold_ended(h, other, cause);
	if (side.there < 0 || !side.there_ns || !side.is_held_there)
		return;
	h->exists = true;
	h->is_opposed = is_opposed(h, other, front);
	describe_call(h->t, &side.call_there);
	text_add(h->t, " (collective %llu, group \"%s\")",
	         (unsigned long long)front, other->name);
}

bool crossing_holds(const struct rank_snapshot *rank,
                    const struct cohort_comm *c, uint64_t collective,
                    struct text *t, bool *is_opposed_out)
{
	struct hold h = {
		.rank = rank,
		.here = c->clique,
		.collective = collective,
		.t = t,
	};

	/* If the rank has made no call, it is not known which thread calls for
	 * it. */
	if (rank->tid)
		clique_tree_visit(c->clique, visit_hold, &h);
	*is_opposed_out = h.is_opposed;
	return h.exists;
}

static void add_there(struct text *t, const struct snapshot *s,
                      const struct record *call)
{
	describe_call(t, call);
	text_add(t, " (collective %llu, group \"%s\")",
	         (unsigned long long)s->crossing.collective, s->crossing.group);
}

void crossing_add(struct text *t, const struct snapshot *s)
{
	const struct crossing_side *a = &s->crossing.first;
	const struct crossing_side *b = &s->crossing.second;
	const struct record *there = &b->call_there;

	if (*s->crossing.ended) {
		text_add(t,
		         ROW "group \"%s\" has ended because the ranks called "
		             "in different orders: %s",
		         s->crossing.group, s->crossing.ended);
		return;
	}
	text_add(t, ROW);
	describe_name_of(t, s, snapshot_rank(s, a->rank));
	text_add(t, " has called collective %llu of \"%s\" ",
	         (unsigned long long)s->front, s->group);
	describe_age(t, s, a->here_ns);
	text_add(t, " ago, %s ", a->there_ns ? "then" : "and not yet");
	add_there(t, s, there);
	text_add(t, ROW);
	describe_name_of(t, s, snapshot_rank(s, b->rank));
	text_add(t, " has called collective %llu of \"%s\" ",
	         (unsigned long long)s->crossing.collective, s->crossing.group);
	describe_age(t, s, b->there_ns);
	text_add(t, " ago, %s collective %llu of \"%s\"",
	         b->here_ns ? "then" : "and not yet",
	         (unsigned long long)s->front, s->group);
}
