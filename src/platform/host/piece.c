/* SPDX-License-Identifier: Apache-2.0 */

#include "platform/host/piece.h"

#include <string.h>

#include "platform/host/host.h"
#include "platform/host/reduce.h"

/* How many blocks of @count elements an operation works through. */
static size_t call_blocks(const struct world *w, const struct call *c)
{
	const size_t n = (size_t)w->n;

	switch (c->kind) {
	case CALL_ALL_TO_ALL:
		return n * n;
	case CALL_ALL_GATHER:
	case CALL_REDUCE_SCATTER:
	case CALL_GATHER:
	case CALL_SCATTER:
		return n;
	case CALL_ALL_REDUCE:
	case CALL_BROADCAST:
	case CALL_REDUCE:
	case CALL_SEND:
	case CALL_RECV:
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

void pieces_cut_locked(struct world *w)
{
	struct launch *first = w->launches[0];
	struct call *c;
	size_t i;

	w->pieces = 0;
	w->bytes = 0;
	for (i = 0; i < w->span; i++) {
		c = &first->calls[first->calls_done + i];
		c->first_piece = w->pieces;
		w->pieces += call_blocks(w, c) * call_block_pieces(c);
		w->bytes += call_blocks(w, c) * c->count *
		            cohort_type_size(c->type);
	}
	w->finished = 0;
	atomic_store_explicit(&w->next_piece, 0, memory_order_relaxed);
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
	const struct call *calls = l->calls + l->calls_done, *c;
	size_t low = 0, high = w->span, middle, left;
	struct piece p;

	while (high - low > 1) {
		middle = low + (high - low) / 2;
		if (calls[middle].first_piece <= number)
			low = middle;
		else
			high = middle;
	}
	c = &calls[low];
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
	const struct launch *l = w->launches[rank];

	return &l->calls[l->calls_done + p->call];
}

/* Where a piece lies in a buffer whose blocks begin @block blocks in. */
static size_t piece_offset(const struct call *c, const struct piece *p,
                           size_t block)
{
	return (block * c->count + p->first) * cohort_type_size(c->type);
}

/* The same, of inputs times the scalar of their rank. */
static void piece_fold_scaled(const struct world *w, const struct piece *p,
                              size_t at, char *out)
{
	const void *from[HOST_MAX_RANKS], *scalars[HOST_MAX_RANKS];
	const struct call *c;
	int r;

	for (r = 0; r < w->n; r++) {
		c = rank_call(w, r, p);
		from[r] = (const char *)c->send + at;
		scalars[r] = c->scalar.at ? c->scalar.at : c->scalar.value;
	}
	reduce_fold_scaled(out, from, scalars, w->n, p->count,
	                   rank_call(w, 0, p)->type);
}

/* Fold the piece of every rank's input, at @at bytes, into @out. */
static void piece_fold(const struct world *w, const struct piece *p, size_t at,
                       char *out)
{
	const void *from[HOST_MAX_RANKS];
	const struct call *c = rank_call(w, 0, p);
	int r;

	if (c->op == CALL_PRE_MUL_SUM) {
		piece_fold_scaled(w, p, at, out);
		return;
	}
	for (r = 0; r < w->n; r++)
		from[r] = (const char *)rank_call(w, r, p)->send + at;
	reduce_fold(out, from, w->n, p->count, c->type, c->op);
}

/* Copy the piece. */
static void piece_copy(const struct world *w, const struct piece *p,
                       const char *from, char *to)
{
	if (to != from)
		memcpy(to, from,
		       p->count * cohort_type_size(rank_call(w, 0, p)->type));
}

/* Copy the piece from @from to @at bytes into every rank's output. */
static void piece_spread(const struct world *w, const struct piece *p,
                         const char *from, size_t at)
{
	int r;

	for (r = 0; r < w->n; r++)
		piece_copy(w, p, from, (char *)rank_call(w, r, p)->recv + at);
}

static void piece_do(const struct world *w, const struct piece *p)
{
	const struct call *c = rank_call(w, 0, p);
	const size_t here = piece_offset(c, p, 0);
	const size_t in_block = piece_offset(c, p, p->block);
	const struct call *owner, *other;
	int n = w->n;

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
	case CALL_GATHER:
		owner = rank_call(w, c->root, p);
		other = rank_call(w, (int)p->block, p);
		piece_copy(w, p, (const char *)other->send + here,
		           (char *)owner->recv + in_block);
		break;
	case CALL_SCATTER:
		owner = rank_call(w, c->root, p);
		other = rank_call(w, (int)p->block, p);
		piece_copy(w, p, (const char *)owner->send + in_block,
		           (char *)other->recv + here);
		break;
	case CALL_ALL_TO_ALL:
		/* The blocks that go to the first rank come first. */
		owner = rank_call(w, (int)p->block / n, p);
		other = rank_call(w, (int)p->block % n, p);
		piece_copy(w, p,
		           (const char *)other->send +
		                   piece_offset(c, p, p->block / (size_t)n),
		           (char *)owner->recv +
		                   piece_offset(c, p, p->block % (size_t)n));
		break;
	case CALL_SEND:
	case CALL_RECV:
		break;
	}
}

size_t pieces_do(struct world *w, const struct drive *d)
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
