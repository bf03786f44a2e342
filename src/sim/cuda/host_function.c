/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Host functions and callbacks: functions of the program that a stream calls
 */

#include "sim/cuda/cuda_device.h"
#include "sim/cuda/stream_capture.h"
#include "sim/cuda/stream_handle.h"
#include "sim/exec/stream_queue.h"
#include "sim/host.h"

static enum step host_step(struct stream *s, struct work *w,
                           const struct drive *d)
{
	(void)s;
	if (d->effort != EFFORT_OWN)
		return STEP_LATER;
	/* The function may take its time: other threads must not wait for this
	 * one's kicks. */
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

static const struct graph_kind host_kind = { .type = cudaGraphNodeTypeHost };

cudaError_t host_cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn,
                                    void *user)
{
	struct stream *s = stream_find(stream);
	struct work w = {
		.step = host_step,
		.host = { .fn = fn, .user = user },
	};

	if (!fn)
		return device_error(cudaErrorInvalidValue);
	if (!s)
		return device_error(cudaErrorInvalidResourceHandle);
	if (stream_permits_calls() != cudaSuccess)
		return device_error(cudaErrorNotPermitted);
	return device_error(stream_submit(s, &w, &host_kind, NULL));
}

cudaError_t host_cudaStreamAddCallback(cudaStream_t stream,
                                       cudaStreamCallback_t fn, void *user,
                                       unsigned int flags)
{
	struct stream *s = stream_find(stream);
	struct work w = {
		.step = callback_step,
		.callback = { .fn = (void (*)(void))fn,
		              .user = user,
		              .handle = stream },
	};

	if (!fn || flags)
		return device_error(cudaErrorInvalidValue);
	if (!s)
		return device_error(cudaErrorInvalidResourceHandle);
	if (stream_permits_calls() != cudaSuccess)
		return device_error(cudaErrorNotPermitted);
	return device_error(stream_submit(s, &w, NULL, NULL));
}
