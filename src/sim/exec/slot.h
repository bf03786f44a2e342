/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_SLOT_H
#define SIM_EXEC_SLOT_H

/*
 * Slots: how the ranks of a small world arrive for rounds of which each does
 * its own part (inline_round.c, split_round.c)
 *
 * A rank arrives by writing a slot of its own, and a rank that sees the slots
 * of all ranks need not be told anything else: no rank writes what another one
 * writes.  A slot is one cache line, or several if it holds more data.  Each
 * rank has two slots, used in turn: a rank that arrives for a round has seen
 * the one before end, for which all ranks had arrived, and so had read the
 * slots of the round before that.
 *
 * Which way a rank arrives depends on nothing but its next call and the world,
 * so that ranks with one call go one way; but a rank with several calls, the
 * first of which goes by the counter, may bring a slot as well.  If it turns
 * out that the ranks group their calls differently, one of them opens a round
 * like any other (rendezvous.c).
 */

#include "base/atomics.h"
#include "base/backoff.h"
#include "sim/exec/piece.h"

/* The most ranks of a world with slots: to read more slots is not worth it. */
#define SLOT_RANKS 8

/* How many bytes of data @n cache lines have room for; and one slot has. */
#define SLOTS_BYTES(n) ((n)*CACHE_LINE - 2 * sizeof(uint64_t))
#define SLOT_BYTES SLOTS_BYTES(17)

/* What a rank brings to a round. */
struct slot {
	/* Atomic; the number of the round, counted from 1.  Release: the rest
	 * of the slot.  Acquire: a rank that has found the number reads the
	 * rest. */
	_Alignas(CACHE_LINE) _Atomic uint64_t number;
	uint64_t what;
	union {
		char data[SLOT_BYTES]; /* of an inline round */
		struct {
			const void *send;
			void *recv;

			/* With several calls: a hash of what they are, or 0 if
			 * they are not for a split round; a hash of where their
			 * runs begin; and where their places are. */
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

/* The slot that a launch writes next, to be sent off with slot_send().  It says
 * what the launch calls, MANY_CALLS if there are several calls.  A rank that
 * arrives without a slot counts all the same (slot_skip()). */
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
	store_release(&mine->number, l->slot);
}

/* Prefetch the cache line at @p for writing.  (gcc's own builtin prefetches for
 * reading unless told which processor to compile for.) */
static inline void fetch_to_write(const void *p)
{
#ifdef __x86_64__
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
	__builtin_prefetch(p, 1);
#endif
}

/* When all slots have come: fetch the slot that the rank writes next, which the
 * others have read, into this core's cache. */
static inline void slot_fetch_next(const struct world *w,
                                   const struct launch *l)
{
	fetch_to_write(slot_of(w, l->slot + 1, l->member->rank));
}

/* True if all slots have come. */
static inline bool slots_are_met(const struct world *w, const struct launch *l)
{
	int r;

	for (r = 0; r < w->n; r++)
		if (load_acquire(&slot_of(w, l->slot, r)->number) != l->slot)
			return false;
	return true;
}

/* When all slots have come: true if each rank has brought one and the same
 * call. */
static inline bool slots_are_one(const struct world *w, const struct launch *l)
{
	const uint64_t what = slot_of(w, l->slot, 0)->what;
	int r;

	for (r = 1; r < w->n; r++)
		if (slot_of(w, l->slot, r)->what != what)
			return false;
	return what != MANY_CALLS;
}

/* When all slots have come, and the calls are not the same: true for the one
 * rank that has to open a round. */
static inline bool slot_opens(struct world *w, const struct launch *l)
{
	uint64_t last = load_relaxed(&w->opened);

	return last != l->slot &&
	       atomic_compare_exchange_strong_explicit(&w->opened, &last,
	                                               l->slot,
	                                               memory_order_relaxed,
	                                               memory_order_relaxed);
}

#endif
