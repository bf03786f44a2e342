/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_MISMATCH_H
#define CORE_MISMATCH_H

/*
 * Reports of mismatches: a rank whose collective call differs from the other
 * ranks' calls under the same number, or a send and a receive that do not match
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "core/remote.h"

struct cohort_cause;
struct cohort_comm;
struct transfer;

/* The calls that ranks have made under a number, in the order of the ranks.
 * Ranks with equal words have made the same call. */
struct rank_calls {
	int n;
	struct remote_call of[];
};

/*
 * Append each group of ranks and its call, minorities first.  Add the ranks to
 * @cause->joined.  If a majority has made the same call, store the first rank
 * that has made another call in @cause->rank.  Accesses nothing but its
 * arguments.  Returns the first entry of the majority, or -1 if there is none.
 */
int mismatch_describe(const struct rank_calls *v, uint64_t number,
                      const char *group, bool is_child,
                      struct cohort_cause *cause, struct text *t);

/*
 * End the clique of @comm because its ranks make different calls under @number.
 * The cause describes each of the different calls.  First waits up to a second
 * for the other ranks' calls, and up to remote->patience_ns for reports from
 * other processes.
 * @ticket: ticket of @comm's record
 *
 * Returns COHORT_MISMATCH, and sets the text of the cause as this thread's
 * error.
 */
int mismatch_end(struct cohort_comm *comm, uint64_t number, uint64_t ticket);

/*
 * End the clique of @comm because its half @own of a transfer differs from the
 * peer's half @other; the text of the cause has both calls.  Does not wait.  Of
 * @other, only the direction, count, type and kind of memory are needed.
 *
 * Returns COHORT_MISMATCH, and sets the text of the cause as this thread's
 * error.
 */
int mismatch_end_transfer(struct cohort_comm *comm, const struct transfer *own,
                          const struct transfer *other);

#endif
