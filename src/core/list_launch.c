/* SPDX-License-Identifier: Apache-2.0 */

#include "core/list_launch.h"

#include "base/status.h"
#include "base/type.h"
#include "base/util.h"
#include "core/call.h"
#include "core/launch_lock.h"
#include "core/native.h"

/* Tensors begin in the buffer at multiples of this: whole elements of any
 * type. */
#define ALIGN ((size_t)16)

/* ---- the plan --------------------------------------------------------- */

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

/* How many tensors of @op are packed; 0: too few, or packing is off. */
static size_t packed(const struct clique *q, const struct op *op, bool captured)
{
	const size_t from = q->list_way == COHORT_MANY_FLAT
	                            ? 1
	                            : q->platform->lists.flat_from;
	size_t i, n = 0;

	if (captured || (op->kind != OP_ALL_REDUCE && op->kind != OP_BROADCAST))
		return 0;
	if (q->list_way == COHORT_MANY_GROUP ||
	    q->list_way == COHORT_MANY_ALONE || op->n < from)
		return 0;
	for (i = 0; i < op->n; i++)
		n += is_small(q, &op->tensors[i]);
	return n >= from ? n : 0;
}

/* How many tensors one native group may have; 1: they are launched without
 * one. */
static size_t group_most(const struct clique *q)
{
	return q->list_way == COHORT_MANY_ALONE ? 1
	       : q->list_way == COHORT_MANY_GROUP
	               ? SIZE_MAX
	               : q->platform->lists.group_most;
}

bool list_is_special(const struct cohort_comm *c, const struct op *op,
                     bool captured)
{
	const struct clique *q = c->clique;

	/* A rank on its own has hardly anything to launch. */
	if (op->kind == OP_BATCH || op->n < 2 || q->world_size == 1)
		return false;
	return op->n > group_most(q) || packed(q, op, captured);
}

/* One buffer's worth: tensors of a type, from @first on, up to @end. */
struct part {
	int type;
	size_t first, end;
	size_t bytes;
};

/* Find the part after @p, of the same type or of the next type that the list
 * has; false if there is none.  Begin with type -1 and an end of n. */
static bool next_part(const struct clique *q, const struct op *op,
                      struct part *p)
{
	const struct cohort_tensor *t;
	size_t i;

	for (;;) {
		p->first = p->end;
		if (p->first >= op->n) {
			if (++p->type >= ncclNumTypes)
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

/* ---- before ----------------------------------------------------------- */

/* In a memory section.  The former buffer is kept until the communicator
 * ends. */
static int grow_inside(struct cohort_comm *c, size_t bytes)
{
	const struct platform *p = c->clique->platform;
	struct flats *f = &c->flats;
	size_t room = f->room ? 2 * f->room : (size_t)1 << 20;
	void *memory;
	int rc;

	while (room < bytes)
		room *= 2;
	if (!f->used) {
		rc = native_set_cuda_error(
			p, "cudaEventCreateWithFlags",
			p->cudaEventCreateWithFlags(&f->used,
		                                    cudaEventDisableTiming));
		if (rc != COHORT_OK)
			return rc;
	}
	rc = native_set_cuda_error(p, "cudaMalloc",
	                           p->cudaMalloc(&memory, room));
	if (rc != COHORT_OK)
		return rc;
	f->memory[f->n++] = memory;
	f->room = room;
	return COHORT_OK;
}

static int grow(struct cohort_comm *c, size_t bytes)
{
	enum cudaStreamCaptureMode mode;
	int rc = memory_section_enter(c->clique);

	if (rc != COHORT_OK)
		return rc;
	mode = native_relax(c->clique->platform);
	rc = grow_inside(c, bytes);
	native_restore(c->clique->platform, mode);
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
	return most <= c->flats.room ? COHORT_OK : grow(c, most);
}

/* ---- launching -------------------------------------------------------- */

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
		if (!n && most > 1)
			native_note_nccl(r, "ncclGroupStart",
			                 p->ncclGroupStart());
		if (!r->what)
			call(c, op, &op->tensors[i], r);
		if (++n < most)
			continue;
		if (most > 1)
			native_note_nccl(r, "ncclGroupEnd", p->ncclGroupEnd());
		n = 0;
	}
	if (n)
		native_note_nccl(r, "ncclGroupEnd", p->ncclGroupEnd());
}

/* Copy the tensors of a part into the buffer, or out of it. */
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
		native_note_cuda(
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
	char *buffer = c->flats.memory[c->flats.n - 1];
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

/* Have the stream wait for what another stream still does with the buffer. */
static void take_buffer(struct cohort_comm *c, cudaStream_t stream,
                        struct native_result *r)
{
	const struct platform *p = c->clique->platform;

	native_note_cuda(r, "cudaStreamWaitEvent",
	                 p->cudaStreamWaitEvent(stream, c->flats.used, 0));
}

static void launch_flat(struct cohort_comm *c, const struct op *op,
                        struct native_result *r)
{
	const struct platform *p = c->clique->platform;
	struct part part = { .type = -1, .end = op->n };

	if (!c->flats.n) /* all tensors are empty */
		return;
	take_buffer(c, op->stream, r);
	while (!r->what && next_part(c->clique, op, &part))
		launch_part(c, op, &part, r);
	if (!r->what)
		native_note_cuda(r, "cudaEventRecord",
		                 p->cudaEventRecord(c->flats.used, op->stream));
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

	while (c->flats.n)
		p->cudaFree(c->flats.memory[--c->flats.n]);
	if (c->flats.used)
		p->cudaEventDestroy(c->flats.used);
	c->flats = (struct flats){ .n = 0 };
}
