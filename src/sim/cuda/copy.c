/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Copies and memset
 *
 * Where CUDA must go through pageable memory it makes the caller wait, and
 * programs rely on that: they reuse the source at once.  So the call waits
 * here, too.
 */

#include "sim/cuda/copy.h"

#include <string.h>

#include "sim/cuda/cuda_device.h"
#include "sim/cuda/memory_table.h"
#include "sim/cuda/stream_capture.h"
#include "sim/cuda/stream_handle.h"
#include "sim/cuda/sync.h"
#include "sim/host.h"
#include "sim/strict/fault.h"

/* A driver looks at the clock between two pieces of this size. */
#define PIECE_BYTES ((size_t)1024 * 1024)

/* How much of @bytes a driver may do now; 0: it must leave the work. */
static size_t allowed(size_t bytes, const struct drive *d)
{
	if (d->effort == EFFORT_ENQUEUE && bytes > COPY_ENQUEUE_BYTES)
		return 0;
	return bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
}

static bool overlap(const struct work *w)
{
	uintptr_t a = (uintptr_t)w->copy.dst, b = (uintptr_t)w->copy.src;

	return (a < b ? b - a : a - b) < w->copy.bytes;
}

bool copy_may_use(const struct stream *s, const void *p, size_t bytes,
                  bool write)
{
	if (memory_may_use(p, bytes, write))
		return true;
	fault_fail_device(s->device, cudaErrorIllegalAddress);
	return false;
}

/* What is left of the work stays in it. */
static enum step copy_step(struct stream *s, struct work *w,
                           const struct drive *d)
{
	size_t n;

	if (!copy_may_use(s, w->copy.dst, w->copy.bytes, true) ||
	    !copy_may_use(s, w->copy.src, w->copy.bytes, false))
		return STEP_DONE;
	/* Buffers that overlap must be moved in one piece. */
	if (d->effort != EFFORT_ENQUEUE && overlap(w)) {
		memmove(w->copy.dst, w->copy.src, w->copy.bytes);
		return STEP_DONE;
	}
	while (w->copy.bytes) {
		n = allowed(w->copy.bytes, d);
		if (!n)
			return STEP_LEFT;
		memmove(w->copy.dst, w->copy.src, n);
		w->copy.dst = (char *)w->copy.dst + n;
		w->copy.src = (const char *)w->copy.src + n;
		w->copy.bytes -= n;
		if (w->copy.bytes && drive_is_late(d))
			return STEP_LEFT;
	}
	return STEP_DONE;
}

/* Fill with elements of @size bytes, as a little-endian @value has them. */
static void fill(char *p, size_t bytes, uint32_t value, size_t size)
{
	size_t i;

	if (size == 1)
		memset(p, (int)value, bytes);
	for (i = 0; size > 1 && i < bytes; i += size)
		memcpy(p + i, &value, size);
}

static enum step set_step(struct stream *s, struct work *w,
                          const struct drive *d)
{
	size_t n;

	if (!copy_may_use(s, w->set.memory, w->set.bytes, true))
		return STEP_DONE;
	while (w->set.bytes) {
		n = allowed(w->set.bytes, d);
		if (!n)
			return STEP_LEFT;
		fill(w->set.memory, n, w->set.value, w->set.size);
		w->set.memory = (char *)w->set.memory + n;
		w->set.bytes -= n;
		if (w->set.bytes && drive_is_late(d))
			return STEP_LEFT;
	}
	return STEP_DONE;
}

/* ---- scripted faults of paths -------------------------------------------- */

/* The device whose memory @p is, or -1. */
static int device_of(const void *p)
{
	struct memory m;

	return memory_find(p, &m) && (m.kind == MEMORY_DEVICE ||
	                              m.kind == MEMORY_MAPPED)
	               ? m.device
	               : -1;
}

/* The fault of the path that a copy takes.  The host's memory is on every
 * device's own path. */
static struct cohort_fault path_fault(const void *dst, const void *src)
{
	const int a = device_of(dst), b = device_of(src);

	return fault_between(a >= 0 ? a : b, b >= 0 ? b : a);
}

/* The path is dead until the script is cleared. */
static enum step dead_step(struct stream *s, struct work *w,
                           const struct drive *d)
{
	if (path_fault(w->copy.dst, w->copy.src).kind == COHORT_FAULT_PATH)
		return STEP_WATCH;
	w->step = copy_step;
	return copy_step(s, w, d);
}

static enum step garble_step(struct stream *s, struct work *w,
                             const struct drive *d)
{
	(void)d;
	if (copy_may_use(s, w->set.memory, 1, true))
		*(unsigned char *)w->set.memory ^= 1;
	return STEP_DONE;
}

static const struct graph_kind copy_kind = { .type = cudaGraphNodeTypeMemcpy };
static const struct graph_kind set_kind = { .type = cudaGraphNodeTypeMemset };

cudaError_t copy_submit(struct stream *s, void *dst, const void *src,
                        size_t bytes, uint64_t *position_out)
{
	const struct work w = {
		.step = copy_step,
		.copy = { .dst = dst, .src = src, .bytes = bytes },
	};

	return stream_submit(s, &w, &copy_kind, position_out);
}

