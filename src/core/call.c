/* SPDX-License-Identifier: Apache-2.0 */

/*
 * From our operations to NCCL's functions
 *
 * Gather, scatter and all-to-all are functions of newer libraries; for an older
 * one they are the sends and receives that they mean.
 */

#include "core/call.h"

#include "base/type.h"
#include "core/redop.h"

/* True if @op's function is one that the library does not have. */
static bool is_spread(const struct clique *q, const struct op *op)
{
	const struct platform *p = q->platform;

	switch (op->kind) {
	case OP_GATHER:
		return !platform_has(p, FUNCTION_ncclGather);
	case OP_SCATTER:
		return !platform_has(p, FUNCTION_ncclScatter);
	case OP_ALL_TO_ALL:
		return !platform_has(p, FUNCTION_ncclAlltoAll);
	default:
		return false;
	}
}

/* True if @op takes more than one native call, and so a group. */
static bool is_several(const struct clique *q, const struct op *op)
{
	/* The one call of a batch may be one that takes several. */
	return op->kind == OP_BATCH ? op->n > 0 : op->n > 1 || is_spread(q, op);
}

/* ---- sends and receives ----------------------------------------------- */

static ncclResult_t send_block(const struct cohort_comm *c,
                               const struct cohort_tensor *t, int peer,
                               size_t block, cudaStream_t stream)
{
	size_t bytes = t->count * type_size(t->type);

	return c->clique->platform->ncclSend(
		(const char *)t->send + block * bytes, t->count,
		(ncclDataType_t)t->type, peer, c->native, stream);
}

static ncclResult_t recv_block(const struct cohort_comm *c,
                               const struct cohort_tensor *t, int peer,
                               size_t block, cudaStream_t stream)
{
	size_t bytes = t->count * type_size(t->type);

	return c->clique->platform->ncclRecv((char *)t->recv + block * bytes,
	                                     t->count, (ncclDataType_t)t->type,
	                                     peer, c->native, stream);
}

/* Send this rank's block to @peer and receive @peer's, as far as @op has them. */
static ncclResult_t exchange(const struct cohort_comm *c, const struct op *op,
                             const struct cohort_tensor *t, int peer)
{
	bool sends = op->kind == OP_ALL_TO_ALL ||
	             (op->kind == OP_GATHER ? peer : c->rank) == op->root;
	bool recvs = op->kind == OP_ALL_TO_ALL ||
	             (op->kind == OP_GATHER ? c->rank : peer) == op->root;
	size_t block = (size_t)peer;
	ncclResult_t result = ncclSuccess;

	if (sends)
		result = send_block(c, t, peer,
		                    op->kind == OP_GATHER ? 0 : block,
		                    op->stream);
	if (recvs && result == ncclSuccess)
		result = recv_block(c, t, peer,
		                    op->kind == OP_SCATTER ? 0 : block,
		                    op->stream);
	return result;
}

static ncclResult_t spread(const struct cohort_comm *c, const struct op *op,
                           const struct cohort_tensor *t)
{
	ncclResult_t result = ncclSuccess;
	int peer;

	/* NCCL's own function would do the same: nothing to do, and no rank to
	 * meet. */
	if (!t->count)
		return ncclSuccess;
	for (peer = 0; peer < c->clique->world_size && result == ncclSuccess;
	     peer++)
		result = exchange(c, op, t, peer);
	return result;
}

/* ---- calls ------------------------------------------------------------ */

/* On one rank an average is a copy, as a sum is.  NCCL would launch a kernel
 * that multiplies floats by 1: it has none for 8-bit floats, and for the others
 * see multiply_alone(). */
static ncclRedOp_t native_redop(const struct cohort_comm *c,
                                const struct op *op)
{
	if (op->redop >= REDOP_PREMUL_SUM)
		return redop_native(c, op->redop);
	if (op->redop == COHORT_AVG && c->clique->world_size == 1)
		return ncclSum;
	return (ncclRedOp_t)op->redop;
}

static ncclResult_t call_native(const struct cohort_comm *c,
                                const struct op *op,
                                const struct cohort_tensor *t)
{
	const struct platform *p = c->clique->platform;
	ncclDataType_t type = (ncclDataType_t)t->type;
	ncclRedOp_t redop = native_redop(c, op);
	cudaStream_t stream = op->stream;

	switch (op->kind) {
	case OP_ALL_REDUCE:
	case OP_BARRIER:
		return p->ncclAllReduce(t->send, t->recv, t->count, type, redop,
		                        c->native, stream);
	case OP_BROADCAST:
		return p->ncclBroadcast(t->send, t->recv, t->count, type,
		                        op->root, c->native, stream);
	case OP_REDUCE:
		return p->ncclReduce(t->send, t->recv, t->count, type, redop,
		                     op->root, c->native, stream);
	case OP_ALL_GATHER:
		return p->ncclAllGather(t->send, t->recv, t->count, type,
		                        c->native, stream);
	case OP_REDUCE_SCATTER:
		return p->ncclReduceScatter(t->send, t->recv, t->count, type,
		                            redop, c->native, stream);
	case OP_GATHER:
		return p->ncclGather(t->send, t->recv, t->count, type, op->root,
		                     c->native, stream);
	case OP_SCATTER:
		return p->ncclScatter(t->send, t->recv, t->count, type,
		                      op->root, c->native, stream);
	case OP_ALL_TO_ALL:
		return p->ncclAlltoAll(t->send, t->recv, t->count, type,
		                       c->native, stream);
	case OP_SEND:
		return p->ncclSend(t->send, t->count, type, op->root, c->native,
		                   stream);
	case OP_RECV:
		return p->ncclRecv(t->recv, t->count, type, op->root, c->native,
		                   stream);
	case OP_SPLIT:
	case OP_COPY:
	case OP_BATCH:
		break;
	}
	return ncclInternalError;
}

