/* SPDX-License-Identifier: Apache-2.0 */

#include "support/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "support/ranks.h"
#include "support/stress.h"

static const size_t counts[MODEL_PARAMETERS] = { 700, 16, MODEL_MOST, 1, 0,
	                                         257, 64, 1500,       5 };

static const char *const names[MODEL_PARAMETERS] = {
	"stem.weight",       "stem.bias",      "layer1.conv1.weight",
	"layer1.conv1.bias", "layer1.nothing", "layer4.conv2.weight",
	"layer4.conv2.bias", "fc.weight",      "fc.bias",
};

size_t model_count(int i)
{
	return counts[i];
}

const char *model_name(int i)
{
	return names[i];
}

struct model model_of(int size)
{
	struct model m = { .size = size, .type = COHORT_F32, .views = true };

	cohort_reducer_options_init(&m.options);
	m.options.first_bytes = 1024;
	m.options.bucket_bytes = 6500;
	return m;
}

int model_open(struct model_rank *rank, const struct model *m,
               struct cohort_comm *comm)
{
	struct cohort_parameter p[MODEL_PARAMETERS];
	size_t bytes;
	int i;

	*rank = (struct model_rank){ .model = m, .comm = comm };
	for (i = 0; i < MODEL_PARAMETERS; i++) {
		bytes = counts[i] * cohort_type_size(m->type);
		if (!m->views || i % 2)
			rank->gradients[i] = calloc(1, bytes + 1);
		p[i] = (struct cohort_parameter){ names[i], rank->gradients[i],
			                          counts[i], m->type };
	}
	return cohort_reducer_create(comm, p, MODEL_PARAMETERS, &m->options,
	                             &rank->reducer);
}

int model_close(struct model_rank *rank)
{
	int i, rc = cohort_reducer_free(rank->reducer);

	for (i = 0; i < MODEL_PARAMETERS && rc == COHORT_OK; i++)
		free(rank->gradients[i]);
	return rc;
}

double model_value(int rank, uint64_t step, int i, size_t k)
{
	uint64_t x = random_of((uint64_t)rank * 7919 + step * 104729 +
	                       (uint64_t)i * 1299709 + k * 15485863);

	return ((double)(x >> 41) - 4194304.0) / 4194304.0;
}

/* Copy between device memory and host memory. */
static void copy(struct model_rank *rank, void *to, const void *from,
                 size_t bytes)
{
	ranks_must(cohort_copy(rank->comm, to, from, bytes,
	                       cohort_comm_stream(rank->comm)),
	           "copy");
	ranks_must(cohort_synchronize(rank->comm, RANKS_SOON), "synchronize");
}

void model_set(struct model_rank *rank, uint64_t step, int i, double by)
{
	int r = cohort_comm_rank(rank->comm), type = rank->model->type;
	double values[MODEL_MOST];
	float *narrow = (float *)values;
	void *to = cohort_reducer_view(rank->reducer, (size_t)i);
	size_t k;

	for (k = 0; k < counts[i]; k++)
		if (type == COHORT_F64)
			values[k] = by * model_value(r, step, i, k);
		else
			narrow[k] = (float)(by * model_value(r, step, i, k));
	if (rank->gradients[i])
		memcpy(to, values, counts[i] * cohort_type_size(type));
	else
		copy(rank, to, values, counts[i] * cohort_type_size(type));
}

void model_get(struct model_rank *rank, int i, double *values)
{
	float narrow[MODEL_MOST];
	const void *from = cohort_reducer_view(rank->reducer, (size_t)i);
	void *to = rank->model->type == COHORT_F64 ? (void *)values : narrow;
	size_t k, bytes = counts[i] * cohort_type_size(rank->model->type);

	if (rank->gradients[i])
		memcpy(to, from, bytes);
	else
		copy(rank, to, from, bytes);
	for (k = 0; k < counts[i] && to == narrow; k++)
		values[k] = (double)narrow[k];
}

void model_shuffle(int order[MODEL_PARAMETERS], uint64_t seed)
{
	int i, j, swap;

	for (i = 0; i < MODEL_PARAMETERS; i++)
		order[i] = i;
	for (i = MODEL_PARAMETERS - 1; i > 0; i--) {
		j = (int)(stress_random(&seed) % (unsigned)(i + 1));
		swap = order[i];
		order[i] = order[j];
		order[j] = swap;
	}
}

float model_fold(const struct model *m, uint64_t step, int i, size_t k,
                 const float *factors, float divisor)
{
	float sum = 0.0f, x;
	int r;

	for (r = 0; r < m->size; r++) {
		x = (float)model_value(r, step, i, k);
		if (factors)
			x *= factors[r];
		sum = r ? sum + x : x;
	}
	return divisor == 1.0f ? sum : sum / divisor;
}

size_t model_wrong(struct model_rank *rank, uint64_t step, const float *factors,
                   float divisor)
{
	double values[MODEL_MOST];
	size_t k, wrong = 0;
	float want;
	int i;

	for (i = 0; i < MODEL_PARAMETERS; i++) {
		model_get(rank, i, values);
		for (k = 0; k < counts[i]; k++) {
			want = model_fold(rank->model, step, i, k, factors,
			                  divisor);
			wrong += (float)values[k] != want;
		}
	}
	return wrong;
}
