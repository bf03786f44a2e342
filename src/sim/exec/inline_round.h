/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_INLINE_ROUND_H
#define SIM_EXEC_INLINE_ROUND_H

/*
 * Rounds of one call so small that each rank brings its data with it
 *
 * The data are in the slots, and a rank that sees those of all does its own part,
 * from them into its own buffer.  So nobody is told that the round is over, and an
 * abort need not wait for anybody.
 */

#include "sim/exec/slot.h"

/* True if a launch arrives in this way for its next call; none does in strict mode,
 * which looks at the ranks that wait. */
bool inline_round_fits(const struct world *world, const struct launch *launch);

/* Arrive with the launch's next call, which fits; what it sends is read now. */
void inline_round_arrive(const struct world *world, struct launch *launch);

/* Do the rank's part, with all there, and one and the same call. */
void inline_round_do(const struct world *world, const struct launch *launch);

#endif
