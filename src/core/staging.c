/* SPDX-License-Identifier: Apache-2.0 */

/* Cuts calls with plain host memory into chunks, and allocates memory for them;
 * staging_launch.c makes the copies and the launches */

#include "core/staging.h"

#include <string.h>

#include "base/status.h"
#include "base/type.h"
#include "base/util.h"
#include "core/clique.h"
#include "core/launch_lock.h"
#include "core/native.h"

/* The number of elements in a chunk is a multiple of this, so that every chunk
 * has the same alignment as the whole buffer. */
#define CHUNK_MULTIPLE 128

/* Return true if collectives work in slots on the device, and false if they
 * work in the staging memory. */
static bool has_slots(const struct cohort_comm *c)
{
	return !c->clique->platform->memory_is_host;
}

static size_t chunk_of(const struct cohort_comm *c, size_t count,
                       size_t bytes_per_element)
{
	size_t least = DIVIDE_UP(count, STAGING_CHUNKS);
	size_t chunk = c->clique->platform->chunk_bytes / bytes_per_element;

	chunk = ROUND_UP(MAX(chunk, least), CHUNK_MULTIPLE);
	return chunk ? chunk : CHUNK_MULTIPLE;
}

/* Return the number of blocks of count elements that the collective works
 * with. */
static size_t all_blocks(const struct cohort_comm *c, const struct op *op)
{
	const size_t world = (size_t)c->clique->world_size;

	/* The call is not in place, so there are blocks to send and blocks to
	 * receive. */
	if (op->kind == OP_ALL_TO_ALL)
		return 2 * world;
	return op_has_blocks(op->kind) ? world : 1;
}

static void plan(struct staged *s, const struct cohort_comm *c,
                 const struct op *op)
{
	const struct cohort_tensor *t = op->tensors;
	const size_t blocks = all_blocks(c, op);

	op_blocks(op, c->rank, c->clique->world_size, &s->send_blocks,
	          &s->recv_blocks);
	/* The root's data is in place already. */
	if (op->kind == OP_BROADCAST && c->rank == op->root)
		s->recv_blocks = 0;
	s->element = type_size(t->type);
	s->chunk = t->count;
	s->chunks = 1;
	if (has_slots(c))
		s->chunk = chunk_of(c, t->count, s->element * blocks);
	if (s->chunk < t->count)
		s->chunks = DIVIDE_UP(t->count, s->chunk);
	else
		s->chunk = t->count;
	s->slot_bytes = s->chunk * s->element * blocks;
	s->chunk_bytes = s->slot_bytes;
}

/* Return the type of memory that CUDA reports.  Memory that CUDA does not know
 * is plain host memory. */
static enum cudaMemoryType type_of(const struct platform *p, const void *at)
{
	struct cudaPointerAttributes a = { .type = cudaMemoryTypeUnregistered };

	if (p->cudaPointerGetAttributes(&a, at) == cudaSuccess)
		return a.type;
	p->cudaGetLastError();
	return cudaMemoryTypeUnregistered;
}

/* Find out whether the @bytes at @at are pinned, so that the device can copy
 * them directly.  Only both ends are checked: the middle can differ from them
 * only if it is a gap between two registrations. */
static int find_pinned(const struct cohort_comm *c, const struct op *op,
                       const char *name, const void *at, size_t bytes,
                       bool *is_pinned)
{
	const struct platform *p = c->clique->platform;
	enum cudaMemoryType first;

	*is_pinned = false;
	if (!bytes)
		return COHORT_OK;
	first = type_of(p, at);
	if (first == cudaMemoryTypeDevice)
		return error_set(COHORT_INVALID,
		                 "%s: %s is %p, which is device memory: pass "
		                 "host memory",
		                 op_name_of(op), name, at);
	*is_pinned = first == cudaMemoryTypeHost &&
	             type_of(p, (const char *)at + bytes - 1) == first;
	return COHORT_OK;
}

static int check_buffers(const struct cohort_comm *c, const struct op *op,
                         struct staged *s)
{
	const struct cohort_tensor *t = op->tensors;
	const size_t block = t->count * s->element;
	bool sends_pinned, recvs_pinned;
	int rc;

	rc = find_pinned(c, op, op_buffer_name(op, "send"), t->send,
	                 s->send_blocks * block, &sends_pinned);
	if (rc == COHORT_OK)
		rc = find_pinned(c, op, op_buffer_name(op, "recv"), t->recv,
		                 s->recv_blocks * block, &recvs_pinned);
	if (rc != COHORT_OK)
		return rc;
	/* A caller with a timeout may return during a copy, so the device must
	 * not copy directly. */
	s->sends_direct = sends_pinned && s->timeout_ns == COHORT_FOREVER;
	s->recvs_direct = recvs_pinned && s->timeout_ns == COHORT_FOREVER;
	return COHORT_OK;
}

