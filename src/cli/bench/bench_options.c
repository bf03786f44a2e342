/* SPDX-License-Identifier: Apache-2.0 */

/* The options of cohort bench, including those of nccl-tests, and of bench
 * average and bench overlap */

#include "cli/bench/bench.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/sim.h>

#include "base/text.h"
#include "base/util.h"
#include "cli/common/cli.h"
#include "cli/common/cli_options.h"

#define MAX_BYTES (UINT64_C(1) << 40)
#define MAX_COUNT UINT64_C(1000000)

/* clang-format off */
#define COMMON_HELP \
	"  -c 0|1          check the results of the first and the last round (default 1)\n" \
	"  --platform P    gpu or host (default: see cohort info)\n" \
	"  --no-pin        do not pin the ranks' threads to cores\n" \
	"  --json          one JSON array instead of text\n" \
	"  -h, --help      this text\n" \
	"\n" \
	"Exit status: also 1 if a result was wrong.\n"

static const char help_collectives[] =
	"usage: cohort bench COLLECTIVE [OPTION]...\n"
	"       cohort bench average --shapes FILE [OPTION]..., see its --help\n"
	"       cohort bench overlap --shapes FILE [OPTION]..., see its --help\n"
	"\n"
	"Measures a collective with one thread per rank, like nccl-tests.  The names of\n"
	"its programs, such as all_reduce_perf, are accepted.\n"
	"COLLECTIVE is all, or one of these:\n"
	"  all_reduce, broadcast, reduce, all_gather, reduce_scatter, all_to_all,\n"
	"  gather, scatter, send_recv\n"
	"\n"
	"  -b SIZE         first size in bytes; K, M or G may follow (default 4)\n"
	"  -e SIZE         last size (default 64M, or -b if that is more)\n"
	"  -f N            each size is N times the previous one (default 4)\n"
	"  -i SIZE         each size is SIZE more than the previous one\n"
	"  --sizes LIST    these sizes instead, separated by commas\n"
	"  -g, --ranks N   number of ranks (default: all GPUs; on the host platform one\n"
	"                  per core, 2 to 8)\n"
	"  -d TYPE         float32 (default), another type, or all\n"
	"  -o OPERATION    sum (default), prod, max, min, avg, or all\n"
	"  -r RANK         root (default 0)\n"
	"  -n N            operations per round (default: as many as take 5 ms)\n"
	"  -w N            operations before those, which are not timed (default 2)\n"
	"  --rounds N      rounds of each size; each measures all modes (default 21)\n"
	"\n"
	"How to run the operations; if several ways are given, each is measured:\n"
	"  --loop          run one operation, wait for it, and repeat (default)\n"
	"  --rewrite       each rank rewrites what it sends before each operation,\n"
	"                  outside the timed part\n"
	"  --api           call cohort_*() (default)\n"
	"  --raw           call the platform's NCCL functions\n"
	"  --host          call cohort_*_host() with plain memory; in place if the call\n"
	"                  has one buffer; not for send_recv\n"
	"  --in-place      the result replaces what is sent (default)\n"
	"  --out-of-place  the result has its own buffer\n"
	COMMON_HELP;

static const char help_average[] =
	"usage: cohort bench average --shapes FILE [OPTION]...\n"
	"\n"
	"Measures how long it takes to all-reduce the gradients of a model with one\n"
	"thread per rank.  The methods take turns:\n"
	"  alone           one call for each tensor, then one wait\n"
	"  group           cohort_all_reduce_many() as one native group\n"
	"  flat            cohort_all_reduce_many() that packs the tensors into buffers\n"
	"                  of 25 MiB; includes the copies\n"
	"  views           one call for each 25 MiB buffer; the gradients live in these\n"
	"                  buffers, so nothing is copied\n"
	"  auto            cohort_all_reduce_many() with its defaults\n"
	"\n"
	"  --shapes FILE   the tensors: each line has name, shape and count, separated\n"
	"                  by tabs, such as 'fc.weight  1000x2048  2048000'\n"
	"  --max-count N   use only tensors of at most N elements\n"
	"  -g, --ranks N   number of ranks (default 2)\n"
	"  -d TYPE         type of all tensors (default float32)\n"
	"  -o OPERATION    avg (default), sum, prod, max or min\n"
	"  --only METHODS  measure only these methods, separated by commas\n"
	"  --rounds N      number of rounds; each measures all methods (default 11)\n"
	"  --rewrite       each rank rewrites its gradients before each operation,\n"
	"                  outside the timed part; otherwise they keep the results\n"
	COMMON_HELP;

