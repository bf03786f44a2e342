/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

/*
 * The commands that have no header of their own; bench/, demo/, drill/, launch/, top/
 * and trace/ declare theirs
 */

/* @argv[0] is the command's name.  Returns the exit status: an enum cli_exit, or for
 * run_main() what a shell returns for a program that cannot be executed. */
int check_main(int argc, char **argv);
int info_main(int argc, char **argv);
int run_main(int argc, char **argv);

#endif
