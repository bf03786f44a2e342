/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What connects devices, as NVML sees it
 */

#include <stdbool.h>

#include "sim/dropin/nvml.h"

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t from, nvmlDevice_t to,
                                    nvmlGpuP2PCapsIndex_t index,
                                    nvmlGpuP2PStatus_t *status)
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

/* The answer to questions about a link. */
static nvmlReturn_t no_link(nvmlDevice_t device, const void *out)
{
	const nvmlReturn_t result = nvml_check(device, out);

	return result ? result : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
                                      nvmlEnableState_t *state)
{
	(void)link;
	return no_link(device, state);
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device,
                                              unsigned int link,
                                              nvmlPciInfo_v1_t *pci)
{
	(void)link;
	return no_link(device, pci);
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device,
                                                 unsigned int link,
                                                 nvmlPciInfo_t *pci)
{
	(void)link;
	return no_link(device, pci);
}

nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device,
                                           unsigned int link,
                                           unsigned int capability,
                                           unsigned int *value)
{
	(void)link;
	(void)capability;
	return no_link(device, value);
}

nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link,
                                        unsigned int *version)
{
	(void)link;
	return no_link(device, version);
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device,
                                                 unsigned int link,
                                                 unsigned int *type)
{
	(void)link;
	return no_link(device, type);
}

/* ---- PCI -------------------------------------------------------------- */

#define PCI_GENERATION 5
#define PCI_WIDTH 16

static nvmlReturn_t tell(nvmlDevice_t device, unsigned int *out,
                         unsigned int value)
{
	const nvmlReturn_t result = nvml_check(device, out);

	if (!result)
		*out = value;
	return result;
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device,
                                                unsigned int *generation)
{
	return tell(device, generation, PCI_GENERATION);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device,
                                                 unsigned int *generation)
{
	return tell(device, generation, PCI_GENERATION);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device,
                                           unsigned int *width)
{
	return tell(device, width, PCI_WIDTH);
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device,
                                            unsigned int *width)
{
	return tell(device, width, PCI_WIDTH);
}

/* NVML's values of a speed are the generations. */
nvmlReturn_t nvmlDeviceGetPcieLinkMaxSpeed(nvmlDevice_t device,
                                           unsigned int *speed)
{
	return tell(device, speed, PCI_GENERATION);
}

/* ---- both ------------------------------------------------------------- */

/* Numbers of links, which are 0; there is nothing else. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count,
                                      nvmlFieldValue_t *values)
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

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device,
                                        nvmlGpuFabricInfo_t *info)
{
	const nvmlReturn_t result = nvml_check(device, info);

	if (!result)
		*info = (nvmlGpuFabricInfo_t){
			.state = NVML_GPU_FABRIC_STATE_NOT_SUPPORTED,
		};
	return result;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device,
                                         nvmlGpuFabricInfoV_t *info)
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

nvmlReturn_t nvmlDeviceGetPlatformInfo(nvmlDevice_t device, void *info)
{
	return no_link(device, info);
}
