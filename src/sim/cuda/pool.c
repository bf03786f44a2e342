/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements memory pools and stream-ordered allocation
 *
 * A pool caches nothing: freed memory returns to the allocator immediately.  So
 * a pool is only a counter with limits and settings.  Memory is usable as soon
 * as the allocating call returns, which is earlier than CUDA promises, and is
 * freed when the stream reaches the free.
 */

#include "sim/cuda/memory_table.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/scoped_lock.h"
#include "sim/cuda/cuda_device.h"
#include "sim/cuda/stream_capture.h"
#include "sim/cuda/stream_handle.h"
#include "sim/exec/stream_queue.h"
#include "sim/host.h"
#include "sim/strict/fault.h"

struct pool {
	/* The following members are constant. */
	int device;
	bool is_default;
	size_t max_bytes; /* limit on the pool's size; 0 if unlimited */

	/* The following members are guarded by lock. */
	bool destroyed; /* true if the pool must be freed once it is empty */
	size_t pieces;  /* number of live allocations */
	uint64_t used, used_high;
	uint64_t reserved_high;
	uint64_t threshold;
	int reuse[3]; /* reuse settings, indexed by attribute - 1 */
	enum cudaMemAccessFlags access[COHORT_SIM_MAX_DEVICES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The default pool and the current pool of each device.  Guarded by lock. */
static struct pool *defaults[COHORT_SIM_MAX_DEVICES];
/* NULL if the current pool is the default pool */
static struct pool *currents[COHORT_SIM_MAX_DEVICES];

/* ---- pools ------------------------------------------------------------ */

static struct pool *pool_create(int device, bool is_default, size_t max_bytes)
{
	struct pool *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->device = device;
	p->is_default = is_default;
	p->max_bytes = max_bytes;
	p->reuse[0] = p->reuse[1] = p->reuse[2] = 1;
	p->access[device] = cudaMemAccessFlagsProtReadWrite;
	return p;
}

static struct pool *default_locked(int device)
{
	if (!defaults[device])
		defaults[device] = pool_create(device, true, 0);
	return defaults[device];
}

static struct pool *pool_of(int device, bool current)
{
	SCOPED_LOCK(&lock);
	return current && currents[device] ? currents[device]
	                                   : default_locked(device);
}

static bool props_are_valid(const struct cudaMemPoolProps *props)
{
	return props->allocType == cudaMemAllocationTypePinned &&
	       props->location.type == cudaMemLocationTypeDevice;
}

cudaError_t host_cudaMemPoolCreate(cudaMemPool_t *pool,
                                   const struct cudaMemPoolProps *props)
{
	struct pool *p;

	if (!pool || !props || !props_are_valid(props))
		return device_error(cudaErrorInvalidValue);
	if (!device_is_valid(props->location.id))
		return device_error(cudaErrorInvalidDevice);
	if (props->handleTypes != cudaMemHandleTypeNone)
		return device_error(cudaErrorNotSupported);
	p = pool_create(props->location.id, false, props->maxSize);
	if (!p)
		return device_error(cudaErrorMemoryAllocation);
	*pool = (cudaMemPool_t)p;
	return cudaSuccess;
}

cudaError_t host_cudaMemPoolDestroy(cudaMemPool_t pool)
{
	struct pool *p = (struct pool *)pool;

	if (!p || p->is_default)
		return device_error(cudaErrorInvalidValue);
	SCOPED_LOCK(&lock);
	if (currents[p->device] == p)
		currents[p->device] = NULL;
	p->destroyed = true;
	if (!p->pieces)
		free(p);
	return cudaSuccess;
}

static cudaError_t get_pool(cudaMemPool_t *pool, int device, bool current)
{
	struct pool *p;

	if (!pool)
		return device_error(cudaErrorInvalidValue);
	if (!device_is_valid(device))
		return device_error(cudaErrorInvalidDevice);
	p = pool_of(device, current);
	if (!p)
		return device_error(cudaErrorMemoryAllocation);
	*pool = (cudaMemPool_t)p;
	return cudaSuccess;
}

cudaError_t host_cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
	return get_pool(pool, device, false);
}

cudaError_t host_cudaDeviceGetMemPool(cudaMemPool_t *pool, int device)
{
	return get_pool(pool, device, true);
}

cudaError_t host_cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
{
	struct pool *p = (struct pool *)pool;

	if (!device_is_valid(device))
		return device_error(cudaErrorInvalidDevice);
	if (!p || p->device != device)
		return device_error(cudaErrorInvalidValue);
	SCOPED_LOCK(&lock);
	currents[device] = p;
	return cudaSuccess;
}

/* Do nothing, because a pool caches nothing. */
cudaError_t host_cudaMemPoolTrimTo(cudaMemPool_t pool, size_t bytes)
{
	(void)bytes;
	return pool ? cudaSuccess : device_error(cudaErrorInvalidValue);
}

/* ---- attributes ------------------------------------------------------- */

static cudaError_t set_attribute_locked(struct pool *p,
                                        enum cudaMemPoolAttr attribute,
                                        const void *value)
{
	switch (attribute) {
	case cudaMemPoolReuseFollowEventDependencies:
	case cudaMemPoolReuseAllowOpportunistic:
	case cudaMemPoolReuseAllowInternalDependencies:
		p->reuse[attribute - 1] = *(const int *)value != 0;
		return cudaSuccess;
	case cudaMemPoolAttrReleaseThreshold:
		p->threshold = *(const uint64_t *)value;
		return cudaSuccess;
	case cudaMemPoolAttrReservedMemHigh:
		if (*(const uint64_t *)value)
			return cudaErrorInvalidValue;
		p->reserved_high = p->used;
		return cudaSuccess;
	case cudaMemPoolAttrUsedMemHigh:
		if (*(const uint64_t *)value)
			return cudaErrorInvalidValue;
		p->used_high = p->used;
		return cudaSuccess;
	case cudaMemPoolAttrReservedMemCurrent:
	case cudaMemPoolAttrUsedMemCurrent:
		break;
	}
	return cudaErrorInvalidValue;
}

static cudaError_t get_attribute_locked(const struct pool *p,
                                        enum cudaMemPoolAttr attribute,
                                        void *value)
{
	switch (attribute) {
	case cudaMemPoolReuseFollowEventDependencies:
	case cudaMemPoolReuseAllowOpportunistic:
	case cudaMemPoolReuseAllowInternalDependencies:
		*(int *)value = p->reuse[attribute - 1];
		return cudaSuccess;
	case cudaMemPoolAttrReleaseThreshold:
		*(uint64_t *)value = p->threshold;
		return cudaSuccess;
	case cudaMemPoolAttrReservedMemCurrent:
	case cudaMemPoolAttrUsedMemCurrent:
		*(uint64_t *)value = p->used;
		return cudaSuccess;
	case cudaMemPoolAttrReservedMemHigh:
		*(uint64_t *)value = p->reserved_high;
		return cudaSuccess;
	case cudaMemPoolAttrUsedMemHigh:
		*(uint64_t *)value = p->used_high;
		return cudaSuccess;
	}
	return cudaErrorInvalidValue;
}

cudaError_t host_cudaMemPoolSetAttribute(cudaMemPool_t pool,
                                         enum cudaMemPoolAttr attribute,
                                         void *value)
{
	if (!pool || !value)
		return device_error(cudaErrorInvalidValue);
	SCOPED_LOCK(&lock);
	return device_error(
		set_attribute_locked((struct pool *)pool, attribute, value));
}

cudaError_t host_cudaMemPoolGetAttribute(cudaMemPool_t pool,
                                         enum cudaMemPoolAttr attribute,
                                         void *value)
{
	if (!pool || !value)
		return device_error(cudaErrorInvalidValue);
	SCOPED_LOCK(&lock);
	return device_error(
		get_attribute_locked((struct pool *)pool, attribute, value));
}

/* ---- access, which every device always has ---------------------------- */

static cudaError_t check_access(const struct pool *p,
                                const struct cudaMemAccessDesc *d)
{
	if (d->location.type != cudaMemLocationTypeDevice ||
	    (d->flags != cudaMemAccessFlagsProtNone &&
	     d->flags != cudaMemAccessFlagsProtRead &&
	     d->flags != cudaMemAccessFlagsProtReadWrite))
		return cudaErrorInvalidValue;
	if (!device_is_valid(d->location.id))
		return cudaErrorInvalidDevice;
	/* A pool's own device always has full access. */
	return d->location.id == p->device &&
	                       d->flags != cudaMemAccessFlagsProtReadWrite
	               ? cudaErrorInvalidDevice
	               : cudaSuccess;
}

cudaError_t host_cudaMemPoolSetAccess(cudaMemPool_t pool,
                                      const struct cudaMemAccessDesc *list,
                                      size_t count)
{
	struct pool *p = (struct pool *)pool;
	cudaError_t error = cudaSuccess;
	size_t i;

	if (!p || (count && !list))
		return device_error(cudaErrorInvalidValue);
	for (i = 0; i < count && error == cudaSuccess; i++)
		error = check_access(p, &list[i]);
	if (error != cudaSuccess)
		return device_error(error);
	SCOPED_LOCK(&lock);
	for (i = 0; i < count; i++)
		p->access[list[i].location.id] = list[i].flags;
	return cudaSuccess;
}

cudaError_t host_cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags,
                                      cudaMemPool_t pool,
                                      struct cudaMemLocation *location)
{
	if (!flags || !pool || !location ||
	    location->type != cudaMemLocationTypeDevice)
		return device_error(cudaErrorInvalidValue);
	if (!device_is_valid(location->id))
		return device_error(cudaErrorInvalidDevice);
	SCOPED_LOCK(&lock);
	*flags = ((struct pool *)pool)->access[location->id];
	return cudaSuccess;
}

