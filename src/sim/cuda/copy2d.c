/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Copies and memset of rows, and copies between devices
 *
 * What is to be done is in a block of its own, which all that still use it
 * share.  The work in a stream only has how much is done.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/copy.h"
#include "sim/cuda/cuda_device.h"
#include "sim/cuda/memory_table.h"
#include "sim/cuda/stream_capture.h"
#include "sim/cuda/stream_handle.h"
#include "sim/cuda/sync.h"
#include "sim/host.h"
#include "sim/strict/fault.h"

#define MAX_PITCH ((size_t)2147483647)

/* A driver looks at the clock between two pieces of this size. */
#define PIECE_BYTES ((size_t)1024 * 1024)

struct rows {
	/* Atomic; how many use it.  Acquire and release: the last user sees
	 * what the others did. */
	atomic_int holders;

	/* Constant. */
	char *dst;
	const char *src; /* NULL: set to value */
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

/* How many bytes the rows span, from the first byte to behind the last;
 * SIZE_MAX if that is too much. */
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
	return copy_may_use(s, r->dst, dst_extent(r), true) &&
	       (!r->src || copy_may_use(s, r->src, src_extent(r), false));
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
	if (d->effort == EFFORT_ENQUEUE &&
	    r->width * r->height > COPY_ENQUEUE_BYTES)
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
	/* Relaxed: the caller is one. */
	add_relaxed(&w->rows.what->holders, 1);
}

static void drop_rows(struct work *w)
{
	rows_put(w->rows.what);
}

static const struct graph_kind copy_kind = {
	.type = cudaGraphNodeTypeMemcpy,
	.keep = keep_rows,
	.drop = drop_rows,
};

static const struct graph_kind set_kind = {
	.type = cudaGraphNodeTypeMemset,
	.keep = keep_rows,
	.drop = drop_rows,
};

static cudaError_t push_rows(const struct rows *wanted, cudaStream_t stream,
                             bool wait)
{
	struct stream *s = stream_find(stream);
	struct work w = { .step = rows_step };
	cudaError_t error;
	uint64_t position;

	if (!s)
		return device_error(cudaErrorInvalidResourceHandle);
	if (!wanted->width || !wanted->height)
		return cudaSuccess;
	if (!memory_may_use(wanted->dst, dst_extent(wanted), true) ||
	    (wanted->src &&
	     !memory_may_use(wanted->src, src_extent(wanted), false)))
		return device_error(cudaErrorInvalidValue);
	error = wait ? copy_may_wait(s) : stream_permits_calls();
	if (error != cudaSuccess)
		return device_error(error);
	w.rows.what = rows_create(wanted);
	if (!w.rows.what)
		return device_error(cudaErrorMemoryAllocation);
	error = stream_submit(s, &w, wanted->src ? &copy_kind : &set_kind,
	                      &position);
	if (error != cudaSuccess) {
		rows_put(w.rows.what);
		return device_error(error);
	}
	if (!wait)
		return cudaSuccess;
	stream_wait(s, position);
	return device_error(fault_sticky(s->device));
}

/* ---- copies ----------------------------------------------------------- */

static bool is_pageable(const struct rows *r)
{
	return !memory_is_known(r->dst, dst_extent(r)) ||
	       !memory_is_known(r->src, src_extent(r));
}

static cudaError_t check_pitch(size_t pitch, size_t width)
{
	return pitch < width || pitch > MAX_PITCH ? cudaErrorInvalidPitchValue
	                                          : cudaSuccess;
}

static void wait_for_devices(cudaStream_t stream)
{
	const struct stream *s = stream_find(stream);

	if (s && !capture_has(s))
		sync_copy(s->device);
}

/* @wait: the work is to be done when the call returns. */
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
	const bool is_empty = !width || !height;
	cudaError_t error = check_pitch(dst_pitch, width);

	if (error == cudaSuccess)
		error = check_pitch(src_pitch, width);
	if (error != cudaSuccess)
		return device_error(error);
	if (!copy_kind_is_valid(kind))
		return device_error(cudaErrorInvalidMemcpyDirection);
	if (!is_empty && (!dst || !src))
		return device_error(cudaErrorInvalidValue);
	if (!is_empty && (wait || is_pageable(&r)))
		wait_for_devices(stream);
	error = push_rows(&r, stream, wait);
	/* Then pageable memory is the caller's again. */
	if (error == cudaSuccess && !wait && is_pageable(&r) &&
	    !capture_has(stream_find(stream)))
		stream_wait(stream_find(stream), stream_find(stream)->queued);
	return error;
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

/* ---- memset ----------------------------------------------------------- */

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

	/* If there is only one row its pitch is not used. */
	if (width && height && (!memory || (height > 1 && pitch < width)))
		return device_error(cudaErrorInvalidValue);
	return push_rows(&r, stream, wait);
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

/* ---- between devices -------------------------------------------------- */

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

/* It is ordered behind all work of both devices. */
cudaError_t host_cudaMemcpyPeer(void *dst, int dst_device, const void *src,
                                int src_device, size_t bytes)
{
	cudaError_t error = check_peers(dst_device, src_device);

	if (error == cudaSuccess)
		error = device_error(
			copy_may_wait(stream_legacy(device_current())));
	if (error != cudaSuccess)
		return error;
	stream_wait_device(dst_device, false);
	stream_wait_device(src_device, false);
	return host_cudaMemcpy(dst, src, bytes, cudaMemcpyDefault);
}
