/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The driver's memory: allocation, and what an address is
 */

#include <string.h>

#include "sim/cuda/arena.h"
#include "sim/cuda/cuda_device.h"
#include "sim/cuda/memory_table.h"
#include "sim/driver/driver.h"
#include "sim/host.h"

/* ---- allocation ------------------------------------------------------- */

/* Whether a function may store memory of @bytes in @out. */
static CUresult may_give(const CUdeviceptr *out, size_t bytes)
{
	if (!out || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	return driver_has_context() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* Whether a function may store memory in @out in the order of @stream.  There a
 * size of 0 is no error. */
static CUresult may_give_on(const CUdeviceptr *out, CUstream stream)
{
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	return driver_can_use(stream) ? CUDA_SUCCESS
	                              : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult may_give_rows(const CUdeviceptr *out, size_t width,
                              size_t height, unsigned int element)
{
	const CUresult result = may_give(out, width && height);

	if (result != CUDA_SUCCESS)
		return result;
	return element == 4 || element == 8 || element == 16
	               ? CUDA_SUCCESS
	               : CUDA_ERROR_INVALID_VALUE;
}

/* A function that stores in @memory what @call of the runtime stores in got, if
 * @may is CUDA_SUCCESS. */
#define GIVES(symbol, parameters, may, call)                                   \
	CUresult driver_##symbol parameters                                    \
	{                                                                      \
		const cudaError_t last = *device_last_error();                 \
		CUresult result = may;                                         \
		void *got = NULL;                                              \
                                                                               \
		if (result == CUDA_SUCCESS)                                    \
			result = driver_result(last, call);                    \
		if (result == CUDA_SUCCESS)                                    \
			*memory = (CUdeviceptr)(uintptr_t)got;                 \
		return result;                                                 \
	}

GIVES(cuMemAlloc_v2, (CUdeviceptr * memory, size_t bytes),
      may_give(memory, bytes), host_cudaMalloc(&got, bytes))
GIVES(cuMemAllocManaged,
      (CUdeviceptr * memory, size_t bytes, unsigned int flags),
      may_give(memory, bytes), host_cudaMallocManaged(&got, bytes, flags))
GIVES(cuMemAllocPitch_v2,
      (CUdeviceptr * memory, size_t *pitch, size_t width, size_t height,
       unsigned int element),
      may_give_rows(memory, width, height, element),
      host_cudaMallocPitch(&got, pitch, width, height))
GIVES(cuMemAllocAsync, (CUdeviceptr * memory, size_t bytes, CUstream stream),
      may_give_on(memory, stream), host_cudaMallocAsync(&got, bytes, stream))
GIVES(cuMemAllocFromPoolAsync,
      (CUdeviceptr * memory, size_t bytes, CUmemoryPool pool, CUstream stream),
      may_give_on(memory, stream),
      host_cudaMallocFromPoolAsync(&got, bytes, pool, stream))
GIVES(cuMemHostGetDevicePointer_v2,
      (CUdeviceptr * memory, void *host, unsigned int flags),
      may_give(memory, 1), host_cudaHostGetDevicePointer(&got, host, flags))
GIVES(cuIpcOpenMemHandle_v2,
      (CUdeviceptr * memory, cudaIpcMemHandle_t handle, unsigned int flags),
      may_give(memory, 1), host_cudaIpcOpenMemHandle(&got, handle, flags))

/* ---- what an address is ----------------------------------------------- */

static bool find(CUdeviceptr address, struct memory *m)
{
	return memory_find(DRIVER_MEMORY(address), m) && !m->freed;
}

CUresult driver_cuMemGetAddressRange_v2(CUdeviceptr *start, size_t *bytes,
                                        CUdeviceptr memory)
{
	struct memory m;

	if (!find(memory, &m))
		return CUDA_ERROR_NOT_FOUND;
	if (start)
		*start = (CUdeviceptr)(uintptr_t)m.start;
	if (bytes)
		*bytes = m.bytes;
	return CUDA_SUCCESS;
}

static bool is_host(const struct memory *m)
{
	return m->kind == MEMORY_PINNED || m->kind == MEMORY_REGISTERED;
}

/* What other processes may be given of mapped memory: what its allocation was
 * created for. */
static int handle_types(const struct memory *m)
{
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp prop = { .requestedHandleTypes = 0 };

	if (driver_cuMemRetainAllocationHandle(&handle, m->start))
		return cudaMemHandleTypeNone;
	driver_cuMemGetAllocationPropertiesFromHandle(&prop, handle);
	driver_cuMemRelease(handle);
	return (int)prop.requestedHandleTypes;
}

/* What the current context's device may do; other memory than what is mapped
 * can be used everywhere. */
static int access_flags(const struct memory *m)
{
	struct cudaMemLocation l = { .type = cudaMemLocationTypeDevice };
	unsigned long long flags;

	if (driver_cuCtxGetDevice(&l.id) != CUDA_SUCCESS)
		l.id = m->device;
	return driver_cuMemGetAccess(&flags, &l,
	                             (CUdeviceptr)(uintptr_t)m->start)
	               ? cudaMemAccessFlagsProtReadWrite
	               : (int)flags;
}

/* An attribute whose value is an int. */
static bool small_attribute(CUpointer_attribute attribute,
                            const struct memory *m, int *value)
{
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*value = is_host(m) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*value = m->kind == MEMORY_MANAGED;
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*value = m->device;
		return true;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*value = 1;
		return true;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*value = handle_types(m);
		return true;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*value = access_flags(m);
		return true;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*value = m->sync_memops;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*value = arena_is_shared() && m->kind == MEMORY_DEVICE &&
		         !m->pool;
		return true;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		*value = 0;
		return true;
	default:
		return false;
	}
}

/* An attribute that is as large as an address. */
static bool large_attribute(CUpointer_attribute attribute,
                            const struct memory *m, CUdeviceptr address,
                            uint64_t *value)
{
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*value = (uintptr_t)driver_context_of(m->device);
		return true;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*value = address;
		return true;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		*value = address;
		return is_host(m) || m->kind == MEMORY_MANAGED;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*value = (uintptr_t)m->start;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*value = m->bytes;
		return true;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*value = (uintptr_t)m->pool;
		return true;
	default:
		return false;
	}
}

static bool store_attribute(void *value, CUpointer_attribute attribute,
                            const struct memory *m, CUdeviceptr address)
{
	uint64_t large;
	int small;

	if (small_attribute(attribute, m, &small))
		memcpy(value, &small, sizeof(small));
	else if (large_attribute(attribute, m, address, &large))
		memcpy(value, &large, sizeof(large));
	else
		return false;
	return true;
}

CUresult driver_cuPointerGetAttribute(void *value,
                                      CUpointer_attribute attribute,
                                      CUdeviceptr memory)
{
	struct memory m;

	if (!value || !find(memory, &m))
		return CUDA_ERROR_INVALID_VALUE;
	return store_attribute(value, attribute, &m, memory)
	               ? CUDA_SUCCESS
	               : CUDA_ERROR_INVALID_VALUE;
}

/* What an attribute is that the memory does not have; false if there is no such
 * attribute. */
static bool clear_attribute(void *value, CUpointer_attribute attribute)
{
	const struct memory none = { .kind = MEMORY_MANAGED };
	uint64_t large;
	int small;

	if (small_attribute(attribute, &none, &small))
		memset(value, 0, sizeof(small));
	else if (large_attribute(attribute, &none, 0, &large))
		memset(value, 0, sizeof(large));
	else
		return false;
	return true;
}

CUresult driver_cuPointerGetAttributes(unsigned int count,
                                       CUpointer_attribute *attributes,
                                       void **values, CUdeviceptr memory)
{
	struct memory m;
	const bool found = find(memory, &m);
	unsigned int i;

	if (!count || !attributes || !values)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < count; i++)
		if (!values[i] || !clear_attribute(values[i], attributes[i]))
			return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; found && i < count; i++)
		store_attribute(values[i], attributes[i], &m, memory);
	return CUDA_SUCCESS;
}

/* It is remembered only: copies of the memory are synchronous where CUDA's may
 * be anyway. */
CUresult driver_cuPointerSetAttribute(const void *value,
                                      CUpointer_attribute attribute,
                                      CUdeviceptr memory)
{
	unsigned int sync;

	if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&sync, value, sizeof(sync));
	return memory_set_sync(DRIVER_MEMORY(memory), sync)
	               ? CUDA_SUCCESS
	               : CUDA_ERROR_INVALID_VALUE;
}
