/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Device memory of a rank
 *
 * Memory is made and freed with the lock held, as NCCL may be looking at the
 * device, and also with a cause, so that a worker can clean up; and in a memory
 * section, which is waited for without the lock: an abort waits until the lock
 * is empty.
 */

#include "api/communicator.h"
#include "base/process.h"
#include "base/status.h"
#include "core/comm_lock.h"
#include "core/launch_lock.h"
#include "core/native.h"
#include "core/register.h"

/* Allocate @bytes, or free *@memory if @bytes is 0.  With the lock held. */
static int change(struct cohort_comm *c, size_t bytes, void **memory)
{
	const struct platform *p = c->clique->platform;
	struct device_scope scope;
	int rc = device_enter(&scope, p, c->device);

	if (rc != COHORT_OK)
		return rc;
	rc = bytes ? native_set_cuda_error(p, "cudaMalloc",
	                                   p->cudaMalloc(memory, bytes))
	           : native_set_cuda_error(p, "cudaFree", p->cudaFree(*memory));
	device_leave(&scope);
	return rc;
}

int cohort_quiet_begin(void)
{
	int rc = process_check();

	if (rc == COHORT_OK)
		memory_section_begin();
	return rc;
}

int cohort_quiet_end(void)
{
	int rc = process_check();

	if (rc != COHORT_OK)
		return rc;
	if (!memory_section_is_open())
		return error_set(COHORT_STATE,
		                 "quiet_end: this thread has not called "
		                 "cohort_quiet_begin()");
	memory_section_end();
	return COHORT_OK;
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
	memory_section_begin();
	rc = comm_enter(comm, true);
	if (rc == COHORT_OK) {
		rc = change(comm, bytes, &made);
		comm_leave(comm);
	}
	memory_section_end();
	if (rc != COHORT_OK)
		return rc;
	atomic_fetch_add(&comm->clique->held, 1);
	*memory = made;
	return COHORT_OK;
}

/* Free memory that is registered.  COHORT_TIMED_OUT: the reaper has not
 * deregistered it yet. */
static int give_back(struct cohort_comm *c, struct registration *r,
                     void *memory)
{
	bool has_ended = cause_or_closing(c->clique->end);
	struct device_scope scope;
	int rc;

	if (has_ended && !clique_is_reclaimed(clique_update_state(c->clique)))
		return COHORT_TIMED_OUT;
	rc = device_enter(&scope, c->clique->platform, c->device);
	if (rc != COHORT_OK)
		return rc;
	rc = comm_free_registered(c, r, memory, has_ended);
	device_leave(&scope);
	return rc;
}

static int free_inside(struct cohort_comm *c, void *memory)
{
	struct registration *r = register_find(c, memory);

	return r ? give_back(c, r, memory) : change(c, 0, &memory);
}

int cohort_free(struct cohort_comm *comm, void *memory)
{
	int rc = comm_check(comm);

	if (rc != COHORT_OK || !memory)
		return rc;
	rc = comm_give_back(comm, free_inside, memory,
	                    "free, of memory that is registered");
	if (rc == COHORT_OK)
		atomic_fetch_sub(&comm->clique->held, 1);
	return rc;
}
