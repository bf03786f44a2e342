/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SUPPORT_NCCL_VALUES_H
#define TESTS_SUPPORT_NCCL_VALUES_H

/*
 * What ranks send, and what should come of it: small whole numbers, so that every result
 * is exact in every type
 */

#include "sim/nvidia/kernel/layout.h"

enum reduction { SUM, PROD, MIN, MAX, SCALED, AVERAGE };

size_t nccl_type_size(int type);

/* The bits of @x; whole numbers wrap. */
uint64_t nccl_bits(int type, double x);

/* Element number @i of @memory. */
void nccl_put(int type, void *memory, size_t i, double x);
uint64_t nccl_get(int type, const void *memory, size_t i);

/* What @rank sends as its element number @i, and what all ranks' make together. */
double nccl_value(int type, int rank, size_t i);
double nccl_expect(int type, enum reduction reduction, int ranks, size_t i);

/* How NCCL hands the reduction to a kernel. */
enum operation nccl_operation(enum reduction reduction);
uint64_t nccl_scalar(int type, enum reduction reduction, int ranks);

#endif
