/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_SPLIT_H
#define CORE_SPLIT_H

/*
 * Splitting: how the ranks of a clique become those of others
 *
 * All ranks of this process meet in memory first, each inside its gate; the last to
 * come has a private thread make the native calls of all in one group, as opening
 * does, and the others wait for that.  So no thread of the program is ever inside a
 * native call that waits for other ranks; a rank that does not come is a collective
 * that does not go on, and named as such; and what hangs in there is ended after the
 * init deadline, by an abort of the parent, for which NCCL raises the flags of the
 * child that is being made, too.  Until that thread is out, or the abort is given up,
 * the ranks stay inside their gates: the parent is not freed under it.
 */

#include "core/clique.h"
#include "core/connect.h"

/* One rank's call. */
struct split_call {
	int color; /* or COHORT_NO_COLOR */
	int key;
	struct cohort_comm **child; /* what comes of it; written on success */

	/* Make cliques of the @n @ranks of @parent that have got a communicator, by
	 * rank of it.  Those are its own from now on, whatever it answers. */
	int (*open)(struct clique *parent, const struct split_rank *ranks,
	            int n);
};

/* Take part.  Inside the gate, once all ranks agree that they split.  On an error
 * the clique has a cause. */
int split_run(struct cohort_comm *c, const struct split_call *call);

/* Take back what the @n @ranks have got, for want of memory: COHORT_NO_MEMORY. */
int split_discard(struct clique *parent, const struct split_rank *ranks, int n);

/* Say which communicator rank @rank of @parent has got, which that returns. */
void split_set_child(struct clique *parent, int index,
                     struct cohort_comm *child);

#endif
