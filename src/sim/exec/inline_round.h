/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_INLINE_ROUND_H
#define SIM_EXEC_INLINE_ROUND_H

/*
 * Rounds of one call so small that the data fits in the slots
 *
 * Each rank copies its data into its slot.  A rank that sees the slots of all
 * ranks computes its own result from the slots, in its own receive buffer.  So
 * no rank needs to be notified that the round has ended, and an abort need not
 * wait for other ranks.
 */

#include "sim/exec/slot.h"

bool inline_round_fits(const struct world *world, const struct launch *launch);

/* Arrive with the launch's next call, for which inline_round_fits() is true.
 * This function reads the data to send before it returns. */
void inline_round_arrive(const struct world *world, struct launch *launch);

/* Compute the rank's result of an inline round.  Only valid after all slots
 * have arrived and contain the same call. */
void inline_round_do(const struct world *world, const struct launch *launch);

#endif
