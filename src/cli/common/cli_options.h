/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMMON_CLI_OPTIONS_H
#define CLI_COMMON_CLI_OPTIONS_H

/*
 * The options of a command as a table: each says how its value is read and
 * where the value goes
 */

#include <stdbool.h>
#include <stdint.h>

#include <cohort/cohort.h>

#include "cli/common/cli.h"

enum cli_value {
	CLI_END,   /* of the table, for a command without operands */
	CLI_FILES, /* of the table, for a command that needs one file or more */
	CLI_REST,  /* of the table, for a command that may have operands */
	CLI_PROGRAM, /* of the table, for a command whose first operand ends the
	                options, as it has options of its own */
	CLI_TRUE,    /* takes no value: sets a bool */
	CLI_FALSE,   /* takes no value: clears a bool */
	CLI_BIT,     /* 0 or 1, for a bool */
	CLI_INT,     /* a number from least to most, for an int */
	CLI_UINT,    /* a number from least to most, for a uint64_t or size_t */
	CLI_MS,      /* milliseconds from least to most, for a uint64_t of ns */
	CLI_TEXT,    /* for a const char * */
	CLI_NAME,    /* one of the names of least to most, for an int */
	CLI_READ,    /* for @read */
	/* Words between commas: calls @read with NULL, then for each. */
	CLI_LIST,
	CLI_CALL, /* takes no value: calls @read with NULL */
};

struct cli_option {
	const char *name;
	char letter; /* of the short form, or 0 */
	enum cli_value kind;
	void *value;
	uint64_t least, most;
	bool is_needed; /* for CLI_TEXT, the name of a file */

	/* For CLI_NAME; and what is said of a text that is none of them. */
	const char *(*name_of)(int number);
	const char *says;

	/* For CLI_READ, CLI_LIST and CLI_CALL: an enum cli_exit, after a
	 * complaint. */
	int (*read)(const struct cli_option *option, const char *text);
};

/* The values of two options that several commands have, for the int at @to. */
#define CLI_PLATFORM(to)                                                       \
	CLI_NAME, (to), COHORT_PLATFORM_GPU, COHORT_PLATFORM_HOST,             \
		.name_of = cli_platform_name,                                  \
		.says = "is neither gpu nor host"
#define CLI_LAUNCH(to)                                                         \
	CLI_NAME, (to), COHORT_LAUNCH_TOGETHER, COHORT_LAUNCH_AHEAD,           \
		.name_of = cli_launch_name,                                    \
		.says = "is neither together nor ahead"

/* A table has at most so many options. */
enum { CLI_MOST_OPTIONS = 30 };

/*
 * Read the options of @command, or of cohort itself if that is NULL: those of
 * the table, and --help and -h.  CLI_OK, with optind at the first operand, if
 * the command takes any, and @help_out true if the help was printed; or
 * CLI_USAGE after a complaint.
 */
int cli_options(const char *command, int argc, char **argv,
                const struct cli_option *options, void (*print_help)(void),
                bool *help_out);

#endif
