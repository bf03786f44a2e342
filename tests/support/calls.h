/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CALLS_H
#define CALLS_H

/*
 * All NCCL calls that move data, for tests that make each of them
 */

#include "support/native.h"

enum call_name {
	NAME_ALL_REDUCE,
	NAME_BROADCAST,
	NAME_BCAST,
	NAME_REDUCE,
	NAME_ALL_GATHER,
	NAME_REDUCE_SCATTER,
	NAME_ALL_TO_ALL,
	NAME_GATHER,
	NAME_SCATTER,
	NAME_SEND,
	NAME_RECV,
	NAMES,
};

/* The arguments of a call; it ignores those that it has no use for. */
struct call_args {
	const void *send;
	void *recv; /* of ncclBcast(), the only buffer */
	size_t count;
	int type, op, root;
};

ncclResult_t call_by_name(const struct platform *p, enum call_name name,
                          const struct call_args *args, ncclComm_t comm,
                          cudaStream_t stream);

const char *call_text(enum call_name name);
bool call_has_op(enum call_name name);
bool call_has_root(enum call_name name); /* or a peer */
bool call_is_message(enum call_name name);

/*
 * The call that the other ranks make: a receive for a send, else this very
 * call.
 */
enum call_name call_opposite(enum call_name name);

#endif
