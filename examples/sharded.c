/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Shard the optimizer's state between the ranks
 *
 * After the backward pass each rank has only its shard of every averaged
 * gradient, so it needs momentum only for its shards.  It updates its shards of
 * the weights, and then all ranks gather all shards.  If the number of elements
 * of a parameter is not divisible by the number of ranks, the last rank has the
 * remainder.  The program then trains again with the whole state on every rank,
 * and checks that the weights are bit-identical.
 *
 *  cc sharded.c -lcohort && ./a.out
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/reducer.h>

#define RANKS 4
#define LAYERS 4
#define WIDEST 1001
#define STEPS 30 /* too few for all weights to converge */

struct run {
	int sharded;
	size_t state[RANKS]; /* elements in each rank's optimizer state */
	float weights[RANKS][LAYERS][WIDEST];
};

/*
 * Widths of the layers.  Only the second width is divisible by the number of
 * ranks; most ranks have no element of the last layer.
 */
static const size_t widths[LAYERS] = { WIDEST, 64, 303, 2 };

/*
 * Compute the gradient: for each weight, the derivative of half the squared
 * error of a line y = w * x at one of this rank's points.
 */
static void backward(size_t layer, int rank, const float *w, float *gradient)
{
	float x = 0.5f + 0.25f * (float)rank;
	size_t k;

	for (k = 0; k < widths[layer]; k++)
		gradient[k] = (w[k] - (float)(layer + 1 + k % 7)) * x * x;
}

static size_t state_of(const struct cohort_reducer *reducer)
{
	size_t i, first, count, sum = 0;

	for (i = 0; i < LAYERS; i++)
		if (cohort_reducer_shard(reducer, i, &first, &count) ==
		    COHORT_OK)
			sum += count;
	return sum;
}

/* Update this rank's part of the weights, with momentum only for that part. */
static void update(const struct cohort_reducer *reducer, float (*w)[WIDEST],
                   float *momentum)
{
	size_t i, k, first, count;
	const float *gradient;

	for (i = 0; i < LAYERS; i++) {
		gradient = cohort_reducer_view(reducer, i);
		cohort_reducer_shard(reducer, i, &first, &count);
		for (k = first; k < first + count; k++, momentum++) {
			*momentum = 0.9f * *momentum + gradient[k];
			w[i][k] -= 0.5f * *momentum;
		}
	}
}

static int step(struct cohort_reducer *reducer, struct cohort_comm *comm,
                float (*w)[WIDEST])
{
	int rc = cohort_reducer_begin(reducer, cohort_comm_stream(comm));
	size_t i;

	for (i = LAYERS; i-- > 0 && rc == COHORT_OK;) {
		backward(i, cohort_comm_rank(comm), w[i],
		         cohort_reducer_view(reducer, i));
		rc = cohort_reducer_ready(reducer, i);
	}
	return rc == COHORT_OK ? cohort_reducer_finish(reducer, COHORT_FOREVER)
	                       : rc;
}

static int create(struct cohort_comm *comm, int sharded,
                  struct cohort_reducer **reducer)
{
	struct cohort_parameter list[LAYERS];
	struct cohort_reducer_options options;
	size_t i;

	for (i = 0; i < LAYERS; i++)
		list[i] = (struct cohort_parameter){ .count = widths[i],
			                             .type = COHORT_F32 };
	cohort_reducer_options_init(&options);
	options.sharded = sharded;
	return cohort_reducer_create(comm, list, LAYERS, &options, reducer);
}

static int train(struct cohort_comm *comm, void *user)
{
	struct run *run = user;
	int i, rc, rank = cohort_comm_rank(comm);
	float *momentum, (*w)[WIDEST] = run->weights[rank];
	struct cohort_reducer *reducer;
	void *parameters[LAYERS];

	rc = create(comm, run->sharded, &reducer);
	if (rc != COHORT_OK)
		return rc;
	for (i = 0; i < LAYERS; i++)
		parameters[i] = w[i];
	run->state[rank] = state_of(reducer);
	momentum = calloc(run->state[rank], sizeof(float));
	for (i = 0; i < STEPS && rc == COHORT_OK; i++) {
		rc = momentum ? step(reducer, comm, w) : COHORT_NO_MEMORY;
		if (rc == COHORT_OK)
			update(reducer, w, momentum);
		if (rc == COHORT_OK && run->sharded)
			rc = cohort_reducer_gather(reducer, parameters,
			                           cohort_comm_stream(comm),
			                           COHORT_FOREVER);
	}
	free(momentum);
	cohort_reducer_free(reducer);
	return rc;
}

/* Compare the ranks' weights; return 0 if all are equal. */
static int compare(const struct run *sharded, const struct run *whole)
{
	int rank, differ, failed = 0;

	for (rank = 0; rank < RANKS; rank++) {
		differ = memcmp(sharded->weights[rank], whole->weights[0],
		                sizeof(whole->weights[0])) != 0 ||
		         memcmp(whole->weights[rank], whole->weights[0],
		                sizeof(whole->weights[0])) != 0;
		printf("rank %d: momentum of %zu weights, not of %zu; %s\n",
		       rank, sharded->state[rank], whole->state[rank],
		       differ ? "other weights" : "the same weights");
		failed |= differ;
	}
	printf("layer one: %.3f %.3f %.3f\n", (double)sharded->weights[0][0][0],
	       (double)sharded->weights[0][0][1],
	       (double)sharded->weights[0][0][2]);
	return failed;
}

int main(void)
{
	static struct run sharded = { .sharded = 1 }, whole;
	struct cohort_group_options options;
	struct cohort_group *group;
	struct cohort_cause cause;
	int failed;

	cohort_group_options_init(&options);
	options.platform = COHORT_PLATFORM_HOST;
	if (cohort_group_open(NULL, RANKS, &options, &group) != COHORT_OK) {
		fprintf(stderr, "%s\n", cohort_last_error());
		return 1;
	}
	failed =
		cohort_group_run(group, train, &sharded, &cause) != COHORT_OK ||
		cohort_group_run(group, train, &whole, &cause) != COHORT_OK;
	if (failed)
		fprintf(stderr, "%s\n", cause.text);
	else
		failed = compare(&sharded, &whole);
	return cohort_group_close(group) != COHORT_OK || failed;
}
