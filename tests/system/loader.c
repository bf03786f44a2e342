/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Stand-ins for libcudart.so.13 (-DCUDART) and libnccl.so.2 (-DNCCL), which
 * test the loader of the GPU platform
 *
 * Every function exists, except one that all libraries must have (-DWITHOUT) or
 * one that only newer libraries have (-DOLDER). cudaGetDeviceCount() returns
 * the error in LOADER_ERROR if that is set, otherwise success and
 * LOADER_DEVICES devices. The version is -DVERSION. -DDROP_IN, -DHIP and
 * -DMSCCL add the symbols that identify other libraries.
 */

#include <stdlib.h>
#include <string.h>

#include "platform/cuda_abi.h"
#include "platform/nccl_abi.h"

#include "platform/functions.h"

#ifdef DROP_IN
const char *cohort_drop_in(void);
const char *cohort_drop_in(void)
{
	return "of another version";
}
#endif
#ifdef HIP
int hipGetDeviceCount;
#endif
#ifdef MSCCL
int mscclLoadAlgo;
#endif

#ifdef CUDART

static int count_devices(int *count)
{
	const char *error = getenv("LOADER_ERROR");
	const char *devices = getenv("LOADER_DEVICES");

	*count = devices ? atoi(devices) : 0;
	return error ? atoi(error) : 0;
}

static const char *error_text(int error)
{
	return error == 35 ? "driver too old" : "some text";
}

#define cudaRuntimeGetVersion stand_in_cudaRuntimeGetVersion
#define cudaGetDeviceCount stand_in_cudaGetDeviceCount
#define cudaGetErrorString stand_in_cudaGetErrorString
#define STAND_IN(since, result, name, parameters, arguments)                   \
	result name parameters;                                                \
	result name parameters                                                 \
	{                                                                      \
		return (result)0;                                              \
	}
#ifdef WITHOUT
#define cudaEventQuery stand_in_cudaEventQuery
#endif
CUDA_FUNCTIONS(STAND_IN)
#undef cudaRuntimeGetVersion
#undef cudaGetDeviceCount
#undef cudaGetErrorString

cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = VERSION;
	return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDeviceCount(int *count)
{
	return (cudaError_t)count_devices(count);
}

const char *cudaGetErrorString(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error)
{
	return error_text((int)error);
}

/* Return success. Stands in for every driver function. */
static int answer_success(void)
{
	return 0;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol,
                                             void **function,
                                             unsigned int version,
                                             unsigned long long flags,
                                             int *result);
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol,
                                             void **function,
                                             unsigned int version,
                                             unsigned long long flags,
                                             int *result)
{
	(void)symbol;
	(void)version;
	(void)flags;
#ifdef OLD_DRIVER
	*(int (**)(void))function = NULL;
#else
	*(int (**)(void))function = answer_success;
#endif
	*result = 0;
	return cudaSuccess;
}

#endif

#ifdef NCCL
#define STAND_IN(since, result, name, parameters, arguments)                   \
	result name parameters;                                                \
	result name parameters                                                 \
	{                                                                      \
		return (result)0;                                              \
	}
#ifdef WITHOUT
#define ncclGroupEnd stand_in_ncclGroupEnd
#endif
#ifdef OLDER
#define ncclAlltoAll stand_in_ncclAlltoAll
#endif
#define ncclGetVersion stand_in_ncclGetVersion
NCCL_FUNCTIONS(STAND_IN)
#undef ncclGetVersion

ncclResult_t ncclGetVersion(int *version);
ncclResult_t ncclGetVersion(int *version)
{
	*version = VERSION;
	return ncclSuccess;
}
#endif
