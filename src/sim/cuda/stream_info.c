/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a stream is: flags, priority, number, device and attributes, which the
 * host platform remembers and has no other use for
 */

#include <string.h>

#include "base/scoped_lock.h"
#include "sim/cuda/capture.h"
#include "sim/cuda/device.h"
#include "sim/cuda/stream_handle.h"
#include "sim/exec/stream.h"
#include "sim/host.h"

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

void stream_set_priority(struct stream *s, int priority)
{
	SCOPED_LOCK(&s->lock);
	attributes_locked(s)->priority = device_priority(priority);
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

	if (error == cudaSuccess) {
		pthread_mutex_lock(&s->lock);
		*priority = attributes_locked(s)->priority;
		pthread_mutex_unlock(&s->lock);
	}
	return error;
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
	bool known;

	if (error != cudaSuccess)
		return error;
	memset(value, 0, sizeof(*value));
	SCOPED_LOCK(&s->lock);
	known = exchange(attributes_locked(s), id, value, NULL);
	return known ? cudaSuccess : device_error(cudaErrorInvalidValue);
}

cudaError_t host_cudaStreamSetAttribute(cudaStream_t stream,
                                        cudaStreamAttrID id,
                                        const cudaStreamAttrValue *value)
{
	struct stream *s;
	cudaError_t error = stream_fact(stream, value, &s);
	cudaStreamAttrValue wanted;
	bool known;

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
	known = exchange(attributes_locked(s), id, NULL, &wanted);
	return known ? cudaSuccess : device_error(cudaErrorInvalidValue);
}
