/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_FITS_H
#define SIM_NVIDIA_FITS_H

#include "sim/nvidia/image.h"
#include "sim/nvidia/kernel/version.h"

/* False if a table of @version is missing in @image, or has another size: stores its
 * name. */
bool version_fits(const struct nccl_version *version, const struct image *image,
                  const char **table);

#endif
