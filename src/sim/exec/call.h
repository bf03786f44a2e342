/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_CALL_H
#define SIM_EXEC_CALL_H

/*
 * Calls: what one rank asks for with one collective, send or receive
 */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cohort/sim.h>

#include "platform/nccl_abi.h"

#define CACHE_LINE 64

/* More ranks than this have no host communicator. */
#define HOST_MAX_RANKS COHORT_SIM_MAX_DEVICES

enum call_kind {
	CALL_ALL_REDUCE,
	CALL_BROADCAST,
	CALL_REDUCE,
	CALL_ALL_GATHER,
	CALL_REDUCE_SCATTER,
	CALL_ALL_TO_ALL,
	CALL_GATHER,
	CALL_SCATTER,
	CALL_SEND,
	CALL_RECV,
};

/* The number that inputs are multiplied by before a sum: where the operation
 * finds it when it runs, or else itself, in the data type. */
struct scalar {
	const void *at;
	unsigned char value[8];
};

/* The operation of a call that multiplies before it sums. */
#define CALL_PRE_MUL_SUM ncclNumOps

/* One call of one rank. */
struct call {
	enum call_kind kind;
	const void *send;
	void *recv;
	size_t count;
	int type; /* ncclDataType_t */
	int op;   /* ncclRedOp_t; 0 where there is none */
	int root; /* or peer; 0 where there is none */
	struct scalar scalar;

	/* Of a collective: where it begins in the bytes of its launch (piece.h).
	 * Written by who cuts a round of one call: what is not in them. */
	size_t begin;
	bool skips; /* the root's own block, which is where it belongs */

	/* Of a list: calls whose elements lie side by side in memory and are
	 * reduced alike are a run, which can be reduced as one. */
	size_t back; /* calls back to the first of the run */
	size_t run;  /* calls of it, of the first one */
};

/* The function of NCCL that it is. */
const char *call_function(enum call_kind kind);

/* The bytes that a block of a call takes in a round, and that the call takes of @ranks
 * ranks (piece.h). */
size_t call_stride(const struct call *call);
size_t call_bytes(int ranks, const struct call *call);

#define CALL_WORDS 96

/* As in "ncclReduce(count 5, float32, sum, root 1)"; returns @text. */
const char *call_words(const struct call *call, char text[CALL_WORDS]);

/* What one rank brings to a round: of a single collective all there is.  Of a list
 * what the other ranks read, without what they do not need. */
struct place {
	const void *send;
	void *recv;
	uint64_t what; /* MANY_CALLS: the call says it, or there are several */
};

#define MANY_CALLS UINT64_MAX

/* What a place says of @call, MANY_CALLS if it cannot. */
uint64_t call_what(const struct call *call);

/* The call of which a place says @what, but for its buffers. */
struct call call_of_what(uint64_t what);

/* True if two ranks' collectives are one. */
static inline bool call_is_same(const struct call *a, const struct call *b)
{
	return a->kind == b->kind && a->count == b->count &&
	       a->type == b->type && a->op == b->op && a->root == b->root;
}

#endif
