/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARED_H
#define SHARED_H

/*
 * Wrapper libraries that show one GPU as several devices, for tests with
 * several ranks on one GPU
 *
 * NCCL 2.30.3 and newer let ranks share a GPU if NCCL_MULTI_RANK_GPU_ENABLE is
 * 1. The two wrapper libraries show each GPU as TEST_RANKS_PER_GPU devices (2
 * if unset). Set COHORT_GPU_LIBRARIES to the folder of the wrappers. They find
 * the real libraries as any program does.
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

/* Return the function that this library wraps. */
static inline void *shared_real(const char *name)
{
	void *function = dlsym(RTLD_NEXT, name);

	if (function)
		return function;
	fprintf(stderr, "the real library has no %s\n", name);
	abort();
}

/* Declare real_NAME, a pointer to the wrapped function NAME(). */
#define SHARED_REAL(name)                                                      \
	__typeof__(name) *real_##name =                                        \
		(__typeof__(name) *)(uintptr_t)shared_real(#name)

#endif
