/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort bench average: its options, and what it does in which order; see average.h
 */

#include "cli/bench/average.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/cohort.h>
#include <cohort/sim.h>

#include "cli/bench/bench.h"
#include "cli/common/cli.h"
#include "cli/common/options.h"

#define COMMAND "bench average"

static void print_help(void)
{
	/* clang-format off */
	puts("usage: cohort bench average --shapes FILE [OPTION]...\n"
	     "\n"
	     "Measures how long it takes to all-reduce the gradients of a model with one\n"
	     "thread per rank.  The methods take turns:\n"
	     "  alone           one call for each tensor, then one wait\n"
	     "  group           cohort_all_reduce_many() as one native group\n"
	     "  flat            cohort_all_reduce_many() that packs the tensors into buffers\n"
	     "                  of 25 MiB; includes the copies\n"
	     "  views           one call for each such buffer, in which the gradients live\n"
	     "  auto            cohort_all_reduce_many() with its defaults\n"
	     "\n"
	     "  --shapes FILE   the tensors: on each line name, shape and count, separated\n"
	     "                  by tabs, such as 'fc.weight  1000x2048  2048000'\n"
	     "  --max-count N   use only tensors of at most N elements\n"
	     "  -g, --ranks N   number of ranks (default 2)\n"
	     "  -d TYPE         type of all tensors (default float32)\n"
	     "  -o OPERATION    avg (default), sum, prod, max or min\n"
	     "  -c 0|1          check the results of the first and last round (default 1)\n"
	     "  --only METHODS  measure only these methods, separated by commas\n"
	     "  --rounds N      number of rounds; each measures all methods (default 11)\n"
	     "  --rewrite       each rank rewrites its gradients before each operation,\n"
	     "                  outside the timed part; otherwise they keep the results\n"
	     "  --platform P    gpu or host (default: see cohort info)\n"
	     "  --no-pin        do not pin the ranks' threads to cores\n"
	     "  --json          one JSON array instead of text\n"
	     "  -h, --help      this text\n"
	     "\n"
	     "Exit status: 1 also if a result was wrong.");
	/* clang-format on */
}

/* ---- options ---------------------------------------------------------- */

static int read_methods(const struct cli_option *option, const char *text)
{
	struct average_options *o = option->value;

	memset(o->methods, 0, sizeof(o->methods));
	for (;;) {
		size_t length = strcspn(text, ",");
		int m = 0;

		while (m < METHODS &&
		       (strlen(average_method_name(m)) != length ||
		        strncmp(text, average_method_name(m), length) != 0))
			m++;
		if (m == METHODS) {
			cli_complain(
				COMMAND,
				"--only: '%.*s' is not alone, group, flat, "
				"views or auto",
				(int)length, text);
			return CLI_USAGE;
		}
		o->methods[m] = true;
		if (!text[length])
			return CLI_OK;
		text += length + 1;
	}
}

static int read_op(const struct cli_option *option, const char *text)
{
	return bench_read_one(COMMAND, option, text, bench_parse_op);
}

static int read_type(const struct cli_option *option, const char *text)
{
	return bench_read_one(COMMAND, option, text, bench_parse_type);
}

static int parse(int argc, char **argv, struct average_options *o,
                 bool *help_out)
{
	const struct cli_option options[] = {
		{ "ranks", 'g', CLI_INT, &o->ranks, .least = 1,
		  .most = COHORT_SIM_MAX_DEVICES },
		{ "datatype", 'd', CLI_READ, &o->type, .read = read_type },
		{ "op", 'o', CLI_READ, &o->op, .read = read_op },
		{ "check", 'c', CLI_BIT, .value = &o->check },
		{ "shapes", 0, CLI_TEXT, .value = &o->shapes,
		  .is_needed = true },
		{ "rounds", 0, CLI_UINT, &o->rounds, .least = 1,
		  .most = AVERAGE_MAX_ROUNDS },
		{ "rewrite", 0, CLI_TRUE, .value = &o->rewrites },
		{ "only", 0, CLI_READ, o, .read = read_methods },
		{ "max-count", 0, CLI_UINT, &o->max_count, .least = 1,
		  .most = UINT64_C(1) << 40 },
		{ "platform", 0, CLI_PLATFORM, .value = &o->platform },
		{ "no-pin", 0, CLI_FALSE, .value = &o->pin },
		{ "json", 0, CLI_TRUE, .value = &o->json },
		{ .kind = CLI_END },
	};

	return cli_options(COMMAND, argc, argv, options, print_help, help_out);
}

/* ---- the whole -------------------------------------------------------- */

static bool make_times(struct average *a)
{
	const struct average_options *o = a->options;

	for (int m = 0; m < METHODS; m++) {
		if (!o->methods[m])
			continue;
		a->times_ns[m] = calloc(o->rounds, sizeof(double));
		if (!a->times_ns[m])
			return false;
	}
	return true;
}

static void average_fini(struct average *a)
{
	for (int m = 0; m < METHODS; m++)
		free(a->times_ns[m]);
	free(a->shapes.all);
}

static int report(struct average *a)
{
	unsigned long long wrong = 0;

	average_evaluate(a);
	if (a->options->json)
		average_json(a);
	else
		average_print(a);
	for (int m = 0; m < METHODS; m++)
		wrong += atomic_load(&a->wrong[m]);
	if (!wrong)
		return CLI_OK;
	cli_complain(COMMAND, "%llu elements of results were wrong", wrong);
	return CLI_FAILED;
}

static int average(const struct average_options *o)
{
	struct average a = { .options = o, .cores = bench_count_cores() };
	const size_t size = cohort_type_size(o->type);
	int status;

	status = average_read(COMMAND, o->shapes, size, o->max_count, &a.shapes,
	                      &a.room);
	a.bytes = a.shapes.values * size;
	if (status == CLI_OK && !make_times(&a)) {
		cli_complain(COMMAND, "out of memory");
		status = CLI_FAILED;
	}
	if (status == CLI_OK)
		status = average_measure(&a);
	if (status == CLI_OK)
		status = report(&a);
	average_fini(&a);
	return status;
}

int average_main(int argc, char **argv)
{
	struct average_options o = {
		.ranks = 2,
		.platform = COHORT_PLATFORM_AUTO,
		.type = COHORT_F32,
		.op = COHORT_AVG,
		.rounds = 11,
		.check = true,
		.pin = true,
		.methods = { true, true, true, true, true },
	};
	struct cohort_platform_info info;
	bool help = false;
	int status = parse(argc, argv, &o, &help);

	if (status != CLI_OK || help)
		return status;
	status = bench_settle_devices(o.platform, o.ranks, &info);
	return status == CLI_OK ? average(&o) : status;
}
