/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements libnvidia-ml.so.1, which exposes the simulator's devices through
 * NVML
 *
 * Only the functions that NCCL uses and the functions that identify devices are
 * implemented.  The devices are on PCI and can access one another's memory.
 * They have no NVLink, no fabric and no confidential computing.
 */

#include "sim/dropin/nvml_abi.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/atomics.h"
#include "sim/dropin/host_calls.h"

#define NVML(name, parameters) EXPORT(nvmlReturn_t, name, parameters)

/* Driver version that is reported, although there is no driver. */
#define NO_VERSION "0.0"

/* One element per device.  The address of an element is the device's handle. */
static struct nvmlDevice_st {
	char unused;
} devices[COHORT_SIM_MAX_DEVICES];

/* Atomic; number of initializations minus number of shutdowns.  Relaxed,
 * because it guards no other data. */
static atomic_int uses;

/* ---- the library ------------------------------------------------------ */

NVML(nvmlInitWithFlags, (unsigned int flags))
{
	(void)flags;
	if (cohort_host_calls()->refused)
		return NVML_ERROR_DRIVER_NOT_LOADED;
	add_relaxed(&uses, 1);
	return NVML_SUCCESS;
}

NVML(nvmlInit_v2, (void))
{
	return nvmlInitWithFlags(0);
}

static bool is_used(void)
{
	return load_relaxed(&uses) > 0 && !cohort_host_calls()->refused;
}

NVML(nvmlShutdown, (void))
{
	int n = load_relaxed(&uses);

	if (!is_used())
		return NVML_ERROR_UNINITIALIZED;
	do {
		if (n <= 0)
			return NVML_ERROR_UNINITIALIZED;
	} while (!atomic_compare_exchange_weak_explicit(
		&uses, &n, n - 1, memory_order_relaxed, memory_order_relaxed));
	return NVML_SUCCESS;
}

EXPORT(const char *, nvmlErrorString, (nvmlReturn_t result))
{
	switch (result) {
	case NVML_SUCCESS:
		return "success";
	case NVML_ERROR_UNINITIALIZED:
		return "nvmlInit() was not called";
	case NVML_ERROR_INVALID_ARGUMENT:
		return "an argument is invalid";
	case NVML_ERROR_NOT_SUPPORTED:
		return "not supported by the simulated devices";
	case NVML_ERROR_NO_PERMISSION:
		return "operation not permitted";
	case NVML_ERROR_ALREADY_INITIALIZED:
		return "NVML is already initialized";
	case NVML_ERROR_NOT_FOUND:
		return "not found";
	case NVML_ERROR_INSUFFICIENT_SIZE:
		return "the buffer is too small for the result";
	case NVML_ERROR_DRIVER_NOT_LOADED:
		return "there is no driver";
	case NVML_ERROR_FUNCTION_NOT_FOUND:
		return "there is no such function";
	case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
		return "the structure's version is not supported";
	case NVML_ERROR_UNKNOWN:
		break;
	}
	return "unknown error";
}

static int device_count(void)
{
	int n = 0;

	cohort_host_calls()->cuDeviceGetCount(&n);
	return n;
}

/* Return the error that prevents a call on @device from storing a result in
 * @out, or NVML_SUCCESS. */
static nvmlReturn_t nvml_check(nvmlDevice_t device, const void *out)
{
	if (!is_used())
		return NVML_ERROR_UNINITIALIZED;
	if (!out || (uintptr_t)device < (uintptr_t)devices ||
	    (uintptr_t)device >= (uintptr_t)(devices + device_count()))
		return NVML_ERROR_INVALID_ARGUMENT;
	return NVML_SUCCESS;
}

