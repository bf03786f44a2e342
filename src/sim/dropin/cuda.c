/* SPDX-License-Identifier: Apache-2.0 */

/*
 * libcuda.so.1
 *
 * Every function of the list forwards by its own symbol.  Those that use a stream have
 * another form for programs that were compiled for one default stream per thread,
 * under the symbols that CUDA's header maps theirs to.
 */

#include "sim/dropin/calls.h"
#include "sim/dropin/cuda_names.h"
#include "sim/dropin/unsupported.h"

#define PLAIN(symbol, parameters, arguments)                                   \
	COHORT_API CUresult symbol parameters;                                 \
	CUresult symbol parameters                                             \
	{                                                                      \
		CALLS_FORWARD(CUresult, symbol, arguments)                     \
	}

#define CONTEXT(symbol, parameters, arguments)                                 \
	PLAIN(symbol, parameters, arguments)

/* NULL is the thread's own stream in the second form. */
#define STREAM(symbol, parameters, arguments)                                  \
	PLAIN(symbol, parameters, arguments)                                   \
	COHORT_API CUresult symbol##_ptsz parameters;                          \
	CUresult symbol##_ptsz parameters                                      \
	{                                                                      \
		if (!stream)                                                   \
			stream = cudaStreamPerThread;                          \
		CALLS_FORWARD(CUresult, symbol, arguments)                     \
	}

#define WAITS(symbol, parameters, arguments)                                   \
	PLAIN(symbol, parameters, arguments)                                   \
	COHORT_API CUresult symbol##_ptds parameters;                          \
	CUresult symbol##_ptds parameters                                      \
	{                                                                      \
		CALLS_FORWARD(CUresult, symbol, arguments)                     \
	}

#define FORWARD(since, name, symbol, form, parameters, arguments, ...)         \
	form(symbol, parameters, arguments)

DRIVER_FUNCTIONS(FORWARD)

/* ---- second forms that are not like the others ------------------------ */

COHORT_API CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config,
                                          CUfunction function, void **pointers,
                                          void **extra);
CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config,
                               CUfunction function, void **pointers,
                               void **extra)
{
	CUlaunchConfig own;

	if (!config || config->hStream)
		return cuLaunchKernelEx(config, function, pointers, extra);
	own = *config;
	own.hStream = cudaStreamPerThread;
	return cuLaunchKernelEx(&own, function, pointers, extra);
}

static uint64_t own_streams(uint64_t flags)
{
	return flags == CU_GET_PROC_ADDRESS_DEFAULT
	               ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
	               : flags;
}

COHORT_API CUresult cuGetProcAddress_ptsz(const char *name, void **out,
                                          int version, uint64_t flags);
CUresult cuGetProcAddress_ptsz(const char *name, void **out, int version,
                               uint64_t flags)
{
	return cuGetProcAddress(name, out, version, own_streams(flags));
}

COHORT_API CUresult
cuGetProcAddress_v2_ptsz(const char *name, void **out, int version,
                         uint64_t flags,
                         CUdriverProcAddressQueryResult *status);
CUresult cuGetProcAddress_v2_ptsz(const char *name, void **out, int version,
                                  uint64_t flags,
                                  CUdriverProcAddressQueryResult *status)
{
	return cuGetProcAddress_v2(name, out, version, own_streams(flags),
	                           status);
}

/* ---- what the driver has and the host platform has not ---------------- */

/* A program that is linked against these starts, and one that calls them is told
 * which it is. */
#define ABSENT(name)                                                           \
	COHORT_API cudaError_t name(void);                                     \
	cudaError_t name(void)                                                 \
	{                                                                      \
		return unsupported_function(#name);                            \
	}

CUDA_ABSENT_NAMES(ABSENT)
