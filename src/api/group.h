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
	struct option_texts texts;   /* storage for strings in @options */
	bool launches_block;         /* true if CUDA_LAUNCH_BLOCKING was set */
	struct processes *processes; /* NULL in a group of one process */

	/* Atomic; the current generation, which starts the list of former
	 * generations. */
	struct generation *_Atomic now;

	/* Atomic; true after cohort_group_split() or cohort_group_run() for
	 * this generation. */
	atomic_bool split;

	/* Atomic; true during cohort_group_run() and cohort_group_respawn(). */
	atomic_bool running;

	/* Next open group.  Guarded by the lock of group.c. */
	struct cohort_group *next_open;
};

/* Return COHORT_INVALID if @group is NULL, COHORT_FORKED in a child process
 * (process_check()), otherwise COHORT_OK. */
int group_check(const struct cohort_group *group);

/* Check @group like group_check(), and also detect a child process that shares
 * the parent's memory. */
int group_check_closely(const struct cohort_group *group);

/* Open a generation with @ranks and make it the current one.
 * @ranks: only the devices and, from the second generation on, the origins are
 *         set
 * @part:  this process's part, from group_exchange(), or NULL */
int group_open_generation(struct cohort_group *group, struct new_rank *ranks,
                          int n, const struct process_part *part);

/* Exchange records with the other processes before a generation is opened.  In
 * a group of one process, only return @status.  Otherwise return the status of
 * processes_exchange().
 * @status: as in processes_exchange()
 * @n:      number of ranks in this process, including those in @lost
 * @lost:   set of ranks to drop, or NULL */
int group_exchange(struct cohort_group *group, int status, int n,
                   const uint64_t *lost, struct process_part *part);

struct clique *group_clique(const struct cohort_group *group);

#endif