static const char help_overlap[] =
	"usage: cohort bench overlap --shapes FILE [OPTION]...\n"
	"\n"
	"Measures how much of the averaging of a model's gradients is hidden behind the\n"
	"backward pass, using a reducer (cohort/reducer.h) and one thread per rank.  The\n"
	"pass is simulated: a gradient is ready after a time proportional to its number\n"
	"of elements, starting with the last of the list, and until then the thread has\n"
	"nothing to do.  These take turns:\n"
	"  backward        the pass alone\n"
	"  comm            the averaging alone, with all gradients ready at once\n"
	"  step            the averaging during the pass\n"
	"The step is compared with the longer of the other two, and with their sum.\n"
	"\n"
	"  --shapes FILE   the tensors, as for cohort bench average\n"
	"  --backward B,.. lengths of the pass: milliseconds, such as 12.5, or multiples\n"
	"                  of the averaging, such as x1.5 (default x0.5,x1,x2)\n"
	"  --sleep         sleep until each gradient is ready, instead of calling\n"
	"                  cohort_reducer_progress(), which on the host platform\n"
	"                  executes what has been launched\n"
	"  -g, --ranks N   number of ranks (default 2)\n"
	"  -d TYPE         type of all tensors (default float32)\n"
	"  --first-bytes N, --bucket-bytes N\n"
	"                  limits of a bucket's size (default: the reducer's)\n"
	"  --full-buckets  fill each bucket up to its limit, even if the last bucket\n"
	"                  then takes longer\n"
	"  --rounds N      number of rounds (default 11)\n"
	COMMON_HELP;
/* clang-format on */

struct size_reader {
	struct bench_options *options;
	uint64_t first, last, factor, step;
	bool has_sizes;
};

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
	/* strtoull() would accept a sign and leading blanks. */
	if (*text < '0' || *text > '9' || *end || errno || !value ||
	    value > MAX_BYTES >> shift)
		return cli_misuse(
			"--%s: \"%s\" is not a size from 1 to 1024G, such "
			"as 4096, 64K or 1M",
			option, text);
	*bytes_out = value << shift;
	return CLI_OK;
}

static int read_size(const struct cli_option *option, const char *text)
{
	return parse_size(option->name, text, option->value);
}

static int add_size(struct bench_options *options, uint64_t bytes)
{
	if (options->size_count == BENCH_MAX_SIZES)
		return cli_misuse(
			"more than %d sizes: lower -e, or raise -f or -i",
			BENCH_MAX_SIZES);
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

/* Find the value whose name is @text among 0 to @most, and store it. Store -1
 * for "all", which only an operation on collectives accepts. Return CLI_OK, or
 * CLI_USAGE after printing an error. */
static int parse_name(const struct bench_options *o, char letter,
                      const char *what, const char *text,
                      const char *(*name_of)(int value), int most,
                      int *value_out)
{
	const bool takes_all = o->operation == &bench_collectives;
	char names[256] = "";
	struct text t = { names, sizeof(names) };

	*value_out = -1;
	if (takes_all && strcmp(text, "all") == 0)
		return CLI_OK;
	for (int value = 0; value <= most; value++) {
		*value_out = value;
		if (strcmp(text, name_of(value)) == 0)
			return CLI_OK;
		text_add(&t, "%s%s", name_of(value),
		         value < most || takes_all ? ", " : "");
	}
	return cli_misuse("-%c: \"%s\" is not %s: %s%s", letter, text, what,
	                  names, takes_all ? "or all" : "");
}

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
	return parse_name(o, 'd', "a type", text, cohort_type_name,
	                  COHORT_F8E5M2, &o->type);
}

static int read_op(const struct cli_option *option, const char *text)
{
	struct bench_options *o = option->value;

	return parse_name(o, 'o', "an operation", text, cohort_op_name,
	                  COHORT_AVG, &o->op);
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
	return cli_misuse("--only: \"%s\" is not a method: alone, group, flat, "
	                  "views or auto",
	                  word);
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
	if (o->length_count == BENCH_MAX_LENGTHS)
		return cli_misuse("--backward: more than %d lengths",
		                  BENCH_MAX_LENGTHS);
	length.value = strtod(digits, &end);
	if (*digits < '0' || *digits > '9' || *end || !(length.value > 0.0) ||
	    length.value > (length.is_factor ? MOST_TIMES : MOST_MS))
		return cli_misuse(
			"--backward: \"%s\" is not a length: milliseconds "
			"up to %g, such as 12.5, or a multiple of the "
			"averaging up to %g, such as x1.5",
			word, MOST_MS, MOST_TIMES);
	o->lengths[o->length_count++] = length;
	return CLI_OK;
}

