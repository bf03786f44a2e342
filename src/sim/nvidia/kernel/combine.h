/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_NVIDIA_KERNEL_COMBINE_H
#define SIM_NVIDIA_KERNEL_COMBINE_H

/*
 * Copies and reduces elements as NCCL's kernels do
 *
 * Results equal those of NCCL's kernels bit for bit: after each source is
 * added, the sum is rounded to the data type, even for small floats.  (GPUs add
 * 8-bit floats in float16 and CPUs in float32; both are wide enough to round as
 * if the sum were exact.)  Two things can differ: the bits of a NaN, and which
 * of +0 and -0 counts as greater.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/nvidia/kernel/layout.h"

/* The type of the elements to combine, and the operation on them.  Constant
 * after combine_make(). */
struct combine {
	int type; /* an ncclDataType_t */
	enum operation operation;
	size_t size; /* size of one element */

	/* Type and operation for sim/exec/reduce.h. */
	int fold_type, fold_op;

	/* The scalar of PreMulSum and the value 1, each in the low bytes. */
	uint64_t scale[2];

	/* the number by which SumPostDiv divides */
	int64_t divisor;
	bool is_signed;
};

/* Return a description of an operation on elements of @type.  @scalar is the
 * scalar in a work or, if the work contains a pointer, the value to which it
 * points. */
struct combine combine_make(int type, enum operation operation,
                            uint64_t scalar);

uint64_t combine_scalar_at(int type, const void *address);

/*
 * combine - reduce elements of one or more sources to one or more outputs
 * @count: number of elements
 * @scale: true if the first source is the rank's own, which PreMulSum scales
 * @last:  true if no source will follow; only then does SumPostDiv divide
 *
 * An output may be the same buffer as the first or the second source, but must
 * not overlap any other buffer.
 */
void combine(const struct combine *c, void *const to[], int tos,
             const void *const from[], int froms, size_t count, bool scale,
             bool last);

#endif
