/* SPDX-License-Identifier: Apache-2.0 */

/* The options of cohort bench: those of nccl-tests, and a few more. */

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/sim.h>

#include "cli/bench/bench.h"
#include "cli/common/cli.h"

#define MAX_BYTES (UINT64_C(1) << 40)
#define MAX_COUNT UINT64_C(1000000)

enum {
	OPTION_REWRITE = CLI_LONG_OPTION,
	OPTION_LOOP,
	OPTION_RAW,
	OPTION_API,
	OPTION_HOST,
	OPTION_IN_PLACE,
	OPTION_OUT_OF_PLACE,
	OPTION_ROUNDS,
	OPTION_SIZES,
	OPTION_PLATFORM,
	OPTION_LAUNCH,
	OPTION_NO_PIN,
	OPTION_JSON,
	OPTION_PLOT,
};

static const char short_options[] = ":hb:e:f:i:g:n:w:d:o:r:c:";

static const struct option long_options[] = {
	{ "help", no_argument, NULL, 'h' },
	{ "minbytes", required_argument, NULL, 'b' },
	{ "maxbytes", required_argument, NULL, 'e' },
	{ "stepfactor", required_argument, NULL, 'f' },
	{ "stepbytes", required_argument, NULL, 'i' },
	{ "ngpus", required_argument, NULL, 'g' },
	{ "iters", required_argument, NULL, 'n' },
	{ "warmup_iters", required_argument, NULL, 'w' },
	{ "datatype", required_argument, NULL, 'd' },
	{ "op", required_argument, NULL, 'o' },
	{ "root", required_argument, NULL, 'r' },
	{ "check", required_argument, NULL, 'c' },
	{ "rewrite", no_argument, NULL, OPTION_REWRITE },
	{ "loop", no_argument, NULL, OPTION_LOOP },
	{ "raw", no_argument, NULL, OPTION_RAW },
	{ "api", no_argument, NULL, OPTION_API },
	{ "host", no_argument, NULL, OPTION_HOST },
	{ "in-place", no_argument, NULL, OPTION_IN_PLACE },
	{ "out-of-place", no_argument, NULL, OPTION_OUT_OF_PLACE },
	{ "rounds", required_argument, NULL, OPTION_ROUNDS },
	{ "sizes", required_argument, NULL, OPTION_SIZES },
	{ "platform", required_argument, NULL, OPTION_PLATFORM },
	{ "launch", required_argument, NULL, OPTION_LAUNCH },
	{ "no-pin", no_argument, NULL, OPTION_NO_PIN },
	{ "json", no_argument, NULL, OPTION_JSON },
	{ "plot", required_argument, NULL, OPTION_PLOT },
	{ 0 },
};

/* The state of reading a command line. */
struct reader {
	struct bench_options *options;
	uint64_t first, last, factor, step;
	bool has_sizes;
};

/* ---- values ----------------------------------------------------------- */

/* Parse a number, with @suffixes also a size such as 4K. */
static int parse_value(const char *option, const char *text, uint64_t min,
                       uint64_t max, bool suffixes, uint64_t *value_out)
{
	static const char letters[] = "KMG";
	unsigned long long value;
	const char *letter;
	int shift = 0;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	letter = *end ? strchr(letters, *end & ~0x20) : NULL;
	if (suffixes && letter) {
		shift = 10 * (int)(letter - letters + 1);
		end++;
	}
	/* strtoull() would take a sign and leading blanks. */
	if (*text < '0' || *text > '9' || *end || errno ||
	    value > max >> shift || value << shift < min) {
		cli_complain("bench",
		             "%s: '%s' is not a %s from %" PRIu64
		             " to %" PRIu64,
		             option, text, suffixes ? "size" : "number", min,
		             max);
		return CLI_USAGE;
	}
	*value_out = value << shift;
	return CLI_OK;
}

static int parse_size(const char *option, uint64_t *bytes_out)
{
	return parse_value(option, optarg, 1, MAX_BYTES, true, bytes_out);
}

