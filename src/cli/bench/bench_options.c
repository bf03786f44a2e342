/* SPDX-License-Identifier: Apache-2.0 */

/* The options of cohort bench: those of nccl-tests, and a few more; and of its
 * other operations. */

#include "cli/bench/bench.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/sim.h>

#include "base/util.h"
#include "cli/common/cli.h"
#include "cli/common/cli_options.h"

#define MAX_BYTES (UINT64_C(1) << 40)
#define MAX_COUNT UINT64_C(1000000)

/* ---- help ------------------------------------------------------------- */

/* clang-format off */
static const char usage[] =
	"usage: cohort bench COLLECTIVE [OPTION]...\n"
	"       cohort bench average --shapes FILE [OPTION]..., see its --help\n"
	"       cohort bench overlap --shapes FILE [OPTION]..., see its --help\n"
	"\n"
	"Measures a collective with one thread per rank, like nccl-tests.  The names of\n"
	"its programs, such as all_reduce_perf, are accepted.\n"
	"COLLECTIVE is all, or one of these:";

static const char usage_options[] =
	"  -b SIZE         first size in bytes, also with K, M or G (default 4)\n"
	"  -e SIZE         last size (default 64M, or -b if that is more)\n"
	"  -f N            each size is N times the one before (default 4)\n"
	"  -i SIZE         each size is larger by SIZE than the one before\n"
	"  --sizes LIST    these sizes instead, separated by commas\n"
	"  -g, --ranks N   number of ranks (default: all GPUs; on the host platform one\n"
	"                  for each core, 2 to 8)\n"
	"  -d TYPE         float32 (default), another type, or all\n"
	"  -o OPERATION    sum (default), prod, max, min, avg, or all\n"
	"  -r RANK         root (default 0)\n"
	"  -n N            operations per round (default: as many as take 5 ms)\n"
	"  -w N            operations before those, not timed (default 2)\n"
	"  --rounds N      number of rounds; each measures everything (default 21)\n"
	"\n"
	"How operations are made; if several are given, each is measured:\n"
	"  --loop          one operation, then wait, again and again (default)\n"
	"  --rewrite       each rank rewrites what it sends before each operation,\n"
	"                  outside the timed part\n"
	"  --api           by cohort_*() (default)\n"
	"  --raw           by the platform's NCCL functions\n"
	"  --host          by cohort_*_host(), with plain memory; in place where there\n"
	"                  is one buffer; not for send_recv\n"
	"  --in-place      the result replaces what is sent (default)\n"
	"  --out-of-place  the result has a buffer of its own\n"
	"\n"
	"  --launch L      together or ahead: whether a rank's part is launched once all\n"
	"                  ranks have called, or at once (default: COHORT_LAUNCH,\n"
	"                  or else the platform's)\n"
	"  --plot FILE     also write a figure of the bandwidths: SVG, by gnuplot";

static const char common_options[] =
	"  -c 0|1          check the results of the first and last round (default 1)\n"
	"  --platform P    gpu or host (default: see cohort info)\n"
	"  --no-pin        do not pin the ranks' threads to cores\n"
	"  --json          one JSON array instead of text\n"
	"  -h, --help      this text\n"
	"\n"
	"Exit status: 1 also if a result was wrong.";
/* clang-format on */

static void help_collectives(void)
{
	puts(usage);
	for (size_t i = 0; i < collective_count; i++)
		printf("%s%s",
		       i == 0   ? "  "
		       : i == 6 ? ",\n  "
		                : ", ",
		       collectives[i].name);
	printf("\n\n%s\n%s\n", usage_options, common_options);
}

static void help_average(void)
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
	     "  --only METHODS  measure only these methods, separated by commas\n"
	     "  --rounds N      number of rounds; each measures all methods (default 11)\n"
	     "  --rewrite       each rank rewrites its gradients before each operation,\n"
	     "                  outside the timed part; otherwise they keep the results");
	/* clang-format on */
	puts(common_options);
}

static void help_overlap(void)
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
	     "  --sleep         sleep until each gradient is ready, instead of calling\n"
	     "                  cohort_reducer_progress(), which on the host platform\n"
	     "                  carries out what is launched\n"
	     "  -g, --ranks N   number of ranks (default 2)\n"
	     "  -d TYPE         type of all tensors (default float32)\n"
	     "  --first-bytes N, --bucket-bytes N\n"
	     "                  limits of a bucket's size (default: the reducer's)\n"
	     "  --full-buckets  fill each bucket up to its limit, even if more is then\n"
	     "                  left to wait for\n"
	     "  --rounds N      number of rounds (default 11)\n"
	     "  --plot FILE     also write a figure as SVG, by gnuplot");
	/* clang-format on */
	puts(common_options);
}

