/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements CUDA's functions on streams
 *
 * The priority and id of a stream have no effect, except that the program can
 * query them.
 */

#include "sim/cuda/cuda_device.h"
#include "sim/cuda/memory_table.h"
#include "sim/cuda/stream_capture.h"
#include "sim/cuda/stream_handle.h"
#include "sim/exec/stream_queue.h"
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
	s->priority = device_priority(priority);
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
	error = fault_sticky(s->device); /* read before @s can be reused */
	stream_handle_destroy(stream);
	stream_destroy(s);
	return device_error(error);
}

/* Return the error that prevents the calling thread from querying @s or waiting
 * for it, or cudaSuccess. */
static cudaError_t check_question(const struct stream *s)
{
	cudaError_t error = capture_permits(s);

	return error != cudaSuccess || !s ? error : fault_of_device(s->device);
}

/* Return true if the legacy default stream is idle.  It is idle only if all
 * blocking streams are idle, because it waits for them and they wait for it. */
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

/* Do nothing but check the arguments, because all devices can always use
 * managed memory. */
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

/* Find the stream of a handle, for a query that stores its result in @out.
 * Return an error if the handle is invalid or @out is NULL. */
static cudaError_t stream_fact(cudaStream_t stream, const void *out,
                               struct stream **found)
{
	*found = stream_find(stream);
	if (!*found)
		return device_error(cudaErrorInvalidResourceHandle);
	if (!out)
		return device_error(cudaErrorInvalidValue);
	return cudaSuccess;
}

#define STREAM_FACT(function, type, value)                                     \
	cudaError_t host_##function(cudaStream_t stream, type *out)            \
	{                                                                      \
		struct stream *s;                                              \
		cudaError_t error = stream_fact(stream, out, &s);              \
                                                                               \
		if (error == cudaSuccess)                                      \
			*out = (value);                                        \
		return error;                                                  \
	}

STREAM_FACT(cudaStreamGetFlags, unsigned int,
            s->blocking ? cudaStreamDefault : cudaStreamNonBlocking)
STREAM_FACT(cudaStreamGetPriority, int, s->priority)
STREAM_FACT(cudaStreamGetId, unsigned long long, s->id)

/* As in CUDA, a query during a capture invalidates the capture. */
cudaError_t host_cudaStreamGetDevice(cudaStream_t stream, int *device)
{
	struct stream *s;
	cudaError_t error = stream_fact(stream, device, &s);

	if (error == cudaSuccess)
		error = device_error(capture_permits(s));
	if (error == cudaSuccess)
		*device = s->device;
	return error;
}

/* ---- functions of the program that a stream calls ----------------------- */

static enum step host_step(struct stream *s, struct work *w,
                           const struct drive *d)
{
	(void)s;
	if (d->effort != EFFORT_OWN)
		return STEP_LATER;
	/* Do the cheap work of other streams first, because the function can
	 * take a long time. */
	stream_settle();
	device_forbid_calls(true);
	w->host.fn(w->host.user);
	device_forbid_calls(false);
	return STEP_DONE;
}

static enum step callback_step(struct stream *s, struct work *w,
                               const struct drive *d)
{
	(void)s;
	if (d->effort != EFFORT_OWN)
		return STEP_LATER;
	stream_settle();
	device_forbid_calls(true);
	((cudaStreamCallback_t)w->callback.fn)(w->callback.handle, cudaSuccess,
	                                       w->callback.user);
	device_forbid_calls(false);
	return STEP_DONE;
}

/* Queue a call of a function.  If @kind is not NULL, a graph can capture the
 * call as a node of this kind. */
static cudaError_t submit(cudaStream_t stream, const struct work *w,
                          const struct graph_kind *kind)
{
	struct stream *s = stream_find(stream);

	if (!s)
		return device_error(cudaErrorInvalidResourceHandle);
	if (stream_permits_calls() != cudaSuccess)
		return device_error(cudaErrorNotPermitted);
	return device_error(stream_submit(s, w, kind, NULL));
}

cudaError_t host_cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn,
                                    void *user)
{
	static const struct graph_kind kind = { .type = cudaGraphNodeTypeHost };
	const struct work w = {
		.step = host_step,
		.host = { .fn = fn, .user = user },
	};

	return fn ? submit(stream, &w, &kind)
	          : device_error(cudaErrorInvalidValue);
}

cudaError_t host_cudaStreamAddCallback(cudaStream_t stream,
                                       cudaStreamCallback_t fn, void *user,
                                       unsigned int flags)
{
	const struct work w = {
		.step = callback_step,
		.callback = { .fn = (void (*)(void))fn,
		              .user = user,
		              .handle = stream },
	};

	return fn && !flags ? submit(stream, &w, NULL)
	                    : device_error(cudaErrorInvalidValue);
}
