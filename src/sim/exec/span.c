/* SPDX-License-Identifier: Apache-2.0 */

/* Runs rounds and copies messages between processes (see span.h) */

#include "sim/exec/span.h"

#include <poll.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/scoped_lock.h"
#include "base/type.h"
#include "base/util.h"
#include "sim/exec/inline_round.h"
#include "sim/exec/launch_mismatch.h"
#include "sim/strict/strict.h"

/* ---- shared memory ---------------------------------------------------- */

static struct span_slot *slot_for(const struct world *w, int rank,
                                  uint64_t number)
{
	return &w->span->ranks[rank].slots[number % 2];
}

/* Return the address, in this process, of @p in the memory of @rank; NULL if @p
 * is NULL. */
static void *address_in_process(const struct world *w, int rank, const void *p)
{
	const struct span_window *v = &w->windows[w->span->ranks[rank].process];

	return p ? (void *)((uintptr_t)p - v->there + v->here) : NULL;
}

bool span_reaches(const struct member *m, const void *p, size_t bytes)
{
	const struct span_window *v =
		&m->world->windows[m->world->span->ranks[m->rank].process];
	const uintptr_t at = (uintptr_t)p - v->there;

	return at < v->bytes && bytes <= v->bytes - at;
}

void span_abort(const struct member *m)
{
	/* The exchange is also an acquire: if another rank's call of is_cut()
	 * precedes it, that rank's reads of this rank's buffers are over before
	 * the program reuses the buffers. */
	atomic_exchange(&m->world->span->ranks[m->rank].is_cut, 1);
}

/* ---- rounds ----------------------------------------------------------- */

/* Return the next call, reduced to the elements that earlier rounds have not
 * processed. */
static struct call call_left(const struct launch *l)
{
	struct call c = l->calls[l->calls_done];
	const size_t bytes = l->earlier * type_size(c.type);

	c.send = bytes ? (const char *)c.send + bytes : c.send;
	c.recv = bytes ? (char *)c.recv + bytes : c.recv;
	c.count -= l->earlier;
	return c;
}

/* Store the next call of the launch in a form that other processes can carry
 * out.  Return false if out of memory. */
static bool set_call(struct span_slot *slot, const struct launch *l)
{
	const struct call from = call_left(l);
	const struct member *m = l->member;
	struct call *to = &slot->call;

	if (!m->world->bounce->map(m, &from, to))
		return false;
	slot->room = to->count;
	to->count = l->calls[l->calls_done].count;
	if (from.op == CALL_PRE_MUL_SUM && from.scalar.at) {
		memcpy(to->scalar.value, from.scalar.at, type_size(from.type));
		to->scalar.at = NULL;
	}
	return true;
}

static void publish_fault(const struct member *m)
{
	if (member_is_struck(m))
		store_relaxed(&m->world->span->ranks[m->rank].is_struck, true);
}

/* Largest block, in bytes, of a round that one rank processes alone, as
 * measured with four ranks on two cores. */
#define ALONE_BYTES ((size_t)65536)

static bool is_done_alone(const struct world *w, const struct launch *l)
{
	const struct call *c = slot_call(l);

	return w->span->is_crowded &&
	       c->count <= ALONE_BYTES / type_size(c->type);
}

/* Count the caller's arrival.  Return true if it is the last rank to arrive at
 * its round.  One counter serves all rounds, because no rank arrives at a round
 * before the previous round has ended. */
static bool arrives_last(const struct world *w)
{
	const uint64_t before = atomic_fetch_add_explicit(&w->span->came, 1,
	                                                  memory_order_acq_rel);

	return (before + 1) % (uint64_t)w->n == 0;
}

static void arrive(const struct world *w, struct launch *l)
{
	struct span_slot *mine;

	slot_skip(l);
	l->stage = SPAN_STAYS;
	mine = slot_for(w, l->member->rank, l->slot);
	if (!set_call(mine, l))
		return;
	l->elements = mine->room;
	l->stage = SPAN_COMES;
	store_release(&mine->number, l->slot);
	if (is_done_alone(w, l) && !arrives_last(w))
		l->stage = SPAN_DONE;
}

