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
 * fails: its result, and its name in *@what.  Inside the gate, and inside a native
 * group if it takes several. */
ncclResult_t call_make(const struct cohort_comm *c, const struct op *op,
                       const char **what);

#endif
