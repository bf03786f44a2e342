/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/cycle.h"

#include <stdio.h>

#include "core/clique_tree.h"
#include "watch/describe.h"

/* Ranks that a text names, at most. */
#define MAX_NAMED 6

/* The start of a row: see render.h. */
#define ROW "\nwait   "

bool cycle_is_blocked(const struct rank_snapshot *r)
{
	return r->waiting || r->inside;
}

/* ---- cycles ----------------------------------------------------------- */

/* True if @r, which has called the front, has come to it in its stream. */
static bool is_at_front(const struct snapshot *s, const struct rank_snapshot *r)
{
	return r->started || r->in_call || r->meets || !s->starts_are_marked;
}

static bool waits_in_front(const struct snapshot *s,
                           const struct rank_snapshot *a,
                           const struct rank_snapshot *b)
{
	if (!s->front || !a->joined || a->done || !is_at_front(s, a))
		return false;
	return b->joined ? !b->done && !is_at_front(s, b) : cycle_is_blocked(b);
}

static bool waits_in_transfer(const struct rank_snapshot *a,
                              const struct rank_snapshot *b)
{
	return rank_set_has(a->awaits_start, b->rank) ||
	       (rank_set_has(a->awaits_call, b->rank) && cycle_is_blocked(b));
}

static bool waits_for(const struct snapshot *s, int a, int b)
{
	return a != b && (waits_in_transfer(&s->ranks[a], &s->ranks[b]) ||
	                  waits_in_front(s, &s->ranks[a], &s->ranks[b]));
}

/* The call in which @a waits for @b, if it does. */
static const struct record *call_of_wait(const struct rank_snapshot *a,
                                         const struct rank_snapshot *b)
{
	return waits_in_transfer(a, b) ? &a->transfers : &a->call;
}

/* A depth-first walk: the path from the start, and what has been visited. */
struct walk {
	int path[COHORT_MAX_RANKS];
	/* Of each place in it: the one to try next. */
	int next[COHORT_MAX_RANKS];
	int length;
	bool visited[COHORT_MAX_RANKS];
};

static void go(struct walk *w, int place)
{
	w->visited[place] = true;
	w->next[w->length] = 0;
	w->path[w->length++] = place;
}

/* The index of @place in the path, -1: it is not there. */
static int find(const struct walk *w, int place)
{
	int i = w->length;

	while (i-- && w->path[i] != place)
		;
	return i;
}

/* One step: the index in the path at which a cycle begins, which the last one
 * closes; -1: go on. */
static int step(struct walk *w, const struct snapshot *s)
{
	int from = w->path[w->length - 1], *to = &w->next[w->length - 1];

	while (*to < s->size && !waits_for(s, from, *to))
		++*to;
	if (*to == s->size) {
		w->length--;
		return -1;
	}
	if (!w->visited[*to]) {
		go(w, (*to)++);
		return -1;
	}
	return find(w, (*to)++);
}

/* Ranks that were visited and are no longer in the path are in no cycle. */
static int search(struct walk *w, const struct snapshot *s, int from,
                  int *places)
{
	int i, n, first = -1;

	go(w, from);
	while (w->length && first < 0)
		first = step(w, s);
	if (first < 0)
		return 0;
	n = w->length - first;
	for (i = 0; i < n; i++)
		places[i] = w->path[first + i];
	return n;
}

void cycle_find(const struct snapshot *s, bool is_transfer, struct cycle *cycle)
{
	struct walk w = { .length = 0 };
	int i;

	cycle->n = 0;
	for (i = 0; i < s->size && !cycle->n; i++) {
		if (w.visited[i])
			continue;
		if (is_transfer ? s->ranks[i].rank == s->transfer.rank
		                : s->ranks[i].joined && !s->ranks[i].done)
			cycle->n = search(&w, s, i, cycle->places);
	}
}

static void add_wait(struct text *t, const struct snapshot *s,
                     const struct cycle *cycle, int i)
{
	const struct rank_snapshot *a = &s->ranks[cycle->places[i]];
	const struct rank_snapshot *b =
		&s->ranks[cycle->places[(i + 1) % cycle->n]];

	text_add(t, ROW);
	describe_name_of(t, s, a);
	text_add(t, ", for ");
	describe_number(t, s, b->rank);
	text_add(t, " in ");
	describe_call(t, call_of_wait(a, b));
}

