/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Calls with plain host memory: how they are cut, and the memory for them.
 * staging_launch.c makes the copies and the launches
 */

#include "core/staging.h"

#include <string.h>

#include "base/status.h"
#include "base/type.h"
#include "base/util.h"
#include "core/clique.h"
#include "core/launch_lock.h"
#include "core/native.h"

/* Bytes of a chunk on the device.  To launch the copies and the collective of a
 * chunk takes tens of microseconds, in which a copy engine moves half a
 * megabyte: with chunks of eight times that, little is lost.  And the way in of
 * the first chunk and the way out of the last one, which overlap with nothing,
 * must be short beside the rest. */
#define CHUNK_BYTES ((size_t)4 << 20)

/* A chunk has a multiple of so many elements, so that chunks are aligned as
 * well as the whole. */
#define CHUNK_MULTIPLE 128

/* Up to this size memory is a power of two, above it a multiple of this; it
 * grows at least to twice its size, so that what is kept of it is at most as
 * much again. */
#define GROW_STEP ((size_t)64 << 20)

/* Constant while any call is under way. */
static size_t chunk_wanted = CHUNK_BYTES;

void staging_set_chunk(size_t bytes)
{
	chunk_wanted = bytes ? bytes : CHUNK_BYTES;
}

/* True if collectives work with slots on the device, not with the staging
 * memory. */
static bool has_slots(const struct cohort_comm *c)
{
	return !c->clique->platform->memory_is_host;
}

/* ---- how it is cut ---------------------------------------------------- */

static size_t chunk_of(size_t count, size_t bytes_per_element)
{
	size_t least = DIVIDE_UP(count, STAGING_CHUNKS);
	size_t chunk = chunk_wanted / bytes_per_element;

	chunk = ROUND_UP(MAX(chunk, least), CHUNK_MULTIPLE);
	return chunk ? chunk : CHUNK_MULTIPLE;
}

/* Blocks of count elements that the collective works with. */
static size_t all_blocks(const struct cohort_comm *c, const struct op *op)
{
	const size_t world = (size_t)c->clique->world_size;

	/* Not in place: the blocks that are sent, and those that are
	 * received. */
	if (op->kind == OP_ALL_TO_ALL)
		return 2 * world;
	return op_has_blocks(op->kind) ? world : 1;
}

void staging_plan(struct staged *s, const struct cohort_comm *c,
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
		s->chunk = chunk_of(t->count, s->element * blocks);
	if (s->chunk < t->count)
		s->chunks = DIVIDE_UP(t->count, s->chunk);
	else
		s->chunk = t->count;
	s->slot_bytes = s->chunk * s->element * blocks;
	s->chunk_bytes = s->slot_bytes;
}

/* ---- what kind of memory it is ---------------------------------------- */

/* The type of memory as CUDA knows it; what CUDA does not know is plain
 * memory. */
static enum cudaMemoryType type_of(const struct platform *p, const void *at)
{
	struct cudaPointerAttributes a = { .type = cudaMemoryTypeUnregistered };

	if (p->cudaPointerGetAttributes(&a, at) == cudaSuccess)
		return a.type;
	p->cudaGetLastError();
	return cudaMemoryTypeUnregistered;
}

/* Find out whether the device can copy the @bytes at @at by itself, as all of
 * them are pinned.  (Only if two registrations have a hole between them is the
 * middle of another kind than both ends.) */
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
		                 "%s: %s is %p, memory of a device: it is for "
		                 "host memory",
		                 op_name_of(op), name, at);
	*is_pinned = first == cudaMemoryTypeHost &&
	             type_of(p, (const char *)at + bytes - 1) == first;
	return COHORT_OK;
}

static int look_at_both(const struct cohort_comm *c, const struct op *op,
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
	/* A caller that does not wait until the end may leave while a copy is
	 * under way. */
	s->sends_direct = sends_pinned && s->timeout_ns == COHORT_FOREVER;
	s->recvs_direct = recvs_pinned && s->timeout_ns == COHORT_FOREVER;
	return COHORT_OK;
}

/* ---- memory ----------------------------------------------------------- */

/* The size of memory for @bytes, after memory of @former bytes. */
static size_t room_for(size_t bytes, size_t former)
{
	size_t room = 4096;

	bytes = MAX(bytes, 2 * former);
	if (bytes > GROW_STEP)
		return ROUND_UP(bytes, GROW_STEP);
	while (room < bytes)
		room *= 2;
	return room;
}

static int grow_memory(struct cohort_comm *c, size_t bytes)
{
	const struct platform *p = c->clique->platform;
	struct staging *g = &c->staging;
	void *memory;
	int rc;

	if (bytes <= g->bytes)
		return COHORT_OK;
	bytes = room_for(bytes, g->bytes);
	rc = native_set_cuda_error(p, "cudaHostAlloc",
	                           p->cudaHostAlloc(&memory, bytes,
	                                            cudaHostAllocPortable));
	if (rc != COHORT_OK)
		return rc;
	if (g->memory)
		g->kept[g->kept_n++] = g->memory;
	g->memory = memory;
	g->bytes = bytes;
	return COHORT_OK;
}

