/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The gpu platform: NCCL and the CUDA runtime, opened at run time
 *
 * Nothing of them is needed to build or to start; "not installed" is a normal
 * outcome with its own code and a text that names what was looked for.  The
 * libraries are opened once and never closed: code of theirs may still run in
 * threads that had to be left behind.
 */

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/status.h"
#include "platform/platform.h"

/* ---- the functions that are ours -------------------------------------- */

/* The driver's stream memory operations (CUresult is int, CUstream is
 * cudaStream_t, CUdeviceptr is 64 bits). */
typedef int (*stream_value_fn)(cudaStream_t stream, unsigned long long address,
                               uint32_t value, unsigned int flags);

#define CU_STREAM_WAIT_VALUE_GEQ 0
#define CU_STREAM_WRITE_VALUE_DEFAULT 0

/* Constant once the platform is open. */
static stream_value_fn write_value, wait_value;

static cudaError_t driver_result(int result)
{
	/* The runtime's codes are the driver's, where both have one. */
	return (cudaError_t)result;
}

static cudaError_t gpu_mark(cudaStream_t stream, uint32_t *word, uint32_t value)
{
	return driver_result(write_value(stream, (uintptr_t)word, value,
	                                 CU_STREAM_WRITE_VALUE_DEFAULT));
}

static cudaError_t gpu_await_mark(cudaStream_t stream, uint32_t *word,
                                  uint32_t value)
{
	return driver_result(wait_value(stream, (uintptr_t)word, value,
	                                CU_STREAM_WAIT_VALUE_GEQ));
}

static void gpu_progress(cudaStream_t stream, const uint32_t *word,
                         uint32_t value, uint64_t until_ns)
{
	/* The device needs no help. */
	(void)stream;
	(void)word;
	(void)value;
	(void)until_ns;
}

/* ---- opening ---------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by lock; constant once opened is set. */
static bool opened;
static struct platform table = {
	.kind = COHORT_PLATFORM_GPU,
	.name = "gpu",
	.starts_are_marked = true,
	.mark = gpu_mark,
	.await_mark = gpu_await_mark,
	.progress = gpu_progress,
};

bool gpu_platform_present(void)
{
	return access("/dev/nvidiactl", F_OK) == 0 ||
	       access("/dev/nvhost-ctrl-gpu", F_OK) == 0 ||
	       access("/usr/lib/wsl/lib/libcuda.so.1", F_OK) == 0;
}

/* Open the first of @names (NULL ends them) that is there. */
static int open_library(const char *const *names, void **out)
{
	char why[256] = "";
	void *library;
	size_t i;

	for (i = 0; names[i]; i++) {
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
		if (library) {
			*out = library;
			return COHORT_OK;
		}
		if (!i)
			snprintf(why, sizeof(why), "%s", dlerror());
	}
	return error_set(COHORT_NO_LIBRARY, "cannot open %s: %s", names[0],
	                 why);
}

/* Store the address of @name in @entry, which is a pointer to a function. */
static int find_symbol(void *library, const char *soname, const char *name,
                       void *entry)
{
	void **address = entry;

	*address = dlsym(library, name);
	if (*address)
		return COHORT_OK;
	return error_set(COHORT_NO_SYMBOL, "%s has no symbol %s", soname, name);
}

