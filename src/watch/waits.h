/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_WAITS_H
#define WATCH_WAITS_H

/*
 * Builds the graph of waits between ranks, over all communicators of the
 * process
 *
 * A node is a rank with all its communicators.  Within a family (a group and
 * everything that was split from it), these are the communicators of one rank
 * of the root group.  Communicators of other groups belong to the node if the
 * same thread makes their calls.  There is an edge from rank A to rank B if the
 * thread of A waits in an operation that B has not called or not reached.  A
 * rank without edges is a culprit: other ranks wait for it, and it waits for no
 * rank.  If every rank that is reached has edges, they wait in a cycle.
 */

#include "watch/snapshot.h"

/* Name of the operation in which a rank waits in cohort_comm_subset(). */
#define SUBSET "comm_subset"

/*
 * Store in s->waits the reason why the front collective of @s, or its transfer,
 * makes no progress.  Start at the ranks of @clique that the front or transfer
 * waits for, and follow their waits.  Takes the lock of clique_tree.c.
 */
void waits_take(struct snapshot *s, const struct clique *clique,
                bool is_transfer);

/*
 * Find out why rank @c has not called collective @number of its clique, and
 * store in @out the ranks that it waits for.  If @c waits for no rank, it is
 * the culprit itself.  For @age_ns, see struct missing.  Takes the lock of
 * clique_tree.c.
 */
void waits_of(const struct cohort_comm *c, uint64_t number, uint64_t age_ns,
              struct waits *out);

/* Return the operation that the snapshot's front collective or transfer waits
 * for. */
struct missing waits_question(const struct snapshot *s,
                              const struct clique *clique, bool is_transfer);

/* In links that wait for an unknown rank in operation @m, replace the unknown
 * rank with @world, a number in the root group. */
void waits_fill(struct waits *waits, const struct missing *m, int world);

#endif
