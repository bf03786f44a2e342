/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REDUCER_BUCKET_H
#define REDUCER_BUCKET_H

/*
 * Assign gradients to buckets and order the buckets
 *
 * The functions are pure, so that every rank computes the same plan by itself.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bucket_item {
	size_t bytes;
	int type; /* enum cohort_type */
};

/* Result of bucket_plan().  The caller provides the arrays. */
struct bucket_plan {
	size_t buckets;
	uint32_t *order; /* item numbers, by bucket and then by order of use */
	uint32_t *begin; /* start of each bucket in @order, and the end of the
	                  * last: needs n + 1 elements */
	uint32_t *bucket_of; /* bucket of each item */
};

/* Size limits of buckets in bytes.  A single item may be larger. */
struct bucket_limits {
	size_t first; /* first bucket of each type: small, to start early */
	size_t most;  /* all other buckets */
	bool evens;   /* make buckets smaller, see bucket_plan() */
};

/*
 * bucket_plan - assign every item to a bucket
 * @items: the @n items
 * @use:   the items' numbers, in the order in which they should become ready
 * @plan:  filled in
 *
 * All items of a bucket have the same type.  A bucket ends where the next item
 * of its type does not fit.  Buckets are numbered in the order in which their
 * last items are used, because a bucket is complete then.
 *
 * If @limits->evens is set, every bucket except the first of its type is
 * limited to 1/16 of all bytes and to half of the bytes of its type that are
 * not in earlier buckets (docs/api-rules.md, "Buckets").  This limit is never
 * below the first bucket's limit, because each bucket costs a launch.
 */
void bucket_plan(const struct bucket_item *items, size_t n, const uint32_t *use,
                 const struct bucket_limits *limits, struct bucket_plan *plan);

#endif