void span_arrive(const struct world *w, struct launch *l)
{
	publish_fault(l->member);
	l->shared = 0;
	if (inline_round_fits(w, l)) {
		l->stage = SPAN_INLINE;
		inline_round_arrive(w, l);
	} else {
		arrive(w, l);
	}
	/* Let ranks in this process continue without waiting for their next
	 * poll. */
	world_kick_others(w, l->member->rank);
}

static bool slots_have_arrived(const struct world *w, const struct launch *l)
{
	int r;

	for (r = 0; r < w->n; r++)
		if (load_acquire(&slot_for(w, r, l->slot)->number) != l->slot)
			return false;
	return true;
}

/* Return a member that identifies @rank in an error message.  The rank might be
 * in another process. */
static struct member named(const struct world *w, int rank)
{
	return (struct member){ .rank = rank,
		                .device = w->span->ranks[rank].device,
		                .number = w->number };
}

static struct call call_of(const struct world *w, const struct launch *l,
                           int rank)
{
	return l->stage == SPAN_INLINE
	               ? call_of_what(slot_of(w, l->slot, rank)->what)
	               : slot_for(w, rank, l->slot)->call;
}

static bool is_struck(const struct world *w, int rank)
{
	return load_relaxed(&w->span->ranks[rank].is_struck);
}

/* In strict mode, report ranks whose calls differ, except ranks with a scripted
 * fault. */
static void check_calls(const struct world *w, const struct launch *l)
{
	struct member m, of = { .rank = -1 };
	struct call first, c;
	int r;

	for (r = 0; r < w->n; r++) {
		if (is_struck(w, r))
			continue;
		c = call_of(w, l, r);
		m = named(w, r);
		if (of.rank < 0) {
			first = c;
			of = m;
		}
		mismatch_check_call(&m, &c, &of, &first);
	}
}

/* Return true if all ranks make the same call.  Ranks with different calls wait
 * forever, as on a GPU. */
static bool calls_are_one(const struct world *w, const struct launch *l)
{
	const struct call *first = &slot_for(w, 0, l->slot)->call;
	int r;

	if (strict_is_on())
		check_calls(w, l);
	if (l->stage == SPAN_INLINE)
		return slots_compare(w, l) == SLOTS_SAME;
	for (r = 1; r < w->n; r++)
		if (!call_is_same(first, &slot_for(w, r, l->slot)->call))
			return false;
	return true;
}

static bool all_are_done(const struct world *w, const struct launch *l)
{
	int r;

	if (is_done_alone(w, l))
		return load_acquire(&w->span->done_alone) >= l->slot;
	for (r = 0; r < w->n; r++)
		if (load_acquire(&w->span->ranks[r].done) < l->slot)
			return false;
	return true;
}

/* Call @has until it returns true, for as long as this thread may poll.  Return
 * false if it never returned true. */
static bool watch(const struct world *w, const struct launch *l,
                  const struct drive *d,
                  bool (*has)(const struct world *w, const struct launch *l))
{
	int i;

	for (i = 0; !has(w, l); i++) {
		if (!d->attends || i == 64)
			return false;
		cpu_pause();
	}
	return true;
}

/* A round, with addresses that are valid in this process. */
struct view {
	struct round round;
	struct rank_buffers ranks[HOST_MAX_RANKS];
};

static void make_view(struct view *v, const struct world *w, struct launch *l)
{
	const struct span_slot *slot;
	const struct call *c;
	int r;

	for (r = 0; r < w->n; r++) {
		slot = slot_for(w, r, l->slot);
		c = &slot->call;
		v->ranks[r].send = address_in_process(w, r, c->send);
		v->ranks[r].recv = address_in_process(w, r, c->recv);
		v->ranks[r].calls = c;
		l->elements = MIN(l->elements, slot->room);
	}
	v->round = (struct round){
		.world = w,
		.span = 1,
		.only = slot_for(w, l->member->rank, l->slot)->call,
		.ranks = v->ranks,
		.stride = sizeof(v->ranks[0]),
	};
	v->round.only.count = l->elements;
	round_cut(&v->round);
}

