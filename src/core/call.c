/* SPDX-License-Identifier: Apache-2.0 */

#include "core/call.h"

#include "base/type.h"
#include "core/redop.h"

/* Return true if this version of NCCL has no function for @op, so that sends
 * and receives must implement it. */
static bool uses_messages(const struct clique *q, const struct op *op)
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

static bool needs_native_group(const struct clique *q, const struct op *op)
{
	/* Even a batch with one call may make several native calls. */
	return op->kind == OP_BATCH ? op->n > 0
	                            : op->n > 1 || uses_messages(q, op);
}

struct elements {
	ncclDataType_t type;
	size_t count;
};

/* Describe a tensor to NCCL.  NCCL has no types without arithmetic, so elements
 * of these types are moved as bytes. */
static struct elements elements_of(const struct cohort_tensor *t)
{
	if (type_has_arithmetic(t->type))
		return (struct elements){ (ncclDataType_t)t->type, t->count };
	return (struct elements){ ncclUint8, t->count * type_size(t->type) };
}

static ncclResult_t send_block(const struct cohort_comm *c,
                               const struct cohort_tensor *t, int peer,
                               size_t block, cudaStream_t stream)
{
	const struct elements e = elements_of(t);
	size_t bytes = t->count * type_size(t->type);

	return c->clique->platform->ncclSend(
		(const char *)t->send + block * bytes, e.count, e.type, peer,
		c->native, stream);
}

static ncclResult_t recv_block(const struct cohort_comm *c,
                               const struct cohort_tensor *t, int peer,
                               size_t block, cudaStream_t stream)
{
	const struct elements e = elements_of(t);
	size_t bytes = t->count * type_size(t->type);

	return c->clique->platform->ncclRecv((char *)t->recv + block * bytes,
	                                     e.count, e.type, peer, c->native,
	                                     stream);
}

/* Send this rank's block to @peer and receive the peer's block, if @op has
 * these blocks. */
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

	/* As NCCL's own functions do for a count of 0, do nothing and wait for
	 * no rank. */
	if (!t->count)
		return ncclSuccess;
	for (peer = 0; peer < c->clique->world_size && result == ncclSuccess;
	     peer++)
		result = exchange(c, op, t, peer);
	return result;
}

/* Return NCCL's number of the reduction.  In a group of one rank, replace an
 * average with a sum, because both only copy.  For an average, NCCL would
 * launch a kernel that multiplies by 1, does not support 8-bit floats, and has
 * a bug for other types: see multiply_alone(). */
static ncclRedOp_t native_redop(const struct cohort_comm *c,
                                const struct op *op)
{
	if (op->redop >= REDOP_PREMUL_SUM)
		return redop_native(c, op->redop);
	if (op->redop == COHORT_AVG && c->clique->world_size == 1)
		return ncclSum;
	return (ncclRedOp_t)op->redop;
}

ncclResult_t call_native(const struct platform *p, ncclComm_t comm,
                         const struct op *op, ncclRedOp_t redop,
                         const struct cohort_tensor *t)
{
	const struct elements e = elements_of(t);
	cudaStream_t stream = op->stream;

	switch (op->kind) {
	case OP_ALL_REDUCE:
	case OP_BARRIER:
		return p->ncclAllReduce(t->send, t->recv, e.count, e.type,
		                        redop, comm, stream);
	case OP_BROADCAST:
		return p->ncclBroadcast(t->send, t->recv, e.count, e.type,
		                        op->root, comm, stream);
	case OP_REDUCE:
		return p->ncclReduce(t->send, t->recv, e.count, e.type, redop,
		                     op->root, comm, stream);
	case OP_ALL_GATHER:
		return p->ncclAllGather(t->send, t->recv, e.count, e.type, comm,
		                        stream);
	case OP_REDUCE_SCATTER:
		return p->ncclReduceScatter(t->send, t->recv, e.count, e.type,
		                            redop, comm, stream);
	case OP_GATHER:
		return p->ncclGather(t->send, t->recv, e.count, e.type,
		                     op->root, comm, stream);
	case OP_SCATTER:
		return p->ncclScatter(t->send, t->recv, e.count, e.type,
		                      op->root, comm, stream);
	case OP_ALL_TO_ALL:
		return p->ncclAlltoAll(t->send, t->recv, e.count, e.type, comm,
		                       stream);
	case OP_SEND:
		return p->ncclSend(t->send, e.count, e.type, op->root, comm,
		                   stream);
	case OP_RECV:
		return p->ncclRecv(t->recv, e.count, e.type, op->root, comm,
		                   stream);
	case OP_SPLIT:
	case OP_COPY:
	case OP_BATCH:
		break;
	}
	return ncclInternalError;
}

