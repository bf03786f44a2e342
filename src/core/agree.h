/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_AGREE_H
#define CORE_AGREE_H

/*
 * Agreement: before a collective is launched, it is compared with what the
 * other ranks called under the same number, also those of other processes of
 * the machine (remote_agreement.h)
 *
 * A rank that calls after a mismatch must not launch.  It waits a moment for
 * the other ranks, so that the odd one can be named, and ends the clique.
 *
 *  A. Calls that differ in kind, operation, root, or in the count or type of
 *     any tensor are an error on every rank, not a hang.
 *  B. Ranks of a process that have launched have called the same, and before
 *     any that differs.
 *  C. A rank cannot have more collectives in flight than the clique has shared
 *     words: it waits for the ranks that are further behind.
 */

#include "core/agree_words.h"

/*
 * Agree on the next collective of @comm, with @digest, whose record is @ticket,
 * called at @now_ns.  COHORT_OK; or COHORT_MISMATCH, and the clique has been
 * ended with the calls spelled out; or the status of a cause that came
 * meanwhile.  @comes_last: whether all ranks of the clique are counted with
 * this one.
 *
 * With the lock held.  Blocks while the rank is too far ahead, and after a
 * mismatch for a second at most.
 */
int agree(struct cohort_comm *comm, const struct op *op, uint32_t digest,
          uint64_t ticket, uint64_t now_ns, bool *comes_last);

#endif
