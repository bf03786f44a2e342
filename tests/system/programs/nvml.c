/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks that NVML's devices match the runtime's: PCI addresses are equal, and
 * only PCI connects the devices
 *
 * The program opens NVML itself, as NCCL does.
 */

#include <cuda_runtime.h>
#include <dlfcn.h>
#include <string.h>

#include "program.h"

/* NVML's names and values */
typedef struct nvmlDevice_st *nvmlDevice_t;
#define NVML_ERROR_UNINITIALIZED 1
#define NVML_ERROR_INVALID_ARGUMENT 2
#define NVML_ERROR_NOT_SUPPORTED 3
#define NVML_ERROR_NOT_FOUND 6
#define NVML_ERROR_INSUFFICIENT_SIZE 7
#define NVML_ERROR_ARGUMENT_VERSION_MISMATCH 25
#define NVML_P2P_CAPS_INDEX_READ 0
#define NVML_P2P_CAPS_INDEX_NVLINK 2
#define NVML_FI_DEV_NVLINK_LINK_COUNT 91

/* The version field of a structure. */
#define VERSION(type, number) ((unsigned int)(sizeof(type) | (number) << 24))

struct pci {
	char legacy[16];
	unsigned int domain, bus, device, id, subsystem;
	char text[32];
};

struct old_pci {
	char text[16];
	unsigned int domain, bus, device, id, subsystem, reserved[4];
};

struct pci_ext {
	unsigned int version, domain, bus, device, id, subsystem;
	unsigned int base, sub;
	char text[32];
};

struct memory {
	unsigned long long total, free, used;
};

struct memory_2 {
	unsigned int version;
	unsigned long long total, reserved, free, used;
};

struct field {
	unsigned int id, scope;
	long long timestamp, latency;
	unsigned int type;
	int result;
	unsigned long long value;
};

struct secrets {
	unsigned int version, environment, feature, tools, gpus;
};

struct fabric_1 {
	unsigned char cluster[16];
	int status;
	unsigned int clique;
	unsigned char state;
};

struct fabric_3 {
	unsigned int version;
	unsigned char cluster[16];
	int status;
	unsigned int clique;
	unsigned char state;
	unsigned int health;
	unsigned char summary;
};

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
	X(nvmlInitWithFlags, (unsigned int flags)) \
	X(nvmlSystemGetDriverVersion, (char *text, unsigned int length)) \
	X(nvmlSystemGetNVMLVersion, (char *text, unsigned int length)) \
	X(nvmlSystemGetCudaDriverVersion, (int *version)) \
	X(nvmlSystemGetCudaDriverVersion_v2, (int *version)) \
	X(nvmlSystemGetConfComputeState, (unsigned int state[3])) \
	X(nvmlSystemGetConfComputeSettings, (struct secrets *settings)) \
	X(nvmlDeviceGetHandleByUUID, (const char *id, nvmlDevice_t *device)) \
	X(nvmlDeviceGetMinorNumber, \
	  (nvmlDevice_t device, unsigned int *number)) \
	X(nvmlDeviceGetName, \
	  (nvmlDevice_t device, char *name, unsigned int length)) \
	X(nvmlDeviceGetUUID, \
	  (nvmlDevice_t device, char *text, unsigned int length)) \
	X(nvmlDeviceGetPciInfo, (nvmlDevice_t device, struct old_pci *pci)) \
	X(nvmlDeviceGetPciInfo_v2, \
	  (nvmlDevice_t device, struct old_pci *pci)) \
	X(nvmlDeviceGetPciInfo_v3, (nvmlDevice_t device, struct pci *pci)) \
	X(nvmlDeviceGetPciInfoExt, \
	  (nvmlDevice_t device, struct pci_ext *pci)) \
	X(nvmlDeviceGetMemoryInfo, \
	  (nvmlDevice_t device, struct memory *memory)) \
	X(nvmlDeviceGetMemoryInfo_v2, \
	  (nvmlDevice_t device, struct memory_2 *memory)) \
	X(nvmlDeviceGetMemoryErrorCounter, \
	  (nvmlDevice_t device, unsigned int type, unsigned int counter, \
	   unsigned int location, unsigned long long *count)) \
	X(nvmlDeviceGetFieldValues, \
	  (nvmlDevice_t device, int count, struct field *values)) \
	X(nvmlDeviceGetGpuFabricInfo, \
	  (nvmlDevice_t device, struct fabric_1 *info)) \
	X(nvmlDeviceGetPlatformInfo, (nvmlDevice_t device, void *info)) \
	X(nvmlDeviceGetNvLinkState, \
	  (nvmlDevice_t device, unsigned int link, unsigned int *state)) \
	X(nvmlDeviceGetNvLinkVersion, \
	  (nvmlDevice_t device, unsigned int link, unsigned int *version)) \
	X(nvmlDeviceGetNvLinkRemoteDeviceType, \
	  (nvmlDevice_t device, unsigned int link, unsigned int *type)) \
	X(nvmlDeviceGetNvLinkRemotePciInfo, \
	  (nvmlDevice_t device, unsigned int link, struct old_pci *pci)) \
	X(nvmlDeviceGetNvLinkRemotePciInfo_v2, \
	  (nvmlDevice_t device, unsigned int link, struct pci *pci)) \
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
	X(nvmlDeviceGetGpuFabricInfoV, (nvmlDevice_t device, void *info))
