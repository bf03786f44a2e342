/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DROPIN_NVML_ABI_H
#define SIM_DROPIN_NVML_ABI_H

/*
 * The part of NVML's stable C ABI that libnvidia-ml.so.1 has: what NCCL looks
 * up, and what tells devices apart.  Names and values are NVML's.
 */

#include <stddef.h>

#include <cohort/status.h>

typedef enum nvmlReturn_enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NO_PERMISSION = 4,
	NVML_ERROR_ALREADY_INITIALIZED = 5,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_FUNCTION_NOT_FOUND = 13,
	NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
	NVML_ERROR_UNKNOWN = 999,
} nvmlReturn_t;

/* What the version in a structure of that version is. */
#define NVML_STRUCT_VERSION(type, version)                                     \
	((unsigned int)sizeof(type) | (unsigned int)(version) << 24)

typedef struct nvmlDevice_st *nvmlDevice_t;

typedef enum nvmlEnableState_enum {
	NVML_FEATURE_DISABLED = 0,
	NVML_FEATURE_ENABLED = 1,
} nvmlEnableState_t;

typedef enum nvmlGpuP2PStatus_enum {
	NVML_P2P_STATUS_OK = 0,
	NVML_P2P_STATUS_NOT_SUPPORTED = 5,
} nvmlGpuP2PStatus_t;

typedef enum nvmlGpuP2PCapsIndex_enum {
	NVML_P2P_CAPS_INDEX_READ = 0,
	NVML_P2P_CAPS_INDEX_WRITE = 1,
	NVML_P2P_CAPS_INDEX_NVLINK = 2,
	NVML_P2P_CAPS_INDEX_ATOMICS = 3,
	NVML_P2P_CAPS_INDEX_PCI = 4,
} nvmlGpuP2PCapsIndex_t;

/* As the functions without a version have it. */
typedef struct nvmlPciInfo_v1_st {
	char busId[16];
	unsigned int domain, bus, device;
	unsigned int pciDeviceId;
	unsigned int pciSubSystemId;
	unsigned int reserved[4];
} nvmlPciInfo_v1_t;

typedef struct nvmlPciInfo_st {
	char busIdLegacy[16];
	unsigned int domain, bus, device;
	unsigned int pciDeviceId;
	unsigned int pciSubSystemId;
	char busId[32];
} nvmlPciInfo_t;

typedef struct nvmlPciInfoExt_v1_st {
	unsigned int version;
	unsigned int domain, bus, device;
	unsigned int pciDeviceId;
	unsigned int pciSubSystemId;
	unsigned int baseClass, subClass;
	char busId[32];
} nvmlPciInfoExt_t;

