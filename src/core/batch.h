/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_BATCH_H
#define CORE_BATCH_H

/*
 * A batch: calls that are collected and then made together
 *
 * An open batch belongs to one thread, and no other thread may add to it.  The
 * thread does not hold the communicator's lock between its calls, so an abort
 * need not wait for it.  Later batches reuse its memory.
 */

#include "core/op.h"

struct cohort_comm;

struct batch {
	struct op *calls;
	size_t n, room;
	struct cohort_tensor *tensors; /* the tensors of all calls */
	size_t tensor_count, tensor_room;

	/* Status and error text of the first refused call, or COHORT_OK. */
	int status;
	char error[512];
};

/* Open a batch.  Call it with the lock held.  Return COHORT_OK,
 * COHORT_NO_MEMORY, COHORT_OWNER if another thread has a batch open, or
 * COHORT_STATE if this thread already has one open. */
int batch_begin(struct cohort_comm *c);

bool batch_is_open(const struct cohort_comm *c);

/* Return COHORT_OK if this thread has a batch open, COHORT_OWNER if another
 * thread has one open, and COHORT_STATE if no batch is open. */
int batch_check(const struct cohort_comm *c);

/*
 * Check a call and add it to the batch, with a copy of its list of tensors.
 * @has_ticket: true if the caller asks for a ticket, which is an error in a
 *              batch
 *
 * Returns COHORT_OK, the error of batch_check(), or the error of this call,
 * which batch_end() then returns if it is the batch's first error.
 */
int batch_add(struct cohort_comm *c, const struct op *call, bool has_ticket);

/*
 * Store the calls of the batch in @out as one operation on @stream.  If a call
 * was refused, return the status of the first refused call instead; if a call
 * names another stream, return COHORT_INVALID.  @out stays valid until this
 * thread's next batch; the batch stays open until batch_drop().  Call
 * batch_check() first.
 */
int batch_end(struct cohort_comm *c, void *stream, struct op *out);

/* Close the batch and discard its calls, no matter which thread has it open. */
void batch_drop(struct cohort_comm *c);

void batch_free(struct batch *batch);

#endif
