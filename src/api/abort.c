/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Abort handles: references to the block that holds a clique's cause
 *
 * Firing and asking take no lock, no memory and no thread-local storage (so no
 * text for cohort_last_error() either): a signal handler may.
 */

#include "api/comm.h"
#include "base/process.h"

struct cohort_abort *cohort_comm_abort_handle(struct cohort_comm *comm)
{
	if (comm_check(comm) != COHORT_OK)
		return NULL;
	cause_get(comm->clique->end);
	return comm->clique->end;
}

int cohort_abort_fire(struct cohort_abort *handle, const char *reason)
{
	if (!handle)
		return COHORT_INVALID;
	return process_is_forked() ? COHORT_FORKED
	                           : cause_set_aborted(handle, reason);
}

int cohort_abort_fired(const struct cohort_abort *handle)
{
	return handle && cause_look(handle);
}

void cohort_abort_put(struct cohort_abort *handle)
{
	if (handle)
		cause_put(handle);
}
