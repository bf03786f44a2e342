/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CALL_SHAPE_H
#define CORE_CALL_SHAPE_H

/*
 * Shapes: descriptions of all tensors in a rank's latest calls with several
 * tensors (lists and batches), so that a report of a mismatch can name the
 * tensor that differs
 *
 * A record of the flight recorder has room for one tensor only.  A shape has
 * the count and type of every tensor, in one word each.  Shapes are stored in a
 * ring buffer, which is written with the communicator's lock held and read by
 * any thread without a lock.
 *
 *  A. If call_shape_compare() reports a difference, the two calls did differ.
 *  B. A shape stays readable until the ring buffer overwrites it.
 */

#include <stdatomic.h>
#include <stdint.h>

#include "base/text.h"
#include "core/op.h"

struct call_shapes {
	/* Constant after creation. */
	size_t room; /* number of words; a power of two */
	_Atomic uint64_t *words;

	/* Atomic; number of words ever written, including those being written
	 * now.  Written with the lock held. */
	_Atomic uint64_t begun;
};

/* Allocate the ring for a rank with @slots recorder slots.  Return COHORT_OK or
 * COHORT_NO_MEMORY. */
int call_shapes_init(struct call_shapes *o, unsigned slots);

void call_shapes_fini(struct call_shapes *o);

/* Release the ring's memory.  No shape will be compared again. */
void call_shapes_forget(struct call_shapes *o);

/* Store the shape of @op, a list or a batch, and return its position.  Return
 * CALL_SHAPE_NONE if the call has only one tensor, which the record describes,
 * or if the shape is longer than the ring.  Call it with the lock held. */
uint64_t call_shape_keep(struct call_shapes *o, const struct op *op);
#define CALL_SHAPE_NONE UINT64_MAX

struct call_shape {
	const struct call_shapes *of;
	uint64_t at;
	int rank;
};

/* Append the first difference between two shapes: "tensors[3] is 10 float32 on
 * rank 0, 11 float32 on rank 2".  Append nothing if a shape was overwritten or
 * if the shapes do not differ.  May be called from any thread. */
void call_shape_compare(struct text *t, const struct call_shape *a,
                        const struct call_shape *b);

#endif
