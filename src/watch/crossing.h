/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_CROSSING_H
#define WATCH_CROSSING_H

/*
 * Finds crossings: two communicators on the same devices that ranks use in
 * different orders.  Each of two ranks waits in one of the communicators for
 * the other rank, which waits in the other communicator.
 */

#include "watch/snapshot.h"

/* Look for a crossing of @clique with another clique on its devices, and store
 * it in @s.  Takes the lock of clique_tree.c. */
void crossing_take(struct snapshot *s, const struct clique *clique);

/*
 * Return true if a rank has not called a collective because it waits in another
 * communicator.  Add the call in which it waits to @t.  Takes the lock of
 * clique_tree.c.
 *
 * @rank:           the rank
 * @c:              its communicator in the clique of the collective
 * @collective:     number of the collective that @rank has not called
 * @is_opposed_out: set to true if another rank of this process has called the
 *                  collective, but not the call in which @rank waits
 */
bool crossing_holds(const struct rank_snapshot *rank,
                    const struct cohort_comm *c, uint64_t collective,
                    struct text *t, bool *is_opposed_out);

/* Add a row for each of the two ranks of the crossing in @s: "wait   rank 0
 * (...) has called collective 5 of "dp" 1.0 s ago, and not yet ...". */
void crossing_add(struct text *t, const struct snapshot *s);

#endif
