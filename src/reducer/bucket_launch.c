/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Launch the buckets whose gradients are ready
 *
 * Any thread may mark a gradient as ready, which decrements its bucket's count
 * of pending gradients.  One thread at a time launches buckets, in the order of
 * the plan.  If another thread wants to launch, it only leaves a request, and
 * the first thread then checks again.
 */

#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/half.h"
#include "base/status.h"
#include "core/comm_lock.h"
#include "core/owner.h"
#include "reducer/reducer.h"

/* Store r->factor as an element of the type with index @k (see
 * reducer_float()). */
static void set_scalar(struct cohort_reducer *r, unsigned k)
{
	double *at = &r->host.scalars[k];
	float odd = f32_to_odd(r->factor);

	switch (k) {
	case 0:
		*(uint16_t *)(void *)at = f16_from_f32(odd);
		break;
	case 1:
		*(uint16_t *)(void *)at = bf16_from_f32(odd);
		break;
	case 2:
		*(float *)(void *)at = (float)r->factor;
		break;
	default:
		*at = r->factor;
	}
}

static int set_factor(struct cohort_reducer *r)
{
	double sum = r->host.weight[0];
	unsigned k;

	r->is_over = r->host.weight[1] == 0.0;
	r->is_skipped = !(sum > 0.0 && isfinite(sum));
	if (r->is_skipped)
		return COHORT_OK;
	r->factor = r->options.op == COHORT_AVG ? r->weight / sum : r->weight;
	for (k = 0; k < REDUCER_FLOATS; k++)
		set_scalar(r, k);
	return reducer_copy_to_device(r, r->device.scalars, r->host.scalars,
	                              REDUCER_FLOATS * sizeof(double));
}

static int settle_weights(struct cohort_reducer *r, uint64_t deadline)
{
	int rc;

	if (!r->weights)
		return COHORT_OK;
	rc = comm_await(r->comm, r->weights, deadline);
	if (rc == COHORT_OK)
		rc = reducer_copy_to_host(r, r->host.weight, r->device.weight,
		                          2 * sizeof(double));
	if (rc == COHORT_OK)
		rc = set_factor(r);
	if (rc == COHORT_OK)
		r->weights = 0;
	return rc;
}

/* Make the launch wait for the stream that computes the gradients; if the rank
 * is absent, zero its gradients.  May be repeated. */
static int prepare(struct cohort_reducer *r, uint32_t bucket)
{
	uint32_t k;
	int rc = COHORT_OK;

	if (r->awaits_stream)
		rc = cohort_after_stream(r->comm, r->stream);
	for (k = r->plan.begin[bucket];
	     r->is_absent && k < r->plan.begin[bucket + 1] && rc == COHORT_OK;
	     k++)
		rc = reducer_zero(r, &r->items[r->plan.order[k]]);
	return rc;
}

static int launch_tensors(struct cohort_reducer *r,
                          const struct reducer_bucket *b, enum op_kind kind,
                          uint32_t first, uint32_t n)
{
	struct op op = {
		.kind = kind,
		.redop = r->options.op,
		.tensors = &r->tensors[first],
		.n = n,
	};

	if (!n)
		return COHORT_OK;
	if (r->options.weighted)
		op.redop = r->premul[reducer_float(b->type)];
	return reducer_submit(r, &op, b->tag, NULL);
}

/* Launch a bucket.  With shards this takes two calls.  If the second call
 * cannot be made now, a later attempt does not repeat the first. */
static int launch(struct cohort_reducer *r, uint32_t bucket)
{
	const struct reducer_bucket *b = &r->buckets[bucket];
	enum op_kind kind =
		r->options.sharded ? OP_REDUCE_SCATTER : OP_ALL_REDUCE;
	int rc = COHORT_OK;

	if (r->scattered == bucket) {
		rc = prepare(r, bucket);
		if (rc == COHORT_OK)
			rc = launch_tensors(r, b, kind, b->first, b->n);
		if (rc != COHORT_OK)
			return rc;
		r->scattered = bucket + 1;
	}
	return launch_tensors(r, b, OP_ALL_REDUCE, b->first + b->n, b->ends);
}

/* Launch the next bucket.  Return COHORT_TIMED_OUT if it is incomplete or
 * cannot be launched now. */
static int launch_next(struct cohort_reducer *r)
{
	uint32_t next = atomic_load_explicit(&r->next, memory_order_relaxed);
	int rc;

	if (next == r->plan.buckets ||
	    atomic_load_explicit(&r->buckets[next].pending,
	                         memory_order_acquire))
		return COHORT_TIMED_OUT;
	rc = settle_weights(r, 0);
	if (rc == COHORT_OK && !r->is_skipped)
		rc = launch(r, next);
	/* Another thread of the program holds the communicator's lock. */
	if (rc == COHORT_BUSY &&
	    atomic_load(&r->comm->lock.native_user) != owner_self())
		return COHORT_TIMED_OUT;
	if (rc == COHORT_OK) {
		r->unflushed += r->buckets[next].bytes;
		atomic_store_explicit(&r->next, next + 1, memory_order_release);
	}
	return rc;
}

