/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DOOMED_H
#define DOOMED_H

/*
 * Programs in strict mode that break a rule, or are near to it: each is a forked
 * child, which has the platform to itself
 */

#include "support/native.h"

/* @clique: of three ranks. */
typedef void (*doomed_fn)(struct native_clique *clique);

/* @act must end its process with one line: the function that was called, the
 * communicator, and what is wrong. */
void doomed_expect(doomed_fn act, const char *line);

/* @act must come back, with nothing said. */
void doomed_expect_legal(doomed_fn act);

#endif
