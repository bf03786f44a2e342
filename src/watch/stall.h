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

#endif
