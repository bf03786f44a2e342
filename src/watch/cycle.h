/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_CYCLE_H
#define WATCH_CYCLE_H

/*
 * Ranks that wait for each other: a pure function
 *
 * A rank waits for another if it has come to an operation that does not go on
 * without that one: which has called it, but not come to it; or has not called it, and
 * will not soon, as it waits for a ticket or is inside another call.
 */

#include "watch/snapshot.h"

/* Find ranks of which each waits for the next, and the last for the first, starting
 * from those that have called the front, or from the one with the transfer.  How many
 * there are, 0: none; their places in @s->ranks, into room for all. */
int cycle_find(const struct snapshot *s, bool is_transfer, int *places);

/* The call in which @a waits for @b, which it does. */
const struct record *cycle_call(const struct rank_snapshot *a,
                                const struct rank_snapshot *b);

#endif
