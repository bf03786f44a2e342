/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Calls with plain host memory, chunk by chunk: copies in, collectives, copies
 * out; declared in staging.h
 *
 *	this thread     data -> staging memory
 *	in              staging memory -> slot      loaded
 *	stream                      collective      worked
 *	out             slot -> staging memory      stored, and the chunk's word
 *	the thread      staging memory -> data, as the words are set
 *
 * Chunk k is in slot k % STAGING_RING, which is empty when chunk k - STAGING_RING
 * is stored or, if nothing is stored on this rank, when that chunk was worked
 * with.  A call of one chunk does all of this on its stream.
 */

#include <string.h>

#include "core/call.h"
#include "core/clique.h"
#include "core/staging.h"

/* The elements of each block that chunk @k has. */
static size_t chunk_count(const struct op *op, size_t k)
{
	const struct staged *s = op->staged;
	size_t left = op->tensors->count - k * s->chunk;

	return left < s->chunk ? left : s->chunk;
}

/* Where chunk @k of block @b is in the caller's @data. */
static char *at(const struct op *op, const void *data, size_t b, size_t k)
{
	const struct staged *s = op->staged;

	return (char *)(uintptr_t)data +
	       (b * op->tensors->count + k * s->chunk) * s->element;
}

static char *staging_at(const struct cohort_comm *c, const struct staged *s,
                        size_t k)
{
	return c->staging.memory + k * s->chunk_bytes;
}

/* Where chunk @k is while the collective works with it. */
static char *slot_at(const struct cohort_comm *c, const struct staged *s,
                     size_t k)
{
	const struct staging *g = &c->staging;

	return g->ring ? g->ring + k % STAGING_RING * s->slot_bytes : g->memory;
}

/* The tensor of the collective of chunk @k, in place where that is possible. */
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

/* ---- copies of this thread's ------------------------------------------ */

static void copy_in(const struct op *op, char *to, size_t k)
{
	const struct staged *s = op->staged;
	size_t b, bytes = chunk_count(op, k) * s->element;

	for (b = 0; bytes && b < s->send_blocks; b++)
		memcpy(to + b * bytes, at(op, op->tensors->send, b, k), bytes);
}

void staging_copy_in(struct cohort_comm *c, const struct op *op)
{
	struct staged *s = op->staged;
	const void *to;
	size_t k;

	for (k = 0; k < s->chunks; k++) {
		to = c->staging.ring ? staging_at(c, s, k)
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
	const char *from = c->staging.ring ? staging_at(c, s, k)
	                                   : tensor_at(c, op, k).recv;

	if (s->recvs_direct || !bytes)
		return;
	for (b = 0; b < s->recv_blocks; b++)
		memcpy(at(op, op->tensors->recv, b, k), from + b * bytes,
		       bytes);
}

bool staging_is_back(const struct cohort_comm *c, const struct staged *s,
                     size_t k)
{
	/* Acquire: with the word comes the chunk. */
	return __atomic_load_n(&c->staging.words[k], __ATOMIC_ACQUIRE) ==
	       s->number;
}

/* ---- chunks ----------------------------------------------------------- */

/* A launch under way. */
struct line {
	struct cohort_comm *c;
	const struct op *op;
	const struct platform *p;
	cudaStream_t in, stream, out;
	struct native_result r;
};

/* Stream @to waits for what is queued on @from now. */
static void order(struct line *l, cudaStream_t from, cudaEvent_t event,
                  cudaStream_t to)
{
	if (from == to || l->r.what)
		return;
	native_note_cuda(&l->r, "cudaEventRecord",
	                 l->p->cudaEventRecord(event, from));
	native_note_cuda(&l->r, "cudaStreamWaitEvent",
	                 l->p->cudaStreamWaitEvent(to, event, 0));
}

/* Have the stream wait until the slot of chunk @k is empty. */
static void await_slot(struct line *l, cudaStream_t stream, size_t k)
{
	const struct staging *g = &l->c->staging;
	const size_t slot = k % STAGING_RING;

	if (k < STAGING_RING || l->r.what)
		return;
	native_note_cuda(&l->r, "cudaStreamWaitEvent",
	                 l->p->cudaStreamWaitEvent(stream,
	                                           l->op->staged->recv_blocks
	                                                   ? g->stored[slot]
	                                                   : g->worked[slot],
	                                           0));
}

/* Queue a copy between a slot and the host's memory, if they are not the
 * same. */
static void copy(struct line *l, void *to, const void *from, size_t bytes,
                 enum cudaMemcpyKind kind, cudaStream_t stream)
{
	if (bytes && l->c->staging.ring && !l->r.what)
		native_note_cuda(&l->r, "cudaMemcpyAsync",
		                 l->p->cudaMemcpyAsync(to, from, bytes, kind,
		                                       stream));
}

static void load(struct line *l, size_t k, const struct cohort_tensor *t)
{
	const struct staged *s = l->op->staged;
	const size_t bytes = t->count * s->element;
	char *to = (char *)(uintptr_t)t->send, *from;
	size_t b;

	from = l->c->staging.ring ? staging_at(l->c, s, k) : to;
	if (!s->sends_direct && !s->is_taken)
		copy_in(l->op, from, k);
	await_slot(l, l->in, k);
	if (!s->sends_direct)
		copy(l, to, from, s->send_blocks * bytes,
		     cudaMemcpyHostToDevice, l->in);
	for (b = 0; s->sends_direct && b < s->send_blocks; b++)
		copy(l, to + b * bytes, at(l->op, l->op->tensors->send, b, k),
		     bytes, cudaMemcpyHostToDevice, l->in);
	order(l, l->in, l->c->staging.loaded[k % STAGING_RING], l->stream);
}

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
		copy(l, at(l->op, l->op->tensors->recv, b, k), from + b * bytes,
		     bytes, cudaMemcpyDeviceToHost, l->out);
	if (l->out == l->stream || l->r.what)
		return;
	native_note_cuda(&l->r, "mark",
	                 l->p->mark(l->out, &g->words[k], s->number));
	native_note_cuda(&l->r, "cudaEventRecord",
	                 l->p->cudaEventRecord(g->stored[k % STAGING_RING],
	                                       l->out));
}

static void work(struct line *l, const struct cohort_tensor *t)
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
	work(l, &t);
	if (s->recv_blocks) {
		order(l, l->stream, g->worked[slot], l->out);
		store(l, k, &t);
	} else if (s->chunks > 1 && !l->r.what) {
		native_note_cuda(&l->r, "cudaEventRecord",
		                 l->p->cudaEventRecord(g->worked[slot],
		                                       l->stream));
	}
}

/* Order all that was queued before what is queued on the stream from now on. */
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
		/* No rank waits for the chunks after the first; the first one
		 * all ranks launch, or none does. */
		if (k && clique_cause(c->clique))
			native_note_nccl(&l.r, op_native_name(op->kind),
			                 ncclInProgress);
		else
			launch_chunk(&l, k);
	}
	joined = join(&l);
	s->is_lost = joined.what; /* then nothing can be ordered after it */
	return l.r.what ? l.r : joined;
}
