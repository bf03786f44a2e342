/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The errors of the host platform's CUDA part: their names and texts, and the
 * calling thread's last one as a program asks for it
 */

#include <stdbool.h>

#include "base/util.h"
#include "sim/cuda/cuda_device.h"
#include "sim/host.h"
#include "sim/strict/fault.h"

cudaError_t host_cudaPeekAtLastError(void)
{
	const cudaError_t sticky = fault_sticky(device_current());

	return sticky != cudaSuccess ? sticky : *device_last_error();
}

cudaError_t host_cudaGetLastError(void)
{
	const cudaError_t error = host_cudaPeekAtLastError();

	*device_last_error() = cudaSuccess;
	return error;
}

#define ENTRY(name, value, driver, text) { name, #name, text },
#define ENTRY_OF_RUNTIME(name, value, text) { name, #name, text },
static const struct text {
	cudaError_t error;
	const char *name;
	const char *text;
} texts[] = { CUDA_ERRORS(ENTRY, ENTRY_OF_RUNTIME) };

static const struct text *find(cudaError_t error)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(texts); i++)
		if (texts[i].error == error)
			return &texts[i];
	return NULL;
}

#define UNKNOWN "unrecognized error code"

const char *host_cudaGetErrorName(cudaError_t error)
{
	const struct text *t = find(error);

	return t ? t->name : UNKNOWN;
}

const char *host_cudaGetErrorString(cudaError_t error)
{
	const struct text *t = find(error);

	return t ? t->text : UNKNOWN;
}
