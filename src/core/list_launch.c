/* SPDX-License-Identifier: Apache-2.0 */

#include "core/list_launch.h"

#include "base/type.h"
#include "base/util.h"
#include "core/call.h"
#include "core/launch_lock.h"
#include "core/native.h"

/* Alignment of tensors in the buffer; a multiple of any element size. */
#define ALIGN ((size_t)16)

/* Minimum size of the buffer in bytes. */
#define LEAST ((size_t)1 << 20)

static size_t bytes_of(const struct cohort_tensor *t)
{
	return t->count * type_size(t->type);
}

static size_t room_of(const struct cohort_tensor *t)
{
	return (bytes_of(t) + ALIGN - 1) / ALIGN * ALIGN;
}

static bool is_small(const struct clique *q, const struct cohort_tensor *t)
{
	return q->list_way == COHORT_MANY_FLAT ||
	       bytes_of(t) < q->platform->lists.flat_below;
}

/* Return the number of tensors of @op that are packed.  Return 0 if there are
 * too few, or packing is off. */
static size_t packed(const struct clique *q, const struct op *op, bool captured)
{
	const size_t from = q->list_way == COHORT_MANY_FLAT
	                            ? 1
	                            : q->platform->lists.flat_from;
	size_t i, n = 0;

	if (captured || (op->kind != OP_ALL_REDUCE && op->kind != OP_BROADCAST))
		return 0;
	if (q->list_way == COHORT_MANY_GROUP || op->n < from)
		return 0;
	for (i = 0; i < op->n; i++)
		n += is_small(q, &op->tensors[i]);
	return n >= from ? n : 0;
}

static size_t group_most(const struct clique *q)
{
	return q->list_way == COHORT_MANY_GROUP ? SIZE_MAX
	                                        : q->platform->lists.group_most;
}

bool list_is_special(const struct cohort_comm *c, const struct op *op,
                     bool captured)
{
	const struct clique *q = c->clique;

	/* A group of one rank launches almost nothing, so one native group is
	 * enough. */
	if (op->kind == OP_BATCH || op->n < 2 || q->world_size == 1)
		return false;
	return op->n > group_most(q) || packed(q, op, captured);
}

/* Tensors that are packed into the buffer together: the tensors of @type from
 * @first to @end - 1. */
struct part {
	int type;
	size_t first, end;
	size_t bytes;
};

/* Advance @p to the next part: more tensors of the same type or, if there are
 * none, tensors of the next type.  Return false if there is no further part.
 * Before the first call, set the type to -1 and @end to op->n. */
static bool next_part(const struct clique *q, const struct op *op,
                      struct part *p)
{
	const struct cohort_tensor *t;
	size_t i;

	for (;;) {
		p->first = p->end;
		if (p->first >= op->n) {
			if (++p->type > TYPE_LAST)
				return false;
			p->first = 0;
		}
		p->bytes = 0;
		for (i = p->first; i < op->n; i++) {
			t = &op->tensors[i];
			if (t->type != p->type || !is_small(q, t))
				continue;
			if (p->bytes && p->bytes + room_of(t) >
			                        q->platform->lists.flat_most)
				break;
			p->bytes += room_of(t);
		}
		p->end = i;
		if (p->bytes)
			return true;
	}
}

static int grow(struct cohort_comm *c, size_t bytes)
{
	const struct platform *p = c->clique->platform;
	struct flats *f = &c->flats;
	enum cudaStreamCaptureMode mode;
	int rc = memory_section_enter(c->clique);

	if (rc != COHORT_OK)
		return rc;
	mode = native_relax(p);
	if (!f->used)
		rc = NATIVE_CUDA(p, cudaEventCreateWithFlags,
		                 (&f->used, cudaEventDisableTiming));
	if (rc == COHORT_OK)
		rc = native_memory_grow(p, &f->memory, MAX(bytes, LEAST),
		                        false);
	native_restore(p, mode);
	memory_section_end();
	return rc;
}

int list_prepare(struct cohort_comm *c, const struct op *op, bool captured)
{
	struct part p = { .type = -1, .end = op->n };
	size_t most = 0;

	if (!packed(c->clique, op, captured))
		return COHORT_OK;
	while (next_part(c->clique, op, &p))
		most = MAX(most, p.bytes);
	return most <= c->flats.memory.bytes ? COHORT_OK : grow(c, most);
}