static bool are_all_ready(const struct cohort_reducer *r)
{
	return atomic_load_explicit(&r->ready, memory_order_relaxed) == r->n;
}

/* Minimum number of launched bytes for which a thread is woken. */
#define FLUSH_BYTES ((size_t)128 * 1024)

void reducer_flush(struct cohort_reducer *r)
{
	if (r->unflushed < FLUSH_BYTES)
		return;
	r->unflushed = 0;
	comm_flush(r->comm);
}

/* Return true if probably no thread will run the launched work soon, because
 * the owner waits for gradients without running work (on the host platform, the
 * waiting threads run streams). */
static bool is_left_alone(const struct cohort_reducer *r)
{
	return !r->carried_on &&
	       !atomic_load_explicit(&r->carries_on, memory_order_relaxed) &&
	       !are_all_ready(r);
}

static int launch_all_full(struct cohort_reducer *r)
{
	int rc = atomic_load_explicit(&r->broken, memory_order_acquire);

	if (rc != COHORT_OK)
		return error_set(rc, "%s", r->why);
	while (rc == COHORT_OK)
		rc = launch_next(r);
	if (is_left_alone(r))
		reducer_flush(r);
	return rc < 0 && rc != COHORT_BUSY ? reducer_break(r, rc) : rc;
}

int reducer_launch_complete(struct cohort_reducer *r)
{
	const struct cohort_comm *before;
	unsigned seen = 1;
	int rc;

	/* This increment is seq_cst, so that it orders the counts: a thread
	 * that leaves a request here has decremented its bucket's count
	 * first. */
	if (atomic_fetch_add(&r->pumps, 1))
		return COHORT_OK;
	before = comm_set_helped(r->options.helpers_launch ? r->comm : NULL);
	do {
		rc = launch_all_full(r);
	} while (!atomic_compare_exchange_strong(&r->pumps, &seen, 0));
	comm_set_helped(before);
	return rc == COHORT_TIMED_OUT ? COHORT_OK : rc;
}

bool reducer_is_launched(const struct cohort_reducer *r)
{
	return atomic_load_explicit(&r->next, memory_order_acquire) ==
	       r->plan.buckets;
}

static int ready(struct cohort_reducer *r, uint32_t i)
{
	uint64_t step = atomic_load(&r->step);
	int rc;

	if (!step)
		return error_set(COHORT_STATE,
		                 "parameter '%s' was marked ready, but no step "
		                 "is open: call cohort_reducer_begin() first",
		                 r->items[i].name);
	rc = reducer_mark(r, i, step);
	if (rc != COHORT_OK || r->is_local ||
	    (!r->options.helpers_launch && r->owner != owner_self()))
		return rc;
	return reducer_launch_complete(r);
}

int cohort_reducer_ready(struct cohort_reducer *r, size_t i)
{
	int rc = reducer_check(r);

	if (rc != COHORT_OK)
		return rc;
	if (i >= r->n)
		return error_set(COHORT_INVALID, "i is %zu, not 0 to %zu", i,
		                 r->n - 1);
	atomic_fetch_add(&r->inside, 1);
	rc = ready(r, (uint32_t)i);
	atomic_fetch_sub(&r->inside, 1);
	return rc;
}

/* Run launched work.  A GPU needs no help, but on the host platform a waiting
 * thread has to run it.  cohort_reducer_finish() reports errors. */
static void run_launched(struct cohort_reducer *r, uint64_t until,
                         struct backoff *b)
{
	uint64_t last = atomic_load_explicit(&r->last, memory_order_acquire);

	if (last)
		comm_run_queued(r->comm, last, until);
	if (clock_now() < until)
		backoff_wait(b, until);
}

int cohort_reducer_progress(struct cohort_reducer *r, uint64_t timeout_ns)
{
	uint64_t deadline = clock_deadline(timeout_ns);
	struct backoff b = BACKOFF;
	int rc = reducer_check(r);

	if (rc == COHORT_OK)
		rc = reducer_check_open(r);
	if (rc == COHORT_OK && timeout_ns)
		atomic_store_explicit(&r->carries_on, true,
		                      memory_order_relaxed);
	while (rc == COHORT_OK) {
		if (!r->is_local)
			rc = reducer_launch_complete(r);
		if (rc != COHORT_OK || are_all_ready(r))
			return rc;
		/* If the group has ended, stop waiting for helpers. */
		if (!r->is_local)
			rc = clique_error(r->comm->clique);
		if (rc != COHORT_OK)
			return rc;
		run_launched(r, deadline, &b);
		if (clock_now() >= deadline)
			return COHORT_TIMED_OUT;
	}
	return rc;
}
