/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_SPLIT_ROUND_H
#define SIM_EXEC_SPLIT_ROUND_H

/*
 * Rounds that every rank cuts and does its own share of
 *
 * Of one call each rank brings its pointers in a slot, cuts the round for itself, as
 * every other does, works on its share and says when that is finished.  The round is
 * over for a rank when it sees that all shares are.  So two slots a rank cross between
 * the cores, one each way at the beginning and at the end, and no rank waits for
 * another to open or to close anything.  Who has waited a while takes pieces from the
 * shares of others.
 *
 * Of several calls each brings where they are, and a hash of them.  If all bring the
 * same, which each finds out for itself, it is a split round of all the calls; but
 * others may group them differently: then a round is opened, as without slots.  Of
 * calls whose first one goes by the counter a rank arrives by both.
 */

#include "sim/exec/slot.h"

/* A round as every rank cuts it for itself. */
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

/* What a rank has to do with it.  A word is the round's number and so many pieces. */
struct split_round {
	/* Atomic; of its share, claimed; and whether who drives its stream may touch
	 * the buffers of others, which is set (seq_cst) before a look at whether all
	 * is broken. */
	_Alignas(CACHE_LINE) _Atomic uint64_t claimed;

	/* Atomic; of any share, finished by who drives its stream, who writes it.
	 * Release: what was written.  Acquire: who has found all finished. */
	_Alignas(CACHE_LINE) _Atomic uint64_t finished;

	/* Owned by who drives the rank's launch: the last one. */
	_Alignas(CACHE_LINE) struct cut cut;
};

/* True if a launch arrives with a slot for its next call, which is not inline: not in
 * strict mode, which looks at the ranks that wait, nor where they wait for cores, nor
 * for what the last to arrive does at once. */
bool split_round_fits(const struct world *world, const struct launch *launch);

/* Arrive with the launch's next call, which fits. */
void split_round_arrive(const struct world *world, struct launch *launch);

/* True if the calls of a launch, if all have the same, are done in such a round, however
 * it arrives: they are several, none of them is done, and they are large enough. */
bool split_round_fits_list(const struct world *world,
                           const struct launch *launch);

/* Say in the slot of a launch where its calls are, if it does not say what they are:
 * several, or one that a place cannot say, which is not for such a round. */
void split_round_list(const struct world *world, const struct launch *launch,
                      struct slot *slot);

/* With all slots there: true if each has brought the same list, which fits. */
bool split_round_is_list(const struct world *world,
                         const struct launch *launch);

/* With all there, and one and the same call or list: do pieces of the rank's own
 * share, and if it @steals of others', until there are none, a rank was aborted, or the
 * driver's time is over.  True if the round is over; else *@left_out if this driver
 * leaves pieces and does not come again. */
bool split_round_do(const struct world *world, const struct launch *launch,
                    bool steals, const struct drive *drive, bool *left_out);

/* The same without doing any. */
bool split_round_is_over(const struct world *world,
                         const struct launch *launch);

/* The ranks whose drivers are inside. */
int split_round_inside(const struct world *world);

#endif
