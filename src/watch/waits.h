/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_WAITS_H
#define WATCH_WAITS_H

/*
 * The graph of waits: which rank waits for which, over all communicators of the process
 *
 * A node is a rank in all its communicators: those of one family (a group and what was
 * split from it) that have the same rank of the group, and those of other groups that
 * the same thread calls for.  There is an edge from rank A to rank B if the thread of A
 * waits in an operation that B has not called or not reached.  A rank without edges to
 * others is a culprit: ranks wait for it, and it waits for nobody.  If every rank that
 * is reached has edges, they wait in a cycle.
 */

#include "watch/snapshot.h"

/*
 * Follow the waits of the ranks of @clique that the snapshot's front waits for, or its
 * transfer, into s->waits.  Takes the lock of clique_tree.c.
 */
void waits_take(struct snapshot *s, const struct clique *clique,
                bool is_transfer);

/*
 * Follow the waits of rank @c, which has not called collective @number of its clique, into
 * @out.  Takes the lock of clique_tree.c.
 */
void waits_of(const struct cohort_comm *c, uint64_t number, struct waits *out);

/* The clique of that identity, if it has not ended, with a reference to be put; else
 * NULL.  Takes the lock of clique_tree.c. */
struct clique *waits_clique(uint64_t identity);

/* The rank, by its number in the group that all was split from, of this process that is to
 * blame if collective @number of the clique with @identity waits for this process; -1 if
 * that does not.  Takes the lock of clique_tree.c. */
int waits_resolve(uint64_t identity, uint64_t number);

/* Set .waits_for of those of the @n ranks at @x, of other processes, that wait for ranks of
 * this process, which may wait themselves.  @q is the clique that they were asked about. */
void waits_resolve_all(const struct clique *q, struct remote_rank *x, int n);

#endif
