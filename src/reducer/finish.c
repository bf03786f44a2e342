/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finish a step
 *
 * The finish has several phases (enum reducer_phase).  If one of them returns
 * COHORT_TIMED_OUT, the next call continues with that phase.  After the
 * buckets, every rank launches an all-reduce of flags for the parameters that
 * were used, and then the broadcast of rank 0's order.
 */

#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "core/owner.h"
#include "core/stream.h"
#include "reducer/reducer.h"

#define NAMED 3

static void add_name(struct text *t, const char *before, const char *name)
{
	char start[41];

	text_set(start, sizeof(start), "%s", name);
	text_add(t, "%s'%s'", before, start);
}

static int refuse_unready(struct cohort_reducer *r, uint64_t step)
{
	char names[200] = "";
	struct text t = { names, sizeof(names) };
	size_t i, n = 0;

	for (i = 0; i < r->n; i++)
		if (atomic_load_explicit(&r->marked[i], memory_order_relaxed) !=
		            step &&
		    ++n <= NAMED)
			add_name(&t, n > 1 ? ", " : "", r->items[i].name);
	if (n > NAMED)
		text_add(&t, " and %zu more", n - NAMED);
	r->is_unready = true;
	return error_set(COHORT_STATE, "%zu of %zu gradients are not ready: %s",
	                 n, r->n, names);
}

/* Zero the unused gradients, and mark them as ready after all used ones, so
 * that a new plan puts them last. */
static int fill(struct cohort_reducer *r, uint64_t step)
{
	uint32_t i;
	int rc = COHORT_OK;

	for (i = (uint32_t)r->n; i-- > 0 && rc == COHORT_OK;) {
		r->host.used[i] =
			!r->is_joined &&
			atomic_load_explicit(&r->marked[i],
		                             memory_order_relaxed) == step;
		if (r->host.used[i])
			continue;
		if (!r->is_absent)
			rc = reducer_zero(r, &r->items[i]);
		if (rc == COHORT_OK)
			reducer_mark(r, i, step);
	}
	return rc;
}

/* Return COHORT_OK if all gradients are marked as ready.  First mark the unused
 * gradients if the options allow any. */
static int check_marks(struct cohort_reducer *r)
{
	uint64_t step = atomic_load_explicit(&r->step, memory_order_relaxed);
	int rc = COHORT_OK;

	if (r->phase != REDUCER_FILL)
		return COHORT_OK;
	if ((r->options.find_unused || r->is_cancelled) && !r->is_local)
		return fill(r, step);
	if (atomic_load_explicit(&r->ready, memory_order_relaxed) == r->n)
		return COHORT_OK;
	/* The end of the group takes precedence over any other error. */
	if (!r->is_local)
		rc = clique_error(r->comm->clique);
	return rc == COHORT_OK ? refuse_unready(r, step) : rc;
}

static int launch_all(struct cohort_reducer *r, uint64_t deadline)
{
	struct backoff b = BACKOFF;
	int rc;

	for (;;) {
		if (r->is_cancelled)
			reducer_publish(r);
		rc = reducer_launch_complete(r);
		if (rc != COHORT_OK || reducer_is_launched(r))
			return rc;
		/* Wait for the other ranks' weights, or for a helper that is
		 * launching. */
		if (clock_now() >= deadline)
			return COHORT_TIMED_OUT;
		backoff_wait(&b, deadline);
	}
}

static int send_used(struct cohort_reducer *r)
{
	uint8_t *at = r->device.used;
	const struct cohort_tensor t = { at, at, r->n, COHORT_U8 };
	struct op op = { .kind = OP_ALL_REDUCE,
		         .redop = COHORT_MAX,
		         .tensors = &t,
		         .n = 1 };
	int rc;

	if (!r->options.find_unused || r->used)
		return COHORT_OK;
	rc = reducer_copy_to_device(r, at, r->host.used, r->n);
	return rc == COHORT_OK
	               ? reducer_submit(r, &op, "parameters in use", &r->used)
	               : rc;
}

static int send_plan_inputs(struct cohort_reducer *r)
{
	int rc = send_used(r);

	return rc == COHORT_OK ? reducer_send_order(r) : rc;
}

static int await(struct cohort_reducer *r, uint64_t deadline)
{
	int rc = reducer_await_last(r, deadline);

	if (rc == COHORT_OK && r->used)
		rc = reducer_copy_to_host(r, r->host.used, r->device.used,
		                          r->n);
	if (rc != COHORT_OK || !reducer_was_cancelled(r))
		return rc;
	/* A canceled step does not yield a complete order; the next step sends
	 * it again. */
	r->reordered = 0;
	return COHORT_SKIP;
}

