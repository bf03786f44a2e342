/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DEMO_DEMO_H
#define CLI_DEMO_DEMO_H

/*
 * cohort demo: trains a perceptron on handwritten digits, one thread per rank
 *
 *   demo.c    the options, the images, the processes, and the group
 *   train.c   the rank's thread and the supervisor
 *   report.c  the results as text or JSON, and the comparison with training by
 *             one thread
 *   mlp.c     the arithmetic of a perceptron
 */

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cohort/cohort.h>
#include <cohort/reducer.h>

/* ---- mlp.c: a perceptron with one hidden layer ------------------------ */

enum {
	MLP_INPUTS = 64,
	MLP_HIDDEN = 128,
	MLP_OUTPUTS = 10,
	MLP_TENSORS = 4,
};

/*
 * The parameters, or their gradients or momentum. Weights are grouped by input,
 * so that the inner loops access neighboring floats. The structure has no
 * padding, so it can be used as an array of MLP_FLOATS floats.
 */
struct mlp {
	float w1[MLP_INPUTS][MLP_HIDDEN];
	float b1[MLP_HIDDEN];
	float w2[MLP_HIDDEN][MLP_OUTPUTS];
	float b2[MLP_OUTPUTS];
};

#define MLP_FLOATS (sizeof(struct mlp) / sizeof(float))

/* Name of each tensor, and its offset in a struct mlp, in floats */
extern const struct mlp_tensor {
	const char *name;
	size_t offset;
	size_t count;
} mlp_tensors[MLP_TENSORS];

struct mlp_sample {
	float inputs[MLP_INPUTS]; /* pixels, scaled to 0..1 */
	int label;
};

struct mlp_loss {
	double sum;
	unsigned images;
};

/* Set random weights and zero biases. */
void mlp_init(struct mlp *m);

/* Fill @order with 0 to @n - 1 in a random order that depends on @epoch. */
void mlp_shuffle(uint16_t *order, size_t n, uint64_t epoch);

/*
 * Compute the gradients of @samples[@order[0]] to @samples[@order[@n - 1]],
 * summed and divided by @batch, or zeros if @n is 0. Add the loss of the
 * samples to @loss.
 */
void mlp_gradients(const struct mlp *m, const struct mlp_sample *samples,
                   const uint16_t *order, size_t n, size_t batch,
                   struct mlp *gradients, struct mlp_loss *loss);
void mlp_add(struct mlp *sum, const struct mlp *other);

/* Do one step of gradient descent with momentum. */
void mlp_update(struct mlp *m, struct mlp *momentum,
                const struct mlp *gradients);
unsigned mlp_correct(const struct mlp *m, const struct mlp_sample *samples,
                     size_t n);

/* Return the largest absolute difference between corresponding parameters. */
double mlp_difference(const struct mlp *a, const struct mlp *b);

/* The images of handwritten digits (data/README.md). Every fifth image is not
 * used for training. */
enum {
	DIGITS_ROWS = 1797,
	DIGITS_HELD_OUT = DIGITS_ROWS / 5,
	DIGITS_TRAIN = DIGITS_ROWS - DIGITS_HELD_OUT,
};

struct digits {
	struct mlp_sample train[DIGITS_TRAIN];
	struct mlp_sample held_out[DIGITS_HELD_OUT];
};

/* ---- the demo --------------------------------------------------------- */

enum demo_fault {
	FAULT_UNSAID, /* no fault was given: stall if there are several ranks */
	FAULT_NONE,
	FAULT_STALL,    /* the rank waits in the program */
	FAULT_DIE,      /* the rank's thread exits */
	FAULT_MISMATCH, /* the rank makes a different call than others */
	FAULT_KILL,     /* the rank's process is killed */
	FAULTS,
};

/* Names of the faults in options and results, or NULL */
extern const char *const demo_faults[FAULTS];

struct demo_options {
	int ranks; /* number of ranks, or 0 if not given */
	/* number of processes, among which the ranks are divided */
	int processes;
	int platform; /* enum cohort_platform */
	size_t epochs;
	enum demo_fault fault;
	/* the rank that fails; with FAULT_KILL, the first of its process */
	int fault_rank;
	int fault_process; /* the process to kill, with FAULT_KILL */
	uint64_t fault_step;
	uint64_t join_deadline_ns;
	bool verify;
	bool json;
};

/* Images per step, of all ranks together, and steps per epoch */
#define DEMO_BATCH ((size_t)64)
#define DEMO_EPOCH_STEPS ((DIGITS_TRAIN + DEMO_BATCH - 1) / DEMO_BATCH)

/* Number of generations after which the demo gives up */
#define MAX_GENERATIONS 8

struct model {
	struct mlp weights;
	struct mlp momentum;
};

/*
 * State of a rank, in memory that the processes of the demo share. Only the
 * rank's thread uses the state until that thread has ended. Then the rank's
 * process uses it, and finally process 0.
 */
struct rank {
	struct model model;
	struct model received; /* the state received from another rank */
	uint64_t step;         /* number of steps done */
	struct mlp gradients;
	uint16_t order[DIGITS_TRAIN]; /* order of the images in this epoch */
	struct mlp_loss loss;         /* loss in this epoch so far */
	uint64_t compute_ns;
	uint64_t comm_ns; /* time in copies, reductions and waits */

	/* The last generation that included the rank. For each generation: the
	 * first step and the number of ranks, which is 0 if the generation
	 * ended before that step. */
	int generation;
	struct {
		uint64_t step;
		int ranks;
	} starts[MAX_GENERATIONS];

	/* Start and end of the first reduction that failed, or 0 */
	uint64_t called_ns;
	uint64_t answered_ns;

	struct cohort_comm *comm;
	void *device; /* a struct mlp in device memory */
	struct cohort_reducer *reducer;
	bool has_died; /* the rank's thread exited without freeing anything */
	/* the rank's thread was abandoned by the first run that failed */
	bool is_left_behind;
};

/*
 * State of a process. It is never freed, because an abandoned thread may still
 * use it. Times are on CLOCK_MONOTONIC, and are 0 if the event has not
 * happened.
 */
struct demo {
	struct demo_options options;
	const struct digits *digits;
	uint64_t steps;
	struct shared {
		_Atomic uint64_t fault_ns;
		struct rank ranks[]; /* indexed by rank in generation 1 */
	} * shared;

	int process;
	struct cohort_group *group;
	int platform;

	/* A stalled rank waits for @release, and posts @released when it
	 * ends. */
	atomic_bool is_stalled;
	sem_t release;
	sem_t released;

	/* Cause that ended generation 1, or status COHORT_OK */
	struct cohort_cause cause;
	uint64_t start_ns;
	uint64_t returned_ns;  /* time at which generation 1 returned */
	uint64_t respawned_ns; /* time at which generation 2 was open */
	uint64_t end_ns;
};

/* Return the first rank of @process in generation 1, or the number of ranks if
 * @process is the number of processes. */
int demo_first_rank(const struct demo_options *options, int process);

/*
 * Train to the end, in as many generations as necessary, or until all ranks of
 * this process are lost. Return an enum cli_exit. If it is not CLI_OK, an error
 * was printed.
 */
int train(struct demo *d);

/* End the thread of a stalled rank, and free the memory of a thread that has
 * exited. */
void train_release(struct demo *d);

void train_gradients(const struct demo *d, struct rank *rank, size_t part,
                     size_t parts);

void report(const struct demo *d);

#endif
