/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_WAITS_H
#define WATCH_WAITS_H

/*
 * The graph of waits: which rank waits for which, over all communicators of the
 * process
 *
 * A node is a rank in all its communicators: those of one family (a group and
 * what was split from it) that have the same rank of the group, and those of
 * other groups that the same thread calls for.  There is an edge from rank A to
 * rank B if the thread of A waits in an operation that B has not called or not
 * reached.  A rank without edges to others is a culprit: ranks wait for it, and
 * it waits for nobody.  If every rank that is reached has edges, they wait in a
 * cycle.
 */

#include "watch/snapshot.h"

/*
 * Follow the waits of the ranks of @clique that the snapshot's front waits for,
 * or its transfer, into s->waits.  Takes the lock of clique_tree.c.
 */
void waits_take(struct snapshot *s, const struct clique *clique,
                bool is_transfer);

/*
 * Follow the waits of rank @c, which has not called collective @number of its
 * clique, into @out.  @age_ns: see struct missing.  If it has no links, @c
 * itself is the culprit.  Takes the lock of clique_tree.c.
 */
void waits_of(const struct cohort_comm *c, uint64_t number, uint64_t age_ns,
              struct waits *out);

/* What the snapshot of @clique waits for: its front, or its transfer. */
struct missing waits_question(const struct snapshot *s,
                              const struct clique *clique, bool is_transfer);

/* Where links wait in @m, a collective, for ranks that were not known: it is
 * rank @world. */
void waits_fill(struct waits *waits, const struct missing *m, int world);

#endif
