/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDA_RUNTIME_API_H
#define CUDA_RUNTIME_API_H

/*
 * The CUDA runtime as implemented by Cohort's simulator, to compile programs
 * where CUDA is not installed
 *
 * It has all functions of the simulator's libcudart.so.13, which replaces the
 * library of CUDA 13, and the types and constants that these functions take.
 * Names, values and layouts are CUDA's.  It has nothing for kernels, because
 * the simulator cannot run them.
 *
 * Do not use it together with CUDA's headers.
 */

#include <stddef.h>

#include "platform/cuda_abi.h"
#include "platform/functions.h"
#include "sim/exports.h"

#define CUDART_VERSION 13000
#define CUDARTAPI
#define CUDART_CB

#define CUDA_RUNTIME_DECLARE(since, result, name, parameters, arguments)       \
	result name parameters;

#ifdef __cplusplus
extern "C" {
#endif

CUDA_FUNCTIONS(CUDA_RUNTIME_DECLARE)
HOST_CUDA_FUNCTIONS(CUDA_RUNTIME_DECLARE)

#ifdef __cplusplus
}
#endif

#ifdef __cplusplus
/* CUDA's default arguments for C++. */
extern "C" {
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = 0);
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream = 0,
                                     unsigned int flags = 0);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                 unsigned long long flags = 0);
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec,
                                          cudaGraph_t graph,
                                          unsigned long long flags = 0);
cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph,
                                       cudaUserObject_t object,
                                       unsigned int count = 1);
cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph,
                                      cudaUserObject_t object,
                                      unsigned int count = 1,
                                      unsigned int flags = 0);
cudaError_t cudaMemPrefetchAsync(const void *memory, size_t bytes,
                                 struct cudaMemLocation location,
                                 unsigned int flags, cudaStream_t stream = 0);
cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src,
                              size_t src_pitch, size_t width, size_t height,
                              enum cudaMemcpyKind kind,
                              cudaStream_t stream = 0);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes,
                            enum cudaMemcpyKind kind, cudaStream_t stream = 0);
cudaError_t cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src,
                                int src_device, size_t bytes,
                                cudaStream_t stream = 0);
cudaError_t cudaMemset2DAsync(void *memory, size_t pitch, int value,
                              size_t width, size_t height,
                              cudaStream_t stream = 0);
cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes,
                            cudaStream_t stream = 0);
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream,
                                                cudaGraphNode_t *nodes,
                                                const cudaGraphEdgeData *edges,
                                                size_t count,
                                                unsigned int flags = 0);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                unsigned int flags = 0);
cudaError_t cudaUserObjectRelease(cudaUserObject_t object,
                                  unsigned int count = 1);
cudaError_t cudaUserObjectRetain(cudaUserObject_t object,
                                 unsigned int count = 1);
}
#endif

#endif