void cycle_add(struct text *t, const struct snapshot *s,
               const struct cycle *cycle)
{
	int i;

	for (i = 0; i < cycle->n && i < MAX_NAMED; i++)
		add_wait(t, s, cycle, i);
	if (cycle->n > MAX_NAMED)
		text_add(t, ROW "and so on, %d ranks in all", cycle->n);
}

/* ---- crossings -------------------------------------------------------- */

/* True if the call of @then keeps the call of @later (0: not made yet) from
 * going on, because it was made first. */
static bool keeps(const struct crossing_side *side, uint64_t then,
                  uint64_t later, bool later_has_started, bool all_joined)
{
	if (!then)
		return false;
	if (!later)
		return side->is_held;
	/* An operation that is marked as started may still wait for room on the
	 * device. */
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

static const struct cohort_comm *comm_on(const struct clique *q, int device)
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

/* When a rank has called the fronts here and there; .there is -1 if it is done
 * with either. */
static struct crossing_side side_of(const struct rank_snapshot *here,
                                    const struct clique *other, uint64_t front)
{
	const struct cohort_comm *c = comm_on(other, here->device);
	struct crossing_side side = { .rank = here->rank, .there = -1 };
	struct rank_snapshot there;

	if (!c)
		return side;
	snapshot_part(&there, c, front);
	/* A rank that has left calls neither first. */
	if (there.done || here->done || rank_has_left(&there) ||
	    rank_has_left(here))
		return side;
	side.there = there.rank;
	side.here_ns = here->joined ? here->arrived_ns : 0;
	side.there_ns = there.joined ? there.arrived_ns : 0;
	side.is_held = is_same_thread(here, &there) &&
	               (cycle_is_blocked(here) || cycle_is_blocked(&there));
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

/* Both groups' watchdogs see the crossing, and one of them ends its group
 * first. */
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
	else if (!cause_or_closing(other->end))
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

/* True if a rank has called what @h's rank has not, and not the front of
 * @other. */
static bool is_opposed(const struct hold *h, const struct clique *other,
                       uint64_t front)
{
	const struct cohort_comm *there;
	int i;

	for (i = 0; i < h->here->size; i++) {
		there = comm_on(other, h->here->comms[i].device);
		if (there && agree_called(there) < front &&
		    agree_called(&h->here->comms[i]) >= h->collective)
			return true;
	}
	return false;
}

/* The other communicator's watchdog sees the crossing, too, and may have ended
 * it first: with @cause, since a rank has called what @h's rank has not. */
static void visit_hold_ended(struct hold *h, const struct clique *other,
                             const struct cohort_cause *cause)
{
	struct rank_snapshot r;
	int i;

	if (cause->kind != COHORT_VERDICT_ORDER)
		return;
	for (i = 0; i < h->here->size && !h->exists; i++) {
		snapshot_part(&r, &h->here->comms[i], h->collective);
		h->exists = r.joined && r.arrived_ns <= cause->time_ns;
	}
	h->is_opposed = h->exists;
	if (h->exists)
		text_add(h->t, "group \"%s\", which has ended because of that,",
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
	if (side.there < 0 || !side.there_ns || !side.is_held)
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

	/* Without a call here, nothing says that one thread calls for both. */
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
		text_add(t, ROW "group \"%s\" has ended because of that: %s",
		         s->crossing.group, s->crossing.ended);
		return;
	}
	text_add(t, ROW);
	describe_name_of(t, s, snapshot_rank(s, a->rank));
	text_add(t, " has called this, ");
	describe_age(t, s, a->here_ns);
	text_add(t, " ago, %s ", a->there_ns ? "then" : "and not yet");
	add_there(t, s, there);
	text_add(t, ROW);
	describe_name_of(t, s, snapshot_rank(s, b->rank));
	text_add(t, " has called that, ");
	describe_age(t, s, b->there_ns);
	text_add(t, " ago, %s this", b->here_ns ? "then" : "and not yet");
}
