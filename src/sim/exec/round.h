/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_ROUND_H
#define SIM_EXEC_ROUND_H

/*
 * Rounds that one rank opens and all do together, in pieces (see rendezvous.c)
 */

#include "sim/exec/world.h"

/* What the phase of a world says: two for each round that has ended, and one if
 * another is open. */
#define PHASE_ROUND 2
#define PHASE_OPEN 1

/* For the last rank to arrive: open the next round, or do it at once if it is
 * small.  That is done inside, so that no rank is cut short meanwhile. */
void round_begin(struct world *world, int rank);

/* As round_begin(), where all ranks have come with slots, for the one that has
 * to open the round (slot_opens()). */
void round_open(struct world *world, int rank);

/* Go inside the round that is open; false if none is, or the world is
 * broken. */
bool round_enter(struct world *world);

/* Go outside, with @n pieces done.  The last thread to go ends the round if all
 * pieces are done and, if a rank was aborted, wakes the ranks that wait until
 * no thread is inside. */
void round_leave(struct world *world, int rank, size_t n);

/* How many threads may touch buffers of a round. */
int round_inside(const struct world *world);

#endif
