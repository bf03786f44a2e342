/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDA_CALLS_H
#define CUDA_CALLS_H

/*
 * CUDA runtime functions that programs call. The library does not call them, so
 * they are not in the platform's table.
 */

#include "sim/host.h"

#define CUDA_CALLS(X)                                                          \
	X(cudaStreamBeginCapture)                                              \
	X(cudaStreamEndCapture)                                                \
	X(cudaGraphDestroy)                                                    \
	X(cudaGraphInstantiateWithFlags)                                       \
	X(cudaGraphLaunch)                                                     \
	X(cudaGraphExecDestroy)                                                \
	X(cudaHostRegister)                                                    \
	X(cudaHostUnregister)                                                  \
	X(cudaDeviceEnablePeerAccess)                                          \
	X(cudaDeviceDisablePeerAccess)

/* Each function has CUDA's name, signature and results. */
struct cuda_calls {
#define CUDA_CALL(name) __typeof__(host_##name) *name;
	CUDA_CALLS(CUDA_CALL)
#undef CUDA_CALL
};

/* Return the functions of the platform under test. If its runtime lacks one of
 * them, end the program with a message. */
const struct cuda_calls *cuda_calls(void);

#endif
