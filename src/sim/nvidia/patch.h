/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_PATCH_H
#define SIM_NVIDIA_PATCH_H

#include "sim/nvidia/nccl_image.h"

/* A replacement for the function @name.  The last entry of a list has no
 * name. */
struct replacement {
	const char *name;
	void *function;
};

/*
 * patch_runtime - redirect the CUDA runtime that is linked into an image
 * @runtime: handle of the library to redirect to
 * @own:     replacements that override that library; NULL for a program
 * @why:     on failure, receives the reason
 *
 * Each function of the runtime then jumps to its replacement or, if there is
 * none, to the function of the same name in @runtime.  If the image is a
 * library, each function must have such a target, and the library's
 * constructors must have run.  If it is a program, the program's constructors
 * must not have run yet.  No thread may run the functions during the call.
 *
 * Returns false on failure; @image is then unchanged.
 */
bool patch_runtime(const struct image *image, void *runtime,
                   const struct replacement *own, char *why, size_t why_bytes);

#endif