/* Return an error unless a structure's @version equals @wanted. */
static nvmlReturn_t nvml_check_version(unsigned int version,
                                       unsigned int wanted)
{
	return version == wanted ? NVML_SUCCESS
	                         : NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

/* Return the error that prevents a call without a device from storing a result
 * in @out, or NVML_SUCCESS. */
static nvmlReturn_t check_system(const void *out)
{
	return nvml_check(devices, out);
}

static int number(nvmlDevice_t device)
{
	return (int)(device - devices);
}

static nvmlReturn_t result_of(CUresult result)
{
	switch ((int)result) {
	case CUDA_SUCCESS:
		return NVML_SUCCESS;
	case CUDA_ERROR_INVALID_VALUE:
		return NVML_ERROR_INVALID_ARGUMENT;
	case CUDA_ERROR_INVALID_DEVICE:
		return NVML_ERROR_NOT_FOUND;
	default:
		return NVML_ERROR_UNKNOWN;
	}
}

static nvmlReturn_t copy_text(char *out, unsigned int length, const char *text)
{
	if (strlen(text) >= length)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(out, text);
	return NVML_SUCCESS;
}

/* ---- the system ------------------------------------------------------- */

NVML(nvmlSystemGetDriverVersion, (char *text, unsigned int length))
{
	const nvmlReturn_t result = check_system(text);

	return result ? result : copy_text(text, length, NO_VERSION);
}

NVML(nvmlSystemGetNVMLVersion, (char *text, unsigned int length))
{
	return nvmlSystemGetDriverVersion(text, length);
}

NVML(nvmlSystemGetCudaDriverVersion_v2, (int *version))
{
	const nvmlReturn_t result = check_system(version);

	return result ? result
	              : result_of(cohort_host_calls()->cuDriverGetVersion(
				version));
}

NVML(nvmlSystemGetConfComputeState, (nvmlConfComputeSystemState_t * state))
{
	const nvmlReturn_t result = check_system(state);

	if (!result)
		memset(state, 0, sizeof(*state));
	return result;
}

NVML(nvmlSystemGetConfComputeSettings,
     (nvmlSystemConfComputeSettings_t * settings))
{
	nvmlReturn_t result = check_system(settings);

	if (!result)
		result = nvml_check_version(settings->version,
		                            NVML_STRUCT_VERSION(*settings, 1));
	if (result)
		return result;
	settings->environment = settings->ccFeature = 0;
	settings->devToolsMode = settings->multiGpuMode = 0;
	return NVML_SUCCESS;
}

/* ---- finding devices -------------------------------------------------- */

NVML(nvmlDeviceGetCount_v2, (unsigned int *count))
{
	const nvmlReturn_t result = check_system(count);

	if (!result)
		*count = (unsigned int)device_count();
	return result;
}

NVML(nvmlDeviceGetHandleByIndex_v2, (unsigned int index, nvmlDevice_t *device))
{
	const nvmlReturn_t result = check_system(device);

	if (result)
		return result;
	if (index >= (unsigned int)device_count())
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = &devices[index];
	return NVML_SUCCESS;
}

NVML(nvmlDeviceGetHandleByPciBusId_v2, (const char *id, nvmlDevice_t *device))
{
	nvmlReturn_t result = check_system(device);
	int found;

	if (result)
		return result;
	result = result_of(
		cohort_host_calls()->cuDeviceGetByPCIBusId(&found, id));
	if (!result)
		*device = &devices[found];
	return result;
}

#define NUMBER(name, value)                                                    \
	NVML(name, (nvmlDevice_t device, unsigned int *out))                   \
	{                                                                      \
		const nvmlReturn_t result = nvml_check(device, out);           \
                                                                               \
		if (!result)                                                   \
			*out = (unsigned int)(value);                          \
		return result;                                                 \
	}

NUMBER(nvmlDeviceGetIndex, number(device))
NUMBER(nvmlDeviceGetMinorNumber, number(device))

/* ---- properties of a device ------------------------------------------- */

NVML(nvmlDeviceGetName, (nvmlDevice_t device, char *name, unsigned int length))
{
	nvmlReturn_t result = nvml_check(device, name);
	char text[256];

	if (result)
		return result;
	result = result_of(cohort_host_calls()->cuDeviceGetName(
		text, sizeof(text), number(device)));
	return result ? result : copy_text(name, length, text);
}

#define UUID_TEXT "GPU-00000000-0000-0000-0000-000000000000"

static nvmlReturn_t write_uuid(int device, char text[sizeof(UUID_TEXT)])
{
	CUuuid uuid;
	const nvmlReturn_t result = result_of(
		cohort_host_calls()->cuDeviceGetUuid_v2(&uuid, device));
	const char *shape = UUID_TEXT;
	size_t at, digit = 0;

	strcpy(text, shape);
	for (at = strlen("GPU-"); !result && shape[at]; at++) {
		const unsigned char byte =
			(unsigned char)uuid.bytes[digit / 2 % 16];

		if (shape[at] == '-')
			continue;
		text[at] =
			"0123456789abcdef"[digit++ % 2 ? byte & 15 : byte >> 4];
	}
	return result;
}

NVML(nvmlDeviceGetUUID, (nvmlDevice_t device, char *uuid, unsigned int length))
{
	nvmlReturn_t result = nvml_check(device, uuid);
	char text[sizeof(UUID_TEXT)];

	if (!result)
		result = write_uuid(number(device), text);
	return result ? result : copy_text(uuid, length, text);
}

NVML(nvmlDeviceGetHandleByUUID, (const char *uuid, nvmlDevice_t *device))
{
	const nvmlReturn_t result = check_system(device);
	char text[sizeof(UUID_TEXT)];
	int i;

	if (result)
		return result;
	for (i = 0; uuid && i < device_count(); i++)
		if (!write_uuid(i, text) && strcmp(text, uuid) == 0) {
			*device = &devices[i];
			return NVML_SUCCESS;
		}
	return uuid ? NVML_ERROR_NOT_FOUND : NVML_ERROR_INVALID_ARGUMENT;
}

NVML(nvmlDeviceGetPciInfo_v3, (nvmlDevice_t device, nvmlPciInfo_t *pci))
{
	nvmlReturn_t result = nvml_check(device, pci);

	if (result)
		return result;
	memset(pci, 0, sizeof(*pci));
	result = result_of(cohort_host_calls()->cuDeviceGetPCIBusId(
		pci->busIdLegacy, sizeof(pci->busIdLegacy), number(device)));
	if (result)
		return result;
	sscanf(pci->busIdLegacy, "%x:%x:%x", &pci->domain, &pci->bus,
	       &pci->device);
	snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.0",
	         pci->domain, pci->bus & 0xff, pci->device & 0xff);
	return NVML_SUCCESS;
}