/* Functions that return one number about a device */
#define NUMBERS(X) \
	X(nvmlDeviceGetMaxPcieLinkGeneration) \
	X(nvmlDeviceGetCurrPcieLinkGeneration) \
	X(nvmlDeviceGetMaxPcieLinkWidth) X(nvmlDeviceGetCurrPcieLinkWidth) \
	X(nvmlDeviceGetPcieLinkMaxSpeed)
/* clang-format on */

#define POINTER(name, parameters) static int(*name) parameters;
FUNCTIONS(POINTER)
static void *library;

static void open_nvml(void)
{
	const char *(*text)(int);

	library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	CHECK(library);
#define FIND(name, parameters)                                                 \
	*(void **)&name = dlsym(library, #name);                               \
	CHECK(name);
	FUNCTIONS(FIND)
	*(void **)&text = dlsym(library, "nvmlErrorString");
	CHECK(text && *text(0) && strcmp(text(0), text(3)) != 0);
}

/* ---- the system ------------------------------------------------------- */

static void uninitialized(void)
{
	nvmlDevice_t device;
	unsigned int count;
	char text[80];
	int version;

	CHECK(nvmlDeviceGetCount_v2(&count) == NVML_ERROR_UNINITIALIZED);
	CHECK(nvmlDeviceGetHandleByIndex(0, &device) ==
	      NVML_ERROR_UNINITIALIZED);
	CHECK(nvmlSystemGetDriverVersion(text, sizeof(text)) ==
	      NVML_ERROR_UNINITIALIZED);
	CHECK(nvmlSystemGetCudaDriverVersion_v2(&version) ==
	      NVML_ERROR_UNINITIALIZED);
	CHECK(nvmlShutdown() == NVML_ERROR_UNINITIALIZED);
}

static void the_system(void)
{
	struct secrets secrets = { .environment = 9 };
	unsigned int state[3] = { 9, 9, 9 };
	int version, same, wanted;
	char text[80];

	CHECK(!nvmlSystemGetDriverVersion(text, sizeof(text)) && *text);
	CHECK(nvmlSystemGetDriverVersion(text, (unsigned int)strlen(text)) ==
	      NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK(nvmlSystemGetDriverVersion(NULL, 80) ==
	      NVML_ERROR_INVALID_ARGUMENT);
	CHECK(!nvmlSystemGetNVMLVersion(text, sizeof(text)) && *text);
	CHECK(nvmlSystemGetNVMLVersion(text, 0) ==
	      NVML_ERROR_INSUFFICIENT_SIZE);
	CUDA(cudaDriverGetVersion(&wanted));
	CHECK(!nvmlSystemGetCudaDriverVersion(&version) && version == wanted);
	CHECK(!nvmlSystemGetCudaDriverVersion_v2(&same) && same == wanted);
	CHECK(nvmlSystemGetCudaDriverVersion(NULL) ==
	      NVML_ERROR_INVALID_ARGUMENT);
	CHECK(!nvmlSystemGetConfComputeState(state));
	CHECK(!state[0] && !state[1] && !state[2]);
	CHECK(nvmlSystemGetConfComputeSettings(&secrets) ==
	      NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	CHECK(secrets.environment == 9);
	secrets.version = VERSION(secrets, 1);
	CHECK(!nvmlSystemGetConfComputeSettings(&secrets));
	CHECK(!secrets.environment && !secrets.feature && !secrets.tools);
	CHECK(nvmlSystemGetConfComputeSettings(NULL) ==
	      NVML_ERROR_INVALID_ARGUMENT);
}

/* ---- a device --------------------------------------------------------- */

static void names(nvmlDevice_t device, int i)
{
	unsigned int minor = 99, length;
	char name[96], uuid[96];
	nvmlDevice_t same;

	CHECK(!nvmlDeviceGetMinorNumber(device, &minor));
	CHECK(minor == (unsigned int)i);
	CHECK(nvmlDeviceGetMinorNumber(device, NULL) ==
	      NVML_ERROR_INVALID_ARGUMENT);
	CHECK(!nvmlDeviceGetName(device, name, sizeof(name)) && *name);
	length = (unsigned int)strlen(name);
	CHECK(nvmlDeviceGetName(device, name, length) ==
	      NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK(!nvmlDeviceGetName(device, name, length + 1));
	CHECK(!nvmlDeviceGetUUID(device, uuid, sizeof(uuid)));
	CHECK(strncmp(uuid, "GPU-", 4) == 0 && strlen(uuid) == 40);
	CHECK(nvmlDeviceGetUUID(device, uuid, 40) ==
	      NVML_ERROR_INSUFFICIENT_SIZE);
	CHECK(!nvmlDeviceGetHandleByUUID(uuid, &same) && same == device);
	uuid[5] = 'x';
	CHECK(nvmlDeviceGetHandleByUUID(uuid, &same) == NVML_ERROR_NOT_FOUND);
	CHECK(nvmlDeviceGetHandleByUUID(NULL, &same) ==
	      NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetHandleByPciBusId("ffff:00:00.0", &same) ==
	      NVML_ERROR_NOT_FOUND);
	CHECK(nvmlDeviceGetName(NULL, name, sizeof(name)) ==
	      NVML_ERROR_INVALID_ARGUMENT);
}

static void on_pci(nvmlDevice_t device)
{
	struct pci_ext ext = { .bus = 99 };
	struct old_pci old, older;
	nvmlDevice_t same;
	struct pci pci;

	CHECK(!nvmlDeviceGetPciInfo_v3(device, &pci));
	CHECK(!nvmlDeviceGetHandleByPciBusId(pci.text, &same));
	CHECK(same == device && strlen(pci.text) == 16);
	CHECK(!nvmlDeviceGetHandleByPciBusId(pci.legacy, &same));
	CHECK(same == device && strlen(pci.legacy) == 12);
	CHECK(!nvmlDeviceGetPciInfo_v2(device, &old));
	CHECK(!nvmlDeviceGetPciInfo(device, &older));
	CHECK(memcmp(&old, &older, sizeof(old)) == 0);
	CHECK(strcmp(old.text, pci.legacy) == 0 && old.bus == pci.bus);
	CHECK(nvmlDeviceGetPciInfoExt(device, &ext) ==
	      NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	CHECK(ext.bus == 99);
	ext.version = VERSION(ext, 1);
	CHECK(!nvmlDeviceGetPciInfoExt(device, &ext));
	CHECK(ext.bus == pci.bus && strcmp(ext.text, pci.text) == 0);
	CHECK(ext.version == VERSION(ext, 1) && ext.base == 3);
	CHECK(nvmlDeviceGetPciInfo_v3(device, NULL) ==
	      NVML_ERROR_INVALID_ARGUMENT);
}

static void numbers(nvmlDevice_t device)
{
	int (*number)(nvmlDevice_t device, unsigned int *out);
	unsigned int value;

#define NUMBER(name)                                                           \
	value = 0;                                                             \
	*(void **)&number = dlsym(library, #name);                             \
	CHECK(number && !number(device, &value) && value);                     \
	CHECK(number(device, NULL) == NVML_ERROR_INVALID_ARGUMENT);            \
	CHECK(number(NULL, &value) == NVML_ERROR_INVALID_ARGUMENT);
	NUMBERS(NUMBER)
}

/* Check that memory information is about the given device, whichever device is
 * current. */
static void memory_of(nvmlDevice_t device, int i, int n)
{
	struct memory_2 second = { .total = 99 };
	struct memory first;
	size_t unused, total, bytes;
	int current;
	void *held;

	CUDA(cudaSetDevice(i));
	CUDA(cudaMemGetInfo(&unused, &total));
	bytes = total - unused / 2;
	CUDA(cudaMalloc(&held, bytes));
	CUDA(cudaSetDevice((i + 1) % n));
	CHECK(!nvmlDeviceGetMemoryInfo(device, &first));
	CHECK(first.total == total && first.used >= bytes);
	CHECK(first.used + first.free == total);
	CUDA(cudaGetDevice(&current));
	CHECK(current == (i + 1) % n);
	CUDA(cudaFree(held));
	CHECK(nvmlDeviceGetMemoryInfo_v2(device, &second) ==
	      NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	CHECK(second.total == 99);
	second.version = VERSION(second, 2);
	CHECK(!nvmlDeviceGetMemoryInfo_v2(device, &second));
	CHECK(second.total == total && second.free <= total);
	CHECK(nvmlDeviceGetMemoryInfo(device, NULL) ==
	      NVML_ERROR_INVALID_ARGUMENT);
}

static void errors(nvmlDevice_t device)
{
	unsigned long long count = 9;

	CHECK(!nvmlDeviceGetMemoryErrorCounter(device, 1, 1, 7, &count));
	CHECK(!count);
	CHECK(nvmlDeviceGetMemoryErrorCounter(device, 2, 0, 0, &count) ==
	      NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetMemoryErrorCounter(device, 0, 2, 0, &count) ==
	      NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetMemoryErrorCounter(device, 0, 0, 8, &count) ==
	      NVML_ERROR_INVALID_ARGUMENT);
}

/* ---- links ------------------------------------------------------------ */

static void no_links(nvmlDevice_t device)
{
	struct field fields[2] = { { .id = NVML_FI_DEV_NVLINK_LINK_COUNT,
		                     .value = 9 },
		                   { .id = 9999 } };
	struct old_pci old;
	unsigned int value;
	struct pci pci;

	CHECK(nvmlDeviceGetNvLinkState(device, 0, &value) ==
	      NVML_ERROR_NOT_SUPPORTED);
	CHECK(nvmlDeviceGetNvLinkVersion(device, 0, &value) ==
	      NVML_ERROR_NOT_SUPPORTED);
	CHECK(nvmlDeviceGetNvLinkRemoteDeviceType(device, 0, &value) ==
	      NVML_ERROR_NOT_SUPPORTED);
	CHECK(nvmlDeviceGetNvLinkRemotePciInfo(device, 0, &old) ==
	      NVML_ERROR_NOT_SUPPORTED);
	CHECK(nvmlDeviceGetNvLinkRemotePciInfo_v2(device, 0, &pci) ==
	      NVML_ERROR_NOT_SUPPORTED);
	CHECK(nvmlDeviceGetNvLinkState(device, 0, NULL) ==
	      NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetNvLinkState(NULL, 0, &value) ==
	      NVML_ERROR_INVALID_ARGUMENT);
	CHECK(!nvmlDeviceGetFieldValues(device, 2, fields));
	CHECK(!fields[0].result && !fields[0].value);
	CHECK(fields[1].result == NVML_ERROR_NOT_SUPPORTED);
	CHECK(nvmlDeviceGetFieldValues(device, -1, fields) ==
	      NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetFieldValues(device, 1, NULL) ==
	      NVML_ERROR_INVALID_ARGUMENT);
}

static void no_fabric(nvmlDevice_t device)
{
	struct fabric_3 third = { .summary = 9, .state = 9 };
	struct fabric_1 first = { .state = 9 };
	struct fabric second = { .state = 9 };

	CHECK(!nvmlDeviceGetGpuFabricInfo(device, &first) && !first.state);
	CHECK(nvmlDeviceGetGpuFabricInfoV(device, &second) ==
	      NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
	CHECK(second.state == 9);
	second.version = VERSION(second, 2);
	CHECK(!nvmlDeviceGetGpuFabricInfoV(device, &second) && !second.state);
	CHECK(second.version == VERSION(second, 2));
	third.version = VERSION(third, 3);
	CHECK(!nvmlDeviceGetGpuFabricInfoV(device, &third));
	CHECK(!third.state && !third.summary);
	CHECK(nvmlDeviceGetGpuFabricInfoV(device, NULL) ==
	      NVML_ERROR_INVALID_ARGUMENT);
	CHECK(nvmlDeviceGetPlatformInfo(device, &first) ==
	      NVML_ERROR_NOT_SUPPORTED);
}

static void same_device(int i, int n)
{
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
	names(device, i);
	on_pci(device);
	numbers(device);
	memory_of(device, i, n);
	errors(device);
	no_links(device);
	no_fabric(device);
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
	uninitialized();
	CHECK(!nvmlInit_v2());
	CHECK(!nvmlInitWithFlags(0));
	CHECK(!nvmlShutdown());
	the_system();
	CHECK(!nvmlDeviceGetCount_v2(&count) && count == (unsigned int)n);
	for (i = 0; i < n; i++) {
		same_device(i, n);
		same_pair(i, (i + 1) % n);
	}
	CHECK(nvmlDeviceGetHandleByIndex(count, &device) ==
	      NVML_ERROR_INVALID_ARGUMENT);
	CHECK(!nvmlShutdown());
	puts("OK");
	return 0;
}
