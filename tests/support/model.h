/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MODEL_H
#define MODEL_H

/*
 * A small model without a meaning, for tests of the reducer: parameters of uneven
 * sizes, and gradients that any thread can compute of any rank and step
 */

#include <stdbool.h>

#include <cohort/reducer.h>

#define MODEL_PARAMETERS 9
#define MODEL_RANKS 4
#define MODEL_MOST 3000 /* elements of a parameter */

struct model {
	int size; /* ranks */
	int type;
	bool views; /* the reducer has every other gradient */
	struct cohort_reducer_options options;
};

/* One rank's part. */
struct model_rank {
	const struct model *model;
	struct cohort_comm *comm;
	struct cohort_reducer *reducer;
	unsigned char *gradients[MODEL_PARAMETERS]; /* NULL: a view */
};

/* Elements of parameter @i, and its name. */
size_t model_count(int i);
const char *model_name(int i);

/* Defaults, small buckets, and views. */
struct model model_of(int size);

/* Open and close this rank's reducer; the result of the first call that fails. */
int model_open(struct model_rank *rank, const struct model *model,
               struct cohort_comm *comm);
int model_close(struct model_rank *rank);

/* Element @k of parameter @i's gradient on @rank at @step. */
double model_value(int rank, uint64_t step, int i, size_t k);

/* Have this rank's gradient of @i be that of @step, multiplied by @by; and read what
 * has become of it, as float64. */
void model_set(struct model_rank *rank, uint64_t step, int i, double by);
void model_get(struct model_rank *rank, int i, double *values);

/* A random order of all parameters. */
void model_shuffle(int order[MODEL_PARAMETERS], uint64_t seed);

/* What the ranks' gradients of @step come to as float32: added in rank order, with
 * @factors (as float32; NULL: 1), divided by @divisor. */
float model_fold(const struct model *model, uint64_t step, int i, size_t k,
                 const float *factors, float divisor);

/* How many elements of this rank's gradients are not model_fold(). */
size_t model_wrong(struct model_rank *rank, uint64_t step, const float *factors,
                   float divisor);

#endif
