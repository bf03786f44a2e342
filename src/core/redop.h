/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_REDOP_H
#define CORE_REDOP_H

/*
 * Reductions that a communicator has in addition to the built-in ones
 *
 * Each reduction has two numbers: one for the program, which is never reused,
 * and NCCL's, which is reused.  Call all functions with the lock held.
 */

#include <stdbool.h>

#include "core/op.h"
#include "platform/platform.h"

struct cohort_comm;

/* Maximum number of reductions in a communicator that are not built in. */
#define MAX_REDOPS 64

struct redop {
	int number; /* number for the program; 0 if the entry is free */
	int type;   /* enum cohort_type of its elements */
	ncclRedOp_t native;
};

/* Create a premultiplied sum with ncclRedOpCreatePreMulSum(), and store the
 * program's number for it in *@out. */
int redop_create(struct cohort_comm *c, const void *scalar, int type,
                 int residence, int *out);

/* Destroy a reduction.  In a communicator that has ended, only free its number.
 * Return COHORT_INVALID if no reduction has this number. */
int redop_destroy(struct cohort_comm *c, int number, bool has_ended);

/* Return COHORT_OK if all reductions of @op are built in, or exist in @c and
 * are for the right type; else COHORT_INVALID. */
int redop_check(const struct cohort_comm *c, const struct op *op);

/* Return NCCL's number of a reduction that is not built in and was checked by
 * redop_check(). */
ncclRedOp_t redop_native(const struct cohort_comm *c, int number);

#endif
