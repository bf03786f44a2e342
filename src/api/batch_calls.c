/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Several calls as one operation: kept from begin to end, then submitted
 */

#include "api/communicator.h"
#include "core/batch.h"
#include "core/comm_lock.h"
#include "core/submit.h"

int cohort_batch_begin(struct cohort_comm *comm)
{
	int rc = comm_check(comm);

	if (rc == COHORT_OK)
		rc = comm_enter(comm, false);
	if (rc != COHORT_OK)
		return rc;
	rc = batch_begin(comm);
	comm_leave(comm);
	return rc;
}

int cohort_batch_end(struct cohort_comm *comm, void *stream, uint64_t *ticket)
{
	struct op op;
	int rc = comm_check(comm);

	if (rc == COHORT_OK)
		rc = batch_check(comm);
	if (rc != COHORT_OK)
		return rc;
	rc = batch_end(comm, stream, &op);
	if (rc == COHORT_OK)
		rc = submit(comm, 1, &op, ticket);
	/* BUSY and OWNER are the fault of another thread, which may leave in a
	 * moment: the batch stays open. */
	if (rc != COHORT_BUSY && rc != COHORT_OWNER)
		batch_drop(comm);
	return rc;
}
