/* SPDX-License-Identifier: Apache-2.0 */

/* cohort bench: how long collectives take; this file runs the parts that
 * bench.h lists. */

#include <sched.h>
#include <stdlib.h>

#include <cohort/cohort.h>

#include "base/util.h"
#include "cli/bench/bench.h"
#include "cli/commands.h"
#include "cli/common/cli.h"

static int count_cores(void)
{
	cpu_set_t allowed;

	return sched_getaffinity(0, sizeof(allowed), &allowed)
	               ? 1
	               : CPU_COUNT(&allowed);
}

static int default_ranks(const struct cohort_platform_info *info, int cores)
{
	/* Opening the group explains why a platform is unusable. */
	int devices = info->status == COHORT_OK && info->devices > 0
	                      ? info->devices
	                      : 1;
	int wanted = MAX(cores, 2);

	return info->platform == COHORT_PLATFORM_HOST && wanted < devices
	               ? wanted
	               : devices;
}

static int settle_ranks(struct bench_options *options, int cores)
{
	struct cohort_platform_info info = { .size = sizeof(info) };

	if (cli_need_devices("bench", options->ranks) != CLI_OK)
		return CLI_FAILED;
	if (cohort_platform_probe(options->platform, &info) != COHORT_OK) {
		cli_complain("bench", "%s", cohort_last_error());
		return CLI_FAILED;
	}
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
static int report(const struct bench *b)
{
	unsigned long long wrong = bench_wrong(b->cases, b->count);
	int status = CLI_OK;

	if (b->options->json)
		bench_json(b);
	else
		bench_print(b);
	if (b->options->plot)
		status = bench_plot(b);
	if (!wrong)
		return status;
	cli_complain(b->operation->command,
	             "%llu elements of results were wrong", wrong);
	return CLI_FAILED;
}

int bench_main(int argc, char **argv)
{
	/* A thread that was left behind may still look at them. */
	static struct bench_options options;
	int cores = count_cores(), status;
	struct bench *b;
	bool help;

	status = bench_parse(argc, argv, &options, &help);
	if (status != CLI_OK || help)
		return status;
	status = settle_ranks(&options, cores);
	if (status == CLI_OK && options.plot)
		status = bench_plot_check();
	if (status != CLI_OK)
		return status;
	b = bench_create(&options, cores);
	if (!b)
		return CLI_FAILED;
	status = bench_measure(b);
	if (status == CLI_OK)
		status = report(b);
	bench_destroy(b);
	return status;
}
