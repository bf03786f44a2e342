/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The transfers of a snapshot: what ranks are doing about sends and receives.
 * Declared in snapshot.h
 *
 * The oldest operation of a rank that has transfers counts, because those
 * behind it wait for it.  As long as an older collective of the rank is in
 * flight, the rank waits for that and not for the transfer.
 */

#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "core/pair.h"
#include "watch/cycle.h"
#include "watch/snapshot.h"

static uint64_t end_of(const struct transfer_snapshot *x)
{
	return clock_after(x->since_ns, x->allowed_ns);
}

/* The first transfer from @next on that is not done, or one more than there
 * are. */
static uint64_t next_undone(const struct cohort_comm *c, uint64_t next)
{
	uint64_t count = pair_count(c), slots = c->clique->slots;
	struct transfer t;

	if (count >= slots && next <= count - slots)
		next = count - slots + 1;
	/* A transfer whose slot is taken is no longer watched. */
	while (next <= count &&
	       (!pair_read(c, next, &t) || comm_ticket_done(c, t.ticket)))
		next++;
	return next;
}

/* The ticket of the rank's oldest collective in flight, or UINT64_MAX. */
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
	/* A half whose slot is taken is done, or as good as done. */
	*out = (struct half){ .done = true, .started = true };
	if (pair_find(c, sends, peer, number, &t))
		*out = half_of(c, t.ticket);
	return true;
}

static struct transfer_snapshot look_at(const struct cohort_comm *c,
                                        const struct transfer *t)
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
	/* A half whose slot is taken is done, or as good as done. */
	x.other.done = x.other.started = x.met;
	if (peer && x.met &&
	    pair_find(peer, !t->sends, c->rank, t->number, &other)) {
		x.since_ns = MAX(x.since_ns, other.arrived_ns);
		x.other = half_of(peer, other.ticket);
	}
	return x;
}

/* How much an operation waits for @x rather than for its other transfers. */
static int urgency_of(const struct transfer_snapshot *x)
{
	if (!x->met)
		return 5; /* the peer has not called, */
	if (x->is_local)
		return !x->other.done;
	switch (x->said) {
	case SAID_NOTHING:
		return 4; /* may not have called, */
	case SAID_LEFT:
		return 3;
	case SAID_LATE:
		return 2; /* or has not started */
	default:
		return 1;
	}
}

/* True if the operation with @a and @b waits for @a rather than for @b. */
static bool is_rather(const struct transfer_snapshot *a,
                      const struct transfer_snapshot *b)
{
	const int more = urgency_of(a) - urgency_of(b);

	return more ? more > 0 : end_of(a) < end_of(b);
}

/* True if the rank has come to this half, as far as marks tell. */
static bool is_at(bool starts_are_marked, const struct half *h)
{
	return h->in_call || h->started || !starts_are_marked;
}

/* True if the rank has come to @x and the peer has not, or is in another
 * process, which may not have. */
static bool awaits_peer(bool are_marked, const struct transfer_snapshot *x)
{
	if (x->peer == x->rank || !is_at(are_marked, &x->own))
		return false;
	if (!x->is_local)
		return !x->own.done;
	return !x->met || (!x->other.done && !is_at(are_marked, &x->other));
}

/* Note the peer, a rank of this process, as awaited if the rank waits for
 * it. */
static void note_peer(const struct snapshot *s, struct rank_snapshot *r,
                      const struct transfer_snapshot *x)
{
	if (x->is_local && awaits_peer(s->starts_are_marked, x))
		rank_set_add(x->met ? r->awaits_start : r->awaits_call,
		             x->peer);
}

static enum said said_of(const struct transfer_memory *m,
                         const struct transfer_snapshot *x)
{
	return m->asked_ticket == x->ticket
	               ? (enum said)m->said[x->index % COHORT_MAX_RANKS]
	               : SAID_NOTHING;
}

/* The transfer that an operation of @c waits for; @t is the operation's first
 * transfer.  Once all halves are called, the clock runs from the last call. */
