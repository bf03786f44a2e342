/* SPDX-License-Identifier: Apache-2.0 */

/* Submit the reducer's operations, copy the words that ranks exchange (struct
 * reducer_words), zero gradients, and keep the error of a failed launch */

#include <stdio.h>

#include "base/status.h"
#include "base/util.h"
#include "core/submit.h"
#include "reducer/reducer.h"

int reducer_check(const struct cohort_reducer *r)
{
	if (!r)
		return error_set(COHORT_INVALID, "reducer is NULL");
	return comm_check(r->comm);
}

static void record_number(struct cohort_reducer *r)
{
	uint64_t number = atomic_load_explicit(&r->comm->agreement.collectives,
	                                       memory_order_relaxed);

	/* Stored with release, because an owner that cancels may read the
	 * number while a helper launches. */
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
		record_number(r);
	/* Stored with release, because the thread that waits for the ticket in
	 * finish may be a different one. */
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
	/* The owner may fail in finish at the same time as a helper fails to
	 * launch. */
	if (atomic_exchange(&r->is_breaking, true))
		return rc;
	text_set(r->why, sizeof(r->why), "%s", cohort_last_error());
	/* The release publishes the error text; it pairs with the acquire of
	 * the threads that load the error. */
	atomic_store_explicit(&r->broken, rc, memory_order_release);
	return rc;
}

unsigned reducer_float(int type)
{
	switch (type) {
	case COHORT_F16:
		return 0;
	case COHORT_BF16:
		return 1;
	case COHORT_F32:
		return 2;
	case COHORT_F64:
		return 3;
	default:
		return REDUCER_FLOATS;
	}
}

static int copy(struct cohort_reducer *r, void *dst, const void *src,
                size_t bytes, uint64_t *ticket)
{
	const struct cohort_tensor t = { src, dst, bytes, COHORT_U8 };
	struct op op = { .kind = OP_COPY, .tensors = &t, .n = 1 };

	return reducer_submit(r, &op, NULL, ticket);
}

int reducer_copy_to_device(struct cohort_reducer *r, void *device,
                           const void *host, size_t bytes)
{
	return copy(r, device, host, bytes, NULL);
}

/* The copy may be queued after a collective.  The wait needs no deadline,
 * because the watchdog has one for the collective. */
int reducer_copy_to_host(struct cohort_reducer *r, void *host,
                         const void *device, size_t bytes)
{
	uint64_t ticket;
	int rc = copy(r, host, device, bytes, &ticket);

	return rc == COHORT_OK ? comm_await(r->comm, ticket, COHORT_FOREVER)
	                       : rc;
}

int reducer_clear(struct cohort_reducer *r, void *device, size_t bytes)
{
	unsigned char *at = device;
	size_t k, n = REDUCER_ZEROS_BYTES;
	int rc = COHORT_OK;

	for (k = 0; k < bytes && rc == COHORT_OK; k += n) {
		n = MIN(n, bytes - k);
		rc = copy(r, at + k, r->zeros, n, NULL);
	}
	return rc;
}

int reducer_zero(struct cohort_reducer *r, const struct reducer_item *item)
{
	return reducer_clear(r, item->gradient, item->bytes);
}
