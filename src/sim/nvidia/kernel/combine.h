/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KERNEL_COMBINE_H
#define SIM_NVIDIA_KERNEL_COMBINE_H

/*
 * What a kernel does with elements: copies them, or reduces those of several sources
 *
 * Results are those of NCCL's kernels: they are rounded to the type after each source,
 * small floats, too.  (GPUs add 8-bit floats in float16: what float32 or float16 holds of
 * a sum or product of two of them is enough to round it as if it were exact.)  Two kinds
 * of bits may differ: which NaN a NaN is, and which of two zeros is the greater.
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
 * Reduce @count elements of @froms sources to @tos outputs, 1 or more of each.  @scale:
 * the first source is a rank's own, to be multiplied if the operation says so.  @last:
 * no other source will follow, so divide if the operation says so.  An output may be the
 * first or the second source, and overlaps no other.
 */
void combine(const struct combine *c, void *const to[], int tos,
             const void *const from[], int froms, size_t count, bool scale,
             bool last);

#endif
