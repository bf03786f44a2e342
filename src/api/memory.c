/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Device memory of a rank
 *
 * Inside the gate, as NCCL may be looking at the device; also with a cause, so
 * that a worker can clean up.
 */

#include "api/comm.h"
#include "base/status.h"
#include "core/gate.h"
#include "core/native.h"
#include "core/register.h"

/* Allocate @bytes, or free *@memory if @bytes is 0. */
static int change(struct cohort_comm *c, size_t bytes, void **memory)
{
	const struct platform *p = c->clique->platform;
	struct device_scope scope;
	int rc = device_enter(&scope, p, c->device);

	if (rc != COHORT_OK)
		return rc;
	rc = bytes ? native_cuda(p, "cudaMalloc", p->cudaMalloc(memory, bytes))
	           : native_cuda(p, "cudaFree", p->cudaFree(*memory));
	device_leave(&scope);
	return rc;
}

int cohort_alloc(struct cohort_comm *comm, size_t bytes, void **memory)
{
	void *made = NULL;
	int rc = comm_check(comm);

	if (rc != COHORT_OK)
		return rc;
	if (!bytes || !memory)
		return error_set(COHORT_INVALID, "%s",
		                 memory ? "bytes is 0" : "memory is NULL");
	rc = gate_enter(comm, true);
	if (rc != COHORT_OK)
		return rc;
	rc = change(comm, bytes, &made);
	gate_leave(comm);
	if (rc == COHORT_OK)
		*memory = made;
	return rc;
}

/* Memory that is registered is NCCL's to free, and not before it does not know of it
 * any more: COHORT_TIMED_OUT if that is to be waited for. */
static int give_back(struct cohort_comm *c, struct registration *r,
                     void *memory)
{
	bool has_ended = cause_any(c->clique->end);
	struct device_scope scope;
	int rc;

	if (has_ended && !clique_is_reclaimed(clique_look(c->clique)))
		return COHORT_TIMED_OUT;
	rc = device_enter(&scope, c->clique->platform, c->device);
	if (rc != COHORT_OK)
		return rc;
	rc = comm_free_registered(c, r, memory, has_ended);
	device_leave(&scope);
	return rc;
}

int cohort_free(struct cohort_comm *comm, void *memory)
{
	struct registration *r;
	int rc = comm_check(comm);

	if (rc != COHORT_OK || !memory)
		return rc;
	do {
		rc = gate_enter(comm, true);
		if (rc != COHORT_OK)
			return rc;
		r = register_find(comm, memory);
		rc = r ? give_back(comm, r, memory) : change(comm, 0, &memory);
		gate_leave(comm);
		/* Outside the gate: an abort waits for that to be empty. */
	} while (rc == COHORT_TIMED_OUT &&
	         (rc = comm_await_reclaim(comm)) == COHORT_OK);
	return rc;
}
