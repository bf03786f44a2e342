/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_GENERATION_H
#define API_GENERATION_H

/*
 * A generation of a group: a clique and its watch
 *
 * A group has one current generation and, once it was respawned, former ones,
 * of which the last FORMER_KEPT still answer for their tickets.  A split makes
 * a child generation, which ends with its parent; each function here handles
 * the children first.
 */

#include "watch/watch.h"

struct generation {
	/* Constant. */
	struct clique *clique;
	struct generation *former;
	struct watch_options options;
	struct peers *peers; /* the group's other processes; NULL: none */

	/* Written by whoever closes or respawns.  NULL once the watch was
	 * stopped, or was left behind, as it could not be stopped. */
	struct watch *watch;
	const char *left; /* the thread that did not stop; NULL: all did */

	/* Why the generation had not come to its end when the group was
	 * respawned; else empty. */
	char wedged[sizeof(((struct cohort_cause *)NULL)->text)];
};

int generation_open(const struct platform *platform, const int *devices, int n,
                    const struct clique_options *options,
                    const struct watch_options *watch_options,
                    struct peers *peers, struct generation **out);

/* Wait for what is in flight, at most for the close deadline, and end the
 * clique: in order, or by an abort.  COHORT_OK, or COHORT_ABORTED if an
 * operation was cut short. */
int generation_end(struct generation *generation);

/*
 * End a split generation whose last rank was closed, without waiting for the
 * device: the other ranks may be busy there until this thread has gone on.  Its
 * reaper gives back what it has, and it is freed by a later sweep, or with its
 * parent.
 */
int generation_end_later(struct generation *generation);

/* Free what was split from @parent and has ended, as far as that does not
 * block. */
void generation_sweep(struct clique *parent);

/*
 * Free a generation that has ended.  COHORT_OK; COHORT_WEDGED if it does not
 * come to its end within the abort deadline, and is left as it is.
 */
int generation_free(struct generation *generation);

/* Mark a generation that has ended as replaced by another: calls on its
 * communicators answer COHORT_STALE. */
void generation_pass(struct generation *generation);

/*
 * Free a former generation unless it is still in use.  Later calls on its
 * communicators return COHORT_STALE.
 *
 * Returns false, and has to be called again later, if a thread is inside one of
 * its communicators, a worker was abandoned, the program still has memory, a
 * registration or a reducer of it, or its device memory is not free within a
 * second.
 */
bool generation_forget(struct generation *generation);

/* A rank that a thread is inside of, in the generation or in what was split
 * from it; NULL: there is none. */
const struct cohort_comm *
generation_occupied(const struct generation *generation);

#endif
