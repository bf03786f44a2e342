/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_COLLECTIVES_H
#define SIM_EXEC_COLLECTIVES_H

/*
 * The collectives of a launch, which the ranks do round after round (see
 * rendezvous.c)
 */

#include "sim/exec/world.h"

/* Arrive for the round of the next call, or calls.  True if that was the last
 * rank to arrive: then the caller has to call round_begin(). */
bool collectives_arrive(struct world *world, struct launch *launch);

/* Do what can be done of them.  True if this driver leaves something and does
 * not come again. */
bool collectives_do(struct world *world, struct launch *launch,
                    const struct drive *drive);

#endif
