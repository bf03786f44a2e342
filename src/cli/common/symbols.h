/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_COMMON_SYMBOLS_H
#define CLI_COMMON_SYMBOLS_H

/*
 * Files and lines of functions in stacks, if the command was built with
 * elfutils' libdw and there is debug information
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

/* Find them for verdicts from now on; to be called before a group is opened. */
void symbols_use(void);

/* Add the function at an address of the file @path, with its line if that is
 * known: false if nothing is known.  One thread at a time. */
bool symbols_find(const char *path, uint64_t address, struct text *t);

#endif
