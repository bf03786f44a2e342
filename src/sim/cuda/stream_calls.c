/* SPDX-License-Identifier: Apache-2.0 */

/*
 * CUDA's functions on streams, over exec/stream_queue.h; and what a stream is:
 * flags, priority, number, device and attributes, which the host platform
 * remembers and has no other use for
 */

#include <string.h>

#include "base/scoped_lock.h"
#include "sim/cuda/cuda_device.h"
#include "sim/cuda/memory_table.h"
#include "sim/cuda/stream_capture.h"
#include "sim/cuda/stream_handle.h"
#include "sim/exec/stream_queue.h"
#include "sim/host.h"
#include "sim/strict/fault.h"

/* What cudaStreamSetAttribute() sets, as exec keeps it for a stream. */
struct attributes {
	bool is_set; /* false: all have CUDA's defaults */
	struct cudaAccessPolicyWindow accessPolicyWindow;
	enum cudaSynchronizationPolicy syncPolicy;
	cudaLaunchMemSyncDomainMap memSyncDomainMap;
	cudaLaunchMemSyncDomain memSyncDomain;
	int priority;
};

_Static_assert(sizeof(struct attributes) <= STREAM_ATTRIBUTES,
               "a stream has room for its attributes");

/* The attributes of @s, whose lock is held. */
static struct attributes *attributes_locked(struct stream *s)
{
	struct attributes *a = (struct attributes *)s->attributes;

	if (!a->is_set)
		*a = (struct attributes){
			.is_set = true,
			.syncPolicy = cudaSyncPolicyAuto,
			.memSyncDomainMap = { .remote = 1 },
		};
	return a;
}

static void set_priority(struct stream *s, int priority)
{
	SCOPED_LOCK(&s->lock);
	attributes_locked(s)->priority = device_priority(priority);
}

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
	set_priority(s, priority);
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

/* The stream of a handle for a function that stores something in @out; NULL if
 * there is none or @out is NULL. */
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

cudaError_t host_cudaStreamGetFlags(cudaStream_t stream, unsigned int *flags)
{
	struct stream *s;
	cudaError_t error = stream_fact(stream, flags, &s);

	if (error == cudaSuccess)
		*flags =
			s->blocking ? cudaStreamDefault : cudaStreamNonBlocking;
	return error;
}

cudaError_t host_cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
	struct stream *s;
	cudaError_t error = stream_fact(stream, priority, &s);

	if (error != cudaSuccess)
		return error;
	SCOPED_LOCK(&s->lock);
	*priority = attributes_locked(s)->priority;
	return cudaSuccess;
}

cudaError_t host_cudaStreamGetId(cudaStream_t stream, unsigned long long *id)
{
	struct stream *s;
	cudaError_t error = stream_fact(stream, id, &s);

	if (error == cudaSuccess)
		*id = s->id;
	return error;
}

/* In a capture the question makes it invalid. */
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

/* ---- attributes ------------------------------------------------------- */

cudaError_t host_cudaStreamCopyAttributes(cudaStream_t dst, cudaStream_t src)
{
	struct stream *to = stream_find(dst), *from = stream_find(src);
	struct attributes attributes;

	if (!to || !from)
		return device_error(cudaErrorInvalidResourceHandle);
	pthread_mutex_lock(&from->lock);
	attributes = *attributes_locked(from);
	pthread_mutex_unlock(&from->lock);
	pthread_mutex_lock(&to->lock);
	*attributes_locked(to) = attributes;
	pthread_mutex_unlock(&to->lock);
	return cudaSuccess;
}

/* Copy between where a stream has an attribute and the same field of a value;
 * false if a stream has no such attribute. */
static bool exchange(struct attributes *a, cudaStreamAttrID id,
                     cudaStreamAttrValue *get, const cudaStreamAttrValue *set)
{
#define EXCHANGE(field)                                                        \
	if (set)                                                               \
		a->field = set->field;                                         \
	else                                                                   \
		get->field = a->field;                                         \
	return true

	switch ((int)id) {
	case cudaLaunchAttributeAccessPolicyWindow:
		EXCHANGE(accessPolicyWindow);
	case cudaLaunchAttributeSynchronizationPolicy:
		EXCHANGE(syncPolicy);
	case cudaLaunchAttributePriority:
		EXCHANGE(priority);
	case cudaLaunchAttributeMemSyncDomainMap:
		EXCHANGE(memSyncDomainMap);
	case cudaLaunchAttributeMemSyncDomain:
		EXCHANGE(memSyncDomain);
	default:
		return false;
	}
#undef EXCHANGE
}

cudaError_t host_cudaStreamGetAttribute(cudaStream_t stream,
                                        cudaStreamAttrID id,
                                        cudaStreamAttrValue *value)
{
	struct stream *s;
	cudaError_t error = stream_fact(stream, value, &s);

	if (error != cudaSuccess)
		return error;
	memset(value, 0, sizeof(*value));
	SCOPED_LOCK(&s->lock);
	return device_error(exchange(attributes_locked(s), id, value, NULL)
	                            ? cudaSuccess
	                            : cudaErrorInvalidValue);
}

cudaError_t host_cudaStreamSetAttribute(cudaStream_t stream,
                                        cudaStreamAttrID id,
                                        const cudaStreamAttrValue *value)
{
	struct stream *s;
	cudaError_t error = stream_fact(stream, value, &s);
	cudaStreamAttrValue wanted;

	if (error != cudaSuccess)
		return error;
	if (id == cudaLaunchAttributeSynchronizationPolicy &&
	    ((int)value->syncPolicy < cudaSyncPolicyAuto ||
	     (int)value->syncPolicy > cudaSyncPolicyBlockingSync))
		return device_error(cudaErrorInvalidValue);
	wanted = *value;
	if (id == cudaLaunchAttributePriority)
		wanted.priority = device_priority(wanted.priority);
	SCOPED_LOCK(&s->lock);
	return device_error(exchange(attributes_locked(s), id, NULL, &wanted)
	                            ? cudaSuccess
	                            : cudaErrorInvalidValue);
}
