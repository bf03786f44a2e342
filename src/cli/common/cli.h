/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMMON_CLI_H
#define CLI_COMMON_CLI_H

/*
 * Exit codes, complaints, values of options, and figures, which all commands
 * share.  A complaint is one line on stderr that starts with "cohort" and the
 * command's name.
 */

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum cli_exit {
	CLI_OK = 0,
	CLI_FAILED = 1,
	CLI_USAGE = 2,

	/* A program that is to be run cannot be, or is not found; as of a
	 * shell. */
	CLI_NOT_EXECUTABLE = 126,
	CLI_NOT_FOUND = 127,
};

/* The signal that asks a thread for its stack, for verdicts. */
#define CLI_STACK_SIGNAL (SIGRTMIN + 7)

/* Milliseconds from one time to another. */
static inline double cli_ms_between(uint64_t from_ns, uint64_t to_ns)
{
	return ((double)to_ns - (double)from_ns) * 1e-6;
}

/* Sleep until clock_now() has reached @time_ns. */
void cli_sleep_until(uint64_t time_ns);

/* Return the quantile @place, from 0 to 1, of @n values, n > 0, which are
 * sorted here.  It is interpolated between two values. */
double cli_quantile(double *values, size_t n, double place);

/* True if @text ends with @end, and is longer. */
bool cli_ends_with(const char *text, const char *end);

/* Replace each control character in @text, and each byte that is part of no
 * UTF-8 character, by '?': a terminal would obey them. */
void cli_plain(char *text);

/* Complain, in a plain text.  @command may be NULL. */
void cli_complain(const char *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Return @memory; end the program, after a complaint, if that is NULL. */
void *cli_need(const char *command, void *memory);

/* Set an environment variable, unless it is set and @replaces is false.
 * Returns CLI_OK, or CLI_FAILED after a complaint. */
int cli_setenv(const char *command, const char *variable, const char *value,
               bool replaces);

/* Make the host platform have at least @ranks devices, unless the environment
 * sets their number.  To be called before the platform is used.  Returns as
 * cli_setenv() does. */
int cli_need_devices(const char *command, int ranks);

/* Map a regular file for reading, as long as the process lives.  Returns NULL
 * if that fails, or if the file is empty. */
const char *cli_map_file(const char *path, size_t *size_out);

/* Write @text as one word of a shell, in quotes. */
void cli_put_quoted(FILE *out, const char *text);

/* Print the words of @text in lines, behind the @indent columns that are
 * printed already. */
void cli_print_wrapped(int indent, const char *text);

/* Print the block of a verdict (cohort_verdict.text), @column columns from the
 * left.  Rows that exceed the width of a terminal are wrapped. */
void cli_print_block(int column, const char *text);

/*
 * Parse @text as a decimal number from @min to @max.  CLI_OK, or CLI_USAGE
 * after a complaint that names the @option and its @text.
 */
int cli_number(const char *command, const char *option, const char *text,
               uint64_t min, uint64_t max, uint64_t *value_out);

/* "gpu", "host", or "?" for any other value. */
const char *cli_platform_name(int platform);

/* "together", "ahead", or NULL for any other value. */
const char *cli_launch_name(int launch);

#endif
