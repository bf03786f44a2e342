/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The end of a step
 *
 * The end goes through phases.  Each may return COHORT_TIMED_OUT, and the next
 * call then continues with that phase.  Behind the buckets every rank launches,
 * in this order: which parameters were used, and rank 0's order.
 */

#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "core/owner.h"
#include "core/stream.h"
#include "reducer/reducer.h"

/* ---- marks ------------------------------------------------------------ */

#define NAMED 3

static void add_name(struct text *t, const char *before, const char *name)
{
	char start[41];

	text_set(start, sizeof(start), "%s", name);
	text_add(t, "%s'%s'", before, start);
}

/* Returns an error that names the gradients that are not ready. */
static int complain(const struct cohort_reducer *r, uint64_t step)
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
	return error_set(COHORT_STATE, "%zu of %zu gradients are not ready: %s",
	                 n, r->n, names);
}

/* Mark the unused gradients, in reverse order of the list, which puts them last
 * in a plan. */
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

/* COHORT_OK if all gradients are marked, or have been marked here. */
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
	/* The end of the group comes before any other error. */
	if (!r->is_local)
		rc = clique_error(r->comm->clique);
	return rc == COHORT_OK ? complain(r, step) : rc;
}

/* ---- finish ----------------------------------------------------------- */

static int launch_all(struct cohort_reducer *r, uint64_t deadline)
{
	struct backoff b = BACKOFF;
	int rc;

	for (;;) {
		if (r->is_cancelled)
			reducer_publish(r);
		rc = reducer_pump(r);
		if (rc != COHORT_OK || reducer_is_launched(r))
			return rc;
		/* Wait for the others' weights, or for a helper that
		 * launches. */
		if (clock_now() >= deadline)
			return COHORT_TIMED_OUT;
		backoff_wait(&b, deadline);
	}
}

/* Launch the exchange of which parameters were used. */
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
	rc = reducer_push(r, at, r->host.used, r->n);
	return rc == COHORT_OK
	               ? reducer_submit(r, &op, "parameters in use", &r->used)
	               : rc;
}

static int tell(struct cohort_reducer *r)
{
	int rc = send_used(r);

	return rc == COHORT_OK ? reducer_send_order(r) : rc;
}

static int await(struct cohort_reducer *r, uint64_t deadline)
{
	int rc = reducer_await_last(r, deadline);

	if (rc == COHORT_OK && r->used)
		rc = reducer_pull(r, r->host.used, r->device.used, r->n);
	if (rc != COHORT_OK || !reducer_was_cancelled(r))
		return rc;
	/* Rank 0's order is not that of a whole step; the next step sends it
	 * again. */
	r->reordered = 0;
	return COHORT_SKIP;
}

/* Run one phase; COHORT_OK leads to the next. */
static int finish_phase(struct cohort_reducer *r, uint64_t deadline)
{
	switch (r->phase) {
	case REDUCER_FILL:
		return check_marks(r);
	case REDUCER_LAUNCH:
		return launch_all(r, deadline);
	case REDUCER_TELL:
		return r->is_skipped ? COHORT_OK : tell(r);
	case REDUCER_AWAIT:
		return r->is_skipped ? COHORT_SKIP : await(r, deadline);
	default:
		/* Helpers may still read the plan. */
		reducer_await_helpers(r);
		return reducer_replan(r, deadline);
	}
}

/* End a step that has failed, once no operation can touch a gradient any
 * more. */
static int end_broken(struct cohort_reducer *r, int why, uint64_t deadline)
{
	int rc = reducer_await_last(r, deadline);

	if (rc == COHORT_TIMED_OUT)
		return rc;
	r->failed = rc == COHORT_OK ? why : rc;
	reducer_close(r);
	return rc == COHORT_OK ? error_set(why, "%s", r->why) : rc;
}

/* True if another thread is inside the communicator, which it will leave. */
static bool is_not_now(const struct cohort_reducer *r, int rc)
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
		} else if (is_not_now(r, rc) && clock_now() < deadline) {
			backoff_wait(&b, deadline);
			rc = COHORT_OK;
		}
	}
	if (rc == COHORT_TIMED_OUT || is_not_now(r, rc))
		return COHORT_TIMED_OUT;
	if (rc == COHORT_BUSY ||
	    (rc == COHORT_STATE && r->phase == REDUCER_FILL))
		return rc;
	if (rc < 0) {
		if (!atomic_load(&r->broken))
			reducer_break(r, rc);
		/* A thread inside ready may be launching; no other will. */
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

/* ---- finish on a stream ----------------------------------------------- */

static int check_finish_on(const struct cohort_reducer *r)
{
	const struct cohort_reducer_options *o = &r->options;
	const char *what = o->weighted      ? "weighted"
	                   : o->find_unused ? "find_unused"
	                                    : NULL;

	return what ? error_set(COHORT_UNSUPPORTED,
	                        "finish_on: with %s the thread has to wait",
	                        what)
	            : COHORT_OK;
}

static int finish_on(struct cohort_reducer *r, void *stream)
{
	uint64_t last;
	int rc = launch_all(r, COHORT_FOREVER);

	if (rc == COHORT_OK)
		rc = tell(r);
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
		               "finish_on: this rank has cancelled the step");
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
