/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_TINY_H
#define HOST_TINY_H

/*
 * Rounds of one call so small that each rank brings its data with it
 *
 * To arrive is to write one cache line of one's own, number and data, and a rank
 * that sees the lines of all does its own part, from them into its own buffer.  So
 * nobody writes what another one writes, nobody is told that the round is over, and
 * an abort need not wait for anybody.  There are two lines a rank, used in turn:
 * who arrives for a round has seen all arrive for the one before, who have read the
 * lines of the one before that.
 *
 * Which way a call is done depends on nothing but the call and the world, so ranks
 * that call the same do the same.
 */

#include "platform/host/comm.h"

#define TINY_RANKS 8
#define TINY_BYTES (CACHE_LINE - 2 * sizeof(uint64_t))

/* What a rank brings to a tiny round. */
struct tiny {
	/* Atomic; of the round, counted from 1.  Release: what and the data.
	 * Acquire: who has found it reads them. */
	_Alignas(CACHE_LINE) _Atomic uint64_t number;
	uint64_t what;
	char data[TINY_BYTES];
};

/* True if a call is done in this way; none is in strict mode, which looks at the
 * ranks that wait, nor where there are more lines than are worth to be read. */
bool tiny_fits(const struct world *world, const struct call *call);

/* Arrive with the launch's next call, which fits; what it sends is read now. */
void tiny_arrive(struct world *world, struct launch *launch);

/* True if all have arrived. */
bool tiny_is_met(const struct world *world, const struct launch *launch);

/* Do the rank's part, with all there.  False if they did not call the same. */
bool tiny_do(const struct world *world, const struct launch *launch);

#endif