static struct transfer_snapshot look_at_all(const struct snapshot *s,
                                            const struct cohort_comm *c,
                                            struct transfer t,
                                            const struct transfer_memory *m,
                                            struct rank_snapshot *r)
{
	uint64_t k, count = pair_count(c), ticket = t.ticket, last = 0;
	struct transfer_snapshot x, worst = { .number = 0 };

	for (k = t.index;
	     k <= count && pair_read(c, k, &t) && t.ticket == ticket; k++) {
		x = look_at(c, &t);
		x.said = said_of(m, &x);
		note_peer(s, r, &x);
		last = MAX(last, x.since_ns);
		if (!worst.number || is_rather(&x, &worst))
			worst = x;
	}
	if (worst.met)
		worst.since_ns = last;
	if (!recorder_read(&c->recorder, ticket, &r->transfers))
		r->transfers.ticket = 0;
	return worst;
}

/* The most urgent transfer of a rank's oldest operation with transfers. */
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
	if ((m->ticket && m->ticket < t.ticket) ||
	    oldest_collective(c, s->next[i]) < t.ticket)
		m->held_ns = s->now_ns; /* until the last snapshot at least */
	m->ticket = t.ticket;
	if (oldest_collective(c, s->next[i]) < t.ticket)
		return;
	x = look_at_all(s, c, t, m, &s->ranks[i]);
	if (!x.number)
		return; /* the operation has ended just now */
	x.since_ns = MAX(MAX(x.since_ns, m->held_ns), s->resumed_ns);
	x.lost_ns = stops_shift(&s->stops, x.since_ns) - x.since_ns;
	x.since_ns += x.lost_ns;
	if (!s->transfer.number || end_of(&x) < end_of(&s->transfer))
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
		*x = look_at(c, &t);
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

void p2p_snapshot_awaits(const struct cohort_comm *c, int peer,
                         struct remote_rank *out)
{
	const bool are_marked = c->clique->starts_are_marked;
	uint64_t k = next_undone(c, 1), ticket = 0;
	struct transfer t;
	struct half h;

	for (; pair_read(c, k, &t) && (!ticket || t.ticket == ticket); k++) {
		ticket = t.ticket;
		h = half_of(c, ticket);
		if (t.peer == peer && is_at(are_marked, &h))
			*(t.sends ? &out->awaits_recv : &out->awaits_send) =
				t.number;
	}
}

/* True if the thread or the stream of @c, which @r shows, is held before that
 * half. */
static bool keeps(const struct cohort_comm *c, const struct rank_snapshot *r,
                  bool sends, int peer, uint64_t number)
{
	struct half h;

	if (!p2p_snapshot_half(c, sends, peer, number, &h))
		return cycle_is_blocked(r);
	return !h.done && !is_at(c->clique->starts_are_marked, &h);
}

void p2p_snapshot_keep(struct snapshot *s, const struct cohort_comm *c,
                       const struct remote_rank *peer)
{
	const struct rank_snapshot *r = snapshot_rank(s, c->rank);

	s->kept.sends = peer->awaits_send &&
	                keeps(c, r, true, peer->rank, peer->awaits_send);
	s->kept.exists = s->kept.sends ||
	                 (peer->awaits_recv &&
	                  keeps(c, r, false, peer->rank, peer->awaits_recv));
	s->kept.number = s->kept.sends ? peer->awaits_send : peer->awaits_recv;
}

bool p2p_snapshot_note(struct snapshot *s, const struct clique *q)
{
	const struct transfer_snapshot *x = &s->transfer;
	const struct remote_rank *peer = snapshot_remote(s, x->peer);
	struct transfer_memory *m =
		&s->transfers[clique_rank(q, x->rank) - q->comms];

	if (x->is_local || x->said || !peer ||
	    (!peer->joined && !peer->is_closed))
		return false;
	if (m->asked_ticket != x->ticket)
		memset(m->said, SAID_NOTHING, sizeof(m->said));
	m->asked_ticket = x->ticket;
	m->said[x->index % COHORT_MAX_RANKS] =
		!peer->joined ? SAID_LEFT
		: peer->kind == COHORT_VERDICT_NOT_STARTED && !peer->is_done
			? SAID_LATE
			: SAID_CALLED;
	return true;
}
