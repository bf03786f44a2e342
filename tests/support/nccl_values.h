/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_NCCL_VALUES_H
#define TESTS_SUPPORT_NCCL_VALUES_H

/*
 * The values that ranks send in tests of NCCL's kernels, and the expected
 * results
 *
 * All values are small whole numbers, so that every result is exact in every
 * type.
 */

#include "sim/nvidia/kernel/layout.h"

enum reduction { SUM, PROD, MIN, MAX, SCALED, AVERAGE };

/* Return the number of bytes of an element. */
size_t nccl_type_size(int type);

/* Return the bits of @x in @type. Whole numbers wrap. */
uint64_t nccl_bits(int type, double x);

/* Store @x as element @i of @memory. */
void nccl_put(int type, void *memory, size_t i, double x);

/* Return the bits of element @i of @memory. */
uint64_t nccl_get(int type, const void *memory, size_t i);

/* Return element @i of the buffer that @rank sends. */
double nccl_value(int type, int rank, size_t i);

/* Return element @i of the expected result over all ranks. */
double nccl_expect(int type, enum reduction reduction, int ranks, size_t i);

/* Return the operation that NCCL passes to a kernel for @reduction. */
enum operation nccl_operation(enum reduction reduction);

/* Return the scalar that NCCL passes to a kernel for @reduction. */
uint64_t nccl_scalar(int type, enum reduction reduction, int ranks);

#endif
