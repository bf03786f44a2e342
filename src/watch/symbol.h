/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WATCH_SYMBOL_H
#define WATCH_SYMBOL_H

/*
 * The names of addresses
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

/* "function", or "library+0x1234" where that is not known: from what the dynamic
 * linker has.  Takes the linker's lock. */
void symbol_add(struct text *t, uintptr_t address);

/* True if it is of the C library, of the linker or the kernel's page beside it, or of
 * this library where that is a shared one: not the program's. */
bool symbol_is_plumbing(uintptr_t address);

/* A way to more than that: "function (file.c:12)", false: it is not known; may take
 * memory and locks.  Set before any group is opened, else NULL. */
extern bool (*symbol_more)(struct text *t, uintptr_t address);

#endif
