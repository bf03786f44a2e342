/* SPDX-License-Identifier: Apache-2.0 */

/* The options of cohort bench: those of nccl-tests, and a few more. */

#include "cli/bench/bench.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/sim.h>

#include "cli/common/cli.h"

#define MAX_BYTES (UINT64_C(1) << 40)
#define MAX_COUNT UINT64_C(1000000)

/* The state of reading a command line. */
struct reader {
	struct bench_options *options;
	uint64_t first, last, factor, step;
	bool has_sizes;
};

/* ---- values ----------------------------------------------------------- */

/* Parse a size of @length characters, such as 4096 or 4K. */
static int parse_size(const char *option, const char *text, size_t length,
                      uint64_t *bytes_out)
{
	static const char letters[] = "KMG";
	unsigned long long value;
	const char *letter;
	int shift = 0;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	letter = end < text + length ? strchr(letters, *end & ~0x20) : NULL;
	if (letter) {
		shift = 10 * (int)(letter - letters + 1);
		end++;
	}
	/* strtoull() would take a sign and leading blanks. */
	if (*text < '0' || *text > '9' || end != text + length || errno ||
	    !value || value > MAX_BYTES >> shift) {
		cli_complain("bench",
		             "--%s: '%.*s' is not a size from 1 to %" PRIu64,
		             option, (int)length, text, MAX_BYTES);
		return CLI_USAGE;
	}
	*bytes_out = value << shift;
	return CLI_OK;
}

static int read_size(const struct cli_option *option, const char *text)
{
	return parse_size(option->name, text, strlen(text), option->value);
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

static int read_sizes(const struct cli_option *option, const char *text)
{
	struct reader *reader = option->value;
	int status = CLI_OK;

	reader->has_sizes = true;
	reader->options->size_count = 0;
	while (status == CLI_OK) {
		size_t length = strcspn(text, ",");
		uint64_t bytes;

		status = parse_size(option->name, text, length, &bytes);
		if (status == CLI_OK)
			status = add_size(reader->options, bytes);
		if (!text[length])
			break;
		text += length + 1;
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

static int read_type(const struct cli_option *option, const char *text)
{
	return bench_parse_type(text, option->value);
}

static int read_op(const struct cli_option *option, const char *text)
{
	return bench_parse_op(text, option->value);
}

static int read_launch(const struct cli_option *option, const char *text)
{
	return cli_launch("bench", text, option->value);
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
		status = add_size(reader->options, size);
	return status;
}

static void settle_modes(struct bench_options *o)
{
	o->paces[PACE_LOOP] |= !o->paces[PACE_REWRITE];
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
	if (*out || !strcmp(argv[optind], "all"))
		return CLI_OK;
	cli_complain("bench",
	             "'%s': no such collective, see cohort bench "
	             "--help",
	             argv[optind]);
	return CLI_USAGE;
}

int bench_parse(int argc, char **argv, struct bench_options *o, bool *help_out)
{
	struct reader reader = { .options = o };
	const struct cli_option options[] = {
		{ "minbytes", 'b', CLI_READ, &reader.first, .read = read_size },
		{ "maxbytes", 'e', CLI_READ, &reader.last, .read = read_size },
		{ "stepfactor", 'f', CLI_UINT, &reader.factor, .least = 2,
		  .most = 1024 },
		{ "stepbytes", 'i', CLI_READ, &reader.step, .read = read_size },
		{ "sizes", 0, CLI_READ, &reader, .read = read_sizes },
		{ "ngpus", 'g', CLI_INT, &o->ranks, .least = 1,
		  .most = COHORT_SIM_MAX_DEVICES },
		{ "iters", 'n', CLI_UINT, &o->iterations, .least = 1,
		  .most = MAX_COUNT },
		{ "warmup_iters", 'w', CLI_UINT, &o->warm_up, .least = 0,
		  .most = MAX_COUNT },
		{ "datatype", 'd', CLI_READ, &o->type, .read = read_type },
		{ "op", 'o', CLI_READ, &o->op, .read = read_op },
		{ "root", 'r', CLI_INT, &o->root, .least = 0,
		  .most = COHORT_SIM_MAX_DEVICES - 1 },
		{ "check", 'c', CLI_BIT, .value = &o->check },
		{ "rounds", 0, CLI_UINT, &o->rounds, .least = 1,
		  .most = 100000 },
		{ "loop", 0, CLI_TRUE, .value = &o->paces[PACE_LOOP] },
		{ "rewrite", 0, CLI_TRUE, .value = &o->paces[PACE_REWRITE] },
		{ "api", 0, CLI_TRUE, .value = &o->paths[PATH_API] },
		{ "raw", 0, CLI_TRUE, .value = &o->paths[PATH_RAW] },
		{ "host", 0, CLI_TRUE, .value = &o->paths[PATH_HOST] },
		{ "in-place", 0, CLI_TRUE, .value = &o->in_place },
		{ "out-of-place", 0, CLI_TRUE, .value = &o->out_of_place },
		{ "platform", 0, CLI_PLATFORM, .value = &o->platform },
		{ "launch", 0, CLI_READ, &o->launch, .read = read_launch },
		{ "no-pin", 0, CLI_FALSE, .value = &o->pin },
		{ "json", 0, CLI_TRUE, .value = &o->json },
		{ "plot", 0, CLI_TEXT, .value = &o->plot },
		{ .kind = CLI_REST },
	};
	int status;

	*o = (struct bench_options){
		.platform = COHORT_PLATFORM_AUTO,
		.type = COHORT_F32,
		.op = COHORT_SUM,
		.rounds = 21,
		.warm_up = 2,
		.check = true,
		.pin = true,
	};
	status =
		cli_options("bench", argc, argv, options, bench_help, help_out);
	if (status != CLI_OK || *help_out)
		return status;
	status = parse_collective(argc, argv, &o->collective);
	if (status == CLI_OK)
		status = settle_sizes(&reader);
	settle_modes(o);
	return status;
}
