/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DEMO_TRAIN_H
#define CLI_DEMO_TRAIN_H

/*
 * The demo's training: what the ranks share, what each rank has, its thread's
 * function, and a training by one thread for comparison
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
 * What a rank has and does.  Outlives its worker, the group and its process: it is in
 * memory that the processes of the demo share.  Owned by the rank's thread while that
 * runs, then by its process's main thread, then by that of process 0; but for the
 * scores.
 */
struct rank {
	struct mlp weights;
	struct mlp momentum;
	uint64_t step; /* how many steps are done */

	struct mlp gradients;
	uint16_t order[DIGITS_TRAIN]; /* of the images in this epoch */
	struct mlp_score running;     /* of this epoch */
	struct epoch_score *scores;   /* of each epoch */
	double compute_seconds;
	double comm_seconds;

	/* Whether it has weights, or only memory for them; and which rank of the
	 * current generation it has them from. */
	bool has_state;
	int root;

	/* The first reduction that failed: when it began, and when that was known. */
	uint64_t called_ns;
	uint64_t answered_ns;

	struct cohort_comm *comm;       /* while the worker runs */
	void *device;                   /* a struct mlp in device memory */
	struct cohort_reducer *reducer; /* of gradients there */
	bool has_died;       /* its worker has died, and left all of these */
	bool is_left_behind; /* the first failure's run has not waited for it */
	bool wedged;         /* an operation may still use the buffers: they
	                        are never released */
};

/* Generations that the demo goes through before it gives up. */
#define MAX_GENERATIONS 8

struct generation_log {
	uint64_t first_step;
	int ranks;
};

/* What the processes share. */
struct shared {
	_Atomic uint64_t fault_ns; /* the time of the fault, or 0 */
	struct rank ranks[]; /* by their numbers in the first generation */
};

struct plan {
	/* This process, and those of the ranks that are its own, by their numbers in
	 * the first generation. */
	int process;
	int first_rank;
	int own_ranks;

	/* Constant while the workers run. */
	const struct demo_options *options;
	const struct digits *digits;
	struct cohort_group *group;
	uint64_t epoch_steps;
	uint64_t steps;
	struct shared *shared;
	struct rank *ranks; /* shared->ranks */

	/* The last generation whose ranks have met.  The first of this process's ranks to
	 * know them writes them, which is_settled tells. */
	int *now; /* for each of its ranks the number in the first generation */
	int now_size;
	uint64_t first_step;
	atomic_bool is_settled;
	struct generation_log generations[MAX_GENERATIONS];
	int generation_count;

	/* A rank that stalls waits for release and posts released at its end. */
	atomic_bool is_stalled;
	sem_t release;
	sem_t released;

	/* Shown in process 0, and owned by rank 0's thread while the workers run. */
	struct progress progress;
};

/* The number of steps. */
uint64_t train_steps(const struct demo_options *options);

/* How many of the ranks are in the processes before @process. */
int train_first_rank(const struct demo_options *options, int process);

/* Prepare the ranks, in memory that is shared with processes that are forked; only rank
 * 0 has weights.  An enum cli_exit, after a complaint; after a failure plan_fini() must
 * not be called. */
int plan_init(struct plan *plan, const struct demo_options *options,
              const struct digits *digits);

/* Free everything that no operation may still use. */
void plan_fini(struct plan *plan);

/* Compute the gradients of part @part of @parts of the batch of @rank's step. */
void train_gradients(const struct plan *plan, struct rank *rank, size_t part,
                     size_t parts);

/* A rank's thread, for cohort_group_run() with the plan as @user. */
int train_worker(struct cohort_comm *comm, void *user);

/* Store the results in @result, after the workers of all processes are done. */
void train_collect(const struct plan *plan, struct demo_result *result);

/*
 * Find the largest difference between any rank's weights and those of a training by
 * one thread without the library, which adds the shards in rank order.  An enum
 * cli_exit, after a complaint if there is no memory.
 */
int train_compare(const struct plan *plan, double *difference_out);

#endif