/* The state of reading a command line. */
struct size_reader {
	struct bench_options *options;
	uint64_t first, last, factor, step;
	bool has_sizes;
};

/* ---- values ----------------------------------------------------------- */

static int parse_size(const char *option, const char *text, uint64_t *bytes_out)
{
	static const char letters[] = "KMG";
	unsigned long long value;
	const char *letter;
	int shift = 0;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	letter = *end ? strchr(letters, *end & ~0x20) : NULL;
	if (letter) {
		shift = 10 * (int)(letter - letters + 1);
		end++;
	}
	/* strtoull() would take a sign and leading blanks. */
	if (*text < '0' || *text > '9' || *end || errno || !value ||
	    value > MAX_BYTES >> shift) {
		cli_complain("bench",
		             "--%s: '%s' is not a size from 1 to %" PRIu64,
		             option, text, MAX_BYTES);
		return CLI_USAGE;
	}
	*bytes_out = value << shift;
	return CLI_OK;
}

static int read_size(const struct cli_option *option, const char *text)
{
	return parse_size(option->name, text, option->value);
}

static int add_size(struct bench_options *options, uint64_t bytes)
{
	if (options->size_count == BENCH_MAX_SIZES) {
		cli_complain("bench", "more than %d sizes", BENCH_MAX_SIZES);
		return CLI_USAGE;
	}
	options->sizes[options->size_count++] = bytes;
	return CLI_OK;
}

static int read_sizes(const struct cli_option *option, const char *word)
{
	struct size_reader *reader = option->value;
	uint64_t bytes = 0;
	int status;

	if (!word) {
		reader->has_sizes = true;
		reader->options->size_count = 0;
		return CLI_OK;
	}
	status = parse_size(option->name, word, &bytes);
	return status == CLI_OK ? add_size(reader->options, bytes) : status;
}

/* Find the value up to @most of a name; -1 for "all", which only collectives
 * take. */
static int parse_name(const struct bench_options *o, char letter,
                      const char *text, const char *(*name_of)(int value),
                      int most, int *value_out)
{
	const bool takes_all = o->operation == &bench_collectives;
	const char *command = o->operation->command;

	if (strcmp(text, "all") == 0) {
		*value_out = -1;
		if (takes_all)
			return CLI_OK;
		cli_complain(command, "-%c: takes one value, not all", letter);
		return CLI_USAGE;
	}
	for (int value = 0; value <= most; value++) {
		if (strcmp(text, name_of(value)))
			continue;
		*value_out = value;
		return CLI_OK;
	}
	cli_complain(command, "-%c: '%s' is not %sone of %s to %s", letter,
	             text, takes_all ? "all or " : "", name_of(0),
	             name_of(most));
	return CLI_USAGE;
}

/* Also takes nccl-tests' names of types. */
static int read_type(const struct cli_option *option, const char *text)
{
	static const char *const others[][2] = {
		{ "half", "float16" },      { "float", "float32" },
		{ "double", "float64" },    { "f8e4m3", "float8e4m3" },
		{ "f8e5m2", "float8e5m2" },
	};
	struct bench_options *o = option->value;

	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (strcmp(text, others[i][0]) == 0)
			text = others[i][1];
	return parse_name(o, 'd', text, cohort_type_name, COHORT_F8E5M2,
	                  &o->type);
}

static int read_op(const struct cli_option *option, const char *text)
{
	struct bench_options *o = option->value;

	return parse_name(o, 'o', text, cohort_op_name, COHORT_AVG, &o->op);
}

static int read_methods(const struct cli_option *option, const char *word)
{
	struct bench_options *o = option->value;

	if (!word) {
		memset(o->methods, 0, sizeof(o->methods));
		return CLI_OK;
	}
	for (int m = 0; m < LIST_METHODS; m++) {
		if (strcmp(word, bench_method_names[m]))
			continue;
		o->methods[m] = true;
		return CLI_OK;
	}
	cli_complain("bench average",
	             "--only: '%s' is not alone, group, flat, views or auto",
	             word);
	return CLI_USAGE;
}

#define MOST_MS 60000.0
#define MOST_TIMES 1000.0

