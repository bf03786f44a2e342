/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DOOMED_H
#define DOOMED_H

/*
 * Checks of programs that break a rule of strict mode, and of similar legal
 * programs
 *
 * Each program runs in a forked child, so that it is the only user of the
 * platform.
 */

#include "support/native.h"

/* The program to check. @clique has three ranks. */
typedef void (*doomed_fn)(struct native_clique *clique);

/*
 * Expect @act to abort its process after printing @line, which names the called
 * function, the communicator and the error.
 */
void doomed_expect(doomed_fn act, const char *line);

/* Expect @act to return without printing anything. */
void doomed_expect_legal(doomed_fn act);

#endif
