/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARED_H
#define SHARED_H

/*
 * One GPU as several devices, for tests of several ranks where there is but one
 *
 * NCCL 2.30.3 and newer let ranks share a GPU, if they are asked to
 * (NCCL_MULTI_RANK_GPU_ENABLE=1).  A folder with two libraries that stand in front of
 * the real ones makes each GPU TEST_RANKS_PER_GPU devices (2 if unset); it is used as
 * COHORT_GPU_LIBRARIES, and the real libraries are found as those of any program are.
 */

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "platform/cuda_abi.h"
#include "platform/functions.h"
#include "platform/nccl_abi.h"

#define EXPORT __attribute__((visibility("default")))

#define DECLARE(since, result, name, parameters, arguments)                    \
	EXPORT result name parameters;
NCCL_FUNCTIONS(DECLARE)
CUDA_FUNCTIONS(DECLARE)
#undef DECLARE

static inline int shared_ranks(void)
{
	const char *text = getenv("TEST_RANKS_PER_GPU");
	int n = text ? atoi(text) : 0;

	return n > 0 ? n : 2;
}

/* The function that this library stands in front of. */
static inline void *shared_real(const char *name)
{
	void *function = dlsym(RTLD_NEXT, name);

	if (function)
		return function;
	fprintf(stderr, "there is no %s behind the shared GPU\n", name);
	abort();
}

/* Declare real_NAME, which takes and returns what NAME() does. */
#define SHARED_REAL(name)                                                      \
	__typeof__(name) *real_##name =                                        \
		(__typeof__(name) *)(uintptr_t)shared_real(#name)

#endif