static int read_lengths(const struct cli_option *option, const char *word)
{
	struct bench_options *o = option->value;
	struct overlap_length length;
	const char *digits;
	char *end;

	if (!word) {
		o->length_count = 0;
		return CLI_OK;
	}
	length.is_factor = *word == 'x';
	digits = word + length.is_factor;
	if (o->length_count == BENCH_MAX_LENGTHS) {
		cli_complain("bench overlap", "--backward: more than %d",
		             BENCH_MAX_LENGTHS);
		return CLI_USAGE;
	}
	length.value = strtod(digits, &end);
	if (*digits < '0' || *digits > '9' || *end || !(length.value > 0.0) ||
	    length.value > (length.is_factor ? MOST_TIMES : MOST_MS)) {
		cli_complain("bench overlap",
		             "--backward: '%s' is neither milliseconds up to "
		             "%g, as 12.5, nor times the averaging up to %g, "
		             "as x1.5",
		             word, MOST_MS, MOST_TIMES);
		return CLI_USAGE;
	}
	o->lengths[o->length_count++] = length;
	return CLI_OK;
}

/* ---- defaults --------------------------------------------------------- */

static int settle_sizes(struct size_reader *reader)
{
	uint64_t first = reader->first ? reader->first : 4;
	uint64_t last = reader->last ? reader->last : UINT64_C(64) << 20;
	int status = CLI_OK;

	if (!reader->last && last < first)
		last = first;
	if (reader->has_sizes &&
	    (reader->first || reader->last || reader->factor || reader->step)) {
		cli_complain("bench",
		             "--sizes: not together with -b, -e, -f and -i");
		return CLI_USAGE;
	}
	if (reader->factor && reader->step) {
		cli_complain("bench", "-f and -i: only one of them");
		return CLI_USAGE;
	}
	if (last < first) {
		cli_complain("bench",
		             "-e: %" PRIu64 " bytes are less than the %" PRIu64
		             " of -b",
		             last, first);
		return CLI_USAGE;
	}
	if (!reader->factor)
		reader->factor = 4;
	for (uint64_t size = first;
	     !reader->has_sizes && size <= last && status == CLI_OK;
	     size = reader->step ? size + reader->step : size * reader->factor)
		status = add_size(reader->options, size);
	return status;
}

static void settle_modes(struct bench_options *o)
{
	o->loops |= !o->rewrites;
	o->paths[PATH_API] |= !o->paths[PATH_RAW] && !o->paths[PATH_HOST];
	o->in_place |= !o->out_of_place;
}

/* ---- the command line ------------------------------------------------- */

static int parse_collective(int argc, char **argv,
                            const struct collective **out)
{
	if (optind == argc) {
		cli_complain("bench",
		             "no collective given, see cohort bench --help");
		return CLI_USAGE;
	}
	if (optind + 1 < argc) {
		cli_complain("bench", "'%s': one collective, or all",
		             argv[optind + 1]);
		return CLI_USAGE;
	}
	*out = collective_find(argv[optind]);
	if (*out || strcmp(argv[optind], "all") == 0)
		return CLI_OK;
	cli_complain("bench",
	             "'%s': no such collective, see cohort bench "
	             "--help",
	             argv[optind]);
	return CLI_USAGE;
}

/* The options of all operations. */
#define COMMON_OPTIONS(o)                                                      \
	{ "ranks",     'g',        CLI_INT,                                    \
	  &(o)->ranks, .least = 1, .most = COHORT_SIM_MAX_DEVICES },           \
		{ "datatype", 'd', CLI_READ, (o), .read = read_type },         \
		{ "check", 'c', CLI_BIT, .value = &(o)->check },               \
		{ "rounds",     0,          CLI_UINT,                          \
		  &(o)->rounds, .least = 1, .most = 100000 },                  \
		{ "platform", 0, CLI_PLATFORM(&(o)->platform) },               \
		{ "no-pin", 0, CLI_FALSE, .value = &(o)->pin },                \
	{                                                                      \
		"json", 0, CLI_TRUE, .value = &(o)->json                       \
	}