/* ---- allocations ------------------------------------------------------ */

static void max(uint64_t *high, uint64_t value)
{
	if (*high < value)
		*high = value;
}

/* Count an allocation of @bytes.  Return false if the pool would exceed its
 * limit. */
static bool pool_charge(struct pool *p, size_t bytes)
{
	SCOPED_LOCK(&lock);
	if (p->max_bytes &&
	    (bytes > p->max_bytes || p->used > p->max_bytes - bytes))
		return false;
	p->pieces++;
	p->used += bytes;
	max(&p->used_high, p->used);
	max(&p->reserved_high, p->used);
	return true;
}

void pool_returned(const struct memory *m)
{
	struct pool *p = m->pool;

	if (!p)
		return;
	SCOPED_LOCK(&lock);
	p->used -= m->bytes;
	if (!--p->pieces && p->destroyed)
		free(p);
}

static cudaError_t allocate(void **memory, size_t bytes, struct pool *p)
{
	struct memory m = {
		.bytes = bytes,
		.kind = MEMORY_DEVICE,
		.device = p->device,
		.pool = p,
	};

	if (fault_sticky(p->device) != cudaSuccess)
		return device_error(fault_sticky(p->device));
	if (!bytes) {
		*memory = NULL;
		return cudaSuccess;
	}
	if (!pool_charge(p, bytes))
		return device_error(cudaErrorMemoryAllocation);
	if (!memory_allocate(&m)) {
		pool_returned(&m);
		return device_error(cudaErrorMemoryAllocation);
	}
	*memory = m.start;
	return cudaSuccess;
}

