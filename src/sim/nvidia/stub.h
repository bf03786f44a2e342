/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_STUB_H
#define SIM_NVIDIA_STUB_H

/*
 * The host stubs of NCCL's kernels: a kernel's handle, for NCCL and for the runtime, is
 * the address of its stub, whose name is the kernel's
 */

#include "sim/nvidia/image.h"

/* Find those of @image.  False without memory. */
bool stubs_find(const struct image *image);

/* The kernel's name as the compiler has it (mangled), or NULL if @stub is none. */
const char *stub_name(const void *stub);

#endif
