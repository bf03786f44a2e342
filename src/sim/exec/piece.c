/* SPDX-License-Identifier: Apache-2.0 */

/* Cutting a round into pieces, and doing one (see piece.h) */

#include "sim/exec/piece.h"

#include <string.h>

#include "base/type.h"
#include "base/util.h"
#include "sim/exec/reduce.h"

/* ---- what a round is -------------------------------------------------- */

static const struct call *round_call(const struct round *o, size_t i)
{
	return o->is_single ? &o->only : &o->calls[i];
}

/* Where call @i begins in the bytes of the round. */
static size_t call_begin(const struct round *o, size_t i)
{
	return o->is_single ? 0 : o->calls[i].begin - o->calls->begin;
}

static const struct place *rank_place(const struct round *o, int rank, size_t i)
{
	return o->is_single ? &o->places[rank] : &o->lists[rank][i];
}

static const char *rank_send(const struct round *o, int rank, size_t i)
{
	return rank_place(o, rank, i)->send;
}

static char *rank_recv(const struct round *o, int rank, size_t i)
{
	return rank_place(o, rank, i)->recv;
}

/* True if the root's own block is sent from where it is to be received. */
static bool skips(const struct round *o, const struct call *c)
{
	const size_t own = (size_t)c->root * c->count * type_size(c->type);
	const char *send, *recv;

	if (c->kind != CALL_GATHER && c->kind != CALL_SCATTER)
		return false;
	send = rank_send(o, c->root, 0);
	recv = rank_recv(o, c->root, 0);
	return c->kind == CALL_GATHER ? send == recv + own : recv == send + own;
}

void round_lay(struct round *o)
{
	const struct call *last;

	if (o->is_single)
		o->only.skips = skips(o, &o->only);
	last = round_call(o, o->span - 1);
	o->bytes = call_begin(o, o->span - 1) + call_bytes(o->world->n, last);
}

void round_cut(struct round *o)
{
	if (o->is_single)
		o->only = call_of_what(o->places->what);
	round_lay(o);
}

bool round_keeps(const struct round *o)
{
	return o->only.skips == skips(o, &o->only);
}

/* The next calls of the launch of @rank, which the caller drives. */
static const struct call *calls_of(const struct world *w, int rank)
{
	const struct launch *l = w->members[rank]->joined;

	return &l->calls[l->calls_done];
}

/* The round that is open, with the calls of the driver's own @rank: in @own if
 * there are several calls. (A structure that was just written in parts is not
 * copied as a whole without a stall.) */
static const struct round *round_of(const struct world *w, int rank,
                                    struct round *own)
{
	if (w->round.is_single)
		return &w->round;
	*own = w->round;
	own->calls = calls_of(w, rank);
	return own;
}

size_t round_share(const struct round *o, int rank, size_t piece, size_t *begin,
                   size_t *end)
{
	const size_t lines = o->bytes / CACHE_LINE;
	const size_t n = (size_t)o->world->n, r = (size_t)rank;
	const size_t each = lines / n, more = lines % n;

	/* The last ones have one line more. */
	*begin = (each * r + (r + more > n ? r + more - n : 0)) * CACHE_LINE;
	*end = *begin + (each + (r + more >= n)) * CACHE_LINE;
	return (*end - *begin + piece - 1) / piece;
}

static void cut_share(struct world *w, int rank)
{
	struct share *s = &w->shares[rank];

	s->pieces = (long)round_share(&w->round, rank, PIECE_BYTES, &s->begin,
	                              &s->end);
	w->pieces += (size_t)s->pieces;
	store_relaxed(&s->left, s->pieces);
}

/* Collect the places of the calls that all ranks have in common. */
static void set_lists(struct world *w)
{
	const struct launch *l;
	int r;

	for (r = 0; r < w->n; r++) {
		l = w->members[r]->joined;
		w->lists[r] = &l->places[l->calls_done];
	}
}

void pieces_cut(struct world *w, int rank)
{
	int r;

	if (!w->round.is_single) {
		w->round.calls = calls_of(w, rank);
		set_lists(w);
	}
	round_cut(&w->round);
	if (w->round.bytes <= pieces_at_once(w))
		return;
	w->pieces = 0;
	for (r = 0; r < w->n; r++)
		cut_share(w, r);
}

size_t pieces_at_once(const struct world *w)
{
	return w->is_crowded ? 16384 : 2048;
}

/* ---- one piece -------------------------------------------------------- */

/* Which call, which block of it, and which elements of the block. */
struct piece {
	const struct call *call;
	size_t number; /* of the call */
	size_t block;
	size_t first;
	size_t count;
};

