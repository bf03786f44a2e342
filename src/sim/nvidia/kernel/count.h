/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KERNEL_COUNT_H
#define SIM_NVIDIA_KERNEL_COUNT_H

#include <stddef.h>

static inline size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static inline size_t divide_up(size_t x, size_t by)
{
	return (x + by - 1) / by;
}

static inline size_t round_up(size_t x, size_t multiple)
{
	return divide_up(x, multiple) * multiple;
}

#endif
