/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Matches and copies sends and receives (see p2p.h)
 *
 * A transfer is one end of a message.  It waits in a lane until the other end
 * arrives; each rank has a lane for each direction and peer.  Because the
 * launches of a rank take turns, a lane holds transfers of one launch only, in
 * call order.
 *
 * A message is copied by one thread at a time, in pieces.  When its ends are
 * matched, it is reserved for the thread that drives the sender's stream, which
 * claims it without the lock.  If two ranks exchange messages, each therefore
 * copies the message that it sends.  The receiver's thread may also claim it,
 * with the lock held, but not in its first polls.  An abort cancels the message
 * unless a thread has claimed it.
 */

#include "sim/exec/p2p.h"

#include <stdlib.h>
#include <string.h>

#include "base/scoped_lock.h"
#include "base/type.h"
#include "sim/exec/launch_mismatch.h"
#include "sim/exec/piece.h"
#include "sim/strict/strict.h"

/* Transfers of one rank that wait for their partner, in call order. */
struct lane {
	struct transfer *first, *last;
};

bool p2p_init(struct member *m)
{
	struct world *w = m->world;

	/* No lock is needed, because only this thread sets m->lanes. */
	if (m->lanes)
		return true;
	SCOPED_LOCK(&w->lock);
	m->lanes = calloc(2 * (size_t)w->n, sizeof(*m->lanes));
	return m->lanes;
}

/* ---- matching --------------------------------------------------------- */

/* Return the lane of @m for its sends to @peer or its receives from @peer, or
 * NULL if @m has no lanes. */
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

/* Add @by (1 or -1) to the counts of copyable messages in the launches of both
 * ends. */
static void count_locked(const struct transfer *send, int claim, int by)
{
	change(&send->launch->ready, by);
	change(claim == CLAIM_GIVEN ? &send->partner->launch->given
	                            : &send->partner->launch->ready,
	       by);
}

static void set_claim(struct transfer *send, int claim)
{
	/* The release publishes the message's members.  It pairs with
	 * change_claim(). */
	store_release(&send->claim, claim);
}

static bool change_claim(struct transfer *send, int claim, int next)
{
	return atomic_compare_exchange_strong_explicit(&send->claim, &claim,
	                                               next,
	                                               memory_order_acquire,
	                                               memory_order_relaxed);
}

/* Cancel the sender's reservation of a message that is matched and not done.
 * Return false if a thread is copying the message; otherwise, no thread can
 * start to copy it without the lock. */
static bool open_locked(struct transfer *send)
{
	if (change_claim(send, CLAIM_GIVEN, CLAIM_OPEN)) {
		count_locked(send, CLAIM_GIVEN, -1);
		count_locked(send, CLAIM_OPEN, 1);
	}
	return load_relaxed(&send->claim) == CLAIM_OPEN;
}

/* Return the send of a message, given either of its ends, or NULL if the
 * message is unmatched or done. */
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

/* Return the number of bytes in a message.  NCCL leaves undefined what happens
 * if the ends differ. */
static size_t message_bytes(const struct transfer *send)
{
	const size_t sent = transfer_bytes(send);
	const size_t room = transfer_bytes(send->partner);

	return sent < room ? sent : room;
}

/* Return the sending rank.  Reads only members that are constant. */
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

static void copy_to_receiver(const struct transfer *send, size_t at,
                             size_t bytes)
{
	if (send->to != send->buffer && bytes)
		memcpy(send->to + at, send->buffer + at, bytes);
}

/* Copy pieces until the message is complete, a rank is aborted, or the thread's
 * time limit has passed.  Return the number of bytes of the message that have
 * been copied.  Called by the thread that has claimed it. */
static size_t copy(const struct transfer *send, const struct drive *d)
{
	const size_t bytes = send->bytes;
	size_t at = send->copied, n;

	while (at < bytes && !either_is_aborted(send)) {
		n = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
		copy_to_receiver(send, at, n);
		at += n;
		if (drive_is_late(d))
			break;
	}
	return at;
}

/* End a message that has been copied.  Called by a thread that drives a stream
 * of @by. */
static void end_locked(struct transfer *send, const struct member *by)
{
	struct transfer *recv = send->partner;
	/* Read these members first, because a launch that has ended might be
	 * reused. */
	struct launch *from = send->launch, *to = recv->launch;

	set_claim(send, CLAIM_DONE);
	set_claim(recv, CLAIM_DONE);
	launch_end_locked(from, by);
	launch_end_locked(to, by);
}

/* Copy a small message as soon as it is matched, if it fits in @room.  The lock
 * is held during the copy, which is safe because no access to memory from
 * CUDA's allocators blocks forever in a page fault. */
static bool copy_small_locked(struct transfer *send, size_t *room,
                              const struct member *by)
{
	if (send->bytes > *room || either_is_aborted(send))
		return false;
	*room -= send->bytes;
	copy_to_receiver(send, 0, send->bytes);
	end_locked(send, by);
	return true;
}

/* In strict mode, report the two ends of a message if they differ, unless one
 * of them has a scripted fault. */
static void check_message_locked(const struct transfer *send)
{
	const struct member *from = send->launch->member;
	const struct member *to = send->partner->launch->member;
	const struct call c = transfer_call(send);
	const struct call d = transfer_call(send->partner);

	if (!member_is_struck(from) && !member_is_struck(to))
		mismatch_check_message(from, &c, to, &d);
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
		check_message_locked(send);
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

/* Add @by (1 or -1) to the number of threads that access buffers of messages.
 * For strict mode only. */
static void count_copying(struct world *w, int by)
{
	if (strict_is_on())
		atomic_fetch_add(&w->copying, by);
}

/* Release the claim on a message, after @copied bytes were copied.  The caller
 * must already have subtracted the message from the launches' counts
 * (count_locked()).  Return true if there is more to copy and neither rank is
 * aborted. */
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
	/* Wake an aborted rank, which waits for this thread. */
	if (member_is_aborted(from))
		member_kick_locked(from);
	if (member_is_aborted(to))
		member_kick_locked(to);
	return left && !cut;
}

/* Copy the sends that are reserved for the thread that drives this launch,
 * without the lock.  Return true if work is left. */
static bool copy_reserved_sends(struct launch *l, const struct drive *d)
{
	struct world *w = l->member->world;
	struct transfer *t;
	size_t copied;
	bool left = false;

	for (t = l->transfers; t < l->transfers + l->transfer_count; t++) {
		if (!t->is_send || !change_claim(t, CLAIM_GIVEN, CLAIM_TAKEN))
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

/* Copy messages that a thread of either end may copy, and messages that are
 * reserved for a sender that has not started.  Releases and re-acquires the
 * lock.  Return true if work is left. */
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

/* Return true if this thread needs the lock to continue.  While it polls, it
 * leaves messages that are reserved for a sender to that sender. */
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
	/* If another thread makes a message ready after this check, that other
	 * thread copies the message or checks again. */
	if (load_relaxed(&l->ready) && copy_reserved_sends(l, d))
		return true;
	if (!needs_lock(l, d))
		return false;
	SCOPED_LOCK(lock);
	return work_locked(l, d);
}
