/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Device memory of a rank
 *
 * Memory is allocated and freed with the communicator's lock held, because NCCL
 * may be using the device, and in a memory section (core/launch_lock.h).  The
 * section is entered before the lock is taken: a thread must not hold the lock
 * while it waits to enter, because an abort waits until the lock is free.
 * Memory can be allocated and freed even after a cause, so that a worker can
 * clean up.
 */

#include "api/communicator.h"
#include "base/process.h"
#include "base/status.h"
#include "base/text.h"
#include "core/comm_lock.h"
#include "core/launch_lock.h"
#include "core/native.h"
#include "core/register.h"

/* Allocate @bytes of device memory.  If @bytes is 0, free *@memory instead.
 * The caller holds the lock. */
static int change(struct cohort_comm *c, size_t bytes, void **memory)
{
	const struct platform *p = c->clique->platform;
	struct device_scope scope;
	cudaError_t error;
	char what[128];
	int rc = device_enter(&scope, p, c->device);

	if (rc != COHORT_OK)
		return rc;
	error = bytes ? p->cudaMalloc(memory, bytes) : p->cudaFree(*memory);
	if (error != cudaSuccess && bytes)
		text_set(what, sizeof(what),
		         "cudaMalloc of %zu bytes on device %d", bytes,
		         c->device);
	else if (error != cudaSuccess)
		text_set(what, sizeof(what), "cudaFree of %p%s", *memory,
		         error == cudaErrorInvalidValue
		                 ? ", which is not from cohort_alloc() or was "
		                   "already freed"
		                 : "");
	rc = native_set_cuda_error(p, what, error);
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

/* Free registered memory.  Return COHORT_TIMED_OUT if the reaper has not
 * deregistered it yet. */
static int free_registered(struct cohort_comm *c, struct registration *r,
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

	return r ? free_registered(c, r, memory) : change(c, 0, &memory);
}

int cohort_free(struct cohort_comm *comm, void *memory)
{
	int rc = comm_check(comm);

	if (rc != COHORT_OK || !memory)
		return rc;
	rc = comm_release_memory(comm, free_inside, memory,
	                         "free of registered memory");
	if (rc == COHORT_OK)
		atomic_fetch_sub(&comm->clique->held, 1);
	return rc;
}
