/* SPDX-License-Identifier: Apache-2.0 */

#include "reducer/bucket.h"

#include <stdbool.h>
#include <string.h>

#include "base/util.h"

#define TYPES 16

/* The bucket of one type that is being filled. */
struct open_bucket {
	bool exists;
	uint32_t number; /* number in the order of opening */
	size_t bytes;
	size_t limit;
	size_t left; /* bytes of this type that are in no bucket yet */
};

static bool fits(const struct open_bucket *o, size_t bytes)
{
	return o->exists &&
	       (o->bytes == 0 || bytes <= o->limit - o->bytes || bytes == 0);
}

/* A bucket holds at most 1/PARTS of all bytes. */
#define PARTS 16

/* Return the size limit of a bucket other than the first of its type.  @left:
 * bytes of the type that are in no bucket yet. */
static size_t limit_of(const struct bucket_limits *limits, size_t all,
                       size_t left)
{
	size_t even = MIN(all / PARTS, left / 2);

	if (!limits->evens)
		return limits->most;
	return MIN(MAX(even, limits->first), limits->most);
}

static size_t sum_bytes(const struct bucket_item *items, size_t n,
                        struct open_bucket open[TYPES])
{
	size_t k, all = 0;

	for (k = 0; k < n; k++) {
		open[(unsigned)items[k].type % TYPES].left += items[k].bytes;
		all += items[k].bytes;
	}
	return all;
}

/* Assign each item to a bucket, and number the buckets in the order of opening.
 * Store in @plan->begin the position in @use of each bucket's last item. */
static void fill(const struct bucket_item *items, size_t n, const uint32_t *use,
                 const struct bucket_limits *limits, struct bucket_plan *plan)
{
	struct open_bucket open[TYPES] = { { .exists = false } };
	const size_t all = sum_bytes(items, n, open);
	struct open_bucket *o;
	size_t k, bytes;

	plan->buckets = 0;
	for (k = 0; k < n; k++) {
		o = &open[(unsigned)items[use[k]].type % TYPES];
		bytes = items[use[k]].bytes;
		if (!fits(o, bytes))
			*o = (struct open_bucket){
				.exists = true,
				.number = (uint32_t)plan->buckets++,
				.limit = o->exists ? limit_of(limits, all,
				                              o->left)
				                   : limits->first,
				.left = o->left,
			};
		o->bytes += bytes;
		o->left -= bytes;
		/* A single item may exceed the limit; fits() needs limit >=
		 * bytes. */
		o->limit = MAX(o->limit, o->bytes);
		plan->bucket_of[use[k]] = o->number;
		plan->begin[o->number] = (uint32_t)k;
	}
}

/* Renumber the buckets in the order of their last items. */
static void renumber(size_t n, const uint32_t *use, struct bucket_plan *plan)
{
	uint32_t next = 0;
	size_t k;

	/* Each bucket's new number replaces the position of its last item.  It
	 * cannot be mistaken for such a position, because no later item is in
	 * that bucket. */
	for (k = 0; k < n; k++)
		if (plan->begin[plan->bucket_of[use[k]]] == k)
			plan->begin[plan->bucket_of[use[k]]] = next++;
	for (k = 0; k < n; k++)
		plan->bucket_of[k] = plan->begin[plan->bucket_of[k]];
}

void bucket_plan(const struct bucket_item *items, size_t n, const uint32_t *use,
                 const struct bucket_limits *limits, struct bucket_plan *plan)
{
	uint32_t *begin = plan->begin;
	size_t k, b;

	fill(items, n, use, limits, plan);
	renumber(n, use, plan);
	memset(begin, 0, (plan->buckets + 1) * sizeof(*begin));
	for (k = 0; k < n; k++)
		begin[plan->bucket_of[k] + 1]++;
	for (b = 0; b < plan->buckets; b++)
		begin[b + 1] += begin[b];
	for (k = 0; k < n; k++)
		plan->order[begin[plan->bucket_of[use[k]]]++] = use[k];
	/* Each element of begin is now the start of the next bucket: shift the
	 * array back by one. */
	for (b = plan->buckets; b > 0; b--)
		begin[b] = begin[b - 1];
	begin[0] = 0;
}
