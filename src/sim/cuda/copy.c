/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements copies and memset, of bytes and of rows
 *
 * As in CUDA, a call that copies from or to pageable memory waits for the copy,
 * because programs reuse the source as soon as the call returns.
 */

#include "sim/cuda/copy.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/cuda_device.h"
#include "sim/cuda/memory_table.h"
#include "sim/cuda/stream_capture.h"
#include "sim/cuda/stream_handle.h"
#include "sim/cuda/sync.h"
#include "sim/host.h"
#include "sim/strict/fault.h"

/* Largest copy, in bytes, that is done in the call that queues it.  Another
 * thread does larger copies. */
#define ENQUEUE_BYTES ((size_t)16 * 1024)

/* Number of bytes that a thread copies before it checks the time. */
#define PIECE_BYTES ((size_t)1024 * 1024)

#define MAX_PITCH ((size_t)2147483647)

/* Return how many of @bytes the calling thread may copy before it checks the
 * time, or 0 if it must leave the copy to another thread. */
static size_t allowed(size_t bytes, const struct drive *d)
{
	if (d->effort == EFFORT_ENQUEUE && bytes > ENQUEUE_BYTES)
		return 0;
	return bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
}

static bool overlap(const struct work *w)
{
	uintptr_t a = (uintptr_t)w->copy.dst, b = (uintptr_t)w->copy.src;

	return (a < b ? b - a : a - b) < w->copy.bytes;
}

/* Return true if the device of @s may access the range.  Otherwise, mark the
 * device as failed; the calling step function must then not use the range. */
static bool may_use(const struct stream *s, const void *p, size_t bytes,
                    bool write)
{
	if (memory_may_use(p, bytes, write))
		return true;
	fault_fail_device(s->device, cudaErrorIllegalAddress);
	return false;
}

static enum step copy_step(struct stream *s, struct work *w,
                           const struct drive *d)
{
	size_t n;

	if (!may_use(s, w->copy.dst, w->copy.bytes, true) ||
	    !may_use(s, w->copy.src, w->copy.bytes, false))
		return STEP_DONE;
	/* Move overlapping buffers in one piece, because each piece might
	 * overwrite the source of the next. */
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

/* Fill memory with elements of @size bytes.  Each element consists of the low
 * bytes of @value. */
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

	if (!may_use(s, w->set.memory, w->set.bytes, true))
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

/* ---- scripted faults of paths ----------------------------------------- */

static int device_of(const void *p)
{
	struct memory m;

	return memory_find(p, &m) && (m.kind == MEMORY_DEVICE ||
	                              m.kind == MEMORY_MAPPED)
	               ? m.device
	               : -1;
}

/* Return the scripted fault of the path that a copy takes.  A copy between a
 * device and host memory takes the device's own path. */
static struct cohort_fault path_fault(const void *dst, const void *src)
{
	const int a = device_of(dst), b = device_of(src);

	return fault_between(a >= 0 ? a : b, b >= 0 ? b : a);
}

/* Hold a copy back until the scripted fault of its path is cleared. */
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
	if (may_use(s, w->set.memory, 1, true))
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

cudaError_t copy_garble(struct stream *s, void *memory, uint64_t *position_out)
{
	const struct work w = {
		.step = garble_step,
		.set = { .memory = memory, .bytes = 1 },
	};

	return stream_submit(s, &w, &set_kind, position_out);
}

/* Submit a copy as copy_submit() does, and apply the scripted fault of its
 * path, if any. */
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
		error = copy_garble(s, dst, position_out);
	return error;
}

/* Return the error that prevents the calling thread from queueing work on @s
 * and waiting for the work, or cudaSuccess. */
static cudaError_t permits_wait(struct stream *s)
{
	cudaError_t error = capture_permits(s);

	return error == cudaSuccess ? capture_permits_unsafe() : error;
}

static cudaError_t permits(struct stream *s, bool wait)
{
	return wait ? permits_wait(s) : stream_permits_calls();
}

static bool kind_is_valid(enum cudaMemcpyKind kind)
{
	return (int)kind >= cudaMemcpyHostToHost &&
	       (int)kind <= cudaMemcpyDefault;
}

/* Return true if pageable host memory makes the copy synchronous. */
static bool is_pageable(const void *dst, size_t dst_bytes, const void *src,
                        size_t src_bytes)
{
	return !memory_is_known(dst, dst_bytes) ||
	       !memory_is_known(src, src_bytes);
}

static void sync_before(const struct stream *s, bool wait)
{
	if (wait && !capture_has(s))
		sync_copy(s->device);
}

static cudaError_t finish(struct stream *s, cudaError_t error, bool wait,
                          uint64_t position)
{
	if (error != cudaSuccess || !wait)
		return error;
	stream_wait(s, position);
	return fault_sticky(s->device);
}

