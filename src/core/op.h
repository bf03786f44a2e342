/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_OP_H
#define CORE_OP_H

/*
 * The descriptor of an operation: what every call that queues work fills in, on
 * its stack, and hands to submit()
 */

#include <stdbool.h>

#include <cohort/cohort.h>

enum op_kind {
	OP_ALL_REDUCE,
	OP_BROADCAST,
	OP_REDUCE,
	OP_ALL_GATHER,
	OP_REDUCE_SCATTER,
	OP_BARRIER,
	OP_COPY, /* a tensor of bytes; peers are not involved */
};

struct op {
	enum op_kind kind;
	int redop; /* enum cohort_op; 0 where there is none */
	int root;  /* 0 where there is none */
	const struct cohort_tensor *tensors;
	size_t n; /* of them */
	void *stream;
};

/* The name for people: "all_reduce". */
const char *op_name(enum op_kind kind);

/* The native function that does it: "ncclAllReduce". */
const char *op_native_name(enum op_kind kind);

/* Names for people: "float32", "sum"; "?" for no such thing. */
const char *type_name(int type);
const char *redop_name(int redop);

bool op_has_redop(enum op_kind kind);
bool op_has_root(enum op_kind kind);

/* True if other ranks must make the same call. */
bool op_is_collective(enum op_kind kind);

/* Bytes of the tensors' @count elements, all together. */
size_t op_bytes(const struct op *op);

/* Whether @op can be carried out as rank @rank of @size.  Pure; COHORT_INVALID
 * names the argument and its value. */
int op_check(const struct op *op, int rank, int size);

#endif
