/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort trace: reads the dumps of a flight recorder, and prints what they have
 */

#include "cli/trace/trace.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/common/cli.h"
#include "cli/common/options.h"
#include "dump/chrome.h"

struct trace_options {
	bool json;
	const char *chrome; /* file to write trace events to, or NULL */
};

static void print_help(void)
{
	/* clang-format off */
	puts("usage: cohort trace [--json] [--chrome OUT] FILE...\n"
	     "\n"
	     "Reads one dump of one group (see cohort_dump()) and prints the verdict, the\n"
	     "last collectives of all ranks side by side around the stall, how often each\n"
	     "rank came last and by how much, and how long calls queued, waited for other\n"
	     "ranks and were executed.\n"
	     "\n"
	     "The dump's fr_*_merged.json has all that is shown; fr_*_rank_N.json of every\n"
	     "rank will do, too.  The intact parts of damaged files are read, and what is\n"
	     "missing is named: an operation with a wrong value is left out, any other wrong\n"
	     "value counts as unknown.\n"
	     "\n"
	     "Times are given by kind of call: operation, type, count, number of tensors,\n"
	     "tag and label.  Tags that differ only in their numbers are one kind: \"step 11\"\n"
	     "and \"step 12\" are shown as \"step #\".  A number that all of them have stays.\n"
	     "A dump has the texts of a rank's last 64 tags; calls with older tags count as\n"
	     "calls without a tag.\n"
	     "\n"
	     "  --json        one JSON object instead of text\n"
	     "  --chrome OUT  also write trace events, for Perfetto or chrome://tracing\n"
	     "  --help        this text");
	/* clang-format on */
}

static int write_chrome(const struct trace *t, const char *path)
{
	struct json json = { .out = fopen(path, "we") };
	bool failed;

	if (!json.out) {
		cli_complain("trace", "%s: %s", path, strerror(errno));
		return CLI_FAILED;
	}
	chrome_write(&json, &t->flight, SIZE_MAX);
	failed = ferror(json.out);
	if (fclose(json.out) || failed) {
		cli_complain("trace", "%s: %s", path, strerror(errno));
		return CLI_FAILED;
	}
	return CLI_OK;
}

static int show(const struct trace *t, const struct trace_options *o)
{
	struct json json = { .out = stdout };
	struct trace_figures figures;
	bool ok = trace_figures(t, &figures);

	if (!ok) {
		cli_complain("trace", "out of memory");
	} else if (o->json) {
		trace_json(&json, t, &figures);
		putchar('\n');
	} else {
		trace_print(t, &figures);
	}
	trace_figures_free(&figures);
	if (ok && o->chrome)
		return write_chrome(t, o->chrome);
	return ok ? CLI_OK : CLI_FAILED;
}

static int run(const struct trace_options *o, char **files, int n)
{
	struct trace *t = calloc(1, sizeof(*t));
	int status;

	if (!t) {
		cli_complain("trace", "out of memory");
		return CLI_FAILED;
	}
	status = trace_read(t, files, n);
	if (status == CLI_OK)
		status = show(t, o);
	trace_free(t);
	free(t);
	return status;
}

int trace_main(int argc, char **argv)
{
	struct trace_options o = { .json = false };
	const struct cli_option options[] = {
		{ "json", 0, CLI_TRUE, .value = &o.json },
		{ "chrome", 0, CLI_TEXT, .value = &o.chrome },
		{ .kind = CLI_FILES },
	};
	bool help;
	int status =
		cli_options(argv[0], argc, argv, options, print_help, &help);

	if (status != CLI_OK || help)
		return status;
	return run(&o, argv + optind, argc - optind);
}
