/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sends and receives (see p2p.h)
 *
 * A transfer, one end of a message, waits in a lane until the other end
 * arrives: there is a lane for each rank, direction and peer.  As the launches
 * of a rank take turns, a lane holds transfers of one launch only, in the order
 * called.
 *
 * A pair is copied by one thread at a time, in pieces.  When its ends meet it
 * is given to the driver of the send, which takes it without the lock: of two
 * ranks that exchange messages, each copies its own.  The driver of the receive
 * may take it, too, with the lock held, but not in the first looks while it
 * waits.  An abort takes it back unless a thread has taken it.
 */

#include "sim/exec/p2p.h"

#include <stdlib.h>
#include <string.h>

#include "base/scoped_lock.h"
#include "base/type.h"
#include "sim/exec/launch_mismatch.h"
#include "sim/exec/piece.h"
#include "sim/strict/strict.h"

/* The transfers that wait for their other end, in the order called. */
struct lane {
	struct transfer *first, *last;
};

bool p2p_init(struct member *m)
{
	struct world *w = m->world;

	/* No other thread makes them. */
	if (m->lanes)
		return true;
	SCOPED_LOCK(&w->lock);
	m->lanes = calloc(2 * (size_t)w->n, sizeof(*m->lanes));
	return m->lanes;
}

/* ---- matching --------------------------------------------------------- */

/* The lane of what @m sends to @peer, or receives from it; NULL if there never
 * was any. */
static struct lane *lane_of(const struct member *m, bool sends, int peer)
{
	if (!m->lanes)
		return NULL;
	return &m->lanes[2 * peer + sends];
}

static struct transfer *lane_take(struct lane *lane)
{
	struct transfer *t = lane ? lane->first : NULL;

	if (t)
		lane->first = t->next;
	return t;
}

static void lane_add(struct lane *lane, struct transfer *t)
{
	t->next = NULL;
	if (lane->first)
		lane->last->next = t;
	else
		lane->first = t;
	lane->last = t;
}

static void change(atomic_int *count, int by)
{
	store_relaxed(count, load_relaxed(count) + by);
}

/* Count (@by 1) or discount (-1) a message that can go on, at the launches
 * whose drivers may copy it. */
static void count_locked(const struct transfer *send, int claim, int by)
{
	change(&send->launch->ready, by);
	change(claim == CLAIM_GIVEN ? &send->partner->launch->given
	                            : &send->partner->launch->ready,
	       by);
}

static void set_claim(struct transfer *send, int claim)
{
	/* Release: what the message is.  Pairs with take(). */
	store_release(&send->claim, claim);
}

/* Change the claim of a message from @claim to @next; false if it was not
 * @claim any more. */
static bool take(struct transfer *send, int claim, int next)
{
	return atomic_compare_exchange_strong_explicit(&send->claim, &claim,
	                                               next,
	                                               memory_order_acquire,
	                                               memory_order_relaxed);
}

/* Take a message, which has both ends and is not done, back from the driver of
 * the send.  False if a thread copies it; else no thread begins to any more
 * without the lock. */
static bool open_locked(struct transfer *send)
{
	if (take(send, CLAIM_GIVEN, CLAIM_OPEN)) {
		count_locked(send, CLAIM_GIVEN, -1);
		count_locked(send, CLAIM_OPEN, 1);
	}
	return load_relaxed(&send->claim) == CLAIM_OPEN;
}

/* The message of @t if it has both ends and is not done, or NULL. */
static struct transfer *open_send(struct transfer *t)
{
	if (!t->partner || load_relaxed(&t->claim) == CLAIM_DONE)
		return NULL;
	return t->is_send ? t : t->partner;
}

void p2p_leave_locked(struct launch *l)
{
	struct transfer *t, *send;

	for (t = l->transfers; t < l->transfers + l->transfer_count; t++) {
		lane_of(l->member, t->is_send, t->peer)->first = NULL;
		send = open_send(t);
		if (!send)
			continue;
		count_locked(send, CLAIM_OPEN, -1);
		t->partner->partner = NULL;
	}
}

bool p2p_close_locked(struct launch *l)
{
	struct transfer *t, *send;
	bool closed = true;

	for (t = l->transfers; t < l->transfers + l->transfer_count; t++) {
		send = open_send(t);
		if (send && !open_locked(send))
			closed = false;
	}
	return closed;
}

/* ---- copying ---------------------------------------------------------- */

static size_t transfer_bytes(const struct transfer *t)
{
	return t->count * type_size(t->type);
}

/* The bytes of a message.  NCCL leaves undefined what happens where the ends
 * differ. */
static size_t message_bytes(const struct transfer *send)
{
	const size_t sent = transfer_bytes(send);
	const size_t room = transfer_bytes(send->partner);

	return sent < room ? sent : room;
}

/* The two ranks of a message, found without reading what other threads
 * write. */
static struct member *sender(const struct transfer *send)
{
	return send->launch->member;
}

static struct member *receiver(const struct transfer *send)
{
	return sender(send)->world->members[send->peer];
}

static bool either_is_aborted(const struct transfer *send)
{
	return member_is_aborted(sender(send)) ||
	       member_is_aborted(receiver(send));
}

static void put(const struct transfer *send, size_t at, size_t bytes)
{
	if (send->to != send->buffer && bytes)
		memcpy(send->to + at, send->buffer + at, bytes);
}

/* Copy pieces until all is there, an end is aborted, or the driver's time is
 * over.  Returns how many bytes of the message are copied.  For the thread that
 * has taken it. */
