/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How the reducer submits an operation, and keeps the error if that fails
 */

#include <stdio.h>

#include "base/status.h"
#include "core/submit.h"
#include "reducer/reducer.h"

int reducer_check(const struct cohort_reducer *r)
{
	if (!r)
		return error_set(COHORT_INVALID, "reducer is NULL");
	return comm_check(r->comm);
}

/* Store the number of the last submitted collective. */
static void note_number(struct cohort_reducer *r)
{
	uint64_t number = atomic_load_explicit(&r->comm->agreement.collectives,
	                                       memory_order_relaxed);

	/* Release: an owner that cancels may look while a helper launches. */
	if (!atomic_load_explicit(&r->first, memory_order_relaxed))
		atomic_store_explicit(&r->first, number, memory_order_release);
	atomic_store_explicit(&r->newest, number, memory_order_release);
}

int reducer_submit(struct cohort_reducer *r, struct op *op, const char *label,
                   uint64_t *ticket_out)
{
	uint64_t ticket;
	int rc;

	op->stream = r->comm->stream;
	op->label = label;
	rc = submit(r->comm, 1, op, &ticket);
	if (rc != COHORT_OK)
		return rc;
	if (op_is_collective(op))
		note_number(r);
	/* Release: the thread that waits for it in finish may be another
	 * one. */
	atomic_store_explicit(&r->last, ticket, memory_order_release);
	if (ticket_out)
		*ticket_out = ticket;
	return COHORT_OK;
}

int reducer_await_last(struct cohort_reducer *r, uint64_t deadline_ns)
{
	uint64_t last = atomic_load_explicit(&r->last, memory_order_acquire);

	return last ? comm_await(r->comm, last, deadline_ns) : COHORT_OK;
}

int reducer_break(struct cohort_reducer *r, int rc)
{
	/* The owner may fail in finish while a helper fails to launch. */
	if (atomic_exchange(&r->is_breaking, true))
		return rc;
	text_set(r->why, sizeof(r->why), "%s", cohort_last_error());
	/* Release: pairs with the acquire of the threads that load it. */
	atomic_store_explicit(&r->broken, rc, memory_order_release);
	return rc;
}