/* The first version whose kernel leaves out nothing. */
#define ALONE_IS_WHOLE 22907

/* The kernel gives each block so many bytes, but has no more blocks than these;
 * and moves packs of bytes. */
#define ALONE_BLOCK ((size_t)16 << 10)
#define ALONE_BLOCKS 32
#define ALONE_PACK 16

/* How many of @count elements of @size bytes to give the kernel first, so that
 * it leaves out none of them.  It leaves out none of the rest, either, which
 * fits one block. */
static size_t whole_alone(size_t count, size_t size)
{
	const size_t bytes = count * size;
	const size_t unit = bytes > ALONE_BLOCK * (ALONE_BLOCKS - 1)
	                            ? (size_t)ALONE_PACK * ALONE_BLOCKS
	                            : ALONE_BLOCK;

	return (bytes - bytes % unit) / size;
}

/*
 * A premultiplied sum on one rank.  NCCL has a kernel for it which, before
 * 2.29.7, gives each of its blocks count / blocks elements, rounded up to whole
 * packs, and leaves out the remainder of that division if the packs do not take
 * it up (oneRankReduce() in src/device/onerank.cu; found on an H200).  So there
 * are two calls.
 */
static ncclResult_t multiply_alone(const struct cohort_comm *c,
                                   const struct op *op,
                                   const struct cohort_tensor *t)
{
	const size_t size = type_size(t->type);
	struct cohort_tensor first = *t, rest = *t;
	ncclResult_t result = ncclSuccess;
	int version = 0;

	c->clique->platform->ncclGetVersion(&version);
	if (version >= ALONE_IS_WHOLE)
		return call_native(c, op, t);
	first.count = whole_alone(t->count, size);
	rest.count = t->count - first.count;
	rest.send = (const char *)t->send + first.count * size;
	rest.recv = (char *)t->recv + first.count * size;
	if (first.count)
		result = call_native(c, op, &first);
	if (result == ncclSuccess && (rest.count || !t->count))
		result = call_native(c, op, &rest);
	return result;
}

/* True if there is nothing to do for a tensor: the clique has one rank, whose
 * elements are where they belong already. */
static bool is_nothing(const struct cohort_comm *c, const struct op *op,
                       const struct cohort_tensor *t)
{
	return c->clique->world_size == 1 && op_is_plain(op) &&
	       t->send == t->recv;
}

/* Blocks of an all-to-all and the like are transfers for NCCL, too, of which
 * the k-th from one rank to another finds the k-th receive there.  So those
 * come first, whatever the order in which each rank has put its own sends
 * between. */
static void call_batch(const struct cohort_comm *c, const struct op *op,
                       struct native_result *r)
{
	size_t i;

	for (i = 0; i < op->n && !r->what; i++)
		if (op_is_collective(&op->calls[i]))
			call_op(c, &op->calls[i], r);
	for (i = 0; i < op->n && !r->what; i++)
		if (!op_is_collective(&op->calls[i]))
			call_op(c, &op->calls[i], r);
}

void call_op(const struct cohort_comm *c, const struct op *op,
             struct native_result *r)
{
	/* A single collective is called even if it does nothing, so that a
	 * program sees the same calls on one rank as on several. */
	const bool skips = op->n > 1 || op->kind >= OP_GATHER;
	const bool alone = c->clique->world_size == 1 &&
	                   op_has_redop(op->kind) &&
	                   op->redop >= REDOP_PREMUL_SUM;
	const bool spreads = is_spread(c->clique, op);
	const char *what =
		spreads ? "ncclSend or ncclRecv" : op_native_name(op->kind);
	const struct cohort_tensor *t;

	if (op->kind == OP_BATCH) {
		call_batch(c, op, r);
		return;
	}
	for (t = op->tensors; t < op->tensors + op->n && !r->what; t++)
		if (!skips || !is_nothing(c, op, t))
			native_note_nccl(r, what,
			                 spreads ? spread(c, op, t)
			                 : alone ? multiply_alone(c, op, t)
			                         : call_native(c, op, t));
}

void call_all(const struct cohort_comm *comms, int n, const struct op *ops,
              struct native_result *r)
{
	const struct platform *p = comms->clique->platform;
	const bool is_group = n > 1 || is_several(comms->clique, ops);
	int i;

	if (is_group)
		native_note_nccl(r, "ncclGroupStart", p->ncclGroupStart());
	for (i = 0; i < n && !r->what; i++) {
		r->rank = comms[i].rank;
		call_op(&comms[i], &ops[i], r);
	}
	/* The end of a group does not say which of its ranks has failed. */
	if (n > 1 && !r->what)
		r->rank = -1;
	if (is_group)
		native_note_nccl(r, "ncclGroupEnd", p->ncclGroupEnd());
}
