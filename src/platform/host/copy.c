/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Copies and memset of the host platform
 *
 * Where CUDA must go through pageable memory it makes the caller wait, and
 * programs rely on that (they reuse the source at once): so do we.
 */

#include "platform/host/copy.h"

#include <string.h>

#include "platform/host/device.h"
#include "platform/host/host.h"
#include "platform/host/memory.h"

/* What a call that queues work may spend on doing it. */
#define ENQUEUE_BYTES (16 * 1024)

static enum step copy_step(struct stream *s, struct work *w, enum effort effort)
{
	(void)s;
	if (effort == EFFORT_ENQUEUE && w->copy.bytes > ENQUEUE_BYTES)
		return STEP_LATER;
	if (w->copy.dst != w->copy.src)
		memmove(w->copy.dst, w->copy.src, w->copy.bytes);
	return STEP_DONE;
}

static enum step set_step(struct stream *s, struct work *w, enum effort effort)
{
	(void)s;
	if (effort == EFFORT_ENQUEUE && w->set.bytes > ENQUEUE_BYTES)
		return STEP_LATER;
	memset(w->set.memory, w->set.value, w->set.bytes);
	return STEP_DONE;
}

void copy_push(struct stream *s, void *dst, const void *src, size_t bytes,
               uint64_t *position_out)
{
	struct work w = {
		.step = copy_step,
		.copy = { .dst = dst, .src = src, .bytes = bytes },
	};

	stream_push(s, &w, position_out);
}

static bool kind_is_valid(enum cudaMemcpyKind kind)
{
	return (int)kind >= cudaMemcpyHostToHost &&
	       (int)kind <= cudaMemcpyDefault;
}

static cudaError_t copy(void *dst, const void *src, size_t bytes,
                        enum cudaMemcpyKind kind, cudaStream_t stream,
                        bool wait)
{
	struct stream *s = stream_find(stream);
	uint64_t position;

	if (!kind_is_valid(kind) || (bytes && (!dst || !src)))
		return device_error(cudaErrorInvalidValue);
	if (!s)
		return device_error(cudaErrorInvalidResourceHandle);
	if (!bytes)
		return cudaSuccess;
	copy_push(s, dst, src, bytes, &position);
	if (wait || !memory_is_known(dst, bytes) ||
	    !memory_is_known(src, bytes))
		stream_wait(s, position);
	return cudaSuccess;
}

cudaError_t host_cudaMemcpyAsync(void *dst, const void *src, size_t bytes,
                                 enum cudaMemcpyKind kind, cudaStream_t stream)
{
	return copy(dst, src, bytes, kind, stream, false);
}

cudaError_t host_cudaMemcpy(void *dst, const void *src, size_t bytes,
                            enum cudaMemcpyKind kind)
{
	return copy(dst, src, bytes, kind, cudaStreamLegacy, true);
}

static cudaError_t set(void *memory, int value, size_t bytes,
                       cudaStream_t stream, bool wait)
{
	struct stream *s = stream_find(stream);
	struct work w = {
		.step = set_step,
		.set = { .memory = memory, .bytes = bytes, .value = value },
	};
	uint64_t position;

	if (bytes && !memory)
		return device_error(cudaErrorInvalidValue);
	if (!s)
		return device_error(cudaErrorInvalidResourceHandle);
	if (!bytes)
		return cudaSuccess;
	stream_push(s, &w, &position);
	if (wait)
		stream_wait(s, position);
	return cudaSuccess;
}

cudaError_t host_cudaMemsetAsync(void *memory, int value, size_t bytes,
                                 cudaStream_t stream)
{
	return set(memory, value, bytes, stream, false);
}

cudaError_t host_cudaMemset(void *memory, int value, size_t bytes)
{
	return set(memory, value, bytes, cudaStreamLegacy, true);
}
