/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDA_CALLS_H
#define CUDA_CALLS_H

/*
 * CUDA runtime functions that programs call. The library does not call them, so
 * they are not in the platform's table.
 */

#include "platform/platform.h"

/* Each function has CUDA's name, signature and results. */
struct cuda_calls {
	cudaError_t (*cudaStreamBeginCapture)(cudaStream_t stream,
	                                      enum cudaStreamCaptureMode mode);
	cudaError_t (*cudaStreamEndCapture)(cudaStream_t stream,
	                                    cudaGraph_t *graph);
	cudaError_t (*cudaGraphDestroy)(cudaGraph_t graph);
	cudaError_t (*cudaGraphInstantiateWithFlags)(cudaGraphExec_t *exec,
	                                             cudaGraph_t graph,
	                                             unsigned long long flags);
	cudaError_t (*cudaGraphLaunch)(cudaGraphExec_t exec,
	                               cudaStream_t stream);
	cudaError_t (*cudaGraphExecDestroy)(cudaGraphExec_t exec);
	cudaError_t (*cudaHostRegister)(void *memory, size_t bytes,
	                                unsigned int flags);
	cudaError_t (*cudaHostUnregister)(void *memory);
	cudaError_t (*cudaDeviceEnablePeerAccess)(int peer, unsigned int flags);
	cudaError_t (*cudaDeviceDisablePeerAccess)(int peer);
};

/* Return the functions of the platform under test. If its runtime lacks one of
 * them, end the program with a message. */
const struct cuda_calls *cuda_calls(void);

#endif