/* Get the PCI address in the newest layout.  The caller converts it to another
 * layout and stores it in @pci. */
static nvmlReturn_t newest_pci(nvmlDevice_t device, const void *pci,
                               nvmlPciInfo_t *newest)
{
	const nvmlReturn_t result = nvml_check(device, pci);

	return result ? result : nvmlDeviceGetPciInfo_v3(device, newest);
}

/* Get the PCI address in an older layout, which is a prefix of the newest
 * one. */
NVML(nvmlDeviceGetPciInfo_v2, (nvmlDevice_t device, nvmlPciInfo_v1_t *pci))
{
	nvmlPciInfo_t newest;
	const nvmlReturn_t result = newest_pci(device, pci, &newest);

	if (result)
		return result;
	memset(pci, 0, sizeof(*pci));
	memcpy(pci, &newest, offsetof(nvmlPciInfo_t, busId));
	return NVML_SUCCESS;
}

/* PCI base class of a display controller, which includes 3D controllers without
 * a display. */
#define BASE_CLASS 3
#define SUB_CLASS 2

NVML(nvmlDeviceGetPciInfoExt, (nvmlDevice_t device, nvmlPciInfoExt_t *pci))
{
	nvmlPciInfo_t newest;
	nvmlReturn_t result = newest_pci(device, pci, &newest);

	if (!result)
		result = nvml_check_version(pci->version,
		                            NVML_STRUCT_VERSION(*pci, 1));
	if (result)
		return result;
	*pci = (nvmlPciInfoExt_t){
		.version = pci->version,
		.domain = newest.domain,
		.bus = newest.bus,
		.device = newest.device,
		.pciDeviceId = newest.pciDeviceId,
		.pciSubSystemId = newest.pciSubSystemId,
		.baseClass = BASE_CLASS,
		.subClass = SUB_CLASS,
	};
	memcpy(pci->busId, newest.busId, sizeof(pci->busId));
	return NVML_SUCCESS;
}