/* First version of NCCL whose one-rank kernel does not skip elements. */
#define ALONE_IS_WHOLE 22907

/* Sizes that NCCL's one-rank kernel uses: bytes per block, maximum number of
 * blocks, and bytes that the kernel moves at a time (a pack). */
#define ALONE_BLOCK ((size_t)16 << 10)
#define ALONE_BLOCKS 32
#define ALONE_PACK 16

/* Return how many of @count elements of @size bytes the first call of the
 * one-rank kernel should process, so that it skips none.  The remaining
 * elements fit one block, so a second call skips none of them. */
static size_t whole_alone(size_t count, size_t size)
{
	const size_t bytes = count * size;
	const size_t unit = bytes > ALONE_BLOCK * (ALONE_BLOCKS - 1)
	                            ? (size_t)ALONE_PACK * ALONE_BLOCKS
	                            : ALONE_BLOCK;

	return (bytes - bytes % unit) / size;
}

/*
 * Make a premultiplied sum on one rank.  Before 2.29.7, NCCL's one-rank kernel
 * gives each of its blocks count / blocks elements, rounded up to whole packs,
 * and skips the remainder of that division unless the rounding covers it
 * (oneRankReduce() in src/device/onerank.cu; found on an H200).  To skip none,
 * this function makes two calls.
 */
static ncclResult_t multiply_alone(const struct platform *p, ncclComm_t comm,
                                   const struct op *op, ncclRedOp_t redop,
                                   const struct cohort_tensor *t)
{
	const size_t size = type_size(t->type);
	struct cohort_tensor first = *t, rest = *t;
	ncclResult_t result = ncclSuccess;
	int version = 0;

	p->ncclGetVersion(&version);
	if (version >= ALONE_IS_WHOLE)
		return call_native(p, comm, op, redop, t);
	first.count = whole_alone(t->count, size);
	rest.count = t->count - first.count;
	rest.send = (const char *)t->send + first.count * size;
	rest.recv = (char *)t->recv + first.count * size;
	if (first.count)
		result = call_native(p, comm, op, redop, &first);
	if (result == ncclSuccess && (rest.count || !t->count))
		result = call_native(p, comm, op, redop, &rest);
	return result;
}

/* Return true if a tensor needs no call, because the clique has one rank and
 * the elements are in place already. */
static bool needs_no_call(const struct cohort_comm *c, const struct op *op,
                          const struct cohort_tensor *t)
{
	return c->clique->world_size == 1 && op_is_plain(op) &&
	       t->send == t->recv;
}

/* Make the collectives of a batch first, then its sends and receives.  NCCL
 * implements all-to-all and similar collectives by sends and receives, and
 * pairs the k-th send from one rank to another with the k-th receive on the
 * other rank.  So collectives and transfers must have the same order on all
 * ranks. */
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
	/* A single collective makes its native call even if the call does
	 * nothing, so that a group of one rank makes the same native calls as a
	 * larger group. */
	const bool skips = op->n > 1 || !op_is_basic(op->kind);
	const bool alone = c->clique->world_size == 1 &&
	                   op_has_redop(op->kind) &&
	                   op->redop >= REDOP_PREMUL_SUM;
	const bool spreads = uses_messages(c->clique, op);
	const struct platform *p = c->clique->platform;
	const ncclRedOp_t redop = native_redop(c, op);
	const char *what =
		spreads ? "ncclSend or ncclRecv" : op_native_name(op->kind);
	const struct cohort_tensor *t;

	if (op->kind == OP_BATCH) {
		call_batch(c, op, r);
		return;
	}
	for (t = op->tensors; t < op->tensors + op->n && !r->what; t++)
		if (!skips || !needs_no_call(c, op, t))
			native_record_nccl(
				r, what,
				spreads ? spread(c, op, t)
				: alone ? multiply_alone(p, c->native, op,
			                                 redop, t)
					: call_native(p, c->native, op, redop,
			                              t));
}

void call_all(const struct cohort_comm *comms, int n, const struct op *ops,
              struct native_result *r)
{
	const struct platform *p = comms->clique->platform;
	const bool is_group = n > 1 || needs_native_group(comms->clique, ops);
	int i;

	if (is_group)
		native_record_nccl(r, "ncclGroupStart", p->ncclGroupStart());
	for (i = 0; i < n && !r->what; i++) {
		r->rank = comms[i].rank;
		call_op(&comms[i], &ops[i], r);
	}
	/* If ncclGroupEnd() fails, NCCL does not report which rank has
	 * failed. */
	if (n > 1 && !r->what)
		r->rank = -1;
	if (is_group)
		native_record_nccl(r, "ncclGroupEnd", p->ncclGroupEnd());
}
