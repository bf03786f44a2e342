/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Handles for other processes, which the host platform does not have: its
 * memory is one process's own.  Arguments are checked first, so that a mistake
 * is told from what is missing.
 */

#include "sim/cuda/device.h"
#include "sim/cuda/memory.h"
#include "sim/host.h"

cudaError_t host_cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *memory)
{
	struct memory m;

	if (!handle || !memory_find(memory, &m) || m.freed ||
	    m.kind != MEMORY_DEVICE)
		return device_error(cudaErrorInvalidValue);
	return device_error(cudaErrorNotSupported);
}

cudaError_t host_cudaIpcOpenMemHandle(void **memory, cudaIpcMemHandle_t handle,
                                      unsigned int flags)
{
	(void)handle;
	if (!memory || flags != cudaIpcMemLazyEnablePeerAccess)
		return device_error(cudaErrorInvalidValue);
	return device_error(cudaErrorNotSupported);
}

/* No memory was opened. */
cudaError_t host_cudaIpcCloseMemHandle(void *memory)
{
	return device_error(memory ? cudaErrorNotSupported
	                           : cudaErrorInvalidValue);
}

cudaError_t host_cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle,
                                       cudaEvent_t event)
{
	if (!handle)
		return device_error(cudaErrorInvalidValue);
	if (!event)
		return device_error(cudaErrorInvalidResourceHandle);
	return device_error(cudaErrorNotSupported);
}

cudaError_t host_cudaIpcOpenEventHandle(cudaEvent_t *event,
                                        cudaIpcEventHandle_t handle)
{
	(void)handle;
	return device_error(event ? cudaErrorNotSupported
	                          : cudaErrorInvalidValue);
}
