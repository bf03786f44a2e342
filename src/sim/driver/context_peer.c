/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Contexts: those of peers, and of streams
 */

#include "sim/cuda/device.h"
#include "sim/driver/driver.h"
#include "sim/host.h"

/* Whether peer access may be set to @peer, a context of @device, or of none (-1). */
static CUresult check_peer(CUcontext peer, int device)
{
	CUcontext now = NULL;

	driver_cuCtxGetCurrent(&now);
	if (!now || device < 0 || now == peer)
		return CUDA_ERROR_INVALID_CONTEXT;
	return driver_device_of(now) == device
	               ? CUDA_ERROR_PEER_ACCESS_UNSUPPORTED
	               : CUDA_SUCCESS;
}

CUresult driver_cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	const cudaError_t last = *device_last_error();
	const int device = driver_device_of(peer);
	const CUresult result = check_peer(peer, device);

	if (result != CUDA_SUCCESS)
		return result;
	return driver_result(last,
	                     host_cudaDeviceEnablePeerAccess(device, flags));
}

CUresult driver_cuCtxDisablePeerAccess(CUcontext peer)
{
	const cudaError_t last = *device_last_error();
	const int device = driver_device_of(peer);
	const CUresult result = check_peer(peer, device);

	if (result != CUDA_SUCCESS)
		return result;
	return driver_result(last, host_cudaDeviceDisablePeerAccess(device));
}

CUresult driver_cuStreamGetCtx(CUstream stream, CUcontext *context)
{
	const cudaError_t last = *device_last_error();
	CUresult result;
	int device = 0;

	if (!driver_can_use(stream))
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	result = driver_result(last, host_cudaStreamGetDevice(stream, &device));
	if (result == CUDA_SUCCESS)
		*context = driver_context_of(device);
	return result;
}

CUresult driver_cuStreamGetCtx_v2(CUstream stream, CUcontext *context,
                                  CUgreenCtx *green)
{
	const CUresult result = driver_cuStreamGetCtx(stream, context);

	if (result == CUDA_SUCCESS && green)
		*green = NULL;
	return result;
}
