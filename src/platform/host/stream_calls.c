/* SPDX-License-Identifier: Apache-2.0 */

/*
 * CUDA's functions on streams, over stream.h
 */

#include "platform/host/device.h"
#include "platform/host/host.h"
#include "platform/host/stream.h"

cudaError_t host_cudaStreamCreateWithFlags(cudaStream_t *stream,
                                           unsigned int flags)
{
	struct stream *s;

	if (!stream || (flags & ~(unsigned int)cudaStreamNonBlocking))
		return device_error(cudaErrorInvalidValue);
	s = stream_create(device_current(), !(flags & cudaStreamNonBlocking));
	if (!s)
		return device_error(cudaErrorMemoryAllocation);
	*stream = (cudaStream_t)s;
	return cudaSuccess;
}

cudaError_t host_cudaStreamCreate(cudaStream_t *stream)
{
	return host_cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t host_cudaStreamDestroy(cudaStream_t stream)
{
	struct stream *s = stream_find(stream);

	if (!s || s->legacy)
		return device_error(cudaErrorInvalidResourceHandle);
	stream_destroy(s);
	return cudaSuccess;
}

/* Wait for all that is queued on the streams of a device. */
static void device_wait(int device, bool only_blocking)
{
	struct stream *s = NULL;

	while ((s = stream_next_of(s, device, only_blocking)))
		stream_wait(s, s->queued);
}

/* As the legacy default stream orders itself behind the blocking streams and
 * they behind it, it is idle when all of them are. */
static bool legacy_is_idle(struct stream *s)
{
	struct stream *other = NULL;
	bool idle = true;

	while ((other = stream_next_of(other, s->device, true))) {
		stream_help(other, other->queued);
		idle = idle && stream_is_done(other, other->queued);
	}
	return idle;
}

cudaError_t host_cudaStreamSynchronize(cudaStream_t stream)
{
	struct stream *s = stream_find(stream);

	if (!s)
		return device_error(cudaErrorInvalidResourceHandle);
	if (s->legacy)
		device_wait(s->device, true);
	else
		stream_wait(s, s->queued);
	return cudaSuccess;
}

cudaError_t host_cudaStreamQuery(cudaStream_t stream)
{
	struct stream *s = stream_find(stream);
	bool idle;

	if (!s)
		return device_error(cudaErrorInvalidResourceHandle);
	if (s->legacy) {
		idle = legacy_is_idle(s);
	} else {
		stream_help(s, s->queued);
		idle = stream_is_done(s, s->queued);
	}
	return device_error(idle ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t host_cudaDeviceSynchronize(void)
{
	device_wait(device_current(), false);
	return cudaSuccess;
}

static enum step host_step(struct stream *s, struct work *w,
                           const struct drive *d)
{
	(void)s;
	if (d->effort != EFFORT_OWN)
		return STEP_LATER;
	/* It may take its time: others must not wait for our kicks. */
	stream_settle();
	w->host.fn(w->host.user);
	return STEP_DONE;
}

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
	stream_push(s, &w, NULL);
	return cudaSuccess;
}
