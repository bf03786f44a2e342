/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KNOWN_H
#define SIM_NVIDIA_KNOWN_H

/*
 * The versions of NCCL that are known, by ncclGetVersion()'s number: each has a table
 * (kernel/version.h).  X(number, major, minor, patch), in their order.
 */

/* clang-format off */
#define KNOWN_NCCL(X) \
	X(22809, 2, 28, 9) \
	X(22907, 2, 29, 7) \
	X(23007, 2, 30, 7) \
	X(23102, 2, 31, 2) \
	X(23203, 2, 32, 3)
/* clang-format on */

#endif
