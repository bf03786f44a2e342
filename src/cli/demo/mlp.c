/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A multilayer perceptron, forward and backward, one sample at a time
 *
 * Each inner loop runs over the outputs of a layer, for one fixed input. The
 * outputs are independent of each other, so a compiler can vectorize the loop
 * without changing the order of any sum. The order depends only on the
 * arguments, so equal arguments give identical results on every thread.
 */

#include "cli/demo/demo.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/random.h"

#define SEED 1 /* seed of the weights and of the order of the images */
#define RATE 0.1f
#define MOMENTUM 0.9f

static_assert(MLP_FLOATS == (MLP_INPUTS + 1) * MLP_HIDDEN +
                                    (MLP_HIDDEN + 1) * MLP_OUTPUTS,
              "struct mlp must have no padding");

const struct mlp_tensor mlp_tensors[MLP_TENSORS] = {
#define TENSOR(field)                                                          \
	{                                                                      \
#field, offsetof(struct mlp, field) / sizeof(float),           \
			sizeof(((struct mlp *)0)->field) / sizeof(float)       \
	}
	TENSOR(w1),
	TENSOR(b1),
	TENSOR(w2),
	TENSOR(b2),
#undef TENSOR
};

/* Results of a sample's forward pass that its backward pass needs */
struct activations {
	float hidden[MLP_HIDDEN];
	float outputs[MLP_OUTPUTS]; /* outputs before the softmax */
};

/* Initialize weights uniformly in [-limit, limit), with He's limit for ReLU
 * layers. */
static void init_weights(float *w, size_t n, size_t inputs, uint64_t *state)
{
	float limit = sqrtf(6.0f / (float)inputs);

	for (size_t i = 0; i < n; i++) {
		float unit = (float)(random_next(state) >> 40) * 0x1p-24f;

		w[i] = limit * (2.0f * unit - 1.0f);
	}
}

void mlp_init(struct mlp *m)
{
	uint64_t state = SEED;

	memset(m, 0, sizeof(*m));
	init_weights(m->w1[0], MLP_INPUTS * MLP_HIDDEN, MLP_INPUTS, &state);
	init_weights(m->w2[0], MLP_HIDDEN * MLP_OUTPUTS, MLP_HIDDEN, &state);
}

void mlp_shuffle(uint16_t *order, size_t n, uint64_t epoch)
{
	uint64_t state = SEED;

	state = random_next(&state) + epoch;
	for (size_t i = 0; i < n; i++) {
		size_t j = ((random_next(&state) >> 32) * (i + 1)) >> 32;

		order[i] = order[j];
		order[j] = (uint16_t)i;
	}
}

static void forward(const struct mlp *restrict m, const float *restrict x,
                    struct activations *restrict a)
{
	memcpy(a->hidden, m->b1, sizeof(a->hidden));
	for (int i = 0; i < MLP_INPUTS; i++)
		for (int j = 0; j < MLP_HIDDEN; j++)
			a->hidden[j] += x[i] * m->w1[i][j];
	for (int j = 0; j < MLP_HIDDEN; j++)
		a->hidden[j] = a->hidden[j] > 0.0f ? a->hidden[j] : 0.0f;

	memcpy(a->outputs, m->b2, sizeof(a->outputs));
	for (int j = 0; j < MLP_HIDDEN; j++)
		for (int k = 0; k < MLP_OUTPUTS; k++)
			a->outputs[k] += a->hidden[j] * m->w2[j][k];
}

static int largest(const float outputs[MLP_OUTPUTS])
{
	int best = 0;

	for (int k = 1; k < MLP_OUTPUTS; k++)
		if (outputs[k] > outputs[best])
			best = k;
	return best;
}

/* Return the cross-entropy of the softmax of @outputs, and store its derivative
 * with respect to @outputs. */
static float loss_derivative(const float outputs[MLP_OUTPUTS], int label,
                             float derivative[MLP_OUTPUTS])
{
	float top = outputs[largest(outputs)];
	float sum = 0.0f;

	for (int k = 0; k < MLP_OUTPUTS; k++) {
		derivative[k] = expf(outputs[k] - top);
		sum += derivative[k];
	}
	for (int k = 0; k < MLP_OUTPUTS; k++)
		derivative[k] /= sum;
	derivative[label] -= 1.0f;
	return logf(sum) - (outputs[label] - top);
}

/* Add the gradients of one sample, given the derivative with respect to the
 * outputs. */
static void backward(const struct mlp *restrict m, const float *restrict x,
                     const struct activations *restrict a,
                     const float *restrict doutputs, struct mlp *restrict g)
{
	float dhidden[MLP_HIDDEN];

	for (int j = 0; j < MLP_HIDDEN; j++) {
		float sum = 0.0f;

		for (int k = 0; k < MLP_OUTPUTS; k++) {
			g->w2[j][k] += a->hidden[j] * doutputs[k];
			sum += m->w2[j][k] * doutputs[k];
		}
		dhidden[j] = a->hidden[j] > 0.0f ? sum : 0.0f;
	}
	for (int k = 0; k < MLP_OUTPUTS; k++)
		g->b2[k] += doutputs[k];

	for (int i = 0; i < MLP_INPUTS; i++)
		for (int j = 0; j < MLP_HIDDEN; j++)
			g->w1[i][j] += x[i] * dhidden[j];
	for (int j = 0; j < MLP_HIDDEN; j++)
		g->b1[j] += dhidden[j];
}

void mlp_gradients(const struct mlp *m, const struct mlp_sample *samples,
                   const uint16_t *order, size_t n, size_t batch,
                   struct mlp *gradients, struct mlp_loss *loss)
{
	float *g = (float *)gradients;

	memset(gradients, 0, sizeof(*gradients));
	for (size_t s = 0; s < n; s++) {
		const struct mlp_sample *sample = &samples[order[s]];
		float doutputs[MLP_OUTPUTS];
		struct activations a;

		forward(m, sample->inputs, &a);
		loss->sum += (double)loss_derivative(a.outputs, sample->label,
		                                     doutputs);
		loss->images++;
		backward(m, sample->inputs, &a, doutputs, gradients);
	}
	for (size_t i = 0; i < MLP_FLOATS; i++)
		g[i] /= (float)batch;
}

void mlp_add(struct mlp *sum, const struct mlp *other)
{
	float *restrict to = (float *)sum;
	const float *restrict from = (const float *)other;

	for (size_t i = 0; i < MLP_FLOATS; i++)
		to[i] += from[i];
}

void mlp_update(struct mlp *m, struct mlp *momentum,
                const struct mlp *gradients)
{
	float *restrict w = (float *)m;
	float *restrict v = (float *)momentum;
	const float *restrict g = (const float *)gradients;

	for (size_t i = 0; i < MLP_FLOATS; i++) {
		v[i] = MOMENTUM * v[i] + g[i];
		w[i] -= RATE * v[i];
	}
}

unsigned mlp_correct(const struct mlp *m, const struct mlp_sample *samples,
                     size_t n)
{
	unsigned correct = 0;

	for (size_t s = 0; s < n; s++) {
		struct activations a;

		forward(m, samples[s].inputs, &a);
		correct += largest(a.outputs) == samples[s].label;
	}
	return correct;
}

double mlp_difference(const struct mlp *a, const struct mlp *b)
{
	const float *p = (const float *)a;
	const float *q = (const float *)b;
	double d, most = 0.0;

	for (size_t i = 0; i < MLP_FLOATS; i++) {
		d = fabs((double)p[i] - (double)q[i]);
		most = d > most ? d : most;
	}
	return most;
}
