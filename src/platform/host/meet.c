/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How the ranks of a world do an operation together
 *
 *	        all ranks have arrived           every piece is done
 *	JOINING ----------------------> WORKING ----------------------> (next
 *	   |                               |                             round)
 *	   | a rank was aborted, or        | a rank was aborted
 *	   | the calls differ              v
 *	   +-------------------------> STALLED: nothing starts any more; each
 *	                               rank waits for its own abort
 *
 * A rank arrives when its launch comes to the head of its stream and the
 * communicator's operation before is done.  The last to arrive cuts the whole
 * operation, all calls of the group, in pieces; then whoever drives any of the
 * ranks' streams claims pieces until there are none.  A piece is one range of
 * elements: it reads that range from every rank that has it and writes it to
 * every rank that gets it, so no two pieces touch the same memory, and the
 * result does not depend on who did what.
 *
 *  A. A thread touches the ranks' buffers only between inside++ and inside--,
 *     both under the lock.
 *  B. A round ends, and the launches of its ranks are done, only with nobody
 *     inside.  So is a launch that is cut short by an abort.
 *  C. An abort is seen before the next piece is claimed.
 */

#include <string.h>

#include "base/clock.h"
#include "platform/host/comm.h"
#include "platform/host/host.h"
#include "platform/host/reduce.h"

#define PIECE_BYTES ((size_t)64 * 1024)

/* What a call that queues work may spend on doing it. */
#define ENQUEUE_BYTES ((size_t)8 * 1024)

/* ---- pieces ----------------------------------------------------------- */

/* How many blocks of @count elements an operation works through. */
static size_t call_blocks(const struct world *w, const struct call *c)
{
	switch (c->kind) {
	case CALL_ALL_GATHER:
	case CALL_REDUCE_SCATTER:
		return (size_t)w->n;
	case CALL_ALL_REDUCE:
	case CALL_BROADCAST:
	case CALL_REDUCE:
		break;
	}
	return 1;
}

static size_t call_piece_elements(const struct call *c)
{
	return PIECE_BYTES / cohort_type_size(c->type);
}

static size_t call_block_pieces(const struct call *c)
{
	size_t elements = call_piece_elements(c);

	return c->count / elements + (c->count % elements != 0);
}

static bool same_call(const struct call *a, const struct call *b)
{
	return a->kind == b->kind && a->count == b->count &&
	       a->type == b->type && a->op == b->op && a->root == b->root;
}

static bool same_launch(const struct launch *a, const struct launch *b)
{
	size_t i;

	if (a->call_count != b->call_count)
		return false;
	for (i = 0; i < a->call_count; i++)
		if (!same_call(&a->calls[i], &b->calls[i]))
			return false;
	return true;
}

/* Every rank has arrived: cut the operation in pieces.  Ranks that did not
 * call the same wait for ever, as on a GPU. */
static void open_locked(struct world *w)
{
	struct launch *first = w->launches[0];
	struct call *c;
	size_t i;
	int r;

	for (r = 1; r < w->n; r++)
		if (!same_launch(first, w->launches[r]))
			return;
	w->pieces = 0;
	w->bytes = 0;
	for (i = 0; i < first->call_count; i++) {
		c = &first->calls[i];
		c->first_piece = w->pieces;
		w->pieces += call_blocks(w, c) * call_block_pieces(c);
		w->bytes += call_blocks(w, c) * c->count *
		            cohort_type_size(c->type);
	}
	w->finished = 0;
	atomic_store_explicit(&w->next_piece, 0, memory_order_relaxed);
	w->open = true;
	stream_invite_all_locked(w->followers);
}

/* One piece: which call, which block of it, and which elements of the block. */
struct piece {
	size_t call;
	size_t block;
	size_t first;
	size_t count;
};

static struct piece piece_find(const struct world *w, size_t number)
{
	const struct launch *l = w->launches[0];
	const struct call *c;
	size_t low = 0, high = l->call_count, middle, left;
	struct piece p;

	while (high - low > 1) {
		middle = low + (high - low) / 2;
		if (l->calls[middle].first_piece <= number)
			low = middle;
		else
			high = middle;
	}
	c = &l->calls[low];
	number -= c->first_piece;
	p.call = low;
	p.block = number / call_block_pieces(c);
	p.first = number % call_block_pieces(c) * call_piece_elements(c);
	left = c->count - p.first;
	p.count = left < call_piece_elements(c) ? left : call_piece_elements(c);
	return p;
}

static const struct call *rank_call(const struct world *w, int rank,
                                    const struct piece *p)
{
	return &w->launches[rank]->calls[p->call];
}

/* Where a piece lies in a buffer whose blocks begin @block blocks in. */
static size_t piece_offset(const struct call *c, const struct piece *p,
                           size_t block)
{
	return (block * c->count + p->first) * cohort_type_size(c->type);
}

/* Fold the piece of every rank's input, at @at bytes, into @out. */
static void piece_fold(const struct world *w, const struct piece *p, size_t at,
                       char *out)
{
	const void *from[HOST_MAX_RANKS];
	const struct call *c = rank_call(w, 0, p);
	int r;

	for (r = 0; r < w->n; r++)
		from[r] = (const char *)rank_call(w, r, p)->send + at;
	reduce_fold(out, from, w->n, p->count, c->type, c->op);
}

/* Copy the piece from @from to @at bytes into every rank's output. */
static void piece_spread(const struct world *w, const struct piece *p,
                         const char *from, size_t at)
{
	size_t bytes = p->count * cohort_type_size(rank_call(w, 0, p)->type);
	char *to;
	int r;

	for (r = 0; r < w->n; r++) {
		to = (char *)rank_call(w, r, p)->recv + at;
		if (to != from)
			memcpy(to, from, bytes);
	}
}

