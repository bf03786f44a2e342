/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_GROUP_H
#define API_GROUP_H

#include "core/clique.h"

struct cohort_group {
	/* Constant after creation. */
	struct clique *clique;

	/* Atomic; set once, by a split or a run. */
	atomic_bool split;

	/* Atomic; a run is under way. */
	atomic_bool running;
};

/* Copy the clique's cause, status COHORT_OK if there is none. */
void cause_copy(const struct clique *clique, struct cohort_cause *out);

#endif
