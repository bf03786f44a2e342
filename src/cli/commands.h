/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

/*
 * The commands
 *
 * @argv[0] is the name of the command.  Each returns an exit status: an enum
 * cli_exit or, from run and launch, what a shell returns for the program.
 */

int bench_main(int argc, char **argv);
int check_main(int argc, char **argv);
int demo_main(int argc, char **argv);
int drill_main(int argc, char **argv);
int info_main(int argc, char **argv);
int launch_main(int argc, char **argv);
int run_main(int argc, char **argv);
int top_main(int argc, char **argv);
int trace_main(int argc, char **argv);

#endif
