/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Collects facts about the ABI from one set of headers
 *
 * This file is compiled twice: with ABI_OURS against the project's own ABI
 * headers, and with ABI_REAL against NCCL's and CUDA's headers. An array
 * receives the values of all constants and the sizes of all types, which main.c
 * compares. The compiler checks the signatures: after the real headers, every
 * function of the platform's lists is declared again, and a conflicting
 * declaration does not compile.
 *
 * With ABI_NO_DRIVER, there are no facts about the CUDA driver, and declared.h
 * must not have any. This is for comparing the headers that are installed for
 * programs of the simulator (src/sim/include), which do not include cuda.h.
 */

#include "facts.h"

#if defined(ABI_OURS)
#include "platform/cuda_abi.h"
#include "platform/nccl_abi.h"
#include "sim/driver/driver_abi.h"
#define ABI_FACTS abi_ours
#define ABI_COUNT abi_ours_count
#elif defined(ABI_REAL)
#ifndef ABI_NO_DRIVER
#include <cuda.h>
#endif
#include <cuda_runtime_api.h>
#include <nccl.h>
#define ABI_FACTS abi_real
#define ABI_COUNT abi_real_count
#else
#error "define ABI_OURS or ABI_REAL"
#endif

#include "platform/cuda_attributes.h"
#include "platform/cuda_properties.h"
#include "platform/functions.h"
#include "sim/driver/results.h"
#include "sim/exports.h"

#if defined(ABI_REAL)
/*
 * Declare a function again. If the real headers lack the function, the typedef
 * does not compile. If they declare it differently, the declaration does not
 * compile.
 */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#define ABI_DECLARE(since, result, name, parameters, arguments)                \
	typedef __typeof__(name) abi_type_of_##name;                           \
	extern result name parameters;
NCCL_FUNCTIONS(ABI_DECLARE)
CUDA_FUNCTIONS(ABI_DECLARE)
HOST_CUDA_FUNCTIONS(ABI_DECLARE)
#undef ABI_DECLARE
#endif

/* clang-format off */
#define ABI_NAMED(name, value) { name, (long long)(value) }
#define ABI_VALUE(name) ABI_NAMED(#name, name)
#define ABI_SIZE(type) ABI_NAMED("sizeof(" #type ")", sizeof(type))
#define ABI_OFFSET(type, field)                                                \
	ABI_NAMED("offsetof(" #type ", " #field ")", offsetof(type, field))
/* clang-format on */

const struct abi_fact ABI_FACTS[] = {
/* declared.sh generates this from the project's headers. */
#include "declared.h"

	ABI_SIZE(ncclComm_t),
	ABI_SIZE(cudaStream_t),
	ABI_SIZE(cudaEvent_t),
	ABI_SIZE(cudaHostFn_t),
	ABI_SIZE(cudaMemPool_t),
	ABI_SIZE(cudaGraph_t),
	ABI_SIZE(cudaGraphNode_t),
	ABI_SIZE(cudaGraphExec_t),
	ABI_SIZE(cudaUserObject_t),
	ABI_SIZE(cudaStreamCallback_t),

#define ABI_ERROR(name, value, ...) ABI_VALUE(name),
	CUDA_ERRORS(ABI_ERROR, ABI_ERROR)
#undef ABI_ERROR

#define ABI_ATTRIBUTE(name, value, expression) ABI_VALUE(name),
		CUDA_ATTRIBUTES(ABI_ATTRIBUTE)
#undef ABI_ATTRIBUTE

#ifndef ABI_NO_DRIVER
#define ABI_RESULT(runtime, value, name, text) ABI_VALUE(name),
			CU_RESULTS(ABI_RESULT)
#undef ABI_RESULT

				ABI_SIZE(CUdeviceptr),
	ABI_SIZE(CUmemGenericAllocationHandle),
	ABI_SIZE(CUmemAccessDesc),
	ABI_OFFSET(CUlaunchAttributeValue, launchCompletionEvent.event),
	ABI_OFFSET(CUlaunchAttributeValue, launchCompletionEvent.flags),
	ABI_OFFSET(CUlaunchAttributeValue, programmaticEvent.event),
	ABI_OFFSET(CUlaunchAttributeValue, programmaticEvent.flags),
#endif

#define ABI_FIELD(type, name, dimensions)                                      \
	ABI_OFFSET(struct cudaDeviceProp, name),
#define ABI_DROPPED(type, name, dimensions)
	CUDA_DEVICE_PROPERTIES(ABI_FIELD, ABI_DROPPED)
		CUDA_DEVICE_PROPERTIES_13(ABI_FIELD)
#undef ABI_FIELD
#undef ABI_DROPPED
};

const size_t ABI_COUNT = sizeof(ABI_FACTS) / sizeof(ABI_FACTS[0]);
