/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KERNEL_COMBINE_H
#define SIM_NVIDIA_KERNEL_COMBINE_H

/*
 * What a kernel does with elements: copies them, or reduces those of several
 * sources
 *
 * Results are bit for bit those of NCCL's kernels: each source is added and
 * rounded to the type, also for small floats.  (GPUs add 8-bit floats in
 * float16, CPUs in float32: both are wide enough to round as if the sum were
 * exact.)  Two things may differ: the bits of a NaN, and which of +0 and -0
 * counts as the greater.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/nvidia/kernel/layout.h"

/* Constant once it is made. */
struct combine {
	int type; /* ncclDataType_t */
	enum operation operation;
	size_t size; /* of an element */

	/* How sim/exec/reduce.h does it. */
	int fold_type, fold_op;

	/* PreMulSum: two scalars, the operation's and 1, each in its low bytes.
	 * SumPostDiv: the divisor. */
	uint64_t scale[2];
	int64_t divisor;
	bool is_signed;
};

/* @scalar: as in a work, after it has been read if it is a pointer. */
struct combine combine_make(int type, enum operation operation,
                            uint64_t scalar);

size_t combine_type_size(int type);

/* The scalar of that type at @address, as a work has it. */
uint64_t combine_scalar_at(int type, const void *address);

/*
 * Reduce @count elements of @froms sources to @tos outputs, 1 or more of each.
 * @scale: the first source is a rank's own, to be multiplied if the operation
 * says so.  @last: no other source will follow, so divide if the operation says
 * so.  An output may be the first or the second source, and overlaps no other.
 */
void combine(const struct combine *c, void *const to[], int tos,
             const void *const from[], int froms, size_t count, bool scale,
             bool last);

#endif
