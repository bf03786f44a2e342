/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements libcuda.so.1
 *
 * Every function in the list is exported under its own symbol and forwards to
 * the host platform.  A function that uses a stream also has the symbol that
 * CUDA's header substitutes in programs that are compiled for per-thread
 * default streams.
 */

#include "sim/dropin/host_calls.h"

#define DRIVER_FORM(symbol, parameters, arguments)                             \
	EXPORT(CUresult, symbol, parameters)                                   \
	{                                                                      \
		CALLS_FORWARD(CUresult, symbol, arguments)                     \
	}

DRIVER_FUNCTIONS(DRIVER_FORMS)

/* ---- older symbols ---------------------------------------------------- */

/* Define an older symbol as an alias of the newer one, which has the same
 * signature and effect. */
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
