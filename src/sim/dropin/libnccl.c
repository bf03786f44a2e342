/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements libnccl.so.2
 *
 * As in NCCL, every function is defined as pnccl..., with the usual name as a
 * weak alias, so that a program can intercept the function.
 */

#include "sim/dropin/unsupported.h"
#include "sim/nccl_exports.h"

#define FORWARD(since, result, name, parameters, arguments)                    \
	EXPORT(result, p##name, parameters){ CALLS_FORWARD(                    \
		result, name, arguments) } COHORT_API result name parameters   \
		__attribute__((weak, alias("p" #name)));

NCCL_FUNCTIONS(FORWARD)

/* Define a function that does nothing, because the simulator reads the
 * environment only once. */
#define IGNORE(since, result, name, parameters, arguments)                     \
	EXPORT(result, p##name, (void))                                        \
	{                                                                      \
	}                                                                      \
	COHORT_API result name(void) __attribute__((weak, alias("p" #name)));

NCCL_DEBUG_FUNCTIONS(IGNORE)

/* ---- functions that the host platform lacks --------------------------- */

/* Results of the functions that the host platform lacks, by result type. */
#define REFUSAL_ncclResult_t ncclInvalidUsage
#define REFUSAL_int (-1)
#define REFUSAL_ncclTeam_t ((ncclTeam_t){ 0, 0, 0 })

#define REFUSE(since, result, name, parameters, arguments)                     \
	EXPORT(result, p##name, (void))                                        \
	{                                                                      \
		unsupported_report(#name);                                     \
		return REFUSAL_##result;                                       \
	}                                                                      \
	COHORT_API result name(void) __attribute__((weak, alias("p" #name)));

NCCL_DEVICE_FUNCTIONS(REFUSE)
NCCL_LATER_FUNCTIONS(REFUSE)
