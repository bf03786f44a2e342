/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUARD_VERDICT_H
#define GUARD_VERDICT_H

/*
 * What a snapshot means: pure functions, so that every hang can be tested as a
 * few numbers
 */

#include "guard/snapshot.h"

/* What is to be said of the front now, or of a transfer. */
struct due {
	bool is_transfer;
	enum { DUE_NOTHING, DUE_WARNING, DUE_VERDICT } what;
	uint64_t since_ns;    /* the clock that decides, from when it runs */
	uint64_t deadline_ns; /* and what it allows */
	uint64_t next_ns;     /* when to look again at the latest, if nothing
	                         changes */
};

/* A verdict with what it points to, which is all its own: whoever is told of it may
 * stay longer than the clique. */
struct verdict {
	struct cohort_verdict v;
	struct cohort_rank_report *ranks; /* room for all */
	char group[sizeof(((struct clique *)NULL)->name)];
	char text[sizeof(((struct cohort_cause *)NULL)->text)];
};

/* Room for verdicts on @size ranks; false without memory. */
bool verdict_init(struct verdict *verdict, int size);
void verdict_fini(struct verdict *verdict);

/* Whether the time of the front, or of a transfer, is up. */
struct due verdict_due(const struct snapshot *s);

/* Why that does not go on. */
void verdict_stalled(const struct snapshot *s, const struct due *due,
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
