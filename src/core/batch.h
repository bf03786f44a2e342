/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CORE_BATCH_H
#define CORE_BATCH_H

/*
 * Calls that wait to be made together
 *
 * Between its begin and its end a batch is its thread's, which no other may add
 * to; nobody holds the lock, so that an abort does not wait for it.  The
 * memory stays for the next one.
 */

#include "core/op.h"

struct cohort_comm;

struct batch {
	struct op *calls;
	size_t n, room;
	struct cohort_tensor *tensors; /* of all calls */
	size_t tensor_count, tensor_room;

	/* Why the first refused call was refused; COHORT_OK: none was. */
	int status;
	char error[512];
};

/* Open a batch: COHORT_OWNER if another thread has one open, COHORT_STATE if
 * this one has, or COHORT_NO_MEMORY.  With the lock held. */
int batch_begin(struct cohort_comm *c);

/* True if any thread has a batch open. */
bool batch_is_open(const struct cohort_comm *c);

/* COHORT_OK if this thread has a batch open, COHORT_OWNER if another has,
 * COHORT_STATE if none has. */
int batch_check(const struct cohort_comm *c);

/* Check a call, and keep it with its list of tensors: COHORT_OWNER, or what is
 * wrong with the call, which batch_end() will say again.  A call in a batch
 * must not ask for a ticket. */
int batch_add(struct cohort_comm *c, const struct op *call, bool has_ticket);

/* Make all calls one operation on @stream, which is valid until this thread's
 * next batch; or say why one was refused.  After batch_check(). */
int batch_end(struct cohort_comm *c, void *stream, struct op *out);

/* Close the batch, whichever thread has it open, and forget its calls. */
void batch_drop(struct cohort_comm *c);

void batch_free(struct batch *batch);

#endif
