/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_LAUNCH_H
#define SIM_NVIDIA_LAUNCH_H

#include "sim/nvidia/image.h"
#include "sim/nvidia/kernel/version.h"

/* Have the launches of the kernels of @image from now on.  False if its tables are not
 * as those of @version, or without memory. */
bool launch_begin(const struct nccl_version *version,
                  const struct image *image);

#endif
