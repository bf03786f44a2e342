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

/* By the last to arrive: begin the next round, or do it if it is small.  From inside,
 * so that no rank is cut short meanwhile. */
void round_begin(struct world *world, int rank);

/* The same by who has to where all have come with slots. */
void round_open(struct world *world, int rank);

/* Go inside the round that is open; false if none is, or all is broken. */
bool round_enter(struct world *world);

/* Go outside, with @n pieces done.  The last one ends the round if that was all,
 * and if a rank was aborted tells those who wait for nobody to be inside. */
void round_leave(struct world *world, int rank, size_t n);

/* Threads that may touch buffers of a round. */
int round_inside(const struct world *world);

#endif
