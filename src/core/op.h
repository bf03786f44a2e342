/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_OP_H
#define CORE_OP_H

/* The descriptor of an operation, which every call that queues work fills in on
 * its stack and passes to submit() */

#include <stdbool.h>

#include <cohort/cohort.h>

#include "base/type.h"

struct split_call;
struct staged;

/* Kinds of operations.  The functions named below depend on this order. */
enum op_kind {
	/* Collectives that every version of NCCL has: op_is_basic(). */
	OP_ALL_REDUCE,
	OP_BROADCAST,
	OP_REDUCE,
	OP_ALL_GATHER,
	OP_REDUCE_SCATTER,
	/* Collectives that NCCL implements with messages:
	 * op_is_of_messages(). */
	OP_GATHER,
	OP_SCATTER,
	OP_ALL_TO_ALL,
	/* Operations without tensors of the caller: op_has_no_tensors(). */
	OP_BARRIER,
	OP_SPLIT,
	/* Operations that need not be called by all ranks: !op_is_common(). */
	OP_SEND,
	OP_RECV,
	OP_COPY,  /* copy of a tensor of bytes, which involves no peer */
	OP_BATCH, /* several calls as one operation */
};

struct op {
	enum op_kind kind;
	/* The reduction: an enum cohort_op, or a number from
	 * cohort_premul_sum_create().  0 if this kind of operation has no
	 * reduction. */
	int redop;
	/* The root, or the peer of a send or receive; 0 if this kind of
	 * operation has none. */
	int root;
	const struct cohort_tensor *tensors;
	size_t n; /* number of tensors, or of calls in a batch */
	void *stream;
	/* The calls of a batch.  None of them is a batch. */
	const struct op *calls;
	const struct split_call *split; /* arguments of a split */
	/* True if the tensors are plain host memory.  A call with host memory
	 * has another name in messages, and does not match a call with device
	 * memory. */
	bool from_host;
	/* True for a group-level call: one thread makes the calls of all ranks,
	 * and @stream is an element of its argument streams[]. */
	bool is_of_all;
	/* State of the copies between host memory and the device (staging.h),
	 * or NULL if the device can use the memory directly. */
	struct staged *staged;
	/* Purpose of the call, shown next to the caller's tag; or NULL. */
	const char *label;
};

static inline bool op_is_basic(enum op_kind kind)
{
	return kind <= OP_REDUCE_SCATTER;
}

static inline bool op_is_common(enum op_kind kind)
{
	return kind <= OP_SPLIT;
}

static inline bool op_has_no_tensors(enum op_kind kind)
{
	return kind == OP_BARRIER || kind == OP_SPLIT;
}

/* Number that stands for every premultiplied sum in digests and records,
 * because their scalars may differ between ranks. */
#define REDOP_PREMUL_SUM (COHORT_AVG + 1)

/* Number of a program's first premultiplied sum.  It is far above the built-in
 * reductions, and above any that NCCL may add. */
#define REDOP_FIRST_NUMBER 4096

/* Return the enum cohort_op of a built-in reduction, or REDOP_PREMUL_SUM for
 * any other reduction. */
static inline int redop_kind(int redop)
{
	return redop < REDOP_PREMUL_SUM ? redop : REDOP_PREMUL_SUM;
}

/* Return the calls in @op if it is a batch, else @op itself; set *@n to their
 * number. */
static inline const struct op *op_calls(const struct op *op, size_t *n)
{
	*n = op->kind == OP_BATCH ? op->n : 1;
	return op->kind == OP_BATCH ? op->calls : op;
}

/* Return true if @op is a collective without a premultiplied sum.  Such an
 * operation needs no further checks or resources of the communicator. */
static inline bool op_is_plain(const struct op *op)
{
	return op_is_common(op->kind) && op->redop < REDOP_PREMUL_SUM;
}

const char *op_name(enum op_kind kind);

/* Return the name of a kind for messages: "all_reduce", or "all_reduce_host"
 * with host memory. */
const char *op_full_name(enum op_kind kind, bool from_host);

/* Return the name of @op for messages.  The name shows whether @op has host
 * memory. */
static inline const char *op_name_of(const struct op *op)
{
	return op_full_name(op->kind, op->from_host);
}

/* Return the native function that makes calls of this kind: "ncclAllReduce". */
const char *op_native_name(enum op_kind kind);

static inline const char *type_name(int type)
{
	return cohort_type_name(type);
}

static inline const char *redop_name(int kind)
{
	return cohort_op_name(kind == REDOP_PREMUL_SUM ? REDOP_FIRST_NUMBER
	                                               : kind);
}

bool op_has_redop(enum op_kind kind);
bool op_has_root(enum op_kind kind);

/* Return true for sends and receives, whose root is a peer. */
bool op_has_peer(enum op_kind kind);

static inline bool op_is_of_messages(enum op_kind kind)
{
	return kind >= OP_GATHER && kind <= OP_ALL_TO_ALL;
}

/* Return true if all ranks must make the same call.  For a batch, return true
 * if it contains a call that all ranks must make. */
bool op_is_collective(const struct op *op);

/* Return true if another rank may wait for this one to make the call. */
static inline bool op_is_awaited(const struct op *op)
{
	/* Other ranks wait for any call that a batch may contain. */
	return op->kind == OP_BATCH ? op->n > 0 : op->kind != OP_COPY;
}

/* Compute the sizes of the buffers that rank @rank of @size sends from and
 * receives into, in blocks of count elements.  A size is 0 if the rank ignores
 * the buffer. */
void op_blocks(const struct op *call, int rank, int size, size_t *send,
               size_t *recv);

/* Return the caller's name for buffer @what ("send" or "recv") of @op. */
const char *op_buffer_name(const struct op *op, const char *what);

/* Return true if, in calls of this kind, a buffer of some rank holds one block
 * for each rank. */
bool op_has_blocks(enum op_kind kind);

size_t op_bytes(const struct op *op);

/* Return false if @op is a reduction whose single tensor is not aligned to its
 * elements.  A kernel that reads such a tensor faults, and the device is then
 * lost. */
bool op_is_aligned(const struct op *op);

/*
 * Check whether rank @rank of @size can make the call.  Reads nothing but its
 * arguments.  Premultiplied sums are checked by redop_check().
 *
 * Returns:
 *   COHORT_OK       the arguments are valid
 *   COHORT_INVALID  the error names the argument and its value
 */
int op_check(const struct op *op, int rank, int size);

/* Like op_check(), for one call of a batch.  For a batch, op_check() only
 * checks how its calls fit together. */
int op_check_call(const struct op *call, int rank, int size);

#endif
