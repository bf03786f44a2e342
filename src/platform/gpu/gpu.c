/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The gpu platform: NCCL and the CUDA runtime, opened at run time
 *
 * Neither is needed to build or to load this library.  If one is not installed,
 * opening the platform returns an error that names it.  NCCL and the runtime
 * are opened once and never closed, because abandoned threads may still be
 * running their code.
 */

#include "platform/gpu/gpu.h"

#include <pthread.h>
#include <unistd.h>

#include "base/status.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Return true, because NCCL connects two ranks during the call that launches
 * their first message and, unless NCCL_RUNTIME_CONNECT is 0, all ranks during
 * the call that launches the first collective. */
static bool connects_late(void)
{
	return true;
}

static void uncounted(bool begins)
{
	(void)begins;
}

/* Guarded by lock; constant once opened is true. */
static bool opened;
static struct gpu_libraries libraries;
static struct platform table = {
	.kind = COHORT_PLATFORM_GPU,
	.name = "gpu",
	.has_captures = true,
	.connects_late = connects_late,
	.uncounted = uncounted,
	/* These limits are not measured.  In NVIDIA/nccl#725, a group of 980
	 * reduce-scatters of about 21 KiB each took 70 times as long as a
	 * single one of 21 MiB (NCCL 2.13.4), and NVIDIA recommends
	 * concatenating them.  25 MiB is the size of PyTorch's buckets. */
	.lists = { .group_most = 64,
	           .flat_below = (size_t)64 << 10,
	           .flat_from = 32,
	           .flat_most = (size_t)25 << 20 },
	/* Launching the copies and the collective of a chunk takes tens of
	 * microseconds, in which a copy engine moves half a megabyte.  Chunks
	 * of eight times that size make this overhead small.  Even larger
	 * chunks would cost time, because copying in the first chunk and
	 * copying out the last one overlap with nothing. */
	.chunk_bytes = (size_t)4 << 20,
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

static int open_locked(int *devices_out)
{
	int rc = gpu_load_cuda(&libraries, &table);

	if (rc == COHORT_OK)
		rc = count_devices(devices_out);
	if (rc == COHORT_OK)
		rc = gpu_load_nccl(&libraries, &table);
	if (rc == COHORT_OK)
		rc = gpu_find_marks(&libraries, &table);
	if (rc == COHORT_OK)
		/* Clear CUDA's last error, which looking for an optional
		 * function may have set. */
		table.cudaGetLastError();
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

void gpu_platform_describe(struct cohort_platform_info *info)
{
	pthread_mutex_lock(&lock);
	/* If there are no devices, NCCL was not opened, but a diagnosis needs
	 * both libraries. */
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
