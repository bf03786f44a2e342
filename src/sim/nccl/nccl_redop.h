/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NCCL_NCCL_REDOP_H
#define SIM_NCCL_NCCL_REDOP_H

/*
 * Reduction operations that a program makes: ncclRedOpCreatePreMulSum()
 *
 * A handle holds a number of the communicator above the operation's own number,
 * so that it stands for nothing on another communicator.
 */

#include "sim/exec/rank_call.h"

struct redop {
	bool live;
	int type;
	struct scalar scalar;
};

/* The operations of one communicator; owned by the thread that uses it. */
struct redops {
	int mark; /* of its handles; 0 before the first */
	int count;
	size_t room;
	struct redop *list;
};

/* The operation of a handle, or NULL. */
const struct redop *redop_find(const struct redops *redops, int handle);

#endif
