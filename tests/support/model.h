/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODEL_H
#define MODEL_H

/*
 * A small synthetic model for tests of the reducer
 *
 * The sizes of the parameters are uneven. Any thread can compute the gradients
 * of any rank and step.
 */

#include <stdbool.h>

#include <cohort/reducer.h>

#define MODEL_PARAMETERS 9
#define MODEL_RANKS 4
#define MODEL_MOST 3000 /* maximum number of elements of a parameter */

struct model {
	int size; /* number of ranks */
	int type;
	/* gradients with even indexes are views of the reducer's memory */
	bool views;
	struct cohort_reducer_options options;
};

/* One rank's copy of the model */
struct model_rank {
	const struct model *model;
	struct cohort_comm *comm;
	struct cohort_reducer *reducer;
	/* NULL if the gradient is a view */
	unsigned char *gradients[MODEL_PARAMETERS];
};

/* Return the number of elements of parameter @i. */
size_t model_count(int i);

/* Return the name of parameter @i. */
const char *model_name(int i);

/* Return a model for @size ranks, with small buckets and views, and otherwise
 * with default options. */
struct model model_of(int size);

/* Create this rank's reducer.  Return the result of cohort_reducer_create(). */
int model_open(struct model_rank *rank, const struct model *model,
               struct cohort_comm *comm);

/* Free this rank's reducer. Return the result of cohort_reducer_free(). */
int model_close(struct model_rank *rank);

/* Return element @k of the gradient of parameter @i on @rank at @step. */
double model_value(int rank, uint64_t step, int i, size_t k);

/*
 * Set this rank's gradient of parameter @i to @by times its value at @step.
 */
void model_set(struct model_rank *rank, uint64_t step, int i, double by);

/* Read the gradient of parameter @i as float64. */
void model_get(struct model_rank *rank, int i, double *values);

/* Fill @order with all parameters in random order. */
void model_shuffle(int order[MODEL_PARAMETERS], uint64_t seed);

/*
 * Return the sum of the ranks' gradients at @step divided by @divisor, in
 * float32 and added in rank order. Each gradient is multiplied by its rank's
 * factor, or by 1 if @factors is NULL.
 */
float model_fold(const struct model *model, uint64_t step, int i, size_t k,
                 const float *factors, float divisor);

/* Return how many elements of this rank's gradients differ from
 * model_fold(). */
size_t model_wrong(struct model_rank *rank, uint64_t step, const float *factors,
                   float divisor);

#endif
