/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_NCCL_REDOP_H
#define SIM_NCCL_NCCL_REDOP_H

/*
 * Reduction operations that a program creates (ncclRedOpCreatePreMulSum())
 *
 * A handle contains its communicator's number, so it is invalid on any other
 * communicator.
 */

#include "sim/exec/rank_call.h"

struct redop {
	bool live;
	int type;
	struct scalar scalar;
};

/* The reduction operations of one communicator.  Owned by the thread that uses
 * the communicator. */
struct redops {
	/* Number that identifies the communicator in handles, or 0 before the
	 * first operation is created. */
	int mark;
	int count;
	size_t room;
	struct redop *list;
};

/* Return the operation with @handle, or NULL if there is none. */
const struct redop *redop_find(const struct redops *redops, int handle);

#endif