static int grow_ring(struct cohort_comm *c, size_t slot_bytes)
{
	const struct platform *p = c->clique->platform;
	struct staging *g = &c->staging;
	void *ring;
	int rc;

	if (slot_bytes <= g->slot_bytes)
		return COHORT_OK;
	slot_bytes = room_for(slot_bytes, g->slot_bytes);
	rc = native_set_cuda_error(p, "cudaMalloc",
	                           p->cudaMalloc(&ring,
	                                         STAGING_RING * slot_bytes));
	if (rc != COHORT_OK)
		return rc;
	if (g->ring)
		g->kept_rings[g->kept_rings_n++] = g->ring;
	g->ring = ring;
	g->slot_bytes = slot_bytes;
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

/* Make what is missing of the streams, events and words. */
static int make_order(struct cohort_comm *c)
{
	const struct platform *p = c->clique->platform;
	struct staging *g = &c->staging;
	struct native_result r = { .what = NULL };
	const size_t bytes = STAGING_CHUNKS * sizeof(*g->words);
	void *words;

	if (g->words)
		return COHORT_OK;
	native_note_cuda(&r, "cudaStreamCreateWithFlags",
	                 make_stream(p, &g->in));
	native_note_cuda(&r, "cudaStreamCreateWithFlags",
	                 make_stream(p, &g->out));
	native_note_cuda(&r, "cudaEventCreateWithFlags",
	                 make_events(p, g->loaded));
	native_note_cuda(&r, "cudaEventCreateWithFlags",
	                 make_events(p, g->worked));
	native_note_cuda(&r, "cudaEventCreateWithFlags",
	                 make_events(p, g->stored));
	if (!r.what)
		native_note_cuda(&r, "cudaHostAlloc",
		                 p->cudaHostAlloc(&words, bytes,
		                                  cudaHostAllocPortable |
		                                          cudaHostAllocMapped));
	if (r.what)
		return native_set_cuda_error(p, r.what, r.cuda);
	g->words = memset(words, 0, bytes);
	return COHORT_OK;
}

/* What a call takes. */
struct room {
	size_t bytes;
	size_t slot_bytes; /* 0: nothing on the device */
	bool in_order;
};

static bool has_room(const struct staging *g, const struct room *room)
{
	return room->bytes <= g->bytes && room->slot_bytes <= g->slot_bytes &&
	       (!room->in_order || g->words);
}

/* In a memory section, if anything is missing.  The former memory is kept: to
 * free it would wait for the device. */
static int make_room(struct cohort_comm *c, const struct room *room)
{
	enum cudaStreamCaptureMode mode;
	int rc = COHORT_OK;

	if (has_room(&c->staging, room))
		return rc;
	rc = memory_section_enter(c->clique);
	if (rc != COHORT_OK)
		return rc;
	mode = native_relax(c->clique->platform);
	if (room->in_order)
		rc = make_order(c);
	if (rc == COHORT_OK)
		rc = grow_memory(c, room->bytes);
	if (rc == COHORT_OK)
		rc = grow_ring(c, room->slot_bytes);
	native_restore(c->clique->platform, mode);
	memory_section_end();
	return rc;
}

int staging_prepare(struct cohort_comm *c, const struct op *op,
                    struct staged *s)
{
	struct room room = { .bytes = 0 };
	size_t blocks;
	int rc;

	staging_plan(s, c, op);
	s->number = ++c->staging.number;
	/* Also of a call of nothing: it needs an address. */
	room.bytes = s->slot_bytes + !s->slot_bytes;
	if (!has_slots(c))
		return make_room(c, &room);
	rc = look_at_both(c, op, s);
	if (rc != COHORT_OK)
		return rc;
	blocks = s->sends_direct ? 0 : s->send_blocks;
	if (!s->recvs_direct && s->recv_blocks > blocks)
		blocks = s->recv_blocks;
	s->chunk_bytes = s->chunk * s->element * blocks;
	room.bytes = s->chunks * s->chunk_bytes;
	/* Also of a call of nothing: it needs an address. */
	room.slot_bytes = s->slot_bytes + !s->slot_bytes;
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
	while (g->kept_rings_n)
		p->cudaFree(g->kept_rings[--g->kept_rings_n]);
	while (g->kept_n)
		p->cudaFreeHost(g->kept[--g->kept_n]);
	if (g->ring)
		p->cudaFree(g->ring);
	if (g->memory)
		p->cudaFreeHost(g->memory);
	memset(g, 0, sizeof(*g));
}
