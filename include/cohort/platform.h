/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_PLATFORM_H
#define COHORT_PLATFORM_H

/*
 * Platforms: the libraries that run the collectives, and whether they are
 * usable
 */

#include <stddef.h>
#include <stdint.h>

#include <cohort/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Platform that a group runs on. */
enum cohort_platform {
	/* The platform that COHORT_PLATFORM in the environment names ("gpu" or
	 * "host").  If the variable is not set, the gpu platform is used if the
	 * machine has a GPU, otherwise the host platform. */
	COHORT_PLATFORM_AUTO = 0,
	COHORT_PLATFORM_GPU = 1,  /* NCCL and CUDA, opened at run time */
	COHORT_PLATFORM_HOST = 2, /* CPU threads and host memory, built in */
};

/* Description of a platform, filled by cohort_platform_probe(). */
struct cohort_platform_info {
	/* sizeof(struct cohort_platform_info), set by the caller */
	size_t size;
	int platform;        /* COHORT_PLATFORM_GPU or COHORT_PLATFORM_HOST */
	int status;          /* COHORT_OK if it is usable, else an error code */
	char reason[256];    /* why it is not usable, or "" */
	int devices;         /* number of devices; 0 if it is not usable */
	int nccl_version;    /* 10000 * major + 100 * minor + patch, or 0 */
	int runtime_version; /* of CUDA, 1000 * major + 10 * minor, or 0 */
	int driver_version;  /* of CUDA, 1000 * major + 10 * minor, or 0 */

	/* Files of the gpu platform's libraries, or NULL if they could not be
	 * opened; valid until the process exits. */
	const char *nccl_file;
	const char *runtime_file;

	/* Notes as full sentences, or "" if there are none: known faults of
	 * these versions, libraries that only imitate NCCL, misspelled COHORT_
	 * variables, and whether COHORT_PLATFORM_AUTO chose host although
	 * NVIDIA's libraries are installed.  Valid until the process exits. */
	const char *notes;

	/* 0 for real libraries, 1 for this project's drop-in libraries on
	 * simulated devices, 2 for NVIDIA's NCCL on simulated devices (cohort
	 * run --nccl). */
	int is_drop_in;

	/* Launch mode of a group whose options do not choose one
	 * (COHORT_LAUNCH_TOGETHER or COHORT_LAUNCH_AHEAD); 0 if the platform is
	 * not usable, or COHORT_LAUNCH in the environment is wrong. */
	int launch;
	uint64_t reserved[4];
};

/*
 * cohort_platform_probe - find out whether a platform is usable
 * @platform: COHORT_PLATFORM_GPU, COHORT_PLATFORM_HOST, or COHORT_PLATFORM_AUTO
 *            for the platform of a group whose options do not choose one
 * @info:     filled up to its size, which the caller has set
 *
 * It is not an error if the platform is not installed: @info->status is then
 * COHORT_NO_LIBRARY, COHORT_NO_SYMBOL, COHORT_NO_DEVICE, COHORT_CUDA or
 * COHORT_UNSUPPORTED (too old, or not NCCL), and @info->reason names what is
 * missing.  The status of the host platform may be COHORT_INVALID if an
 * environment variable is wrong.  Never prints.
 *
 * The first probe of the gpu platform opens its libraries: the ones that the
 * process has loaded, otherwise the system's.  If COHORT_GPU_LIBRARIES in the
 * environment names a directory, only libraries in that directory are opened.
 * On a machine without a GPU, COHORT_PLATFORM_AUTO also opens libcuda.so.1 or
 * NCCL, to check whether they are installed.  May be called from any thread;
 * may block while the driver starts.
 *
 * Returns:
 *   COHORT_OK       @info is filled
 *   COHORT_INVALID  @platform is unknown, @info is NULL, its size was not set,
 *                   or COHORT_PLATFORM in the environment is neither "gpu" nor
 *                   "host"; @info is untouched
 */
COHORT_API int cohort_platform_probe(int platform,
                                     struct cohort_platform_info *info);

#ifdef __cplusplus
}
#endif

#endif