/* Process pieces of the share from @begin to @end, whose first l->shared bytes
 * are done.  Stop when no piece is left, a rank was aborted, or the thread's
 * time limit has passed. */
static void do_pieces(const struct round *o, struct launch *l, size_t begin,
                      size_t end, const struct drive *d)
{
	size_t at = begin + l->shared, to;

	while (at < end) {
		to = end - at < PIECE_BYTES ? end : at + PIECE_BYTES;
		if (!round_do(o, at, to))
			return;
		at = to;
		l->shared = at - begin;
		if (drive_is_late(d))
			return;
	}
}

/* Free the bounce buffers of a round.  @done is false if the round was cut
 * short. */
static void release_bounced(const struct world *w, struct launch *l, bool done)
{
	const struct member *m = l->member;
	struct call own = call_left(l);

	own.count = l->elements;
	w->bounce->unmap(m, &own, &slot_for(w, m->rank, l->slot)->call, done);
	l->stage = SPAN_STAYS;
}

/* Process the rank's share, or the whole round if one rank processes it alone.
 * Return true if this work is finished. */
static bool do_share(const struct world *w, struct launch *l,
                     const struct drive *d, bool *left)
{
	struct span_rank *mine = &w->span->ranks[l->member->rank];
	const bool is_alone = is_done_alone(w, l);
	size_t begin, end;
	struct view v;
	bool done;

	make_view(&v, w, l);
	round_share(&v.round, l->member->rank, &begin, &end);
	if (is_alone) {
		begin = 0;
		end = v.round.bytes;
	}
	if (d->effort == EFFORT_ENQUEUE && end - begin > ENQUEUE_BYTES) {
		*left = true;
		return false;
	}
	atomic_store(&mine->inside, true);
	do_pieces(&v.round, l, begin, end, d);
	atomic_store(&mine->inside, false);
	done = begin + l->shared == end && !span_is_broken(w);
	*left = !done && !span_is_broken(w);
	if (done) {
		/* The release publishes the results that this rank wrote. */
		store_release(is_alone ? &w->span->done_alone : &mine->done,
		              l->slot);
		world_kick_others(w, l->member->rank);
	}
	return done;
}

static bool do_inline(const struct world *w, struct launch *l,
                      const struct drive *d)
{
	if (!watch(w, l, d, slots_are_met) || !calls_are_one(w, l))
		return false;
	inline_round_do(w, l);
	return true;
}

/* Advance the round of a call that is too large for an inline round.  Return
 * true if the round has ended. */
static bool do_part(const struct world *w, struct launch *l,
                    const struct drive *d, bool *left)
{
	if (l->stage == SPAN_COMES) {
		if (!watch(w, l, d, slots_have_arrived) || !calls_are_one(w, l))
			return false;
		l->stage = SPAN_WORKS;
	}
	if (l->stage == SPAN_WORKS) {
		if (!do_share(w, l, d, left))
			return false;
		l->stage = SPAN_DONE;
	}
	if (!watch(w, l, d, all_are_done))
		return false;
	release_bounced(w, l, true);
	return true;
}

/* After a round, arrive with the rest of the call.  Return false if the call is
 * complete. */
static bool arrive_with_rest(const struct world *w, struct launch *l)
{
	l->earlier += l->elements;
	if (l->earlier == l->calls[l->calls_done].count) {
		l->earlier = 0;
		return false;
	}
	l->shared = 0;
	arrive(w, l);
	world_kick_others(w, l->member->rank);
	return true;
}

bool span_do(struct world *w, struct launch *l, const struct drive *d,
             bool *left)
{
	*left = false;
	if (l->stage == SPAN_INLINE)
		return do_inline(w, l, d);
	do
		if (l->stage == SPAN_STAYS || !do_part(w, l, d, left))
			return false;
	while (arrive_with_rest(w, l));
	return true;
}