static cudaError_t copy(void *dst, const void *src, size_t bytes,
                        enum cudaMemcpyKind kind, cudaStream_t stream,
                        bool wait)
{
	struct stream *s = stream_find(stream);
	cudaError_t error;
	uint64_t position;

	if (!kind_is_valid(kind))
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
	error = permits(s, wait);
	if (error != cudaSuccess)
		return device_error(error);
	/* A caller that passes cudaMemcpyDeviceToDevice is trusted to pass no
	 * pageable memory. */
	wait = wait || (kind != cudaMemcpyDeviceToDevice &&
	                is_pageable(dst, bytes, src, bytes));
	sync_before(s, wait);
	if (fault_is_scripted() && !capture_has(s))
		error = submit_on_path(s, dst, src, bytes, &position);
	else
		error = copy_submit(s, dst, src, bytes, &position);
	return device_error(finish(s, error, wait, position));
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
	uint64_t position = 0;

	if ((count && !memory) || (uintptr_t)memory % size ||
	    count > SIZE_MAX / size)
		return cudaErrorInvalidValue;
	if (!s)
		return cudaErrorInvalidResourceHandle;
	if (!count)
		return cudaSuccess;
	if (!memory_may_use(memory, w.set.bytes, true))
		return cudaErrorInvalidValue;
	error = permits(s, wait);
	if (error == cudaSuccess)
		error = stream_submit(s, &w, &set_kind, &position);
	return finish(s, error, wait, position);
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

/* ---- rows -------------------------------------------------------------- */

/* The parameters of a copy or fill of rows.  The queued work itself contains
 * only a pointer to this structure and the number of rows that are done. */
struct rows {
	/* Atomic; reference count.  Acquire and release, so that the last user
	 * frees the block only after all other users are done with it. */
	atomic_int holders;

	/* The following members are constant. */
	char *dst;
	const char *src; /* source, or NULL to fill with value */
	size_t dst_pitch, src_pitch;
	size_t width, height;
	int value;
};

static struct rows *rows_create(const struct rows *wanted)
{
	struct rows *r = malloc(sizeof(*r));

	if (!r)
		return NULL;
	*r = *wanted;
	atomic_init(&r->holders, 1);
	return r;
}

static void rows_put(struct rows *r)
{
	if (atomic_fetch_sub_explicit(&r->holders, 1, memory_order_acq_rel) ==
	    1)
		free(r);
}

static void row_do(const struct rows *r, size_t row)
{
	char *dst = r->dst + row * r->dst_pitch;

	if (r->src)
		memmove(dst, r->src + row * r->src_pitch, r->width);
	else
		memset(dst, r->value, r->width);
}

/* Return the number of bytes from the first byte of the first row to the end of
 * the last row, or SIZE_MAX if the number overflows. */
static size_t extent(size_t pitch, size_t width, size_t height)
{
	size_t all;

	if (!height)
		return 0;
	return __builtin_mul_overflow(height - 1, pitch, &all) ||
	                       __builtin_add_overflow(all, width, &all)
	               ? SIZE_MAX
	               : all;
}

static size_t dst_extent(const struct rows *r)
{
	return extent(r->dst_pitch, r->width, r->height);
}

static size_t src_extent(const struct rows *r)
{
	return extent(r->src_pitch, r->width, r->height);
}

static bool rows_may_use(const struct stream *s, const struct rows *r)
{
	return may_use(s, r->dst, dst_extent(r), true) &&
	       (!r->src || may_use(s, r->src, src_extent(r), false));
}

static enum step rows_step(struct stream *s, struct work *w,
                           const struct drive *d)
{
	struct rows *r = w->rows.what;
	size_t bytes = 0;

	if (!rows_may_use(s, r)) {
		rows_put(r);
		return STEP_DONE;
	}
	if (d->effort == EFFORT_ENQUEUE && r->width * r->height > ENQUEUE_BYTES)
		return STEP_LEFT;
	while (w->rows.done < r->height) {
		row_do(r, w->rows.done++);
		bytes += r->width;
		if (bytes < PIECE_BYTES)
			continue;
		bytes = 0;
		if (w->rows.done < r->height && drive_is_late(d))
			return STEP_LEFT;
	}
	rows_put(r);
	return STEP_DONE;
}

static void keep_rows(struct work *w)
{
	/* Relaxed, because the caller already holds a reference. */
	add_relaxed(&w->rows.what->holders, 1);
}

static void drop_rows(struct work *w)
{
	rows_put(w->rows.what);
}

static const struct graph_kind copy_rows_kind = {
	.type = cudaGraphNodeTypeMemcpy,
	.keep = keep_rows,
	.drop = drop_rows,
};

static const struct graph_kind set_rows_kind = {
	.type = cudaGraphNodeTypeMemset,
	.keep = keep_rows,
	.drop = drop_rows,
};

static cudaError_t push_rows(const struct rows *wanted, cudaStream_t stream,
                             bool wait)
{
	struct stream *s = stream_find(stream);
	struct work w = { .step = rows_step };
	const size_t dst_bytes = dst_extent(wanted);
	const size_t src_bytes = src_extent(wanted);
	cudaError_t error;
	uint64_t position;

	if (!s)
		return cudaErrorInvalidResourceHandle;
	if (!wanted->width || !wanted->height)
		return cudaSuccess;
	if (!memory_may_use(wanted->dst, dst_bytes, true) ||
	    (wanted->src && !memory_may_use(wanted->src, src_bytes, false)))
		return cudaErrorInvalidValue;
	error = permits(s, wait);
	if (error != cudaSuccess)
		return error;
	if (wanted->src) {
		wait = wait || is_pageable(wanted->dst, dst_bytes, wanted->src,
		                           src_bytes);
		sync_before(s, wait);
	}
	w.rows.what = rows_create(wanted);
	if (!w.rows.what)
		return cudaErrorMemoryAllocation;
	error = stream_submit(s, &w,
	                      wanted->src ? &copy_rows_kind : &set_rows_kind,
	                      &position);
	if (error != cudaSuccess)
		rows_put(w.rows.what);
	return finish(s, error, wait, position);
}

static bool pitch_is_valid(size_t pitch, size_t width)
{
	return pitch >= width && pitch <= MAX_PITCH;
}

static cudaError_t copy_rows(void *dst, size_t dst_pitch, const void *src,
                             size_t src_pitch, size_t width, size_t height,
                             enum cudaMemcpyKind kind, cudaStream_t stream,
                             bool wait)
{
	const struct rows r = {
		.dst = dst,
		.src = src,
		.dst_pitch = dst_pitch,
		.src_pitch = src_pitch,
		.width = width,
		.height = height,
	};

	if (!pitch_is_valid(dst_pitch, width) ||
	    !pitch_is_valid(src_pitch, width))
		return device_error(cudaErrorInvalidPitchValue);
	if (!kind_is_valid(kind))
		return device_error(cudaErrorInvalidMemcpyDirection);
	if (width && height && (!dst || !src))
		return device_error(cudaErrorInvalidValue);
	return device_error(push_rows(&r, stream, wait));
}

cudaError_t host_cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src,
                                   size_t src_pitch, size_t width,
                                   size_t height, enum cudaMemcpyKind kind,
                                   cudaStream_t stream)
{
	return copy_rows(dst, dst_pitch, src, src_pitch, width, height, kind,
	                 stream, false);
}

