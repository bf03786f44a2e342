/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REDUCER_BUCKET_H
#define REDUCER_BUCKET_H

/*
 * Which gradients form a bucket, and the order of the buckets: pure, so that
 * every rank makes the same plan by itself
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bucket_item {
	size_t bytes;
	int type; /* enum cohort_type */
};

/* The arrays belong to the caller. */
struct bucket_plan {
	size_t buckets;
	uint32_t *order; /* the items, bucket by bucket, each in order of use */
	uint32_t *begin; /* where each bucket begins in the order, and the end:
	                    room for one more than there are items */
	uint32_t *bucket_of; /* for each item its bucket */
};

/* How many bytes a bucket may have; a single item may have more. */
struct bucket_limits {
	size_t first; /* the first bucket of each type: small, to begin early */
	size_t most;  /* the other buckets */
	bool evens;   /* smaller limits, see bucket_plan() */
};

/*
 * bucket_plan - put every item in one bucket
 * @items: @n of them
 * @use:   the items' numbers, in the order in which they are expected to be
 * ready
 * @plan:  filled in
 *
 * All items of a bucket have one type.  A bucket ends where the next item of
 * its type does not fit.  Buckets are numbered in the order in which their last
 * items are used, because a bucket is complete then.
 *
 * The buckets decide how much time is exposed: what a step takes beyond the
 * longer of the backward pass and the averaging.  Let a byte take T to average
 * and w * T to compute, and let bucket k have b bytes, with p bytes before it
 * and q bytes behind.  It is launched at T * w * (p + b), and b + q bytes are
 * then still to be averaged, so the step ends at the largest T * (w * (p + b) +
 * b + q).  The longer of pass and averaging is T * max(w, 1) * (p + b + q).
 * Exposed time is therefore the largest, over the buckets, of
 *
 * 	T * (w * b - (1 - w) * p)	if w <= 1,
 * 	T * (b - (w - 1) * q)		if w >= 1.
 *
 * Near w = 1 the largest bucket decides, and in a longer pass the last buckets.
 * With @evens a bucket behind the first therefore has at most a 16th of all
 * bytes, and at most half of the bytes of its type that are not in earlier
 * buckets; but it may always have as many as the first bucket, because each
 * bucket costs a launch.
 */
void bucket_plan(const struct bucket_item *items, size_t n, const uint32_t *use,
                 const struct bucket_limits *limits, struct bucket_plan *plan);

#endif