static int parse_collectives(int argc, char **argv, struct bench_options *o,
                             bool *help_out)
{
	struct size_reader reader = { .options = o };
	const struct cli_option options[] = {
		COMMON_OPTIONS(o),
		{ "ngpus", 0, CLI_INT, &o->ranks, .least = 1,
		  .most = COHORT_SIM_MAX_DEVICES },
		{ "minbytes", 'b', CLI_READ, &reader.first, .read = read_size },
		{ "maxbytes", 'e', CLI_READ, &reader.last, .read = read_size },
		{ "stepfactor", 'f', CLI_UINT, &reader.factor, .least = 2,
		  .most = 1024 },
		{ "stepbytes", 'i', CLI_READ, &reader.step, .read = read_size },
		{ "sizes", 0, CLI_LIST, &reader, .read = read_sizes },
		{ "iters", 'n', CLI_UINT, &o->iterations, .least = 1,
		  .most = MAX_COUNT },
		{ "warmup_iters", 'w', CLI_UINT, &o->warm_up, .least = 0,
		  .most = MAX_COUNT },
		{ "op", 'o', CLI_READ, o, .read = read_op },
		{ "root", 'r', CLI_INT, &o->root, .least = 0,
		  .most = COHORT_SIM_MAX_DEVICES - 1 },
		{ "loop", 0, CLI_TRUE, .value = &o->loops },
		{ "rewrite", 0, CLI_TRUE, .value = &o->rewrites },
		{ "api", 0, CLI_TRUE, .value = &o->paths[PATH_API] },
		{ "raw", 0, CLI_TRUE, .value = &o->paths[PATH_RAW] },
		{ "host", 0, CLI_TRUE, .value = &o->paths[PATH_HOST] },
		{ "in-place", 0, CLI_TRUE, .value = &o->in_place },
		{ "out-of-place", 0, CLI_TRUE, .value = &o->out_of_place },
		{ "launch", 0, CLI_LAUNCH(&o->launch) },
		{ "plot", 0, CLI_TEXT, .value = &o->plot },
		{ .kind = CLI_REST },
	};
	int status = cli_options("bench", argc, argv, options, help_collectives,
	                         help_out);

	if (status != CLI_OK || *help_out)
		return status;
	status = parse_collective(argc, argv, &o->collective);
	if (status == CLI_OK)
		status = settle_sizes(&reader);
	settle_modes(o);
	if (status == CLI_OK && o->paths[PATH_HOST] && o->collective &&
	    !o->paths[PATH_API] && !o->paths[PATH_RAW] &&
	    strcmp(o->collective->name, "send_recv") == 0) {
		cli_complain("bench", "--host: send_recv has no form with "
		                      "host memory");
		status = CLI_USAGE;
	}
	return status;
}

static int parse_average(int argc, char **argv, struct bench_options *o,
                         bool *help_out)
{
	const struct cli_option options[] = {
		COMMON_OPTIONS(o),
		{ "op", 'o', CLI_READ, o, .read = read_op },
		{ "shapes", 0, CLI_TEXT, .value = &o->shapes,
		  .is_needed = true },
		{ "rewrite", 0, CLI_TRUE, .value = &o->rewrites },
		{ "only", 0, CLI_LIST, o, .read = read_methods },
		{ "max-count", 0, CLI_UINT, &o->max_count, .least = 1,
		  .most = UINT64_C(1) << 40 },
		{ .kind = CLI_END },
	};

	return cli_options("bench average", argc, argv, options, help_average,
	                   help_out);
}

static int parse_overlap(int argc, char **argv, struct bench_options *o,
                         bool *help_out)
{
	const struct cli_option options[] = {
		COMMON_OPTIONS(o),
		{ "shapes", 0, CLI_TEXT, .value = &o->shapes,
		  .is_needed = true },
		{ "backward", 0, CLI_LIST, o, .read = read_lengths },
		{ "sleep", 0, CLI_TRUE, .value = &o->sleeps },
		{ "first-bytes", 0, CLI_UINT, &o->first_bytes, .least = 1,
		  .most = MAX_BYTES },
		{ "bucket-bytes", 0, CLI_UINT, &o->bucket_bytes, .least = 1,
		  .most = MAX_BYTES },
		{ "full-buckets", 0, CLI_TRUE, .value = &o->full_buckets },
		{ "plot", 0, CLI_TEXT, .value = &o->plot },
		{ .kind = CLI_END },
	};

	return cli_options("bench overlap", argc, argv, options, help_overlap,
	                   help_out);
}

int bench_parse(int argc, char **argv, struct bench_options *o, bool *help_out)
{
	const char *word = argc > 1 ? argv[1] : "";

	*o = (struct bench_options){
		.operation = &bench_collectives,
		.platform = COHORT_PLATFORM_AUTO,
		.type = COHORT_F32,
		.op = COHORT_SUM,
		.rounds = 21,
		.warm_up = 2,
		.check = true,
		.pin = true,
		.methods = { true, true, true, true, true },
		.lengths = { { 0.5, true }, { 1.0, true }, { 2.0, true } },
		.length_count = 3,
	};
	if (strcmp(word, "average") && strcmp(word, "overlap"))
		return parse_collectives(argc, argv, o, help_out);
	o->ranks = 2;
	o->op = COHORT_AVG;
	o->rounds = 11;
	if (strcmp(word, "average") == 0) {
		o->operation = &bench_average;
		o->warm_up = 1;
		return parse_average(argc - 1, argv + 1, o, help_out);
	}
	o->operation = &bench_overlap;
	o->warm_up = 0;
	return parse_overlap(argc - 1, argv + 1, o, help_out);
}
