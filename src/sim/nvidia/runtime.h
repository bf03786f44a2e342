/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_RUNTIME_H
#define SIM_NVIDIA_RUNTIME_H

#include "sim/nvidia/patch.h"

/* The functions of CUDA's runtime that this library has for NCCL itself. */
extern const struct patch runtime_functions[];

#endif
