/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODEL_H
#define MODEL_H

/*
 * A small model without a meaning, for tests of the reducer: its parameters
 * have uneven sizes, and any thread can compute the gradients of any rank and
 * step
 */

#include <stdbool.h>

#include <cohort/reducer.h>

#define MODEL_PARAMETERS 9
#define MODEL_RANKS 4
#define MODEL_MOST 3000 /* most elements of a parameter */

struct model {
	int size; /* number of ranks */
	int type;
	bool views; /* every other gradient is a view of the reducer's memory */
	struct cohort_reducer_options options;
};

/* What one rank has. */
struct model_rank {
	const struct model *model;
	struct cohort_comm *comm;
	struct cohort_reducer *reducer;
	unsigned char *gradients[MODEL_PARAMETERS]; /* NULL: a view */
};

/* Elements of parameter @i, and its name. */
size_t model_count(int i);
const char *model_name(int i);

/* Defaults, with small buckets, and with views. */
struct model model_of(int size);

/* Open and close this rank's reducer; the result of the first call that fails. */
int model_open(struct model_rank *rank, const struct model *model,
               struct cohort_comm *comm);
int model_close(struct model_rank *rank);

/* Element @k of parameter @i's gradient on @rank at @step. */
double model_value(int rank, uint64_t step, int i, size_t k);

/*
 * model_set() sets this rank's gradient of @i to that of @step, multiplied by
 * @by; model_get() reads, as float64, what the reducer has made of it.
 */
void model_set(struct model_rank *rank, uint64_t step, int i, double by);
void model_get(struct model_rank *rank, int i, double *values);

/* A random order of all parameters. */
void model_shuffle(int order[MODEL_PARAMETERS], uint64_t seed);

/*
 * The sum of the ranks' gradients of @step as float32: added in rank order,
 * with @factors (as float32; NULL: 1), divided by @divisor.
 */
float model_fold(const struct model *model, uint64_t step, int i, size_t k,
                 const float *factors, float divisor);

/* How many elements of this rank's gradients differ from model_fold(). */
size_t model_wrong(struct model_rank *rank, uint64_t step, const float *factors,
                   float divisor);

#endif
