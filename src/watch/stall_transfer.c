/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decides which rank is to blame for a send and receive that make no progress
 */

#include "watch/stall.h"

bool stall_may_connect(const struct transfer_snapshot *x)
{
	return !x->is_local && x->number == 1 && x->own.in_call;
}

int stall_half_kind(const struct snapshot *s, const struct half *h)
{
	return h->in_call || (s->starts_are_marked && !h->started)
	               ? COHORT_VERDICT_NOT_STARTED
	               : COHORT_VERDICT_NOT_FINISHED;
}

/* State of the peer's half of the transfer. */
struct peer_half {
	/* True if the peer's process has replied.  If false, the other members
	 * assume that the peer has called. */
	bool is_known;
	bool has_called;
	bool done;
	int kind; /* kind of the peer's fault, if it is at fault */
};

static struct peer_half peer_half_of(const struct snapshot *s)
{
	const struct transfer_snapshot *x = &s->transfer;
	const struct remote_rank *other = snapshot_remote(s, x->peer);

	if (x->is_local)
		return (struct peer_half){
			.is_known = true,
			.has_called = x->met,
			.done = x->other.done,
			.kind = x->met ? stall_half_kind(s, &x->other)
			               : stall_kind_of_absence(
						 snapshot_rank(s, x->peer)),
		};
	return (struct peer_half){
		.is_known = other,
		.has_called = !other || other->joined,
		.done = other && other->is_done,
		.kind = other ? other->kind : COHORT_VERDICT_REMOTE,
	};
}

/* Find the ranks that the transfer waits for, and the reason. */
static void blame(const struct snapshot *s, struct cohort_verdict *v)
{
	const struct transfer_snapshot *x = &s->transfer;
	const struct peer_half peer = peer_half_of(s);

	rank_set_add(v->joined, x->rank);
	if (peer.is_known && peer.has_called)
		rank_set_add(v->joined, x->peer);
	v->kind = stall_half_kind(s, &x->own);
	if (!peer.has_called ||
	    (!peer.is_known && (v->kind == COHORT_VERDICT_NOT_FINISHED ||
	                        stall_may_connect(x)))) {
		v->kind = peer.kind;
		v->rank = x->peer;
		rank_set_add(v->missing, x->peer);
		return;
	}
	rank_set_add(v->missing, x->rank);
	if (v->kind == COHORT_VERDICT_NOT_STARTED)
		v->rank = x->rank;
	if (!peer.is_known || peer.done)
		return;
	rank_set_add(v->missing, x->peer);
	/* The rank's half is running, but the peer's half may keep it from
	 * finishing. */
	if (v->kind == COHORT_VERDICT_NOT_FINISHED)
		v->kind = peer.kind;
	if (v->kind == COHORT_VERDICT_NOT_STARTED && v->rank < 0)
		v->rank = x->peer;
}

void stall_transfer(const struct snapshot *s, struct cohort_verdict *v)
{
	blame(s, v);
	if (v->rank >= 0)
		v->world_rank = snapshot_world(s, v->rank);
	stall_blame_culprits(s, v);
}
