/* SPDX-License-Identifier: Apache-2.0 */

/*
 * libnccl.so.2
 *
 * Every function has NCCL's second name for it, pnccl..., and the first is a
 * weak alias, as in NCCL: a program may put a function of its own in front.
 */

#include "sim/dropin/host_calls.h"

#define FORWARD(since, result, name, parameters, arguments)                    \
	EXPORT(result, p##name, parameters){ CALLS_FORWARD(                    \
		result, name, arguments) } COHORT_API result name parameters   \
		__attribute__((weak, alias("p" #name)));

NCCL_FUNCTIONS(FORWARD)

/* Deprecated, and nothing to do: the environment is read once. */
EXPORT(void, pncclResetDebugInit, (void))
{
}
COHORT_API void ncclResetDebugInit(void)
	__attribute__((weak, alias("pncclResetDebugInit")));
