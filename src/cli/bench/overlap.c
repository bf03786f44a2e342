/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort bench overlap: its options, and what it does in which order; see overlap.h
 */

#include "cli/bench/overlap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/cohort.h>
#include <cohort/sim.h>

#include "cli/bench/bench.h"
#include "cli/common/cli.h"
#include "cli/common/options.h"

#define COMMAND "bench overlap"

static void print_help(void)
{
	/* clang-format off */
	puts("usage: cohort bench overlap --shapes FILE [OPTION]...\n"
	     "\n"
	     "Measures how much of the averaging of a model's gradients a backward pass\n"
	     "hides, by a reducer (cohort/reducer.h), with one thread per rank.  The pass is\n"
	     "simulated: a gradient is ready after a time in proportion to its elements, the\n"
	     "last of the list first, and until then the thread has nothing to do.  These\n"
	     "take turns:\n"
	     "  backward        the pass alone\n"
	     "  comm            the averaging alone, with all gradients ready at once\n"
	     "  step            the averaging during the pass\n"
	     "The step is then compared with the longer of the two, and with their sum.\n"
	     "\n"
	     "  --shapes FILE   the tensors, as for cohort bench average\n"
	     "  --backward B,.. lengths of the pass: milliseconds, as 12.5, or multiples of\n"
	     "                  the averaging, as x1.5 (default x0.5,x1,x2)\n"
	     "  --sleep         sleep while a gradient is computed, so that launched\n"
	     "                  operations have to progress by themselves; otherwise call\n"
	     "                  cohort_reducer_progress(), which on the host platform\n"
	     "                  carries them out\n"
	     "  -g, --ranks N   number of ranks (default 2)\n"
	     "  -d TYPE         type of all tensors (default float32)\n"
	     "  -c 0|1          check the results of the first and last round (default 1)\n"
	     "  --first-bytes N, --bucket-bytes N\n"
	     "                  limits of a bucket's size (default: the reducer's)\n"
	     "  --full-buckets  fill each bucket up to its limit, even if more is then\n"
	     "                  left to wait for\n"
	     "  --rounds N      number of rounds (default 11)\n"
	     "  --platform P    gpu or host (default: see cohort info)\n"
	     "  --no-pin        do not pin the ranks' threads to cores\n"
	     "  --json          one JSON array instead of text\n"
	     "  --plot FILE     also write a figure as SVG, by gnuplot\n"
	     "  -h, --help      this text\n"
	     "\n"
	     "Exit status: 1 also if a result was wrong.");
	/* clang-format on */
}

/* ---- options ---------------------------------------------------------- */

#define MOST_MS 60000.0
#define MOST_TIMES 1000.0

/* Parse one length, which must end at @end. */
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

static int read_lengths(const struct cli_option *option, const char *text)
{
	struct overlap_options *o = option->value;
	const char *at = text, *end;

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

static int read_type(const struct cli_option *option, const char *text)
{
	return bench_read_one(COMMAND, option, text, bench_parse_type);
}

static int parse(int argc, char **argv, struct overlap_options *o,
                 bool *help_out)
{
	const uint64_t most = UINT64_C(1) << 40;
	const struct cli_option options[] = {
		{ "ranks", 'g', CLI_INT, &o->ranks, .least = 1,
		  .most = COHORT_SIM_MAX_DEVICES },
		{ "datatype", 'd', CLI_READ, &o->type, .read = read_type },
		{ "check", 'c', CLI_BIT, .value = &o->check },
		{ "shapes", 0, CLI_TEXT, .value = &o->shapes,
		  .is_needed = true },
		{ "backward", 0, CLI_READ, o, .read = read_lengths },
		{ "sleep", 0, CLI_TRUE, .value = &o->sleeps },
		{ "first-bytes", 0, CLI_UINT, &o->first_bytes, .least = 1,
		  .most = most },
		{ "bucket-bytes", 0, CLI_UINT, &o->bucket_bytes, .least = 1,
		  .most = most },
		{ "full-buckets", 0, CLI_TRUE, .value = &o->full_buckets },
		{ "rounds", 0, CLI_UINT, &o->rounds, .least = 1,
		  .most = OVERLAP_MOST_ROUNDS },
		{ "platform", 0, CLI_PLATFORM, .value = &o->platform },
		{ "no-pin", 0, CLI_FALSE, .value = &o->pin },
		{ "json", 0, CLI_TRUE, .value = &o->json },
		{ "plot", 0, CLI_TEXT, .value = &o->plot },
		{ .kind = CLI_END },
	};

	return cli_options(COMMAND, argc, argv, options, print_help, help_out);
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
