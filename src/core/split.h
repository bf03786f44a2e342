/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_SPLIT_H
#define CORE_SPLIT_H

/*
 * Splitting: creates new cliques from the ranks of a clique
 *
 * All ranks of this process first wait for each other, each with its lock held.
 * The rank that arrives last starts a private thread, which makes the native
 * calls of all ranks in one native group.  The other ranks wait for this
 * thread.  This has three effects:
 *
 *  - No thread of the program is ever inside a native call that waits for other
 *    ranks.
 *  - A rank that does not split looks like a rank that does not call a
 *    collective, and the verdict names it.
 *  - If NCCL hangs, the init deadline aborts the parent.  NCCL then also raises
 *    the abort flags of the child that is being made.
 *
 * The ranks hold their locks until the private thread has finished, or the
 * parent is WEDGED, so that the parent is not freed while the thread uses it.
 */

#include "core/clique.h"
#include "core/connect.h"

struct split_call {
	int color; /* color of the split, or COHORT_NO_COLOR */
	int key;
	struct cohort_comm **child; /* set to the new communicator on success */

	/*
	 * Create the new cliques, for the ranks in @ranks (all of @parent) that
	 * have a communicator.  Takes ownership of the communicators even if it
	 * fails.
	 * @members: room for as many ranks
	 */
	int (*open)(struct clique *parent, const struct split_rank *ranks,
	            struct new_rank *members);
};

/* Take part in a split.  Call it with the lock held, once all ranks have agreed
 * that they split.  On error the clique has a cause. */
int split_run(struct cohort_comm *c, const struct split_call *call);

#endif
