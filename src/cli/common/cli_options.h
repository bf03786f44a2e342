/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMMON_CLI_OPTIONS_H
#define CLI_COMMON_CLI_OPTIONS_H

/*
 * The table of a command's options, with the type and destination of each value
 */

#include <stdbool.h>
#include <stdint.h>

#include <cohort/cohort.h>

#include "cli/common/cli.h"

enum cli_value {
	CLI_END, /* end of the table of a command without operands */
	/* end of the table of a command that needs at least one file */
	CLI_FILES,
	CLI_REST, /* end of the table of a command with optional operands */
	/* end of the table of a command whose first operand is a program; all
	 * later words belong to the program */
	CLI_PROGRAM,
	CLI_TRUE,  /* takes no value; sets a bool */
	CLI_FALSE, /* takes no value; clears a bool */
	CLI_BIT,   /* takes 0 or 1; sets a bool */
	CLI_INT,   /* takes a number from least to most; sets an int */
	/* takes a number from least to most; sets a uint64_t or size_t */
	CLI_UINT,
	CLI_MS,   /* takes milliseconds; sets a uint64_t to ns */
	CLI_TEXT, /* takes any text; sets a const char * */
	/* takes a name that stands for a number from least to most; sets an
	 * int */
	CLI_NAME,
	CLI_READ, /* takes a value that @read parses */
	/* takes words separated by commas; @read is called with NULL first,
	 * then with each word */
	CLI_LIST,
	CLI_CALL, /* takes no value; @read is called with NULL */
};

struct cli_option {
	const char *name;
	char letter; /* the short form, or 0 if there is none */
	enum cli_value kind;
	void *value;
	uint64_t least, most;
	bool is_needed; /* for CLI_TEXT: a file name that is required */

	/* For CLI_NAME: the function that returns the name of a number, and the
	 * rest of the error message about an invalid name */
	const char *(*name_of)(int number);
	const char *says;

	/* Parser for CLI_READ, CLI_LIST and CLI_CALL. Returns an enum cli_exit;
	 * if it is not CLI_OK, an error was printed. */
	int (*read)(const struct cli_option *option, const char *text);
};

/* An option that several commands have; it stores into the int at @to. */
#define CLI_PLATFORM(to)                                                       \
	CLI_NAME, (to), COHORT_PLATFORM_GPU, COHORT_PLATFORM_HOST,             \
		.name_of = cli_platform_name,                                  \
		.says = "is neither gpu nor host"

enum { CLI_MOST_OPTIONS = 30 };

/*
 * Read the options of @command, or of cohort itself if @command is NULL. --help
 * and -h are added to the table; they print @help.
 *
 * Return true, with optind at the first operand, if the command must run.
 * Otherwise store its exit status: CLI_OK if the help was printed, or CLI_USAGE
 * if an error was printed.
 */
bool cli_options(const char *command, int argc, char **argv,
                 const struct cli_option *options, const char *help,
                 int *status_out);

#endif
