/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DEMO_TRAIN_H
#define CLI_DEMO_TRAIN_H

/*
 * The demo's training: what the ranks share and have, what a rank's thread
 * does, and the same training by one thread to compare with
 */

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <cohort/reducer.h>

#include "cli/common/progress.h"
#include "cli/demo/demo.h"
#include "cli/demo/digits.h"
#include "cli/demo/mlp.h"

/* How well a rank did in one epoch, on its shards. */
struct epoch_score {
	/* Atomic; written by the rank, read by rank 0 and the main thread. */
	_Atomic double loss;
	_Atomic unsigned correct;
	_Atomic unsigned count; /* of images */
};

/*
 * What a rank has and does.  Outlives its worker and the group.  Owned by the
 * rank's thread while that runs, then by the main thread; but for the scores.
 */
struct rank {
	struct mlp weights;
	struct mlp momentum;
	uint64_t step; /* how many are done */

	struct mlp gradients;
	uint16_t order[DIGITS_TRAIN]; /* of the images in this epoch */
	struct mlp_score running;     /* of this epoch */
	struct epoch_score *scores;   /* of each epoch */
	double compute_seconds;
	double comm_seconds;

	uint64_t called_ns;   /* when its last reduction began */
	uint64_t answered_ns; /* when that was told to have failed */

	struct cohort_comm *comm;       /* while the worker runs */
	void *device;                   /* a struct mlp in device memory */
	struct cohort_reducer *reducer; /* of gradients there */
	bool has_died;                  /* the worker, with all of those */
	bool wedged; /* an operation may still use the buffers:
	                             they are never released */
};

/* Generations that the demo goes through before it gives up. */
#define MAX_GENERATIONS 8

struct generation_log {
	uint64_t first_step;
	int ranks;
};

struct plan {
	/* Constant while the workers run. */
	const struct demo_options *options;
	const struct digits *digits;
	struct cohort_group *group;
	uint64_t epoch_steps;
	uint64_t steps;
	struct rank **ranks; /* by their numbers in the first generation */

	/* The generation that counts; likewise. */
	int *now; /* of each of its ranks the number in the first */
	int now_size;
	int root; /* the rank that has the weights */
	uint64_t first_step;
	struct generation_log generations[MAX_GENERATIONS];
	int generation_count;

	/* Atomic; when the fault was made, 0: not yet. */
	_Atomic uint64_t fault_ns;

	/* A rank that stalls waits for release and posts released at its end. */
	atomic_bool is_stalled;
	sem_t release;
	sem_t released;

	/* Owned by rank 0's thread while the workers run. */
	struct progress progress;
};

/* How many steps there are. */
uint64_t train_steps(const struct demo_options *options);

/* Prepare to train: ranks with empty weights, but for rank 0.  An enum
 * cli_exit; nothing is owed after a failure, which was complained about. */
int plan_init(struct plan *plan, const struct demo_options *options,
              const struct digits *digits);

/* Release what no operation may still use. */
void plan_fini(struct plan *plan);

/* Compute the gradients of part @part of @parts of the batch of @rank's step. */
void train_gradients(const struct plan *plan, struct rank *rank, size_t part,
                     size_t parts);

/* A rank's thread, for cohort_group_run() with the plan as @user. */
int train_worker(struct cohort_comm *comm, void *user);

/* After the workers are done: what they did, into @result. */
void train_collect(const struct plan *plan, struct demo_result *result);

/*
 * The largest difference between any rank's weights and those of a training
 * by one thread, without the library, that adds the same shards in rank order.
 * An enum cli_exit, after a complaint if there is no memory.
 */
int train_compare(const struct plan *plan, double *difference_out);

#endif
