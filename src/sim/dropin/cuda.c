/* SPDX-License-Identifier: Apache-2.0 */

/*
 * libcuda.so.1
 *
 * Every function of the list forwards by its own symbol.  Those that use a
 * stream have another form for programs that were compiled for one default
 * stream per thread, under the symbols that CUDA's header maps theirs to.
 */

#include "sim/dropin/calls.h"

#define PLAIN(symbol, parameters, arguments)                                   \
	COHORT_API CUresult symbol parameters;                                 \
	CUresult symbol parameters                                             \
	{                                                                      \
		CALLS_FORWARD(CUresult, symbol, arguments)                     \
	}

#define CONTEXT(symbol, parameters, arguments)                                 \
	PLAIN(symbol, parameters, arguments)

/* NULL is the thread's own stream in the second form, which begins with what replaces
 * it. */
#define OWN_AFTER(symbol, parameters, arguments, ...)                          \
	PLAIN(symbol, parameters, arguments)                                   \
	COHORT_API CUresult symbol##_ptsz parameters;                          \
	CUresult symbol##_ptsz parameters                                      \
	{                                                                      \
		__VA_ARGS__;                                                   \
		CALLS_FORWARD(CUresult, symbol, arguments)                     \
	}

#define STREAM(symbol, parameters, arguments)                                  \
	OWN_AFTER(symbol, parameters, arguments,                               \
	          stream = driver_own_stream(stream))

#define STREAMS(symbol, parameters, arguments)                                 \
	OWN_AFTER(symbol, parameters, arguments,                               \
	          stream = driver_own_stream(stream);                          \
	          src = driver_own_stream(src))

#define CONFIG(symbol, parameters, arguments)                                  \
	OWN_AFTER(symbol, parameters, arguments, CUlaunchConfig own;           \
	          config = driver_own_config(config, &own))

#define WAITS(symbol, parameters, arguments)                                   \
	PLAIN(symbol, parameters, arguments)                                   \
	COHORT_API CUresult symbol##_ptds parameters;                          \
	CUresult symbol##_ptds parameters                                      \
	{                                                                      \
		const struct host_calls *calls = cohort_host_calls();          \
		CUresult result = CUDA_ERROR_NOT_INITIALIZED;                  \
                                                                               \
		if (!calls->refused)                                           \
			result = calls->DRIVER_OWN_##symbol(                   \
				DRIVER_BARE arguments, cudaStreamPerThread);   \
		return result == CUDA_SUCCESS ? calls->cuStreamSynchronize(    \
							cudaStreamPerThread)   \
		                              : result;                        \
	}

#define FORWARD(since, name, symbol, form, parameters, arguments, ...)         \
	form(symbol, parameters, arguments)

DRIVER_FUNCTIONS(FORWARD)

/* ---- older symbols ---------------------------------------------------- */

/* The signatures are the same, and so is what the functions here do. */
#define OLDER(symbol)                                                          \
	COHORT_API extern __typeof__(symbol##_v2) symbol                       \
		__attribute__((alias(#symbol "_v2")));
#define OLDER_STREAM(symbol)                                                   \
	OLDER(symbol)                                                          \
	COHORT_API extern __typeof__(symbol##_v2_ptsz) symbol##_ptsz           \
		__attribute__((alias(#symbol "_v2_ptsz")));

OLDER(cuCtxDestroy)
OLDER(cuCtxPopCurrent)
OLDER(cuCtxPushCurrent)
OLDER(cuDevicePrimaryCtxRelease)
OLDER(cuDevicePrimaryCtxReset)
OLDER(cuDevicePrimaryCtxSetFlags)
OLDER(cuEventDestroy)
OLDER(cuIpcOpenMemHandle)
OLDER(cuMemHostRegister)
OLDER(cuStreamDestroy)
OLDER_STREAM(cuStreamBatchMemOp)
OLDER_STREAM(cuStreamWaitValue32)
OLDER_STREAM(cuStreamWaitValue64)
OLDER_STREAM(cuStreamWriteValue32)
OLDER_STREAM(cuStreamWriteValue64)
