/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOST_MEMORY_H
#define HOST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* True if [@p, @p + @bytes) lies in memory that the program does not own as
 * plain pageable memory: one allocation of cudaMalloc() or cudaHostAlloc(). */
bool memory_is_known(const void *p, size_t bytes);

#endif