/* Fill the entries of one library; stops at the first that is missing. */
static int find_nccl(void *library)
{
	int rc = COHORT_OK;

#define FIND(since, result, name, parameters, arguments)                       \
	if (rc == COHORT_OK)                                                   \
		rc = find_symbol(library, "libnccl", #name, &table.name);
	NCCL_FUNCTIONS(FIND)
#undef FIND
	return rc;
}

static int find_cuda(void *library)
{
	int rc = COHORT_OK;

#define FIND(since, result, name, parameters, arguments)                       \
	if (rc == COHORT_OK)                                                   \
		rc = find_symbol(library, "libcudart", #name, &table.name);
	CUDA_FUNCTIONS(FIND)
#undef FIND
	return rc;
}

/* How the runtime hands out the driver's functions: from 12.5 on by version,
 * before that by its own version, which is new enough. */
typedef cudaError_t (*by_version_fn)(const char *symbol, void **function,
                                     unsigned int version,
                                     unsigned long long flags, int *result);
typedef cudaError_t (*by_name_fn)(const char *symbol, void **function,
                                  unsigned long long flags, int *result);

#define DRIVER_VERSION 12000 /* of the signatures above */

static cudaError_t ask_driver(void *cudart, const char *name, void **function)
{
	by_version_fn by_version;
	by_name_fn by_name;
	int found;

	*(void **)&by_version =
		dlsym(cudart, "cudaGetDriverEntryPointByVersion");
	if (by_version)
		return by_version(name, function, DRIVER_VERSION, 0, &found);
	*(void **)&by_name = dlsym(cudart, "cudaGetDriverEntryPoint");
	if (by_name)
		return by_name(name, function, 0, &found);
	return cudaErrorSymbolNotFound;
}

static int find_in_driver(void *cudart, const char *name, stream_value_fn *out)
{
	void *function = NULL;
	cudaError_t error = ask_driver(cudart, name, &function);

	if (error != cudaSuccess || !function)
		return error_set(COHORT_NO_SYMBOL,
		                 "the CUDA driver gives no %s: %s (%d)", name,
		                 table.cudaGetErrorString(error), (int)error);
	*(void **)out = function;
	return COHORT_OK;
}

static int find_driver(void *cudart)
{
	int rc = find_in_driver(cudart, "cuStreamWriteValue32", &write_value);

	return rc == COHORT_OK ? find_in_driver(cudart, "cuStreamWaitValue32",
	                                        &wait_value)
	                       : rc;
}

static int count_devices(int *devices_out)
{
	cudaError_t error = table.cudaGetDeviceCount(devices_out);

	if (error == cudaSuccess && *devices_out > 0)
		return COHORT_OK;
	if (error == cudaSuccess)
		error = cudaErrorNoDevice;
	table.cudaGetLastError();
	switch (error) {
	case cudaErrorNoDevice:
	case cudaErrorInsufficientDriver:
	case cudaErrorStubLibrary:
	case cudaErrorSystemNotReady:
	case cudaErrorSystemDriverMismatch:
	case cudaErrorCompatNotSupportedOnDevice:
		return error_set(COHORT_NO_DEVICE,
		                 "cudaGetDeviceCount: %s (%d)",
		                 table.cudaGetErrorString(error), (int)error);
	default:
		return error_set(COHORT_CUDA, "cudaGetDeviceCount: %s (%d)",
		                 table.cudaGetErrorString(error), (int)error);
	}
}

static int open_locked(int *devices_out)
{
	static const char *const cudart_names[] = { "libcudart.so.13",
		                                    "libcudart.so.12",
		                                    "libcudart.so", NULL };
	static const char *const nccl_names[] = { "libnccl.so.2", "libnccl.so",
		                                  NULL };
	void *cudart, *nccl;
	int rc = open_library(cudart_names, &cudart);

	if (rc == COHORT_OK)
		rc = find_cuda(cudart);
	if (rc == COHORT_OK)
		rc = count_devices(devices_out);
	if (rc == COHORT_OK)
		rc = open_library(nccl_names, &nccl);
	if (rc == COHORT_OK)
		rc = find_nccl(nccl);
	if (rc == COHORT_OK)
		rc = find_driver(cudart);
	return rc;
}

int gpu_platform_open(const struct platform **out, int *devices_out)
{
	int rc, devices = 0;

	pthread_mutex_lock(&lock);
	rc = opened ? count_devices(&devices) : open_locked(&devices);
	opened = opened || rc == COHORT_OK;
	pthread_mutex_unlock(&lock);
	if (rc != COHORT_OK)
		return rc;
	*out = &table;
	*devices_out = devices;
	return COHORT_OK;
}
