/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_SPLIT_H
#define CORE_SPLIT_H

/*
 * Splitting: how the ranks of a clique become ranks of new cliques
 *
 * All ranks of this process meet in memory first, each with its lock held.  The
 * last one has a private thread make the native calls of all ranks in one
 * group, as opening does, and the others wait for that.  So no thread of the
 * program is ever inside a native call that waits for other ranks; a rank that
 * does not come is a collective that does not go on, and named as such; and
 * what hangs in NCCL is ended after the init deadline, by an abort of the
 * parent, for which NCCL also raises the flags of the child that is being made.
 * Until that thread is out, or the abort is given up, the ranks stay inside
 * their locks: the parent is not freed under the thread.
 */

#include "core/clique.h"
#include "core/connect.h"

/* One rank's call. */
struct split_call {
	int color; /* or COHORT_NO_COLOR */
	int key;
	struct cohort_comm **child; /* the result; written on success */

	/* Make cliques of those of the @n @ranks of @parent that have a
	 * communicator, each at its new rank.  Takes them over, whatever it
	 * answers. */
	int (*open)(struct clique *parent, const struct split_rank *ranks,
	            int n);
};

/* Take part.  With the lock held, once all ranks agree that they split.  On an
 * error the clique has a cause. */
int split_run(struct cohort_comm *c, const struct split_call *call);

/* Give back what the @n @ranks have got, as there is no memory:
 * COHORT_NO_MEMORY. */
int split_discard(struct clique *parent, const struct split_rank *ranks, int n);

/* Set the communicator that rank @index of @parent gets from split_run(). */
void split_set_child(struct clique *parent, int index,
                     struct cohort_comm *child);

#endif
