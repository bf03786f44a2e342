/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/crossing.h"

#include <stdio.h>
#include <string.h>

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

/* Store in @to the numbers in @q of the ranks in @set, which are numbered in
 * @other.  Return false if the numbers of some ranks are unknown. */
static bool translate(const struct clique *q, uint64_t *to,
                      const struct clique *other, const uint64_t *set)
{
	const struct cohort_comm *c;
	int i;

	if (clique_tree_root(q) == clique_tree_root(other))
		return clique_translate(q, to, other, set);
	memset(to, 0, COHORT_RANK_WORDS * sizeof(*to));
	for (i = 0; i < q->size; i++) {
		c = comm_on_device(other, q->comms[i].device);
		if (c && rank_set_has(set, c->rank))
			rank_set_add(to, q->comms[i].rank);
	}
	return q->size == q->world_size;
}

struct search {
	struct snapshot *s;
	const struct clique *q;
};

/* Return true if the rank on @device had called the collective of @other with
 * which @cause is concerned, or is blamed for the order.  Otherwise, the rank
 * does not wait because of the order. */
static bool is_concerned(const struct clique *other,
                         const struct cohort_cause *cause, int device)
{
	const struct cohort_comm *c = comm_on_device(other, device);

	return c && (agree_called(c) >= cause->collective ||
	             rank_set_has(cause->missing, c->rank));
}

/* Return true if the order explains why ranks have not called the front
 * collective. */
static bool explains_absence(const struct search *find,
                             const struct clique *other,
                             const struct cohort_cause *cause)
{
	uint64_t set[COHORT_RANK_WORDS], concerned[COHORT_RANK_WORDS];
	const struct snapshot *s = find->s;
	const struct rank_snapshot *r;
	const struct remote_rank *x;

	for (r = s->ranks; r < s->ranks + s->size; r++)
		if (!r->joined && !is_concerned(other, cause, r->device))
			return false;
	memcpy(set, cause->joined, sizeof(set));
	rank_set_add_all(set, cause->missing);
	translate(find->q, concerned, other, set);
	for (x = s->remote; x < s->remote + s->remote_count; x++)
		if (!x->joined && !x->waits &&
		    x->kind != COHORT_VERDICT_ORDER &&
		    !rank_set_has(concerned, x->rank))
			return false;
	return true;
}

/* Record a crossing that has ended the other group before this snapshot. */
static void visit_ended(const struct search *find, const struct clique *other,
                        const struct cohort_cause *cause)
{
	struct crossing *x = &find->s->crossing;

	if (!is_crossing_end(other, cause) ||
	    cause->time_ns < first_arrival(find->s) ||
	    ((cause->rank >= 0 || find->s->all_joined) &&
	     !explains_absence(find, other, cause)))
		return;
	x->exists = true;
	if (cause->rank >= 0)
		translate(find->q, x->there_first, other, cause->missing);
	snprintf(x->group, sizeof(x->group), "%s", other->name);
	text_set(x->ended, sizeof(x->ended), "%s", cause->text);
}

/* Return true if @q and @other certainly have the same ranks. */
static bool has_same_ranks(const struct clique *q, const struct clique *other)
{
	const struct clique *root = clique_tree_root(q);

	return q->world_size == other->world_size &&
	       (root == clique_tree_root(other)
	                ? q->world_size == root->world_size
	                : !!q->remote);
}

/* Store in @set the ranks of @q that are also in @other; none if not all of
 * them are known. */
static void find_members(const struct clique *q, const struct clique *other,
                         uint64_t *set)
{
	uint64_t all[COHORT_RANK_WORDS] = { 0 };
	int r;

	for (r = 0; r < other->world_size; r++)
		rank_set_add(all, r);
	if (has_same_ranks(q, other))
		memcpy(set, all, sizeof(all));
	else if (!translate(q, set, other, all))
		memset(set, 0, sizeof(all));
}

/* Return true if the rank has called the front collective of this communicator
 * before the other communicator's, or without it.  If @there is true, return
 * true for the opposite order.  If two threads of the rank have made the two
 * calls, neither thread waits for the other, so the rank has no order. */
static bool is_ordered(const struct crossing_side *side, bool there)
{
	const uint64_t first = there ? side->there_ns : side->here_ns;
	const uint64_t second = there ? side->here_ns : side->there_ns;

	return side->there >= 0 && first &&
	       (!second || (side->is_one_thread && first < second));
}

static void find_order_here(struct snapshot *s, const struct clique *other)
{
	struct crossing *x = &s->crossing;
	struct crossing_side side;
	int i;

	for (i = 0; i < s->size; i++) {
		side = side_of(&s->ranks[i], other, x->collective);
		if (is_ordered(&side, false))
			rank_set_add(x->here_first, side.rank);
		else if (is_ordered(&side, true))
			rank_set_add(x->there_first, side.rank);
	}
}

/* Add the orders of the ranks of other processes that have replied.  Ignore
 * ranks that are not in both communicators. */
static void find_order_elsewhere(struct snapshot *s)
{
	const struct remote_rank *r, *end = s->remote + s->remote_count;
	struct crossing *x = &s->crossing;
	int i;

	for (r = s->remote; r < end; r++)
		if (r->before.identity == x->identity &&
		    r->before.number == x->collective)
			rank_set_add(x->there_first, r->rank);
		else if (r->joined && !r->before.identity)
			rank_set_add(x->here_first, r->rank);
	for (i = 0; i < COHORT_RANK_WORDS; i++) {
		x->here_first[i] &= x->members[i];
		x->there_first[i] &= x->members[i];
	}
}

