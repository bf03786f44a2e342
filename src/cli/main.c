/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The program: finds the command by its name, and runs it
 */

#include "cli/commands.h"

#include <errno.h>
#include <getopt.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/cohort.h>

#include "base/environment.h"
#include "cli/common/cli.h"
#include "cli/common/cli_options.h"

static const struct command {
	const char *name;
	int (*main)(int argc, char **argv);
	const char *summary;
} commands[] = {
	{ "info", info_main, "show the platforms and devices of this machine" },
	{ "check", check_main, "say what would go wrong in a run, before it" },
	{ "demo", demo_main, "train a small network with one thread per rank" },
	{ "bench", bench_main, "measure collectives" },
	{ "drill", drill_main,
	  "cause every fault in every place, and check the verdicts" },
	{ "launch", launch_main,
	  "start a program in several processes, and tell which have ended" },
	{ "run", run_main, "run an NCCL program without a GPU" },
	{ "top", top_main, "show what the ranks of a running group do" },
	{ "trace", trace_main,
	  "print what the dumps of a flight recorder show" },
};

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void print_help(void)
{
	puts("usage: cohort COMMAND [OPTION]...\n"
	     "       cohort --help | --version\n"
	     "\n"
	     "All the GPUs of a machine from one process, one thread per "
	     "GPU.\n"
	     "\n"
	     "Commands:");
	for (size_t i = 0; i < N_COMMANDS; i++)
		printf("  %-6s %s\n", commands[i].name, commands[i].summary);
	puts("\n"
	     "'cohort COMMAND --help' prints a command's options.\n"
	     "Exit status: 0 success, 1 failure, 2 wrong usage.");
}

static int run_command(int argc, char **argv)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (strcmp(argv[0], commands[i].name) == 0)
			return commands[i].main(argc, argv);
	cli_complain(NULL, "'%s': no such command, see cohort --help", argv[0]);
	return CLI_USAGE;
}

static int dispatch(int argc, char **argv)
{
	bool help, version = false;
	const struct cli_option options[] = {
		{ "version", 0, CLI_TRUE, .value = &version },
		{ .kind = CLI_PROGRAM },
	};
	int status = cli_options(NULL, argc, argv, options, print_help, &help);

	if (status != CLI_OK || help)
		return status;
	if (version) {
		printf("cohort %s\n", cohort_version());
		return CLI_OK;
	}
	if (optind == argc) {
		cli_complain(NULL, "no command given, see cohort --help");
		return CLI_USAGE;
	}
	return run_command(argc - optind, argv + optind);
}

int main(int argc, char **argv)
{
	const struct log log = log_of(getenv("COHORT_LOG"));
	int status;

	/* Only the character set: numbers must keep their decimal point. */
	setlocale(LC_CTYPE, "");
	/* cohort_group_open() logs the overridden options. */
	environment_report_unknown(&log);
	status = dispatch(argc, argv);
	if ((fflush(stdout) || ferror(stdout)) && status == CLI_OK) {
		cli_complain(NULL, "standard output: %s", strerror(errno));
		status = CLI_FAILED;
	}
	return status;
}
