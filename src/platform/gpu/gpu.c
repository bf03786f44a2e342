/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The gpu platform: NCCL and the CUDA runtime, opened at run time
 *
 * Nothing of them is needed to build or to start; "not installed" is a normal
 * outcome with its own code and a text that names what was looked for.  The
 * libraries are opened once and never closed: code of theirs may still run in
 * threads that had to be left behind.
 */

#include "platform/gpu/gpu.h"

#include <pthread.h>
#include <unistd.h>

#include "base/status.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Unless NCCL_RUNTIME_CONNECT says otherwise; messages always. */
static bool connects_late(void)
{
	return true;
}

static void uncounted(bool begins)
{
	(void)begins;
}

/* Guarded by lock; constant once opened is set. */
static bool opened;
static struct gpu_libraries libraries;
static struct platform table = {
	.kind = COHORT_PLATFORM_GPU,
	.name = "gpu",
	.has_captures = true,
	.connects_late = connects_late,
	.uncounted = uncounted,
	/* Not measured.  NVIDIA/nccl#725 reports a group of 980 reduce-scatters
	 * of 21 MiB together, about 21 KiB each, that took 70 times as long as
	 * one of all (NCCL 2.13.4), and NVIDIA's advice there is to
	 * concatenate; packing many small tensors and limiting groups follows
	 * it.  25 MiB is the size of PyTorch's buckets. */
	.lists = { .group_most = 64,
	           .flat_below = (size_t)64 << 10,
	           .flat_from = 32,
	           .flat_most = (size_t)25 << 20 },
};

bool gpu_platform_present(void)
{
	return access("/dev/nvidiactl", F_OK) == 0 ||
	       access("/dev/nvhost-ctrl-gpu", F_OK) == 0 ||
	       access("/usr/lib/wsl/lib/libcuda.so.1", F_OK) == 0;
}

const char *gpu_platform_library(void)
{
	const char *file;

	pthread_mutex_lock(&lock);
	file = gpu_find_library();
	pthread_mutex_unlock(&lock);
	return file;
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

static int open_locked(int *devices_out,
                       int (*join)(const struct host_knobs *knobs))
{
	int rc = gpu_load_cuda(&libraries, &table, join);

	if (rc == COHORT_OK)
		rc = count_devices(devices_out);
	if (rc == COHORT_OK)
		rc = gpu_load_nccl(&libraries, &table);
	if (rc == COHORT_OK)
		rc = gpu_find_marks(&libraries, &table);
	if (rc == COHORT_OK)
		/* Of optional functions that are missing. */
		table.cudaGetLastError();
	return rc;
}

int gpu_platform_open(const struct platform **out, int *devices_out,
                      int (*join)(const struct host_knobs *knobs))
{
	int rc, devices = 0;

	pthread_mutex_lock(&lock);
	rc = opened ? count_devices(&devices) : open_locked(&devices, join);
	opened = opened || rc == COHORT_OK;
	pthread_mutex_unlock(&lock);
	if (rc != COHORT_OK)
		return rc;
	*out = &table;
	*devices_out = devices;
	return COHORT_OK;
}

void gpu_platform_describe(struct cohort_platform_info *info)
{
	pthread_mutex_lock(&lock);
	/* Without devices NCCL was not opened; but whoever looks for what is
	 * wrong wants to know about both. */
	if (libraries.cudart && !libraries.nccl)
		gpu_load_nccl(&libraries, &table);
	info->nccl_file = libraries.nccl_file;
	info->runtime_file = libraries.cudart_file;
	info->nccl_version = libraries.nccl_version;
	info->runtime_version = libraries.cudart_version;
	info->is_drop_in = libraries.are_ours + libraries.runs_nvidia;
	if (opened)
		info->notes = gpu_notes(&libraries, &table);
	pthread_mutex_unlock(&lock);
}