static void call(struct cohort_comm *c, const struct op *op,
                 const struct cohort_tensor *tensor, struct native_result *r)
{
	struct op one = *op;

	one.tensors = tensor;
	one.n = 1;
	call_op(c, &one, r);
}

/* Launch the tensors that are not packed. */
static void launch_groups(struct cohort_comm *c, const struct op *op,
                          bool skips_small, struct native_result *r)
{
	const struct clique *q = c->clique;
	const struct platform *p = q->platform;
	const size_t most = group_most(q);
	size_t i, n = 0;

	for (i = 0; i < op->n && !r->what; i++) {
		if (skips_small && is_small(q, &op->tensors[i]))
			continue;
		if (!n)
			native_record_nccl(r, "ncclGroupStart",
			                   p->ncclGroupStart());
		if (!r->what)
			call(c, op, &op->tensors[i], r);
		if (++n < most)
			continue;
		native_record_nccl(r, "ncclGroupEnd", p->ncclGroupEnd());
		n = 0;
	}
	if (n)
		native_record_nccl(r, "ncclGroupEnd", p->ncclGroupEnd());
}

static void copy_part(struct cohort_comm *c, const struct op *op,
                      const struct part *part, char *buffer, bool in,
                      struct native_result *r)
{
	const struct clique *q = c->clique;
	const struct platform *p = q->platform;
	const struct cohort_tensor *t;
	size_t i;

	for (i = part->first; i < part->end && !r->what; i++) {
		t = &op->tensors[i];
		if (t->type != part->type || !is_small(q, t) || !t->count)
			continue;
		native_record_cuda(
			r, "cudaMemcpyAsync",
			in ? p->cudaMemcpyAsync(buffer, t->send, bytes_of(t),
		                                cudaMemcpyDeviceToDevice,
		                                op->stream)
			   : p->cudaMemcpyAsync(t->recv, buffer, bytes_of(t),
		                                cudaMemcpyDeviceToDevice,
		                                op->stream));
		buffer += room_of(t);
	}
}

static void launch_part(struct cohort_comm *c, const struct op *op,
                        const struct part *part, struct native_result *r)
{
	char *buffer = native_memory_at(&c->flats.memory);
	const struct cohort_tensor flat = {
		.send = buffer,
		.recv = buffer,
		.count = part->bytes / type_size(part->type),
		.type = part->type,
	};

	if (op->kind != OP_BROADCAST || c->rank == op->root)
		copy_part(c, op, part, buffer, true, r);
	if (!r->what)
		call(c, op, &flat, r);
	copy_part(c, op, part, buffer, false, r);
}

/* Make the stream wait until other streams no longer use the buffer. */
static void await_buffer(struct cohort_comm *c, cudaStream_t stream,
                         struct native_result *r)
{
	const struct platform *p = c->clique->platform;

	native_record_cuda(r, "cudaStreamWaitEvent",
	                   p->cudaStreamWaitEvent(stream, c->flats.used, 0));
}

static void launch_flat(struct cohort_comm *c, const struct op *op,
                        struct native_result *r)
{
	const struct platform *p = c->clique->platform;
	struct part part = { .type = -1, .end = op->n };

	if (!c->flats.memory.n) /* all tensors are empty */
		return;
	await_buffer(c, op->stream, r);
	while (!r->what && next_part(c->clique, op, &part))
		launch_part(c, op, &part, r);
	if (!r->what)
		native_record_cuda(r, "cudaEventRecord",
		                   p->cudaEventRecord(c->flats.used,
		                                      op->stream));
}

struct native_result list_launch(struct cohort_comm *c, const struct op *op,
                                 bool captured)
{
	const bool packs = packed(c->clique, op, captured);
	struct native_result r = { .rank = c->rank };

	if (packs)
		launch_flat(c, op, &r);
	launch_groups(c, op, packs, &r);
	return r;
}

void list_release(struct cohort_comm *c)
{
	const struct platform *p = c->clique->platform;

	native_memory_free(p, &c->flats.memory, false);
	if (c->flats.used)
		p->cudaEventDestroy(c->flats.used);
	c->flats.used = NULL;
}
