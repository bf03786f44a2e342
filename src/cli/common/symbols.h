/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMMON_SYMBOLS_H
#define CLI_COMMON_SYMBOLS_H

/* Finds source files and lines for the functions in stacks, if the command was
 * built with elfutils' libdw and debug information exists */

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

/* From now on, add files and lines to the stacks in verdicts. Call this before
 * a group is opened. */
void symbols_use(void);

/*
 * Add the stack of a thread of another process, starting with the innermost
 * function outside the C library: "f (a.c:12) < g+0x2a < main+0x51". This stops
 * the thread briefly, as a debugger does.  Return false if the thread cannot be
 * stopped or no function is known.
 */
bool symbols_add_stack(struct text *t, int64_t pid, int tid);

/* Add the function at an address in the file @path, with its source line if
 * known. Return false if the function is not known. Only one thread at a time
 * may call this function. */
bool symbols_find(const char *path, uint64_t address, struct text *t);

#endif