NVML(nvmlDeviceGetCudaComputeCapability,
     (nvmlDevice_t device, int *major, int *minor))
{
	const nvmlReturn_t result = nvml_check(device, major);

	return result ? result
	              : result_of(
				cohort_host_calls()->cuDeviceComputeCapability(
					major, minor, number(device)));
}

/* Store an error count.  It is always 0, because the host handles its memory
 * errors. */
NVML(nvmlDeviceGetMemoryErrorCounter,
     (nvmlDevice_t device, unsigned int type, unsigned int counter,
      unsigned int location, unsigned long long *count))
{
	const nvmlReturn_t result = nvml_check(device, count);

	if (result)
		return result;
	if (type >= NVML_MEMORY_ERROR_TYPE_COUNT ||
	    counter >= NVML_ECC_COUNTER_TYPE_COUNT ||
	    location >= NVML_MEMORY_LOCATION_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = 0;
	return NVML_SUCCESS;
}

/* Get the size of the device's memory and the number of free bytes.  CUDA
 * reports them for the device of the current context. */
static CUresult ask_memory(int device, size_t *free, size_t *total)
{
	const struct host_calls *calls = cohort_host_calls();
	CUcontext context;
	CUresult result = calls->cuDevicePrimaryCtxRetain(&context, device);

	if (result != CUDA_SUCCESS)
		return result;
	result = calls->cuCtxPushCurrent_v2(context);
	if (result == CUDA_SUCCESS) {
		result = calls->cuMemGetInfo_v2(free, total);
		calls->cuCtxPopCurrent_v2(NULL);
	}
	calls->cuDevicePrimaryCtxRelease_v2(device);
	return result;
}

NVML(nvmlDeviceGetMemoryInfo, (nvmlDevice_t device, nvmlMemory_t *memory))
{
	nvmlReturn_t result = nvml_check(device, memory);
	size_t free = 0, total = 0;

	if (!result)
		result = result_of(ask_memory(number(device), &free, &total));
	if (result)
		return result;
	*memory = (nvmlMemory_t){
		.total = total,
		.free = free,
		.used = total - free,
	};
	return NVML_SUCCESS;
}

NVML(nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t device, nvmlMemory_v2_t *memory))
{
	nvmlReturn_t result = nvml_check(device, memory);
	nvmlMemory_t found;

	if (!result)
		result = nvml_check_version(memory->version,
		                            NVML_STRUCT_VERSION(*memory, 2));
	if (!result)
		result = nvmlDeviceGetMemoryInfo(device, &found);
	if (result)
		return result;
	memory->total = found.total;
	memory->reserved = 0;
	memory->free = found.free;
	memory->used = found.used;
	return NVML_SUCCESS;
}