/* Where a piece lies in a buffer in which its block is block @block. */
static size_t piece_offset(const struct piece *p, size_t block)
{
	return (block * p->call->count + p->first) * type_size(p->call->type);
}

/* The rank whose block this is, of a call with a block for each rank. */
static int rank_of_block(const struct piece *p)
{
	const int block = (int)p->block;

	return block + (p->call->skips && block >= p->call->root);
}

/* Copy the piece. */
static void piece_copy(const struct piece *p, const char *from, char *to)
{
	if (to != from)
		memcpy(to, from, p->count * type_size(p->call->type));
}

/* The @number-th call of the round, as @rank has it. */
static const struct call *rank_call(const struct round *o, int rank,
                                    size_t number)
{
	const struct launch *l;

	if (o->each)
		return o->each[rank];
	l = o->world->members[rank]->joined;
	return &l->calls[l->calls_done + number];
}

/* Fold the piece of every rank's input, each multiplied by that rank's
 * scalar. */
static void piece_fold_scaled(const struct round *o, const struct piece *p,
                              size_t at, char *out)
{
	const void *from[HOST_MAX_RANKS] = { NULL };
	const void *scalars[HOST_MAX_RANKS] = { NULL };
	const struct call *c;
	int r;

	for (r = 0; r < o->world->n; r++) {
		c = rank_call(o, r, p->number);
		from[r] = rank_send(o, r, p->number) + at;
		scalars[r] = c->scalar.at ? c->scalar.at : c->scalar.value;
	}
	reduce_fold_scaled(out, from, scalars, o->world->n, p->count,
	                   p->call->type);
}

/* Fold the piece of every rank's input, at @at bytes, into all of @out. */
static void piece_fold(const struct round *o, const struct piece *p, size_t at,
                       void *const out[], int outs)
{
	const struct call *c = p->call;
	const void *from[HOST_MAX_RANKS];
	int r;

	if (c->op == CALL_PRE_MUL_SUM) {
		piece_fold_scaled(o, p, at, out[0]);
		for (r = 1; r < outs; r++)
			piece_copy(p, out[0], out[r]);
		return;
	}
	for (r = 0; r < o->world->n; r++)
		from[r] = rank_send(o, r, p->number) + at;
	reduce_fold_to(out, outs, from, o->world->n, p->count, c->type, c->op);
}

/* Fold the piece of every rank's input into the output of one rank, at @here
 * bytes. */
static void piece_fold_for(const struct round *o, const struct piece *p,
                           size_t at, int rank, size_t here)
{
	void *out = rank_recv(o, rank, p->number) + here;

	piece_fold(o, p, at, &out, 1);
}

/* Fold it into the outputs of all ranks. */
static void piece_fold_for_all(const struct round *o, const struct piece *p,
                               size_t at)
{
	void *out[HOST_MAX_RANKS];
	int r;

	out[0] = rank_recv(o, 0, p->number) + at;
	for (r = 1; r < o->world->n; r++)
		out[r] = rank_recv(o, r, p->number) + at;
	piece_fold(o, p, at, out, o->world->n);
}

/* Copy the piece from @from to @at bytes into every rank's output. */
static void piece_spread(const struct round *o, const struct piece *p,
                         const char *from, size_t at)
{
	int r;

	for (r = 0; r < o->world->n; r++)
		piece_copy(p, from, rank_recv(o, r, p->number) + at);
}

static void piece_do(const struct round *o, const struct piece *p)
{
	const struct call *c = p->call;
	const size_t i = p->number;
	const int n = o->world->n, block = rank_of_block(p);
	const size_t here = piece_offset(p, 0);
	const size_t in_block = piece_offset(p, (size_t)block);

	switch (c->kind) {
	case CALL_ALL_REDUCE:
		piece_fold_for_all(o, p, here);
		break;
	case CALL_REDUCE:
		piece_fold_for(o, p, here, c->root, here);
		break;
	case CALL_BROADCAST:
		piece_spread(o, p, rank_send(o, c->root, i) + here, here);
		break;
	case CALL_ALL_GATHER:
		piece_spread(o, p, rank_send(o, block, i) + here, in_block);
		break;
	case CALL_REDUCE_SCATTER:
		piece_fold_for(o, p, in_block, block, here);
		break;
	case CALL_GATHER:
		piece_copy(p, rank_send(o, block, i) + here,
		           rank_recv(o, c->root, i) + in_block);
		break;
	case CALL_SCATTER:
		piece_copy(p, rank_send(o, c->root, i) + in_block,
		           rank_recv(o, block, i) + here);
		break;
	case CALL_ALL_TO_ALL:
		/* The blocks that go to the first rank come first. */
		piece_copy(p,
		           rank_send(o, block % n, i) +
		                   piece_offset(p, p->block / (size_t)n),
		           rank_recv(o, block / n, i) +
		                   piece_offset(p, p->block % (size_t)n));
		break;
	case CALL_SEND:
	case CALL_RECV:
		break;
	}
}

