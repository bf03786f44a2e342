/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The norm of all gradients, and whether all are finite: each rank measures its part of
 * each gradient, and every rank decides by what all ranks have found
 */

#include <math.h>

#include "reducer/reducer.h"

/* Measure in the order of the list, so that the sum does not depend on the plan. */
static int measure(struct cohort_reducer *r, struct reducer_found *found)
{
	const struct reducer_item *item;
	struct reducer_part part;
	int rc = COHORT_OK;

	for (item = r->items; item < r->items + r->n && rc == COHORT_OK;
	     item++) {
		part = reducer_part(r, item->count);
		rc = reducer_measure(r, item, part.first,
		                     part.first + part.count, found);
	}
	return rc;
}

int reducer_look(struct cohort_reducer *r)
{
	struct reducer_found found = { 0.0, 0.0 };
	double *own = r->device.found + 2 * r->comm->rank;
	double *image = r->host.found + 2 * r->comm->rank;
	const struct cohort_tensor t = { own, r->device.found, 2, COHORT_F64 };
	struct op op = { .kind = OP_ALL_GATHER, .tensors = &t, .n = 1 };
	int rc = measure(r, &found);

	image[0] = found.squares;
	image[1] = found.infinite;
	if (rc == COHORT_OK)
		rc = reducer_push(r, own, image, 2 * sizeof(double));
	if (rc == COHORT_OK)
		rc = reducer_submit(r, &op, "gradients' norm", &r->gather);
	return rc;
}

static int clip(struct cohort_reducer *r)
{
	double factor = r->options.max_norm / r->norm;
	struct reducer_item item;
	struct reducer_part part;
	size_t i;
	int rc = COHORT_OK;

	for (i = 0; i < r->n && rc == COHORT_OK; i++) {
		item = r->items[i];
		if (r->options.sharded) {
			part = reducer_part(r, item.count);
			item.gradient +=
				part.first * cohort_type_size(item.type);
			item.count = part.count;
		}
		rc = reducer_scale(r, &item, factor);
	}
	return rc;
}

int reducer_judge(struct cohort_reducer *r, uint64_t deadline)
{
	const double *found = r->host.found;
	int k, size = r->comm->clique->world;
	double squares = 0.0, infinite = 0.0;
	int rc = comm_await(r->comm, r->gather, deadline);

	if (rc == COHORT_OK)
		rc = reducer_pull(r, r->host.found, r->device.found,
		                  2 * (size_t)size * sizeof(double));
	if (rc != COHORT_OK)
		return rc;
	for (k = 0; k < size; k++) {
		squares += found[2 * k];
		infinite += found[2 * k + 1];
	}
	r->norm = sqrt(squares);
	if (infinite > 0.0 || (r->options.max_norm > 0.0 && !isfinite(r->norm)))
		return COHORT_SKIP;
	if (r->options.max_norm > 0.0 && r->norm > r->options.max_norm)
		return clip(r);
	return COHORT_OK;
}
