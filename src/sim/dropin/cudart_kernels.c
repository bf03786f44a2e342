/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements the functions of libcudart that a program with kernels calls
 *
 * The host platform runs no kernels unless a launcher is set
 * (driver/kernel_launcher.h).  Even without a launcher, a program with kernels
 * can start: its kernels are registered silently, so that the message about a
 * launch can name the kernel.
 *
 * Functions here and in cudart_absent.c declare only the arguments that they
 * use.  Callers pass all arguments of the CUDA function, which C's calling
 * conventions allow.
 */

#include "sim/dropin/unsupported.h"

struct dim3 {
	unsigned int x, y, z;
};

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

/* The launch configuration that kernel<<<...>>> passes to the kernel's host
 * stub. */
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

/* Return the handle of a kernel, which is its host function. */
EXPORT(cudaError_t, __cudaGetKernel, (const void **kernel, const void *host))
{
	*kernel = host;
	return cudaSuccess;
}

/* Run a kernel launch through the launcher, or report the kernel if no launcher
 * is set. */
static cudaError_t launch(const struct host_launch *l)
{
	const struct host_calls *calls = cohort_host_calls();
	CUresult result;

	if (calls->refused)
		return cudaErrorInitializationError;
	result = calls->launch(l);
	if (result == CUDA_ERROR_NOT_SUPPORTED)
		return unsupported_kernel(l->function);
	return calls->fail((cudaError_t)result);
}

static cudaError_t launch_plain(const void *kernel, struct dim3 grid,
                                struct dim3 block, void **arguments,
                                size_t shared, cudaStream_t stream)
{
	return launch(&(struct host_launch){
		.function = kernel,
		.grid = { grid.x, grid.y, grid.z },
		.block = { block.x, block.y, block.z },
		.shared = (unsigned int)shared,
		.stream = stream,
		.pointers = arguments,
	});
}

#define LAUNCH(name)                                                           \
	EXPORT(cudaError_t, name,                                              \
	       (const void *kernel, struct dim3 grid, struct dim3 block,       \
	        void **arguments, size_t shared, cudaStream_t stream))         \
	{                                                                      \
		return launch_plain(kernel, grid, block, arguments, shared,    \
		                    stream);                                   \
	}                                                                      \
	EXPORT(cudaError_t, name##_ptsz,                                       \
	       (const void *kernel, struct dim3 grid, struct dim3 block,       \
	        void **arguments, size_t shared, cudaStream_t stream))         \
	{                                                                      \
		return launch_plain(kernel, grid, block, arguments, shared,    \
		                    stream ? stream : cudaStreamPerThread);    \
	}

LAUNCH(__cudaLaunchKernel)
LAUNCH(cudaLaunchKernel)
LAUNCH(cudaLaunchCooperativeKernel)

struct cudaLaunchConfig {
	struct dim3 grid, block;
	size_t shared;
	cudaStream_t stream;
	const CUlaunchAttribute *attributes;
	unsigned int attribute_count;
};

static cudaError_t launch_config(const struct cudaLaunchConfig *c,
                                 const void *kernel, void **arguments,
                                 cudaStream_t if_null)
{
	static const struct cudaLaunchConfig none;

	if (!c)
		c = &none;
	return launch(&(struct host_launch){
		.function = kernel,
		.grid = { c->grid.x, c->grid.y, c->grid.z },
		.block = { c->block.x, c->block.y, c->block.z },
		.shared = (unsigned int)c->shared,
		.stream = c->stream ? c->stream : if_null,
		.pointers = arguments,
		.attributes = c->attributes,
		.attribute_count = c->attributes ? c->attribute_count : 0,
	});
}

EXPORT(cudaError_t, cudaLaunchKernelExC,
       (const struct cudaLaunchConfig *config, const void *kernel,
        void **arguments))
{
	return launch_config(config, kernel, arguments, NULL);
}

EXPORT(cudaError_t, cudaLaunchKernelExC_ptsz,
       (const struct cudaLaunchConfig *config, const void *kernel,
        void **arguments))
{
	return launch_config(config, kernel, arguments, cudaStreamPerThread);
}

/* ---- queries about kernels -------------------------------------------- */

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

/* Succeed even though there is no profiler, so that programs continue. */
EXPORT(cudaError_t, cudaProfilerStart, (void))
{
	return cudaSuccess;
}

EXPORT(cudaError_t, cudaProfilerStop, (void))
{
	return cudaSuccess;
}