static int add_size(struct reader *reader, uint64_t bytes)
{
	struct bench_options *options = reader->options;

	if (options->size_count == BENCH_MAX_SIZES) {
		cli_complain("bench", "more than %d sizes", BENCH_MAX_SIZES);
		return CLI_USAGE;
	}
	options->sizes[options->size_count++] = bytes;
	return CLI_OK;
}

static int parse_sizes(struct reader *reader)
{
	const char *at = optarg;
	int status = CLI_OK;

	reader->has_sizes = true;
	reader->options->size_count = 0;
	while (status == CLI_OK) {
		int length = (int)strcspn(at, ",");
		char text[32];
		uint64_t bytes;

		snprintf(text, sizeof(text), "%.*s", length, at);
		status = parse_value("--sizes", text, 1, MAX_BYTES, true,
		                     &bytes);
		if (status == CLI_OK)
			status = add_size(reader, bytes);
		if (!at[length])
			break;
		at += length + 1;
	}
	return status;
}

/* Find the value of a name in a list; -1 for "all". */
static int parse_name(const char *option, const char *text,
                      const char *const names[], const int values[], size_t n,
                      int *value_out)
{
	if (!strcmp(text, "all")) {
		*value_out = -1;
		return CLI_OK;
	}
	for (size_t i = 0; i < n; i++) {
		if (strcmp(text, names[i]))
			continue;
		*value_out = values[i];
		return CLI_OK;
	}
	cli_complain("bench", "%s: '%s' is not all or one of %s to %s", option,
	             text, names[0], names[n - 1]);
	return CLI_USAGE;
}

/* Also takes nccl-tests' names of types. */
int bench_parse_type(const char *text, int *type_out)
{
	static const char *const others[][2] = {
		{ "half", "float16" },      { "float", "float32" },
		{ "double", "float64" },    { "f8e4m3", "float8e4m3" },
		{ "f8e5m2", "float8e5m2" },
	};
#define TYPE_NAME(name, value, bytes, text) text,
	static const char *const names[] = { COHORT_TYPE_LIST(TYPE_NAME) };
#undef TYPE_NAME
#define TYPE_VALUE(name, value, bytes, text) value,
	static const int values[] = { COHORT_TYPE_LIST(TYPE_VALUE) };
#undef TYPE_VALUE

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (!strcmp(text, others[i][0]))
			text = others[i][1];
	return parse_name("-d", text, names, values,
	                  sizeof(values) / sizeof(values[0]), type_out);
}

int bench_parse_op(const char *text, int *op_out)
{
#define OP_NAME(name, value, text) text,
	static const char *const names[] = { COHORT_OP_LIST(OP_NAME) };
#undef OP_NAME
#define OP_VALUE(name, value, text) value,
	static const int values[] = { COHORT_OP_LIST(OP_VALUE) };
#undef OP_VALUE

	return parse_name("-o", text, names, values,
	                  sizeof(values) / sizeof(values[0]), op_out);
}

int bench_read_one(const char *command, const struct cli_option *option,
                   const char *text, int (*parse)(const char *text, int *out))
{
	int *value = option->value, status = parse(text, value);

	if (status != CLI_OK || *value >= 0)
		return status;
	cli_complain(command, "-%c: takes one value, not all", option->letter);
	return CLI_USAGE;
}

/* Returns a number from @min to @max, which the caller may convert to its type. */
static uint64_t parse_number(const char *option, uint64_t min, uint64_t max,
                             int *status)
{
	uint64_t value = min;

	*status = parse_value(option, optarg, min, max, false, &value);
	return value;
}

/* ---- options ---------------------------------------------------------- */

static int parse_short(int c, struct reader *reader)
{
	struct bench_options *o = reader->options;
	int status = CLI_OK;

	switch (c) {
	case 'b':
		return parse_size("-b", &reader->first);
	case 'e':
		return parse_size("-e", &reader->last);
	case 'i':
		return parse_size("-i", &reader->step);
	case 'f':
		reader->factor = parse_number("-f", 2, 1024, &status);
		break;
	case 'g':
		o->ranks = (int)parse_number("-g", 1, COHORT_SIM_MAX_DEVICES,
		                             &status);
		break;
	case 'n':
		o->iterations = parse_number("-n", 1, MAX_COUNT, &status);
		break;
	case 'w':
		o->warm_up = parse_number("-w", 0, MAX_COUNT, &status);
		break;
	case 'd':
		return bench_parse_type(optarg, &o->type);
	case 'o':
		return bench_parse_op(optarg, &o->op);
	case 'r':
		o->root = (int)parse_number("-r", 0, COHORT_SIM_MAX_DEVICES - 1,
		                            &status);
		break;
	case 'c':
		o->check = parse_number("-c", 0, 1, &status);
		break;
	}
	return status;
}

