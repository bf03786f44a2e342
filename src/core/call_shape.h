/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CALL_SHAPE_H
#define CORE_CALL_SHAPE_H

/*
 * Shapes: what a rank's last lists and batches consisted of, so that a mismatch
 * can be told by the tensor
 *
 * A record has room for one tensor only.  A shape has the counts and types of
 * all tensors, a word each, in a ring that is written with the lock held and
 * read by any thread, without a lock.
 *
 *  A. What call_shape_compare() finds different was different in the two calls.
 *  B. A shape is in the ring until that has been filled once more.
 */

#include <stdatomic.h>
#include <stdint.h>

#include "base/text.h"
#include "core/op.h"

struct call_shapes {
	/* Constant after creation. */
	size_t room; /* a power of two */
	_Atomic uint64_t *words;

	/* Atomic; how many words were ever written, with those being written.
	 * Written with the lock held. */
	_Atomic uint64_t begun;
};

/* For a rank with so many recorder slots.  COHORT_NO_MEMORY, or COHORT_OK. */
int call_shapes_init(struct call_shapes *o, unsigned slots);
void call_shapes_fini(struct call_shapes *o);

/* Give back the memory: no shape will be compared again. */
void call_shapes_forget(struct call_shapes *o);

/* Keep the shape of a list or a batch.  Returns its place, or CALL_SHAPE_NONE:
 * the record of a call with one tensor is enough, and what is longer than the
 * ring is not kept.  With the lock held. */
uint64_t call_shape_keep(struct call_shapes *o, const struct op *op);
#define CALL_SHAPE_NONE UINT64_MAX

/* One of two ranks' shapes. */
struct call_shape {
	const struct call_shapes *of;
	uint64_t at;
	int rank;
};

/* Say where two shapes differ first: "tensors[3] is 10 float32 on rank 0, 11
 * float32 on rank 2".  Adds nothing if one was overwritten, or if they do not
 * differ.  Any thread. */
void call_shape_compare(struct text *t, const struct call_shape *a,
                        const struct call_shape *b);

#endif
