/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_LAUNCH_MISMATCH_H
#define SIM_EXEC_LAUNCH_MISMATCH_H

/*
 * Strict mode: calls of different ranks that do not match, on which NCCL would
 * hang, end the program and are named
 *
 * For use in strict mode only, with the world's lock held.  A rank that a
 * scripted fault has struck is not looked at: its calls may have changed, or be
 * out of step with the others'.
 */

#include "sim/exec/world.h"

/* The ranks' next collectives, after @same that all have in common, differ; the
 * two ends of a message differ. */
void mismatch_check_round_locked(const struct world *world, size_t same);
void mismatch_check_message_locked(const struct transfer *send);

/* Launches that have arrived wait for each other in a circle, which cannot be
 * broken, as each rank's next calls come after. */
void mismatch_check_circle_locked(const struct launch *launch);

/* How many collectives of a launch that has arrived need no other rank to
 * arrive any more, whether or not somebody has seen that yet. */
size_t mismatch_calls_met(const struct launch *launch);

#endif
