/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_RANK_CALL_H
#define SIM_EXEC_RANK_CALL_H

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

/* The most ranks of a world. */
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

/* The number that inputs are multiplied by before a sum: where it will be when
 * the operation runs, or else (NULL) the number itself, in the data type. */
struct scalar {
	const void *at;
	unsigned char value[8];
};

/* The operation that multiplies before it sums. */
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

	/* For a collective: where it begins in the bytes of its launch
	 * (piece.h), */
	size_t begin;
	/* And that they lack the root's own block, which is where it belongs:
	 * written when a round of one call is cut. */
	bool skips;

	/* In a list: calls whose elements lie side by side in memory and are
	 * reduced alike are a run, which can be reduced as one call. */
	size_t back; /* calls back to the first of the run */
	size_t run;  /* in the first one: how many calls the run has */
};

/* True if it combines elements of several ranks. */
bool call_reduces(enum call_kind kind);

/* The name of the function that a program calls for it. */
const char *call_function(enum call_kind kind);

/* How many blocks of @count elements rank @rank of @n ranks sends, and
 * receives. */
size_t call_sends(const struct call *call, int rank, int n);
size_t call_receives(const struct call *call, int rank, int n);

/* The bytes that a block of a call takes in a round, and that the call takes of
 * @ranks ranks (piece.h). */
size_t call_stride(const struct call *call);
size_t call_bytes(int ranks, const struct call *call);

#define CALL_WORDS 96

/* As in "ncclReduce(count 5, float32, sum, root 1)"; returns @text. */
const char *call_words(const struct call *call, char text[CALL_WORDS]);

/* What one rank brings to a round: all of a single collective; of each call in
 * a list only what the other ranks read. */
struct place {
	const void *send;
	void *recv;
	/* The call without its buffers, in one word, or MANY_CALLS. */
	uint64_t what;
};

/* There are several calls, or one that does not fit in a word: look at the
 * calls. */
#define MANY_CALLS UINT64_MAX

/* What a place says of @call; MANY_CALLS if that does not fit in a word. */
uint64_t call_what(const struct call *call);

/* The call of which a place says @what, but for its buffers. */
struct call call_of_what(uint64_t what);

/* True if two ranks call the same collective. */
static inline bool call_is_same(const struct call *a, const struct call *b)
{
	return a->kind == b->kind && a->count == b->count &&
	       a->type == b->type && a->op == b->op && a->root == b->root;
}

#endif
