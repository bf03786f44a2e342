/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_PATCH_H
#define SIM_NVIDIA_PATCH_H

#include "sim/nvidia/image.h"

/* A function that takes the place of one of the image's. */
struct patch {
	const char *name;
	void *function;
};

/*
 * Let every function of CUDA's runtime in @image jump elsewhere: to the one of its name
 * in @own, a list that ends with a name of NULL, or else in @runtime, a library.  False
 * if that cannot be: @why says why, and the image is as it was.
 */
bool patch_runtime(const struct image *image, const struct patch *own,
                   void *runtime, char *why, size_t why_bytes);

#endif
