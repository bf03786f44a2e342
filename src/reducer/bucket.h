/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REDUCER_BUCKET_H
#define REDUCER_BUCKET_H

/*
 * Which parameters' gradients travel together, and in which order: pure, so that
 * every rank comes to the same plan by itself
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bucket_item {
	size_t bytes;
	int type; /* enum cohort_type */
};

/* Room for all of it is the caller's. */
struct bucket_plan {
	size_t buckets;
	uint32_t *order; /* the items, bucket by bucket; in a bucket in order of
	                    use */
	uint32_t *begin; /* of each bucket, in the order, and the end: one more
	                    than items */
	uint32_t *bucket_of; /* each item */
};

/* How many bytes a bucket may have, unless it is one item that has more. */
struct bucket_limits {
	size_t first; /* of each type, small so that something is under way soon */
	size_t most; /* of the others */
	bool evens;  /* and less where more would only be waited for */
};

/*
 * bucket_plan - put every item in one bucket
 * @items: @n of them
 * @use:   all their numbers, in the order in which they are expected to be ready
 * @plan:  filled
 *
 * A bucket is of one type.  It is closed by the next item of its type that does not
 * fit.  Buckets are numbered by when their last item is used, as that is when they are
 * full.
 *
 * What a step takes beyond the longer of the backward pass and the averaging follows
 * from the buckets.  Say a byte takes 1 to average and w to compute, and bucket k has b
 * bytes, with p bytes before and q behind it.  It is launched at w * (p + b), and then
 * b + q have to be averaged: the step takes no less than w * (p + b) + b + q, and no
 * more than the largest of these.  By the longer of both, max(w, 1) * (p + b + q), that
 * is too long by
 *
 *	w * b - (1 - w) * p	where w is 1 or less,
 *	b - (w - 1) * q		where it is 1 or more:
 *
 * near w = 1 by the largest bucket, and the longer the pass, the more by what comes last.
 * So if the limits say so no bucket but the first has more than a 16th of all bytes, nor
 * than half of those of its type that are not in buckets before it; but as many as the
 * first one may have, as each costs a launch.
 */
void bucket_plan(const struct bucket_item *items, size_t n, const uint32_t *use,
                 const struct bucket_limits *limits, struct bucket_plan *plan);

#endif
