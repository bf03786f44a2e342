/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What CUDA's runtime has and the host platform has not
 *
 * A program that is linked against such a function but never calls it has to
 * start, and a program that calls it is told which it is.  As the definitions
 * here are weak, the list may hold every name: where the function itself
 * exists, that is linked.
 */

#include "sim/dropin/cudart.h"
#include "sim/dropin/names.h"
#include "sim/dropin/unsupported.h"

#define ABSENT(name)                                                           \
	COHORT_API cudaError_t name(void) __attribute__((weak));               \
	cudaError_t name(void)                                                 \
	{                                                                      \
		return unsupported_function(#name);                            \
	}

#if CUDART == 12
CUDART_12_NAMES(ABSENT)
#else
CUDART_13_NAMES(ABSENT)
#endif
