/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A transfer that does not go on
 */

#include <string.h>

#include "watch/cycle.h"
#include "watch/describe.h"
#include "watch/stall.h"

/* True if the rank is inside the first call of this kind to a rank of another
 * process: NCCL connects the two there, and so waits for the other one's
 * call. */
static bool may_connect(const struct transfer_snapshot *x)
{
	return !x->is_local && x->number == 1 && x->own.in_call;
}

int stall_half_kind(const struct snapshot *s, const struct half *h)
{
	return h->in_call || (s->starts_are_marked && !h->started)
	               ? COHORT_VERDICT_NOT_STARTED
	               : COHORT_VERDICT_NOT_FINISHED;
}

/* What is known of the peer's half. */
struct peer_half {
	bool is_known; /* false: the peer is of another process, which has not
	                  answered; the rest says that it has called */
	bool has_called;
	bool done;
	int kind; /* what the peer is at fault for, if it is */
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

/* Which ranks the transfer waits for, and why. */
static void blame(const struct snapshot *s, struct cohort_verdict *v)
{
	const struct transfer_snapshot *x = &s->transfer;
	const struct peer_half peer = peer_half_of(s);

	rank_set_add(v->joined, x->rank);
	if (peer.is_known && peer.has_called)
		rank_set_add(v->joined, x->peer);
	v->kind = stall_half_kind(s, &x->own);
	if (!peer.has_called ||
	    (!peer.is_known &&
	     (v->kind == COHORT_VERDICT_NOT_FINISHED || may_connect(x)))) {
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
	/* A transfer that runs is nobody's fault; the other half may keep it
	 * from running. */
	if (v->kind == COHORT_VERDICT_NOT_FINISHED)
		v->kind = peer.kind;
	if (v->kind == COHORT_VERDICT_NOT_STARTED && v->rank < 0)
		v->rank = x->peer;
}

/* True if the transfer's rank and its peer, of another process, wait for each
 * other: the rank has come to its half, and the peer is held before the other
 * one by a transfer whose other half the rank has not come to. */
static bool is_mutual(const struct snapshot *s)
{
	const struct transfer_snapshot *x = &s->transfer;
	const struct remote_rank *other = snapshot_remote(s, x->peer);

	return !x->is_local && other && s->kept.exists &&
	       (x->own.in_call ||
	        stall_half_kind(s, &x->own) != COHORT_VERDICT_NOT_STARTED) &&
	       (other->joined ? other->kind == COHORT_VERDICT_NOT_STARTED
	                      : other->is_held);
}

void stall_add_half(struct text *t, const struct snapshot *s,
                    const struct rank_snapshot *r, bool sends,
                    const struct half *h)
{
	describe_name_of(t, s, r);
	if (!h) {
		text_add(t, " has not called its %s:", sends ? "send" : "recv");
		describe_absence(t, s, r);
	} else if (h->in_call) {
		text_add(t, " is inside the native call");
		describe_thread(t, r);
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

static void add_half(struct text *t, const struct snapshot *s, int rank,
                     const struct half *h)
{
	text_add(t, "\nalso   ");
	stall_add_half(t, s, snapshot_rank(s, rank),
	               (rank == s->transfer.rank) == s->transfer.sends, h);
}

static void add_peer(struct text *t, const struct snapshot *s, bool both_wait)
{
	const struct transfer_snapshot *x = &s->transfer;
	const struct remote_rank *other = snapshot_remote(s, x->peer);

	if (x->is_local) {
		if (!s->waits.link_count)
			add_half(t, s, x->peer, x->met ? &x->other : NULL);
		return;
	}
	if (other && other->kind != COHORT_VERDICT_PROCESS_STOPPED)
		text_add(t, "\nalso   %s", other->text);
	else if (!other)
		text_add(t, "\nnote   rank %d is of another process%s", x->peer,
		         may_connect(x)
		                 ? ", and the first call waits until it calls"
		                 : "");
	if (both_wait)
		text_add(t, "\nwait   rank %d, for rank %d to %s (number %llu)",
		         x->peer, x->rank, s->kept.sends ? "send" : "receive",
		         (unsigned long long)s->kept.number);
	if (!other && s->silent)
		text_add(t, "\nnote   no answer from %s", s->silent);
}

void stall_add_transfer(struct text *t, const struct snapshot *s)
{
	const struct transfer_snapshot *x = &s->transfer;

	text_add(t, "\ncall   %s of %zu %s by ", x->sends ? "send" : "recv",
	         x->count, type_name(x->type));
	describe_number(t, s, x->rank);
	if (x->met)
		add_half(t, s, x->rank, &x->own);
	add_peer(t, s, is_mutual(s));
}

void stall_transfer(const struct snapshot *s, struct cohort_verdict *v)
{
	blame(s, v);
	if (is_mutual(s)) {
		v->kind = COHORT_VERDICT_CYCLE;
		v->rank = -1;
		rank_set_add(v->missing, s->transfer.rank);
	}
	if (v->rank >= 0)
		v->world_rank = snapshot_world(s, v->rank);
	stall_blame_culprits(s, v);
}
