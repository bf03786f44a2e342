/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_SPLIT_ROUND_H
#define SIM_EXEC_SPLIT_ROUND_H

/*
 * Rounds for which every rank computes the division into shares by itself
 *
 * For a round of one call, each rank publishes its pointers in a slot, cuts the
 * round exactly as every other rank does, processes its share, and publishes
 * that the share is finished.  The round has ended for a rank when it sees that
 * all shares are finished.  For each rank, two cache lines therefore cross
 * between cores, one at the start and one at the end, and no rank waits for
 * another to open or close a round.  A rank that has waited for a while takes
 * pieces from the shares of other ranks.  A small round is processed by one
 * rank alone, usually the last to arrive.
 *
 * With several calls, each rank publishes the address of its list of calls.
 */

#include "sim/exec/slot.h"

/* A round, as divided into shares by one rank. */
struct cut {
	uint64_t number;
	uint64_t what; /* word that describes the calls (call_what()) */
	struct round round;
	uint64_t pieces; /* number of pieces in all shares */
};

/* State of a rank in its split rounds.  "The rank's thread" is the one that
 * drives its stream.  Each word combines the number of a round with a number of
 * pieces. */
struct split_round {
	/* Atomic; number of claimed pieces of the rank's share, and the bit
	 * INSIDE if the rank's thread might be accessing other ranks' buffers.
	 * The bit is set (seq_cst) before this thread checks whether the world
	 * is broken. */
	_Alignas(CACHE_LINE) _Atomic uint64_t claimed;

	/* Atomic; number of pieces, of any share, that the rank's thread has
	 * finished.  Written by this thread only.  Stored with release and
	 * loaded with acquire, so that a thread that finds all pieces finished
	 * also sees their results. */
	_Alignas(CACHE_LINE) _Atomic uint64_t finished;

	/* The rank's last round.  Owned by the rank's thread. */
	_Alignas(CACHE_LINE) struct cut cut;
};

/* Arrive with the launch's next call or, if @is_one is false, with all of its
 * calls. */
void split_round_arrive(const struct world *world, struct launch *launch,
                        bool is_one);

/* Process pieces of the rank's own share, and of other shares after a while.
 * Returns true if the round has ended; otherwise, stores whether this thread
 * leaves pieces that could be done now.  Stops early if a rank was aborted or
 * the thread's time limit has passed.  Only valid after all slots have arrived,
 * with the same call or calls. */
bool split_round_do(struct world *world, struct launch *launch,
                    const struct drive *drive, bool *left_out);

/* Return true if another thread has recorded that the split round of @launch
 * has ended.  Threads record this only in worlds with more ranks than cores. */
static inline bool split_round_is_over(const struct world *w,
                                       const struct launch *l)
{
	return w->is_crowded && load_acquire(&w->over) >= l->slot;
}

/* Return the number of ranks whose threads are inside a split round. */
int split_round_inside(const struct world *world);

#endif
