/* SPDX-License-Identifier: Apache-2.0 */

/* The options of cohort bench overlap, and the order of things; see overlap.h. */

#include "cli/bench/overlap.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/cohort.h>
#include <cohort/sim.h>

#include "cli/bench/bench.h"
#include "cli/common/cli.h"

#define COMMAND "bench overlap"

enum {
	OPTION_SHAPES = CLI_LONG_OPTION,
	OPTION_BACKWARD,
	OPTION_SLEEP,
	OPTION_FIRST,
	OPTION_BUCKET,
	OPTION_FULL,
	OPTION_ROUNDS,
	OPTION_PLATFORM,
	OPTION_NO_PIN,
	OPTION_JSON,
	OPTION_PLOT,
};

static const char short_options[] = ":hg:d:c:";

static const struct option long_options[] = {
	{ "help", no_argument, NULL, 'h' },
	{ "ranks", required_argument, NULL, 'g' },
	{ "datatype", required_argument, NULL, 'd' },
	{ "check", required_argument, NULL, 'c' },
	{ "shapes", required_argument, NULL, OPTION_SHAPES },
	{ "backward", required_argument, NULL, OPTION_BACKWARD },
	{ "sleep", no_argument, NULL, OPTION_SLEEP },
	{ "first-bytes", required_argument, NULL, OPTION_FIRST },
	{ "bucket-bytes", required_argument, NULL, OPTION_BUCKET },
	{ "full-buckets", no_argument, NULL, OPTION_FULL },
	{ "rounds", required_argument, NULL, OPTION_ROUNDS },
	{ "platform", required_argument, NULL, OPTION_PLATFORM },
	{ "no-pin", no_argument, NULL, OPTION_NO_PIN },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "plot", required_argument, NULL, OPTION_PLOT },
	{ 0 },
};

static void print_help(void)
{
	puts("usage: cohort bench overlap --shapes FILE [OPTION]...\n"
	     "\n"
	     "Measures how much of the averaging of a model's gradients a "
	     "backward pass\n"
	     "hides, by a reducer (cohort/reducer.h), one thread per rank.  "
	     "The pass is\n"
	     "simulated: a gradient is ready after a time in proportion to "
	     "its values, the\n"
	     "last of the list first, and until then the thread has nothing "
	     "to do.  By turns:\n"
	     "  backward        the pass alone\n"
	     "  comm            the averaging alone, all gradients ready at "
	     "once\n"
	     "  step            one during the other\n"
	     "and then how long the step is by the longer of the others, and "
	     "by their sum.\n"
	     "\n"
	     "  --shapes FILE   the tensors, as of cohort bench average\n"
	     "  --backward B,.. how long the pass is: milliseconds, as 12.5, "
	     "or times the\n"
	     "                  averaging, as x1.5 (default x0.5,x1,x2)\n"
	     "  --sleep         sleep while a gradient is computed, so that "
	     "what "
	     "is launched\n"
	     "                  has to go on by itself; else call "
	     "cohort_reducer_progress(),\n"
	     "                  which on the host platform carries it on\n"
	     "  -g, --ranks N   ranks (default 2)\n"
	     "  -d TYPE         of all tensors: float32 (default), or another "
	     "one\n"
	     "  -c 0|1          check the results in the first and last round "
	     "(default 1)\n"
	     "  --first-bytes N, --bucket-bytes N\n"
	     "                  of a bucket at most (default: the reducer's)\n"
	     "  --full-buckets  fill each up to that, also where that leaves "
	     "more to "
	     "wait for\n"
	     "  --rounds N      (default 11)\n"
	     "  --platform P    gpu or host (default: what cohort info tells)\n"
	     "  --no-pin        leave it to the system on which cores the "
	     "ranks run\n"
	     "  --json          one JSON array instead of text\n"
	     "  --plot FILE     a figure as SVG, by gnuplot\n"
	     "  -h, --help      this text\n"
	     "\n"
	     "Exit status: 1 also if a result was wrong.");
}

/* ---- options ---------------------------------------------------------- */

#define MOST_MS 60000.0
#define MOST_TIMES 1000.0

/* One of them, up to @end. */
static bool parse_length(const char *text, const char *end,
                         struct overlap_length *length)
{
	char *stop;

	length->is_factor = *text == 'x';
	text += length->is_factor;
	if (*text < '0' || *text > '9')
		return false;
	length->value = strtod(text, &stop);
	return stop == end && length->value > 0.0 &&
	       length->value <= (length->is_factor ? MOST_TIMES : MOST_MS);
}

static int parse_lengths(struct overlap_options *o)
{
	const char *at = optarg, *end;

	for (o->n = 0; o->n < OVERLAP_MOST_CASES; at = end + 1) {
		end = at + strcspn(at, ",");
		if (!parse_length(at, end, &o->lengths[o->n])) {
			cli_complain(COMMAND,
			             "--backward: '%.*s' is neither "
			             "milliseconds up to %g, as 12.5, nor "
			             "times the averaging up to %g, as x1.5",
			             (int)(end - at), at, MOST_MS, MOST_TIMES);
			return CLI_USAGE;
		}
		o->n++;
		if (!*end)
			return CLI_OK;
	}
	cli_complain(COMMAND, "--backward: more than %d", OVERLAP_MOST_CASES);
	return CLI_USAGE;
}

