/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_MISMATCH_H
#define CORE_MISMATCH_H

/*
 * Ranks that called different things under one number: which rank is the odd
 * one, and the text that spells the calls out; and the text for a send and a
 * receive that do not fit
 */

#include <stdint.h>

struct cohort_comm;
struct transfer;

/* End the clique of @comm, whose ranks call different things under @number,
 * with every side's call in the cause.  @ticket: of @comm's record.  Waits for
 * the other ranks' calls first, a second at most, and 0.2 s for what other
 * processes say of theirs.  Returns COHORT_MISMATCH, with the same text as this
 * thread's error. */
int mismatch_end(struct cohort_comm *comm, uint64_t number, uint64_t ticket);

/* End the clique of @comm, whose half @own of a transfer differs from the
 * peer's half @other, with both calls in the cause.  Of @other only the
 * direction, count, type and kind of memory are needed.  Does not wait.
 * Returns COHORT_MISMATCH, with the same text as this thread's error. */
int mismatch_end_transfer(struct cohort_comm *comm, const struct transfer *own,
                          const struct transfer *other);

#endif
