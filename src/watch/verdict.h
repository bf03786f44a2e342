/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_VERDICT_H
#define WATCH_VERDICT_H

/*
 * Verdicts: what a snapshot means.  Pure functions, so that every hang can be
 * tested as a few numbers
 */

#include "watch/expiry.h"

/* Room for the two forms of a verdict's text: see render.h. */
#define VERDICT_LINE 201
#define VERDICT_TEXT sizeof(((struct cohort_cause *)NULL)->details)

/* A verdict that owns all it points to, because the callback that is told of it
 * may outlive the clique. */
struct verdict {
	struct cohort_verdict v;
	struct cohort_rank_report *ranks; /* room for all */
	struct stack_report *stacks;      /* room for STACK_RANKS */
	char group[sizeof(((struct clique *)NULL)->name)];
	char line[VERDICT_LINE];
	char text[VERDICT_TEXT];
};

/* Allocate room for verdicts on @size ranks; false if out of memory. */
bool verdict_init(struct verdict *verdict, int size);
void verdict_fini(struct verdict *verdict);

/* The report on one rank; @s has the front and the time. */
void verdict_report(const struct snapshot *s, const struct rank_snapshot *r,
                    struct cohort_rank_report *out);

/* Why the front, or the transfer, in @due makes no progress. */
void verdict_stalled(const struct snapshot *s, const struct expiry *due,
                     struct verdict *out);

/* What ended the clique. */
void verdict_ended(const struct snapshot *s, const struct cohort_cause *cause,
                   struct verdict *out);

/* Why the clique's end does not complete. */
void verdict_wedged(const struct snapshot *s, struct verdict *out);

/* Why the prober has not returned from its native call. */
void verdict_prober(const struct snapshot *s, struct verdict *out);

/* The verdict as the cause of an end. */
struct cohort_cause verdict_cause(const struct verdict *verdict);

/* Copy a verdict with all it points to. */
void verdict_copy(struct verdict *to, const struct verdict *from);

#endif