static cudaError_t make_events(const struct platform *p, cudaEvent_t *events)
{
	cudaError_t error = cudaSuccess;
	int i;

	for (i = 0; i < STAGING_RING && error == cudaSuccess; i++)
		if (!events[i])
			error = p->cudaEventCreateWithFlags(
				&events[i], cudaEventDisableTiming);
	return error;
}

static cudaError_t make_stream(const struct platform *p, cudaStream_t *stream)
{
	return *stream ? cudaSuccess
	               : p->cudaStreamCreateWithFlags(stream,
	                                              cudaStreamNonBlocking);
}

static int create_order(struct cohort_comm *c)
{
	const struct platform *p = c->clique->platform;
	struct staging *g = &c->staging;
	struct native_result r = { .what = NULL };
	const size_t bytes = STAGING_CHUNKS * sizeof(*g->words);
	void *words;

	if (g->words)
		return COHORT_OK;
	native_record_cuda(&r, "cudaStreamCreateWithFlags",
	                   make_stream(p, &g->in));
	native_record_cuda(&r, "cudaStreamCreateWithFlags",
	                   make_stream(p, &g->out));
	native_record_cuda(&r, "cudaEventCreateWithFlags",
	                   make_events(p, g->loaded));
	native_record_cuda(&r, "cudaEventCreateWithFlags",
	                   make_events(p, g->worked));
	native_record_cuda(&r, "cudaEventCreateWithFlags",
	                   make_events(p, g->stored));
	if (!r.what)
		native_record_cuda(
			&r, "cudaHostAlloc",
			p->cudaHostAlloc(&words, bytes,
		                         cudaHostAllocPortable |
		                                 cudaHostAllocMapped));
	if (r.what)
		return native_set_cuda_error(p, r.what, r.cuda);
	g->words = memset(words, 0, bytes);
	return COHORT_OK;
}

struct room {
	size_t bytes;      /* size of the staging memory */
	size_t ring_bytes; /* 0 if nothing is needed on the device */
	bool in_order;     /* true if streams, events and words are needed */
};

static bool has_room(const struct staging *g, const struct room *room)
{
	return room->bytes <= g->memory.bytes &&
	       room->ring_bytes <= g->ring.bytes &&
	       (!room->in_order || g->words);
}

/* Allocate the missing memory, in a memory section. */
static int make_room(struct cohort_comm *c, const struct room *room)
{
	const struct platform *p = c->clique->platform;
	struct staging *g = &c->staging;
	enum cudaStreamCaptureMode mode;
	int rc = COHORT_OK;

	if (has_room(g, room))
		return rc;
	rc = memory_section_enter(c->clique);
	if (rc != COHORT_OK)
		return rc;
	mode = native_relax(p);
	if (room->in_order)
		rc = create_order(c);
	if (rc == COHORT_OK)
		rc = native_memory_grow(p, &g->memory, room->bytes, true);
	if (rc == COHORT_OK)
		rc = native_memory_grow(p, &g->ring, room->ring_bytes, false);
	native_restore(p, mode);
	memory_section_end();
	return rc;
}

int staging_prepare(struct cohort_comm *c, const struct op *op,
                    struct staged *s)
{
	struct room room = { .bytes = 0 };
	size_t blocks;
	int rc;

	plan(s, c, op);
	s->number = ++c->staging.number;
	/* At least one byte, because even an empty call needs an address. */
	room.bytes = s->slot_bytes + !s->slot_bytes;
	if (!has_slots(c))
		return make_room(c, &room);
	rc = check_buffers(c, op, s);
	if (rc != COHORT_OK)
		return rc;
	blocks = s->sends_direct ? 0 : s->send_blocks;
	if (!s->recvs_direct && s->recv_blocks > blocks)
		blocks = s->recv_blocks;
	s->chunk_bytes = s->chunk * s->element * blocks;
	room.bytes = s->chunks * s->chunk_bytes;
	/* At least one byte, because even an empty call needs an address. */
	room.ring_bytes = STAGING_RING * (s->slot_bytes + !s->slot_bytes);
	room.in_order = s->chunks > 1;
	return make_room(c, &room);
}

static void destroy_events(const struct platform *p, cudaEvent_t *events)
{
	int i;

	for (i = 0; i < STAGING_RING; i++)
		if (events[i])
			p->cudaEventDestroy(events[i]);
}

void staging_release(struct cohort_comm *c)
{
	const struct platform *p = c->clique->platform;
	struct staging *g = &c->staging;

	destroy_events(p, g->loaded);
	destroy_events(p, g->worked);
	destroy_events(p, g->stored);
	if (g->in)
		p->cudaStreamDestroy(g->in);
	if (g->out)
		p->cudaStreamDestroy(g->out);
	if (g->words)
		p->cudaFreeHost(g->words);
	native_memory_free(p, &g->ring, false);
	native_memory_free(p, &g->memory, true);
	memset(g, 0, sizeof(*g));
}
