/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Launches calls with plain host memory, chunk by chunk; declared in staging.h
 *
 * The steps of a chunk, with the stream or thread that does the step, and the
 * event or word that shows that the step is done:
 *
 * 	calling thread  copies data to staging memory
 * 	in              copies staging memory to slot   event loaded
 * 	stream          runs the collective in slot     event worked
 * 	out             copies slot to staging memory   event stored, word
 * 	calling thread  copies staging memory to data
 *
 * Chunk k uses slot k % STAGING_RING.  The slot is free when the previous chunk
 * in it is stored or, on a rank that receives nothing, when the collective of
 * that chunk is done.  A call of one chunk does all steps on its own stream.
 */

#include <string.h>

#include "core/call.h"
#include "core/clique.h"
#include "core/staging.h"

/* Return the number of elements of each block that are in chunk @k. */
static size_t chunk_count(const struct op *op, size_t k)
{
	const struct staged *s = op->staged;
	size_t left = op->tensors->count - k * s->chunk;

	return left < s->chunk ? left : s->chunk;
}

/* Return the address of chunk @k of block @b in the caller's @data. */
static char *address_of(const struct op *op, const void *data, size_t b,
                        size_t k)
{
	const struct staged *s = op->staged;

	return (char *)(uintptr_t)data +
	       (b * op->tensors->count + k * s->chunk) * s->element;
}

static char *staging_at(const struct cohort_comm *c, const struct staged *s,
                        size_t k)
{
	return native_memory_at(&c->staging.memory) + k * s->chunk_bytes;
}

/* Return the address of chunk @k while the collective works on it. */
static char *slot_at(const struct cohort_comm *c, const struct staged *s,
                     size_t k)
{
	const struct staging *g = &c->staging;

	return g->ring.n ? native_memory_at(&g->ring) +
	                           k % STAGING_RING * s->slot_bytes
	                 : native_memory_at(&g->memory);
}

/* Return the tensor for the collective of chunk @k, in place if that is
 * possible. */
static struct cohort_tensor tensor_at(const struct cohort_comm *c,
                                      const struct op *op, size_t k)
{
	const size_t count = chunk_count(op, k);
	const size_t block = count * op->staged->element;
	char *base = slot_at(c, op->staged, k);
	const size_t own = (size_t)c->rank * block;
	char *send = base, *recv = base;

	if (op->kind == OP_ALL_GATHER || op->kind == OP_GATHER)
		send = base + own;
	else if (op->kind == OP_REDUCE_SCATTER || op->kind == OP_SCATTER)
		recv = base + own;
	else if (op->kind == OP_ALL_TO_ALL)
		recv = base + (size_t)c->clique->world_size * block;
	return (struct cohort_tensor){ send, recv, count, op->tensors->type };
}

static void copy_in(const struct op *op, char *to, size_t k)
{
	const struct staged *s = op->staged;
	size_t b, bytes = chunk_count(op, k) * s->element;

	for (b = 0; bytes && b < s->send_blocks; b++)
		memcpy(to + b * bytes, address_of(op, op->tensors->send, b, k),
		       bytes);
}

void staging_copy_in(struct cohort_comm *c, const struct op *op)
{
	struct staged *s = op->staged;
	const void *to;
	size_t k;

	for (k = 0; k < s->chunks; k++) {
		to = c->staging.ring.n ? staging_at(c, s, k)
		                       : tensor_at(c, op, k).send;
		copy_in(op, (char *)(uintptr_t)to, k);
	}
	s->is_taken = true;
}

void staging_copy_out(const struct cohort_comm *c, const struct op *op,
                      size_t k)
{
	const struct staged *s = op->staged;
	size_t b, bytes = chunk_count(op, k) * s->element;
	const char *from = c->staging.ring.n ? staging_at(c, s, k)
	                                     : tensor_at(c, op, k).recv;

	if (s->recvs_direct || !bytes)
		return;
	for (b = 0; b < s->recv_blocks; b++)
		memcpy(address_of(op, op->tensors->recv, b, k),
		       from + b * bytes, bytes);
}

bool staging_is_copied_back(const struct cohort_comm *c, const struct staged *s,
                            size_t k)
{
	/* The acquire makes the chunk visible.  The device sets the word after
	 * it has written the chunk. */
	return __atomic_load_n(&c->staging.words[k], __ATOMIC_ACQUIRE) ==
	       s->number;
}

struct line {
	struct cohort_comm *c;
	const struct op *op;
	const struct platform *p;
	cudaStream_t in, stream, out;
	struct native_result r;
};

/* Make stream @to wait for the work that is now queued on @from. */
static void order(struct line *l, cudaStream_t from, cudaEvent_t event,
                  cudaStream_t to)
{
	if (from == to || l->r.what)
		return;
	native_record_cuda(&l->r, "cudaEventRecord",
	                   l->p->cudaEventRecord(event, from));
	native_record_cuda(&l->r, "cudaStreamWaitEvent",
	                   l->p->cudaStreamWaitEvent(to, event, 0));
}

