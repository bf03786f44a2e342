/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Marks on a GPU: the driver's stream memory operations, which the runtime hands
 * out
 */

#include <dlfcn.h>

#include "base/status.h"
#include "platform/gpu.h"

/* The driver's stream memory operations (CUresult is int, CUstream is
 * cudaStream_t, CUdeviceptr is 64 bits). */
typedef int (*stream_value_fn)(cudaStream_t stream, unsigned long long address,
                               uint32_t value, unsigned int flags);

#define CU_STREAM_WAIT_VALUE_GEQ 0
#define CU_STREAM_WRITE_VALUE_DEFAULT 0

/* Constant once the platform is open. */
static stream_value_fn write_value, wait_value;

static cudaError_t driver_result(int result)
{
	/* The runtime's codes are the driver's, where both have one. */
	return (cudaError_t)result;
}

static cudaError_t gpu_mark(cudaStream_t stream, uint32_t *word, uint32_t value)
{
	return driver_result(write_value(stream, (uintptr_t)word, value,
	                                 CU_STREAM_WRITE_VALUE_DEFAULT));
}

static cudaError_t gpu_await_mark(cudaStream_t stream, uint32_t *word,
                                  uint32_t value)
{
	return driver_result(wait_value(stream, (uintptr_t)word, value,
	                                CU_STREAM_WAIT_VALUE_GEQ));
}

static void gpu_progress(cudaStream_t stream, const uint32_t *word,
                         uint32_t value, uint64_t until_ns)
{
	/* The device needs no help. */
	(void)stream;
	(void)word;
	(void)value;
	(void)until_ns;
}

/* How the runtime hands out the driver's functions: from 12.5 on by version,
 * before that by its own version, which is new enough. */
typedef cudaError_t (*by_version_fn)(const char *symbol, void **function,
                                     unsigned int version,
                                     unsigned long long flags, int *result);
typedef cudaError_t (*by_name_fn)(const char *symbol, void **function,
                                  unsigned long long flags, int *result);

#define DRIVER_VERSION 12000 /* of the signatures above */

static cudaError_t ask_driver(void *cudart, const char *name, void **function)
{
	by_version_fn by_version;
	by_name_fn by_name;
	int found;

	*(void **)&by_version =
		dlsym(cudart, "cudaGetDriverEntryPointByVersion");
	if (by_version)
		return by_version(name, function, DRIVER_VERSION, 0, &found);
	*(void **)&by_name = dlsym(cudart, "cudaGetDriverEntryPoint");
	if (by_name)
		return by_name(name, function, 0, &found);
	return cudaErrorSymbolNotFound;
}

static int find_in_driver(void *cudart, const struct platform *table,
                          const char *name, stream_value_fn *out)
{
	void *function = NULL;
	cudaError_t error = ask_driver(cudart, name, &function);

	if (error != cudaSuccess || !function)
		return error_set(COHORT_NO_SYMBOL,
		                 "the CUDA driver gives no %s: %s (%d)", name,
		                 table->cudaGetErrorString(error), (int)error);
	*(void **)out = function;
	return COHORT_OK;
}

int gpu_find_marks(const struct gpu_libraries *l, struct platform *table)
{
	int rc = find_in_driver(l->cudart, table, "cuStreamWriteValue32",
	                        &write_value);

	if (rc == COHORT_OK)
		rc = find_in_driver(l->cudart, table, "cuStreamWaitValue32",
		                    &wait_value);
	table->starts_are_marked = true;
	table->mark = gpu_mark;
	table->await_mark = gpu_await_mark;
	table->progress = gpu_progress;
	return rc;
}
