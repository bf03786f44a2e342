/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_DROPIN_NVML_ABI_H
#define SIM_DROPIN_NVML_ABI_H

/*
 * The types and values of NVML's C ABI that libnvidia-ml.so.1 uses
 *
 * Names and values are NVML's.
 */

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

/* Value of a structure's version member. */
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

/* Layout of PCI addresses in functions without a version suffix, and in
 * nvmlDeviceGetPciInfo_v2(). */
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

/* Prefix that all versions of this structure share. */
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

#endif
