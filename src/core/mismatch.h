/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_MISMATCH_H
#define CORE_MISMATCH_H

/*
 * Ranks that called different things under one number: which rank is the odd
 * one, and the text that spells the calls out
 */

#include <stdint.h>

struct cohort_comm;

/* End the clique of @comm, whose ranks call different things under @number,
 * with every side's call in the cause.  @ticket: of @comm's record.  Waits for
 * the other ranks' calls first, a second at most, and 0.2 s for what other
 * processes say of theirs.  Returns COHORT_MISMATCH, with the same text as this
 * thread's error. */
int mismatch_end(struct cohort_comm *comm, uint64_t number, uint64_t ticket);

#endif