static size_t copy(const struct transfer *send, const struct drive *d)
{
	const size_t bytes = send->bytes;
	size_t at = send->copied, n;

	while (at < bytes && !either_is_aborted(send)) {
		n = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
		put(send, at, n);
		at += n;
		if (drive_is_late(d))
			break;
	}
	return at;
}

/* The message is done.  Called by the driver of a stream of @by. */
static void end_locked(struct transfer *send, const struct member *by)
{
	struct transfer *recv = send->partner;
	/* Read first: a launch that is over, and its transfers, may be used
	 * again. */
	struct launch *from = send->launch, *to = recv->launch;

	set_claim(send, CLAIM_DONE);
	set_claim(recv, CLAIM_DONE);
	launch_end_locked(from, by);
	launch_end_locked(to, by);
}

/* Copy a small message as its ends meet, while there is @room for it.  The lock
 * is held: pages that never come would block it, but memory that CUDA gives out
 * has none. */
static bool copy_small_locked(struct transfer *send, size_t *room,
                              const struct member *by)
{
	if (send->bytes > *room || either_is_aborted(send))
		return false;
	*room -= send->bytes;
	put(send, 0, send->bytes);
	end_locked(send, by);
	return true;
}

static void match_locked(struct transfer *t, size_t *room)
{
	struct member *m = t->launch->member;
	struct member *peer = m->world->members[t->peer];
	struct transfer *other = lane_take(lane_of(peer, !t->is_send, m->rank));
	struct transfer *send = t->is_send ? t : other;

	if (!other) {
		lane_add(lane_of(m, t->is_send, t->peer), t);
		return;
	}
	t->partner = other;
	other->partner = t;
	if (strict_is_on())
		mismatch_check_message_locked(send);
	send->to = send->partner->buffer;
	send->bytes = message_bytes(send);
	if (copy_small_locked(send, room, m))
		return;
	count_locked(send, CLAIM_GIVEN, 1);
	set_claim(send, CLAIM_GIVEN);
}

void p2p_join_locked(struct launch *l)
{
	size_t room = ENQUEUE_BYTES;
	size_t i;

	for (i = 0; i < l->transfer_count; i++)
		match_locked(&l->transfers[i], &room);
}

/* A thread begins (@by 1) or ceases (-1) to touch buffers. */
static void count_copying(struct world *w, int by)
{
	if (strict_is_on())
		atomic_fetch_add(&w->copying, by);
}

/* Give back a message that this thread has taken, and that is not counted, with
 * @copied bytes copied.  True if bytes are left and it can go on. */
static bool leave_locked(struct transfer *send, size_t copied,
                         const struct member *by)
{
	struct member *from = sender(send), *to = receiver(send);
	const bool left = copied < send->bytes;
	const bool cut = either_is_aborted(send);

	send->copied = copied;
	if (left) {
		count_locked(send, CLAIM_OPEN, 1);
		set_claim(send, CLAIM_OPEN);
	} else {
		end_locked(send, by);
	}
	/* A rank that is aborted waits for this thread. */
	if (member_is_aborted(from))
		member_kick_locked(from);
	if (member_is_aborted(to))
		member_kick_locked(to);
	return left && !cut;
}

/* Copy the sends that were given to this launch, without the lock.  True if
 * some is left. */
static bool work_given(struct launch *l, const struct drive *d)
{
	struct world *w = l->member->world;
	struct transfer *t;
	size_t copied;
	bool left = false;

	for (t = l->transfers; t < l->transfers + l->transfer_count; t++) {
		if (!t->is_send || !take(t, CLAIM_GIVEN, CLAIM_TAKEN))
			continue;
		count_copying(w, 1);
		copied = copy(t, d);
		count_copying(w, -1);
		pthread_mutex_lock(&w->lock);
		count_locked(t, CLAIM_GIVEN, -1);
		left = leave_locked(t, copied, l->member);
		pthread_mutex_unlock(&w->lock);
		if (left)
			break;
	}
	return left;
}

/* Copy what the driver of either end may, and what the sender has not begun.
 * Releases and re-acquires the lock.  True if some is left. */
static bool work_locked(struct launch *l, const struct drive *d)
{
	struct world *w = l->member->world;
	struct transfer *t, *send;
	size_t copied;
	bool left = false;

	for (t = l->transfers; t < l->transfers + l->transfer_count; t++) {
		send = open_send(t);
		if (!send || either_is_aborted(send) || !open_locked(send))
			continue;
		count_locked(send, CLAIM_OPEN, -1);
		set_claim(send, CLAIM_TAKEN);
		count_copying(w, 1);
		pthread_mutex_unlock(&w->lock);
		copied = copy(send, d);
		pthread_mutex_lock(&w->lock);
		count_copying(w, -1);
		left = leave_locked(send, copied, l->member);
		if (left)
			break;
	}
	return left;
}

/* True if there is something that the driver has to take the lock for.  While
 * it looks all the time it leaves to a sender what was given to that. */
static bool needs_lock(const struct launch *l, const struct drive *d)
{
	if (load_relaxed(&l->ready))
		return true;
	return load_relaxed(&l->given) &&
	       (d->effort == EFFORT_OWN || !d->attends);
}

bool p2p_work(struct launch *l, const struct drive *d)
{
	pthread_mutex_t *lock = &l->member->world->lock;

	if (d->effort == EFFORT_ENQUEUE)
		return load_relaxed(&l->ready) || load_relaxed(&l->given);
	/* A thread that makes something ready meanwhile does it, or comes
	 * back. */
	if (load_relaxed(&l->ready) && work_given(l, d))
		return true;
	if (!needs_lock(l, d))
		return false;
	SCOPED_LOCK(lock);
	return work_locked(l, d);
}
