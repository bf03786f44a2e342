/* SPDX-License-Identifier: Apache-2.0 */

/* Cuts a round into pieces, and processes them (see piece.h) */

#include "sim/exec/piece.h"

#include <string.h>

#include "base/type.h"
#include "base/util.h"
#include "sim/exec/reduce.h"

/* ---- the calls of a round --------------------------------------------- */

static size_t call_begin(const struct round *o, size_t i)
{
	return o->span == 1 ? 0 : o->calls[i].begin - o->calls->begin;
}

static const struct rank_buffers *buffers_of(const struct round *o, int rank)
{
	return (const void *)((const char *)o->ranks +
	                      (size_t)rank * o->stride);
}

static const char *rank_send(const struct round *o, int rank, size_t i)
{
	const struct rank_buffers *b = buffers_of(o, rank);

	return o->span == 1 ? b->send : b->calls[i].send;
}

static char *rank_recv(const struct round *o, int rank, size_t i)
{
	const struct rank_buffers *b = buffers_of(o, rank);

	return o->span == 1 ? b->recv : b->calls[i].recv;
}

/* Return true if @c is a gather or scatter, and the root's own block is in
 * place: it has the same address in the send and the receive buffer. */
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

void round_cut(struct round *o)
{
	const struct call *last = &o->only;
	const size_t n = (size_t)o->world->n, before = o->bytes;

	if (o->span == 1)
		o->only.skips = skips(o, &o->only);
	else
		last = &o->calls[o->span - 1];
	o->bytes = call_begin(o, o->span - 1) + call_bytes(o->world->n, last);
	if (o->bytes == before)
		return;
	o->each = o->bytes / CACHE_LINE / n;
	o->more = o->bytes / CACHE_LINE % n;
}

void round_share(const struct round *o, int rank, size_t *begin, size_t *end)
{
	const size_t n = (size_t)o->world->n, r = (size_t)rank, more = o->more;

	/* The last o->more shares have one more cache line than the others. */
	*begin = (o->each * r + (r + more > n ? r + more - n : 0)) * CACHE_LINE;
	*end = *begin + (o->each + (r + more >= n)) * CACHE_LINE;
}

/* ---- one piece -------------------------------------------------------- */

/* Some elements of one block of a call. */
struct piece {
	const struct call *call;
	size_t number; /* index of the call in the round */
	size_t block;
	size_t first;
	size_t count;
};

static size_t piece_offset(const struct piece *p, size_t block)
{
	return (block * p->call->count + p->first) * type_size(p->call->type);
}

static int rank_of_block(const struct piece *p)
{
	const int block = (int)p->block;

	return block + (p->call->skips && block >= p->call->root);
}

static void piece_copy(const struct piece *p, const char *from, char *to)
{
	if (to != from)
		memcpy(to, from, p->count * type_size(p->call->type));
}

static void piece_fold_scaled(const struct round *o, const struct piece *p,
                              size_t at, char *out)
{
	const void *from[HOST_MAX_RANKS] = { NULL };
	const void *scalars[HOST_MAX_RANKS] = { NULL };
	const struct call *c;
	int r;

	for (r = 0; r < o->world->n; r++) {
		c = &buffers_of(o, r)->calls[p->number];
		from[r] = rank_send(o, r, p->number) + at;
		scalars[r] = c->scalar.at ? c->scalar.at : c->scalar.value;
	}
	reduce_fold_scaled(out, from, scalars, o->world->n, p->count,
	                   p->call->type);
}

/* Reduce the piece of every rank's input, at offset @at, and store the result
 * in each of the @outs outputs. */
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

static void piece_fold_for(const struct round *o, const struct piece *p,
                           size_t at, int rank, size_t here)
{
	void *out = rank_recv(o, rank, p->number) + here;

	piece_fold(o, p, at, &out, 1);
}

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
		/* Blocks are in the order of their destination ranks. */
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

/* ---- a part of the round ---------------------------------------------- */

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

/* Store the run (rank_call.h) that starts with call @i of the round, as one
 * call.  If the ranks do not have the same runs, store only call @i.  Return
 * the index of the call after the run. */
static size_t call_run(const struct round *o, size_t i, struct call *run)
{
	const struct call *last;

	*run = o->calls[i];
	if (!o->is_joined || run->run == 1)
		return i + 1;
	last = &o->calls[i + run->run - 1];
	run->count =
		(last->begin - run->begin) / type_size(run->type) + last->count;
	return i + run->run;
}

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
	if (o->span > 1)
		return calls_do(o, begin, end);
	if (world_is_broken(o->world))
		return false;
	call_do(o, &o->only, 0, begin, end);
	return true;
}
