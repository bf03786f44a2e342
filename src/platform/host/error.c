/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The errors of the host platform's CUDA part: the calling thread's last one,
 * and the names and texts of all
 */

#include <stdbool.h>

#include "platform/host/device.h"
#include "platform/host/host.h"

static _Thread_local cudaError_t last_error;

cudaError_t device_error(cudaError_t error)
{
	if (error != cudaSuccess)
		last_error = error;
	return error;
}

cudaError_t host_cudaGetLastError(void)
{
	cudaError_t error = last_error;

	last_error = cudaSuccess;
	return error;
}

cudaError_t host_cudaPeekAtLastError(void)
{
	return last_error;
}

#define ERROR_TEXTS(name, value, text)                                         \
	case name:                                                             \
		return is_name ? #name : text;

static const char *text_of(cudaError_t error, bool is_name)
{
	switch (error) {
		CUDA_ERRORS(ERROR_TEXTS)
	}
	return "unrecognized error code";
}

const char *host_cudaGetErrorName(cudaError_t error)
{
	return text_of(error, true);
}

const char *host_cudaGetErrorString(cudaError_t error)
{
	return text_of(error, false);
}
