/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_GROUP_H
#define API_GROUP_H

#include "api/generation.h"
#include "api/options.h"
#include "processes/processes.h"

struct cohort_group {
	/* Constant after creation. */
	const struct platform *platform;
	struct cohort_group_options options;
	struct option_texts texts;   /* what the options point to */
	bool launches_block;         /* CUDA_LAUNCH_BLOCKING was set */
	struct processes *processes; /* NULL: this one alone */

	/* Atomic; the current generation.  Former ones stay as long as the
	 * group. */
	struct generation *_Atomic now;

	/* Atomic; set by a split or a run of this generation. */
	atomic_bool split;

	/* Atomic; a run or a respawn is under way. */
	atomic_bool running;
};

/* COHORT_INVALID for NULL; COHORT_FORKED, see base/process.h. */
int group_check(const struct cohort_group *group);
int group_check_closely(const struct cohort_group *group);

/* Open a generation over @devices, which is the current one from then on.
 * @origins: the number of each rank in the first generation; NULL: its own.
 * @part: of this process, which has met the others; NULL: it has not. */
int group_open_generation(struct cohort_group *group, const int *devices, int n,
                          const int *origins, const struct process_part *part);

/* Meet the other processes, if there are any, before a generation with @n ranks
 * here, or with those that are left without @lost (NULL: none is lost).
 * @status: as for processes_meet(), whose answer this has. */
int group_meet(struct cohort_group *group, int status, int n,
               const uint64_t *lost, struct process_part *part);

/* The clique of the current generation. */
struct clique *group_clique(const struct cohort_group *group);

#endif
