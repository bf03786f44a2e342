/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Properties of operations, and checks of their arguments
 *
 * These checks find wrong arguments before anything is queued on any rank.
 * NCCL checks less, and may find an error only after other ranks have started.
 */

#include "core/op.h"

#include "base/status.h"

static const struct {
	const char *name;
	const char *from_host; /* name of the call with host memory */
	const char *native;
	bool reduces;
	bool rooted;
	bool paired;      /* has a peer */
	bool scales_send; /* @send has @count elements for each rank */
	/* @recv has @count elements for each rank. */
	bool scales_recv;
	bool root_sends; /* all ranks but the root ignore @send */
	/* All ranks but the root ignore @recv. */
	bool root_recvs;
	bool sends_not; /* every rank ignores @send */
	bool recvs_not;
	bool apart; /* @send and @recv must not overlap */
	/* @send and @recv have the same size, so a call on host memory takes a
	 * single buffer. */
	bool alike;
} kinds[] = {
	[OP_ALL_REDUCE] = { .name = "all_reduce",
	                    .from_host = "all_reduce_host",
	                    .native = "ncclAllReduce",
	                    .reduces = true,
	                    .alike = true },
	[OP_BROADCAST] = { .name = "broadcast",
	                   .from_host = "broadcast_host",
	                   .native = "ncclBroadcast",
	                   .rooted = true,
	                   .root_sends = true,
	                   .alike = true },
	[OP_REDUCE] = { .name = "reduce",
	                .from_host = "reduce_host",
	                .native = "ncclReduce",
	                .reduces = true,
	                .rooted = true,
	                .root_recvs = true,
	                .alike = true },
	[OP_ALL_GATHER] = { .name = "all_gather",
	                    .from_host = "all_gather_host",
	                    .native = "ncclAllGather",
	                    .scales_recv = true },
	[OP_REDUCE_SCATTER] = { .name = "reduce_scatter",
	                        .from_host = "reduce_scatter_host",
	                        .native = "ncclReduceScatter",
	                        .reduces = true,
	                        .scales_send = true },
	[OP_GATHER] = { .name = "gather",
	                .from_host = "gather_host",
	                .native = "ncclGather",
	                .rooted = true,
	                .scales_recv = true,
	                .root_recvs = true },
	[OP_SCATTER] = { .name = "scatter",
	                 .from_host = "scatter_host",
	                 .native = "ncclScatter",
	                 .rooted = true,
	                 .scales_send = true,
	                 .root_sends = true },
	[OP_ALL_TO_ALL] = { .name = "all_to_all",
	                    .from_host = "all_to_all_host",
	                    .native = "ncclAlltoAll",
	                    .scales_send = true,
	                    .scales_recv = true,
	                    .apart = true },
	[OP_SEND] = { .name = "send",
	              .from_host = "send_host",
	              .native = "ncclSend",
	              .paired = true,
	              .recvs_not = true },
	[OP_RECV] = { .name = "recv",
	              .from_host = "recv_host",
	              .native = "ncclRecv",
	              .paired = true,
	              .sends_not = true },
	[OP_BARRIER] = { .name = "barrier", .native = "ncclAllReduce" },
	[OP_SPLIT] = { .name = "comm_split", .native = "ncclCommSplit" },
	[OP_COPY] = { .name = "copy", .native = "cudaMemcpyAsync" },
	[OP_BATCH] = { .name = "batch", .native = "ncclGroupEnd" },
};

const char *op_name(enum op_kind kind)
{
	return kinds[kind].name;
}

const char *op_full_name(enum op_kind kind, bool from_host)
{
	return from_host && kinds[kind].from_host ? kinds[kind].from_host
	                                          : kinds[kind].name;
}

const char *op_native_name(enum op_kind kind)
{
	return kinds[kind].native;
}

bool op_is_collective(const struct op *op)
{
	size_t i, n;
	const struct op *calls = op_calls(op, &n);

	for (i = 0; i < n; i++)
		if (op_is_common(calls[i].kind))
			return true;
	return false;
}

bool op_has_peer(enum op_kind kind)
{
	return kinds[kind].paired;
}

bool op_has_redop(enum op_kind kind)
{
	return kinds[kind].reduces;
}

bool op_has_root(enum op_kind kind)
{
	return kinds[kind].rooted;
}

const char *cohort_type_name(int type)
{
	switch (type) {
#define TYPE_NAME(name, value, bytes, text)                                    \
	case value:                                                            \
		return text;
		COHORT_TYPE_LIST(TYPE_NAME)
#undef TYPE_NAME
	}
	return "a type that this version of cohort does not know";
}

