/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What an operation is, and whether its arguments can be right
 *
 * Everything that can be known to be wrong is refused here, before anything is
 * queued on any rank: NCCL checks less, and what it finds it may find after the
 * other ranks have started.
 */

#include "core/op.h"

#include "base/status.h"

/* What each kind takes. */
static const struct {
	const char *name;
	const char *native;
	bool collective;
	bool reduces;     /* has a reduction */
	bool rooted;      /* has a root */
	bool scales_send; /* @send has @count elements for every rank */
	bool scales_recv;
	bool root_sends; /* only the root's @send is looked at */
	bool root_recvs;
} kinds[] = {
	[OP_ALL_REDUCE] = { .name = "all_reduce",
	                    .native = "ncclAllReduce",
	                    .collective = true,
	                    .reduces = true },
	[OP_BROADCAST] = { .name = "broadcast",
	                   .native = "ncclBroadcast",
	                   .collective = true,
	                   .rooted = true,
	                   .root_sends = true },
	[OP_REDUCE] = { .name = "reduce",
	                .native = "ncclReduce",
	                .collective = true,
	                .reduces = true,
	                .rooted = true,
	                .root_recvs = true },
	[OP_ALL_GATHER] = { .name = "all_gather",
	                    .native = "ncclAllGather",
	                    .collective = true,
	                    .scales_recv = true },
	[OP_REDUCE_SCATTER] = { .name = "reduce_scatter",
	                        .native = "ncclReduceScatter",
	                        .collective = true,
	                        .reduces = true,
	                        .scales_send = true },
	[OP_BARRIER] = { .name = "barrier",
	                 .native = "ncclAllReduce",
	                 .collective = true },
	[OP_COPY] = { .name = "copy", .native = "cudaMemcpyAsync" },
};

const char *op_name(enum op_kind kind)
{
	return kinds[kind].name;
}

const char *op_native_name(enum op_kind kind)
{
	return kinds[kind].native;
}

bool op_is_collective(enum op_kind kind)
{
	return kinds[kind].collective;
}

bool op_has_redop(enum op_kind kind)
{
	return kinds[kind].reduces;
}

bool op_has_root(enum op_kind kind)
{
	return kinds[kind].rooted;
}

const char *type_name(int type)
{
	switch (type) {
#define TYPE_NAME(name, value, bytes, text)                                    \
	case value:                                                            \
		return text;
		COHORT_TYPE_LIST(TYPE_NAME)
#undef TYPE_NAME
	}
	return "?";
}

const char *redop_name(int redop)
{
	switch (redop) {
#define REDOP_NAME(name, value, text)                                          \
	case value:                                                            \
		return text;
		COHORT_OP_LIST(REDOP_NAME)
#undef REDOP_NAME
	}
	return "?";
}

size_t op_bytes(const struct op *op)
{
	size_t i, bytes = 0;

	for (i = 0; i < op->n; i++)
		bytes += op->tensors[i].count *
		         cohort_type_size(op->tensors[i].type);
	return bytes;
}

/* Refuse argument @what of tensor number @i; a call that takes a list says
 * which. */
#define TENSOR_ERROR(op, i, format, ...)                                       \
	((op)->n > 1 ? error_set(COHORT_INVALID, "%s: tensors[%zu]." format,   \
	                         op_name((op)->kind), i, __VA_ARGS__)          \
	             : error_set(COHORT_INVALID, "%s: " format,                \
	                         op_name((op)->kind), __VA_ARGS__))

static int tensor_check(const struct op *op, size_t i, int rank, int size)
{
	const struct cohort_tensor *t = &op->tensors[i];
	bool scales =
		kinds[op->kind].scales_send || kinds[op->kind].scales_recv;
	/* A barrier's buffers are the library's own. */
	bool given = t->count && op->kind != OP_BARRIER;
	bool sends = !kinds[op->kind].root_sends || rank == op->root;
	bool recvs = !kinds[op->kind].root_recvs || rank == op->root;
	size_t bytes = cohort_type_size(t->type);

	if (!bytes)
		return TENSOR_ERROR(
			op, i, "type is %d, not an enum cohort_type", t->type);
	if (t->count > PTRDIFF_MAX / bytes / (scales ? (size_t)size : 1))
		return TENSOR_ERROR(op, i,
		                    "count is %zu, too many elements of %zu "
		                    "bytes",
		                    t->count, bytes);
	if (given && sends && !t->send)
		return TENSOR_ERROR(op, i, "send is NULL with a count of %zu",
		                    t->count);
	if (given && recvs && !t->recv)
		return TENSOR_ERROR(op, i, "recv is NULL with a count of %zu",
		                    t->count);
	return COHORT_OK;
}

int op_check(const struct op *op, int rank, int size)
{
	size_t i;
	int rc;

	if (kinds[op->kind].reduces &&
	    (op->redop < COHORT_SUM || op->redop > COHORT_AVG))
		return error_set(COHORT_INVALID,
		                 "%s: op is %d, not an enum cohort_op",
		                 op_name(op->kind), op->redop);
	if (kinds[op->kind].rooted && (op->root < 0 || op->root >= size))
		return error_set(COHORT_INVALID, "%s: root is %d, not 0 to %d",
		                 op_name(op->kind), op->root, size - 1);
	if (!op->tensors || !op->n)
		return error_set(COHORT_INVALID,
		                 "%s: tensors is %s and n is %zu",
		                 op_name(op->kind),
		                 op->tensors ? "set" : "NULL", op->n);
	for (i = 0; i < op->n; i++) {
		rc = tensor_check(op, i, rank, size);
		if (rc != COHORT_OK)
			return rc;
	}
	return COHORT_OK;
}
