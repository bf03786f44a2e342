/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Shards: each rank keeps a part of every gradient
 *
 * NCCL's reduce-scatter and all-gather use the same count for all ranks.  The
 * elements that remain after dividing by the number of ranks belong to the last
 * rank.  A step handles them with an additional all-reduce, and a gather of
 * parameters handles them with a broadcast.
 */

#include "base/status.h"
#include "reducer/reducer.h"

/* A range of a gradient's elements. */
struct part {
	size_t first, count;
};

static size_t size_of(const struct cohort_reducer *r)
{
	return (size_t)r->comm->clique->world_size;
}

static struct part remainder_part(const struct cohort_reducer *r, size_t count)
{
	size_t rest = count % size_of(r);

	return (struct part){ count - rest, rest };
}

static struct part even_part(const struct cohort_reducer *r, size_t count)
{
	size_t each = count / size_of(r);

	return (struct part){ (size_t)r->comm->rank * each, each };
}

static struct part own_part(const struct cohort_reducer *r, size_t count)
{
	struct part part = even_part(r, count);

	if ((size_t)r->comm->rank + 1 == size_of(r))
		part.count += count % size_of(r);
	return part;
}

int cohort_reducer_shard(const struct cohort_reducer *r, size_t i,
                         size_t *first, size_t *count)
{
	struct part part;

	if (!r || !first || !count)
		return error_set(COHORT_INVALID, "%s is NULL",
		                 !r       ? "reducer"
		                 : !first ? "first"
		                          : "count");
	if (i >= r->n)
		return error_set(COHORT_INVALID, "i is %zu, not 0 to %zu", i,
		                 r->n - 1);
	part = r->options.sharded ? own_part(r, r->items[i].count)
	                          : (struct part){ 0, r->items[i].count };
	*first = part.first;
	*count = part.count;
	return COHORT_OK;
}

/* Return the tensor of one gradient or parameter.  A reduce-scatter sends the
 * whole gradient, and an all-gather receives the whole parameter; everything
 * else is in place. */
static struct cohort_tensor tensor(const struct reducer_item *item,
                                   unsigned char *memory, struct part part,
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
	struct part part;
	unsigned char *memory;
	uint32_t k, n = 0;

	for (k = r->plan.begin[bucket]; k < r->plan.begin[bucket + 1]; k++) {
		item = &r->items[r->plan.order[k]];
		memory = from ? from[r->plan.order[k]] : item->gradient;
		part = portion == REDUCER_LEFT_OVER
		               ? remainder_part(r, item->count)
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