/* Run one phase.  Return COHORT_OK if the next phase can follow. */
static int finish_phase(struct cohort_reducer *r, uint64_t deadline)
{
	switch (r->phase) {
	case REDUCER_FILL:
		return check_marks(r);
	case REDUCER_LAUNCH:
		return launch_all(r, deadline);
	case REDUCER_SEND:
		return r->is_skipped ? COHORT_OK : send_plan_inputs(r);
	case REDUCER_AWAIT:
		return r->is_skipped ? COHORT_SKIP : await(r, deadline);
	default:
		/* Helpers may still be reading the plan. */
		reducer_await_helpers(r);
		return reducer_replan(r, deadline);
	}
}

/* Close a step that has failed, once no operation can touch a gradient. */
static int end_broken(struct cohort_reducer *r, int why, uint64_t deadline)
{
	int rc = reducer_await_last(r, deadline);

	if (rc == COHORT_TIMED_OUT)
		return rc;
	r->failed = rc == COHORT_OK ? why : rc;
	reducer_close(r);
	return rc == COHORT_OK ? error_set(why, "%s", r->why) : rc;
}

/* Return true if another thread holds the communicator's lock and will release
 * it. */
static bool is_lock_busy(const struct cohort_reducer *r, int rc)
{
	return rc == COHORT_BUSY &&
	       atomic_load(&r->comm->lock.native_user) != owner_self();
}

int reducer_finish_step(struct cohort_reducer *r, uint64_t deadline)
{
	struct backoff b = BACKOFF;
	int rc = atomic_load_explicit(&r->broken, memory_order_acquire);

	while (rc == COHORT_OK && r->phase != REDUCER_DONE) {
		rc = finish_phase(r, deadline);
		if (rc == COHORT_OK) {
			r->phase++;
		} else if (is_lock_busy(r, rc) && clock_now() < deadline) {
			backoff_wait(&b, deadline);
			rc = COHORT_OK;
		}
	}
	if (rc == COHORT_TIMED_OUT || is_lock_busy(r, rc))
		return COHORT_TIMED_OUT;
	if (rc == COHORT_BUSY ||
	    (rc == COHORT_STATE && r->phase == REDUCER_FILL))
		return rc;
	if (rc < 0) {
		if (!atomic_load(&r->broken))
			reducer_break(r, rc);
		/* A thread inside cohort_reducer_ready() may be launching; no
		 * other thread will start to launch. */
		reducer_await_helpers(r);
		return end_broken(r, rc, deadline);
	}
	reducer_close(r);
	return rc == COHORT_SKIP && r->is_over && r->is_joined ? COHORT_JOINED
	                                                       : rc;
}

int cohort_reducer_finish(struct cohort_reducer *r, uint64_t timeout_ns)
{
	int rc = reducer_check(r);

	if (rc == COHORT_OK)
		rc = reducer_check_open(r);
	if (rc == COHORT_OK && !r->is_local)
		return reducer_finish_step(r, clock_deadline(timeout_ns));
	if (rc == COHORT_OK)
		rc = check_marks(r);
	if (rc != COHORT_OK)
		return rc;
	reducer_close(r);
	return COHORT_OK;
}

static int check_finish_on(const struct cohort_reducer *r)
{
	const struct cohort_reducer_options *o = &r->options;
	const char *what = o->weighted      ? "weighted"
	                   : o->find_unused ? "find_unused"
	                                    : NULL;

	return what ? error_set(COHORT_UNSUPPORTED,
	                        "finish_on does not support options.%s: call "
	                        "cohort_reducer_finish()",
	                        what)
	            : COHORT_OK;
}

static int finish_on(struct cohort_reducer *r, void *stream)
{
	uint64_t last;
	int rc = launch_all(r, COHORT_FOREVER);

	if (rc == COHORT_OK)
		rc = send_plan_inputs(r);
	if (rc == COHORT_OK)
		reducer_flush(r);
	if (rc == COHORT_OK)
		rc = reducer_stream(r);
	last = atomic_load_explicit(&r->last, memory_order_acquire);
	if (rc == COHORT_OK && last)
		rc = cohort_stream_after(r->comm, last, stream);
	if (rc == COHORT_OK)
		reducer_close(r);
	else if (rc != COHORT_BUSY && !atomic_load(&r->broken))
		reducer_break(r, rc);
	return rc;
}

int cohort_reducer_finish_on(struct cohort_reducer *r, void *stream)
{
	int rc = reducer_check(r);

	if (rc == COHORT_OK)
		rc = reducer_check_open(r);
	if (rc == COHORT_OK)
		rc = check_finish_on(r);
	if (rc == COHORT_OK && r->is_cancelled)
		rc = error_set(COHORT_STATE,
		               "finish_on: this rank has canceled the step");
	if (rc == COHORT_OK)
		rc = stream_check_outside(r->comm, stream);
	if (rc == COHORT_OK)
		rc = check_marks(r);
	if (rc != COHORT_OK)
		return rc;
	if (!r->is_local)
		return finish_on(r, stream);
	reducer_close(r);
	return COHORT_OK;
}