static void await_slot(struct line *l, cudaStream_t stream, size_t k)
{
	const struct staging *g = &l->c->staging;
	const size_t slot = k % STAGING_RING;

	if (k < STAGING_RING || l->r.what)
		return;
	native_record_cuda(&l->r, "cudaStreamWaitEvent",
	                   l->p->cudaStreamWaitEvent(stream,
	                                             l->op->staged->recv_blocks
	                                                     ? g->stored[slot]
	                                                     : g->worked[slot],
	                                             0));
}

/* Queue a copy between a slot and host memory, unless they are the same
 * memory. */
static void copy(struct line *l, void *to, const void *from, size_t bytes,
                 enum cudaMemcpyKind kind, cudaStream_t stream)
{
	if (bytes && l->c->staging.ring.n && !l->r.what)
		native_record_cuda(&l->r, "cudaMemcpyAsync",
		                   l->p->cudaMemcpyAsync(to, from, bytes, kind,
		                                         stream));
}

static void load(struct line *l, size_t k, const struct cohort_tensor *t)
{
	const struct staged *s = l->op->staged;
	const size_t bytes = t->count * s->element;
	char *to = (char *)(uintptr_t)t->send, *from;
	size_t b;

	from = l->c->staging.ring.n ? staging_at(l->c, s, k) : to;
	if (!s->sends_direct && !s->is_taken)
		copy_in(l->op, from, k);
	await_slot(l, l->in, k);
	if (!s->sends_direct)
		copy(l, to, from, s->send_blocks * bytes,
		     cudaMemcpyHostToDevice, l->in);
	for (b = 0; s->sends_direct && b < s->send_blocks; b++)
		copy(l, to + b * bytes,
		     address_of(l->op, l->op->tensors->send, b, k), bytes,
		     cudaMemcpyHostToDevice, l->in);
	order(l, l->in, l->c->staging.loaded[k % STAGING_RING], l->stream);
}

/* Copy chunk @k from its slot, and set its word. */
static void store(struct line *l, size_t k, const struct cohort_tensor *t)
{
	const struct staged *s = l->op->staged;
	const size_t bytes = t->count * s->element;
	const char *from = t->recv;
	struct staging *g = &l->c->staging;
	size_t b;

	if (!s->recvs_direct)
		copy(l, staging_at(l->c, s, k), from, s->recv_blocks * bytes,
		     cudaMemcpyDeviceToHost, l->out);
	for (b = 0; s->recvs_direct && b < s->recv_blocks; b++)
		copy(l, address_of(l->op, l->op->tensors->recv, b, k),
		     from + b * bytes, bytes, cudaMemcpyDeviceToHost, l->out);
	if (l->out == l->stream || l->r.what)
		return;
	native_record_cuda(&l->r, "cuStreamWriteValue32",
	                   l->p->mark(l->out, &g->words[k], s->number));
	native_record_cuda(&l->r, "cudaEventRecord",
	                   l->p->cudaEventRecord(g->stored[k % STAGING_RING],
	                                         l->out));
}

static void launch_chunks(struct line *l, const struct cohort_tensor *t)
{
	struct op op = *l->op;

	if (l->r.what)
		return;
	op.tensors = t;
	call_all(l->c, 1, &op, &l->r);
}

static void launch_chunk(struct line *l, size_t k)
{
	const struct staged *s = l->op->staged;
	const size_t slot = k % STAGING_RING;
	struct staging *g = &l->c->staging;
	const struct cohort_tensor t = tensor_at(l->c, l->op, k);

	if (s->send_blocks)
		load(l, k, &t);
	else
		await_slot(l, l->stream, k);
	launch_chunks(l, &t);
	if (s->recv_blocks) {
		order(l, l->stream, g->worked[slot], l->out);
		store(l, k, &t);
	} else if (s->chunks > 1 && !l->r.what) {
		native_record_cuda(&l->r, "cudaEventRecord",
		                   l->p->cudaEventRecord(g->worked[slot],
		                                         l->stream));
	}
}

/* Make the call's stream wait for all work on the other two streams. */
static struct native_result join(const struct line *l)
{
	const struct staging *g = &l->c->staging;
	struct line rest = *l;

	rest.r = (struct native_result){ .rank = l->r.rank };
	order(&rest, l->in, g->loaded[0], l->stream);
	order(&rest, l->out, g->stored[0], l->stream);
	return rest.r;
}

struct native_result staging_launch(struct cohort_comm *c, const struct op *op)
{
	struct staged *s = op->staged;
	struct line l = {
		.c = c,
		.op = op,
		.p = c->clique->platform,
		.r = { .rank = c->rank },
		.in = s->chunks > 1 ? c->staging.in : op->stream,
		.stream = op->stream,
		.out = s->chunks > 1 ? c->staging.out : op->stream,
	};
	struct native_result joined;
	size_t k;

	for (k = 0; k < s->chunks && !l.r.what; k++) {
		/* All ranks must launch the first chunk.  After a cause, skip
		 * the later chunks, for which no rank waits in a launch. */
		if (k && clique_cause(c->clique))
			native_record_nccl(&l.r, op_native_name(op->kind),
			                   ncclInProgress);
		else
			launch_chunk(&l, k);
	}
	joined = join(&l);
	s->is_lost = joined.what;
	return l.r.what ? l.r : joined;
}
