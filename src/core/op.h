/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_OP_H
#define CORE_OP_H

/*
 * The descriptor of an operation: what every call that queues work fills in, on
 * its stack, and hands to submit()
 */

#include <stdbool.h>

#include <cohort/cohort.h>

#include "base/type.h"

struct split_call;
struct staged;

enum op_kind {
	OP_ALL_REDUCE,
	OP_BROADCAST,
	OP_REDUCE,
	OP_ALL_GATHER,
	OP_REDUCE_SCATTER,
	OP_GATHER,
	OP_SCATTER,
	OP_ALL_TO_ALL,
	OP_BARRIER,
	OP_SPLIT, /* up to here all ranks make the same call */
	OP_SEND,
	OP_RECV,
	OP_COPY,  /* a tensor of bytes; peers are not involved */
	OP_BATCH, /* several calls as one operation */
};

struct op {
	enum op_kind kind;
	/* An enum cohort_op, or a number from cohort_premul_sum_create(); 0 if the
	 * kind has none. */
	int redop;
	int root; /* for a send or recv the peer; 0 if the kind has none */
	const struct cohort_tensor *tensors;
	size_t n; /* tensors; in a batch: calls */
	void *stream;
	/* Of a batch, which has no batch in it; else unused. */
	const struct op *calls;
	const struct split_call *split; /* of a split; else unused */
	/* Tensors are plain host memory.  That is another call to the other
	 * ranks, and in messages. */
	bool from_host;
	bool is_of_all; /* one thread calls for all ranks: the stream is one
	                          of the caller's streams[] */
	/* How host memory gets to the device, unless the device can use it:
	 * staging.h. */
	struct staged *staged;
	/* What the call is for, beside the caller's tag; NULL: not known. */
	const char *label;
};

/* True if calls of this kind have no tensors of the caller's. */
static inline bool op_has_no_tensors(enum op_kind kind)
{
	return kind == OP_BARRIER || kind == OP_SPLIT;
}

/* The one number of all premultiplied sums in digests and records: their
 * scalars may differ between ranks. */
#define REDOP_PREMUL_SUM (COHORT_AVG + 1)

/* The program's number for the first premultiplied sum: far above the built-in
 * ones, and above those that NCCL may add. */
#define REDOP_FIRST_NUMBER 4096

/* The enum cohort_op that @redop is, or REDOP_PREMUL_SUM. */
static inline int redop_kind(int redop)
{
	return redop < REDOP_PREMUL_SUM ? redop : REDOP_PREMUL_SUM;
}

/* The calls in @op if it is a batch, else @op itself. */
static inline const struct op *op_calls(const struct op *op, size_t *n)
{
	*n = op->kind == OP_BATCH ? op->n : 1;
	return op->kind == OP_BATCH ? op->calls : op;
}

/* True if nothing in @op depends on the communicator. */
static inline bool op_is_plain(const struct op *op)
{
	return op->kind < OP_SEND && op->redop < REDOP_PREMUL_SUM;
}

/* The name for people: "all_reduce"; with host memory: "all_reduce_host". */
const char *op_name(enum op_kind kind);
const char *op_full_name(enum op_kind kind, bool from_host);

/* The full name of @op. */
static inline const char *op_name_of(const struct op *op)
{
	return op_full_name(op->kind, op->from_host);
}

/* The native function that a call comes to: "ncclAllReduce". */
const char *op_native_name(enum op_kind kind);

/* Names for people: "float32", "sum". */
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

/* True for sends and receives, whose root is a peer. */
bool op_has_peer(enum op_kind kind);

/* True if NCCL makes calls of this kind of messages between the ranks. */
static inline bool op_is_of_messages(enum op_kind kind)
{
	return kind >= OP_GATHER && kind <= OP_ALL_TO_ALL;
}

/* True if there is a call in @batch that all ranks must make. */
bool op_has_collectives(const struct op *batch);

/* True if all ranks must make the same call; for a batch, if that is true of
 * any call in it. */
static inline bool op_is_collective(const struct op *op)
{
	return op->kind == OP_BATCH ? op_has_collectives(op)
	                            : op->kind <= OP_SPLIT;
}

/* True if any other rank waits for this one to do it. */
static inline bool op_is_awaited(const struct op *op)
{
	/* Other ranks wait for every call that a batch may have in it. */
	return op->kind == OP_BATCH ? op->n > 0 : op->kind != OP_COPY;
}

/* How many blocks of count elements rank @rank of @size sends from, and
 * receives into, the buffers of a call; 0: the buffer is not looked at. */
void op_blocks(const struct op *call, int rank, int size, size_t *send,
               size_t *recv);

/* What the caller of @op calls its buffer @what, "send" or "recv". */
const char *op_buffer_name(const struct op *op, const char *what);

/* True if a call's buffers hold a block of each rank, on any rank. */
bool op_has_blocks(enum op_kind kind);

/* Bytes of all tensors together. */
size_t op_bytes_of_all(const struct op *op);
static inline size_t op_bytes(const struct op *op)
{
	return op->n == 1 && op->kind != OP_BATCH
	               ? op->tensors->count * type_size(op->tensors->type)
	               : op_bytes_of_all(op);
}

/* False if a reduction's one tensor is not aligned to its elements: a kernel
 * that reads them loses its device. */
bool op_is_aligned(const struct op *op);

/* Whether @op can be carried out as rank @rank of @size.  Pure; COHORT_INVALID
 * names the argument and its value.  Premultiplied sums are only known to the
 * communicator: see redop.h. */
int op_check(const struct op *op, int rank, int size);

/* op_check() for one call of a batch.  op_check() of the batch checks only how
 * its calls go together. */
int op_check_call(const struct op *call, int rank, int size);

#endif
