/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The command: finds out which command is meant and calls it
 *
 * Exit codes: 0 fine, 1 failed, 2 used wrongly; see enum cli_exit.
 */

#include "cli.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/cohort.h>

static const struct command {
	const char *name;
	int (*main)(int argc, char **argv);
	const char *summary;
} commands[] = {
	{ "info", info_main, "what this machine offers: platforms, devices" },
	{ "demo", demo_main, "train a small network with one thread per rank" },
	{ "bench", bench_main, "how fast the collectives are" },
	{ "run", run_main, "run a program of NCCL without a GPU" },
};

enum { OPTION_VERSION = CLI_LONG_OPTION };

#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

void cli_complain(const char *command, const char *format, ...)
{
	va_list args;

	flockfile(stderr);
	fprintf(stderr, "cohort%s%s: ", command ? " " : "",
	        command ? command : "");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	funlockfile(stderr);
}

void cli_bad_option(const char *command, char **argv, int answer)
{
	const char *option = argv[optind - 1];

	if (answer == ':')
		cli_complain(command, "%s: needs a value", option);
	else if (optopt > UCHAR_MAX || optopt == 'h')
		cli_complain(command, "%s: takes no value", option);
	else if (optopt)
		cli_complain(command, "-%c: no such option", optopt);
	else
		cli_complain(command, "%s: no such option", option);
}

int cli_no_operands(const char *command, int argc, char **argv)
{
	if (optind == argc)
		return CLI_OK;
	cli_complain(command, "'%s': takes options only", argv[optind]);
	return CLI_USAGE;
}

int cli_number(const char *command, const char *option, const char *text,
               uint64_t min, uint64_t max, uint64_t *value_out)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	/* strtoull() would take a sign and leading blanks. */
	if (*text < '0' || *text > '9' || *end || errno || value < min ||
	    value > max) {
		cli_complain(command,
		             "--%s: '%s' is not a number from %" PRIu64
		             " to %" PRIu64,
		             option, text, min, max);
		return CLI_USAGE;
	}
	*value_out = value;
	return CLI_OK;
}

const char *cli_platform_name(int platform)
{
	switch (platform) {
	case COHORT_PLATFORM_GPU:
		return "gpu";
	case COHORT_PLATFORM_HOST:
		return "host";
	}
	return "?";
}

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
	     "'cohort COMMAND --help' tells a command's options.\n"
	     "Exit status: 0 fine, 1 failed, 2 used wrongly.");
}

static int run_command(int argc, char **argv)
{
	for (size_t i = 0; i < N_COMMANDS; i++) {
		if (strcmp(argv[0], commands[i].name))
			continue;
		optind = 0; /* getopt starts afresh */
		return commands[i].main(argc, argv);
	}
	cli_complain(NULL, "'%s': no such command, see cohort --help", argv[0]);
	return CLI_USAGE;
}

static int dispatch(int argc, char **argv)
{
	static const struct option options[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, OPTION_VERSION },
		{ 0 },
	};
	int c;

	opterr = 0;
	c = getopt_long(argc, argv, "+:h", options, NULL);
	if (c == 'h') {
		print_help();
		return CLI_OK;
	}
	if (c == OPTION_VERSION) {
		printf("cohort %s\n", cohort_version());
		return CLI_OK;
	}
	if (c != -1) {
		cli_bad_option(NULL, argv, c);
		return CLI_USAGE;
	}
	if (optind == argc) {
		cli_complain(NULL, "no command given, see cohort --help");
		return CLI_USAGE;
	}
	return run_command(argc - optind, argv + optind);
}

int main(int argc, char **argv)
{
	int status;

	/* Only what the characters on the terminal depend on: numbers keep
	 * their decimal point. */
	setlocale(LC_CTYPE, "");
	status = dispatch(argc, argv);
	if ((fflush(stdout) || ferror(stdout)) && status == CLI_OK) {
		cli_complain(NULL, "standard output: %s", strerror(errno));
		status = CLI_FAILED;
	}
	return status;
}
