/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_GENERATION_H
#define API_GENERATION_H

/*
 * A generation of a group: a clique and its watch
 *
 * A group has one current generation.  After respawns it also has former
 * generations, and tickets of the last FORMER_KEPT of these can still be
 * queried.  A split creates a child generation, which ends with its parent.
 * The functions below handle a generation's children before the generation
 * itself.
 */

#include "watch/watch.h"

struct generation {
	struct clique *clique; /* constant */

	/* The generation before this one, or NULL.  Changed by a respawn, which
	 * frees old generations. */
	struct generation *former;
	struct watch_options options; /* constant, like the next member */
	struct peers *peers;          /* the group's other processes, or NULL */

	/* The watch, or NULL once it was stopped, or leaked because it could
	 * not be stopped.  Written by the thread that closes or respawns the
	 * group. */
	struct watch *watch;
	/* Name of the part of the watch that did not stop, or NULL. */
	const char *left;

	/* Reason why the generation had not ended when the group was respawned;
	 * otherwise empty. */
	char wedged[sizeof(((struct cohort_cause *)NULL)->text)];
};

int generation_open(const struct platform *platform, struct new_rank *ranks,
                    int n, const struct clique_options *options,
                    const struct watch_options *watch_options,
                    struct peers *peers, struct generation **out);

/* Return the options of a clique that is split from @parent.  The caller sets
 * the name, the ranks and the identity. */
struct clique_options generation_child_options(struct clique *parent);

/* Open a child of @options->parent.  A call in progress on one of the parent's
 * ranks must keep the parent open. */
int generation_open_child(struct new_rank *ranks, int n,
                          const struct clique_options *options,
                          struct generation **out);

/* End the generation: wait for the operations in flight until the close
 * deadline, then close the clique, or abort it if operations are not done.
 * Return COHORT_OK, or COHORT_ABORTED if an operation was cut short. */
int generation_end(struct generation *generation);

/*
 * End a split generation whose last rank was closed, without waiting for the
 * device, because other ranks may keep the device busy until this thread makes
 * its next call.  The reaper releases the generation's resources.
 * generation_sweep() or the end of the parent frees its memory.
 */
int generation_end_later(struct generation *generation);

/* Free the generations that were split from @parent and have ended, as far as
 * this is possible without blocking. */
void generation_sweep(struct clique *parent);

/* Free a generation that has ended.  Return COHORT_OK, or COHORT_WEDGED if it
 * is not reclaimed within the abort deadline and is therefore leaked, or if a
 * thread of its watch does not stop. */
int generation_free(struct generation *generation);

/* End and free a generation that another process has failed to open.  Return
 * @status, the status of this thread's error, which does not change. */
int generation_discard(struct generation *generation, int status);

/* Mark a generation that has ended as replaced: calls on its communicators
 * return COHORT_STALE. */
void generation_mark_replaced(struct generation *generation);

/*
 * Free a former generation unless it is still in use.  Later calls on its
 * communicators return COHORT_STALE.
 *
 * Return false if it cannot be freed yet; the caller should try again later.
 * Reasons: a thread is inside one of its communicators; a worker was abandoned;
 * the program still owns memory, a registration or a reducer of the generation;
 * or its device memory is not freed within a second.
 */
bool generation_forget(struct generation *generation);

/* Return a rank with a thread inside a call, in this generation or in one split
 * from it.  Return NULL if there is none. */
const struct cohort_comm *
generation_occupied(const struct generation *generation);

#endif
