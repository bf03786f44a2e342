/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PLATFORM_GPU_GPU_H
#define PLATFORM_GPU_GPU_H

/*
 * What the sources of the gpu platform have in common
 */

#include "platform/platform.h"

/* The libraries, as far as they could be opened. */
struct gpu_libraries {
	void *cudart, *nccl;                 /* handles of dlopen(), or NULL */
	const char *cudart_file, *nccl_file; /* for diagnostics only, or NULL */
	int cudart_version, nccl_version;    /* 0: not known */
	bool are_ours;                       /* the drop-in libraries */
	bool runs_nvidia;                    /* ours, with NVIDIA's NCCL */
	const struct host_knobs *knobs; /* of the drop-in libraries, or NULL */
};

/* Open the CUDA runtime, or NCCL, and fill its part of @table.  On an error
 * @libraries has what could be found.  @join: see platform.h. */
int gpu_load_cuda(struct gpu_libraries *libraries, struct platform *table,
                  int (*join)(const struct host_knobs *knobs));
int gpu_load_nccl(struct gpu_libraries *libraries, struct platform *table);

/* COHORT_UNSUPPORTED if the library is too old, or only looks like CUDA or
 * NCCL. */
int gpu_check_cuda(const struct gpu_libraries *libraries);
int gpu_check_nccl(const struct gpu_libraries *libraries);

/* Open a library of NVIDIA's, the driver or else NCCL.  Returns its file; NULL:
 * there is none. */
const char *gpu_find_library(void);

/* Sentences about libraries that can be used; "": there is nothing to say.  One
 * thread at a time; the text stays as the first call made it. */
const char *gpu_notes(const struct gpu_libraries *libraries,
                      const struct platform *table);

/* Fill in the driver's functions, and the marks; after the CUDA runtime. */
int gpu_find_marks(struct gpu_libraries *libraries, struct platform *table);

#endif
