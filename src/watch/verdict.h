/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_VERDICT_H
#define WATCH_VERDICT_H

/*
 * What a snapshot means: pure functions, so that every hang can be tested as a
 * few numbers
 */

#include "watch/expiry.h"

/* A verdict with what it points to, which is all its own: whoever is told of it may
 * stay longer than the clique. */
struct verdict {
	struct cohort_verdict v;
	struct cohort_rank_report *ranks; /* room for all */
	struct stack_report *stacks;      /* room for STACK_RANKS */
	char group[sizeof(((struct clique *)NULL)->name)];
	char text[sizeof(((struct cohort_cause *)NULL)->text)];
};

/* Room for verdicts on @size ranks; false without memory. */
bool verdict_init(struct verdict *verdict, int size);
void verdict_fini(struct verdict *verdict);

/* What is said of one rank, of which @s tells when that was. */
void verdict_report(const struct snapshot *s, const struct rank_snapshot *r,
                    struct cohort_rank_report *out);

/* Why what is due does not go on. */
void verdict_stalled(const struct snapshot *s, const struct expiry *due,
                     struct verdict *out);

/* What ended the clique. */
void verdict_ended(const struct snapshot *s, const struct cohort_cause *cause,
                   struct verdict *out);

/* Why the end does not come to its own end. */
void verdict_wedged(const struct snapshot *s, struct verdict *out);

/* Why the prober does not come back. */
void verdict_prober(const struct snapshot *s, struct verdict *out);

/* The verdict as the cause of an end. */
struct cohort_cause verdict_cause(const struct verdict *verdict);

/* A copy, with all that it points to. */
void verdict_copy(struct verdict *to, const struct verdict *from);

#endif
