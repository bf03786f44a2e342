/* SPDX-License-Identifier: Apache-2.0 */

/* The options of cohort bench average, and the order of things; see average.h. */

#include "cli/bench/average.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/cohort.h>
#include <cohort/sim.h>

#include "cli/bench/bench.h"
#include "cli/common/cli.h"

enum {
	OPTION_SHAPES = CLI_LONG_OPTION,
	OPTION_RANKS,
	OPTION_ROUNDS,
	OPTION_REWRITE,
	OPTION_ONLY,
	OPTION_MAX_COUNT,
	OPTION_LIMIT,
	OPTION_PLATFORM,
	OPTION_NO_PIN,
	OPTION_JSON,
};

static const char short_options[] = ":hg:d:o:c:";

static const struct option long_options[] = {
	{ "help", no_argument, NULL, 'h' },
	{ "ranks", required_argument, NULL, 'g' },
	{ "datatype", required_argument, NULL, 'd' },
	{ "op", required_argument, NULL, 'o' },
	{ "check", required_argument, NULL, 'c' },
	{ "shapes", required_argument, NULL, OPTION_SHAPES },
	{ "rounds", required_argument, NULL, OPTION_ROUNDS },
	{ "rewrite", no_argument, NULL, OPTION_REWRITE },
	{ "only", required_argument, NULL, OPTION_ONLY },
	{ "max-count", required_argument, NULL, OPTION_MAX_COUNT },
	{ "limit", no_argument, NULL, OPTION_LIMIT },
	{ "platform", required_argument, NULL, OPTION_PLATFORM },
	{ "no-pin", no_argument, NULL, OPTION_NO_PIN },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ 0 },
};

static void print_help(void)
{
	puts("usage: cohort bench average --shapes FILE [OPTION]...\n"
	     "\n"
	     "Measures what it takes to all-reduce the gradients of a model, "
	     "one thread per\n"
	     "rank, by these methods, in turn:\n"
	     "  alone           one call for each tensor, then one wait\n"
	     "  group           cohort_all_reduce_many() as one native group\n"
	     "  flat            the same, packed into buffers of 25 MiB; with "
	     "the copies\n"
	     "  views           the gradients live in such buffers: a call "
	     "for each\n"
	     "  auto            cohort_all_reduce_many() as it is\n"
	     "\n"
	     "  --shapes FILE   the tensors: lines of name, shape and count, "
	     "with tabs\n"
	     "                  between, such as 'fc.weight  1000x2048  "
	     "2048000'\n"
	     "  --max-count N   only those of at most N values\n"
	     "  -g, --ranks N   ranks (default 2)\n"
	     "  -d TYPE         of all tensors: float32 (default), or another "
	     "one\n"
	     "  -o OPERATION    avg (default), sum, prod, max or min\n"
	     "  -c 0|1          check the results in the first and last round "
	     "(default 1)\n"
	     "  --only METHODS  these, with commas\n"
	     "  --rounds N      of all methods (default 11)\n"
	     "  --rewrite       each rank rewrites its gradients before each "
	     "operation,\n"
	     "                  outside the timed part; else they stay where "
	     "they were left\n"
	     "  --limit         compare with the same loads and stores without "
	     "waiting\n"
	     "                  for anybody, by turns\n"
	     "  --platform P    gpu or host (default: what cohort info tells)\n"
	     "  --no-pin        leave it to the system on which cores the "
	     "ranks run\n"
	     "  --json          one JSON array instead of text\n"
	     "  -h, --help      this text\n"
	     "\n"
	     "Exit status: 1 also if a result was wrong.");
}

/* ---- options ---------------------------------------------------------- */

static int parse_methods(struct average_options *o)
{
	const char *at = optarg;

	memset(o->methods, 0, sizeof(o->methods));
	for (;;) {
		size_t length = strcspn(at, ",");
		int m = 0;

		while (m < METHODS &&
		       (strlen(average_method_name(m)) != length ||
		        strncmp(at, average_method_name(m), length) != 0))
			m++;
		if (m == METHODS) {
			cli_complain(
				"bench average",
				"--only: '%.*s' is not alone, group, flat, "
				"views or auto",
				(int)length, at);
			return CLI_USAGE;
		}
		o->methods[m] = true;
		if (!at[length])
			return CLI_OK;
		at += length + 1;
	}
}

