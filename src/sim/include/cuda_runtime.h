/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDA_RUNTIME_H
#define CUDA_RUNTIME_H

/*
 * The CUDA runtime as implemented by Cohort's simulator (cuda_runtime_api.h),
 * with templates for C++ that take pointers of any type
 */

#include <cuda_runtime_api.h>

#ifdef __cplusplus
template <class T>
static inline cudaError_t cudaMalloc(T **memory, size_t bytes)
{
	return ::cudaMalloc((void **)(void *)memory, bytes);
}

template <class T>
static inline cudaError_t cudaMallocAsync(T **memory, size_t bytes,
                                          cudaStream_t stream)
{
	return ::cudaMallocAsync((void **)(void *)memory, bytes, stream);
}

template <class T>
static inline cudaError_t
cudaMallocManaged(T **memory, size_t bytes,
                  unsigned int flags = cudaMemAttachGlobal)
{
	return ::cudaMallocManaged((void **)(void *)memory, bytes, flags);
}

template <class T>
static inline cudaError_t cudaMallocHost(T **memory, size_t bytes,
                                         unsigned int flags = 0)
{
	return ::cudaHostAlloc((void **)(void *)memory, bytes, flags);
}

template <class T>
static inline cudaError_t cudaHostAlloc(T **memory, size_t bytes,
                                        unsigned int flags)
{
	return ::cudaHostAlloc((void **)(void *)memory, bytes, flags);
}

template <class T>
static inline cudaError_t cudaHostGetDevicePointer(T **device, void *host,
                                                   unsigned int flags)
{
	return ::cudaHostGetDevicePointer((void **)(void *)device, host, flags);
}
#endif

#endif
