/* SPDX-License-Identifier: Apache-2.0 */

/* Begin a step, or join the steps of others as a rank without a batch */

#include <math.h>

#include "base/status.h"
#include "core/batch.h"
#include "core/comm_lock.h"
#include "core/owner.h"
#include "core/stream.h"
#include "reducer/reducer.h"

static int check_alone(const struct cohort_reducer *r)
{
	if (atomic_load(&r->comm->thread.wait_reason.now))
		return error_set(COHORT_STATE,
		                 "another reducer of this communicator has an "
		                 "open step: finish or cancel it first");
	if (batch_is_open(r->comm))
		return error_set(COHORT_STATE,
		                 "a batch is open on rank %d: end it first",
		                 r->comm->rank);
	return COHORT_OK;
}

/* Return COHORT_OK if this thread may submit calls now. */
static int check_gate(struct cohort_reducer *r)
{
	int rc = comm_enter(r->comm, false);

	if (rc == COHORT_OK)
		comm_leave(r->comm);
	return rc;
}

int reducer_check_begin(struct cohort_reducer *r, bool is_local)
{
	int rc = reducer_check(r);

	if (rc == COHORT_OK && atomic_load(&r->step))
		rc = error_set(COHORT_STATE,
		               "a step is open: finish or cancel it first");
	if (rc == COHORT_OK && r->failed != COHORT_OK)
		rc = error_set(COHORT_STATE, "an earlier step has failed: %s",
		               r->why);
	if (rc == COHORT_OK)
		rc = check_gate(r);
	if (rc == COHORT_OK && !is_local)
		rc = check_alone(r);
	return rc;
}

static int send_weight(struct cohort_reducer *r)
{
	double *at = r->device.weight;
	const struct cohort_tensor t = { at, at, 2, COHORT_F64 };
	struct op op = { .kind = OP_ALL_REDUCE,
		         .redop = COHORT_SUM,
		         .tensors = &t,
		         .n = 1 };
	int rc;

	r->host.weight[0] = r->weight;
	r->host.weight[1] = r->is_joined ? 0.0 : 1.0;
	rc = reducer_copy_to_device(r, at, r->host.weight, 2 * sizeof(double));
	return rc == COHORT_OK ? reducer_submit(r, &op, "weights of the ranks",
	                                        &r->weights)
	                       : rc;
}

static void prepare(struct cohort_reducer *r)
{
	size_t b;

	atomic_store_explicit(&r->ready, 0, memory_order_relaxed);
	atomic_store_explicit(&r->next, 0, memory_order_relaxed);
	for (b = 0; b < r->plan.buckets; b++)
		atomic_store_explicit(&r->buckets[b].pending,
		                      r->plan.begin[b + 1] - r->plan.begin[b],
		                      memory_order_relaxed);
	r->carried_on = r->carries_on;
	r->carries_on = false;
	r->phase = REDUCER_FILL;
	r->scattered = 0;
	r->unflushed = 0;
	r->is_skipped = r->is_over = r->is_cancelled = r->is_unready = false;
	atomic_store_explicit(&r->first, 0, memory_order_relaxed);
	atomic_store_explicit(&r->newest, 0, memory_order_relaxed);
	r->used = r->weights = 0;
	r->factor = 1.0;
	r->owner = owner_self();
}

static int begin(struct cohort_reducer *r)
{
	int rc;

	if (r->gathered)
		return error_set(COHORT_STATE,
		                 "a gather is not done: call "
		                 "cohort_reducer_gather() again first");
	rc = r->is_local ? COHORT_OK : reducer_replan(r, COHORT_FOREVER);
	if (rc != COHORT_OK)
		return rc;
	prepare(r);
	if (r->options.weighted && !r->is_local)
		rc = send_weight(r);
	if (rc != COHORT_OK)
		return rc;
	atomic_store(&r->step, ++r->steps);
	if (!r->is_local)
		wait_reason_set(&r->comm->thread.wait_reason, &r->wait_reason);
	return COHORT_OK;
}

/* Refuse cudaStreamPerThread if helpers launch: the handle stands for a
 * different stream in each thread. */
static int check_per_thread(const struct cohort_reducer *r, const void *stream)
{
	if (stream != (const void *)cudaStreamPerThread ||
	    !r->options.helpers_launch)
		return COHORT_OK;
	return error_set(
		COHORT_INVALID,
		"stream is cudaStreamPerThread, which is a different stream in "
		"each thread, but options.helpers_launch lets several threads "
		"launch: pass a stream from cudaStreamCreate()");
}

static int begin_step(struct cohort_reducer *r, double weight, void *stream)
{
	int rc = reducer_check_begin(r, false);

	if (rc == COHORT_OK)
		rc = check_per_thread(r, stream);
	if (rc == COHORT_OK)
		rc = stream_check_outside(r->comm, stream);
	if (rc != COHORT_OK)
		return rc;
	r->is_local = r->is_joined = false;
	r->weight = weight;
	r->is_absent = weight == 0.0;
	r->stream = stream;
	r->awaits_stream = stream != (void *)r->comm->stream;
	return begin(r);
}

int cohort_reducer_begin(struct cohort_reducer *r, void *stream)
{
	if (r && r->options.weighted)
		return error_set(COHORT_INVALID,
		                 "the reducer is weighted: call "
		                 "cohort_reducer_begin_weighted()");
	return begin_step(r, 1.0, stream);
}

int cohort_reducer_begin_weighted(struct cohort_reducer *r, double weight,
                                  void *stream)
{
	if (r && !r->options.weighted)
		return error_set(
			COHORT_INVALID,
			"weight is %g, but the reducer is not weighted",
			weight);
	if (!(weight >= 0.0) || !isfinite(weight))
		return error_set(COHORT_INVALID,
		                 "weight is %g, but must be finite and not "
		                 "negative",
		                 weight);
	return begin_step(r, weight, stream);
}

int cohort_reducer_accumulate(struct cohort_reducer *r)
{
	int rc = reducer_check_begin(r, true);

	if (rc != COHORT_OK)
		return rc;
	r->is_local = true;
	r->is_joined = r->is_absent = false;
	return begin(r);
}

static int begin_joined(struct cohort_reducer *r)
{
	uint32_t k;
	int rc = reducer_check_begin(r, false);

	if (rc != COHORT_OK)
		return rc;
	r->is_local = false;
	r->is_joined = r->is_absent = true;
	r->weight = 0.0;
	r->awaits_stream = false;
	rc = begin(r);
	for (k = 0; k < r->n && rc == COHORT_OK; k++)
		reducer_mark(r, r->plan.order[k], r->steps);
	return rc;
}

int cohort_reducer_join(struct cohort_reducer *r, uint64_t timeout_ns)
{
	int rc = reducer_check(r);

	if (rc != COHORT_OK)
		return rc;
	if (!r->options.weighted)
		return error_set(COHORT_INVALID,
		                 "join: the reducer is not weighted");
	if (!r->is_joined || !atomic_load(&r->step))
		rc = begin_joined(r);
	return rc == COHORT_OK ? cohort_reducer_finish(r, timeout_ns) : rc;
}
