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
 * it in @s.  If there is none, look for one in the replies of other processes
 * in @s.  Takes the lock of clique_tree.c. */
void crossing_take(struct snapshot *s, const struct clique *clique);

/*
 * crossing_holds - look for another communicator that a rank called in first
 * @rank:       the rank
 * @c:          its communicator in the clique of the collective
 * @collective: number of the collective
 * @t:          if the rank has not called the collective because it waits in
 *              another communicator, its call there is added
 * @out:        .before and .members are set if the rank has called in another
 *              communicator first.  .kind is set to COHORT_VERDICT_ORDER if, in
 *              addition, another rank of this process has called in the
 *              opposite order.
 *
 * Takes the lock of clique_tree.c.
 *
 * Returns true if a call was added to @t.
 */
bool crossing_holds(const struct rank_snapshot *rank,
                    const struct cohort_comm *c, uint64_t collective,
                    struct text *t, struct remote_rank *out);

/* Return the ranks whose order differs from that of most ranks in both
 * communicators or, if the crossing has ended the other group, the ranks that
 * its cause blames.  Return NULL if no order has a majority. */
const uint64_t *crossing_odd(const struct crossing *x);

/* Add a row for each of the two ranks of the crossing in @s: "wait   rank 0
 * (...) has called collective 5 of "dp" 1.0 s ago, and not yet ...". */
void crossing_add(struct text *t, const struct snapshot *s);

#endif
