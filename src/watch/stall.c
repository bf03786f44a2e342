/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Why a collective does not go on
 */

#include "watch/stall.h"

#include <string.h>

#include "watch/adaptive.h"
#include "watch/cycle.h"
#include "watch/phrase.h"

/* Of ranks that are described at length in a text. */
#define MAX_DESCRIBED 3

/* ---- whose fault ------------------------------------------------------ */

/* True if the front waits for @r: for its call, or for its operation. */
static bool is_waited_for(const struct snapshot *s,
                          const struct rank_snapshot *r)
{
	return s->all_joined ? !r->done : !r->joined;
}

int stall_absence(const struct rank_snapshot *r)
{
	if (rank_has_thread(r) && !r->alive)
		return COHORT_VERDICT_THREAD_EXITED;
	if (r->closed || !r->last.ticket)
		return COHORT_VERDICT_NEVER_CALLED;
	if (r->inside && !r->native)
		return COHORT_VERDICT_DIFFERENT_CALL;
	return COHORT_VERDICT_OUTSIDE;
}

static int kind_of(const struct snapshot *s, const struct rank_snapshot *r)
{
	if (!r->joined)
		return stall_absence(r);
	if (r->in_call || r->meets || (s->starts_are_marked && !r->started))
		return COHORT_VERDICT_NOT_STARTED;
	return COHORT_VERDICT_NOT_FINISHED;
}

/* Whom the front waits for, and why: of those that all have called, those that
 * have not started are what the others wait for. */
static void find_missing(const struct snapshot *s, struct cohort_verdict *v)
{
	const struct rank_snapshot *r, *end = s->ranks + s->size;
	int n = 0;

	for (r = s->ranks; r < end; r++) {
		if (r->joined)
			rank_set_add(v->joined, r->rank);
		if (is_waited_for(s, r) &&
		    (!n++ || (s->all_joined &&
		              kind_of(s, r) == COHORT_VERDICT_NOT_STARTED &&
		              v->kind != COHORT_VERDICT_NOT_STARTED))) {
			v->kind = kind_of(s, r);
			v->rank = r->rank;
		}
	}
	for (r = s->ranks; r < end; r++)
		if (is_waited_for(s, r) &&
		    (!s->all_joined || kind_of(s, r) == v->kind))
			rank_set_add(v->missing, r->rank);
	/* All have started, none is done: that is nobody's fault. */
	if (v->kind == COHORT_VERDICT_NOT_FINISHED && n == s->size && n > 1)
		v->rank = -1;
}

/* The ranks of other processes, of a set of all ranks. */
static void add_remote(const struct snapshot *s, uint64_t *set)
{
	int r, i;

	for (r = 0; r < s->world; r++) {
		for (i = 0; i < s->size && s->ranks[i].rank != r; i++)
			;
		if (i == s->size)
			rank_set_add(set, r);
	}
}

/* What is not about one rank: all of this process have come to it, and others may
 * not have; or a rank has come to another communicator first.  The odd one of those
 * is the one that the majority waits for. */
static void find_others(const struct snapshot *s, struct cohort_verdict *v)
{
	const struct rank_snapshot *r;
	int waited_for = 0;

	for (r = s->ranks; r < s->ranks + s->size; r++)
		waited_for += is_waited_for(s, r);
	if (s->crossing.exists) {
		v->kind = COHORT_VERDICT_ORDER;
		v->rank = -1;
		if (2 * waited_for < s->size && !*s->crossing.ended &&
		    !s->crossing.second.here_ns)
			v->rank = s->crossing.second.rank;
	} else if (s->world > s->size && s->all_joined &&
	           v->kind == COHORT_VERDICT_NOT_FINISHED &&
	           waited_for == s->size) {
		v->kind = COHORT_VERDICT_REMOTE;
		v->rank = -1;
		memset(v->missing, 0, sizeof(v->missing));
		add_remote(s, v->missing);
	}
}

/* ---- texts ------------------------------------------------------------ */

