/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DOOMED_H
#define DOOMED_H

/*
 * Programs that break a rule of strict mode, or nearly do: each runs in a
 * forked child, which has the platform to itself
 */

#include "support/native.h"

/* @clique has three ranks. */
typedef void (*doomed_fn)(struct native_clique *clique);

/*
 * @act must end its process with one line, which names the function that was
 * called, the communicator, and what is wrong.
 */
void doomed_expect(doomed_fn act, const char *line);

/* @act must return, and print nothing. */
void doomed_expect_legal(doomed_fn act);

#endif