/* ---- aborts ----------------------------------------------------------- */

/* Longest time, in nanoseconds, that an aborted rank waits for another rank
 * that is inside (see span.h).  That rank's process might have been stopped,
 * and might continue much later. */
#define MOST_NS UINT64_C(1000000000)

static bool has_ended(const struct span_window *v)
{
	struct pollfd life = { .fd = v->life };

	return v->life >= 0 && poll(&life, 1, 0) == 1 &&
	       (life.revents & POLLHUP);
}

static bool is_inside(const struct world *w, int rank)
{
	const struct span_rank *r = &w->span->ranks[rank];

	return atomic_load(&r->inside) && !has_ended(&w->windows[r->process]);
}

bool span_is_touched(const struct world *w, struct launch *l)
{
	int r;

	for (r = 0; r < w->n; r++) {
		if (r == l->member->rank || !is_inside(w, r))
			continue;
		if (!l->cut_ns)
			l->cut_ns = clock_deadline(MOST_NS);
		return clock_now() < l->cut_ns;
	}
	return false;
}

/* ---- messages --------------------------------------------------------- */

static struct span_lane *lane_of(const struct world *w, int from, int to)
{
	struct span_lane *lanes =
		(struct span_lane *)(void *)&w->span->ranks[w->n];

	return &lanes[(size_t)from * (size_t)w->n + (size_t)to];
}

static struct span_lane *lane_for(const struct transfer *t)
{
	const struct member *m = t->launch->member;

	return t->is_send ? lane_of(m->world, m->rank, t->peer)
	                  : lane_of(m->world, t->peer, m->rank);
}

static uint64_t posted(const struct span_lane *lane)
{
	return load_acquire(&lane->posted);
}

static uint64_t taken(const struct span_lane *lane)
{
	return load_acquire(&lane->taken);
}

/* Number the transfers in call order, starting after the last message that was
 * taken.  Launches of a rank take turns, so all earlier messages have been
 * taken.  The exception is a message that was cut short; no message is taken
 * after it. */
void span_post(struct launch *l)
{
	struct transfer *t, *before;
	size_t i, k;

	publish_fault(l->member);
	for (i = 0; i < l->transfer_count; i++) {
		t = &l->transfers[i];
		t->number = taken(lane_for(t)) + 1;
		for (k = 0; k < i; k++) {
			before = &l->transfers[k];
			t->number += before->peer == t->peer &&
			             before->is_send == t->is_send;
		}
		t->copied = 0;
		t->to = NULL;
		store_relaxed(&t->claim, CLAIM_OPEN);
	}
}

static void post(struct transfer *t, struct span_lane *lane)
{
	const struct member *m = t->launch->member;
	const struct call c = transfer_call(t);
	const size_t at = t->number % SPAN_POSTS;
	struct call bounced;

	if (!m->world->bounce->map(m, &c, &bounced))
		return;
	if (bounced.send != c.send)
		t->to = (char *)(uintptr_t)bounced.send;
	lane->posts[at] = bounced;
	/* The release publishes the post and the data. */
	store_release(&lane->posted, t->number);
}

/* Free the bounce buffer of a send that no rank will read again. */
static void withdraw_post(struct transfer *t)
{
	const struct member *m = t->launch->member;
	const struct call c = transfer_call(t);
	struct call bounced = c;

	if (!t->to)
		return;
	bounced.send = t->to;
	m->world->bounce->unmap(m, &c, &bounced, true);
	t->to = NULL;
}

/* Continue a send.  Return true if the send is done because its receiver has
 * taken the message. */
static bool continue_send(struct transfer *t)
{
	struct span_lane *lane = lane_for(t);
	const uint64_t before = taken(lane);

	if (posted(lane) == t->number - 1 && t->number - before <= SPAN_POSTS)
		post(t, lane);
	if (before < t->number)
		return false;
	withdraw_post(t);
	return true;
}

