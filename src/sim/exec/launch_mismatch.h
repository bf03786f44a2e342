/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_LAUNCH_MISMATCH_H
#define SIM_EXEC_LAUNCH_MISMATCH_H

/*
 * Ends the program, in strict mode, if calls of different ranks do not match
 *
 * NCCL would hang on such calls.  The message names both ranks and their calls.
 * All functions here are for strict mode only, and those with the suffix
 * _locked are called with the world's lock held.  Ranks that a scripted fault
 * has struck are skipped: the calls of such a rank might have changed, or be
 * out of step with the calls of other ranks.
 */

#include "sim/exec/world.h"

void mismatch_check_call(const struct member *m, const struct call *c,
                         const struct member *of, const struct call *first);

void mismatch_check_round_locked(const struct world *world);

void mismatch_check_message(const struct member *from, const struct call *send,
                            const struct member *to, const struct call *recv);

/* End the program if @launch is in a cycle of launches that wait for each
 * other.  Nothing can break such a cycle, because each rank's later calls run
 * after its launch. */
void mismatch_check_circle_locked(const struct launch *launch);

/* Return true if @launch waits for @rank in a send or receive or, if @in_calls,
 * in a collective.  Store the waiting call. */
bool mismatch_needs(const struct launch *launch, int rank, bool in_calls,
                    struct call *why);

#endif
