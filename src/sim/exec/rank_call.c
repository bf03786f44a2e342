/* SPDX-License-Identifier: Apache-2.0 */

/* Properties of each kind of call: its name, its blocks, its bytes */

#include "sim/exec/rank_call.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/type.h"

/* Special number of blocks: one block per rank. */
#define EACH (-1)

static const struct {
	const char *function;
	int sends, receives; /* number of blocks */
	bool only_root_sends, only_root_receives;
	/* word for the root or peer in messages (such as "root" or "to"), or
	 * NULL */
	const char *root;
	bool reduces;
} kinds[] = {
	[CALL_ALL_REDUCE] = { "ncclAllReduce", 1, 1, .reduces = true },
	[CALL_BROADCAST] = { "ncclBroadcast", 1, 1, .only_root_sends = true,
	                     .root = "root" },
	[CALL_REDUCE] = { "ncclReduce", 1, 1, .only_root_receives = true,
	                  .root = "root", .reduces = true },
	[CALL_ALL_GATHER] = { "ncclAllGather", 1, .receives = EACH },
	[CALL_REDUCE_SCATTER] = { "ncclReduceScatter", EACH, 1,
	                          .reduces = true },
	[CALL_ALL_TO_ALL] = { "ncclAlltoAll", EACH, .receives = EACH },
	[CALL_GATHER] = { "ncclGather", 1, EACH, .only_root_receives = true,
	                  .root = "root" },
	[CALL_SCATTER] = { "ncclScatter", EACH, 1, .only_root_sends = true,
	                   .root = "root" },
	[CALL_SEND] = { "ncclSend", 1, 0, .root = "to" },
	[CALL_RECV] = { "ncclRecv", 0, 1, .root = "from" },
};

/* ---- the blocks and bytes of a call ----------------------------------- */

size_t call_sends(const struct call *c, int rank, int n)
{
	if (kinds[c->kind].only_root_sends && rank != c->root)
		return 0;
	return (size_t)(kinds[c->kind].sends == EACH ? n
	                                             : kinds[c->kind].sends);
}

size_t call_receives(const struct call *c, int rank, int n)
{
	if (kinds[c->kind].only_root_receives && rank != c->root)
		return 0;
	return (size_t)(kinds[c->kind].receives == EACH
	                        ? n
	                        : kinds[c->kind].receives);
}

/* Return the number of blocks, of @c->count elements each, that a call
 * processes. */
static size_t call_blocks(int ranks, const struct call *c)
{
	const size_t n = (size_t)ranks;

	return (kinds[c->kind].sends == EACH ? n : 1) *
	               (kinds[c->kind].receives == EACH ? n : 1) -
	       c->skips;
}

size_t call_stride(const struct call *c)
{
	const size_t bytes = c->count * type_size(c->type);

	return (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

size_t call_bytes(int ranks, const struct call *c)
{
	return call_blocks(ranks, c) * call_stride(c);
}

/* ---- a call as one word ----------------------------------------------- */

/* Shift of the count in the word that describes a call.  Below it are 3 bits
 * for the operation, 4 for the type, 4 for the kind, and 10 for the root. */
#define WHAT_COUNT 21

/* The two highest bits of a word that describes calls.  They are 11 in a hash
 * of several calls, and 10 in a hash of one call.  A word that contains the
 * call itself has 0 as its highest bit. */
#define WHAT_HASH (UINT64_C(2) << 62)
#define WHAT_LIST (UINT64_C(3) << 62)

uint64_t call_what(const struct call *c)
{
	const uint64_t rest = (uint64_t)c->root << 11 | (uint64_t)c->kind << 7 |
	                      (uint64_t)c->type << 3 | (uint64_t)c->op;

	if (c->count >> (63 - WHAT_COUNT))
		return (hash_step(rest, c->count) & ~WHAT_LIST) | WHAT_HASH;
	return (uint64_t)c->count << WHAT_COUNT | rest;
}

uint64_t call_what_add(uint64_t before, uint64_t what)
{
	return hash_step(before, what) | WHAT_LIST;
}

struct call call_of_what(uint64_t what)
{
	return (struct call){
		.kind = (enum call_kind)(what >> 7 & 15),
		.count = what >> WHAT_COUNT,
		.type = (int)(what >> 3 & 15),
		.op = (int)(what & 7),
		.root = (int)(what >> 11 & 1023),
	};
}

_Static_assert(ncclNumTypes <= 16 && CALL_PRE_MUL_SUM < 8 && CALL_RECV < 16 &&
                       HOST_MAX_RANKS <= 1024,
               "all fits into its bits");

/* ---- a call as text --------------------------------------------------- */

const char *call_function(enum call_kind kind)
{
	return kinds[kind].function;
}

bool call_reduces(enum call_kind kind)
{
	return kinds[kind].reduces;
}

static const char *type_name(int type)
{
	static const char *const names[ncclNumTypes] = {
		[ncclInt8] = "int8",         [ncclUint8] = "uint8",
		[ncclInt32] = "int32",       [ncclUint32] = "uint32",
		[ncclInt64] = "int64",       [ncclUint64] = "uint64",
		[ncclFloat16] = "float16",   [ncclFloat32] = "float32",
		[ncclFloat64] = "float64",   [ncclBfloat16] = "bfloat16",
		[ncclFloat8e4m3] = "f8e4m3", [ncclFloat8e5m2] = "f8e5m2",
	};

	return names[type];
}

static const char *op_name(int op)
{
	static const char *const names[] = {
		[ncclSum] = "sum", [ncclProd] = "prod",
		[ncclMax] = "max", [ncclMin] = "min",
		[ncclAvg] = "avg", [CALL_PRE_MUL_SUM] = "pre-multiplied sum",
	};

	return names[op];
}

const char *call_words(const struct call *c, char text[CALL_WORDS])
{
	const char *root = kinds[c->kind].root;
	int n = snprintf(text, CALL_WORDS, "%s(count %zu, %s%s%s",
	                 call_function(c->kind), c->count, type_name(c->type),
	                 call_reduces(c->kind) ? ", " : "",
	                 call_reduces(c->kind) ? op_name(c->op) : "");

	if (root)
		snprintf(text + n, CALL_WORDS - (size_t)n, ", %s %d)", root,
		         c->root);
	else
		snprintf(text + n, CALL_WORDS - (size_t)n, ")");
	return text;
}
