/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a set of headers says about the ABI
 *
 * Compiled twice: with ABI_OURS against the project's own ABI headers, and
 * with ABI_REAL against NCCL's and CUDA's.  Every constant and the size of
 * every type go into an array that main.c compares.  Signatures need no
 * running: after the real headers, every function of the platform's lists is
 * declared once more, and a disagreement does not compile.
 */

#include "facts.h"

#if defined(ABI_OURS)
#include "platform/cuda_abi.h"
#include "platform/nccl_abi.h"
#define ABI_FACTS abi_ours
#define ABI_COUNT abi_ours_count
#elif defined(ABI_REAL)
#include <cuda_runtime_api.h>
#include <nccl.h>
#define ABI_FACTS abi_real
#define ABI_COUNT abi_real_count
#else
#error "define ABI_OURS or ABI_REAL"
#endif

#include "platform/functions.h"

#if defined(ABI_REAL)
/* The first line fails for a function that the real headers do not have, the
 * second for one that they declare differently. */
#define ABI_DECLARE(since, result, name, parameters, arguments)                \
	typedef __typeof__(name) abi_type_of_##name;                           \
	extern result name parameters;
NCCL_FUNCTIONS(ABI_DECLARE)
CUDA_FUNCTIONS(ABI_DECLARE)
#undef ABI_DECLARE
#endif

/* clang-format off */
#define ABI_NAMED(name, value) { name, (long long)(value) }
#define ABI_VALUE(name) ABI_NAMED(#name, name)
#define ABI_HANDLE(name) ABI_NAMED(#name, (size_t)(name))
#define ABI_SIZE(type) ABI_NAMED("sizeof(" #type ")", sizeof(type))
/* clang-format on */

const struct abi_fact ABI_FACTS[] = {
	ABI_SIZE(ncclComm_t),
	ABI_SIZE(ncclUniqueId),
	ABI_SIZE(ncclResult_t),
	ABI_SIZE(ncclDataType_t),
	ABI_SIZE(ncclRedOp_t),
	ABI_SIZE(cudaStream_t),
	ABI_SIZE(cudaEvent_t),
	ABI_SIZE(cudaHostFn_t),
	ABI_SIZE(cudaError_t),
	ABI_SIZE(enum cudaMemcpyKind),

	ABI_VALUE(NCCL_UNIQUE_ID_BYTES),

	ABI_VALUE(ncclSuccess),
	ABI_VALUE(ncclUnhandledCudaError),
	ABI_VALUE(ncclSystemError),
	ABI_VALUE(ncclInternalError),
	ABI_VALUE(ncclInvalidArgument),
	ABI_VALUE(ncclInvalidUsage),
	ABI_VALUE(ncclRemoteError),
	ABI_VALUE(ncclInProgress),

	ABI_VALUE(ncclInt8),
	ABI_VALUE(ncclUint8),
	ABI_VALUE(ncclInt32),
	ABI_VALUE(ncclUint32),
	ABI_VALUE(ncclInt64),
	ABI_VALUE(ncclUint64),
	ABI_VALUE(ncclFloat16),
	ABI_VALUE(ncclFloat32),
	ABI_VALUE(ncclFloat64),
	ABI_VALUE(ncclBfloat16),
	ABI_VALUE(ncclFloat8e4m3),
	ABI_VALUE(ncclFloat8e5m2),
	ABI_VALUE(ncclNumTypes),

	ABI_VALUE(ncclSum),
	ABI_VALUE(ncclProd),
	ABI_VALUE(ncclMax),
	ABI_VALUE(ncclMin),
	ABI_VALUE(ncclAvg),
	ABI_VALUE(ncclNumOps),

	ABI_VALUE(cudaSuccess),
	ABI_VALUE(cudaErrorInvalidValue),
	ABI_VALUE(cudaErrorMemoryAllocation),
	ABI_VALUE(cudaErrorInitializationError),
	ABI_VALUE(cudaErrorStubLibrary),
	ABI_VALUE(cudaErrorInsufficientDriver),
	ABI_VALUE(cudaErrorNoDevice),
	ABI_VALUE(cudaErrorInvalidDevice),
	ABI_VALUE(cudaErrorInvalidResourceHandle),
	ABI_VALUE(cudaErrorSymbolNotFound),
	ABI_VALUE(cudaErrorNotReady),
	ABI_VALUE(cudaErrorLaunchFailure),
	ABI_VALUE(cudaErrorNotSupported),
	ABI_VALUE(cudaErrorSystemNotReady),
	ABI_VALUE(cudaErrorSystemDriverMismatch),
	ABI_VALUE(cudaErrorCompatNotSupportedOnDevice),
	ABI_VALUE(cudaErrorUnknown),

	ABI_VALUE(cudaMemcpyHostToHost),
	ABI_VALUE(cudaMemcpyHostToDevice),
	ABI_VALUE(cudaMemcpyDeviceToHost),
	ABI_VALUE(cudaMemcpyDeviceToDevice),
	ABI_VALUE(cudaMemcpyDefault),

	ABI_VALUE(cudaStreamDefault),
	ABI_VALUE(cudaStreamNonBlocking),
	ABI_HANDLE(cudaStreamLegacy),
	ABI_HANDLE(cudaStreamPerThread),
	ABI_VALUE(cudaEventDefault),
	ABI_VALUE(cudaEventBlockingSync),
	ABI_VALUE(cudaEventDisableTiming),
	ABI_VALUE(cudaHostAllocDefault),
	ABI_VALUE(cudaHostAllocPortable),
	ABI_VALUE(cudaHostAllocMapped),
	ABI_VALUE(cudaHostAllocWriteCombined),
};

const size_t ABI_COUNT = sizeof(ABI_FACTS) / sizeof(ABI_FACTS[0]);
