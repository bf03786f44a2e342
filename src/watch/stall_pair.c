/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Why a send or receive does not go on
 */

#include "watch/stall.h"

#include "watch/phrase.h"

static int kind_of_half(const struct snapshot *s, const struct half *h)
{
	return h->in_call || (s->starts_are_marked && !h->started)
	               ? COHORT_VERDICT_NOT_STARTED
	               : COHORT_VERDICT_NOT_FINISHED;
}

/* Whom a transfer waits for, and why. */
static void blame(const struct snapshot *s, struct cohort_verdict *v)
{
	const struct transfer_snapshot *x = &s->transfer;

	rank_set_add(v->joined, x->rank);
	if (!x->met) {
		v->kind = stall_absence(snapshot_rank(s, x->peer));
		v->rank = x->peer;
		rank_set_add(v->missing, x->peer);
		return;
	}
	if (x->is_local)
		rank_set_add(v->joined, x->peer);
	v->kind = kind_of_half(s, &x->own);
	if (!x->is_local && v->kind == COHORT_VERDICT_NOT_FINISHED) {
		v->kind = COHORT_VERDICT_REMOTE;
		v->rank = x->peer;
		rank_set_add(v->missing, x->peer);
		return;
	}
	rank_set_add(v->missing, x->rank);
	if (v->kind == COHORT_VERDICT_NOT_STARTED)
		v->rank = x->rank;
	if (!x->is_local || x->other.done)
		return;
	rank_set_add(v->missing, x->peer);
	/* Of one that runs it is nobody's fault; the other half may keep it from
	 * that. */
	if (v->kind == COHORT_VERDICT_NOT_FINISHED)
		v->kind = kind_of_half(s, &x->other);
	if (v->kind == COHORT_VERDICT_NOT_STARTED && v->rank < 0)
		v->rank = x->peer;
}

static void add_half(struct text *t, const struct snapshot *s, int rank,
                     const struct half *h)
{
	text_add(t, "; ");
	phrase_name(t, snapshot_rank(s, rank));
	if (h->in_call) {
		text_add(t, " is inside the native call");
		phrase_thread(t, snapshot_rank(s, rank));
	} else if (h->done)
		text_add(t, " is done");
	else if (!s->starts_are_marked)
		text_add(t, " has queued it");
	else if (h->started)
		text_add(t, " has started, and not finished");
	else
		text_add(t, " has not started: its stream is still busy with "
		            "what was queued before");
}

static void add_peer(struct text *t, const struct snapshot *s)
{
	const struct transfer_snapshot *x = &s->transfer;

	if (!x->is_local) {
		text_add(t, "; rank %d is of another process", x->peer);
	} else if (x->met) {
		add_half(t, s, x->peer, &x->other);
	} else {
		text_add(t, "; ");
		phrase_name(t, snapshot_rank(s, x->peer));
		text_add(t,
		         " has not called its %s:", x->sends ? "recv" : "send");
		phrase_absence(t, s, snapshot_rank(s, x->peer));
	}
}

void stall_transfer(const struct snapshot *s, const struct expiry *due,
                    struct verdict *out, struct text *t)
{
	const struct transfer_snapshot *x = &s->transfer;
	struct cohort_verdict *v = &out->v;
	struct circle circle;

	blame(s, v);
	stall_find_circle(s, true, &circle, v);
	text_add(t,
	         "%s of %zu %s by rank %d %s rank %d (number %llu, group "
	         "\"%s\", generation %d)",
	         x->sends ? "send" : "recv", x->count, type_name(x->type),
	         x->rank, x->sends ? "to" : "from", x->peer,
	         (unsigned long long)x->number, s->group, s->generation);
	stall_add_kind(t, s, due, v);
	if (circle.n) {
		stall_add_circle(t, s, &circle);
		return;
	}
	if (x->met)
		add_half(t, s, x->rank, &x->own);
	add_peer(t, s);
}