/* What a rank that has called the front is doing about it. */
static void add_progress(struct text *t, const struct snapshot *s,
                         const struct rank_snapshot *r)
{
	if (r->meets) {
		text_add(t, s->all_joined
		                    ? " has called, and is about to launch"
		                    : " has called, and waits for the other "
		                      "ranks' calls to launch it with them");
	} else if (r->in_call) {
		text_add(t, " has been inside %s for ",
		         record_native_name(&r->call));
		phrase_age(t, s, r->arrived_ns);
	} else if (r->done) {
		text_add(t, " is done");
	} else if (!s->starts_are_marked) {
		text_add(t, " has queued its operation, which is not done");
	} else if (r->started) {
		text_add(t, " has started, and not finished");
	} else {
		text_add(t, " has not started: its stream is still busy with "
		            "what was queued before");
	}
}

void stall_add_rank(struct text *t, const struct snapshot *s,
                    const struct rank_snapshot *r)
{
	phrase_name(t, r);
	if (!r->joined) {
		phrase_absence(t, s, r);
		return;
	}
	add_progress(t, s, r);
	if (r->in_call)
		phrase_thread(t, r);
}

static void add_call(struct text *t, const struct record *call)
{
	if (call->ticket)
		record_add(t, call);
	else
		text_add(t, "a call that is not on record any more");
}

static void add_there(struct text *t, const struct snapshot *s,
                      const struct record *call)
{
	add_call(t, call);
	text_add(t, " (collective %llu, group \"%s\")",
	         (unsigned long long)s->crossing.collective, s->crossing.group);
}

/* "has called this 1.0 s ago, then" the other, or not yet. */
static void add_order(struct text *t, const struct snapshot *s)
{
	const struct crossing_side *a = &s->crossing.first;
	const struct crossing_side *b = &s->crossing.second;
	const struct record *there = &b->call_there;

	if (*s->crossing.ended) {
		text_add(t, "; group \"%s\" has ended by that: %s",
		         s->crossing.group, s->crossing.ended);
		return;
	}
	text_add(t, "; ");
	phrase_name(t, snapshot_rank(s, a->rank));
	text_add(t, " has called this, ");
	phrase_age(t, s, a->here_ns);
	text_add(t, " ago, %s ", a->there_ns ? "then" : "and not yet");
	add_there(t, s, there);
	text_add(t, "; ");
	phrase_name(t, snapshot_rank(s, b->rank));
	text_add(t, " has called that, ");
	phrase_age(t, s, b->there_ns);
	text_add(t, " ago, %s this", b->here_ns ? "then" : "and not yet");
}

/* The first rank that is missing only as the thread that would call for it waits in
 * the call of another one, which is *@caller; NULL: none is. */
static const struct rank_snapshot *
find_held(const struct snapshot *s, const struct rank_snapshot **caller)
{
	const struct rank_snapshot *r, *end = s->ranks + s->size;
	int tid;

	for (r = s->ranks; r < end; r++) {
		tid = r->tid ? r->tid : s->split_tid;
		for (*caller = s->ranks; *caller < end && !r->joined; ++*caller)
			if ((*caller)->meets && (*caller)->inside &&
			    (*caller)->tid == tid)
				return r;
	}
	return NULL;
}

/* One thread that calls for several ranks in turn cannot meet itself. */
static void add_held(struct text *t, const struct snapshot *s)
{
	const struct rank_snapshot *caller, *r = find_held(s, &caller);

	if (!r)
		return;
	if (r->tid)
		text_add(t, "; rank %d was last called by this very thread",
		         r->rank);
	else
		text_add(t,
		         "; rank %d was never called, and this very thread has "
		         "split the group",
		         r->rank);
	text_add(t,
	         ", which waits in the call of rank %d: one thread for several "
	         "ranks takes a group-level call, or options.launch ahead",
	         caller->rank);
}

/* What says that not all are described. */
#define NOT_ALL "; the first %d of %d are described"
#define NOT_ALL_ROOM (sizeof(NOT_ALL) + 8)

