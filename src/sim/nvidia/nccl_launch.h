/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_NCCL_LAUNCH_H
#define SIM_NVIDIA_NCCL_LAUNCH_H

#include "sim/nvidia/kernel/nccl_version.h"
#include "sim/nvidia/nccl_image.h"

/* Have the launches of the kernels of @image from now on.  False if its tables
 * are not as those of @version, or without memory. */
bool launch_begin(const struct nccl_version *version,
                  const struct image *image);

/* The name, as the compiler has it (mangled), of the kernel with the host stub
 * @stub, or NULL if that is none: a kernel's handle, for NCCL and for the
 * runtime, is the address of its stub. */
const char *stub_name(const void *stub);

#endif
