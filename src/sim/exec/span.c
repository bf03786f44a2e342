/* SPDX-License-Identifier: Apache-2.0 */

/* Rounds and messages between processes (see span.h) */

#include "sim/exec/span.h"

#include <poll.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/scoped_lock.h"
#include "base/type.h"
#include "base/util.h"
#include "sim/exec/inline_round.h"
#include "sim/strict/strict.h"

/* ---- what is shared --------------------------------------------------- */

static struct span_slot *slot_for(const struct world *w, int rank,
                                  uint64_t number)
{
	return &w->span->ranks[rank].slots[number % 2];
}

/* The address, in this process, of the memory of @rank at @p; NULL for NULL. */
static void *seen(const struct world *w, int rank, const void *p)
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
	atomic_store(&m->world->span->ranks[m->rank].is_cut, 1);
}

/* ---- rounds ----------------------------------------------------------- */

/* The next call of the launch, as the other processes can carry it out.  False
 * without memory. */
static bool set_call(struct call *to, const struct launch *l)
{
	const struct call *from = &l->calls[l->calls_done];
	const struct member *m = l->member;

	if (!m->world->lender->lend(m, from, to))
		return false;
	if (from->op == CALL_PRE_MUL_SUM && from->scalar.at) {
		memcpy(to->scalar.value, from->scalar.at,
		       type_size(from->type));
		to->scalar.at = NULL;
	}
	return true;
}

/* For strict mode. */
static void note_fault(const struct member *m)
{
	if (member_is_struck(m))
		store_relaxed(&m->world->span->ranks[m->rank].is_struck, true);
}

/* The way of a call depends on nothing else: ranks may group calls
 * differently. */
static void arrive_inline(const struct world *w, struct launch *l)
{
	struct slot *mine = slot_next(w, l);

	l->stage = SPAN_INLINE;
	mine->what = l->places[l->calls_done].what;
	inline_round_bring(w, l, mine);
}

/* The most bytes of a block of a round that one rank does alone, as measured
 * with four ranks on two cores. */
#define ALONE_BYTES ((size_t)65536)

static bool is_done_alone(const struct world *w, const struct launch *l)
{
	const struct call *c = slot_call(l);

	return w->span->is_crowded &&
	       c->count <= ALONE_BYTES / type_size(c->type);
}

/* True if all others have come before.  No rank comes for a round before the
 * one before is over. */
static bool comes_last(const struct world *w)
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
	if (!set_call(&mine->call, l))
		return;
	l->stage = SPAN_COMES;
	store_release(&mine->number, l->slot);
	if (is_done_alone(w, l) && !comes_last(w))
		l->stage = SPAN_DONE;
}

void span_arrive(const struct world *w, struct launch *l)
{
	note_fault(l->member);
	l->shared = 0;
	if (inline_round_fits(w, l))
		arrive_inline(w, l);
	else
		arrive(w, l);
	/* Those of this process need not find out by themselves. */
	world_kick_others(w, l->member->rank);
}

static bool slots_have_come(const struct world *w, const struct launch *l)
{
	int r;

	for (r = 0; r < w->n; r++)
		if (load_acquire(&slot_for(w, r, l->slot)->number) != l->slot)
			return false;
	return true;
}

/* The rank of any process, as a line about it names it. */
static struct member named(const struct world *w, int rank)
{
	return (struct member){ .rank = rank,
		                .device = w->span->ranks[rank].device,
		                .number = w->number };
}

/* The call that @rank has come with, as @l has. */
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

/* In strict mode: name ranks that differ, but for those with a scripted
 * fault. */
static void check_calls(const struct world *w, const struct launch *l)
{
	char text[CALL_WORDS], other[CALL_WORDS];
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
		if (call_is_same(&first, &c))
			continue;
		member_die(call_function(c.kind), &m,
		           "calls %s where rank %d, device %d calls %s",
		           call_words(&c, text), of.rank, of.device,
		           call_words(&first, other));
	}
}

/* True if all ranks have called the same: where they have not they wait for
 * ever, as on a GPU. */
