/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What CUDA's driver has and the host platform has not: as in absent.c
 *
 * cuGetProcAddress() finds none of it.
 */

#include "sim/dropin/cuda_names.h"
#include "sim/dropin/unsupported.h"

#define ABSENT(name)                                                           \
	COHORT_API cudaError_t name(void) __attribute__((weak));               \
	cudaError_t name(void)                                                 \
	{                                                                      \
		return unsupported_function(#name);                            \
	}

CUDA_DRIVER_NAMES(ABSENT)
