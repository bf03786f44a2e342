/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Shards: each rank keeps a part of every gradient
 *
 * NCCL's reduce-scatter and all-gather have one count for all ranks.  The
 * remainder of a division by the ranks, fewer elements than there are ranks,
 * belongs to the last rank: an all-reduce follows for it, or a broadcast when
 * parameters are gathered.
 */

#include "base/status.h"
#include "reducer/reducer.h"

/* ---- parts ------------------------------------------------------------ */

static size_t size_of(const struct cohort_reducer *r)
{
	return (size_t)r->comm->clique->world_size;
}

static struct reducer_part left_over(const struct cohort_reducer *r,
                                     size_t count)
{
	size_t rest = count % size_of(r);

	return (struct reducer_part){ count - rest, rest };
}

static struct reducer_part even_part(const struct cohort_reducer *r,
                                     size_t count)
{
	size_t each = count / size_of(r);

	return (struct reducer_part){ (size_t)r->comm->rank * each, each };
}

struct reducer_part reducer_part(const struct cohort_reducer *r, size_t count)
{
	struct reducer_part part = even_part(r, count);

	if ((size_t)r->comm->rank + 1 == size_of(r))
		part.count += count % size_of(r);
	return part;
}

int cohort_reducer_shard(const struct cohort_reducer *r, size_t i,
                         size_t *first, size_t *count)
{
	struct reducer_part part;

	if (!r || !first || !count)
		return error_set(COHORT_INVALID, "%s is NULL",
		                 !r       ? "reducer"
		                 : !first ? "first"
		                          : "count");
	if (i >= r->n)
		return error_set(COHORT_INVALID,
		                 "i is %zu, there are %zu parameters", i, r->n);
	part = r->options.sharded
	               ? reducer_part(r, r->items[i].count)
	               : (struct reducer_part){ 0, r->items[i].count };
	*first = part.first;
	*count = part.count;
	return COHORT_OK;
}

/* ---- tensors ---------------------------------------------------------- */

/* A reduce-scatter sends the whole gradient, an all-gather receives the whole
 * parameter; everything else is in place. */
static struct cohort_tensor tensor(const struct reducer_item *item,
                                   unsigned char *memory,
                                   struct reducer_part part,
                                   enum reducer_portion portion)
{
	unsigned char *at = memory + part.first * cohort_type_size(item->type);

	return (struct cohort_tensor){
		portion == REDUCER_SCATTERED ? memory : at,
		portion == REDUCER_GATHERED ? memory : at, part.count,
		item->type
	};
}

uint32_t reducer_add_portion(const struct cohort_reducer *r, size_t bucket,
                             enum reducer_portion portion, void *const *from,
                             struct cohort_tensor *tensors)
{
	const struct reducer_item *item;
	struct reducer_part part;
	unsigned char *memory;
	uint32_t k, n = 0;

	for (k = r->plan.begin[bucket]; k < r->plan.begin[bucket + 1]; k++) {
		item = &r->items[r->plan.order[k]];
		memory = from ? from[r->plan.order[k]] : item->gradient;
		part = portion == REDUCER_LEFT_OVER ? left_over(r, item->count)
		                                    : even_part(r, item->count);
		if (part.count)
			tensors[n++] = tensor(item, memory, part, portion);
	}
	return n;
}

void reducer_add_shards(struct cohort_reducer *r, size_t bucket,
                        struct cohort_tensor *tensors)
{
	struct reducer_bucket *b = &r->buckets[bucket];

	b->n = reducer_add_portion(r, bucket, REDUCER_SCATTERED, NULL, tensors);
	b->ends = reducer_add_portion(r, bucket, REDUCER_LEFT_OVER, NULL,
	                              tensors + b->n);
}