const uint64_t *crossing_odd(const struct crossing *x)
{
	const int n = rank_set_count(x->members);

	if (*x->ended || 2 * rank_set_count(x->here_first) > n)
		return x->there_first;
	return 2 * rank_set_count(x->there_first) > n ? x->here_first : NULL;
}

/* Record a crossing with @other.  If several communicators cross, prefer one
 * in which an order has a majority. */
static void visit(const struct clique *other, void *arg)
{
	const struct search *find = arg;
	struct snapshot *s = find->s;
	struct crossing *x = &s->crossing;
	const struct crossing old = *x;
	uint64_t front = 0;
	struct crossing_side side, first = { .there = -1 }, second = first;
	bool all_joined;
	int i;

	if (x->exists && crossing_odd(x))
		return;
	if (!x->exists && clique_cause(other))
		visit_ended(find, other, clique_cause(other));
	else if (!cause_or_closing(other->end))
		front = snapshot_front(other);
	if (!front)
		return;
	all_joined = snapshot_has_all(s) && all_have_called(other, front);
	for (i = 0; i < s->size; i++) {
		side = side_of(&s->ranks[i], other, front);
		if (first.there < 0 && is_first(&side, all_joined))
			first = side;
		if (second.there < 0 && is_second(&side, all_joined))
			second = side;
	}
	if (first.there < 0 || second.there < 0)
		return;
	*x = (struct crossing){
		.exists = true,
		.identity = other->identity,
		.collective = front,
		.first = first,
		.second = second,
	};
	snprintf(x->group, sizeof(x->group), "%s", other->name);
	find_members(find->q, other, x->members);
	find_order_here(s, other);
	find_order_elsewhere(s);
	if (old.exists && !crossing_odd(x))
		*x = old;
}

/* Add what this process knows of the communicator that ranks of other processes
 * use in another order. */
static void visit_reported(const struct clique *other, void *arg)
{
	const struct search *find = arg;
	struct crossing *x = &find->s->crossing;

	if (other->identity != x->identity)
		return;
	snprintf(x->group, sizeof(x->group), "%s", other->name);
	memset(x->here_first, 0, sizeof(x->here_first));
	find_order_here(find->s, other);
}

/* If a rank of another process has called in another communicator first, record
 * this communicator, and the orders of all ranks.  If there are several, prefer
 * one in which most ranks have the same order. */
static void take_reported(struct search *find)
{
	const struct snapshot *s = find->s;
	const struct remote_rank *r = s->remote, *end = r + s->remote_count;
	struct crossing *x = &find->s->crossing, old;
	int i;

	for (; r < end && !crossing_odd(x); r++) {
		if (!r->before.number || r->before.identity == x->identity)
			continue;
		old = *x;
		*x = (struct crossing){
			.identity = r->before.identity,
			.collective = r->before.number,
		};
		memcpy(x->members, r->members, sizeof(x->members));
		for (i = 0; i < s->size; i++)
			if (s->ranks[i].joined)
				rank_set_add(x->here_first, s->ranks[i].rank);
		clique_tree_visit(find->q, visit_reported, find);
		find_order_elsewhere(find->s);
		if (old.identity && !crossing_odd(x))
			*x = old;
	}
}

void crossing_take(struct snapshot *s, const struct clique *q)
{
	struct search find = { s, q };

	s->crossing = (struct crossing){ .exists = false };
	if (!s->front)
		return;
	clique_tree_visit(q, visit, &find);
	if (!s->crossing.exists)
		take_reported(&find);
}

struct hold {
	const struct rank_snapshot *rank;
	const struct clique *here;
	uint64_t collective;
	struct text *t;
	struct remote_rank *out;
	bool exists;
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

	if (!is_crossing_end(other, cause) ||
	    !is_concerned(other, cause, h->rank->device))
		return;
	for (i = 0; i < h->here->size && !h->exists; i++) {
		snapshot_part(&r, &h->here->comms[i], h->collective);
		h->exists = r.joined && r.arrived_ns <= cause->time_ns;
	}
	if (!h->exists)
		return;
	h->out->kind = COHORT_VERDICT_ORDER;
	h->out->is_over = true;
	text_add(h->t,
	         "group \"%s\", which has ended because the ranks called in "
	         "different orders,",
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

	if (!h->exists && cause && !h->rank->joined)
		visit_hold_ended(h, other, cause);
	/* Two threads have called in both, so the rank counts on no side. */
	if (h->rank->joined && side.there >= 0 && side.there_ns &&
	    !side.is_one_thread && !h->out->before.identity)
		h->out->before.identity = other->identity;
	if (!is_ordered(&side, true) ||
	    (!h->rank->joined && !side.is_held_there))
		return;
	h->out->before = (struct missing){ .identity = other->identity,
		                           .number = front };
	find_members(h->here, other, h->out->members);
	if (h->rank->joined)
		return;
	h->exists = true;
	if (is_opposed(h, other, front))
		h->out->kind = COHORT_VERDICT_ORDER;
	describe_call(h->t, &side.call_there);
	text_add(h->t, " (collective %llu, group \"%s\")",
	         (unsigned long long)front, other->name);
}

bool crossing_holds(const struct rank_snapshot *rank,
                    const struct cohort_comm *c, uint64_t collective,
                    struct text *t, struct remote_rank *out)
{
	struct hold h = {
		.rank = rank,
		.here = c->clique,
		.collective = collective,
		.t = t,
		.out = out,
	};

	/* If the rank has made no call, it is not known which thread calls for
	 * it. */
	if (rank->tid)
		clique_tree_visit(c->clique, visit_hold, &h);
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
