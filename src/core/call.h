/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CALL_H
#define CORE_CALL_H

/*
 * The native calls that an operation comes to
 */

#include "core/clique.h"

/* True if @op takes more than one native call, and so a group. */
bool call_is_several(const struct clique *clique, const struct op *op);

/* True if @tensor takes no call at all: a rank on its own has its elements where they
 * belong. */
bool call_is_nothing(const struct cohort_comm *c, const struct op *op,
                     const struct cohort_tensor *tensor);

/* Make the native calls of @op, which is no copy, for @c, up to the first that
 * fails.  Inside the gate, and inside a native group if it takes several. */
void call_make(const struct cohort_comm *c, const struct op *op,
               struct native_result *r);

/* @c's own launch, of the native calls of @op, which must stay until it was launched;
 * without words, and to be launched once.  Inside the gate. */
struct native_launch *call_launch(struct cohort_comm *c, const struct op *op);

#endif
