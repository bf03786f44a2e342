/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Records in a snapshot the state of the ranks' sends and receives; declared in
 * snapshot.h
 *
 * For each rank, only its oldest operation with transfers counts, because later
 * ones wait for it.  While an older collective of the rank is in flight, the
 * rank waits for that collective and not for the transfer.
 */

#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "core/pair.h"
#include "watch/snapshot.h"

static uint64_t end_of(const struct transfer_snapshot *x)
{
	return clock_after(x->since_ns, x->allowed_ns);
}

/* Return the index of the first transfer from @next on that is not done, or one
 * more than the last index if all are done. */
static uint64_t next_undone(const struct cohort_comm *c, uint64_t next)
{
	uint64_t count = pair_count(c), slots = c->clique->slots;
	struct transfer t;

	if (count >= slots && next <= count - slots)
		next = count - slots + 1;
	/* A transfer is no longer watched if a later transfer has taken its
	 * slot. */
	while (next <= count &&
	       (!pair_read(c, next, &t) || comm_ticket_done(c, t.ticket)))
		next++;
	return next;
}

/* Return the ticket of collective @number, which is the rank's oldest
 * unfinished collective.  Return UINT64_MAX if the rank has not called it. */
static uint64_t oldest_collective(const struct cohort_comm *c, uint64_t number)
{
	if (agree_called(c) < number || !agree_has(c, number))
		return UINT64_MAX;
	return atomic_load(&agree_slot(c, number)->ticket);
}

static struct half half_of(const struct cohort_comm *c, uint64_t ticket)
{
	struct half h = { .done = comm_ticket_done(c, ticket) };
	struct record r;

	h.started = h.done || comm_ticket_started(c, ticket);
	if (!h.done && recorder_read(&c->recorder, ticket, &r))
		h.in_call = r.outcome == COHORT_TIMED_OUT;
	return h;
}

bool p2p_snapshot_half(const struct cohort_comm *c, bool sends, int peer,
                       uint64_t number, struct half *out)
{
	struct transfer t;

	if (pair_number(c, sends, peer) < number)
		return false;
	/* A send or receive whose slot was reused counts as done. */
	*out = (struct half){ .done = true, .started = true };
	if (pair_find(c, sends, peer, number, &t))
		*out = half_of(c, t.ticket);
	return true;
}

static struct transfer_snapshot
snapshot_of_transfer(const struct cohort_comm *c, const struct transfer *t)
{
	const struct cohort_comm *peer = clique_rank(c->clique, t->peer);
	struct transfer_snapshot x = {
		.number = t->number,
		.rank = c->rank,
		.peer = t->peer,
		.sends = t->sends,
		.count = t->count,
		.type = t->type,
		.is_local = peer,
		.met = !peer ||
		       pair_number(peer, !t->sends, c->rank) >= t->number,
		.index = t->index,
		.ticket = t->ticket,
		.since_ns = t->arrived_ns,
		.own = half_of(c, t->ticket),
	};
	struct transfer other;

	x.allowed_ns = x.met ? t->limits.exec_ns : t->limits.join_ns;
	/* A send or receive whose slot was reused counts as done. */
	x.other.done = x.other.started = x.met;
	if (peer && x.met &&
	    pair_find(peer, !t->sends, c->rank, t->number, &other)) {
		x.since_ns = MAX(x.since_ns, other.arrived_ns);
		x.other = half_of(peer, other.ticket);
	}
	return x;
}

/* Return the priority of @x.  An operation with several transfers waits for the
 * one with the highest priority. */
static int priority_of(const struct transfer_snapshot *x)
{
	if (!x->met)
		return 5; /* the peer has not called */
	if (x->is_local)
		return !x->other.done;
	switch (x->reply) {
	case REPLY_NONE:
		return 4; /* the peer may not have called */
	case REPLY_LEFT:
		return 3;
	case REPLY_LATE:
		return 2; /* the peer has not started */
	default:
		return 1;
	}
}

/* Return true if the operation that contains @a and @b waits for @a rather than
 * for @b. */
static bool has_priority(const struct transfer_snapshot *a,
                         const struct transfer_snapshot *b)
{
	const int more = priority_of(a) - priority_of(b);

	return more ? more > 0 : end_of(a) < end_of(b);
}

/* Return true if the rank's stream has reached the half @h, as far as marks
 * show. */
static bool is_at(bool starts_are_marked, const struct half *h)
{
	return h->in_call || h->started || !starts_are_marked;
}

/* Return true if the rank has reached its half of @x and the peer has not.  A
 * peer in another process is assumed not to have reached its half. */
static bool awaits_peer(bool are_marked, const struct transfer_snapshot *x)
{
	if (x->peer == x->rank || !is_at(are_marked, &x->own))
		return false;
	if (!x->is_local)
		return !x->own.done;
	return !x->met || (!x->other.done && !is_at(are_marked, &x->other));
}

