/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort bench: how long collectives take
 *
 * This file runs the parts that bench.h lists.
 */

#include "cli/bench/bench.h"

#include <string.h>

#include <cohort/cohort.h>

#include "cli/common/cli.h"

static int default_ranks(const struct cohort_platform_info *info, int cores)
{
	/* Opening the group explains why a platform is unusable. */
	int devices = info->status == COHORT_OK && info->devices > 0
	                      ? info->devices
	                      : 1;
	int wanted = cores < 2 ? 2 : cores;

	return info->platform == COHORT_PLATFORM_HOST && wanted < devices
	               ? wanted
	               : devices;
}

static int settle_ranks(struct bench_options *options, int cores)
{
	struct cohort_platform_info info;
	int status =
		bench_settle_devices(options->platform, options->ranks, &info);

	if (status != CLI_OK)
		return status;
	if (!options->ranks)
		options->ranks = default_ranks(&info, cores);
	if (options->root >= options->ranks) {
		cli_complain("bench", "-r: %d: there are ranks 0 to %d",
		             options->root, options->ranks - 1);
		return CLI_USAGE;
	}
	return CLI_OK;
}

/* CLI_FAILED, after a complaint, if any result was wrong. */
static int judge(const struct bench_plan *plan)
{
	unsigned long long wrong = 0;

	for (size_t i = 0; i < plan->count; i++)
		wrong += bench_wrong(&plan->cases[i]);
	if (!wrong)
		return CLI_OK;
	cli_complain("bench", "%llu elements of results were wrong", wrong);
	return CLI_FAILED;
}

static int report(struct bench_plan *plan)
{
	int status = judge(plan), drawn = CLI_OK;

	bench_evaluate(plan);
	if (plan->options->json)
		bench_json(plan);
	else
		bench_print(plan);
	if (plan->options->plot)
		drawn = bench_plot(plan);
	return status == CLI_OK ? drawn : status;
}

static int bench(const struct bench_options *options, int cores)
{
	struct bench_plan plan;
	int status = CLI_FAILED;

	if (!bench_plan_init(&plan, options)) {
		cli_complain("bench", "out of memory");
		goto out;
	}
	plan.cores = cores;
	status = bench_measure(&plan);
	if (status == CLI_OK)
		status = report(&plan);
out:
	bench_plan_fini(&plan);
	return status;
}

int bench_main(int argc, char **argv)
{
	struct bench_options options;
	int cores = bench_count_cores(), status;
	bool help;

	if (argc > 1 && !strcmp(argv[1], "average"))
		return average_main(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "overlap"))
		return overlap_main(argc - 1, argv + 1);
	status = bench_parse(argc, argv, &options, &help);
	if (status != CLI_OK || help)
		return status;
	status = settle_ranks(&options, cores);
	if (status == CLI_OK && options.plot)
		status = bench_plot_check();
	return status == CLI_OK ? bench(&options, cores) : status;
}
