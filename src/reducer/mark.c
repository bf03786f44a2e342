/* SPDX-License-Identifier: Apache-2.0 */

/* Track the open step, and which of its gradients are ready */

#include <stddef.h>

#include "base/backoff.h"
#include "base/status.h"
#include "core/owner.h"
#include "reducer/reducer.h"

int reducer_check_open(const struct cohort_reducer *r)
{
	if (!atomic_load_explicit(&r->step, memory_order_acquire))
		return error_set(COHORT_STATE,
		                 "no step is open: begin one first");
	if (r->owner != owner_self())
		return error_set(COHORT_OWNER,
		                 "another thread has begun the step, and must "
		                 "finish it");
	return COHORT_OK;
}

int reducer_mark(struct cohort_reducer *r, uint32_t i, uint64_t step)
{
	uint32_t k;

	if (atomic_exchange_explicit(&r->marked[i], step,
	                             memory_order_relaxed) == step)
		return COHORT_ALREADY;
	k = atomic_fetch_add_explicit(&r->ready, 1, memory_order_relaxed);
	r->observed[k] = i;
	atomic_fetch_sub_explicit(&r->buckets[r->plan.bucket_of[i]].pending, 1,
	                          memory_order_acq_rel);
	return COHORT_OK;
}

void reducer_await_helpers(struct cohort_reducer *r)
{
	struct backoff b = BACKOFF;

	while (atomic_load(&r->inside))
		backoff_wait(&b, UINT64_MAX);
}

void reducer_close(struct cohort_reducer *r)
{
	if (!r->is_local)
		wait_reason_set(&r->comm->thread.wait_reason, NULL);
	atomic_store(&r->step, 0);
	reducer_await_helpers(r);
}

static uint32_t count_missing(const struct cohort_reducer *r, uint32_t bucket,
                              uint64_t step, const char **first)
{
	uint32_t k, i, n = 0;

	for (k = r->plan.begin[bucket]; k < r->plan.begin[bucket + 1]; k++) {
		i = r->plan.order[k];
		if (atomic_load_explicit(&r->marked[i], memory_order_relaxed) ==
		    step)
			continue;
		if (!n++)
			*first = r->items[i].name;
	}
	return n;
}

void reducer_add_wait_reason(const struct wait_reason *reason, struct text *t)
{
	const struct cohort_reducer *r =
		(const void *)((const char *)reason -
	                       offsetof(struct cohort_reducer, wait_reason));
	uint64_t step = atomic_load_explicit(&r->step, memory_order_acquire);
	uint32_t n, next = atomic_load_explicit(&r->next, memory_order_acquire);
	const char *first = "";
	char name[65];

	if (!step)
		return;
	if (atomic_load_explicit(&r->broken, memory_order_acquire)) {
		text_add(t,
		         "the program to handle a failed step of the reducer");
	} else if (next == r->plan.buckets) {
		text_add(t, "cohort_reducer_finish() to be called");
	} else {
		n = count_missing(r, next, step, &first);
		text_set(name, sizeof(name), "%s", first);
		if (n)
			text_add(t, "parameter '%s'", name);
		else
			text_add(t, "cohort_reducer_progress() or _finish() to "
			            "be called, which launches the buckets "
			            "that helpers have completed");
		if (n > 1)
			text_add(t, " (and %u more)", n - 1);
		if (n)
			text_add(t, " to be marked ready");
	}
}
