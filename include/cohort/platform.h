/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COHORT_PLATFORM_H
#define COHORT_PLATFORM_H

/*
 * Platforms: what runs the collectives, whether it is there, and why not
 *
 * The gpu platform is NCCL and the CUDA runtime.  The host platform has the
 * same functions on CPU threads and host memory; it is built in and needs no
 * GPU.
 */

#include <stddef.h>
#include <stdint.h>

#include <cohort/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a group runs on. */
enum cohort_platform {
	/* What COHORT_PLATFORM in the environment says ("gpu" or "host"), else
	 * gpu if the machine has one, else host. */
	COHORT_PLATFORM_AUTO = 0,
	COHORT_PLATFORM_GPU = 1,  /* NCCL and CUDA, opened at run time */
	COHORT_PLATFORM_HOST = 2, /* CPU threads and host memory, built in */
};

/* What cohort_platform_probe() found. */
struct cohort_platform_info {
	size_t size;         /* set by the caller: sizeof */
	int platform;        /* COHORT_PLATFORM_GPU or _HOST */
	int status;          /* COHORT_OK: usable; else why not, as a code */
	char reason[256];    /* why not, as a text; "" when usable */
	int devices;         /* how many; 0 when not usable */
	int nccl_version;    /* 10000 * major + 100 * minor + patch, or 0 */
	int runtime_version; /* of CUDA, 1000 * major + 10 * minor, or 0 */
	int driver_version;  /* of CUDA, 1000 * major + 10 * minor, or 0 */

	/* The files of the gpu platform's libraries, as far as they could be
	 * opened, else NULL. */
	const char *nccl_file;
	const char *runtime_file;

	/* Sentences, or "".  They tell what is known to be wrong with such
	 * versions, that the libraries are not what they seem, and which
	 * variables COHORT_... of the environment mean nothing.  For _AUTO they
	 * also tell if the host platform was chosen because there is no GPU,
	 * although NVIDIA's libraries are here.  This text and the files' names
	 * last as long as the process. */
	const char *notes;

	/* 0: real libraries.  1: this project's drop-in libraries, on the host
	 * platform's devices.  2: NVIDIA's NCCL on those devices (cohort run
	 * --nccl). */
	int is_drop_in;

	/* How the ranks of a group launch that is opened there now and whose
	 * options do not choose: COHORT_LAUNCH_TOGETHER or _AHEAD; 0 when the
	 * platform is not usable, or COHORT_LAUNCH in the environment is
	 * neither. */
	int launch;
	uint64_t reserved[4]; /* room for what later versions add */
};

/*
 * cohort_platform_probe - what is there, or why not
 * @platform: COHORT_PLATFORM_GPU or _HOST; _AUTO: the one that a group gets
 *            which is opened now and whose options do not choose
 * @info:     the caller has set its size; the rest is filled, up to that size
 *
 * "Not installed" is a normal answer: COHORT_OK, with an @info->status of
 * COHORT_NO_LIBRARY, COHORT_NO_SYMBOL, COHORT_NO_DEVICE, COHORT_CUDA or
 * COHORT_UNSUPPORTED (too old, or not NCCL), and a reason that names what is
 * missing.  Never crashes and never prints.
 *
 * The first probe of the gpu platform opens its libraries: those that the
 * process has loaded already, else the system's.  If COHORT_GPU_LIBRARIES of
 * the environment names a folder, only those in it are opened.  For _AUTO, if
 * there is no GPU, libcuda.so.1 or else NCCL is opened too, to see whether it
 * is there.  Any thread; may block on the start of the driver.
 *
 * COHORT_OK; COHORT_INVALID for a @platform that is none of the three, an @info
 * that is NULL or whose size was not set, or for _AUTO an environment variable
 * COHORT_PLATFORM that is neither "gpu" nor "host"; @info is then untouched.
 * The host platform's @info->status may be COHORT_INVALID, for an environment
 * that cannot be read.
 */
COHORT_API int cohort_platform_probe(int platform,
                                     struct cohort_platform_info *info);

#ifdef __cplusplus
}
#endif

#endif
