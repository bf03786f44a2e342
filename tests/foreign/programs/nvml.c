/* SPDX-License-Identifier: Apache-2.0 */

/*
 * NVML's devices are the runtime's: the addresses on PCI are the same, and
 * nothing but PCI connects them
 *
 * It opens NVML itself, as NCCL does.
 */

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <string.h>

#include "program.h"

/* NVML's names and values. */
typedef struct nvmlDevice_st *nvmlDevice_t;
#define NVML_ERROR_UNINITIALIZED 1
#define NVML_ERROR_INVALID_ARGUMENT 2
#define NVML_ERROR_NOT_SUPPORTED 3
#define NVML_P2P_CAPS_INDEX_READ 0
#define NVML_P2P_CAPS_INDEX_NVLINK 2

struct fabric {
	unsigned int version;
	unsigned char cluster[16];
	int status;
	unsigned int clique;
	unsigned char state;
	unsigned int health;
};

/* clang-format off */
#define FUNCTIONS(X) \
	X(nvmlInit_v2, (void)) \
	X(nvmlShutdown, (void)) \
	X(nvmlDeviceGetCount_v2, (unsigned int *count)) \
	X(nvmlDeviceGetHandleByIndex, \
	  (unsigned int index, nvmlDevice_t *device)) \
	X(nvmlDeviceGetHandleByPciBusId, \
	  (const char *id, nvmlDevice_t *device)) \
	X(nvmlDeviceGetIndex, (nvmlDevice_t device, unsigned int *index)) \
	X(nvmlDeviceGetCudaComputeCapability, \
	  (nvmlDevice_t device, int *major, int *minor)) \
	X(nvmlDeviceGetP2PStatus, \
	  (nvmlDevice_t from, nvmlDevice_t to, int index, int *status)) \
	X(nvmlDeviceGetNvLinkCapability, \
	  (nvmlDevice_t device, unsigned int link, int capability, \
	   unsigned int *value)) \
	X(nvmlDeviceGetGpuFabricInfoV, \
	  (nvmlDevice_t device, struct fabric *info))
/* clang-format on */

#define POINTER(name, parameters) static int(*name) parameters;
FUNCTIONS(POINTER)

static void open_nvml(void)
{
	const char *(*text)(int);
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	CHECK(library);
#define FIND(name, parameters)                                                 \
	*(void **)&name = dlsym(library, #name);                               \
	CHECK(name);
	FUNCTIONS(FIND)
	*(void **)&text = dlsym(library, "nvmlErrorString");
	CHECK(text && *text(0) && strcmp(text(0), text(3)) != 0);
}

static void same_device(int i)
{
	struct fabric fabric = { .state = 9 };
	unsigned int index = 99, value;
	int major, minor, wanted;
	nvmlDevice_t device;
	char id[32];

	CUDA(cudaDeviceGetPCIBusId(id, sizeof(id), i));
	CHECK(!nvmlDeviceGetHandleByPciBusId(id, &device));
	CHECK(!nvmlDeviceGetIndex(device, &index) && index == (unsigned int)i);
	CHECK(!nvmlDeviceGetCudaComputeCapability(device, &major, &minor));
	CUDA(cudaDeviceGetAttribute(&wanted, cudaDevAttrComputeCapabilityMajor,
	                            i));
	CHECK(major == wanted);
	CHECK(nvmlDeviceGetNvLinkCapability(device, 0, 0, &value) ==
	      NVML_ERROR_NOT_SUPPORTED);
	CHECK(!nvmlDeviceGetGpuFabricInfoV(device, &fabric) && !fabric.state);
}

static void same_pair(int a, int b)
{
	nvmlDevice_t from, to;
	int status = -1;

	CHECK(!nvmlDeviceGetHandleByIndex((unsigned int)a, &from));
	CHECK(!nvmlDeviceGetHandleByIndex((unsigned int)b, &to));
	CHECK(!nvmlDeviceGetP2PStatus(from, to, NVML_P2P_CAPS_INDEX_READ,
	                              &status));
	CHECK(!status);
	CHECK(!nvmlDeviceGetP2PStatus(from, to, NVML_P2P_CAPS_INDEX_NVLINK,
	                              &status));
	CHECK(status);
}

int main(void)
{
	const int n = count_devices();
	unsigned int count = 0;
	nvmlDevice_t device;
	int i;

	open_nvml();
	CHECK(nvmlDeviceGetCount_v2(&count) == NVML_ERROR_UNINITIALIZED);
	CHECK(!nvmlInit_v2());
	CHECK(!nvmlDeviceGetCount_v2(&count) && count == (unsigned int)n);
	for (i = 0; i < n; i++) {
		same_device(i);
		same_pair(i, (i + 1) % n);
	}
	CHECK(nvmlDeviceGetHandleByIndex(count, &device) ==
	      NVML_ERROR_INVALID_ARGUMENT);
	CHECK(!nvmlShutdown());
	puts("OK");
	return 0;
}
