/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GUARD_STALL_H
#define GUARD_STALL_H

/*
 * Why what is due does not go on: the parts of verdict_stalled(), each of which
 * says whom it waits for, and writes that to a text
 */

#include "guard/verdict.h"

void stall_front(const struct snapshot *s, const struct due *due,
                 struct verdict *out, struct text *t);
void stall_transfer(const struct snapshot *s, const struct due *due,
                    struct verdict *out, struct text *t);

/* What keeps a rank from calling. */
int stall_absence(const struct rank_snapshot *r);

#endif
