/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMMON_CLI_H
#define CLI_COMMON_CLI_H

/*
 * Exit codes, error messages, option values and quantiles, for all commands
 *
 * An error message is one line on stderr that starts with "cohort" and the name
 * of the command.
 */

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum cli_exit {
	CLI_OK = 0,
	CLI_FAILED = 1,
	CLI_USAGE = 2,

	/* exit codes of a shell for a program that cannot be executed or was
	 * not found */
	CLI_NOT_EXECUTABLE = 126,
	CLI_NOT_FOUND = 127,
};

/* The commands. @argv[0] is the command's name. Each returns an enum cli_exit,
 * or the exit status of the program that it runs, as a shell does. */
int bench_main(int argc, char **argv);
int check_main(int argc, char **argv);
int demo_main(int argc, char **argv);
int drill_main(int argc, char **argv);
int info_main(int argc, char **argv);
int launch_main(int argc, char **argv);
int run_main(int argc, char **argv);
int top_main(int argc, char **argv);
int trace_main(int argc, char **argv);
int watch_main(int argc, char **argv);

/* Signal that makes a thread record its stack, for verdicts */
#define CLI_STACK_SIGNAL (SIGRTMIN + 7)

static inline double cli_ms_between(uint64_t from_ns, uint64_t to_ns)
{
	return ((double)to_ns - (double)from_ns) * 1e-6;
}

/* Sleep until clock_now() reaches @time_ns. */
void cli_sleep_until(uint64_t time_ns);

/* Sort @n values, at least one, and return their quantile @place, from 0 to 1,
 * with linear interpolation. */
double cli_quantile(double *values, size_t n, double place);

bool cli_starts_with(const char *text, const char *start);

/* Return whether @text ends with @end and is longer. */
bool cli_ends_with(const char *text, const char *end);

/* Replace with '?' all control characters in @text, which a terminal would
 * obey, and all bytes that are not valid UTF-8. */
void cli_sanitize(char *text);

/* Name of the command in error messages, or NULL. Constant after cli_options()
 * of the command. */
extern const char *cli_command;

/* Print an error message, without control characters. */
void cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Print an error message, and return the exit status of a failure or of wrong
 * usage. */
#define cli_fail(...) (cli_error(__VA_ARGS__), CLI_FAILED)

/* Print that @program cannot be run because of @error, an errno. Return the
 * exit status that a shell would return. */
int cli_cannot_run(const char *program, int error);

/* Return the exit status that a shell would return for a process with @status,
 * as from waitpid(): 128 plus the signal if a signal ended it. */
int cli_exit_status(int status);
#define cli_misuse(...) (cli_error(__VA_ARGS__), CLI_USAGE)

/* Return @memory. If it is NULL, report that there is no memory and end the
 * program. */
void *cli_need(void *memory);

/* Set an environment variable. If @replaces is false, do not change a variable
 * that is set. Return CLI_OK, or CLI_FAILED after printing an error. */
int cli_setenv(const char *variable, const char *value, bool replaces);

/* Set the number of the host platform's devices to at least @ranks, unless the
 * environment sets it. Call this before the platform is used. Return CLI_OK, or
 * CLI_FAILED after printing an error. */
int cli_need_devices(int ranks);

/* Map a regular file for reading until the process ends. Return NULL if that
 * fails or the file is empty. */
const char *cli_map_file(const char *path, size_t *size_out);

bool cli_has_text(const char *image, size_t size, const char *text);

/* Write @text in quotes, as one word for a shell. */
void cli_put_quoted(FILE *out, const char *text);

/* Return the number of columns to use on the terminal @fd, or 79 if @fd is not
 * a terminal. The last column is not used, because some terminals wrap when it
 * is written. */
int cli_columns(int fd);

/* Print the words of @text, wrapped to the terminal's width. The first line
 * continues a line of which @indent columns are printed. The other lines are
 * indented by @indent. */
void cli_print_wrapped(int indent, const char *text);

/* Print a verdict's text (cohort_verdict.text), indented by @column columns and
 * wrapped to the terminal's width. */
void cli_print_block(FILE *out, int column, const char *text);

/* Parse @text as a decimal number from @min to @max. Return CLI_OK, or
 * CLI_USAGE after printing an error that names @option and @text. */
int cli_number(const char *option, const char *text, uint64_t min, uint64_t max,
               uint64_t *value_out);

/* Return "gpu", "host", or "?" for any other value. */
const char *cli_platform_name(int platform);

/* Return "together", "ahead", or NULL for any other value. */
const char *cli_launch_name(int launch);

/*
 * Find the folder @name of libraries that the command loads into programs. The
 * folder contains @file, and is in the build tree or installed. Store the
 * folder of the command in @own, and the folder of libraries in @out. Return
 * CLI_OK, or CLI_FAILED after printing an error of @command.
 */
int cli_find_libraries(const char *name, const char *file, char own[PATH_MAX],
                       char out[PATH_MAX]);

#endif
