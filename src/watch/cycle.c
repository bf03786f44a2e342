/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/cycle.h"

/* True if the thread of @r is not about to make its next call. */
static bool is_held(const struct rank_snapshot *r)
{
	return r->waiting || r->inside;
}

/* True if @r has come to the front, which it has called. */
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
	return b->joined ? !b->done && !is_at_front(s, b) : is_held(b);
}

static bool waits_in_transfer(const struct rank_snapshot *a,
                              const struct rank_snapshot *b)
{
	return rank_set_has(a->awaits_start, b->rank) ||
	       (rank_set_has(a->awaits_call, b->rank) && is_held(b));
}

static bool waits_for(const struct snapshot *s, int a, int b)
{
	return a != b && (waits_in_transfer(&s->ranks[a], &s->ranks[b]) ||
	                  waits_in_front(s, &s->ranks[a], &s->ranks[b]));
}

const struct record *cycle_call(const struct rank_snapshot *a,
                                const struct rank_snapshot *b)
{
	return waits_in_transfer(a, b) ? &a->transfers : &a->call;
}

/* A walk that goes on with the first that was not visited yet, and back where there
 * is none; the way from the start is in @path. */
struct walk {
	int path[COHORT_MAX_RANKS];
	int next[COHORT_MAX_RANKS]; /* of each in it, whom to try next */
	int length;
	bool visited[COHORT_MAX_RANKS];
};

static void go(struct walk *w, int place)
{
	w->visited[place] = true;
	w->next[w->length] = 0;
	w->path[w->length++] = place;
}

/* The place of @place in the way, -1: it is not there. */
static int find(const struct walk *w, int place)
{
	int i = w->length;

	while (i-- && w->path[i] != place)
		;
	return i;
}

/* One step: where in the way a cycle begins, which the last closes; -1: go on. */
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

/* Ranks that are visited and not in the way any more are in no cycle. */
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

int cycle_find(const struct snapshot *s, bool is_transfer, int *places)
{
	struct walk w = { .length = 0 };
	int i, n = 0;

	for (i = 0; i < s->size && !n; i++) {
		if (w.visited[i])
			continue;
		if (is_transfer ? s->ranks[i].rank == s->transfer.rank
		                : s->ranks[i].joined && !s->ranks[i].done)
			n = search(&w, s, i, places);
	}
	return n;
}
