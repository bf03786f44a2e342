/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the CUDA runtime keeps of each thread, but for its current device
 */

#include "sim/cuda/device.h"

static _Thread_local cudaError_t last_error;

static _Thread_local bool in_host_function;

cudaError_t device_error(cudaError_t error)
{
	if (error != cudaSuccess)
		last_error = error;
	return error;
}

cudaError_t *device_last_error(void)
{
	return &last_error;
}

void device_forbid_calls(bool forbidden)
{
	in_host_function = forbidden;
}

cudaError_t stream_permits_calls(void)
{
	return in_host_function ? cudaErrorNotPermitted : cudaSuccess;
}
