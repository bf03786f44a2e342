/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CALL_H
#define CORE_CALL_H

/*
 * The native calls that an operation comes to
 */

#include "core/clique.h"
#include "core/native.h"
#include "core/op.h"

/* Make the native calls of @op, which is not a copy, for @c, one for each
 * tensor, mostly; up to the first that fails.  With the lock held, and inside a
 * native group if there are several. */
void call_op(const struct cohort_comm *c, const struct op *op,
             struct native_result *r);

/*
 * Make the native calls of ops[r] for each of the @n ranks at @comms, in one
 * native group if there are several calls or ranks; up to the first that fails.
 * A group that was begun is ended, whatever fails.  With the locks held.
 */
void call_all(const struct cohort_comm *comms, int n, const struct op *ops,
              struct native_result *r);

#endif