/* The ranks in @set: the first at length, with its stack, and those behind it of which
 * there is room for all that is to be said. */
static void add_ranks(struct text *t, const struct snapshot *s,
                      const uint64_t *set)
{
	char texts[sizeof(((struct cohort_cause *)NULL)->text)];
	struct text all = { texts, TEXT_LEAST }, more;
	struct rank_snapshot r;
	int i, n = 0, told = 0;

	if (t->room > NOT_ALL_ROOM + TEXT_LEAST)
		all.room = t->room - NOT_ALL_ROOM;
	texts[0] = '\0';
	for (i = 0; i < s->size; i++) {
		r = s->ranks[i];
		if (!rank_set_has(set, r.rank) || n++ > told ||
		    told == MAX_DESCRIBED)
			continue;
		if (told)
			r.stack = NULL;
		more = all;
		text_add(&more, "; ");
		stall_add_rank(&more, s, &r);
		if (told && !more.room) {
			*all.at = '\0';
			continue;
		}
		all = more;
		told++;
	}
	if (n > told && told > 1)
		text_add(t, NOT_ALL, told, n);
	else if (n > told)
		text_add(t, "; the first of %d is described", n);
	text_add(t, "%s", texts);
}

void stall_add_kind(struct text *t, const struct snapshot *s,
                    const struct expiry *due, const struct cohort_verdict *v)
{
	text_add(t, ": %s; waited for ", cohort_verdict_text(v->kind));
	phrase_age(t, s, due->since_ns);
	text_add(t, due->what == EXPIRY_SLOW ? ", slow is more than "
	                                     : ", allowed are ");
	phrase_time(t, due->deadline_ns);
	adaptive_add(t, s, due);
	if (due->lost_ns) {
		text_add(t, "; not counted are ");
		phrase_time(t, due->lost_ns);
		text_add(t, " in which this process did not run");
	}
	if (v->rank < 0)
		text_add(t, "; no rank can be told to be at fault");
	if (s->probing < 0)
		return;
	text_add(t, "; %s of rank %d has not returned for ", s->asking,
	         s->probing);
	phrase_age(t, s, s->probing_since_ns);
}

/* The call that does not go on, by the first rank that has made it. */
static void add_front(struct text *t, const struct snapshot *s)
{
	static const struct record none = { .ticket = 0 };
	int i;

	for (i = 0; i < s->size; i++)
		if (s->ranks[i].joined && s->ranks[i].call.ticket)
			break;
	add_call(t, i < s->size ? &s->ranks[i].call : &none);
	text_add(t, " (collective %llu, group \"%s\", generation %d)",
	         (unsigned long long)s->front, s->group, s->generation);
}

/* Of a group that others are part of. */
static void add_others(struct text *t, const struct snapshot *s,
                       const struct cohort_verdict *v)
{
	if (v->kind == COHORT_VERDICT_REMOTE)
		text_add(t, ", which are of other processes: no rank of this "
		            "one is missing");
	else if (s->world > s->size)
		text_add(t, "; %d of %d ranks are of other processes",
		         s->world - s->size, s->world);
}

void stall_front(const struct snapshot *s, const struct expiry *due,
                 struct verdict *out, struct text *t)
{
	struct cohort_verdict *v = &out->v;
	struct circle circle;

	find_missing(s, v);
	find_others(s, v);
	stall_find_circle(s, false, &circle, v);
	v->collective = s->front;
	add_front(t, s);
	stall_add_kind(t, s, due, v);
	text_add(t, "; joined: ");
	rank_set_spell(t, v->joined);
	text_add(t, s->all_joined ? "; it waits for: " : "; missing: ");
	rank_set_spell(t, v->missing);
	add_others(t, s, v);
	add_held(t, s);
	if (circle.n)
		stall_add_circle(t, s, &circle);
	else if (v->kind == COHORT_VERDICT_ORDER)
		add_order(t, s);
	else
		add_ranks(t, s, v->missing);
}
