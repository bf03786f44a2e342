/* SPDX-License-Identifier: Apache-2.0 */

/* Implements the driver's functions for devices and errors */

#include "sim/cuda/cuda_device.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "sim/driver/driver.h"
#include "sim/host.h"

CUresult driver_cuInit(unsigned int flags)
{
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult driver_cuDeviceGet(CUdevice *device, int number)
{
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_is_valid(number))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = number;
	return CUDA_SUCCESS;
}

/* Get the properties of a device, if the caller's argument @out is not NULL. */
static CUresult properties_of(const void *out, CUdevice device,
                              struct cudaDeviceProp *p)
{
	const cudaError_t last = *device_last_error();

	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	return driver_result(last, host_cudaGetDeviceProperties(p, device));
}

CUresult driver_cuDeviceGetName(char *name, int length, CUdevice device)
{
	struct cudaDeviceProp p;
	CUresult result = properties_of(name, device, &p);

	if (result != CUDA_SUCCESS)
		return result;
	if (length <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(name, (size_t)length, "%s", p.name);
	return CUDA_SUCCESS;
}

#define PROPERTY(symbol, type, member)                                         \
	CUresult driver_##symbol(type *value, CUdevice device)                 \
	{                                                                      \
		struct cudaDeviceProp p;                                       \
		CUresult result = properties_of(value, device, &p);            \
                                                                               \
		if (result == CUDA_SUCCESS)                                    \
			*value = p.member;                                     \
		return result;                                                 \
	}

PROPERTY(cuDeviceGetUuid, CUuuid, uuid)
PROPERTY(cuDeviceGetUuid_v2, CUuuid, uuid)
PROPERTY(cuDeviceTotalMem_v2, size_t, totalGlobalMem)

CUresult driver_cuDeviceComputeCapability(int *major, int *minor,
                                          CUdevice device)
{
	struct cudaDeviceProp p;
	CUresult result = properties_of(minor, device, &p);

	if (result != CUDA_SUCCESS)
		return result;
	if (!major)
		return CUDA_ERROR_INVALID_VALUE;
	*major = p.major;
	*minor = p.minor;
	return CUDA_SUCCESS;
}

/* Store an attribute for which the runtime has no number.  Return false for any
 * other attribute. */
static bool own_attribute(int *value, int attribute)
{
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1:
	case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1:
	case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1:
	case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
	case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
	case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
		*value = 1;
		return true;
	case CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH:
	case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS:
	case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
	case CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED:
		*value = 0;
		return true;
	default:
		return false;
	}
}

CUresult driver_cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_is_valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (own_attribute(value, attribute))
		return CUDA_SUCCESS;
	return device_attribute(value, attribute, device)
	               ? CUDA_SUCCESS
	               : CUDA_ERROR_INVALID_VALUE;
}

/* ---- errors ----------------------------------------------------------- */

static const char *name_of(CUresult error)
{
	switch (error) {
#define NAME(runtime, value, name, text)                                       \
	case name:                                                             \
		return #name;
		CU_RESULTS(NAME)
#undef NAME
	}
	return NULL;
}

CUresult driver_cuGetErrorName(CUresult error, const char **text)
{
	if (!text)
		return CUDA_ERROR_INVALID_VALUE;
	*text = name_of(error);
	return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult driver_cuGetErrorString(CUresult error, const char **text)
{
	if (!text)
		return CUDA_ERROR_INVALID_VALUE;
	*text = name_of(error) ? host_cudaGetErrorString((cudaError_t)error)
	                       : NULL;
	return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- functions without an effect -------------------------------------- */

CUresult driver_cuProfilerStart(void)
{
	return CUDA_SUCCESS;
}

CUresult driver_cuProfilerStop(void)
{
	return CUDA_SUCCESS;
}

/* ---- unsupported functions -------------------------------------------- */

/* Return an error.  CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS
 * reports that this function is not supported. */
CUresult driver_cuFlushGPUDirectRDMAWrites(int target, int scope)
{
	if (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
	    (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER &&
	     scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES))
		return CUDA_ERROR_INVALID_VALUE;
	return driver_has_context() ? CUDA_ERROR_NOT_SUPPORTED
	                            : CUDA_ERROR_INVALID_CONTEXT;
}

/* Report that the code at @caller needs NVIDIA's driver. */
static void report_runtime(void *caller)
{
	Dl_info caller_is = { .dli_fname = NULL };

	if (!dladdr(caller, &caller_is))
		return;
	fprintf(stderr,
	        "cohort: %s has a CUDA runtime linked in, which accepts only "
	        "NVIDIA's driver; use a build with libcudart.so\n",
	        caller_is.dli_fname);
}

/* Always return an error.  The first call also prints the name of the calling
 * library.  Export tables are undocumented; a CUDA runtime requests them to
 * check that the driver is NVIDIA's. */
CUresult driver_cuGetExportTable(const void **table, const CUuuid *id)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (!table || !id)
		return CUDA_ERROR_INVALID_VALUE;
	*table = NULL;
	if (!atomic_flag_test_and_set(&said))
		report_runtime(__builtin_return_address(0));
	return CUDA_ERROR_STUB_LIBRARY;
}
