/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_BENCH_AVERAGE_LANE_H
#define CLI_BENCH_AVERAGE_LANE_H

/*
 * What a rank's thread of cohort bench average does
 */

#include "cli/bench/average.h"
#include "cli/bench/bench.h"
#include "cli/bench/data.h"
#include "cli/bench/meet.h"
#include "cli/common/progress.h"

/* The most repetitions in a round. */
#define AVERAGE_MOST_OFTEN 1000

/* What one rank's thread has; others read some of it between two meetings. */
struct average_lane {
	struct average_runner *runner;
	struct cohort_comm *comm[METHODS]; /* in each method's group */
	int rank;
	uint64_t met;
	char *memory;  /* device memory with all gradients */
	char *staging; /* host memory, if that is not host memory; else NULL */
	struct cohort_tensor *tensors;
	struct cohort_tensor *buckets;
	size_t bucket_count;
	struct pattern pattern, expected;

	/* Read by rank 0's thread between two meetings. */
	double ns;
	uint64_t begins[AVERAGE_MOST_OFTEN];
	uint64_t ends[AVERAGE_MOST_OFTEN];
};

struct average_runner {
	struct average *average;
	struct cohort_group *groups[METHODS]; /* NULL: the first is used */
	struct cohort_comm *comms[METHODS][COHORT_MAX_RANKS];
	struct average_lane *lanes[COHORT_MAX_RANKS];
	uint64_t often[METHODS]; /* repetitions; written by rank 0 */
	struct progress progress;
	double spans[AVERAGE_MOST_OFTEN];
	struct meeting meeting;
};

/* NULL if there is no memory. */
struct average_lane *average_lane_create(struct average_runner *r, int rank);
void average_lane_destroy(struct average_lane *l);

/* A rank's thread, for cohort_group_run() with the runner as @user. */
int average_worker(struct cohort_comm *comm, void *user);

#endif
