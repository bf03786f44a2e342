/* SPDX-License-Identifier: Apache-2.0 */

/*
 * NCCL 2.28.9 for CUDA 13, as in the wheel nvidia-nccl-cu13
 */

#include "sim/nvidia/version.h"

const struct nccl_version version_2_28_9 = {
	.number = 22809,
	.text = "2.28.9",
	.runtime = "libcudart.so.13",
	/* Which functions and kernels there are. */
	.tables = { { "ncclDevFuncRowToId", 7988 },
	            { "ncclDevKernelForFunc", 5368 },
	            { "ncclDevKernelList", 320 },
	            { NULL, 0 } },
};
