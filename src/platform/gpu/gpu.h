/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLATFORM_GPU_GPU_H
#define PLATFORM_GPU_GPU_H

/* Declarations shared by the sources of the gpu platform */

#include "platform/platform.h"

/* The libraries of the gpu platform that could be opened. */
struct gpu_libraries {
	void *cudart, *nccl;                 /* from dlopen(), or NULL */
	const char *cudart_file, *nccl_file; /* for diagnostics, or NULL */
	int cudart_version, nccl_version;    /* 0 if not known */
	bool are_ours;                  /* are drop-in libraries (drop_in.h) */
	bool runs_nvidia;               /* drop-ins that run NVIDIA's NCCL */
	const struct host_knobs *knobs; /* NULL if no drop-in libraries */
};

/* Open the CUDA runtime and fill in its part of @table.  Even on an error
 * @libraries describes what was found. */
int gpu_load_cuda(struct gpu_libraries *libraries, struct platform *table);

/* Open NCCL and fill in its part of @table.  Even on an error @libraries
 * describes what was found. */
int gpu_load_nccl(struct gpu_libraries *libraries, struct platform *table);

/* Return COHORT_UNSUPPORTED if the CUDA runtime is too old. */
int gpu_check_cuda(const struct gpu_libraries *libraries);

/* Return COHORT_UNSUPPORTED if NCCL is too old, or the library only looks like
 * NCCL. */
int gpu_check_nccl(const struct gpu_libraries *libraries);

/* Implementation of gpu_platform_library(), called with gpu.c's lock held. */
const char *gpu_find_library(void);

/* Return notes on the open libraries as sentences, or "" if there are none.
 * Only one thread at a time may call this.  Later calls return the text of the
 * first call. */
const char *gpu_notes(const struct gpu_libraries *libraries,
                      const struct platform *table);

/* Fill in the driver's functions and the marks, after gpu_load_cuda(). */
int gpu_find_marks(struct gpu_libraries *libraries, struct platform *table);

#endif
