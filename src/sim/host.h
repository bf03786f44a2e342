/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_HOST_H
#define SIM_HOST_H

/*
 * Prototypes of the simulator's functions, one for each line of
 * platform/functions.h and of exports.h
 *
 * For example, host_cudaMalloc() implements cudaMalloc(), with CUDA's
 * signature, semantics and results.  The CUDA functions are in cuda/, the NCCL
 * functions in nccl/.
 */

#include <cohort/sim.h>

#include "platform/platform.h"
#include "sim/exports.h"

#define HOST_PROTOTYPE(since, result, name, parameters, arguments)             \
	result host_##name parameters;
NCCL_FUNCTIONS(HOST_PROTOTYPE)
CUDA_FUNCTIONS(HOST_PROTOTYPE)
HOST_CUDA_FUNCTIONS(HOST_PROTOTYPE)
#undef HOST_PROTOTYPE

#define HOST_PROTOTYPE12(since, result, name, parameters, arguments)           \
	result host12_##name parameters;
HOST_CUDA12_FUNCTIONS(HOST_PROTOTYPE12)
#undef HOST_PROTOTYPE12

#endif
