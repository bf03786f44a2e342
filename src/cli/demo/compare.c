/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The demo's training once more, with one thread and without the library
 *
 * The gradients of the shards are added in rank order.  The host platform adds in that
 * order as well, so there the weights must agree to the last bit.
 */

#include "cli/demo/train.h"

#include <math.h>
#include <stdlib.h>

#include "cli/common/cli.h"

/* How many ranks made the attempt at @step that counted. */
static int ranks_at(const struct plan *plan, uint64_t step)
{
	int g = plan->generation_count - 1;

	while (g && plan->generations[g].first_step > step)
		g--;
	return plan->generations[g].ranks;
}

static void train_single(const struct plan *plan, struct rank *single,
                         struct mlp *sum)
{
	const struct demo_options *options = plan->options;

	mlp_init(&single->weights, options->seed);
	while (single->step < plan->steps) {
		int ranks = ranks_at(plan, single->step);

		for (int r = 0; r < ranks; r++) {
			train_gradients(plan, single, (size_t)r, (size_t)ranks);
			if (r == 0)
				*sum = single->gradients;
			else
				mlp_add(sum, &single->gradients);
		}
		mlp_update(&single->weights, &single->momentum, sum,
		           options->lr, options->momentum);
		single->step++;
	}
}

int train_compare(const struct plan *plan, double *difference_out)
{
	struct rank *single = calloc(1, sizeof(*single));
	struct mlp *sum = malloc(sizeof(*sum));
	double most = 0.0;
	int status = CLI_FAILED;

	if (!single || !sum) {
		cli_complain("demo", "out of memory");
		goto out;
	}
	train_single(plan, single, sum);
	for (int r = 0; r < plan->now_size; r++) {
		double d = mlp_difference(&plan->ranks[plan->now[r]].weights,
		                          &single->weights);

		/* True also if d is NaN. */
		if (!(d <= most))
			most = d;
		if (isnan(d))
			break;
	}
	*difference_out = most;
	status = CLI_OK;
out:
	free(sum);
	free(single);
	return status;
}