static cudaError_t submit_garble(struct stream *s, void *memory,
                                 uint64_t *position_out)
{
	const struct work w = {
		.step = garble_step,
		.set = { .memory = memory, .bytes = 1 },
	};

	return stream_submit(s, &w, &set_kind, position_out);
}

cudaError_t copy_garble(struct stream *s, void *memory)
{
	return submit_garble(s, memory, NULL);
}

/* As copy_submit(), on a path that a scripted fault may strike. */
static cudaError_t submit_on_path(struct stream *s, void *dst, const void *src,
                                  size_t bytes, uint64_t *position_out)
{
	const struct cohort_fault fault = path_fault(dst, src);
	struct work w = {
		.step = dead_step,
		.copy = { .dst = dst, .src = src, .bytes = bytes },
	};
	cudaError_t error;

	if (fault.kind == COHORT_FAULT_PATH && !fault.value)
		return stream_submit(s, &w, &copy_kind, position_out);
	if (fault.kind == COHORT_FAULT_PATH) {
		if (cuda_error_is_sticky((cudaError_t)fault.value))
			fault_fail_device(s->device, (int)fault.value);
		return (cudaError_t)fault.value;
	}
	error = copy_submit(s, dst, src, bytes, position_out);
	if (error == cudaSuccess && fault.kind == COHORT_FAULT_GARBLE)
		error = submit_garble(s, dst, position_out);
	return error;
}

cudaError_t copy_may_wait(struct stream *s)
{
	cudaError_t error = capture_permits(s);

	return error == cudaSuccess ? capture_permits_unsafe() : error;
}

bool copy_kind_is_valid(enum cudaMemcpyKind kind)
{
	return (int)kind >= cudaMemcpyHostToHost &&
	       (int)kind <= cudaMemcpyDefault;
}

/* Pageable memory of the host makes a copy wait.  What the caller says is a
 * device's is taken for that, as in collectives. */
static bool may_wait(const void *dst, const void *src, size_t bytes,
                     enum cudaMemcpyKind kind)
{
	return kind != cudaMemcpyDeviceToDevice &&
	       (!memory_is_known(dst, bytes) || !memory_is_known(src, bytes));
}

static cudaError_t copy(void *dst, const void *src, size_t bytes,
                        enum cudaMemcpyKind kind, cudaStream_t stream,
                        bool wait)
{
	struct stream *s = stream_find(stream);
	cudaError_t error;
	uint64_t position;

	if (!copy_kind_is_valid(kind))
		return device_error(cudaErrorInvalidMemcpyDirection);
	if (bytes && (!dst || !src))
		return device_error(cudaErrorInvalidValue);
	if (!s)
		return device_error(cudaErrorInvalidResourceHandle);
	if (!bytes)
		return cudaSuccess;
	if (!memory_may_use(dst, bytes, true) ||
	    !memory_may_use(src, bytes, false))
		return device_error(cudaErrorInvalidValue);
	error = wait ? copy_may_wait(s) : stream_permits_calls();
	wait = wait || may_wait(dst, src, bytes, kind);
	if (error == cudaSuccess && wait && !capture_has(s))
		sync_copy(s->device);
	if (error == cudaSuccess && fault_is_scripted() && !capture_has(s))
		error = submit_on_path(s, dst, src, bytes, &position);
	else if (error == cudaSuccess)
		error = copy_submit(s, dst, src, bytes, &position);
	if (error != cudaSuccess)
		return device_error(error);
	if (!wait)
		return cudaSuccess;
	stream_wait(s, position);
	return device_error(fault_sticky(s->device));
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

cudaError_t copy_set(void *memory, uint32_t value, size_t count, size_t size,
                     cudaStream_t stream, bool wait)
{
	struct stream *s = stream_find(stream);
	const struct work w = {
		.step = set_step,
		.set = { .memory = memory,
		         .bytes = count * size,
		         .value = value,
		         .size = (unsigned int)size },
	};
	cudaError_t error;
	uint64_t position;

	if ((count && !memory) || (uintptr_t)memory % size ||
	    count > SIZE_MAX / size)
		return cudaErrorInvalidValue;
	if (!s)
		return cudaErrorInvalidResourceHandle;
	if (!count)
		return cudaSuccess;
	if (!memory_may_use(memory, w.set.bytes, true))
		return cudaErrorInvalidValue;
	error = wait ? copy_may_wait(s) : stream_permits_calls();
	if (error == cudaSuccess)
		error = stream_submit(s, &w, &set_kind, &position);
	if (error != cudaSuccess || !wait)
		return error;
	stream_wait(s, position);
	return fault_sticky(s->device);
}

cudaError_t host_cudaMemsetAsync(void *memory, int value, size_t bytes,
                                 cudaStream_t stream)
{
	return device_error(copy_set(memory, (unsigned char)value, bytes, 1,
	                             stream, false));
}

cudaError_t host_cudaMemset(void *memory, int value, size_t bytes)
{
	return device_error(copy_set(memory, (unsigned char)value, bytes, 1,
	                             cudaStreamLegacy, true));
}
