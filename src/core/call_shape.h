/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_CALL_SHAPE_H
#define CORE_CALL_SHAPE_H

/*
 * Outlines: what a rank's last lists and batches consisted of, so that a difference
 * can be told by the tensor
 *
 * A record has room for one tensor only.  Here are counts and types of all, a word
 * each, in a ring that is written inside the gate and read by any thread, without a
 * lock.
 *
 *  A. What call_shape_compare() finds different was so in the two calls.
 *  B. A shape is there until the ring has been filled once more, that of a known list
 *     until half of it has been.
 */

#include <stdatomic.h>
#include <stdint.h>

#include "base/text.h"
#include "core/op.h"

struct call_shapes {
	/* Constant after creation. */
	size_t room; /* a power of two */
	_Atomic uint64_t *words;

	/* Atomic; words that were ever begun to be written.  By the owner of the
	 * gate. */
	_Atomic uint64_t begun;
};

/* For a rank with so many recorder slots.  COHORT_NO_MEMORY, or COHORT_OK. */
int call_shapes_init(struct call_shapes *o, unsigned slots);
void call_shapes_fini(struct call_shapes *o);

/* Nobody will compare them any more: give back their memory. */
void call_shapes_forget(struct call_shapes *o);

/* Keep one, of a list or a batch.  Where it is, or CALL_SHAPE_NONE: for a call of one
 * tensor its record is enough, and what is longer than the ring is not kept.  That of a
 * known list is not written again while it is in the newer half of the ring.  Owner of
 * the gate only. */
uint64_t call_shape_keep(struct call_shapes *o, const struct op *op);
#define CALL_SHAPE_NONE UINT64_MAX

/* One of two ranks' shapes. */
struct call_shape {
	const struct call_shapes *of;
	uint64_t at;
	int rank;
};

/* Say where two shapes differ first: "tensors[3] is 10 float32 on rank 0, 11
 * float32 on rank 2".  Nothing if one is gone, or they do not differ.  Any thread. */
void call_shape_compare(struct text *t, const struct call_shape *a,
                        const struct call_shape *b);

#endif
