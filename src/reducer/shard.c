/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Shards: each rank is left with a part of every gradient, and what it makes of that
 * is gathered again
 *
 * Native reduce-scatters and all-gathers have the same count on every rank.  What does
 * not divide by the ranks, less than one element of each, is the last rank's, by an
 * all-reduce, or a broadcast, behind that.
 */

#include "base/clock.h"
#include "base/status.h"
#include "core/stream.h"
#include "reducer/reducer.h"

/* ---- parts ------------------------------------------------------------ */

static size_t size_of(const struct cohort_reducer *r)
{
	return (size_t)r->comm->clique->world;
}

struct reducer_part reducer_rest(const struct cohort_reducer *r, size_t count)
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

/* What is launched of a gradient, or of a parameter. */
enum portion { SCATTERED, GATHERED, LEFT_OVER };

/* All of it is sent where it is scattered, and received where it is gathered; the
 * rest is in place. */
static struct cohort_tensor tensor(const struct reducer_item *item,
                                   unsigned char *memory,
                                   struct reducer_part part,
                                   enum portion portion)
{
	unsigned char *at = memory + part.first * cohort_type_size(item->type);

	return (struct cohort_tensor){ portion == SCATTERED ? memory : at,
		                       portion == GATHERED ? memory : at,
		                       part.count, item->type };
}

/* The tensors of a bucket: of its gradients, or if there is @from of what that has. */
static uint32_t add(const struct cohort_reducer *r, size_t bucket,
                    enum portion portion, void *const *from,
                    struct cohort_tensor *tensors)
{
	const struct reducer_item *item;
	struct reducer_part part;
	unsigned char *memory;
	uint32_t k, n = 0;

	for (k = r->plan.begin[bucket]; k < r->plan.begin[bucket + 1]; k++) {
		item = &r->items[r->plan.order[k]];
		memory = from ? from[r->plan.order[k]] : item->gradient;
		part = portion == LEFT_OVER ? reducer_rest(r, item->count)
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

	b->n = add(r, bucket, SCATTERED, NULL, tensors);
	b->ends = add(r, bucket, LEFT_OVER, NULL, tensors + b->n);
}

/* ---- gather ----------------------------------------------------------- */

static int check(struct cohort_reducer *r, void *const *parameters)
{
	size_t i;
	int rc = reducer_check(r);

	if (rc != COHORT_OK)
		return rc;
	if (!r->options.sharded)
		return error_set(COHORT_INVALID,
		                 "gather: the reducer is not sharded");
	if (!parameters)
		return error_set(COHORT_INVALID, "parameters is NULL");
	for (i = 0; i < r->n; i++)
		if (!parameters[i] && r->items[i].count)
			return error_set(COHORT_INVALID,
			                 "parameters[%zu] is NULL, of '%s'", i,
			                 r->items[i].name);
	return reducer_check_begin(r, false);
}

/* Call @k of all: of each bucket from the last to the first its shards, then what is
 * left over. */
static int gather_one(struct cohort_reducer *r, uint32_t k,
                      void *const *parameters)
{
	size_t bucket = r->plan.buckets - 1 - k / 2;
	struct cohort_tensor *tensors = r->tensors + 2 * r->n;
	struct op op = { .kind = OP_ALL_GATHER, .tensors = tensors };

	if (k % 2) {
		op.kind = OP_BROADCAST;
		op.root = r->comm->clique->world - 1;
		op.n = add(r, bucket, LEFT_OVER, parameters, tensors);
	} else {
		op.n = add(r, bucket, GATHERED, parameters, tensors);
	}
	return op.n ? reducer_submit(r, &op, r->buckets[bucket].tag, NULL)
	            : COHORT_OK;
}

static int gather_all(struct cohort_reducer *r, void *const *parameters,
                      uint64_t deadline)
{
	uint64_t last;
	int rc = COHORT_OK;

	while (r->gathered < 2 * r->plan.buckets && rc == COHORT_OK) {
		rc = gather_one(r, r->gathered, parameters);
		if (rc == COHORT_OK)
			r->gathered++;
	}
	last = atomic_load_explicit(&r->last, memory_order_acquire);
	if (rc == COHORT_OK && last)
		rc = comm_await(r->comm, last, deadline);
	if (rc != COHORT_TIMED_OUT && rc != COHORT_BUSY)
		r->gathered = 0;
	return rc;
}

int cohort_reducer_gather(struct cohort_reducer *r, void *const *parameters,
                          void *stream, uint64_t timeout_ns)
{
	uint64_t deadline = clock_deadline(timeout_ns);
	int rc = check(r, parameters);

	if (rc == COHORT_OK)
		rc = stream_check_outside(r->comm, stream);
	/* Others may have the new plan already. */
	if (rc == COHORT_OK)
		rc = reducer_replan(r, deadline);
	if (rc == COHORT_OK && !r->gathered && stream != r->comm->stream)
		rc = cohort_after_stream(r->comm, stream);
	return rc == COHORT_OK ? gather_all(r, parameters, deadline) : rc;
}
