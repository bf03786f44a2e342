/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CUDA_RUNTIME_H
#define CUDA_RUNTIME_H

/*
 * Enough of CUDA's header for the programs in tests/foreign/programs, where
 * there is no real one: the project's lists of functions as declarations
 */

#ifdef __cplusplus
#define _Static_assert static_assert
#endif

#include "platform/cuda_abi.h"
#include "platform/functions.h"
#include "sim/exports.h"

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

#endif
