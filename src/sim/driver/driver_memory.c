/* SPDX-License-Identifier: Apache-2.0 */

/* Implements the driver's functions that query attributes of addresses, and
 * two-dimensional copies */

#include <string.h>

#include "sim/cuda/arena.h"
#include "sim/cuda/cuda_device.h"
#include "sim/cuda/memory_table.h"
#include "sim/driver/driver.h"
#include "sim/host.h"

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

/* Return the types of handles to which mapped memory can be exported, as chosen
 * when its allocation was created. */
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

/* Return the access of the current context's device to @m.  Every device can
 * access memory that is not a mapping. */
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

/* Store an attribute that is an int.  Return false if @attribute has another
 * type. */
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

/* Store the value of an attribute of 8 bytes.  Return false if @attribute does
 * not have 8 bytes, or if @m has no host address to store. */
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

/* Store the value that an attribute has for an unknown address.  Return false
 * if there is no such attribute. */
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

/* Store the attribute.  It has no effect, because the copies that it makes
 * synchronous in CUDA are always synchronous here. */
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

/* ---- copies of rectangles ---------------------------------------------- */

struct end {
	CUmemorytype type;
	const void *host;
	CUdeviceptr device;
	size_t pitch, x, y;
};

static CUresult find_corner(const struct end *e, const CUDA_MEMCPY2D *c,
                            CUdeviceptr *corner, size_t *pitch)
{
	CUdeviceptr start = 0;

	switch (e->type) {
	case CU_MEMORYTYPE_HOST:
		start = (CUdeviceptr)(uintptr_t)e->host;
		break;
	case CU_MEMORYTYPE_DEVICE:
	case CU_MEMORYTYPE_UNIFIED:
		start = e->device;
		break;
	case CU_MEMORYTYPE_ARRAY:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	/* Without a pitch, rows are as long as the copied width. */
	*pitch = e->pitch ? e->pitch : c->WidthInBytes;
	if (!start || (e->pitch && e->x > e->pitch) ||
	    (e->pitch && c->WidthInBytes > e->pitch - e->x))
		return CUDA_ERROR_INVALID_VALUE;
	*corner = start + e->y * *pitch + e->x;
	return CUDA_SUCCESS;
}

static CUresult find_corners(const CUDA_MEMCPY2D *c, CUdeviceptr *src,
                             size_t *src_pitch, CUdeviceptr *dst,
                             size_t *dst_pitch)
{
	const struct end from = { c->srcMemoryType, c->srcHost,
		                  c->srcDevice,     c->srcPitch,
		                  c->srcXInBytes,   c->srcY };
	const struct end to = { c->dstMemoryType, c->dstHost,     c->dstDevice,
		                c->dstPitch,      c->dstXInBytes, c->dstY };
	const CUresult result = find_corner(&from, c, src, src_pitch);

	return result ? result : find_corner(&to, c, dst, dst_pitch);
}

/* Copy a rectangle on *@stream.  If @stream is NULL, copy on the legacy stream
 * and wait. */
static CUresult copy_2d(const CUDA_MEMCPY2D *c, const CUstream *stream)
{
	const cudaError_t last = *device_last_error();
	size_t src_pitch, dst_pitch;
	CUdeviceptr src, dst;
	cudaError_t error;
	CUresult result;

	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	if (!driver_can_use(stream ? *stream : NULL))
		return CUDA_ERROR_INVALID_CONTEXT;
	result = find_corners(c, &src, &src_pitch, &dst, &dst_pitch);
	if (result != CUDA_SUCCESS)
		return result;
	error = stream ? host_cudaMemcpy2DAsync(DRIVER_MEMORY(dst), dst_pitch,
	                                        DRIVER_MEMORY(src), src_pitch,
	                                        c->WidthInBytes, c->Height,
	                                        cudaMemcpyDefault, *stream)
	               : host_cudaMemcpy2D(DRIVER_MEMORY(dst), dst_pitch,
	                                   DRIVER_MEMORY(src), src_pitch,
	                                   c->WidthInBytes, c->Height,
	                                   cudaMemcpyDefault);
	return driver_result(last, error);
}

CUresult driver_cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy)
{
	return copy_2d(copy, NULL);
}

CUresult driver_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy)
{
	return copy_2d(copy, NULL);
}

CUresult driver_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream)
{
	return copy_2d(copy, &stream);
}