typedef struct nvmlMemory_st {
	unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct nvmlMemory_v2_st {
	unsigned int version;
	unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

#define NVML_MEMORY_ERROR_TYPE_COUNT 2
#define NVML_ECC_COUNTER_TYPE_COUNT 2
#define NVML_MEMORY_LOCATION_COUNT 8

#define NVML_FI_DEV_NVLINK_LINK_COUNT 91
#define NVML_FI_DEV_C2C_LINK_COUNT 170
#define NVML_VALUE_TYPE_UNSIGNED_INT 1

typedef struct nvmlFieldValue_st {
	unsigned int fieldId;
	unsigned int scopeId;
	long long timestamp;
	long long latencyUsec;
	unsigned int valueType;
	nvmlReturn_t nvmlReturn;
	union {
		unsigned int uiVal;
		unsigned long long ullVal;
	} value;
} nvmlFieldValue_t;

#define NVML_GPU_FABRIC_STATE_NOT_SUPPORTED 0
#define NVML_GPU_FABRIC_HEALTH_SUMMARY_NOT_SUPPORTED 0

typedef struct nvmlGpuFabricInfo_st {
	unsigned char clusterUuid[16];
	nvmlReturn_t status;
	unsigned int cliqueId;
	unsigned char state;
} nvmlGpuFabricInfo_t;

/* What each version of it begins with. */
typedef struct nvmlGpuFabricInfoV_st {
	unsigned int version;
	unsigned char clusterUuid[16];
	nvmlReturn_t status;
	unsigned int cliqueId;
	unsigned char state;
	unsigned int healthMask;
} nvmlGpuFabricInfoV_t;

typedef struct nvmlGpuFabricInfo_v3_st {
	nvmlGpuFabricInfoV_t v2;
	unsigned char healthSummary;
} nvmlGpuFabricInfo_v3_t;

typedef struct nvmlConfComputeSystemState_st {
	unsigned int environment, ccFeature, devToolsMode;
} nvmlConfComputeSystemState_t;

typedef struct nvmlSystemConfComputeSettings_st {
	unsigned int version;
	unsigned int environment, ccFeature, devToolsMode, multiGpuMode;
} nvmlSystemConfComputeSettings_t;

/* clang-format off */
/* The functions, but for nvmlErrorString(): X(name, parameters). */
#define NVML_FUNCTIONS(X) \
	X(nvmlInit_v2, (void)) \
	X(nvmlInitWithFlags, (unsigned int flags)) \
	X(nvmlShutdown, (void)) \
	X(nvmlSystemGetDriverVersion, (char *text, unsigned int length)) \
	X(nvmlSystemGetNVMLVersion, (char *text, unsigned int length)) \
	X(nvmlSystemGetCudaDriverVersion_v2, (int *version)) \
	X(nvmlSystemGetConfComputeState, \
	  (nvmlConfComputeSystemState_t *state)) \
	X(nvmlSystemGetConfComputeSettings, \
	  (nvmlSystemConfComputeSettings_t *settings)) \
	X(nvmlDeviceGetCount_v2, (unsigned int *count)) \
	X(nvmlDeviceGetHandleByIndex_v2, \
	  (unsigned int index, nvmlDevice_t *device)) \
	X(nvmlDeviceGetHandleByPciBusId_v2, \
	  (const char *id, nvmlDevice_t *device)) \
	X(nvmlDeviceGetHandleByUUID, \
	  (const char *uuid, nvmlDevice_t *device)) \
	X(nvmlDeviceGetIndex, (nvmlDevice_t device, unsigned int *index)) \
	X(nvmlDeviceGetMinorNumber, \
	  (nvmlDevice_t device, unsigned int *number)) \
	X(nvmlDeviceGetName, \
	  (nvmlDevice_t device, char *name, unsigned int length)) \
	X(nvmlDeviceGetUUID, \
	  (nvmlDevice_t device, char *uuid, unsigned int length)) \
	X(nvmlDeviceGetPciInfo_v2, \
	  (nvmlDevice_t device, nvmlPciInfo_v1_t *pci)) \
	X(nvmlDeviceGetPciInfo_v3, (nvmlDevice_t device, nvmlPciInfo_t *pci)) \
	X(nvmlDeviceGetPciInfoExt, \
	  (nvmlDevice_t device, nvmlPciInfoExt_t *pci)) \
	X(nvmlDeviceGetMaxPcieLinkGeneration, \
	  (nvmlDevice_t device, unsigned int *generation)) \
	X(nvmlDeviceGetCurrPcieLinkGeneration, \
	  (nvmlDevice_t device, unsigned int *generation)) \
	X(nvmlDeviceGetMaxPcieLinkWidth, \
	  (nvmlDevice_t device, unsigned int *width)) \
	X(nvmlDeviceGetCurrPcieLinkWidth, \
	  (nvmlDevice_t device, unsigned int *width)) \
	X(nvmlDeviceGetPcieLinkMaxSpeed, \
	  (nvmlDevice_t device, unsigned int *speed)) \
	X(nvmlDeviceGetMemoryErrorCounter, \
	  (nvmlDevice_t device, unsigned int type, unsigned int counter, \
	   unsigned int location, unsigned long long *count)) \
	X(nvmlDeviceGetCudaComputeCapability, \
	  (nvmlDevice_t device, int *major, int *minor)) \
	X(nvmlDeviceGetMemoryInfo, \
	  (nvmlDevice_t device, nvmlMemory_t *memory)) \
	X(nvmlDeviceGetMemoryInfo_v2, \
	  (nvmlDevice_t device, nvmlMemory_v2_t *memory)) \
	X(nvmlDeviceGetP2PStatus, \
	  (nvmlDevice_t from, nvmlDevice_t to, nvmlGpuP2PCapsIndex_t index, \
	   nvmlGpuP2PStatus_t *status)) \
	X(nvmlDeviceGetNvLinkState, \
	  (nvmlDevice_t device, unsigned int link, \
	   nvmlEnableState_t *state)) \
	X(nvmlDeviceGetNvLinkRemotePciInfo, \
	  (nvmlDevice_t device, unsigned int link, nvmlPciInfo_v1_t *pci)) \
	X(nvmlDeviceGetNvLinkRemotePciInfo_v2, \
	  (nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci)) \
	X(nvmlDeviceGetNvLinkCapability, \
	  (nvmlDevice_t device, unsigned int link, unsigned int capability, \
	   unsigned int *value)) \
	X(nvmlDeviceGetNvLinkVersion, \
	  (nvmlDevice_t device, unsigned int link, unsigned int *version)) \
	X(nvmlDeviceGetNvLinkRemoteDeviceType, \
	  (nvmlDevice_t device, unsigned int link, unsigned int *type)) \
	X(nvmlDeviceGetFieldValues, \
	  (nvmlDevice_t device, int count, nvmlFieldValue_t *values)) \
	X(nvmlDeviceGetGpuFabricInfo, \
	  (nvmlDevice_t device, nvmlGpuFabricInfo_t *info)) \
	X(nvmlDeviceGetGpuFabricInfoV, \
	  (nvmlDevice_t device, nvmlGpuFabricInfoV_t *info)) \
	X(nvmlDeviceGetPlatformInfo, (nvmlDevice_t device, void *info))

/* Those that are also called by a name without its _v2: X(name). */
#define NVML_OLDER_NAMES(X) \
	X(nvmlInit) \
	X(nvmlSystemGetCudaDriverVersion) \
	X(nvmlDeviceGetCount) \
	X(nvmlDeviceGetHandleByIndex) \
	X(nvmlDeviceGetHandleByPciBusId) \
	X(nvmlDeviceGetPciInfo)
/* clang-format on */

#define NVML_PROTOTYPE(name, parameters)                                       \
	COHORT_API nvmlReturn_t name parameters;
NVML_FUNCTIONS(NVML_PROTOTYPE)
#undef NVML_PROTOTYPE
COHORT_API const char *nvmlErrorString(nvmlReturn_t result);

#endif