static int settle_sizes(struct size_reader *reader)
{
	uint64_t first = reader->first ? reader->first : 4;
	uint64_t last = reader->last ? reader->last : UINT64_C(64) << 20;
	int status = CLI_OK;

	if (!reader->last && last < first)
		last = first;
	if (reader->has_sizes &&
	    (reader->first || reader->last || reader->factor || reader->step))
		return cli_misuse(
			"--sizes cannot be combined with -b, -e, -f or -i");
	if (reader->factor && reader->step)
		return cli_misuse("-f and -i cannot be combined");
	if (last < first)
		return cli_misuse("-e: %" PRIu64
		                  " bytes is less than -b, %" PRIu64 " bytes",
		                  last, first);
	if (!reader->factor)
		reader->factor = 4;
	for (uint64_t size = first;
	     !reader->has_sizes && size <= last && status == CLI_OK;
	     size = reader->step ? size + reader->step : size * reader->factor)
		status = add_size(reader->options, size);
	return status;
}

static int parse_collective(int argc, char **argv, int *kind_out)
{
	if (optind == argc)
		return cli_misuse(
			"no collective given; see cohort bench --help");
	if (optind + 1 < argc)
		return cli_misuse(
			"\"%s\": only one collective can be given, or "
			"all",
			argv[optind + 1]);
	*kind_out = collective_find(argv[optind]);
	if (*kind_out >= 0 || strcmp(argv[optind], "all") == 0)
		return CLI_OK;
	return cli_misuse("\"%s\" is not a collective; see cohort bench --help",
	                  argv[optind]);
}

static int refuse_threads(const struct cli_option *option, const char *text)
{
	(void)option, (void)text;
	return cli_misuse("-t: there is one thread per rank; -g sets the "
	                  "number of ranks");
}

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

static bool parse_collectives(int argc, char **argv, struct bench_options *o,
                              int *status_out)
{
	struct size_reader reader = { .options = o };
	const struct cli_option options[] = {
		COMMON_OPTIONS(o),
		{ "ngpus", 0, CLI_INT, &o->ranks, .least = 1,
		  .most = COHORT_SIM_MAX_DEVICES },
		{ "nthreads", 't', CLI_READ, .read = refuse_threads },
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
		{ .kind = CLI_REST },
	};
	int status;

	if (!cli_options("bench", argc, argv, options, help_collectives,
	                 status_out))
		return false;
	status = parse_collective(argc, argv, &o->kind);
	if (status == CLI_OK)
		status = settle_sizes(&reader);
	o->loops |= !o->rewrites;
	o->paths[PATH_API] |= !o->paths[PATH_RAW] && !o->paths[PATH_HOST];
	o->in_place |= !o->out_of_place;
	if (status == CLI_OK && o->paths[PATH_HOST] && o->kind == OP_SEND &&
	    !o->paths[PATH_API] && !o->paths[PATH_RAW])
		status = cli_misuse("--host: send_recv has no variant "
		                    "with host memory");
	*status_out = status;
	return status == CLI_OK;
}

static bool parse_average(int argc, char **argv, struct bench_options *o,
                          int *status_out)
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
	                   status_out);
}

static bool parse_overlap(int argc, char **argv, struct bench_options *o,
                          int *status_out)
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
		{ .kind = CLI_END },
	};

	return cli_options("bench overlap", argc, argv, options, help_overlap,
	                   status_out);
}

bool bench_parse(int argc, char **argv, struct bench_options *o,
                 int *status_out)
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
		return parse_collectives(argc, argv, o, status_out);
	o->ranks = 2;
	o->op = COHORT_AVG;
	o->rounds = 11;
	if (strcmp(word, "average") == 0) {
		o->operation = &bench_average;
		o->warm_up = 1;
		return parse_average(argc - 1, argv + 1, o, status_out);
	}
	o->operation = &bench_overlap;
	o->warm_up = 0;
	return parse_overlap(argc - 1, argv + 1, o, status_out);
}
