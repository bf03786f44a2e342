/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_GENERATION_H
#define API_GENERATION_H

/*
 * A generation of a group: a clique and what watches over it
 *
 * A group has one that counts and, once it was respawned, former ones, which
 * answer for their tickets until the group is closed.  What was split from one is a
 * generation, too, and goes with it: whatever is done here is done to those first.
 */

#include "watch/watch.h"

struct generation {
	/* Constant. */
	struct clique *clique;
	struct generation *former;
	struct watch_options options;

	/* NULL once it was stopped, or left behind, as it could not be; by
	 * whoever closes or respawns. */
	struct watch *watch;
	const char *left; /* what kept it; NULL: nothing has */

	/* Why it had not come to its end when it was respawned; else empty. */
	char wedged[sizeof(((struct cohort_cause *)NULL)->text)];
};

int generation_open(const struct platform *platform, const int *devices, int n,
                    const struct clique_options *options,
                    const struct watch_options *watch_options,
                    struct generation **out);

/* Wait for what is in flight, as long as close may, and end the clique one way or
 * the other.  COHORT_OK, or COHORT_ABORTED if something was cut short. */
int generation_end(struct generation *generation);

/*
 * The same for what was split and whose last rank was closed, which must not wait for
 * the device: others may be busy there until its thread has gone on.  It gives back
 * what it has by itself, and is freed by a later sweep, or with its parent.
 */
int generation_end_later(struct generation *generation);

/* Free what was split from @parent and is over, as far as that blocks on nothing. */
void generation_sweep(struct clique *parent);

/*
 * Free a generation that has ended.  COHORT_OK; COHORT_WEDGED if it does not come
 * to its end in the time an abort may take, and is left as it is.
 */
int generation_free(struct generation *generation);

/* Its communicators are of the past: it has ended, and there is another. */
void generation_pass(struct generation *generation);

/* A rank that a thread is inside of, also one of a child; NULL: there is none. */
const struct cohort_comm *
generation_occupied(const struct generation *generation);

#endif
