/* SPDX-License-Identifier: Apache-2.0 */

/*
 * CUDA's functions on streams, over stream.h
 */

#include "sim/cuda/capture.h"
#include "sim/cuda/device.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/stream_handle.h"
#include "sim/exec/stream.h"
#include "sim/host.h"
#include "sim/strict/fault.h"

cudaError_t host_cudaStreamCreateWithPriority(cudaStream_t *stream,
                                              unsigned int flags, int priority)
{
	cudaStream_t handle;
	struct stream *s;

	if (!stream || (flags & ~(unsigned int)cudaStreamNonBlocking))
		return device_error(cudaErrorInvalidValue);
	if (stream_permits_calls() != cudaSuccess)
		return device_error(cudaErrorNotPermitted);
	if (fault_sticky(device_current()) != cudaSuccess)
		return device_error(fault_sticky(device_current()));
	s = stream_create(device_current(), !(flags & cudaStreamNonBlocking));
	if (!s)
		return device_error(cudaErrorMemoryAllocation);
	stream_set_priority(s, priority);
	handle = stream_handle_create(s);
	if (!handle) {
		stream_destroy(s);
		return device_error(cudaErrorMemoryAllocation);
	}
	*stream = handle;
	return cudaSuccess;
}

cudaError_t host_cudaStreamCreateWithFlags(cudaStream_t *stream,
                                           unsigned int flags)
{
	return host_cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t host_cudaStreamCreate(cudaStream_t *stream)
{
	return host_cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t host_cudaStreamDestroy(cudaStream_t stream)
{
	struct stream *s = NULL;
	cudaError_t error;

	/* The default streams cannot be destroyed. */
	if (stream && stream != cudaStreamLegacy &&
	    stream != cudaStreamPerThread)
		s = stream_find(stream);
	if (s && stream_permits_calls() == cudaSuccess)
		capture_leave(s);
	error = capture_permits(s);
	if (error != cudaSuccess)
		return device_error(error);
	error = fault_sticky(s->device); /* it may be another device's soon */
	stream_handle_destroy(stream);
	stream_destroy(s);
	return device_error(error);
}

/* The error that keeps the calling thread from asking about @s or waiting for
 * it; cudaSuccess if nothing does. */
static cudaError_t check_question(const struct stream *s)
{
	cudaError_t error = capture_permits(s);

	return error != cudaSuccess || !s ? error : fault_of_device(s->device);
}

/* As the legacy default stream orders itself behind the blocking streams and
 * they behind it, it is idle when all of them are. */
static bool legacy_is_idle(struct stream *s)
{
	struct stream *other = NULL;
	bool idle = true;
	uint64_t position;

	while ((other = stream_next_of(other, s->device, true, &position))) {
		stream_help(other, position);
		idle = idle && stream_is_done(other, position);
	}
	return idle;
}

cudaError_t host_cudaStreamSynchronize(cudaStream_t stream)
{
	struct stream *s = stream_find(stream);
	cudaError_t error = check_question(s);

	if (error != cudaSuccess)
		return device_error(error);
	if (s->legacy)
		stream_wait_device(s->device, true);
	else
		stream_wait(s, s->queued);
	return device_error(fault_of_device(s->device));
}

cudaError_t host_cudaStreamQuery(cudaStream_t stream)
{
	struct stream *s = stream_find(stream);
	cudaError_t error = check_question(s);
	bool idle;

	if (error != cudaSuccess)
		return device_error(error);
	if (s->legacy) {
		idle = legacy_is_idle(s);
	} else {
		idle = stream_is_done(s, s->queued);
		if (!idle) {
			stream_help(s, s->queued);
			idle = stream_is_done(s, s->queued);
		}
	}
	error = fault_of_device(s->device);
	if (error == cudaSuccess && !idle)
		error = cudaErrorNotReady;
	return device_error(error);
}

cudaError_t host_cudaDeviceSynchronize(void)
{
	cudaError_t error = capture_permits_device_wait(device_current());

	if (error == cudaSuccess)
		error = fault_of_device(device_current());
	if (error != cudaSuccess)
		return device_error(error);
	stream_wait_device(device_current(), false);
	return device_error(fault_of_device(device_current()));
}

/* It changes nothing here: managed memory can be used everywhere. */
cudaError_t host_cudaStreamAttachMemAsync(cudaStream_t stream, void *memory,
                                          size_t bytes, unsigned int flags)
{
	cudaError_t error;
	struct memory m;

	if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost &&
	    flags != cudaMemAttachSingle)
		return device_error(cudaErrorInvalidValue);
	if (flags == cudaMemAttachSingle &&
	    (!stream || stream == cudaStreamLegacy))
		return device_error(cudaErrorInvalidValue);
	error = capture_permits(stream_find(stream));
	if (error != cudaSuccess)
		return device_error(error);
	if (!memory_find(memory, &m))
		return memory && bytes ? cudaSuccess
		                       : device_error(cudaErrorInvalidValue);
	if (m.kind != MEMORY_MANAGED || m.freed || m.start != memory ||
	    (bytes && bytes != m.bytes))
		return device_error(cudaErrorInvalidValue);
	return cudaSuccess;
}
