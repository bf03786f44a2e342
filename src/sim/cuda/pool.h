/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_POOL_H
#define SIM_CUDA_POOL_H

#include "sim/cuda/memory_table.h"

/* Note that @m, which may be from a pool, is freed. */
void pool_returned(const struct memory *m);

#endif
