/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMMON_SYMBOLS_H
#define CLI_COMMON_SYMBOLS_H

/*
 * Names of functions in the stacks of verdicts: with file and line if the command was
 * built with elfutils' libdw and has debug information
 */

/* Find such names from now on; to be called before a group is opened. */
void symbols_use(void);

#endif