cudaError_t host_cudaMallocFromPoolAsync(void **memory, size_t bytes,
                                         cudaMemPool_t pool,
                                         cudaStream_t stream)
{
	cudaError_t error;

	if (!memory || !pool)
		return device_error(cudaErrorInvalidValue);
	error = capture_permits(stream_find(stream));
	if (error != cudaSuccess)
		return device_error(error);
	return allocate(memory, bytes, (struct pool *)pool);
}

cudaError_t host_cudaMallocAsync(void **memory, size_t bytes,
                                 cudaStream_t stream)
{
	struct stream *s = stream_find(stream);
	cudaError_t error;
	struct pool *p;

	if (!memory)
		return device_error(cudaErrorInvalidValue);
	error = capture_permits(s);
	if (error != cudaSuccess)
		return device_error(error);
	p = pool_of(s->device, true);
	if (!p)
		return device_error(cudaErrorMemoryAllocation);
	return allocate(memory, bytes, p);
}

static enum step free_step(struct stream *s, struct work *w,
                           const struct drive *d)
{
	struct memory m;

	(void)s;
	(void)d;
	if (memory_remove(w->set.memory, 1U << MEMORY_DEVICE, &m)) {
		pool_returned(&m);
		memory_discard(&m);
	}
	return STEP_DONE;
}

cudaError_t host_cudaFreeAsync(void *memory, cudaStream_t stream)
{
	struct stream *s = stream_find(stream);
	struct work w = { .step = free_step, .set = { .memory = memory } };
	cudaError_t error = capture_permits(s);

	if (error != cudaSuccess)
		return device_error(error);
	if (!memory || !memory_end(memory, 1U << MEMORY_DEVICE))
		return device_error(cudaErrorInvalidValue);
	stream_push(s, &w, NULL);
	return device_error(fault_sticky(s->device));
}
