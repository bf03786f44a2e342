/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements CUDA's functions that allocate, free and query memory
 *
 * cudaFree() and cudaFreeHost() wait for the device's work, because the work
 * might use the memory.  Stream-ordered frees are in pool.c.
 */

#include <stdint.h>
#include <string.h>

#include "sim/cuda/cuda_device.h"
#include "sim/cuda/memory_table.h"
#include "sim/cuda/stream_capture.h"
#include "sim/cuda/stream_handle.h"
#include "sim/cuda/sync.h"
#include "sim/exec/stream_queue.h"
#include "sim/host.h"
#include "sim/strict/fault.h"

#define PITCH 512

#define FREE_KINDS (1U << MEMORY_DEVICE | 1U << MEMORY_MANAGED)

static cudaError_t allocate(void **memory, size_t bytes, enum memory_kind kind,
                            unsigned int flags)
{
	struct memory m = {
		.bytes = bytes,
		.kind = kind,
		.device = device_current(),
		.flags = flags,
	};

	cudaError_t error;

	if (!memory)
		return device_error(cudaErrorInvalidValue);
	error = capture_permits_unsafe();
	if (error == cudaSuccess)
		error = fault_sticky(m.device);
	if (error != cudaSuccess)
		return device_error(error);
	if (!bytes) {
		*memory = NULL;
		return cudaSuccess;
	}
	sync_memory();
	if (!memory_allocate(&m))
		return device_error(cudaErrorMemoryAllocation);
	*memory = m.start;
	return cudaSuccess;
}

static cudaError_t release(void *memory, unsigned int kinds)
{
	cudaError_t error;
	struct memory m;

	if (!memory)
		return device_error(fault_sticky(device_current()));
	error = capture_permits_unsafe();
	if (error != cudaSuccess)
		return device_error(error);
	if (!memory_find(memory, &m) || m.freed || m.start != memory ||
	    !(kinds >> m.kind & 1))
		return device_error(cudaErrorInvalidValue);
	sync_memory();
	stream_wait_device(m.device, false);
	if (!memory_remove(memory, kinds, &m))
		return device_error(cudaErrorInvalidValue);
	pool_returned(&m);
	memory_discard(&m);
	return device_error(fault_sticky(m.device));
}

cudaError_t host_cudaMalloc(void **memory, size_t bytes)
{
	return allocate(memory, bytes, MEMORY_DEVICE, 0);
}

cudaError_t host_cudaMallocManaged(void **memory, size_t bytes,
                                   unsigned int flags)
{
	if (!bytes ||
	    (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost))
		return device_error(cudaErrorInvalidValue);
	return allocate(memory, bytes, MEMORY_MANAGED, flags);
}

cudaError_t host_cudaMallocPitch(void **memory, size_t *pitch, size_t width,
                                 size_t height)
{
	const size_t row = (width + PITCH - 1) / PITCH * PITCH;
	cudaError_t error;

	if (!pitch)
		return device_error(cudaErrorInvalidValue);
	if (row < width || (row && height > SIZE_MAX / row))
		return device_error(cudaErrorMemoryAllocation);
	error = allocate(memory, row * height, MEMORY_DEVICE, 0);
	if (error == cudaSuccess)
		*pitch = row;
	return error;
}

cudaError_t host_cudaFree(void *memory)
{
	return release(memory, FREE_KINDS);
}

cudaError_t host_cudaHostAlloc(void **memory, size_t bytes, unsigned int flags)
{
	const unsigned int all = cudaHostAllocPortable | cudaHostAllocMapped |
	                         cudaHostAllocWriteCombined;

	if (flags & ~all)
		return device_error(cudaErrorInvalidValue);
	return allocate(memory, bytes, MEMORY_PINNED, flags);
}

cudaError_t host_cudaMallocHost(void **memory, size_t bytes)
{
	return host_cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
}

cudaError_t host_cudaFreeHost(void *memory)
{
	return release(memory, 1U << MEMORY_PINNED);
}

/* ---- registered memory ------------------------------------------------ */

cudaError_t host_cudaHostRegister(void *memory, size_t bytes,
                                  unsigned int flags)
{
	const unsigned int all =
		cudaHostRegisterPortable | cudaHostRegisterMapped |
		cudaHostRegisterIoMemory | cudaHostRegisterReadOnly;
	const struct memory m = {
		.start = memory,
		.bytes = bytes,
		.kind = MEMORY_REGISTERED,
		.device = device_current(),
		.flags = flags,
	};

	cudaError_t error;

	if (!memory || !bytes || (flags & ~all))
		return device_error(cudaErrorInvalidValue);
	error = capture_permits_unsafe();
	if (error == cudaSuccess)
		error = fault_sticky(m.device);
	if (error != cudaSuccess)
		return device_error(error);
	if (memory_overlaps(memory, bytes))
		return device_error(cudaErrorHostMemoryAlreadyRegistered);
	sync_memory();
	if (!memory_enter(&m))
		return device_error(cudaErrorMemoryAllocation);
	return cudaSuccess;
}

cudaError_t host_cudaHostUnregister(void *memory)
{
	cudaError_t error;
	struct memory m;

	if (!memory)
		return device_error(cudaErrorInvalidValue);
	error = capture_permits_unsafe();
	if (error != cudaSuccess)
		return device_error(error);
	sync_memory();
	if (!memory_remove(memory, 1U << MEMORY_REGISTERED, &m))
		return device_error(cudaErrorHostMemoryNotRegistered);
	return device_error(fault_sticky(device_current()));
}

