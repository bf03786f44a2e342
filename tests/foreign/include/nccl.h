/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NCCL_H_
#define NCCL_H_

/*
 * Enough of NCCL's header for the programs in tests/foreign/programs, where
 * there is no real one: the project's list of functions as declarations
 */

#include <cuda_runtime.h>

#include "platform/nccl_abi.h"

#define NCCL_VERSION(major, minor, patch)                                      \
	((major)*10000 + (minor)*100 + (patch))
#define NCCL_VERSION_CODE NCCL_CONFIG_VERSION

#define ncclChar ncclInt8
#define ncclInt ncclInt32
#define ncclHalf ncclFloat16
#define ncclFloat ncclFloat32
#define ncclDouble ncclFloat64

#ifdef __cplusplus
extern "C" {
#endif

NCCL_FUNCTIONS(CUDA_RUNTIME_DECLARE)

#ifdef __cplusplus
}
#endif

#endif
