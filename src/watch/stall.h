/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_STALL_H
#define WATCH_STALL_H

/*
 * Why what is due does not go on: the parts of verdict_stalled(), each of which
 * says whom it waits for, and writes that to a text
 */

#include "watch/verdict.h"

void stall_front(const struct snapshot *s, const struct expiry *due,
                 struct verdict *out, struct text *t);
void stall_transfer(const struct snapshot *s, const struct expiry *due,
                    struct verdict *out, struct text *t);

/* What is so of both: whether ranks wait for each other, which is nobody's fault
 * alone and so takes the place of what was found, and how.  Rooms for a cycle. */
struct circle {
	int places[COHORT_MAX_RANKS];
	int n; /* 0: there is none */
};

void stall_find_circle(const struct snapshot *s, bool is_transfer,
                       struct circle *circle, struct cohort_verdict *v);
void stall_add_circle(struct text *t, const struct snapshot *s,
                      const struct circle *circle);

/* ": never called; waited for 10.0 s, allowed are 10.0 s", and whether it is a rank's
 * fault. */
void stall_add_kind(struct text *t, const struct snapshot *s,
                    const struct expiry *due, const struct cohort_verdict *v);

/* What a rank is doing: about the front, if it has called that. */
void stall_add_rank(struct text *t, const struct snapshot *s,
                    const struct rank_snapshot *r);

/* What keeps a rank from calling. */
int stall_absence(const struct rank_snapshot *r);

#endif
