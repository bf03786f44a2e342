/* SPDX-License-Identifier: Apache-2.0 */
#ifndef API_BUCKET_H
#define API_BUCKET_H

/*
 * Which parameters' gradients travel together, and in which order: pure, so that
 * every rank comes to the same plan by itself
 */

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

/*
 * bucket_plan - put every item in one bucket
 * @items: @n of them
 * @use:   all their numbers, in the order in which they are expected to be ready
 * @first: bytes of a type's first bucket, small so that something is under way soon,
 * @most:  and of the others
 * @plan:  filled
 *
 * A bucket is of one type, and no larger than its limit, unless it is one item that
 * is.  It is closed by the next item of its type that does not fit.  Buckets are
 * numbered by when their last item is used, as that is when they are full.
 */
void bucket_plan(const struct bucket_item *items, size_t n, const uint32_t *use,
                 size_t first, size_t most, struct bucket_plan *plan);

#endif
