/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort trace: what the dumps of a flight recorder tell
 */

#include "cli/trace/trace.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/common/cli.h"
#include "dump/chrome.h"

enum { OPTION_JSON = CLI_LONG_OPTION, OPTION_CHROME };

struct trace_options {
	bool json;
	const char *chrome; /* where to, NULL: nowhere */
};

static void print_help(void)
{
	puts("usage: cohort trace [--json] [--chrome OUT] FILE...\n"
	     "\n"
	     "Reads the dumps of one group (fr_*.json, see cohort_dump()): the "
	     "verdict, the\n"
	     "last collectives of all ranks side by side around the stall, who "
	     "came last how\n"
	     "often and by how much, and how long calls queued, waited for "
	     "other ranks and\n"
	     "were carried out.  Of damaged files it reads what is whole, and "
	     "says what is\n"
	     "missing: an operation with a wrong value is left out, any other "
	     "wrong value\n"
	     "counts as unknown.\n"
	     "\n"
	     "Times are told by kind of call: operation, type, count, number "
	     "of tensors, tag\n"
	     "and label.  Tags that differ only in their numbers are one kind: "
	     "\"step 11\" and\n"
	     "\"step 12\" are shown as \"step #\".  A number that is the same "
	     "in all of them\n"
	     "stays.  A dump has the texts of a rank's last 64 tags; calls "
	     "with older ones\n"
	     "count as calls without a tag.\n"
	     "\n"
	     "  --json        one JSON object instead of text\n"
	     "  --chrome OUT  also write trace events, for Perfetto or "
	     "chrome://tracing\n"
	     "  --help        this text");
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
	static const struct option options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "json", no_argument, NULL, OPTION_JSON },
		{ "chrome", required_argument, NULL, OPTION_CHROME },
		{ 0 },
	};
	struct trace_options o = { .json = false };
	int c;

	while ((c = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
		switch (c) {
		case 'h':
			print_help();
			return CLI_OK;
		case OPTION_JSON:
			o.json = true;
			break;
		case OPTION_CHROME:
			o.chrome = optarg;
			break;
		default:
			cli_bad_option(argv[0], argv, c);
			return CLI_USAGE;
		}
	}
	if (optind == argc) {
		cli_complain(argv[0], "no file given");
		return CLI_USAGE;
	}
	return run(&o, argv + optind, argc - optind);
}
