/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CALLS_H
#define CALLS_H

/*
 * The NCCL calls that move data, for tests that make every one of them
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

/* Arguments of a call.  Each call uses only some of them. */
struct call_args {
	const void *send;
	void *recv; /* the only buffer of ncclBcast() */
	size_t count;
	int type, op, root;
};

/* Call the NCCL function @name. */
ncclResult_t call_by_name(const struct platform *p, enum call_name name,
                          const struct call_args *args, ncclComm_t comm,
                          cudaStream_t stream);

/* Return the name of the NCCL function. */
const char *call_text(enum call_name name);

/* Return true if the call takes a reduction operation. */
bool call_has_op(enum call_name name);

/* Return true if the call takes a root or, for a message, a peer. */
bool call_has_root(enum call_name name);

/* Return true for ncclSend() and ncclRecv(). */
bool call_is_message(enum call_name name);

/*
 * Return the call that other ranks must make to match @name: ncclRecv() for
 * ncclSend() and vice versa, otherwise @name itself.
 */
enum call_name call_opposite(enum call_name name);

#endif