/* ---- queries ---------------------------------------------------------- */

/* Find the pinned or registered host memory that contains @p.  Return false if
 * there is none. */
static bool find_pinned(const void *p, struct memory *m)
{
	return memory_find(p, m) && !m->freed &&
	       (m->kind == MEMORY_PINNED || m->kind == MEMORY_REGISTERED);
}

cudaError_t host_cudaHostGetDevicePointer(void **device, void *host,
                                          unsigned int flags)
{
	struct memory m;

	if (!device || flags || !find_pinned(host, &m))
		return device_error(cudaErrorInvalidValue);
	*device = host;
	return cudaSuccess;
}

cudaError_t host_cudaHostGetFlags(unsigned int *flags, void *host)
{
	struct memory m;

	if (!flags || !find_pinned(host, &m) || m.kind != MEMORY_PINNED)
		return device_error(cudaErrorInvalidValue);
	*flags = m.flags;
	return cudaSuccess;
}

static enum cudaMemoryType type_of(enum memory_kind kind)
{
	switch (kind) {
	case MEMORY_DEVICE:
	case MEMORY_MAPPED:
		return cudaMemoryTypeDevice;
	case MEMORY_MANAGED:
		return cudaMemoryTypeManaged;
	case MEMORY_PINNED:
	case MEMORY_REGISTERED:
		break;
	}
	return cudaMemoryTypeHost;
}

/* Size of struct cudaPointerAttributes in CUDA 12. */
#define ATTRIBUTES_12 offsetof(struct cudaPointerAttributes, reserved)

static cudaError_t get_attributes(struct cudaPointerAttributes *a, size_t bytes,
                                  const void *p)
{
	struct cudaPointerAttributes found = {
		.type = cudaMemoryTypeUnregistered,
		.device = cudaInvalidDeviceId,
		.hostPointer = (void *)(uintptr_t)p,
	};
	struct memory m;

	if (!a)
		return device_error(cudaErrorInvalidValue);
	if (memory_find(p, &m) && !m.freed) {
		found.type = type_of(m.kind);
		found.device = m.device;
		found.devicePointer = found.hostPointer;
		if (found.type == cudaMemoryTypeDevice)
			found.hostPointer = NULL;
	}
	memcpy(a, &found, bytes);
	return cudaSuccess;
}

cudaError_t
host_cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                              const void *p)
{
	return get_attributes(attributes, sizeof(*attributes), p);
}

cudaError_t
host12_cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                const void *p)
{
	return get_attributes(attributes, ATTRIBUTES_12, p);
}

/* ---- advice, which has no effect -------------------------------------- */

static bool location_is_valid(struct cudaMemLocation l)
{
	switch (l.type) {
	case cudaMemLocationTypeDevice:
		return device_is_valid(l.id);
	case cudaMemLocationTypeHost:
	case cudaMemLocationTypeHostNumaCurrent:
		return true;
	case cudaMemLocationTypeHostNuma:
		return l.id == 0;
	case cudaMemLocationTypeInvalid:
		break;
	}
	return false;
}

static struct cudaMemLocation location_12(int device)
{
	return (struct cudaMemLocation){
		.type = device == cudaCpuDeviceId ? cudaMemLocationTypeHost
		                                  : cudaMemLocationTypeDevice,
		.id = device,
	};
}

static bool range_is_valid(const void *p, size_t bytes)
{
	struct memory m;

	if (!p || !bytes)
		return false;
	/* Memory that is not in the table is pageable, and simulated devices
	 * can access pageable memory. */
	return !memory_find(p, &m) ||
	       (m.kind == MEMORY_MANAGED && memory_is_known(p, bytes));
}

static bool advice_has_place(enum cudaMemoryAdvise advice)
{
	return advice == cudaMemAdviseSetPreferredLocation ||
	       advice == cudaMemAdviseSetAccessedBy ||
	       advice == cudaMemAdviseUnsetAccessedBy;
}

cudaError_t host_cudaMemAdvise(const void *memory, size_t bytes,
                               enum cudaMemoryAdvise advice,
                               struct cudaMemLocation location)
{
	if (!range_is_valid(memory, bytes) ||
	    (int)advice < cudaMemAdviseSetReadMostly ||
	    (int)advice > cudaMemAdviseUnsetAccessedBy)
		return device_error(cudaErrorInvalidValue);
	if (advice_has_place(advice) && !location_is_valid(location))
		return device_error(cudaErrorInvalidDevice);
	return cudaSuccess;
}

cudaError_t host12_cudaMemAdvise(const void *memory, size_t bytes,
                                 enum cudaMemoryAdvise advice, int device)
{
	return host_cudaMemAdvise(memory, bytes, advice, location_12(device));
}

cudaError_t host_cudaMemPrefetchAsync(const void *memory, size_t bytes,
                                      struct cudaMemLocation location,
                                      unsigned int flags, cudaStream_t stream)
{
	if (flags || !range_is_valid(memory, bytes))
		return device_error(cudaErrorInvalidValue);
	if (!location_is_valid(location))
		return device_error(cudaErrorInvalidDevice);
	return device_error(capture_permits(stream_find(stream)));
}

cudaError_t host12_cudaMemPrefetchAsync(const void *memory, size_t bytes,
                                        int device, cudaStream_t stream)
{
	return host_cudaMemPrefetchAsync(memory, bytes, location_12(device), 0,
	                                 stream);
}