const char *cohort_op_name(int op)
{
	switch (op) {
#define REDOP_NAME(name, value, text)                                          \
	case value:                                                            \
		return text;
		COHORT_OP_LIST(REDOP_NAME)
#undef REDOP_NAME
	}
	if (op >= REDOP_FIRST_NUMBER)
		return "premul sum";
	return "an op that this version of cohort does not know";
}

size_t op_bytes(const struct op *op)
{
	size_t i, n, k, bytes = 0;
	const struct op *calls = op_calls(op, &n);

	for (i = 0; i < n; i++)
		for (k = 0; k < calls[i].n; k++)
			bytes += calls[i].tensors[k].count *
			         type_size(calls[i].tensors[k].type);
	return bytes;
}

/* Refuse an argument of tensor @i.  If the operation has a list of tensors, the
 * error text names the tensor. */
#define TENSOR_ERROR(op, i, format, ...)                                       \
	((op)->n > 1 ? error_set(COHORT_INVALID, "%s: tensors[%zu]." format,   \
	                         op_name_of(op), i, __VA_ARGS__)               \
	             : error_set(COHORT_INVALID, "%s: " format,                \
	                         op_name_of(op), __VA_ARGS__))

static bool is_sending(const struct op *op, int rank)
{
	return !kinds[op->kind].sends_not &&
	       (!kinds[op->kind].root_sends || rank == op->root);
}

static bool is_receiving(const struct op *op, int rank)
{
	return !kinds[op->kind].recvs_not &&
	       (!kinds[op->kind].root_recvs || rank == op->root);
}

void op_blocks(const struct op *op, int rank, int size, size_t *send,
               size_t *recv)
{
	*send = !is_sending(op, rank)         ? 0
	        : kinds[op->kind].scales_send ? (size_t)size
	                                      : 1;
	*recv = !is_receiving(op, rank)       ? 0
	        : kinds[op->kind].scales_recv ? (size_t)size
	                                      : 1;
}

bool op_has_blocks(enum op_kind kind)
{
	return kinds[kind].scales_send || kinds[kind].scales_recv;
}

const char *op_buffer_name(const struct op *op, const char *what)
{
	return op->from_host && kinds[op->kind].alike ? "data" : what;
}

static bool overlap(const struct cohort_tensor *t, size_t bytes)
{
	uintptr_t send = (uintptr_t)t->send, recv = (uintptr_t)t->recv;

	return send < recv ? recv - send < bytes : send - recv < bytes;
}

/* Return true if @memory is aligned to elements of @bytes, or if @op does not
 * need alignment.  A kernel that reduces unaligned elements faults, and the
 * device is lost.  Kernels that only move elements move them as bytes. */
static bool is_aligned(const struct op *op, const void *memory, size_t bytes)
{
	return !kinds[op->kind].reduces ||
	       ((uintptr_t)memory & (bytes - 1)) == 0;
}

bool op_is_aligned(const struct op *op)
{
	const struct cohort_tensor *t = op->tensors;
	const size_t bytes = type_size(t->type);

	return !bytes || (is_aligned(op, t->send, bytes) &&
	                  is_aligned(op, t->recv, bytes));
}

/* Refuse buffers that are not aligned.  Host memory need not be aligned,
 * because it is copied first. */
static int alignment_check(const struct op *op, size_t i, int rank)
{
	const struct cohort_tensor *t = &op->tensors[i];
	const size_t bytes = type_size(t->type);
	const bool is_send =
		is_sending(op, rank) && !is_aligned(op, t->send, bytes);

	if (op->from_host || (!is_send && (!is_receiving(op, rank) ||
	                                   is_aligned(op, t->recv, bytes))))
		return COHORT_OK;
	return TENSOR_ERROR(op, i,
	                    "%s is %p, not aligned to the %zu bytes of %s",
	                    is_send ? "send" : "recv",
	                    is_send ? t->send : t->recv, bytes,
	                    cohort_type_name(t->type));
}

