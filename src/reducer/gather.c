/* SPDX-License-Identifier: Apache-2.0 */

/* cohort_reducer_gather(): give every rank the other ranks' shards of the
 * parameters */

#include "base/clock.h"
#include "base/status.h"
#include "core/stream.h"
#include "reducer/reducer.h"

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
			return error_set(
				COHORT_INVALID,
				"parameters[%zu] is NULL (parameter '%s')", i,
				r->items[i].name);
	return reducer_check_begin(r, false);
}

/* Make call @k of the gather.  There are two calls per bucket, from the last
 * bucket to the first: one for the shards and one for the remainder. */
static int gather_one(struct cohort_reducer *r, uint32_t k,
                      void *const *parameters)
{
	size_t bucket = r->plan.buckets - 1 - k / 2;
	struct cohort_tensor *tensors = r->tensors + 2 * r->n;
	struct op op = { .kind = OP_ALL_GATHER, .tensors = tensors };

	if (k % 2) {
		op.kind = OP_BROADCAST;
		op.root = r->comm->clique->world_size - 1;
		op.n = reducer_add_portion(r, bucket, REDUCER_LEFT_OVER,
		                           parameters, tensors);
	} else {
		op.n = reducer_add_portion(r, bucket, REDUCER_GATHERED,
		                           parameters, tensors);
	}
	return op.n ? reducer_submit(r, &op, r->buckets[bucket].tag, NULL)
	            : COHORT_OK;
}

static int gather_all(struct cohort_reducer *r, void *const *parameters,
                      uint64_t deadline)
{
	int rc = COHORT_OK;

	while (r->gathered < 2 * r->plan.buckets && rc == COHORT_OK) {
		rc = gather_one(r, r->gathered, parameters);
		if (rc == COHORT_OK)
			r->gathered++;
	}
	if (rc == COHORT_OK)
		rc = reducer_await_last(r, deadline);
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
	/* All ranks must gather by the same plan, and other ranks may already
	 * have changed to the new plan. */
	if (rc == COHORT_OK)
		rc = reducer_replan(r, deadline);
	if (rc == COHORT_OK && !r->gathered && stream != r->comm->stream)
		rc = cohort_after_stream(r->comm, stream);
	return rc == COHORT_OK ? gather_all(r, parameters, deadline) : rc;
}