static bool calls_are_one(const struct world *w, const struct launch *l)
{
	const struct call *first = &slot_for(w, 0, l->slot)->call;
	int r;

	if (strict_is_on())
		check_calls(w, l);
	if (l->stage == SPAN_INLINE)
		return slots_are_one(w, l);
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

/* Look until @has for as long as a driver may that waits. */
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

/* A round as this process sees it. */
struct view {
	struct round round;
	struct place places[HOST_MAX_RANKS];
	const struct call *calls[HOST_MAX_RANKS];
};

static void look(struct view *v, const struct world *w, const struct launch *l)
{
	const struct call *c;
	int r;

	for (r = 0; r < w->n; r++) {
		c = v->calls[r] = &slot_for(w, r, l->slot)->call;
		v->places[r].send = seen(w, r, c->send);
		v->places[r].recv = seen(w, r, c->recv);
	}
	v->round = (struct round){
		.world = w,
		.span = 1,
		.is_single = true,
		.only = *v->calls[l->member->rank],
		.places = v->places,
		.each = v->calls,
	};
	round_lay(&v->round);
}

/* Do pieces of the share from @begin to @end, of which l->shared are done,
 * until there are none, a rank was aborted, or the driver's time is over. */
static void work(const struct round *o, struct launch *l, size_t begin,
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

/* The round is over or, if it is not @done, cut short. */
static void take_back(const struct world *w, struct launch *l, bool done)
{
	const struct member *m = l->member;

	w->lender->take_back(m, &l->calls[l->calls_done],
	                     &slot_for(w, m->rank, l->slot)->call, done);
	l->stage = SPAN_STAYS;
}

/* True if the rank's share is done. */
static bool do_share(const struct world *w, struct launch *l,
                     const struct drive *d, bool *left)
{
	struct span_rank *mine = &w->span->ranks[l->member->rank];
	const bool is_alone = is_done_alone(w, l);
	size_t begin, end;
	struct view v;
	bool done;

	look(&v, w, l);
	round_share(&v.round, l->member->rank, PIECE_BYTES, &begin, &end);
	if (is_alone) {
		begin = 0;
		end = v.round.bytes;
	}
	if (d->effort == EFFORT_ENQUEUE && end - begin > ENQUEUE_BYTES) {
		*left = true;
		return false;
	}
	atomic_store(&mine->inside, true);
	work(&v.round, l, begin, end, d);
	atomic_store(&mine->inside, false);
	done = begin + l->shared == end && !span_is_broken(w);
	*left = !done && !span_is_broken(w);
	if (done) {
		/* Release: what was written. */
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

bool span_do(struct world *w, struct launch *l, const struct drive *d,
             bool *left)
{
	*left = false;
	if (l->stage == SPAN_STAYS)
		return false;
	if (l->stage == SPAN_INLINE)
		return do_inline(w, l, d);
	if (l->stage == SPAN_COMES) {
		if (!watch(w, l, d, slots_have_come) || !calls_are_one(w, l))
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
	take_back(w, l, true);
	return true;
}

/* ---- aborts ----------------------------------------------------------- */

/* A process that was stopped while it was inside may go on much later. */
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

/* Transfers of one launch are numbered in the order called, and the launches of
 * a rank take turns: all that came before is taken, unless it was cut short,
 * and then no message is taken any more. */
void span_post(struct launch *l)
{
	struct transfer *t, *before;
	size_t i, k;

	note_fault(l->member);
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

/* Post what is sent, where the receiver's process can read it. */
static void post(struct transfer *t, struct span_lane *lane)
{
	const struct member *m = t->launch->member;
	const struct call c = transfer_call(t);
	const size_t at = t->number % SPAN_POSTS;
	struct call lent;

	if (!m->world->lender->lend(m, &c, &lent))
		return;
	if (lent.send != c.send)
		t->to = (char *)(uintptr_t)lent.send;
	lane->posts[at] = lent;
	/* Release: the post, and what is sent. */
	store_release(&lane->posted, t->number);
}

/* Nobody reads any more what was posted. */
static void unpost(struct transfer *t)
{
	const struct member *m = t->launch->member;
	const struct call c = transfer_call(t);
	struct call lent = c;

	if (!t->to)
		return;
	lent.send = t->to;
	m->world->lender->take_back(m, &c, &lent, true);
	t->to = NULL;
}

/* True if the send is over: its receiver has taken it. */
static bool send_goes_on(struct transfer *t)
{
	struct span_lane *lane = lane_for(t);
	const uint64_t before = taken(lane);

	if (posted(lane) == t->number - 1 && t->number - before <= SPAN_POSTS)
		post(t, lane);
	if (before < t->number)
		return false;
	unpost(t);
	return true;
}

/* True if either end of a message was aborted.  A change by nothing: what was
 * read of the sender's buffer is read before it. */
static bool is_cut(const struct transfer *t)
{
	const struct member *m = t->launch->member;

	return member_is_aborted(m) ||
	       atomic_fetch_or(&m->world->span->ranks[t->peer].is_cut, 0);
}

/* Copy until all is there, an end was aborted, the driver's time is over, or
 * *@room is used up, which NULL never is. */
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

/* In strict mode: name ends that differ, but for those of a scripted fault. */
static void check_message(const struct transfer *t, const struct call *send)
{
	const struct member *m = t->launch->member;
	const struct member from = named(m->world, t->peer);
	const struct call recv = transfer_call(t);
	char text[CALL_WORDS], other[CALL_WORDS];

	if (is_struck(m->world, t->peer) || member_is_struck(m) ||
	    (send->count == recv.count && send->type == recv.type))
		return;
	member_die("ncclSend", &from, "%s meets %s of rank %d, device %d",
	           call_words(send, text), call_words(&recv, other), m->rank,
	           m->device);
}

/* True if the receive is over.  NCCL leaves undefined what happens where the
 * ends differ: the shorter one counts. */
static bool recv_goes_on(struct transfer *t, size_t *room,
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
	copy(t, seen(w, t->peer, sent->send), bytes, room, d);
	*left = t->copied < bytes && !is_cut(t);
	if (t->copied < bytes || is_cut(t))
		return false;
	/* Release: the buffer and the post are the sender's again. */
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

/* One look at all transfers.  True if one of them has ended. */
static bool look_at_all(struct launch *l, size_t *room, const struct drive *d,
                        bool *left)
{
	struct transfer *t = l->transfers, *stop = t + l->transfer_count;
	bool any = false, over;

	for (; t < stop && !*left; t++) {
		if (load_relaxed(&t->claim) == CLAIM_DONE)
			continue;
		over = t->is_send ? send_goes_on(t)
		                  : recv_goes_on(t, room, d, left);
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
	       look_at_all(l, d->effort == EFFORT_ENQUEUE ? &room : NULL, d,
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
		take_back(l->member->world, l, false);
	for (i = 0; i < l->transfer_count; i++)
		if (l->transfers[i].is_send)
			unpost(&l->transfers[i]);
}
