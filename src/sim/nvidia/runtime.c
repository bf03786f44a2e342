/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the drop-in libcudart refuses, or answers otherwise, and NCCL needs: functions
 * on kernels, and memory's handles for other processes
 */

#include "sim/nvidia/runtime.h"

#include <stdio.h>
#include <string.h>

#include "sim/dropin/calls.h"
#include "sim/nvidia/stub.h"

/* The codes of compute capability 9.0, which the simulator's devices have. */
#define CODE 90
#define SHARED_MOST (227 * 1024)

static cudaError_t fail(cudaError_t error)
{
	return cohort_host_calls()->fail(error);
}

/* ---- kernels ---------------------------------------------------------- */

/* NCCL asks for the stack and for the shared memory that a kernel takes: none. */
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

/* What is set concerns the use of a multiprocessor, of which there is none. */
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

/* ---- memory's handles ------------------------------------------------- */

/*
 * NCCL makes them for all of its buffers, to send them to ranks of other processes; and
 * it takes the address itself for the ranks of its own process, which are all that there
 * are where memory cannot be shared.
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

/* ---- what only a runtime that is linked in has ------------------------ */

/* Functions that no NCCL has been seen to call, and the drop-in libcudart lacks. */
#define MISSING(X)                                                             \
	X(cudaDevResourceGenerateDesc)                                         \
	X(cudaDevSmResourceSplit)                                              \
	X(cudaDevSmResourceSplitByCount)                                       \
	X(cudaDeviceGetDevResource)                                            \
	X(cudaDeviceGetExecutionCtx)                                           \
	X(cudaExecutionCtxDestroy)                                             \
	X(cudaExecutionCtxGetDevResource)                                      \
	X(cudaExecutionCtxGetDevice)                                           \
	X(cudaExecutionCtxGetId)                                               \
	X(cudaExecutionCtxRecordEvent)                                         \
	X(cudaExecutionCtxStreamCreate)                                        \
	X(cudaExecutionCtxSynchronize)                                         \
	X(cudaExecutionCtxWaitEvent)                                           \
	X(cudaFuncGetParamCount)                                               \
	X(cudaGraphConditionalHandleCreate_v2)                                 \
	X(cudaGraphExecGetId)                                                  \
	X(cudaGraphGetId)                                                      \
	X(cudaGraphNodeGetContainingGraph)                                     \
	X(cudaGraphNodeGetLocalId)                                             \
	X(cudaGraphNodeGetParams)                                              \
	X(cudaGraphNodeGetToolsId)                                             \
	X(cudaGreenCtxCreate)                                                  \
	X(cudaLaunchHostFunc_v2)                                               \
	X(cudaLaunchHostFunc_v2_ptsz)                                          \
	X(cudaMemGetLocationInfo)                                              \
	X(cudaMemcpy3DWithAttributesAsync)                                     \
	X(cudaMemcpy3DWithAttributesAsync_ptsz)                                \
	X(cudaMemcpyWithAttributesAsync)                                       \
	X(cudaMemcpyWithAttributesAsync_ptsz)                                  \
	X(cudaStreamBeginRecaptureToGraph)                                     \
	X(cudaStreamBeginRecaptureToGraph_ptsz)                                \
	X(cudaStreamGetCaptureInfo_v2)                                         \
	X(cudaStreamGetDevResource)                                            \
	X(cudaStreamGetDevResource_ptsz)                                       \
	X(cudaSubgridCreate)                                                   \
	X(cudaSubgridWorkerGridCreate)                                         \
	X(cudaSubgridWorksetCreate)

static cudaError_t refuse(const char *name)
{
	fprintf(stderr, "cohort: %s: the host platform has no such function\n",
	        name);
	return fail(cudaErrorNotSupported);
}

#define REFUSE(name)                                                           \
	static cudaError_t name##_missing(void)                                \
	{                                                                      \
		return refuse(#name);                                          \
	}

MISSING(REFUSE)

/* ---- the end of the process ------------------------------------------- */

/* The runtime that is linked in would unload the kernels from a driver. */
static void unregister(void **module)
{
	(void)module;
}

/* ----------------------------------------------------------------------- */

#define REFUSAL(name) { #name, name##_missing },

const struct patch runtime_functions[] = {
	{ "cudaFuncGetAttributes", get_attributes },
	{ "cudaFuncSetAttribute", set_attribute },
	{ "cudaGetFuncBySymbol", get_function },
	{ "cudaIpcGetMemHandle", get_handle },
	MISSING(REFUSAL){ "__cudaUnregisterFatBinary", unregister },
	{ NULL, NULL },
};