static void piece_do(const struct world *w, const struct piece *p)
{
	const struct call *c = rank_call(w, 0, p);
	const size_t here = piece_offset(c, p, 0);
	const size_t in_block = piece_offset(c, p, p->block);
	const struct call *owner;

	switch (c->kind) {
	case CALL_ALL_REDUCE:
		piece_fold(w, p, here, (char *)c->recv + here);
		piece_spread(w, p, (char *)c->recv + here, here);
		break;
	case CALL_REDUCE:
		owner = rank_call(w, c->root, p);
		piece_fold(w, p, here, (char *)owner->recv + here);
		break;
	case CALL_BROADCAST:
		owner = rank_call(w, c->root, p);
		piece_spread(w, p, (const char *)owner->send + here, here);
		break;
	case CALL_ALL_GATHER:
		owner = rank_call(w, (int)p->block, p);
		piece_spread(w, p, (const char *)owner->send + here, in_block);
		break;
	case CALL_REDUCE_SCATTER:
		owner = rank_call(w, (int)p->block, p);
		piece_fold(w, p, in_block, (char *)owner->recv + here);
		break;
	}
}

/* Claim pieces until there are none, a rank was aborted, or the driver's time is
 * over.  Returns how many were done.  For a thread that is inside. */
static size_t do_pieces(struct world *w, const struct drive *d)
{
	struct piece p;
	size_t number, n = 0;

	/* Relaxed: the round was published by the lock; each claims its own. */
	while (!atomic_load_explicit(&w->broken, memory_order_relaxed)) {
		number = atomic_fetch_add_explicit(&w->next_piece, 1,
		                                   memory_order_relaxed);
		if (number >= w->pieces)
			break;
		p = piece_find(w, number);
		piece_do(w, &p);
		n++;
		if (drive_is_late(d))
			break;
	}
	return n;
}

/* ---- rounds ----------------------------------------------------------- */

static bool is_broken(const struct world *w)
{
	return atomic_load_explicit(&w->broken, memory_order_relaxed);
}

static void end_round_locked(struct world *w)
{
	w->open = false;
	w->arrived = 0;
	w->round++;
	stream_kick_all_locked(&w->followers);
}

/* Help with the pieces.  Called with the lock held; releases and re-acquires
 * it. */
static void work_locked(struct world *w, const struct drive *d)
{
	size_t n;

	w->inside++;
	pthread_mutex_unlock(&w->lock);
	n = do_pieces(w, d);
	pthread_mutex_lock(&w->lock);
	w->inside--;
	w->finished += n;
	if (w->inside)
		return;
	if (w->finished == w->pieces)
		end_round_locked(w);
	else if (is_broken(w))
		stream_kick_all_locked(&w->followers);
}

static bool is_aborted(const struct launch *l)
{
	return atomic_load_explicit(&l->comm->aborted, memory_order_acquire);
}

/* True if nothing of this launch can happen any more. */
static bool is_over_locked(const struct world *w, const struct launch *l)
{
	if (w->round > l->round)
		return true;
	return is_aborted(l) && !(l->joined && w->inside);
}

static void join_locked(struct world *w, struct launch *l)
{
	l->joined = true;
	w->launches[l->comm->rank] = l;
	if (++w->arrived == w->n)
		open_locked(w);
}

/* What keeps a launch whose turn it is from arriving. */
static bool is_held(struct launch *l)
{
	if (l->fault.kind == COHORT_FAULT_DELAY && !l->due_ns)
		l->due_ns = clock_deadline(l->fault.value);
	return l->fault.kind == COHORT_FAULT_NEVER ||
	       l->fault.kind == COHORT_FAULT_ASYNC ||
	       (l->fault.kind == COHORT_FAULT_DELAY && clock_now() < l->due_ns);
}

/* True if there are pieces of this round that nobody has claimed. */
static bool has_pieces(const struct world *w, const struct launch *l)
{
	return w->round == l->round && w->open && !is_broken(w) &&
	       atomic_load_explicit(&w->next_piece, memory_order_relaxed) <
	               w->pieces;
}

static void launch_done(struct launch *l)
{
	struct ncclComm *comm = l->comm;

	comm_launch_put(l);
	/* Release: all that was written.  Pairs with the acquire in
	 * comm_sync(), after which the communicator may be freed. */
	atomic_fetch_sub_explicit(&comm->pending, 1, memory_order_release);
}

enum step meet_step(struct stream *s, struct work *work, const struct drive *d)
{
	struct launch *l = work->launch;
	struct world *w = l->comm->world;
	bool turn, held = false, left = false, over;

	pthread_mutex_lock(&w->lock);
	turn = w->round == l->round && !is_broken(w) && !is_aborted(l);
	if (turn && !l->joined) {
		held = is_held(l);
		if (!held)
			join_locked(w, l);
	}
	if (turn && l->joined && w->open) {
		if (d->effort != EFFORT_ENQUEUE || w->bytes <= ENQUEUE_BYTES)
			work_locked(w, d);
		left = has_pieces(w, l);
	}
	over = is_over_locked(w, l);
	if (over || left)
		stream_unfollow_locked(&w->followers, s);
	else
		stream_follow_locked(&w->followers, s);
	pthread_mutex_unlock(&w->lock);

	if (over) {
		launch_done(l);
		return STEP_DONE;
	}
	if (held && l->fault.kind == COHORT_FAULT_DELAY)
		return stream_timer(s, l->due_ns, d);
	return left ? STEP_LATER : STEP_BLOCKED;
}

void meet_break(struct world *w)
{
	pthread_mutex_lock(&w->lock);
	atomic_store_explicit(&w->broken, true, memory_order_relaxed);
	stream_kick_all_locked(&w->followers);
	pthread_mutex_unlock(&w->lock);
}
