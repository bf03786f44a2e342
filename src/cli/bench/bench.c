/* SPDX-License-Identifier: Apache-2.0 */

/* cohort bench: measures how long collectives take; bench.h lists the parts */

#include <sched.h>
#include <stdlib.h>

#include <cohort/cohort.h>

#include "base/util.h"
#include "cli/bench/bench.h"
#include "cli/common/cli.h"

static int settle_ranks(struct bench_options *options, int cores)
{
	struct cohort_platform_info info = { .size = sizeof(info) };

	if (cli_need_devices(options->ranks) != CLI_OK)
		return CLI_FAILED;
	if (cohort_platform_probe(options->platform, &info) != COHORT_OK)
		return cli_fail("%s", cohort_last_error());
	if (!options->ranks) {
		/* If the platform is unusable, opening the group reports why. */
		options->ranks = info.status == COHORT_OK && info.devices > 0
		                         ? info.devices
		                         : 1;
		if (info.platform == COHORT_PLATFORM_HOST)
			options->ranks = MIN(options->ranks, MAX(cores, 2));
	}
	if (options->root >= options->ranks)
		return cli_misuse("-r: %d is not a rank from 0 to %d",
		                  options->root, options->ranks - 1);
	return CLI_OK;
}

/* Print the results that are not printed yet. If any result was wrong, print an
 * error and return CLI_FAILED. */
static int report(const struct bench *b)
{
	unsigned long long wrong = bench_wrong(b->cases, b->count);

	if (b->options->json)
		bench_json(b);
	else if (b->operation->print_last_lines)
		b->operation->print_last_lines(b);
	if (!wrong)
		return CLI_OK;
	return cli_fail("%llu elements of the results were wrong", wrong);
}

int bench_main(int argc, char **argv)
{
	/* static because an abandoned thread may still read it */
	static struct bench_options options;
	cpu_set_t allowed;
	int cores = sched_getaffinity(0, sizeof(allowed), &allowed)
	                    ? 1
	                    : CPU_COUNT(&allowed);
	struct bench *b;
	int status;

	if (!bench_parse(argc, argv, &options, &status))
		return status;
	status = settle_ranks(&options, cores);
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
