/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

/*
 * What the parts of the command share: the commands, the exit codes, and how
 * complaints look.  A complaint is one line on stderr that starts with
 * "cohort" and the command's name.
 */

#include <signal.h>
#include <stdint.h>

enum cli_exit {
	CLI_OK = 0,
	CLI_FAILED = 1,
	CLI_USAGE = 2,
};

/* The commands.  @argv[0] is the command's name; an enum cli_exit is
 * returned, and by run_main() what a shell returns for a program that cannot be
 * run. */
int info_main(int argc, char **argv);
int demo_main(int argc, char **argv);
int bench_main(int argc, char **argv);
int drill_main(int argc, char **argv);
int run_main(int argc, char **argv);
int trace_main(int argc, char **argv);

/* That the command's threads are asked by where they are, for verdicts. */
#define CLI_STACK_SIGNAL (SIGRTMIN + 7)

/* Complain.  @command may be NULL. */
void cli_complain(const char *command, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Where the values of options without a short form start. */
enum { CLI_LONG_OPTION = 256 };

/*
 * Complain about the option at which getopt_long() answered @answer, '?' or
 * ':', with opterr 0 and a leading ':' in the short options.
 */
void cli_bad_option(const char *command, char **argv, int answer);

/* Complain if there are operands left after the options.  CLI_OK if not. */
int cli_no_operands(const char *command, int argc, char **argv);

/*
 * Read a decimal number from @min to @max into @value_out.  CLI_OK, or
 * CLI_USAGE after a complaint that names the @option and its @text.
 */
int cli_number(const char *command, const char *option, const char *text,
               uint64_t min, uint64_t max, uint64_t *value_out);

/* "gpu" or "host"; of anything else "?". */
const char *cli_platform_name(int platform);

/* The other way round, what --platform says: CLI_OK, or CLI_USAGE after a complaint
 * that names @text. */
int cli_platform(const char *command, const char *text, int *platform_out);

/* "together" or "ahead"; of anything else NULL. */
const char *cli_launch_name(int launch);

/* The other way round, what --launch says: as cli_platform(). */
int cli_launch(const char *command, const char *text, int *launch_out);

#endif
