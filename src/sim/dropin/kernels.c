/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a program with kernels calls of libcudart
 *
 * The host platform runs no kernels.  A program that has some starts all the
 * same: they are registered quietly, and one that is launched can be named.
 *
 * Here and in absent.c functions take no more arguments than they use; callers
 * pass all of them, which the calling conventions of C allow.
 */

#include "sim/dropin/unsupported.h"

struct dim3 {
	unsigned int x, y, z;
};

#define EXPORT(result, name, parameters)                                       \
	COHORT_API result name parameters;                                     \
	result name parameters

/* ---- registration ----------------------------------------------------- */

EXPORT(void **, __cudaRegisterFatBinary, (void))
{
	static void *handle;

	return &handle;
}

EXPORT(void, __cudaRegisterFatBinaryEnd, (void))
{
}

EXPORT(void, __cudaUnregisterFatBinary, (void))
{
}

EXPORT(char, __cudaInitModule, (void))
{
	return 1;
}

EXPORT(void, __cudaRegisterFunction,
       (void **module, const char *host, char *device, const char *name))
{
	(void)module;
	(void)device;
	unsupported_name(host, name);
}

EXPORT(void, __cudaRegisterVar, (void))
{
}

EXPORT(void, __cudaRegisterManagedVar, (void))
{
}

EXPORT(void, __cudaRegisterHostVar, (void))
{
}

/* ---- launches --------------------------------------------------------- */

/* What kernel<<<...>>>(...) hands to the kernel's stub. */
static _Thread_local struct {
	struct dim3 grid, block;
	size_t shared;
	cudaStream_t stream;
} configuration;

EXPORT(unsigned int, __cudaPushCallConfiguration,
       (struct dim3 grid, struct dim3 block, size_t shared,
        cudaStream_t stream))
{
	configuration.grid = grid;
	configuration.block = block;
	configuration.shared = shared;
	configuration.stream = stream;
	return 0;
}

EXPORT(cudaError_t, __cudaPopCallConfiguration,
       (struct dim3 * grid, struct dim3 *block, size_t *shared,
        cudaStream_t *stream))
{
	*grid = configuration.grid;
	*block = configuration.block;
	*shared = configuration.shared;
	*stream = configuration.stream;
	return cudaSuccess;
}

/* A kernel's handle is its host function. */
EXPORT(cudaError_t, __cudaGetKernel, (const void **kernel, const void *host))
{
	*kernel = host;
	return cudaSuccess;
}

#define FIRST_IS_KERNEL(name)                                                  \
	EXPORT(cudaError_t, name, (const void *kernel))                        \
	{                                                                      \
		return unsupported_kernel(kernel);                             \
	}

#define SECOND_IS_KERNEL(name)                                                 \
	EXPORT(cudaError_t, name, (const void *first, const void *kernel))     \
	{                                                                      \
		(void)first;                                                   \
		return unsupported_kernel(kernel);                             \
	}

FIRST_IS_KERNEL(__cudaLaunchKernel)
FIRST_IS_KERNEL(__cudaLaunchKernel_ptsz)
FIRST_IS_KERNEL(cudaLaunchKernel)
FIRST_IS_KERNEL(cudaLaunchKernel_ptsz)
FIRST_IS_KERNEL(cudaLaunchCooperativeKernel)
FIRST_IS_KERNEL(cudaLaunchCooperativeKernel_ptsz)
SECOND_IS_KERNEL(cudaLaunchKernelExC)
SECOND_IS_KERNEL(cudaLaunchKernelExC_ptsz)

/* ---- questions about kernels ------------------------------------------ */

FIRST_IS_KERNEL(cudaFuncSetAttribute)
FIRST_IS_KERNEL(cudaFuncSetCacheConfig)
FIRST_IS_KERNEL(cudaFuncSetSharedMemConfig)
SECOND_IS_KERNEL(cudaFuncGetAttributes)
SECOND_IS_KERNEL(cudaFuncGetName)
SECOND_IS_KERNEL(cudaOccupancyAvailableDynamicSMemPerBlock)
SECOND_IS_KERNEL(cudaOccupancyMaxActiveBlocksPerMultiprocessor)
SECOND_IS_KERNEL(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags)
SECOND_IS_KERNEL(cudaOccupancyMaxActiveClusters)
SECOND_IS_KERNEL(cudaOccupancyMaxPotentialClusterSize)

/* ---- the profiler ----------------------------------------------------- */

/* There is none, which is no reason for a program to stop. */
EXPORT(cudaError_t, cudaProfilerStart, (void))
{
	return cudaSuccess;
}

EXPORT(cudaError_t, cudaProfilerStop, (void))
{
	return cudaSuccess;
}
