/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_GROUP_H
#define API_GROUP_H

#include "api/generation.h"
#include "api/options.h"

struct cohort_group {
	/* Constant after creation. */
	const struct platform *platform;
	struct cohort_group_options options;
	struct option_texts texts; /* what they point to */
	bool launches_block;       /* CUDA_LAUNCH_BLOCKING was set */

	/* Atomic; the generation that counts.  Its former ones stay as long as
	 * the group. */
	struct generation *_Atomic now;

	/* Atomic; set by a split or a run of this generation. */
	atomic_bool split;

	/* Atomic; a run or a respawn is under way. */
	atomic_bool running;
};

/* COHORT_INVALID for NULL; COHORT_FORKED, see base/process.h. */
int group_check(const struct cohort_group *group);
int group_check_closely(const struct cohort_group *group);

/* Open one more generation over @devices, in front of the others.  @origins: of
 * each rank its first number; NULL: the same. */
int group_open_generation(struct cohort_group *group, const int *devices, int n,
                          const int *origins);

/* The clique of the generation that counts. */
struct clique *group_clique(const struct cohort_group *group);

#endif
