/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Average gradients during the backward pass
 *
 * For each layer, every rank fits one line y = w * x to its own points.  The
 * backward pass goes from the last layer to the first and marks each gradient
 * as ready.  While it computes the next gradient, the reducer averages complete
 * buckets.  The reducer owns the gradients, so nothing is copied.  (This
 * program computes the gradients on the host.  On GPUs, kernels would compute
 * them on a stream that is passed to cohort_reducer_begin().)
 *
 *  cc overlap.c -lcohort && ./a.out
 */

#include <stdio.h>

#include <cohort/reducer.h>

#define RANKS 4
#define LAYERS 6
#define WIDTH 20000
#define STEPS 60

/* Return the slope of the line on which all points of a layer lie. */
static float truth(int layer, int k)
{
	return (float)(layer + 1) + (float)(k % 7);
}

/*
 * Compute the gradient, the mean of (w - truth) * x * x over this rank's
 * points, which is the derivative of half the squared error.
 */
static void backward(int layer, int rank, const float *w, float *gradient)
{
	float x = 0.5f + 0.25f * (float)rank;
	int k;

	for (k = 0; k < WIDTH; k++)
		gradient[k] = (w[k] - truth(layer, k)) * x * x;
}

static int train(struct cohort_comm *comm, void *user)
{
	static float weights[RANKS][LAYERS][WIDTH];
	static const char *const names[LAYERS] = { "one",  "two",  "three",
		                                   "four", "five", "six" };
	struct cohort_parameter list[LAYERS];
	struct cohort_reducer_options options;
	struct cohort_reducer *reducer;
	int step, layer, k, rank = cohort_comm_rank(comm), rc;
	float *gradient, (*w)[WIDTH] = weights[rank];

	(void)user;
	for (layer = 0; layer < LAYERS; layer++) {
		list[layer].name = names[layer];
		list[layer].gradient = NULL; /* the reducer allocates it */
		list[layer].count = WIDTH;
		list[layer].type = COHORT_F32;
	}
	cohort_reducer_options_init(&options);
	options.first_bytes = 100000; /* small enough to get several buckets */
	options.bucket_bytes = 200000;
	rc = cohort_reducer_create(comm, list, LAYERS, &options, &reducer);
	if (rc != COHORT_OK)
		return rc;
	for (step = 0; step < STEPS && rc == COHORT_OK; step++) {
		rc = cohort_reducer_begin(reducer, cohort_comm_stream(comm));
		for (layer = LAYERS - 1; layer >= 0 && rc == COHORT_OK;
		     layer--) {
			gradient = cohort_reducer_view(reducer, (size_t)layer);
			backward(layer, rank, w[layer], gradient);
			rc = cohort_reducer_ready(reducer, (size_t)layer);
		}
		if (rc == COHORT_OK)
			rc = cohort_reducer_finish(reducer, COHORT_FOREVER);
		for (layer = 0; layer < LAYERS && rc == COHORT_OK; layer++) {
			gradient = cohort_reducer_view(reducer, (size_t)layer);
			for (k = 0; k < WIDTH; k++)
				w[layer][k] -= gradient[k];
		}
	}
	/* All ranks have bit-identical weights, so one of them prints them. */
	if (rc == COHORT_OK && rank == 0)
		printf("layer one: %.3f %.3f %.3f, in %d buckets\n",
		       (double)w[0][0], (double)w[0][1], (double)w[0][2],
		       cohort_reducer_buckets(reducer));
	/*
	 * After a failure, this call waits until no operation can write to the
	 * gradients.
	 */
	cohort_reducer_free(reducer);
	return rc;
}

int main(void)
{
	struct cohort_group_options options;
	struct cohort_group *group;
	struct cohort_cause cause;

	cohort_group_options_init(&options);
	options.platform = COHORT_PLATFORM_HOST;
	if (cohort_group_open(NULL, RANKS, &options, &group) != COHORT_OK) {
		fprintf(stderr, "%s\n", cohort_last_error());
		return 1;
	}
	if (cohort_group_run(group, train, NULL, &cause) != COHORT_OK)
		fprintf(stderr, "%s\n", cause.text);
	return cohort_group_close(group) == COHORT_OK &&
	                       cause.status == COHORT_OK
	               ? 0
	               : 1;
}