static enum reply reply_of(const struct transfer_memory *m,
                           const struct transfer_snapshot *x)
{
	return m->asked_ticket == x->ticket
	               ? (enum reply)m->reply[x->index % COHORT_MAX_RANKS]
	               : REPLY_NONE;
}

/* Return the transfer that an operation of @c waits for; @t is the operation's
 * first transfer.  Once the peers have called all its transfers, the clock runs
 * from the time of the last call. */
static struct transfer_snapshot
awaited_transfer(const struct cohort_comm *c, struct transfer t,
                 const struct transfer_memory *m)
{
	uint64_t k, count = pair_count(c), ticket = t.ticket, last = 0;
	struct transfer_snapshot x, worst = { .number = 0 };

	for (k = t.index;
	     k <= count && pair_read(c, k, &t) && t.ticket == ticket; k++) {
		x = snapshot_of_transfer(c, &t);
		x.reply = reply_of(m, &x);
		last = MAX(last, x.since_ns);
		if (!worst.number || has_priority(&x, &worst))
			worst = x;
	}
	if (worst.met)
		worst.since_ns = last;
	return worst;
}

/* Return the time at which the deadline of @x passes, or 0 if the rank waits
 * for a peer that has left. */
static uint64_t due_of(const struct snapshot *s,
                       const struct transfer_snapshot *x)
{
	const struct rank_snapshot *peer = snapshot_rank(s, x->peer);

	return !x->met && peer && rank_has_left(peer) ? 0 : end_of(x);
}

/* Find the transfer that the rank with index @i waits for in its oldest
 * operation with transfers.  Store it in s->transfer if its deadline passes
 * before that of the transfer stored there. */
static void take_rank(struct snapshot *s, const struct cohort_comm *c, int i)
{
	struct transfer_memory *m = &s->transfers[i];
	struct transfer_snapshot x;
	struct transfer t;

	m->next = next_undone(c, m->next);
	if (!pair_read(c, m->next, &t)) {
		m->ticket = 0;
		return;
	}
	/* Restart the clock if an older operation of the rank is in flight, or
	 * was in flight at the last snapshot. */
	if ((m->ticket && m->ticket < t.ticket) ||
	    oldest_collective(c, s->next[i]) < t.ticket)
		m->held_ns = s->now_ns;
	m->ticket = t.ticket;
	if (oldest_collective(c, s->next[i]) < t.ticket)
		return;
	x = awaited_transfer(c, t, m);
	if (!x.number)
		return; /* the operation has just ended */
	x.since_ns = MAX(MAX(x.since_ns, m->held_ns), s->resumed_ns);
	x.lost_ns = stops_shift(&s->stops, x.since_ns) - x.since_ns;
	x.since_ns += x.lost_ns;
	if (!s->transfer.number || due_of(s, &x) < due_of(s, &s->transfer))
		s->transfer = x;
}

bool p2p_snapshot_next(const struct cohort_comm *c, uint64_t front,
                       struct transfer_snapshot *x)
{
	const bool are_marked = c->clique->starts_are_marked;
	uint64_t k = x->number ? x->index + 1 : next_undone(c, 1);
	struct transfer t;

	for (; pair_read(c, k, &t); k++) {
		if (x->number ? t.ticket != x->ticket
		              : t.ticket > oldest_collective(c, front))
			return false;
		*x = snapshot_of_transfer(c, &t);
		if (awaits_peer(are_marked, x))
			return true;
	}
	return false;
}

void p2p_snapshot_take(struct snapshot *s, const struct clique *q)
{
	int i;

	s->transfer = (struct transfer_snapshot){ .number = 0 };
	for (i = 0; i < q->size; i++)
		if (pair_count(&q->comms[i]))
			take_rank(s, &q->comms[i], i);
}

/* ---- ranks of other processes ------------------------------------------ */

bool p2p_snapshot_store_reply(struct snapshot *s, const struct clique *q)
{
	const struct transfer_snapshot *x = &s->transfer;
	const struct remote_rank *peer = snapshot_remote(s, x->peer);
	struct transfer_memory *m =
		&s->transfers[clique_rank(q, x->rank) - q->comms];

	if (x->is_local || x->reply || !peer ||
	    (!peer->joined && !peer->is_closed))
		return false;
	if (m->asked_ticket != x->ticket)
		memset(m->reply, REPLY_NONE, sizeof(m->reply));
	m->asked_ticket = x->ticket;
	m->reply[x->index % COHORT_MAX_RANKS] =
		!peer->joined ? REPLY_LEFT
		: peer->kind == COHORT_VERDICT_NOT_STARTED && !peer->is_done
			? REPLY_LATE
			: REPLY_CALLED;
	return true;
}
