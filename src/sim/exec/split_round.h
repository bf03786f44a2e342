/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_SPLIT_ROUND_H
#define SIM_EXEC_SPLIT_ROUND_H

/*
 * Rounds that every rank cuts for itself, and does its own share of
 *
 * For a round of one call each rank brings its pointers in a slot, cuts the
 * round for itself as every other rank does, works on its share and says when
 * that is finished.  The round is over for a rank when it sees that all shares
 * are finished.  So two cache lines cross between the cores for each rank, one
 * at the beginning and one at the end, and no rank waits for another to open or
 * close anything.  A rank that has waited for a while takes pieces from the
 * shares of others.
 *
 * With several calls each rank brings where they are, and a hash of them.  Each
 * rank finds out for itself whether all have brought the same calls.  If so it
 * is a split round of all these calls; if not, as ranks may group calls
 * differently, a round is opened as without slots.  If the first of several
 * calls goes by the counter, a rank arrives by both the counter and a slot.
 */

#include "sim/exec/slot.h"

/* A round as a rank cuts it for itself. */
struct cut {
	uint64_t number;
	struct round round;
	struct place places[SLOT_RANKS];       /* of one call */
	const struct place *lists[SLOT_RANKS]; /* of several */
	struct {
		size_t begin, end;
		uint64_t pieces;
	} shares[SLOT_RANKS];
	uint64_t pieces; /* of all */
};

/* What a rank has of its split rounds.  A word is the round's number and a
 * number of pieces. */
struct split_round {
	/* Atomic; how many pieces of the rank's share are claimed; and whether
	 * the driver of its stream may touch the buffers of others, which is
	 * set (seq_cst) before a look at whether the world is broken. */
	_Alignas(CACHE_LINE) _Atomic uint64_t claimed;

	/* Atomic; how many pieces of any share the driver of the rank's stream
	 * has finished.  Only that driver writes it.  Release: what was
	 * written.  Acquire: a driver that finds all finished. */
	_Alignas(CACHE_LINE) _Atomic uint64_t finished;

	/* Owned by the driver of the rank's launch: the last round. */
	_Alignas(CACHE_LINE) struct cut cut;
};

/* True if a launch arrives with a slot for its next call, which is not for an
 * inline round.  Not where ranks wait for cores, nor for so few bytes that the
 * last rank to arrive does them at once. */
bool split_round_fits(const struct world *world, const struct launch *launch);

/* Arrive with the launch's next call, for which split_round_fits(). */
void split_round_arrive(const struct world *world, struct launch *launch);

/* True if all calls of a launch are done in one split round if the ranks have
 * the same calls, however it arrives: they are several, none of them is done,
 * and they are large enough. */
bool split_round_fits_list(const struct world *world,
                           const struct launch *launch);

/* Say in the slot of a launch where its calls are, unless the slot says what
 * the one call is. */
void split_round_list(const struct world *world, const struct launch *launch,
                      struct slot *slot);

/* When all slots have come: true if each rank has brought the same list, for
 * which split_round_fits_list(). */
bool split_round_is_list(const struct world *world,
                         const struct launch *launch);

/* When all slots have come, with the same call or list: do pieces of the rank's
 * own share and, if it @steals, of the others', until there are none, a rank
 * was aborted, or the driver's time is over.  True if the round is over; else
 * stores whether this driver leaves pieces and does not come again. */
bool split_round_do(const struct world *world, const struct launch *launch,
                    bool steals, const struct drive *drive, bool *left_out);

/* True if the round is over. */
bool split_round_is_over(const struct world *world,
                         const struct launch *launch);

/* How many ranks' drivers are inside. */
int split_round_inside(const struct world *world);

#endif
