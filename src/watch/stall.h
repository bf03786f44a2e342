/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_STALL_H
#define WATCH_STALL_H

/*
 * Why the front, or a transfer, does not go on: the two halves of verdict_stalled().
 * Each stores in @out which ranks it waits for and writes that to @t.
 */

#include "watch/verdict.h"

void stall_front(const struct snapshot *s, const struct expiry *due,
                 struct verdict *out, struct text *t);
void stall_transfer(const struct snapshot *s, const struct expiry *due,
                    struct verdict *out, struct text *t);

/* What a rank is at fault for if the front waits for it: enum cohort_verdict_kind. */
int stall_kind(const struct snapshot *s, const struct rank_snapshot *r);

/* True if no rank of this process is at fault, so that the others' may tell more. */
bool stall_is_remote(const struct snapshot *s);

#endif
