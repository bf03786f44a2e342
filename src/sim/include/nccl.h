/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NCCL_H_
#define NCCL_H_

/*
 * NCCL as implemented by Cohort's simulator, to compile programs where NCCL is
 * not installed
 *
 * It has the host API of NCCL 2.28.  Names, values and layouts are NCCL's.
 *
 * Do not use it together with NCCL's header.
 */

#include <cuda_runtime.h>

#include "platform/functions.h"
#include "platform/nccl_abi.h"

#define NCCL_MAJOR 2
#define NCCL_MINOR 28
#define NCCL_PATCH 9
#define NCCL_SUFFIX ""
#define NCCL_VERSION(major, minor, patch)                                      \
	((major)*10000 + (minor)*100 + (patch))
#define NCCL_VERSION_CODE NCCL_VERSION(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH)

#define ncclChar ncclInt8
#define ncclInt ncclInt32
#define ncclHalf ncclFloat16
#define ncclFloat ncclFloat32
#define ncclDouble ncclFloat64

/* Every function has two names, as in NCCL. */
#define NCCL_DECLARE(since, result, name, parameters, arguments)               \
	result name parameters;                                                \
	result p##name parameters;

#ifdef __cplusplus
extern "C" {
#endif

NCCL_FUNCTIONS(NCCL_DECLARE)
void ncclResetDebugInit(void);
void pncclResetDebugInit(void);

#ifdef __cplusplus
}
#endif

#endif