/* ---- a range of the round --------------------------------------------- */

/* The index of the call whose bytes are at @at in the round. */
static size_t call_at(const struct round *o, size_t at)
{
	size_t low = 0, high = o->span, middle;

	while (high - low > 1) {
		middle = low + (high - low) / 2;
		if (call_begin(o, middle) <= at)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* Do bytes @begin to @end of the @number-th call. */
static void call_do(const struct round *o, const struct call *c, size_t number,
                    size_t begin, size_t end)
{
	const size_t size = type_size(c->type), stride = call_stride(c);
	struct piece p = { .call = c, .number = number };
	size_t stop, in, upto;

	for (; begin < end; begin = stop) {
		p.block = begin / stride;
		in = begin - p.block * stride;
		stop = p.block * stride + stride;
		stop = MIN(stop, end);
		upto = stop - p.block * stride;
		p.first = in / size;
		p.count = MIN(upto / size, c->count) - p.first;
		piece_do(o, &p);
	}
}

/* Store the run that begins with call @i of the round, as one call; or the call
 * alone where not all ranks have the same runs.  Returns the index of the call
 * behind it. */
static size_t call_run(const struct round *o, size_t i, struct call *run)
{
	const struct call *last;

	*run = *round_call(o, i);
	if (!o->is_joined || run->run == 1)
		return i + 1;
	last = &o->calls[i + run->run - 1];
	run->count =
		(last->begin - run->begin) / type_size(run->type) + last->count;
	return i + run->run;
}

/* Do a part of a round of several calls. */
static bool calls_do(const struct round *o, size_t begin, size_t end)
{
	size_t i = call_at(o, begin), next, from, stop;
	struct call run;

	if (o->is_joined)
		i -= o->calls[i].back;
	for (; begin < end; i = next, begin = stop) {
		if (world_is_broken(o->world))
			return false;
		next = call_run(o, i, &run);
		from = call_begin(o, i);
		stop = from + call_bytes(o->world->n, &run);
		stop = MIN(stop, end);
		call_do(o, &run, i, begin - from, stop - from);
	}
	return true;
}

bool round_do(const struct round *o, size_t begin, size_t end)
{
	if (!o->is_single)
		return calls_do(o, begin, end);
	if (world_is_broken(o->world))
		return false;
	call_do(o, &o->only, 0, begin, end);
	return true;
}

bool pieces_do_all(const struct world *w, int rank)
{
	struct round own;
	const struct round *o = round_of(w, rank, &own);

	return round_do(o, 0, o->bytes);
}

/* ---- claiming --------------------------------------------------------- */

/* Relaxed: a hint. */
static int core_of(const struct world *w, int rank)
{
	return load_relaxed(&w->seats[rank].core);
}

/* True if the share of @other is in @reach for @rank. */
static bool is_in(enum reach reach, const struct world *w, int rank, int other)
{
	return reach == REACH_ALL || other == rank ||
	       (reach == REACH_NEAR && core_of(w, other) == core_of(w, rank));
}

static bool share_is_left(const struct world *w, int rank)
{
	return load_relaxed(&w->shares[rank].left) > 0;
}

bool pieces_are_left(const struct world *w, int rank, enum reach reach)
{
	int r;

	for (r = 0; r < w->n; r++)
		if (is_in(reach, w, rank, r) && share_is_left(w, r))
			return true;
	return false;
}

/* Do what is left of the share of @rank, with @n pieces done before.  Returns
 * how many are done then. */
static size_t share_do(struct world *w, const struct round *o, int rank,
                       size_t n, const struct drive *d)
{
	struct share *s = &w->shares[rank];
	size_t begin, end;
	long left;

	while (share_is_left(w, rank) && !world_is_broken(w) &&
	       !(n && drive_is_late(d))) {
		left = sub_relaxed(&s->left, 1);
		if (left <= 0)
			break;
		begin = s->begin + (size_t)(s->pieces - left) * PIECE_BYTES;
		end = begin + PIECE_BYTES;
		if (!round_do(o, begin, MIN(end, s->end)))
			break;
		n++;
	}
	return n;
}

size_t pieces_do(struct world *w, int rank, enum reach reach,
                 const struct drive *d)
{
	struct round own;
	const struct round *o = round_of(w, rank, &own);
	size_t n = 0;
	int r, other;

	for (r = 0; r < w->n; r++) {
		other = (rank + r) % w->n;
		if (is_in(reach, w, rank, other))
			n = share_do(w, o, other, n, d);
	}
	return n;
}
