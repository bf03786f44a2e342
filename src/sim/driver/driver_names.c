/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Looks up driver functions by name, and defines their variants for the default
 * streams of threads
 */

#include <string.h>

#include "base/util.h"
#include "sim/cuda/cuda_device.h"
#include "sim/driver/driver.h"
#include "sim/host.h"

/* ---- forms for threads' own streams ----------------------------------- */

static CUstream own_stream(CUstream stream)
{
	return stream ? stream : cudaStreamPerThread;
}

/* Replace NULL with the thread's own stream in a launch configuration.  If the
 * configuration changes, the result is a copy in @room. */
static const CUlaunchConfig *own_config(const CUlaunchConfig *config,
                                        CUlaunchConfig *room)
{
	if (!config || config->hStream)
		return config;
	*room = *config;
	room->hStream = cudaStreamPerThread;
	return room;
}

/* ASYNC_OF_symbol is the asynchronous function that symbol_ptds() calls for the
 * thread's own stream.  symbol_ptds() then waits for that stream. */
#define ASYNC_OF_cuMemcpy cuMemcpyAsync
#define ASYNC_OF_cuMemcpyPeer cuMemcpyPeerAsync
#define ASYNC_OF_cuMemcpyHtoD_v2 cuMemcpyHtoDAsync_v2
#define ASYNC_OF_cuMemcpyDtoH_v2 cuMemcpyDtoHAsync_v2
#define ASYNC_OF_cuMemcpyDtoD_v2 cuMemcpyDtoDAsync_v2
#define ASYNC_OF_cuMemcpy2D_v2 cuMemcpy2DAsync_v2
#define ASYNC_OF_cuMemcpy2DUnaligned_v2 cuMemcpy2DAsync_v2
#define ASYNC_OF_cuMemsetD8_v2 cuMemsetD8Async
#define ASYNC_OF_cuMemsetD16_v2 cuMemsetD16Async
#define ASYNC_OF_cuMemsetD32_v2 cuMemsetD32Async
#define ASYNC_OF_cuMemsetD2D8_v2 cuMemsetD2D8Async
#define BARE(...) __VA_ARGS__

#define OWN_PLAIN(symbol, parameters, arguments)
#define OWN_CONTEXT(symbol, parameters, arguments)
#define OWN_WAITS(symbol, parameters, arguments)                               \
	CUresult driver_##symbol##_ptds parameters                             \
	{                                                                      \
		const CUresult result = CALL(ASYNC_OF_##symbol)(               \
			BARE arguments, cudaStreamPerThread);                  \
                                                                               \
		return result == CUDA_SUCCESS ? driver_cuStreamSynchronize(    \
							cudaStreamPerThread)   \
		                              : result;                        \
	}
#define CALL(symbol) CALL_OF(symbol)
#define CALL_OF(symbol) driver_##symbol
#define OWN_AFTER(symbol, parameters, arguments, ...)                          \
	CUresult driver_##symbol##_ptsz parameters                             \
	{                                                                      \
		__VA_ARGS__;                                                   \
		return driver_##symbol arguments;                              \
	}
#define OWN_STREAM(symbol, parameters, arguments)                              \
	OWN_AFTER(symbol, parameters, arguments, stream = own_stream(stream))
#define OWN_CONFIG(symbol, parameters, arguments)                              \
	OWN_AFTER(symbol, parameters, arguments, CUlaunchConfig own;           \
	          config = own_config(config, &own))
#define OWN(since, name, symbol, form, parameters, arguments, ...)             \
	OWN_##form(symbol, parameters, arguments)

DRIVER_FUNCTIONS(OWN)

/* ---- the table -------------------------------------------------------- */

typedef void (*function)(void);

#define ADDRESS_PLAIN(symbol) NULL
#define ADDRESS_CONTEXT(symbol) NULL
#define ADDRESS_WAITS(symbol) (function) driver_##symbol##_ptds
#define ADDRESS_STREAM(symbol) (function) driver_##symbol##_ptsz
#define ADDRESS_CONFIG(symbol) (function) driver_##symbol##_ptsz

#define ENTRY(since, name, symbol, form, parameters, arguments, ...)           \
	{ #name, since, (function)driver_##symbol, ADDRESS_##form(symbol) },
#define ALIAS(since, name, symbol)                                             \
	{ #name, since, (function)driver_##symbol, NULL },

static const struct entry {
	const char *name;
	int since;
	function plain;
	function own; /* variant for threads' own streams, or NULL */
} entries[] = { DRIVER_FUNCTIONS(ENTRY) DRIVER_ALIASES(ALIAS) };

/* Find the newest variant of the function @name that exists in CUDA
 * @version. */
static CUdriverProcAddressQueryResult look_up(const char *name, int version,
                                              uint64_t flags, void **out)
{
	CUdriverProcAddressQueryResult result =
		CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	const struct entry *found = NULL;
	size_t i, n = ARRAY_SIZE(entries);
	function f;

	*out = NULL;
	for (i = 0; i < n; i++) {
		if (strcmp(entries[i].name, name) != 0)
			continue;
		result = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
		if (entries[i].since <= version &&
		    (!found || found->since < entries[i].since))
			found = &entries[i];
	}
	if (!found)
		return result;
	f = flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM && found->own
	            ? found->own
	            : found->plain;
	memcpy(out, &f, sizeof(f));
	return CU_GET_PROC_ADDRESS_SUCCESS;
}

/* ---- lookup functions ------------------------------------------------- */

CUresult driver_cuGetProcAddress_v2(const char *name, void **out, int version,
                                    uint64_t flags,
                                    CUdriverProcAddressQueryResult *status)
{
	CUdriverProcAddressQueryResult result;
	int newest = 0;

	driver_cuDriverGetVersion(&newest);
	if (!name || !out || version > newest ||
	    flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
		return CUDA_ERROR_INVALID_VALUE;
	result = look_up(name, version, flags, out);
	if (status)
		*status = result;
	return result == CU_GET_PROC_ADDRESS_SUCCESS ? CUDA_SUCCESS
	                                             : CUDA_ERROR_NOT_FOUND;
}

CUresult driver_cuGetProcAddress(const char *name, void **out, int version,
                                 uint64_t flags)
{
	return driver_cuGetProcAddress_v2(name, out, version, flags, NULL);
}

cudaError_t host_cudaGetDriverEntryPointByVersion(
	const char *symbol, void **out, unsigned int version,
	unsigned long long flags, enum cudaDriverEntryPointQueryResult *status)
{
	CUdriverProcAddressQueryResult result;
	int newest = 0;

	host_cudaDriverGetVersion(&newest);
	if (!symbol || !out || flags > cudaEnablePerThreadDefaultStream ||
	    version > (unsigned int)newest)
		return device_error(cudaErrorInvalidValue);
	result = look_up(symbol, (int)version, flags, out);
	if (status)
		*status = (enum cudaDriverEntryPointQueryResult)result;
	return cudaSuccess;
}

cudaError_t
host_cudaGetDriverEntryPoint(const char *symbol, void **out,
                             unsigned long long flags,
                             enum cudaDriverEntryPointQueryResult *status)
{
	int version = 0;

	host_cudaRuntimeGetVersion(&version);
	return host_cudaGetDriverEntryPointByVersion(
		symbol, out, (unsigned int)version, flags, status);
}
