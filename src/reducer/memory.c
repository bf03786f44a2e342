/* SPDX-License-Identifier: Apache-2.0 */

/* Copies of the reducer's words, and zeros for gradients */

#include <string.h>

#include "base/util.h"
#include "reducer/reducer.h"

/* ---- types ------------------------------------------------------------ */

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

/* ---- copies ----------------------------------------------------------- */

static int copy(struct cohort_reducer *r, void *dst, const void *src,
                size_t bytes, uint64_t *ticket)
{
	const struct cohort_tensor t = { src, dst, bytes, COHORT_U8 };
	struct op op = { .kind = OP_COPY, .tensors = &t, .n = 1 };

	return reducer_submit(r, &op, NULL, ticket);
}

/* The copy may be queued behind a collective.  The wait has no deadline then,
 * because the watchdog has one for the collective. */
static int copy_wait(struct cohort_reducer *r, void *dst, const void *src,
                     size_t bytes)
{
	uint64_t ticket;
	int rc = copy(r, dst, src, bytes, &ticket);

	return rc == COHORT_OK ? comm_await(r->comm, ticket, COHORT_FOREVER)
	                       : rc;
}

int reducer_push(struct cohort_reducer *r, void *device, const void *host,
                 size_t bytes)
{
	if (!r->is_host)
		return copy(r, device, host, bytes, NULL);
	memcpy(device, host, bytes);
	return COHORT_OK;
}

int reducer_pull(struct cohort_reducer *r, void *host, const void *device,
                 size_t bytes)
{
	if (!r->is_host)
		return copy_wait(r, host, device, bytes);
	memcpy(host, device, bytes);
	return COHORT_OK;
}

/* ---- zero ------------------------------------------------------------- */

int reducer_clear(struct cohort_reducer *r, void *device, size_t bytes)
{
	unsigned char *at = device;
	size_t k, n = REDUCER_ZEROS_BYTES;
	int rc = COHORT_OK;

	if (r->is_host) {
		memset(device, 0, bytes);
		return COHORT_OK;
	}
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
