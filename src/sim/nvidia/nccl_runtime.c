/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Redirects the CUDA runtime inside NCCL (see loader.h)
 *
 * This file replaces functions that the drop-in libcudart refuses or that must
 * behave differently for NCCL: functions for kernels, and functions for
 * interprocess memory handles.
 *
 * No thread runs the functions while they are patched, because NCCL's
 * constructors have run, and programs call NCCL through this library, which is
 * still being loaded.
 */

#include "sim/nvidia/loader.h"

#include <string.h>

#include "sim/dropin/host_calls.h"
#include "sim/nvidia/patch.h"

/* Compute capability 9.0, which the simulated devices have, as CUDA encodes
 * it. */
#define CODE 90
#define SHARED_MOST (227 * 1024)

static cudaError_t fail(cudaError_t error)
{
	return cohort_host_calls()->fail(error);
}

/* ---- kernels ---------------------------------------------------------- */

/* Return the attributes of a kernel.  NCCL uses only localSizeBytes and
 * sharedSizeBytes, which are 0 here. */
static cudaError_t get_attributes(struct cudaFuncAttributes *out,
                                  const void *kernel)
{
	if (!out)
		return fail(cudaErrorInvalidValue);
	if (!stub_name(kernel))
		return fail(cudaErrorInvalidDeviceFunction);
	*out = (struct cudaFuncAttributes){
		.maxThreadsPerBlock = 1024,
		.numRegs = 96,
		.ptxVersion = CODE,
		.binaryVersion = CODE,
		.maxDynamicSharedSizeBytes = SHARED_MOST,
		.preferredShmemCarveout = -1,
	};
	return cudaSuccess;
}

/* Ignore an attribute, because attributes tune the use of a multiprocessor,
 * which the simulated devices lack. */
static cudaError_t set_attribute(const void *kernel, int attribute, int value)
{
	(void)attribute;
	(void)value;
	return stub_name(kernel) ? cudaSuccess
	                         : fail(cudaErrorInvalidDeviceFunction);
}

static cudaError_t get_function(const void **out, const void *kernel)
{
	if (!out)
		return fail(cudaErrorInvalidValue);
	if (!stub_name(kernel))
		return fail(cudaErrorInvalidDeviceFunction);
	*out = kernel;
	return cudaSuccess;
}

/* ---- interprocess memory handles -------------------------------------- */

/*
 * Create a handle of memory, or a handle that contains only the address if the
 * memory cannot be shared
 *
 * NCCL creates handles of all its buffers, to send them to ranks of other
 * processes.  For ranks of the same process, NCCL uses the address itself.
 * Without shared memory, all ranks are in the same process.
 */
static cudaError_t get_handle(cudaIpcMemHandle_t *handle, void *memory)
{
	const struct host_calls *calls = cohort_host_calls();
	const cudaError_t error = calls->cudaIpcGetMemHandle(handle, memory);

	if (error != cudaErrorNotSupported)
		return error;
	calls->cudaGetLastError();
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &memory, sizeof(memory));
	return cudaSuccess;
}

/* ---- process exit ----------------------------------------------------- */

/* Do nothing.  The linked-in runtime would unload kernels from a driver at
 * exit, but there is no driver. */
static void unregister(void **module)
{
	(void)module;
}

bool nccl_runtime_redirect(const struct image *image, void *runtime, char *why,
                           size_t why_bytes)
{
	static const struct replacement own[] = {
		{ "cudaFuncGetAttributes", get_attributes },
		{ "cudaFuncSetAttribute", set_attribute },
		{ "cudaGetFuncBySymbol", get_function },
		{ "cudaIpcGetMemHandle", get_handle },
		{ "__cudaUnregisterFatBinary", unregister },
		{ NULL, NULL },
	};

	return patch_runtime(image, runtime, own, why, why_bytes);
}