static int parse_number(const char *option, uint64_t min, uint64_t max,
                        uint64_t *value)
{
	return cli_number(COMMAND, option, optarg, min, max, value);
}

/* Not all of them. */
static int parse_type(struct overlap_options *o)
{
	int status = bench_parse_type(optarg, &o->type);

	if (status != CLI_OK || o->type >= 0)
		return status;
	cli_complain(COMMAND, "-d: one, not all");
	return CLI_USAGE;
}

static int parse_flag(int c, char **argv, struct overlap_options *o)
{
	switch (c) {
	case OPTION_SHAPES:
		o->shapes = optarg;
		return CLI_OK;
	case OPTION_SLEEP:
		o->sleeps = true;
		return CLI_OK;
	case OPTION_FULL:
		o->full_buckets = true;
		return CLI_OK;
	case OPTION_NO_PIN:
		o->pin = false;
		return CLI_OK;
	case OPTION_JSON:
		o->json = true;
		return CLI_OK;
	case OPTION_PLOT:
		o->plot = optarg;
		return CLI_OK;
	}
	cli_bad_option(COMMAND, argv, c);
	return CLI_USAGE;
}

static int parse_one(int c, char **argv, struct overlap_options *o)
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
		return parse_type(o);
	case 'c':
		status = parse_number("check", 0, 1, &value);
		o->check = value;
		return status;
	case OPTION_BACKWARD:
		return parse_lengths(o);
	case OPTION_FIRST:
		return parse_number("first-bytes", 1, UINT64_C(1) << 40,
		                    &o->first_bytes);
	case OPTION_BUCKET:
		return parse_number("bucket-bytes", 1, UINT64_C(1) << 40,
		                    &o->bucket_bytes);
	case OPTION_ROUNDS:
		return parse_number("rounds", 1, OVERLAP_MOST_ROUNDS,
		                    &o->rounds);
	case OPTION_PLATFORM:
		return cli_platform(COMMAND, optarg, &o->platform);
	}
	return parse_flag(c, argv, o);
}

static int parse(int argc, char **argv, struct overlap_options *o,
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
		status = cli_no_operands(COMMAND, argc, argv);
	if (status == CLI_OK && !o->shapes) {
		cli_complain(COMMAND, "--shapes: no file given");
		status = CLI_USAGE;
	}
	return status;
}

/* ---- the whole -------------------------------------------------------- */

static bool make_rounds(struct overlap *o)
{
	for (size_t i = 0; i < o->options->n; i++)
		for (int part = 0; part < PARTS; part++) {
			o->cases[i].ns[part] =
				calloc(o->options->rounds, sizeof(double));
			if (!o->cases[i].ns[part])
				return false;
		}
	return true;
}

static void overlap_fini(struct overlap *o)
{
	for (size_t i = 0; i < o->options->n; i++)
		for (int part = 0; part < PARTS; part++)
			free(o->cases[i].ns[part]);
	free(o->shapes.all);
}

static int report(struct overlap *o)
{
	unsigned long long wrong = atomic_load(&o->wrong);

	overlap_evaluate(o);
	if (o->options->json)
		overlap_json(o);
	else
		overlap_print(o);
	if (wrong) {
		cli_complain(COMMAND, "%llu elements of results were wrong",
		             wrong);
		return CLI_FAILED;
	}
	return o->options->plot ? overlap_plot(o) : CLI_OK;
}

static int overlap(const struct overlap_options *options)
{
	struct overlap o = { .options = options, .cores = bench_count_cores() };
	const size_t size = cohort_type_size(options->type);
	size_t room;
	int status;

	status = average_read(COMMAND, options->shapes, size, 0, &o.shapes,
	                      &room);
	o.bytes = o.shapes.values * size;
	if (status == CLI_OK && !make_rounds(&o)) {
		cli_complain(COMMAND, "out of memory");
		status = CLI_FAILED;
	}
	if (status == CLI_OK)
		status = overlap_measure(&o);
	if (status == CLI_OK)
		status = report(&o);
	overlap_fini(&o);
	return status;
}

int overlap_main(int argc, char **argv)
{
	struct overlap_options o = {
		.ranks = 2,
		.platform = COHORT_PLATFORM_AUTO,
		.type = COHORT_F32,
		.rounds = 11,
		.lengths = { { 0.5, true }, { 1.0, true }, { 2.0, true } },
		.n = 3,
		.check = true,
		.pin = true,
	};
	struct cohort_platform_info info;
	bool help = false;
	int status = parse(argc, argv, &o, &help);

	if (status != CLI_OK || help)
		return status;
	status = bench_settle_devices(o.platform, o.ranks, &info);
	if (status == CLI_OK && o.plot)
		status = bench_plot_check();
	return status == CLI_OK ? overlap(&o) : status;
}
