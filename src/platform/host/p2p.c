/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A transfer, one end of a message, waits in the lane of its rank, direction and
 * peer until the other end arrives.  As the launches of a rank take turns, a lane
 * holds transfers of one launch only, in the order called.  A pair is copied by
 * one thread at a time, in pieces, whoever drives the stream of either end.
 */

#include "platform/host/p2p.h"

#include <stdlib.h>
#include <string.h>

#include "base/type.h"
#include "platform/host/piece.h"
#include "platform/host/strict_calls.h"

/* What waits for the other end, in the order called. */
struct lane {
	struct transfer *first, *last;
};

bool p2p_init(struct ncclComm *comm)
{
	struct world *w = comm->world;

	/* Nobody else makes them. */
	if (comm->lanes)
		return true;
	pthread_mutex_lock(&w->lock);
	comm->lanes = calloc(2 * (size_t)w->n, sizeof(*comm->lanes));
	pthread_mutex_unlock(&w->lock);
	return comm->lanes;
}

/* ---- matching --------------------------------------------------------- */

/* What @comm sends to @peer, or receives from it; NULL if it never has. */
static struct lane *lane_of(const struct ncclComm *comm, bool sends, int peer)
{
	if (!comm->lanes)
		return NULL;
	return &comm->lanes[2 * peer + sends];
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

/* One more of @l's transfers can go on, or one less. */
static void change_ready(struct launch *l, int by)
{
	const int before =
		atomic_load_explicit(&l->ready, memory_order_relaxed);

	atomic_store_explicit(&l->ready, before + by, memory_order_relaxed);
}

/* The same of both ends of a message. */
static void change_both(const struct transfer *t, int by)
{
	change_ready(t->launch, by);
	change_ready(t->partner->launch, by);
}

void p2p_leave_locked(struct launch *l)
{
	struct transfer *t;
	size_t i;

	for (i = 0; i < l->transfer_count; i++) {
		t = &l->transfers[i];
		lane_of(l->comm, t->is_send, t->peer)->first = NULL;
		if (!t->partner || t->done)
			continue;
		change_both(t, -1);
		t->partner->partner = NULL;
	}
}

bool p2p_is_busy_locked(const struct launch *l)
{
	const struct transfer *t, *send;

	for (t = l->transfers; t < l->transfers + l->transfer_count; t++) {
		send = t->is_send ? t : t->partner;
		if (send && !t->done && send->busy)
			return true;
	}
	return false;
}

ncclResult_t p2p_check(const struct launch *l)
{
	if (!l->to_self)
		return ncclSuccess;
	return comm_error(ncclInvalidUsage,
	                  l->to_self > 0
	                          ? "send to self without a receive from self "
	                            "in the same group"
	                          : "receive from self without a send to self "
	                            "in the same group");
}

/* ---- copying ---------------------------------------------------------- */

static size_t transfer_bytes(const struct transfer *t)
{
	return t->count * type_size(t->type);
}

/* What goes over: where the ends differ, NCCL does not say. */
static size_t message_bytes(const struct transfer *send)
{
	const size_t sent = transfer_bytes(send);
	const size_t room = transfer_bytes(send->partner);

	return sent < room ? sent : room;
}

static bool either_is_aborted(const struct transfer *send)
{
	return comm_is_aborted(send->launch->comm) ||
	       comm_is_aborted(send->partner->launch->comm);
}

/* The send of a transfer that can go on, or NULL. */
static struct transfer *ready_send(struct transfer *t)
{
	struct transfer *send = t->is_send ? t : t->partner;

	if (t->done || !t->partner || send->busy || either_is_aborted(send))
		return NULL;
	return send;
}

static void put(const struct transfer *send, size_t at, size_t bytes)
{
	char *to = send->partner->to;

	if (to != send->from && bytes)
		memcpy(to + at, send->from + at, bytes);
}

/* Copy pieces until all is there, an end is aborted, or the driver's time is
 * over.  Returns how far the message has come.  For a thread that has made it busy. */
static size_t copy(const struct transfer *send, const struct drive *d)
{
	const size_t bytes = message_bytes(send);
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

static void end_locked(struct transfer *send)
{
	struct transfer *recv = send->partner;
	/* A launch that is over, and its transfers, may be used again. */
	struct launch *from = send->launch, *to = recv->launch;

	send->done = true;
	recv->done = true;
	from->transfers_done++;
	to->transfers_done++;
	launch_end_locked(from);
	if (to != from)
		launch_end_locked(to);
}

/* A small message goes over as its ends meet, while there is @room for such.  With the
 * lock held: memory whose pages never come would keep it, but no memory that CUDA gives
 * out is such. */
static void copy_small_locked(struct transfer *send, size_t *room)
{
	const size_t bytes = message_bytes(send);

	if (bytes > *room || either_is_aborted(send))
		return;
	*room -= bytes;
	put(send, 0, bytes);
	change_both(send, -1);
	end_locked(send);
}

static void match_locked(struct transfer *t, size_t *room)
{
	struct ncclComm *comm = t->launch->comm;
	struct ncclComm *peer = comm->world->comms[t->peer];
	struct transfer *other =
		lane_take(lane_of(peer, !t->is_send, comm->rank));

	if (!other) {
		lane_add(lane_of(comm, t->is_send, t->peer), t);
		return;
	}
	t->partner = other;
	other->partner = t;
	change_both(t, 1);
	if (strict_is_on())
		strict_check_message_locked(t->is_send ? t : other);
	copy_small_locked(t->is_send ? t : other, room);
}

void p2p_join_locked(struct launch *l)
{
	size_t room = ENQUEUE_BYTES;
	size_t i;

	for (i = 0; i < l->transfer_count; i++)
		match_locked(&l->transfers[i], &room);
}

/* Releases and re-acquires the lock. */
static void copy_locked(struct transfer *send, const struct drive *d)
{
	struct ncclComm *from = send->launch->comm;
	struct ncclComm *to = send->partner->launch->comm;
	struct world *w = from->world;
	size_t copied;

	send->busy = true;
	w->copying++;
	change_both(send, -1);
	pthread_mutex_unlock(&w->lock);
	copied = copy(send, d);
	pthread_mutex_lock(&w->lock);
	w->copying--;
	send->busy = false;
	send->copied = copied;
	if (copied == message_bytes(send))
		end_locked(send);
	else
		change_both(send, 1);
	/* Who is aborted waits for this thread. */
	if (comm_is_aborted(from))
		comm_kick_locked(from);
	if (comm_is_aborted(to))
		comm_kick_locked(to);
}

/* Releases and re-acquires the lock, too. */
static bool work_locked(struct launch *l, const struct drive *d)
{
	struct transfer *t, *send;

	for (t = l->transfers; t < l->transfers + l->transfer_count; t++) {
		send = ready_send(t);
		if (!send)
			continue;
		copy_locked(send, d);
		if (ready_send(t))
			return true;
	}
	return false;
}

bool p2p_work(struct launch *l, const struct drive *d)
{
	pthread_mutex_t *lock = &l->comm->world->lock;
	bool left;

	/* Who has made something ready meanwhile does it, or comes back. */
	if (!atomic_load_explicit(&l->ready, memory_order_relaxed))
		return false;
	if (d->effort == EFFORT_ENQUEUE)
		return true;
	pthread_mutex_lock(lock);
	left = work_locked(l, d);
	pthread_mutex_unlock(lock);
	return left;
}
