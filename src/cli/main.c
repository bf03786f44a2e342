/* SPDX-License-Identifier: Apache-2.0 */

/* The program cohort: runs the command that its first operand names */

#include "cli/common/cli.h"

#include <errno.h>
#include <getopt.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/cohort.h>

#include "base/environment.h"
#include "base/util.h"
#include "cli/common/cli_options.h"

static const struct command {
	const char *name;
	int (*main)(int argc, char **argv);
} commands[] = {
	{ "info", info_main },   { "check", check_main },
	{ "demo", demo_main },   { "bench", bench_main },
	{ "drill", drill_main }, { "launch", launch_main },
	{ "run", run_main },     { "top", top_main },
	{ "trace", trace_main }, { "watch", watch_main },
};

/* clang-format off */
static const char help[] =
	"usage: cohort COMMAND [OPTION]...\n"
	"       cohort --help | --version\n"
	"\n"
	"All the GPUs of a machine from one process, one thread per GPU.\n"
	"\n"
	"Commands:\n"
	"  info   show the platforms and devices of this machine\n"
	"  check  find what would go wrong in a run before it starts\n"
	"  demo   train a small network with one thread per rank\n"
	"  bench  measure collectives\n"
	"  drill  inject each fault at each place and check the verdicts\n"
	"  launch start a program in several processes and report which have ended\n"
	"  run    run an NCCL program without a GPU\n"
	"  top    show what the ranks of a running group are doing\n"
	"  trace  print what a dump of the flight recorder shows\n"
	"  watch  run an NCCL program and report which rank hangs, and why\n"
	"\n"
	"'cohort COMMAND --help' prints a command's options.\n"
	"Exit status: 0 success, 1 failure, 2 wrong usage.\n";
/* clang-format on */

static int dispatch(int argc, char **argv)
{
	bool version = false;
	const struct cli_option options[] = {
		{ "version", 0, CLI_TRUE, .value = &version },
		{ .kind = CLI_PROGRAM },
	};
	int status;

	if (!cli_options(NULL, argc, argv, options, help, &status))
		return status;
	if (version) {
		printf("cohort %s\n", cohort_version());
		return CLI_OK;
	}
	if (optind == argc)
		return cli_misuse("no command given; see cohort --help");
	argc -= optind;
	argv += optind;
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(argv[0], commands[i].name) == 0)
			return commands[i].main(argc, argv);
	return cli_misuse("\"%s\" is not a command; see cohort --help",
	                  argv[0]);
}

int main(int argc, char **argv)
{
	const struct log log = log_parse(getenv("COHORT_LOG"));
	int status;

	/* Set only the character set, because numbers must keep their decimal
	 * point. */
	setlocale(LC_CTYPE, "");
	/* Overridden options are reported later, by cohort_group_open(). */
	environment_report_unknown(&log);
	status = dispatch(argc, argv);
	if ((fflush(stdout) || ferror(stdout)) && status == CLI_OK)
		return cli_fail("standard output: %s", strerror(errno));
	return status;
}
