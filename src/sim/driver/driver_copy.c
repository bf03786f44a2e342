/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The driver's copies between contexts, and of rectangles
 */

#include "sim/cuda/cuda_device.h"
#include "sim/driver/driver.h"
#include "sim/host.h"

/* ---- copies between contexts ------------------------------------------ */

static bool are_contexts(CUcontext to, CUcontext from)
{
	return driver_device_of(to) >= 0 && driver_device_of(from) >= 0;
}

/* It is ordered behind all work of both devices. */
CUresult driver_cuMemcpyPeer(CUdeviceptr dst, CUcontext to, CUdeviceptr src,
                             CUcontext from, size_t bytes)
{
	const cudaError_t last = *device_last_error();

	if (!driver_has_context() || !are_contexts(to, from))
		return CUDA_ERROR_INVALID_CONTEXT;
	return driver_result(last, host_cudaMemcpyPeer(DRIVER_MEMORY(dst),
	                                               driver_device_of(to),
	                                               DRIVER_MEMORY(src),
	                                               driver_device_of(from),
	                                               bytes));
}

CUresult driver_cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext to,
                                  CUdeviceptr src, CUcontext from, size_t bytes,
                                  CUstream stream)
{
	const cudaError_t last = *device_last_error();

	if (!driver_can_use(stream) || !are_contexts(to, from))
		return CUDA_ERROR_INVALID_CONTEXT;
	return driver_result(last,
	                     host_cudaMemcpyAsync(DRIVER_MEMORY(dst),
	                                          DRIVER_MEMORY(src), bytes,
	                                          cudaMemcpyDefault, stream));
}

/* ---- copies of rectangles --------------------------------------------- */

/* One end of a copy. */
struct end {
	CUmemorytype type;
	const void *host;
	CUdeviceptr device;
	size_t pitch, x, y;
};

/* Store where the rectangle begins in memory of the host or of a device. */
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
	/* Without a pitch the rows are as long as what is copied. */
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

/* Without a stream in @stream: on the legacy stream, and wait. */
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
