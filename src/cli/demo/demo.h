/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DEMO_DEMO_H
#define CLI_DEMO_DEMO_H

/*
 * cohort demo: trains a perceptron on handwritten digits, one thread per rank
 *
 *  demo.c    the options, the images, the processes, and the group train.c
 *  the rank's thread and the supervisor report.c  the results as text or JSON,
 *  and the comparison with a single run mlp.c     the arithmetic of a
 *  perceptron
 */

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cohort/cohort.h>
#include <cohort/reducer.h>

#include "cli/demo/mlp.h"

enum demo_fault {
	FAULT_UNSAID, /* not given: a stall, if there is more than one rank */
	FAULT_NONE,
	FAULT_STALL,    /* the rank waits in the program */
	FAULT_DIE,      /* its thread exits */
	FAULT_MISMATCH, /* it makes another call than the others */
	FAULT_KILL,     /* its process is killed */
	FAULTS,
};

/* Their names in options and results, or NULL. */
extern const char *const demo_faults[FAULTS];

struct demo_options {
	int ranks;     /* 0 if not given */
	int processes; /* over which the ranks are spread */
	int platform;  /* enum cohort_platform */
	size_t epochs;
	size_t batch; /* images per step, of all ranks together */
	uint64_t seed;
	float lr;
	enum demo_fault fault;
	int fault_rank;    /* with FAULT_KILL the first of the process */
	int fault_process; /* with FAULT_KILL */
	uint64_t fault_step;
	uint64_t join_deadline_ns;
	bool verify;
	bool json;
};

/* Decay of the momentum. */
#define DEMO_MOMENTUM 0.9f

/* Number of generations after which the demo gives up. */
#define MAX_GENERATIONS 8

struct model {
	struct mlp weights;
	struct mlp momentum;
};

/*
 * State of a rank, in memory that the processes of the demo share.  It belongs
 * to the rank's thread, and once that has ended to its process, and at the end
 * to process 0.
 */
struct rank {
	struct model model;
	struct model received; /* from another rank; not complete yet */
	uint64_t step;         /* number of steps done */
	struct mlp gradients;
	uint16_t order[DIGITS_TRAIN]; /* of the images in this epoch */
	struct mlp_loss loss;         /* in this epoch so far */
	uint64_t compute_ns;
	uint64_t comm_ns; /* copies, reduction and waiting */

	/* The last generation that the rank was in; and for each the step it
	 * began with and its number of ranks, or 0 if it ended before that. */
	int generation;
	struct {
		uint64_t step;
		int ranks;
	} starts[MAX_GENERATIONS];

	/* Start and end of the first reduction that failed, or 0. */
	uint64_t called_ns;
	uint64_t answered_ns;

	struct cohort_comm *comm;
	void *device;                   /* a struct mlp in device memory */
	struct cohort_reducer *reducer; /* of the gradients there */
	bool has_died;       /* its thread has exited and freed nothing */
	bool is_left_behind; /* by the first run that failed */
};

/*
 * State of a process, which is never freed: a thread that was left behind may
 * still use it.  Times are of CLOCK_MONOTONIC, or 0 if the event did not
 * happen.
 */
struct demo {
	struct demo_options options;
	const struct digits *digits;
	uint64_t epoch_steps;
	uint64_t steps;
	struct shared {
		_Atomic uint64_t fault_ns;
		struct rank ranks[]; /* by their numbers in generation 1 */
	} * shared;

	int process;
	struct cohort_group *group;
	int platform; /* of the group */

	/* A rank that stalls waits for release, and posts released as it
	 * ends. */
	atomic_bool is_stalled;
	sem_t release;
	sem_t released;

	/* The cause that ended generation 1; status COHORT_OK if there is
	 * none. */
	struct cohort_cause cause;
	uint64_t start_ns;
	uint64_t returned_ns;  /* the run of generation 1 was over */
	uint64_t respawned_ns; /* generation 2 was open */
	uint64_t end_ns;
};

/* Return the number of the first rank of @process in generation 1; of the
 * process after the last, the number of ranks. */
int demo_first_rank(const struct demo_options *options, int process);

/*
 * Train to the end, in as many generations as it takes, or until no rank of
 * this process is left.  Returns an enum cli_exit, after a complaint.
 */
int train(struct demo *d);

/* End the thread of a rank that stalls, and free what a thread that died has
 * left. */
void train_release(struct demo *d);

/* Compute the gradients of part @part of @parts of the batch of @rank's
 * step. */
void train_gradients(const struct demo *d, struct rank *rank, size_t part,
                     size_t parts);

/* Print the results, once all processes are done. */
void report(const struct demo *d);

#endif
