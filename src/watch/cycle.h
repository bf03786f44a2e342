/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_CYCLE_H
#define WATCH_CYCLE_H

/*
 * Ranks that wait for each other: in one communicator, or in two
 *
 * A *cycle* is in one communicator.  Rank A waits for rank B if A has come to
 * an operation that needs B, and B either has called the operation but has not
 * come to it yet, or has not called it and will not soon, because its thread
 * waits for a ticket or is inside another call.
 *
 * A *crossing* is between two communicators on the same devices that ranks use
 * in different orders: each of two ranks waits in one of them for the other
 * rank, which waits in the other one.
 */

#include "watch/snapshot.h"

struct cycle {
	int places[COHORT_MAX_RANKS]; /* in the snapshot's ranks: each waits for
	                                 the next, the last for the first */
	int n;                        /* 0: there is no cycle */
};

/* True if the thread of @r is not about to make its next call: it waits for a
 * ticket, or is inside another call. */
bool cycle_is_blocked(const struct rank_snapshot *r);

/* Find a cycle, starting from the ranks that have called the front, or from the
 * one with the transfer.  A pure function. */
void cycle_find(const struct snapshot *s, bool is_transfer,
                struct cycle *cycle);

/* Add a row for each rank in the cycle: "wait   rank 0 (...), for rank 1 in
 * ...". */
void cycle_add(struct text *t, const struct snapshot *s,
               const struct cycle *cycle);

/* Compare @s with the other cliques on these devices, and store the crossing
 * that is found in @s.  Takes the lock of clique_tree.c. */
void crossing_take(struct snapshot *s, const struct clique *clique);

/*
 * True if @rank, which is @c's and has not called @collective there, waits in
 * another communicator instead: that one's call is added to @t.
 * @is_opposed_out: another rank of this process has called @collective, and not
 *                  that call
 *
 * Takes the lock of clique_tree.c.
 */
bool crossing_holds(const struct rank_snapshot *rank,
                    const struct cohort_comm *c, uint64_t collective,
                    struct text *t, bool *is_opposed_out);

/* Add a row for both ranks of the crossing in @s: "wait   rank 0 (...) has
 * called this, 1.0 s ago, and not yet ...". */
void crossing_add(struct text *t, const struct snapshot *s);

#endif