static int tensor_check(const struct op *op, size_t i, int rank, int size)
{
	const struct cohort_tensor *t = &op->tensors[i];
	size_t blocks = op_has_blocks(op->kind) ? (size_t)size : 1;
	/* A barrier uses buffers of the library. */
	bool given = t->count && !op_has_no_tensors(op->kind);
	size_t bytes = type_size(t->type), all;

	if (!bytes)
		return TENSOR_ERROR(
			op, i, "type is %d, not a value of enum cohort_type",
			t->type);
	if (kinds[op->kind].reduces && !type_has_arithmetic(t->type))
		return TENSOR_ERROR(op, i,
		                    "type is %s, which cannot be reduced, only "
		                    "moved",
		                    cohort_type_name(t->type));
	if (__builtin_mul_overflow(t->count, bytes * blocks, &all) ||
	    all > PTRDIFF_MAX)
		return TENSOR_ERROR(op, i,
		                    "count is %zu, too many elements of %zu "
		                    "bytes",
		                    t->count, bytes);
	if (given && is_sending(op, rank) && !t->send)
		return TENSOR_ERROR(op, i, "%s is NULL with a count of %zu",
		                    op_buffer_name(op, "send"), t->count);
	if (given && is_receiving(op, rank) && !t->recv)
		return TENSOR_ERROR(op, i, "%s is NULL with a count of %zu",
		                    op_buffer_name(op, "recv"), t->count);
	if (kinds[op->kind].apart && overlap(t, all))
		return TENSOR_ERROR(op, i,
		                    "send is %p and recv %p, which overlap",
		                    t->send, t->recv);
	return given ? alignment_check(op, i, rank) : COHORT_OK;
}

static int root_check(const struct op *op, int size)
{
	bool has_root = kinds[op->kind].rooted || kinds[op->kind].paired;

	if (!has_root || (op->root >= 0 && op->root < size))
		return COHORT_OK;
	return error_set(COHORT_INVALID, "%s: %s is %d, not 0 to %d",
	                 op_name_of(op),
	                 kinds[op->kind].paired ? "peer" : "root", op->root,
	                 size - 1);
}

int op_check_call(const struct op *op, int rank, int size)
{
	size_t i;
	int rc;

	if (kinds[op->kind].reduces && op->redop < COHORT_SUM)
		return error_set(COHORT_INVALID,
		                 "%s: op is %d, not a value of enum cohort_op",
		                 op_name_of(op), op->redop);
	rc = root_check(op, size);
	if (rc != COHORT_OK)
		return rc;
	if (!op->tensors || !op->n)
		return error_set(
			COHORT_INVALID,
			"%s: tensors is %s and n is %zu: pass at least "
			"one tensor",
			op_name_of(op), op->tensors ? "set" : "NULL", op->n);
	for (i = 0; i < op->n; i++) {
		rc = tensor_check(op, i, rank, size);
		if (rc != COHORT_OK)
			return rc;
	}
	return COHORT_OK;
}

/* Find the first call of @kind at or after index *@at whose peer is @rank, and
 * set *@at to the index after it.  Return NULL if there is none. */
static const struct op *next_own(const struct op *batch, enum op_kind kind,
                                 int rank, size_t *at)
{
	while (*at < batch->n) {
		const struct op *call = &batch->calls[(*at)++];

		if (call->kind == kind && call->root == rank)
			return call;
	}
	return NULL;
}

/* Refuse a batch in which the rank's sends to itself do not match its receives
 * from itself, because the rank would wait for itself. */
static int own_check(const struct op *batch, int rank)
{
	const struct op *send, *recv;
	size_t sends = 0, recvs = 0;

	for (;;) {
		send = next_own(batch, OP_SEND, rank, &sends);
		recv = next_own(batch, OP_RECV, rank, &recvs);
		if (!send && !recv)
			return COHORT_OK;
		if (!send || !recv)
			return error_set(
				COHORT_INVALID,
				"batch: a %s has this rank, %d, as its peer, "
				"but the batch has no matching %s",
				send ? "send" : "recv", rank,
				send ? "recv" : "send");
		if (send->tensors->count != recv->tensors->count ||
		    send->tensors->type != recv->tensors->type)
			return error_set(COHORT_INVALID,
			                 "batch: rank %d sends itself %zu %s, "
			                 "but receives %zu %s",
			                 rank, send->tensors->count,
			                 type_name(send->tensors->type),
			                 recv->tensors->count,
			                 type_name(recv->tensors->type));
	}
}

/* Refuse a single send or receive whose peer is the rank itself, because it
 * could never complete. */
static int alone_check(const struct op *op, int rank)
{
	if (!kinds[op->kind].paired || op->root != rank)
		return COHORT_OK;
	return error_set(
		COHORT_INVALID,
		"%s: peer is %d, which is this rank: allowed only in a "
		"batch that has the matching %s",
		op_name_of(op), rank, op->kind == OP_SEND ? "recv" : "send");
}

int op_check(const struct op *op, int rank, int size)
{
	int rc;

	if (op->kind == OP_BATCH)
		return own_check(op, rank);
	rc = op_check_call(op, rank, size);
	return rc == COHORT_OK ? alone_check(op, rank) : rc;
}