#define OLDER(name)                                                            \
	COHORT_API extern __typeof__(name##_v2) name                           \
		__attribute__((alias(#name "_v2")));
OLDER(nvmlInit)
OLDER(nvmlSystemGetCudaDriverVersion)
OLDER(nvmlDeviceGetCount)
OLDER(nvmlDeviceGetHandleByIndex)
OLDER(nvmlDeviceGetHandleByPciBusId)
OLDER(nvmlDeviceGetPciInfo)

/* ---- links between devices -------------------------------------------- */

NVML(nvmlDeviceGetP2PStatus,
     (nvmlDevice_t from, nvmlDevice_t to, nvmlGpuP2PCapsIndex_t index,
      nvmlGpuP2PStatus_t *status))
{
	nvmlReturn_t result = nvml_check(from, status);

	if (!result)
		result = nvml_check(to, status);
	if (result)
		return result;
	if ((int)index < NVML_P2P_CAPS_INDEX_READ ||
	    (int)index > NVML_P2P_CAPS_INDEX_PCI)
		return NVML_ERROR_INVALID_ARGUMENT;
	*status = index == NVML_P2P_CAPS_INDEX_NVLINK
	                  ? NVML_P2P_STATUS_NOT_SUPPORTED
	                  : NVML_P2P_STATUS_OK;
	return NVML_SUCCESS;
}

/* Return the result of a query about a link, which is always an error, because
 * the devices have no links. */
static nvmlReturn_t no_link(nvmlDevice_t device, const void *out)
{
	const nvmlReturn_t result = nvml_check(device, out);

	return result ? result : NVML_ERROR_NOT_SUPPORTED;
}

#define NO_LINK(name, type)                                                    \
	NVML(name, (nvmlDevice_t device, unsigned int link, type *out))        \
	{                                                                      \
		(void)link;                                                    \
		return no_link(device, out);                                   \
	}

NO_LINK(nvmlDeviceGetNvLinkState, nvmlEnableState_t)
NO_LINK(nvmlDeviceGetNvLinkRemotePciInfo, nvmlPciInfo_v1_t)
NO_LINK(nvmlDeviceGetNvLinkRemotePciInfo_v2, nvmlPciInfo_t)
NO_LINK(nvmlDeviceGetNvLinkVersion, unsigned int)
NO_LINK(nvmlDeviceGetNvLinkRemoteDeviceType, unsigned int)

NVML(nvmlDeviceGetNvLinkCapability,
     (nvmlDevice_t device, unsigned int link, unsigned int capability,
      unsigned int *value))
{
	(void)link;
	(void)capability;
	return no_link(device, value);
}

/* ---- PCI -------------------------------------------------------------- */

#define PCI_GENERATION 5
#define PCI_WIDTH 16

NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, PCI_GENERATION)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, PCI_GENERATION)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, PCI_WIDTH)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, PCI_WIDTH)
/* NVML reports the speed as a PCI generation. */
NUMBER(nvmlDeviceGetPcieLinkMaxSpeed, PCI_GENERATION)

/* ---- field values and fabric ------------------------------------------ */

/* Get field values.  Only fields that hold a number of links are supported;
 * each is 0. */
NVML(nvmlDeviceGetFieldValues,
     (nvmlDevice_t device, int count, nvmlFieldValue_t *values))
{
	const nvmlReturn_t result = nvml_check(device, values);
	int i;

	if (result)
		return result;
	if (count < 0)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (i = 0; i < count; i++) {
		const unsigned int id = values[i].fieldId;

		values[i].timestamp = values[i].latencyUsec = 0;
		values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
		values[i].value.ullVal = 0;
		values[i].nvmlReturn =
			id == NVML_FI_DEV_NVLINK_LINK_COUNT ||
					id == NVML_FI_DEV_C2C_LINK_COUNT
				? NVML_SUCCESS
				: NVML_ERROR_NOT_SUPPORTED;
	}
	return NVML_SUCCESS;
}

NVML(nvmlDeviceGetGpuFabricInfo,
     (nvmlDevice_t device, nvmlGpuFabricInfo_t *info))
{
	const nvmlReturn_t result = nvml_check(device, info);

	if (!result)
		*info = (nvmlGpuFabricInfo_t){
			.state = NVML_GPU_FABRIC_STATE_NOT_SUPPORTED,
		};
	return result;
}

NVML(nvmlDeviceGetGpuFabricInfoV,
     (nvmlDevice_t device, nvmlGpuFabricInfoV_t *info))
{
	nvmlReturn_t result = nvml_check(device, info);
	bool is_v3;

	if (result)
		return result;
	is_v3 = info->version == NVML_STRUCT_VERSION(nvmlGpuFabricInfo_v3_t, 3);
	if (!is_v3)
		result = nvml_check_version(info->version,
		                            NVML_STRUCT_VERSION(*info, 2));
	if (result)
		return result;
	*info = (nvmlGpuFabricInfoV_t){
		.version = info->version,
		.state = NVML_GPU_FABRIC_STATE_NOT_SUPPORTED,
	};
	if (is_v3)
		((nvmlGpuFabricInfo_v3_t *)info)->healthSummary =
			NVML_GPU_FABRIC_HEALTH_SUMMARY_NOT_SUPPORTED;
	return NVML_SUCCESS;
}

NVML(nvmlDeviceGetPlatformInfo, (nvmlDevice_t device, void *info))
{
	return no_link(device, info);
}
