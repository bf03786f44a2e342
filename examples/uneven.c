/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Train with batches whose sizes and numbers differ between ranks
 *
 * Rank r has 10 * (r + 1) samples.  The weight of a batch is the number of its
 * samples, so that the mean over the ranks is the mean over all samples of the
 * step.  A rank without further batches joins the other ranks' steps with
 * weight 0, until no rank has batches left.  (Otherwise the other ranks would
 * wait for this rank until their deadline.)
 *
 *  cc uneven.c -lcohort && ./a.out
 */

#include <stdio.h>

#include <cohort/reducer.h>

#define RANKS 3
#define BATCH 8

/*
 * Return the gradient of half the mean squared error of @w, over samples @begin
 * to @begin + @n - 1 of a rank.
 */
static float gradient_of(float w, int rank, int begin, int n)
{
	float sum = 0.0f;
	int k;

	for (k = begin; k < begin + n; k++)
		sum += w - (float)(rank + k % 2);
	return sum / (float)n;
}

static int train(struct cohort_comm *comm, void *user)
{
	int rank = cohort_comm_rank(comm), left = 10 * (rank + 1);
	int n, rc, own = 0, joined = 0;
	float w = 0.0f, gradient = 0.0f;
	const struct cohort_parameter list = { "w", &gradient, 1, COHORT_F32 };
	struct cohort_reducer_options options;
	struct cohort_reducer *reducer = NULL;

	(void)user;
	cohort_reducer_options_init(&options);
	options.weighted = 1;
	rc = cohort_reducer_create(comm, &list, 1, &options, &reducer);
	while (rc == COHORT_OK && left > 0) {
		n = left < BATCH ? left : BATCH;
		rc = cohort_reducer_begin_weighted(reducer, n,
		                                   cohort_comm_stream(comm));
		gradient = gradient_of(w, rank, left - n, n);
		if (rc == COHORT_OK)
			rc = cohort_reducer_ready(reducer, 0);
		if (rc == COHORT_OK)
			rc = cohort_reducer_finish(reducer, COHORT_FOREVER);
		w -= 0.5f * gradient;
		left -= n;
		own++;
	}
	while (rc == COHORT_OK) {
		rc = cohort_reducer_join(reducer, COHORT_FOREVER);
		if (rc == COHORT_OK) {
			w -= 0.5f * gradient;
			joined++;
		}
	}
	if (rc == COHORT_JOINED) {
		printf("rank %d: %d steps of its own, %d joined, w is %.4f\n",
		       rank, own, joined, (double)w);
		rc = COHORT_OK;
	}
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
