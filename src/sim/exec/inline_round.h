/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_INLINE_ROUND_H
#define SIM_EXEC_INLINE_ROUND_H

/*
 * Rounds of one call so small that each rank brings its data with it
 *
 * The data are in the slots.  A rank that sees the slots of all ranks does its
 * own part, from the slots into its own receive buffer.  So no rank has to be
 * told that the round is over, and an abort need not wait for any.
 */

#include "sim/exec/slot.h"

/* True if a launch arrives in this way for its next call. */
bool inline_round_fits(const struct world *world, const struct launch *launch);

/* Arrive with the launch's next call, for which inline_round_fits().  What it
 * sends is read now.  inline_round_bring(): the same, with a slot from
 * slot_next() that says what is called. */
void inline_round_arrive(const struct world *world, struct launch *launch);
void inline_round_bring(const struct world *world, const struct launch *launch,
                        struct slot *mine);

/* Do the rank's part.  All slots have come, and say one and the same call. */
void inline_round_do(const struct world *world, const struct launch *launch);

#endif