static int parse_number(const char *option, uint64_t min, uint64_t max,
                        uint64_t *value)
{
	return cli_number("bench average", option, optarg, min, max, value);
}

/* Not all of them. */
static int one_of(const char *option, int value)
{
	if (value >= 0)
		return CLI_OK;
	cli_complain("bench average", "%s: one, not all", option);
	return CLI_USAGE;
}

static int parse_one(int c, char **argv, struct average_options *o)
{
	uint64_t value = 0;
	int status;

	switch (c) {
	case 'g':
		status = parse_number("ranks", 1, COHORT_SIM_MAX_DEVICES,
		                      &value);
		o->ranks = (int)value;
		return status;
	case 'd':
		status = bench_parse_type(optarg, &o->type);
		return status == CLI_OK ? one_of("-d", o->type) : status;
	case 'o':
		status = bench_parse_op(optarg, &o->op);
		return status == CLI_OK ? one_of("-o", o->op) : status;
	case 'c':
		status = parse_number("-c", 0, 1, &value);
		o->check = value;
		return status;
	case OPTION_SHAPES:
		o->shapes = optarg;
		return CLI_OK;
	case OPTION_ROUNDS:
		return parse_number("rounds", 1, AVERAGE_MAX_ROUNDS,
		                    &o->rounds);
	case OPTION_REWRITE:
		o->rewrites = true;
		return CLI_OK;
	case OPTION_ONLY:
		return parse_methods(o);
	case OPTION_MAX_COUNT:
		return parse_number("max-count", 1, UINT64_C(1) << 40,
		                    &o->max_count);
	case OPTION_LIMIT:
		o->limit = true;
		return CLI_OK;
	case OPTION_PLATFORM:
		return cli_platform("bench average", optarg, &o->platform);
	case OPTION_NO_PIN:
		o->pin = false;
		return CLI_OK;
	case OPTION_JSON:
		o->json = true;
		return CLI_OK;
	}
	cli_bad_option("bench average", argv, c);
	return CLI_USAGE;
}

static int parse(int argc, char **argv, struct average_options *o,
                 bool *help_out)
{
	int c, status = CLI_OK;

	optind = 0;
	opterr = 0;
	while (status == CLI_OK &&
	       (c = getopt_long(argc, argv, short_options, long_options,
	                        NULL)) != -1) {
		if (c == 'h') {
			*help_out = true;
			print_help();
			return CLI_OK;
		}
		status = parse_one(c, argv, o);
	}
	if (status == CLI_OK)
		status = cli_no_operands("bench average", argc, argv);
	if (status == CLI_OK && !o->shapes) {
		cli_complain("bench average", "--shapes: no file given");
		status = CLI_USAGE;
	}
	return status;
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
	if (o->limit)
		a->limits_ns = calloc(o->rounds, sizeof(double));
	return !o->limit || a->limits_ns;
}

static void average_fini(struct average *a)
{
	for (int m = 0; m < METHODS; m++)
		free(a->times_ns[m]);
	free(a->limits_ns);
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
	cli_complain("bench average", "%llu elements of results were wrong",
	             wrong);
	return CLI_FAILED;
}

static int average(const struct average_options *o)
{
	struct average a = { .options = o, .cores = bench_count_cores() };
	const size_t size = cohort_type_size(o->type);
	int status;

	status = average_read("bench average", o->shapes, size, o->max_count,
	                      &a.shapes, &a.room);
	a.bytes = a.shapes.values * size;
	if (status == CLI_OK && !make_times(&a)) {
		cli_complain("bench average", "out of memory");
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
	if (status == CLI_OK && o.limit &&
	    info.platform != COHORT_PLATFORM_HOST) {
		cli_complain("bench average",
		             "--limit: the threads do it themselves: on the "
		             "host platform only");
		status = CLI_USAGE;
	}
	return status == CLI_OK ? average(&o) : status;
}
