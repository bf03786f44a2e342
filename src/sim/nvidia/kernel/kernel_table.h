/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KERNEL_KERNEL_TABLE_H
#define SIM_NVIDIA_KERNEL_KERNEL_TABLE_H

#include "sim/nvidia/kernel/kernel_run.h"
#include "sim/nvidia/kernel/nccl_version.h"

/* See sim/nvidia/kernel/kernel_run.h. */
struct nvidia_kernels {
	const struct layout *layout;
	/* By the id that a batch has; a row of -1 is none. */
	unsigned function_count;
	struct {
		int row;
		struct function function;
	} functions[];
};

/* The function of that id, or NULL. */
const struct function *kernels_function(const struct nvidia_kernels *kernels,
                                        unsigned id);

/* "AllReduce by NVLS": writes it to @out, and returns @out. */
const char *kernels_name(const struct function *function, char *out,
                         size_t size);

#endif
