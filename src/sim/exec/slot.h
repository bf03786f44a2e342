/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_SLOT_H
#define SIM_EXEC_SLOT_H

/*
 * Slots: memory in which each rank of a world publishes its next call
 *
 * To arrive at a round, a rank writes its own slot.  A rank that sees the slots
 * of all ranks needs no other notification, so no two ranks write the same
 * word.  A slot takes one cache line, or several if it holds data.  Each rank
 * has two slots and alternates between them (double buffering): when a rank
 * enters round k, all ranks have read the slot that it wrote for round k - 2.
 *
 * A rank with several calls first publishes a hash of all of them.  If all
 * ranks publish the same hash, these calls are one round.  Otherwise, all ranks
 * arrive again, each with one call, because ranks can group calls differently.
 *
 * Whether the data of a call is in the slots depends only on the call and on
 * the world, so all ranks that make the same call arrive in the same way.
 */

#include "base/atomics.h"
#include "base/backoff.h"
#include "sim/exec/piece.h"

/* Bytes of data that fit in @n cache lines of a slot. */
#define SLOTS_BYTES(n) ((n)*CACHE_LINE - 2 * sizeof(uint64_t))

/* Bytes of data that fit in one slot. */
#define SLOT_BYTES SLOTS_BYTES(17)

/* A slot: the call that a rank publishes for a round. */
struct slot {
	/* Atomic; number of the round, counted from 1.  Stored with release
	 * after the rest of the slot is written; loaded with acquire before
	 * another rank reads the rest. */
	_Alignas(CACHE_LINE) _Atomic uint64_t number;
	uint64_t what; /* word that describes the call or calls (call_what()) */
	union {
		char data[SLOT_BYTES];  /* data of an inline round */
		struct rank_buffers at; /* buffers of a split round */
	};
};

/* Return the slot of @rank for round @number. */
static inline struct slot *slot_of(const struct world *w, uint64_t number,
                                   int rank)
{
	return &w->slots[number % 2 * (size_t)w->n + (size_t)rank];
}

static inline const struct call *slot_call(const struct launch *l)
{
	return &l->calls[l->calls_done];
}

/* Return the slot that a launch writes next, for all of its calls or, if
 * @is_one, for the next call.  The slot's member @what is already set.  The
 * caller fills in the rest and calls slot_send(). */
static inline struct slot *slot_next(const struct world *w, struct launch *l,
                                     bool is_one)
{
	struct slot *mine = slot_of(w, ++l->member->slots, l->member->rank);

	l->slot = l->member->slots;
	mine->what =
		is_one && l->call_count > 1 ? call_what(slot_call(l)) : l->what;
	return mine;
}

/* Advance the rank to its next round without writing a slot. */
static inline void slot_skip(struct launch *l)
{
	l->slot = ++l->member->slots;
}

/* Publish a slot that slot_next() returned. */
static inline void slot_send(struct slot *mine, const struct launch *l)
{
	store_release(&mine->number, l->slot);
}

static inline bool slots_are_met(const struct world *w, const struct launch *l)
{
	int r;

	for (r = 0; r < w->n; r++)
		if (load_acquire(&slot_of(w, l->slot, r)->number) != l->slot)
			return false;
	return true;
}

/* Relation between the calls of all ranks in a round. */
enum slots {
	SLOTS_SAME,    /* all ranks have the same call, or the same calls */
	SLOTS_GROUPED, /* calls differ, and some ranks have several calls */
	SLOTS_DIFFER,  /* calls differ, and each rank has one call */
};

/* Compare the slots of all ranks.  Only valid after all slots have arrived. */
static inline enum slots slots_compare(const struct world *w,
                                       const struct launch *l)
{
	const uint64_t first = slot_of(w, l->slot, 0)->what;
	bool same = true, lists = call_what_is_list(first);
	uint64_t what;
	int r;

	for (r = 1; r < w->n; r++) {
		what = slot_of(w, l->slot, r)->what;
		same &= what == first;
		lists |= call_what_is_list(what);
	}
	return same ? SLOTS_SAME : lists ? SLOTS_GROUPED : SLOTS_DIFFER;
}

#endif
