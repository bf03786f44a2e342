/* SPDX-License-Identifier: Apache-2.0 */

/* Make the tensors of each bucket, and after a step a new plan, in the order in
 * which rank 0's gradients became ready */

#include <stdio.h>
#include <string.h>

#include "reducer/reducer.h"

/* Alignment of gradients in the reducer's memory.  The size of every type
 * divides it. */
#define ALIGN ((size_t)64)

size_t reducer_align(size_t bytes)
{
	return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

size_t reducer_layout(struct cohort_reducer *r, unsigned char *arena)
{
	size_t k, bytes = 0;

	for (k = 0; k < r->n; k++) {
		struct reducer_item *item = &r->items[r->plan.order[k]];

		if (!item->is_view)
			continue;
		if (arena)
			item->gradient = arena + bytes;
		bytes += reducer_align(item->bytes);
	}
	return bytes;
}

/* Extend the tensor @last, which ends with the gradient of @before, by the
 * gradient of @item if that is next in the reducer's memory.  The padding
 * between them is zero on every rank.  Gradients in the caller's memory cannot
 * be merged, because they may not be adjacent on other ranks. */
static bool extend(const struct reducer_item *item, struct cohort_tensor *last,
                   const struct reducer_item *before)
{
	const unsigned char *begin = last->send;
	size_t size = cohort_type_size(item->type);

	if (!item->is_view || !before || !before->is_view ||
	    before->gradient + reducer_align(before->bytes) != item->gradient)
		return false;
	last->count = (size_t)(item->gradient - begin) / size + item->count;
	return true;
}

/* Write the tensors of a bucket, one for each run of adjacent gradients. */
static uint32_t add_tensors(const struct cohort_reducer *r, size_t bucket,
                            struct cohort_tensor *tensors)
{
	const struct reducer_item *item, *before = NULL;
	uint32_t k, n = 0;

	for (k = r->plan.begin[bucket]; k < r->plan.begin[bucket + 1]; k++) {
		item = &r->items[r->plan.order[k]];
		if (!item->count)
			continue;
		if (!n || !extend(item, &tensors[n - 1], before))
			tensors[n++] = (struct cohort_tensor){ item->gradient,
				                               item->gradient,
				                               item->count,
				                               item->type };
		before = item;
	}
	return n;
}

/* Maximum length in bytes of a parameter's name in a bucket's label. */
#define NAME_MOST 20

static void label(const struct cohort_reducer *r, size_t bucket,
                  struct reducer_bucket *b)
{
	uint32_t first = r->plan.begin[bucket];
	uint32_t more = r->plan.begin[bucket + 1] - first - 1;
	const char *name = r->items[r->plan.order[first]].name;
	struct text t = { b->tag, sizeof(b->tag) };

	text_add(&t, "bucket %zu/%zu: ", bucket + 1, r->plan.buckets);
	text_add_short(&t, name, strlen(name), NAME_MOST);
	if (more)
		text_add(&t, " and %u more", more);
}

static size_t bytes_of(const struct cohort_reducer *r, size_t bucket)
{
	size_t bytes = 0;
	uint32_t k;

	for (k = r->plan.begin[bucket]; k < r->plan.begin[bucket + 1]; k++)
		bytes += r->plan_items[r->plan.order[k]].bytes;
	return bytes;
}

void reducer_order(struct cohort_reducer *r, const uint32_t *use)
{
	const struct bucket_limits limits = {
		.first = r->options.first_bytes,
		.most = r->options.bucket_bytes,
		.evens = !r->options.full_buckets,
	};

	bucket_plan(r->plan_items, r->n, use, &limits, &r->plan);
}

void reducer_plan(struct cohort_reducer *r, const uint32_t *use)
{
	size_t b;
	uint32_t first = 0;

	reducer_order(r, use);
	for (b = 0; b < r->plan.buckets; b++) {
		const struct reducer_item *item =
			&r->items[r->plan.order[r->plan.begin[b]]];
		struct reducer_bucket *bucket = &r->buckets[b];

		bucket->first = first;
		bucket->bytes = bytes_of(r, b);
		bucket->type = item->type;
		if (r->options.sharded)
			reducer_add_shards(r, b, &r->tensors[first]);
		else
			bucket->n = add_tensors(r, b, &r->tensors[first]);
		first += bucket->n + bucket->ends;
		label(r, b, bucket);
	}
}

int reducer_send_order(struct cohort_reducer *r)
{
	const struct cohort_tensor t = { r->device.order, r->device.order, r->n,
		                         COHORT_U32 };
	struct op op = { .kind = OP_BROADCAST, .tensors = &t, .n = 1 };
	int rc = COHORT_OK;

	if (r->is_final || r->reordered)
		return COHORT_OK;
	if (r->comm->rank == 0) {
		memcpy(r->host.order, r->observed, r->n * sizeof(uint32_t));
		rc = reducer_copy_to_device(r, r->device.order, r->host.order,
		                            r->n * sizeof(uint32_t));
	}
	return rc == COHORT_OK ? reducer_submit(r, &op, "order of gradients",
	                                        &r->reordered)
	                       : rc;
}

int reducer_replan(struct cohort_reducer *r, uint64_t deadline)
{
	int rc;

	if (!r->reordered)
		return COHORT_OK;
	rc = comm_await(r->comm, r->reordered, deadline);
	if (rc == COHORT_OK)
		rc = reducer_copy_to_host(r, r->host.order, r->device.order,
		                          r->n * sizeof(uint32_t));
	if (rc != COHORT_OK)
		return rc;
	r->reordered = 0;
	r->is_final = true;
	/* The watchdog must not read the plan while it changes. */
	wait_reason_set(&r->comm->thread.wait_reason, NULL);
	reducer_plan(r, r->host.order);
	return COHORT_OK;
}
