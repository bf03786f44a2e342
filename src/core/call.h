/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CALL_H
#define CORE_CALL_H

/* Makes the native calls of an operation */

#include "core/clique.h"
#include "core/native.h"
#include "core/op.h"

ncclResult_t call_native(const struct platform *p, ncclComm_t comm,
                         const struct op *op, ncclRedOp_t redop,
                         const struct cohort_tensor *t);

/* Make the native calls of @op for @c, usually one for each tensor; stop at the
 * first failure.  @op must not be a copy operation.  Call it with the lock
 * held, and inside a native group if it makes several calls. */
void call_op(const struct cohort_comm *c, const struct op *op,
             struct native_result *r);

/*
 * Make the native calls of ops[r] for each of the @n ranks at @comms; stop at
 * the first failure.  Opens a native group if there are several calls or ranks,
 * and always ends a group that it has opened.  Call it with the locks held.
 */
void call_all(const struct cohort_comm *comms, int n, const struct op *ops,
              struct native_result *r);

#endif
