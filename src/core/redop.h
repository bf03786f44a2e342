/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_REDOP_H
#define CORE_REDOP_H

/*
 * Reductions that a communicator has beyond the built-in ones
 *
 * Each has a number for the program, which is never given out again, and a
 * number of NCCL's, which is.  Everything here is called with the lock held.
 */

#include <stdbool.h>

#include "core/op.h"
#include "platform/platform.h"

struct cohort_comm;

/* How many a communicator may have at a time. */
#define MAX_REDOPS 64

struct redop {
	int number; /* 0: free */
	int type;   /* enum cohort_type: what it multiplies */
	ncclRedOp_t native;
};

/* Call ncclRedOpCreatePreMulSum(), and store the program's number in *@out. */
int redop_create(struct cohort_comm *c, const void *scalar, int type,
                 int residence, int *out);

/* Destroy a reduction: COHORT_INVALID if there is none with that number.  In a
 * communicator that has ended it is only forgotten. */
int redop_destroy(struct cohort_comm *c, int number, bool has_ended);

/* Whether all reductions of @op are built in, or @c's and for the type. */
int redop_check(const struct cohort_comm *c, const struct op *op);

/* NCCL's number of one that was checked and is not built in. */
ncclRedOp_t redop_native(const struct cohort_comm *c, int number);

#endif