cudaError_t host_cudaMemcpy2D(void *dst, size_t dst_pitch, const void *src,
                              size_t src_pitch, size_t width, size_t height,
                              enum cudaMemcpyKind kind)
{
	return copy_rows(dst, dst_pitch, src, src_pitch, width, height, kind,
	                 cudaStreamLegacy, true);
}

static cudaError_t set_rows(void *memory, size_t pitch, int value, size_t width,
                            size_t height, cudaStream_t stream, bool wait)
{
	const struct rows r = {
		.dst = memory,
		.dst_pitch = pitch,
		.width = width,
		.height = height,
		.value = value,
	};

	/* The pitch of a single row is ignored. */
	if (width && height && (!memory || (height > 1 && pitch < width)))
		return device_error(cudaErrorInvalidValue);
	return device_error(push_rows(&r, stream, wait));
}

cudaError_t host_cudaMemset2DAsync(void *memory, size_t pitch, int value,
                                   size_t width, size_t height,
                                   cudaStream_t stream)
{
	return set_rows(memory, pitch, value, width, height, stream, false);
}

cudaError_t host_cudaMemset2D(void *memory, size_t pitch, int value,
                              size_t width, size_t height)
{
	return set_rows(memory, pitch, value, width, height, cudaStreamLegacy,
	                true);
}

/* ---- copies between devices ------------------------------------------- */

static cudaError_t check_peers(int dst, int src)
{
	return device_is_valid(dst) && device_is_valid(src)
	               ? cudaSuccess
	               : device_error(cudaErrorInvalidDevice);
}

cudaError_t host_cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src,
                                     int src_device, size_t bytes,
                                     cudaStream_t stream)
{
	cudaError_t error = check_peers(dst_device, src_device);

	if (error != cudaSuccess)
		return error;
	return host_cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream);
}

/* As in CUDA, the copy runs after all earlier work on both devices. */
cudaError_t host_cudaMemcpyPeer(void *dst, int dst_device, const void *src,
                                int src_device, size_t bytes)
{
	cudaError_t error = check_peers(dst_device, src_device);

	if (error == cudaSuccess)
		error = device_error(
			permits_wait(stream_legacy(device_current())));
	if (error != cudaSuccess)
		return error;
	stream_wait_device(dst_device, false);
	stream_wait_device(src_device, false);
	return host_cudaMemcpy(dst, src, bytes, cudaMemcpyDefault);
}
