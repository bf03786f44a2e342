/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_GENERATION_H
#define API_GENERATION_H

/*
 * A generation of a group: a clique and what watches over it
 *
 * A group has one that counts and, once it was respawned, former ones, which
 * answer for their tickets until the group is closed.
 */

#include "guard/guard.h"

struct generation {
	/* Constant. */
	struct clique *clique;
	struct generation *former;

	/* NULL once it was stopped, or left behind, as it could not be; by
	 * whoever closes or respawns. */
	struct guard *guard;
	bool is_guard_left;

	/* Why it had not come to its end when it was respawned; else empty. */
	char wedged[sizeof(((struct cohort_cause *)NULL)->text)];
};

int generation_open(const struct platform *platform, const int *devices, int n,
                    const struct clique_options *options,
                    const struct guard_options *guard_options,
                    struct generation **out);

/* Wait for what is in flight, as long as close may, and end the clique one way or
 * the other.  COHORT_OK, or COHORT_ABORTED if something was cut short. */
int generation_end(struct generation *generation);

/*
 * Free a generation that has ended.  COHORT_OK; COHORT_WEDGED if it does not come
 * to its end in the time an abort may take, and is left as it is.
 */
int generation_free(struct generation *generation);

/* Stop what watches over a clique that has ended; false if it cannot be, and is
 * left as it is. */
bool generation_unguard(struct generation *generation);

#endif
