/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_PATCH_H
#define SIM_NVIDIA_PATCH_H

#include "sim/nvidia/nccl_image.h"

/*
 * Let every function of CUDA's runtime in @image jump elsewhere: to the one
 * that this library has for NCCL itself, or else to the one of its name in
 * @runtime, a library.  False if that cannot be: @why says why, and the image
 * is as it was.
 */
bool patch_runtime(const struct image *image, void *runtime, char *why,
                   size_t why_bytes);

#endif
