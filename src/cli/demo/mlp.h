/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_DEMO_MLP_H
#define CLI_DEMO_MLP_H

/*
 * A multilayer perceptron with one hidden layer, the functions to train it, and
 * images
 *
 * The functions have no state, allocate nothing and start no threads.  The
 * order of every sum depends on the arguments alone, so equal arguments give
 * equal bits on any thread.
 */

#include <stddef.h>
#include <stdint.h>

enum {
	MLP_INPUTS = 64,
	MLP_HIDDEN = 128,
	MLP_OUTPUTS = 10,
	MLP_TENSORS = 4,
};

/*
 * The parameters, or their gradients or momentum.  Weights are stored by input,
 * so that the inner loops run over neighbours.  The structure has floats
 * without padding, and may be used as one array of MLP_FLOATS.
 */
struct mlp {
	float w1[MLP_INPUTS][MLP_HIDDEN];
	float b1[MLP_HIDDEN];
	float w2[MLP_HIDDEN][MLP_OUTPUTS];
	float b2[MLP_OUTPUTS];
};

#define MLP_FLOATS (sizeof(struct mlp) / sizeof(float))

/* Name and place of each tensor in a struct mlp; the place is in floats. */
extern const struct mlp_tensor {
	const char *name;
	size_t offset;
	size_t count;
} mlp_tensors[MLP_TENSORS];

/* One image and its class. */
struct mlp_sample {
	float inputs[MLP_INPUTS]; /* 0..1 */
	int label;
};

/* Sum of the loss over images. */
struct mlp_loss {
	double sum;
	unsigned images;
};

/* Set random weights and zero biases. */
void mlp_init(struct mlp *m, uint64_t seed);

/* Fill @order with 0 to @n - 1 in a random order that depends on @epoch. */
void mlp_shuffle(uint16_t *order, size_t n, uint64_t seed, uint64_t epoch);

/*
 * Compute the gradients of @samples[@order[0]] to @samples[@order[@n - 1]],
 * summed and divided by @batch; zeros if @n is 0.  Adds their loss to @loss.
 */
void mlp_gradients(const struct mlp *m, const struct mlp_sample *samples,
                   const uint16_t *order, size_t n, size_t batch,
                   struct mlp *gradients, struct mlp_loss *loss);

/* Add @other to @sum, element by element. */
void mlp_add(struct mlp *sum, const struct mlp *other);

/* Make one step of gradient descent with momentum. */
void mlp_update(struct mlp *m, struct mlp *momentum,
                const struct mlp *gradients, float lr, float decay);

/* Return how many of @n samples are classified correctly. */
unsigned mlp_correct(const struct mlp *m, const struct mlp_sample *samples,
                     size_t n);

/* Return the largest absolute difference between two parameters.  Two NaNs are
 * equal; a NaN and a number differ by infinity. */
double mlp_difference(const struct mlp *a, const struct mlp *b);

/* The images of handwritten digits that are part of the binary
 * (data/README.md), of which every fifth is held out from training. */
enum {
	DIGITS_ROWS = 1797,
	DIGITS_HELD_OUT = DIGITS_ROWS / 5,
	DIGITS_TRAIN = DIGITS_ROWS - DIGITS_HELD_OUT,
};

struct digits {
	struct mlp_sample train[DIGITS_TRAIN];
	struct mlp_sample held_out[DIGITS_HELD_OUT];
};

#endif
