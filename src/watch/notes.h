/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_NOTES_H
#define WATCH_NOTES_H

/*
 * Writes the "note" and "also" rows of a verdict's block (see render.h):
 * replies of other processes, tags that differ, and both halves of a transfer
 */

#include "watch/verdict.h"

/* Add the rows, each after a newline. */
void notes_add(struct text *t, const struct snapshot *s,
               const struct expiry *due, const struct cohort_verdict *v);

/* If a rank is missing only because its thread is inside the call of another
 * rank, add "; one thread makes the calls of ranks 0 and 1: ...". */
void notes_add_hint(struct text *t, const struct snapshot *s);

#endif
