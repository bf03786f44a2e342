/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The few functions of the CUDA driver that the runtime hands out by name
 *
 * The driver's results are the runtime's codes, as far as both have one; a
 * context is a device.
 */

#include <stdint.h>
#include <string.h>

#include "sim/cuda/device.h"
#include "sim/cuda/mark.h"
#include "sim/exec/stream.h"
#include "sim/host.h"

struct context {
	char unused;
};

typedef int CUresult;
typedef int CUdevice;
typedef struct context *CUcontext;

/* ---- words in stream order -------------------------------------------- */

#define WRITE_FLAGS 1U        /* without a barrier */
#define WAIT_FLUSH (1U << 30) /* remote writes; there are none */

static CUresult write_value(cudaStream_t stream, unsigned long long address,
                            uint32_t value, unsigned int flags)
{
	if (flags & ~WRITE_FLAGS)
		return cudaErrorInvalidValue;
	return (CUresult)stream_write_value(stream, address, value);
}

static CUresult wait_value(cudaStream_t stream, unsigned long long address,
                           uint32_t value, unsigned int flags)
{
	return (CUresult)stream_wait_value(stream, address, value,
	                                   flags & ~WAIT_FLUSH);
}

static cudaStream_t thread_if_null(cudaStream_t stream)
{
	return stream ? stream : cudaStreamPerThread;
}

static CUresult write_value_ptsz(cudaStream_t stream,
                                 unsigned long long address, uint32_t value,
                                 unsigned int flags)
{
	return write_value(thread_if_null(stream), address, value, flags);
}

static CUresult wait_value_ptsz(cudaStream_t stream, unsigned long long address,
                                uint32_t value, unsigned int flags)
{
	return wait_value(thread_if_null(stream), address, value, flags);
}

/* ---- devices and contexts --------------------------------------------- */

static struct context contexts[COHORT_SIM_MAX_DEVICES]; /* by device */

static CUresult init(unsigned int flags)
{
	return flags ? cudaErrorInvalidValue : cudaSuccess;
}

static CUresult driver_version(int *version)
{
	return version ? (CUresult)host_cudaDriverGetVersion(version)
	               : (CUresult)cudaErrorInvalidValue;
}

static CUresult device_get_count(int *count)
{
	if (!count)
		return cudaErrorInvalidValue;
	*count = device_count();
	return cudaSuccess;
}

static CUresult device_get(CUdevice *device, int number)
{
	if (!device)
		return cudaErrorInvalidValue;
	if (!device_is_valid(number))
		return cudaErrorInvalidDevice;
	*device = number;
	return cudaSuccess;
}

/* Those of streams that only the driver numbers. */
#define CAN_USE_STREAM_MEM_OPS_V1 92
#define CAN_USE_64_BIT_STREAM_MEM_OPS 122
#define CAN_USE_STREAM_WAIT_VALUE_NOR 123

static CUresult device_get_attribute(int *value, int attribute, CUdevice device)
{
	if (!value)
		return cudaErrorInvalidValue;
	if (!device_is_valid(device))
		return cudaErrorInvalidDevice;
	switch (attribute) {
	case CAN_USE_64_BIT_STREAM_MEM_OPS:
		*value = 0;
		return cudaSuccess;
	case CAN_USE_STREAM_MEM_OPS_V1:
	case CAN_USE_STREAM_WAIT_VALUE_NOR:
		*value = 1;
		return cudaSuccess;
	default:
		return device_attribute(value, attribute, device)
		               ? cudaSuccess
		               : cudaErrorInvalidValue;
	}
}

static CUresult context_get_current(CUcontext *context)
{
	if (!context)
		return cudaErrorInvalidValue;
	*context = &contexts[device_current()];
	return cudaSuccess;
}

static CUresult context_get_device(CUdevice *device)
{
	if (!device)
		return cudaErrorInvalidValue;
	*device = device_current();
	return cudaSuccess;
}

/* The device of @context, or -1. */
static int context_device(CUcontext context)
{
	const uintptr_t offset = (uintptr_t)context - (uintptr_t)contexts;

	return offset < (uintptr_t)device_count() ? (int)offset : -1;
}

static CUresult context_set_current(CUcontext context)
{
	const int device = context_device(context);

	if (device < 0)
		return cudaErrorDeviceUninitialized;
	return (CUresult)host_cudaSetDevice(device);
}

static CUresult context_synchronize(void)
{
	return (CUresult)host_cudaDeviceSynchronize();
}

static CUresult get_error_string(CUresult error, const char **text)
{
	if (!text)
		return cudaErrorInvalidValue;
	*text = error_is_known((cudaError_t)error)
	                ? host_cudaGetErrorString((cudaError_t)error)
	                : NULL;
	return *text ? cudaSuccess : cudaErrorInvalidValue;
}

/* ---- by name ---------------------------------------------------------- */

typedef void (*function)(void);

static const struct entry {
	const char *name;
	unsigned int since;
	function plain;
	function ptsz; /* for the threads' own streams, or NULL */
} entries[] = {
	{ "cuInit", 2000, (function)init, NULL },
	{ "cuDriverGetVersion", 2020, (function)driver_version, NULL },
	{ "cuDeviceGetCount", 2000, (function)device_get_count, NULL },
	{ "cuDeviceGet", 2000, (function)device_get, NULL },
	{ "cuDeviceGetAttribute", 2000, (function)device_get_attribute, NULL },
	{ "cuDevicePrimaryCtxGetState", 7000, (function)device_context_state,
	  NULL },
	{ "cuCtxGetCurrent", 4000, (function)context_get_current, NULL },
	{ "cuCtxSetCurrent", 4000, (function)context_set_current, NULL },
	{ "cuCtxGetDevice", 2000, (function)context_get_device, NULL },
	{ "cuCtxSynchronize", 2000, (function)context_synchronize, NULL },
	{ "cuGetErrorString", 6000, (function)get_error_string, NULL },
	{ "cuStreamWriteValue32", 8000, (function)write_value,
	  (function)write_value_ptsz },
	{ "cuStreamWaitValue32", 8000, (function)wait_value,
	  (function)wait_value_ptsz },
};

static const struct entry *find(const char *name)
{
	size_t i, n = sizeof(entries) / sizeof(entries[0]);

	for (i = 0; i < n; i++)
		if (strcmp(entries[i].name, name) == 0)
			return &entries[i];
	return NULL;
}

static enum cudaDriverEntryPointQueryResult look_up(const char *name,
                                                    unsigned int version,
                                                    unsigned long long flags,
                                                    void **out)
{
	const struct entry *e = find(name);
	function f = NULL;

	*out = NULL;
	if (!e)
		return cudaDriverEntryPointSymbolNotFound;
	if (e->since > version)
		return cudaDriverEntryPointVersionNotSufficent;
	f = flags == cudaEnablePerThreadDefaultStream && e->ptsz ? e->ptsz
	                                                         : e->plain;
	memcpy(out, &f, sizeof(f));
	return cudaDriverEntryPointSuccess;
}

cudaError_t host_cudaGetDriverEntryPointByVersion(
	const char *symbol, void **out, unsigned int version,
	unsigned long long flags, enum cudaDriverEntryPointQueryResult *status)
{
	enum cudaDriverEntryPointQueryResult result;
	int newest = 0;

	host_cudaDriverGetVersion(&newest);
	if (!symbol || !out || flags > cudaEnablePerThreadDefaultStream ||
	    version > (unsigned int)newest)
		return device_error(cudaErrorInvalidValue);
	result = look_up(symbol, version, flags, out);
	if (status)
		*status = result;
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