/* The options that set a flag, by what they set. */
static bool *flag_of(int c, struct bench_options *o)
{
	switch (c) {
	case OPTION_LOOP:
		return &o->paces[PACE_LOOP];
	case OPTION_REWRITE:
		return &o->paces[PACE_REWRITE];
	case OPTION_RAW:
		return &o->paths[PATH_RAW];
	case OPTION_API:
		return &o->paths[PATH_API];
	case OPTION_HOST:
		return &o->paths[PATH_HOST];
	case OPTION_IN_PLACE:
		return &o->in_place;
	case OPTION_OUT_OF_PLACE:
		return &o->out_of_place;
	case OPTION_JSON:
		return &o->json;
	}
	return NULL;
}

static int parse_long(int c, char **argv, struct reader *reader)
{
	struct bench_options *o = reader->options;
	bool *flag = flag_of(c, o);
	int status = CLI_OK;

	if (flag) {
		*flag = true;
		return CLI_OK;
	}
	switch (c) {
	case OPTION_ROUNDS:
		o->rounds = parse_number("--rounds", 1, 100000, &status);
		break;
	case OPTION_SIZES:
		return parse_sizes(reader);
	case OPTION_PLATFORM:
		return cli_platform("bench", optarg, &o->platform);
	case OPTION_LAUNCH:
		return cli_launch("bench", optarg, &o->launch);
	case OPTION_NO_PIN:
		o->pin = false;
		break;
	case OPTION_PLOT:
		o->plot = optarg;
		break;
	default:
		cli_bad_option("bench", argv, c);
		status = CLI_USAGE;
	}
	return status;
}

/* ---- defaults --------------------------------------------------------- */

static int settle_sizes(struct reader *reader)
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
		status = add_size(reader, size);
	return status;
}

static void settle_modes(struct bench_options *o)
{
	o->paces[PACE_LOOP] |= !o->paces[PACE_REWRITE];
	o->paths[PATH_API] |= !o->paths[PATH_RAW] && !o->paths[PATH_HOST];
	o->in_place |= !o->out_of_place;
}

static int parse_all(int argc, char **argv, struct reader *reader,
                     bool *help_out)
{
	int c, status;

	while ((c = getopt_long(argc, argv, short_options, long_options,
	                        NULL)) != -1) {
		if (c == 'h') {
			bench_help();
			*help_out = true;
			return CLI_OK;
		}
		status = c < CLI_LONG_OPTION && strchr(short_options + 2, c) &&
		                         c != ':'
		                 ? parse_short(c, reader)
		                 : parse_long(c, argv, reader);
		if (status != CLI_OK)
			return status;
	}
	return CLI_OK;
}

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
	if (*out || !strcmp(argv[optind], "all"))
		return CLI_OK;
	cli_complain("bench",
	             "'%s': no such collective, see cohort bench "
	             "--help",
	             argv[optind]);
	return CLI_USAGE;
}

int bench_parse(int argc, char **argv, struct bench_options *options,
                bool *help_out)
{
	struct reader reader = { .options = options };
	int status;

	*help_out = false;
	*options = (struct bench_options){
		.platform = COHORT_PLATFORM_AUTO,
		.type = COHORT_F32,
		.op = COHORT_SUM,
		.rounds = 21,
		.warm_up = 2,
		.check = true,
		.pin = true,
	};
	status = parse_all(argc, argv, &reader, help_out);
	if (status != CLI_OK || *help_out)
		return status;
	status = parse_collective(argc, argv, &options->collective);
	if (status == CLI_OK)
		status = settle_sizes(&reader);
	settle_modes(options);
	return status;
}
