/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_VERDICT_H
#define WATCH_VERDICT_H

/*
 * Makes verdicts from snapshots
 *
 * A verdict depends only on its snapshot, so a test can describe any hang with
 * a few numbers.
 */

#include "watch/expiry.h"

/* Sizes of the two forms of a verdict's text, see render.h. */
#define VERDICT_LINE 201
#define VERDICT_TEXT sizeof(((struct cohort_cause *)NULL)->details)

/* A verdict that owns all memory that it points to, because the callback that
 * gets it may outlive the clique. */
struct verdict {
	struct cohort_verdict v;
	struct cohort_rank_report *ranks; /* room for all ranks */
	struct stack_report *stacks;      /* room for STACK_RANKS */
	char group[sizeof(((struct clique *)NULL)->name)];
	char call[WAITS_CALL];
	char line[VERDICT_LINE];
	char text[VERDICT_TEXT];
};

/* Allocate a verdict on @size ranks.  Returns false if out of memory. */
bool verdict_init(struct verdict *verdict, int size);
void verdict_fini(struct verdict *verdict);

/* Store in @out the report on @r, a rank of @s. */
void verdict_report(const struct snapshot *s, const struct rank_snapshot *r,
                    struct cohort_rank_report *out);

/* Make the verdict on the front collective or the transfer, whichever @due says
 * makes no progress. */
void verdict_stalled(const struct snapshot *s, const struct expiry *due,
                     struct verdict *out);

/* Make the verdict on the cause that ended the clique. */
void verdict_ended(const struct snapshot *s, const struct cohort_cause *cause,
                   struct verdict *out);

/* Make the verdict on why the teardown of the clique has not completed. */
void verdict_wedged(const struct snapshot *s, struct verdict *out);

/* Make the verdict on a prober that has not returned from its native call. */
void verdict_prober(const struct snapshot *s, struct verdict *out);

/* Return a cause for ending the clique, made from the verdict. */
struct cohort_cause verdict_cause(const struct verdict *verdict);

/* Copy a verdict and the memory that it points to. */
void verdict_copy(struct verdict *to, const struct verdict *from);

#endif
