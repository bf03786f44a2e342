/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KERNEL_KERNEL_TABLE_H
#define SIM_NVIDIA_KERNEL_KERNEL_TABLE_H

#include "sim/nvidia/kernel/kernel_run.h"
#include "sim/nvidia/kernel/nccl_version.h"

/* Information about the kernels of a loaded NCCL. */
struct nvidia_kernels {
	const struct layout *layout;
	/* Functions, indexed by the id that batches use.  The member row is -1
	 * if an id has no function. */
	unsigned function_count;
	struct {
		int row;
		struct function function;
	} functions[];
};

/* Return the function with @id, or NULL if there is none. */
const struct function *kernels_function(const struct nvidia_kernels *kernels,
                                        unsigned id);

/* Write the name of a function, such as "AllReduce by NVLS", to @out, and
 * return @out. */
const char *kernels_name(const struct function *function, char *out,
                         size_t size);

#endif
