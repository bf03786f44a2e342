/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Accumulate gradients over several backward passes, and communicate once per
 * update
 *
 * Gradients add up in place, and only the last pass of a step launches the
 * average of the sums.  After it, all ranks have the same gradients.  So each
 * rank can decide by itself whether to skip a step with infinite or NaN
 * gradients, and all ranks decide alike.
 *
 *  cc accumulate.c -lcohort && ./a.out
 */

#include <math.h>
#include <stdio.h>

#include <cohort/reducer.h>

#define RANKS 2
#define PASSES 4
#define STEPS 5

/* Add the gradients of one pass.  In step 2 those of rank 1 overflow. */
static void backward(float *gradient, const float *w, int rank, int step)
{
	int k;

	for (k = 0; k < 3; k++)
		gradient[k] += (w[k] - (float)(k + rank)) / PASSES;
	if (step == 2 && rank == 1)
		gradient[1] = INFINITY;
}

static int are_finite(const float *gradient)
{
	int k, n = 0;

	for (k = 0; k < 3; k++)
		n += isfinite(gradient[k]) != 0;
	return n == 3;
}

static int train(struct cohort_comm *comm, void *user)
{
	float w[3] = { 0.0f, 0.0f, 0.0f }, gradient[3];
	const struct cohort_parameter list = { "w", gradient, 3, COHORT_F32 };
	struct cohort_reducer *reducer = NULL;
	int step, pass, k, rank = cohort_comm_rank(comm), skipped = 0, rc;

	(void)user;
	rc = cohort_reducer_create(comm, &list, 1, NULL, &reducer);
	for (step = 0; step < STEPS && rc == COHORT_OK; step++) {
		for (k = 0; k < 3; k++)
			gradient[k] = 0.0f;
		for (pass = 0; pass < PASSES && rc == COHORT_OK; pass++) {
			rc = pass < PASSES - 1
			             ? cohort_reducer_accumulate(reducer)
			             : cohort_reducer_begin(
					       reducer,
					       cohort_comm_stream(comm));
			backward(gradient, w, rank, step);
			if (rc == COHORT_OK)
				rc = cohort_reducer_ready(reducer, 0);
			if (rc == COHORT_OK)
				rc = cohort_reducer_finish(reducer,
				                           COHORT_FOREVER);
		}
		if (rc == COHORT_OK && !are_finite(gradient))
			skipped++;
		else
			for (k = 0; k < 3 && rc == COHORT_OK; k++)
				w[k] -= 0.5f * gradient[k];
	}
	if (rc == COHORT_OK)
		printf("rank %d: w is %.4f %.4f %.4f, %d skipped\n", rank,
		       (double)w[0], (double)w[1], (double)w[2], skipped);
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
