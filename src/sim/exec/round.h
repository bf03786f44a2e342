/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_ROUND_H
#define SIM_EXEC_ROUND_H

/*
 * Rounds that one rank opens and all do together, in pieces (see rendezvous.c)
 */

#include "sim/nccl/comm.h"

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

/* Nothing is started any more: a rank was aborted. */
void world_break(struct world *world);

/* Let every rank see what has changed; let the streams of the others go on. */
void round_kick_all(struct world *world);
void round_kick_others(const struct world *world, int rank);

#endif
