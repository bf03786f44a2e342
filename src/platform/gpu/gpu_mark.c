/* SPDX-License-Identifier: Apache-2.0 */

/* Marks on a GPU, by the driver's stream memory operations, which are obtained
 * through the runtime */

#include <dlfcn.h>

#include "base/status.h"
#include "platform/drop_in.h"
#include "platform/gpu/gpu.h"

/* Type of the driver's stream memory operations, in their second version
 * (DRIVER_VERSION).  The 32-bit operations work on every device.  Only the
 * first version and the 64-bit operations depend on a device attribute (92 and
 * 122).  CUresult is int, CUstream is cudaStream_t, CUdeviceptr has 64 bits. */
typedef int (*stream_value_fn)(cudaStream_t stream, unsigned long long address,
                               uint32_t value, unsigned int flags);

#define CU_STREAM_WAIT_VALUE_GEQ 0
#define CU_STREAM_WRITE_VALUE_DEFAULT 0

/* Constant once the platform is open. */
static stream_value_fn write_value, wait_value;

/* A CUresult can be cast to cudaError_t, because codes that exist in both enums
 * have the same value. */
static cudaError_t gpu_mark(cudaStream_t stream, uint32_t *word, uint32_t value)
{
	return (cudaError_t)write_value(stream, (uintptr_t)word, value,
	                                CU_STREAM_WRITE_VALUE_DEFAULT);
}

static cudaError_t gpu_await_mark(cudaStream_t stream, uint32_t *word,
                                  uint32_t value)
{
	return (cudaError_t)wait_value(stream, (uintptr_t)word, value,
	                               CU_STREAM_WAIT_VALUE_GEQ);
}

static void gpu_progress(int device, cudaStream_t stream, const uint32_t *word,
                         uint32_t value, uint64_t until_ns)
{
	/* A GPU runs its streams by itself. */
	(void)device;
	(void)stream;
	(void)word;
	(void)value;
	(void)until_ns;
}

static void gpu_flush(int device, cudaStream_t stream)
{
	(void)device;
	(void)stream;
}

/* Types of the runtime's functions that look up a function of the driver.  From
 * 12.5 on, the caller specifies the version of the driver's function.  An older
 * runtime returns the version of its own release, which is new enough. */
typedef cudaError_t (*by_version_fn)(const char *symbol, void **function,
                                     unsigned int version,
                                     unsigned long long flags, int *result);
typedef cudaError_t (*by_name_fn)(const char *symbol, void **function,
                                  unsigned long long flags, int *result);

#define DRIVER_VERSION 12000 /* version of the signatures above */

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

static bool find_in_driver(void *cudart, const char *name, void *entry)
{
	void *function = NULL;

	if (ask_driver(cudart, name, &function) != cudaSuccess || !function)
		return false;
	*(void **)entry = function;
	return true;
}

static int no_context_state(int device, unsigned int *flags, int *active)
{
	(void)device;
	(void)flags;
	(void)active;
	return cudaErrorNotSupported;
}

int gpu_find_marks(struct gpu_libraries *l, struct platform *table)
{
	if (!find_in_driver(l->cudart, "cuStreamWriteValue32", &write_value) ||
	    !find_in_driver(l->cudart, "cuStreamWaitValue32", &wait_value))
		return error_set(COHORT_NO_SYMBOL,
		                 "the CUDA driver has no cuStreamWriteValue32 "
		                 "or cuStreamWaitValue32");
	table->mark = gpu_mark;
	table->await_mark = gpu_await_mark;
	table->progress = gpu_progress;
	table->flush = gpu_flush;
	if (!find_in_driver(l->cudart, "cuDevicePrimaryCtxGetState",
	                    &table->cuDevicePrimaryCtxGetState))
		table->cuDevicePrimaryCtxGetState = no_context_state;
	if (l->knobs) {
		table->progress = l->knobs->progress;
		table->flush = l->knobs->flush;
		table->uncounted = l->knobs->uncounted;
	}
	/* NVIDIA's NCCL on the drop-in libraries connects as on a GPU. */
	if (l->knobs && !l->runs_nvidia)
		table->connects_late = l->knobs->connects_late;
	return COHORT_OK;
}