/* Return true if either end of a message was aborted.  The read-modify-write
 * changes nothing, but orders earlier reads of the sender's buffer before
 * itself. */
static bool is_cut(const struct transfer *t)
{
	const struct member *m = t->launch->member;

	return member_is_aborted(m) ||
	       atomic_fetch_or(&m->world->span->ranks[t->peer].is_cut, 0);
}

/* Copy until the message is complete, an end was aborted, the thread's time
 * limit has passed, or *@room bytes were copied (no limit if @room is NULL). */
static void copy(struct transfer *t, const char *from, size_t bytes,
                 size_t *room, const struct drive *d)
{
	size_t n;

	while (t->copied < bytes && !is_cut(t)) {
		n = MIN(bytes - t->copied, PIECE_BYTES);
		if (room && n > *room)
			return;
		if (room)
			*room -= n;
		memmove(t->buffer + t->copied, from + t->copied, n);
		t->copied += n;
		if (drive_is_late(d))
			return;
	}
}

/* In strict mode, report the two ends of a message if they differ, unless one
 * of them has a scripted fault. */
static void check_message(const struct transfer *t, const struct call *send)
{
	const struct member *m = t->launch->member;
	const struct member from = named(m->world, t->peer);
	const struct call recv = transfer_call(t);

	if (!is_struck(m->world, t->peer) && !member_is_struck(m))
		mismatch_check_message(&from, send, m, &recv);
}

/* Continue a receive.  Return true if it is done.  If the sizes of the ends
 * differ, which NCCL leaves undefined, the smaller size is used. */
static bool continue_recv(struct transfer *t, size_t *room,
                          const struct drive *d, bool *left)
{
	const struct world *w = t->launch->member->world;
	struct span_lane *lane = lane_for(t);
	const size_t at = t->number % SPAN_POSTS;
	const struct call *sent = &lane->posts[at];
	size_t bytes = t->count * type_size(t->type);

	if (taken(lane) != t->number - 1 || posted(lane) < t->number)
		return false;
	if (strict_is_on())
		check_message(t, sent);
	bytes = MIN(bytes, sent->count * type_size(sent->type));
	copy(t, address_in_process(w, t->peer, sent->send), bytes, room, d);
	*left = t->copied < bytes && !is_cut(t);
	if (t->copied < bytes || is_cut(t))
		return false;
	/* After this release, the sender may use the buffer and the post
	 * again. */
	store_release(&lane->taken, t->number);
	return true;
}

static void end(struct transfer *t)
{
	struct member *m = t->launch->member;

	SCOPED_LOCK(&m->world->lock);
	store_relaxed(&t->claim, CLAIM_DONE);
	launch_end_locked(t->launch, m);
}

/* Continue all transfers once.  Return true if one of them has ended. */
static bool continue_all(struct launch *l, size_t *room, const struct drive *d,
                         bool *left)
{
	struct transfer *t = l->transfers, *stop = t + l->transfer_count;
	bool any = false, over;

	for (; t < stop && !*left; t++) {
		if (load_relaxed(&t->claim) == CLAIM_DONE)
			continue;
		over = t->is_send ? continue_send(t)
		                  : continue_recv(t, room, d, left);
		if (over)
			end(t);
		any |= over;
	}
	return any;
}

bool span_messages(struct launch *l, const struct drive *d)
{
	size_t room = ENQUEUE_BYTES;
	bool left = false, any = false;

	while (!launch_is_over(l) && !left &&
	       continue_all(l, d->effort == EFFORT_ENQUEUE ? &room : NULL, d,
	                    &left))
		any = true;
	if (any)
		world_kick_others(l->member->world, l->member->rank);
	return left;
}

void span_leave(struct launch *l)
{
	size_t i;

	if (launch_has_calls(l) && l->stage > SPAN_INLINE)
		release_bounced(l->member->world, l, false);
	for (i = 0; i < l->transfer_count; i++)
		if (l->transfers[i].is_send)
			withdraw_post(&l->transfers[i]);
}
