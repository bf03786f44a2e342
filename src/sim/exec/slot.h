/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_SLOT_H
#define SIM_EXEC_SLOT_H

/*
 * Slots: how the ranks of a small world arrive for rounds that each does its own
 * part of (inline_round.c, split_round.c)
 *
 * To arrive is to write a slot of one's own, and a rank that sees the slots of all is
 * told nothing more: nobody writes what another one writes.  A slot is one cache line,
 * or with more data several.  There are two slots a rank, used in turn: who arrives for
 * a round has seen the one before end, for which all had arrived who have read the
 * slots of the one before that.
 *
 * Which way a rank arrives depends on nothing but its next call and the world, so
 * that those who call the same go the same way; but of several calls one that goes by
 * the counter may bring a slot besides.  If it turns out that they group their calls
 * differently, one of them opens a round like any other (rendezvous.c).
 */

#include "base/backoff.h"
#include "sim/exec/piece.h"

/* More slots are not worth to be read. */
#define SLOT_RANKS 8

/* The data that so many cache lines have room for; and in one slot of a rank. */
#define SLOTS_BYTES(n) ((n)*CACHE_LINE - 2 * sizeof(uint64_t))
#define SLOT_BYTES SLOTS_BYTES(17)

/* What a rank brings. */
struct slot {
	/* Atomic; of the round, counted from 1.  Release: the rest.  Acquire:
	 * who has found it reads that. */
	_Alignas(CACHE_LINE) _Atomic uint64_t number;
	uint64_t what;
	union {
		char data[SLOT_BYTES]; /* of an inline round */
		struct {
			const void *send;
			void *recv;

			/* Of several calls: a hash of what they are, or 0 if
			 * they are not for a split round, one of where their
			 * runs begin, and where all are. */
			uint64_t hash;
			uint64_t runs;
			const struct place *places;
		} at; /* of a split one */
	};
};

/* The slot of @rank for round @number. */
static inline struct slot *slot_of(const struct world *w, uint64_t number,
                                   int rank)
{
	return &w->slots[number % 2 * (size_t)w->n + (size_t)rank];
}

/* The next call of a launch. */
static inline const struct call *slot_call(const struct launch *l)
{
	return &l->calls[l->calls_done];
}

/* The slot that a launch now writes, to send it off with slot_send(): what it calls
 * is in it, MANY_CALLS if there are more.  Who arrives without one counts on, too. */
static inline struct slot *slot_next(const struct world *w, struct launch *l)
{
	struct slot *mine = slot_of(w, ++l->member->slots, l->member->rank);

	l->slot = l->member->slots;
	mine->what = launch_place(l).what;
	return mine;
}

static inline void slot_skip(struct launch *l)
{
	l->slot = ++l->member->slots;
}

static inline void slot_send(struct slot *mine, const struct launch *l)
{
	atomic_store_explicit(&mine->number, l->slot, memory_order_release);
}

/* With all there: have the slot that the rank writes next be its own again, which the
 * others have read. */
static inline void slot_fetch_next(const struct world *w,
                                   const struct launch *l)
{
	cpu_fetch_to_write(slot_of(w, l->slot + 1, l->member->rank));
}

/* True if all have arrived. */
static inline bool slots_are_met(const struct world *w, const struct launch *l)
{
	int r;

	for (r = 0; r < w->n; r++)
		if (atomic_load_explicit(&slot_of(w, l->slot, r)->number,
		                         memory_order_acquire) != l->slot)
			return false;
	return true;
}

/* With all there: true if each has brought one and the same call. */
static inline bool slots_are_one(const struct world *w, const struct launch *l)
{
	const uint64_t what = slot_of(w, l->slot, 0)->what;
	int r;

	for (r = 1; r < w->n; r++)
		if (slot_of(w, l->slot, r)->what != what)
			return false;
	return what != MANY_CALLS;
}

/* With all there, if that is not so: true for the one who has to open a round. */
static inline bool slot_opens(struct world *w, const struct launch *l)
{
	uint64_t last = atomic_load_explicit(&w->opened, memory_order_relaxed);

	return last != l->slot &&
	       atomic_compare_exchange_strong_explicit(&w->opened, &last,
	                                               l->slot,
	                                               memory_order_relaxed,
	                                               memory_order_relaxed);
}

#endif
