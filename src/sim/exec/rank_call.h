/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_RANK_CALL_H
#define SIM_EXEC_RANK_CALL_H

/* Calls: the request of one rank for one collective, send or receive */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cohort/sim.h>

#include "platform/nccl_abi.h"

#define CACHE_LINE 64

/* Maximum number of ranks in a world (world.h). */
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

/* Factor by which inputs are multiplied before a sum, in the call's data type.
 * The factor is in *at, which is read when the operation runs, or in @value if
 * @at is NULL. */
struct scalar {
	const void *at;
	unsigned char value[8];
};

/* Operation that multiplies inputs by a factor before it sums them. */
#define CALL_PRE_MUL_SUM ncclNumOps

/* One collective, send or receive of one rank. */
struct call {
	enum call_kind kind;
	const void *send;
	void *recv;
	size_t count;
	int type; /* an ncclDataType_t */
	int op;   /* an ncclRedOp_t, or 0 if the call has none */
	int root; /* root or peer; 0 if the call has none */
	struct scalar scalar;

	/* Offset of a collective in the bytes of its launch (piece.h). */
	size_t begin;
	/* True if the root's own block is not processed, because it is already
	 * in place.  Set by round_cut() in a round of one call. */
	bool skips;

	/* For a call in a list: its position in a run.  Adjacent calls form a
	 * run if their elements are adjacent in memory and are reduced in the
	 * same way.  A run can be reduced as one call. */
	size_t back; /* number of calls back to the first of the run */
	/* in the first call of a run: number of calls in the run */
	size_t run;
};

/* Return true if this kind of call combines elements of several ranks. */
bool call_reduces(enum call_kind kind);

/* Return the name of the NCCL function that makes this kind of call. */
const char *call_function(enum call_kind kind);

/* Return the number of blocks that @rank, one of @n ranks, sends.  Each block
 * has @call->count elements. */
size_t call_sends(const struct call *call, int rank, int n);

/* Return the number of blocks that @rank, one of @n ranks, receives.  Each
 * block has @call->count elements. */
size_t call_receives(const struct call *call, int rank, int n);

/* Return the number of bytes that one block of @call takes up in a round
 * (piece.h). */
size_t call_stride(const struct call *call);

/* Return the number of bytes that @call takes up in a round, with @ranks
 * ranks. */
size_t call_bytes(int ranks, const struct call *call);

#define CALL_WORDS 96

/* Describe a call, as in "ncclReduce(count 5, float32, sum, root 1)".  Returns
 * @text. */
const char *call_words(const struct call *call, char text[CALL_WORDS]);

/* Return a word that describes @call without its buffers.  The word contains
 * the call or, if it does not fit, a hash of it.  Hashes are assumed not to
 * collide. */
uint64_t call_what(const struct call *call);

/* Return the word for a list of calls, given the word @before for all calls
 * except the last, and the word @what for the last call. */
uint64_t call_what_add(uint64_t before, uint64_t what);

static inline bool call_what_is_list(uint64_t what)
{
	return what >> 62 == 3;
}

/* Unpack the call in @what, which must not be a hash.  Its buffers are NULL. */
struct call call_of_what(uint64_t what);

/* Return true if two calls are the same collective.  Their buffers might
 * differ. */
static inline bool call_is_same(const struct call *a, const struct call *b)
{
	return a->kind == b->kind && a->count == b->count &&
	       a->type == b->type && a->op == b->op && a->root == b->root;
}

#endif
