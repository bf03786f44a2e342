/* SPDX-License-Identifier: Apache-2.0 */

/*
 * libcuda.so.1
 *
 * Every function of the list forwards by its own symbol, and so does the other
 * form that those which use a stream have for programs that were compiled for
 * one default stream per thread, under the symbols that CUDA's header maps
 * theirs to.
 */

#include "sim/dropin/host_calls.h"

#define DRIVER_FORM(symbol, parameters, arguments)                             \
	EXPORT(CUresult, symbol, parameters)                                   \
	{                                                                      \
		CALLS_FORWARD(CUresult, symbol, arguments)                     \
	}

DRIVER_FUNCTIONS(DRIVER_FORMS)

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
