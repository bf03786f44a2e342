/* SPDX-License-Identifier: Apache-2.0 */

/* Runs small rounds, whose data is in the slots (see inline_round.h) */

#include "sim/exec/inline_round.h"

#include <string.h>

#include "base/type.h"
#include "sim/exec/reduce.h"

/* Largest number of ranks of an inline round.  Reading more slots takes too
 * long. */
#define INLINE_RANKS 8

static size_t block_bytes(const struct call *c)
{
	return c->count * type_size(c->type);
}

/* Return the largest number of bytes that a rank may send in a slot, as
 * measured with two ranks.  With more bytes, it is faster if the last rank to
 * arrive computes the whole round directly from the buffers.  The limit is
 * lower if every rank reads all data than if only the root reads it. */
static size_t most_bytes(const struct call *c)
{
	switch (c->kind) {
	case CALL_ALL_REDUCE:
		return SLOTS_BYTES(5);
	case CALL_REDUCE:
		return SLOT_BYTES;
	default:
		return SLOTS_BYTES(9);
	}
}

bool inline_round_fits(const struct world *w, const struct launch *l)
{
	const struct call *c = slot_call(l);

	/* No rank sends more than the root. */
	return w->n <= INLINE_RANKS && c->count <= SLOT_BYTES &&
	       call_sends(c, c->root, w->n) * block_bytes(c) <= most_bytes(c) &&
	       c->op != CALL_PRE_MUL_SUM;
}

void inline_round_arrive(const struct world *w, struct launch *l)
{
	const struct call *c = slot_call(l);
	struct slot *mine = slot_next(w, l, true);
	const size_t bytes =
		call_sends(c, l->member->rank, w->n) * block_bytes(c);

	/* A rank that sends no data might have passed NULL. */
	if (bytes)
		memcpy(mine->data, c->send, bytes);
	slot_send(mine, l);
}

static void fold(const struct world *w, const struct launch *l, size_t block)
{
	const struct call *c = slot_call(l);
	const void *from[HOST_MAX_RANKS];
	void *to = c->recv;
	int r;

	for (r = 0; r < w->n; r++)
		from[r] = slot_of(w, l->slot, r)->data + block * block_bytes(c);
	reduce_fold_to(&to, 1, from, w->n, c->count, c->type, c->op);
}

static void copy(const struct world *w, const struct launch *l, int from,
                 size_t block, size_t to)
{
	const size_t bytes = block_bytes(slot_call(l));

	memcpy((char *)slot_call(l)->recv + to * bytes,
	       slot_of(w, l->slot, from)->data + block * bytes, bytes);
}

static void copy_all(const struct world *w, const struct launch *l,
                     size_t block)
{
	int r;

	for (r = 0; r < w->n; r++)
		copy(w, l, r, block, (size_t)r);
}

void inline_round_do(const struct world *w, const struct launch *l)
{
	const struct call *c = slot_call(l);
	const int rank = l->member->rank;
	/* If each rank sends one block to every rank, use the block for this
	 * rank. */
	const size_t block =
		call_sends(c, c->root, w->n) > 1 ? (size_t)rank : 0;

	if (!call_receives(c, rank, w->n))
		return;
	if (call_reduces(c->kind))
		fold(w, l, block);
	else if (call_receives(c, rank, w->n) > 1)
		copy_all(w, l, block);
	else
		copy(w, l, c->root, block, 0);
}
