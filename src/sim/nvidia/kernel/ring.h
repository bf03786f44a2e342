/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KERNEL_RING_H
#define SIM_NVIDIA_KERNEL_RING_H

#include "sim/nvidia/kernel/task.h"

/* The programs of the collectives on a ring, by enum collective. */
extern task_program *const ring_programs[SEND_RECV];

#endif
