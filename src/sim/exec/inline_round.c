/* SPDX-License-Identifier: Apache-2.0 */

/* Small rounds, whose data are in the slots (see inline_round.h) */

#include "sim/exec/inline_round.h"

#include <string.h>

#include "base/type.h"
#include "sim/exec/reduce.h"
#include "sim/exec/split_round.h"

static size_t block_bytes(const struct call *c)
{
	return c->count * type_size(c->type);
}

/* The most that a rank brings with it, as measured with two ranks.  With more
 * bytes it is faster if the last rank to arrive does the round for all, from
 * where the data are.  The limit is lower where every rank reads all that the
 * others bring than where only the root does. */
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

	/* The root sends the most. */
	return w->slots && c->count <= SLOT_BYTES &&
	       call_sends(c, c->root, w->n) * block_bytes(c) <= most_bytes(c) &&
	       l->places[l->calls_done].what != MANY_CALLS;
}

void inline_round_bring(const struct world *w, const struct launch *l,
                        struct slot *mine)
{
	const struct call *c = slot_call(l);
	const size_t bytes =
		call_sends(c, l->member->rank, w->n) * block_bytes(c);

	/* A rank that sends nothing may pass NULL. */
	if (bytes && mine->what != MANY_CALLS)
		memcpy(mine->data, c->send, bytes);
	slot_send(mine, l);
}

void inline_round_arrive(const struct world *w, struct launch *l)
{
	struct slot *mine = slot_next(w, l);

	split_round_list(w, l, mine);
	inline_round_bring(w, l, mine);
}

/* Fold block @block of what each rank has brought. */
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

/* Copy block @block of what @from has brought to block @to of the receive
 * buffer. */
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
	/* Of what a rank brings for each rank, this one's. */
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
