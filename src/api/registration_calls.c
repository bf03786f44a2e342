/* SPDX-License-Identifier: Apache-2.0 */

/* Registers, deregisters, allocates and frees memory that NCCL can access
 * directly */

#include "core/register.h"

#include "api/communicator.h"
#include "base/clock.h"
#include "base/status.h"
#include "core/comm_lock.h"
#include "core/launch_lock.h"
#include "core/native.h"

/* Take the lock, then enter a memory section.  The section must come last,
 * because comm_enter_on_device() may wait for the launch of a call whose caller
 * has timed out, and that launch waits until all sections have ended. */
static int enter_to_register(struct cohort_comm *c, struct device_scope *scope)
{
	int rc = comm_enter_on_device(c, false, scope);

	if (rc != COHORT_OK)
		return rc;
	rc = memory_section_enter(c->clique);
	if (rc != COHORT_OK)
		comm_leave_on_device(c, scope);
	return rc;
}

static void leave_registered(struct cohort_comm *c,
                             const struct device_scope *scope)
{
	memory_section_end();
	comm_leave_on_device(c, scope);
}

int cohort_register(struct cohort_comm *comm, void *memory, size_t bytes,
                    void **registration)
{
	struct registration *r;
	struct device_scope scope;
	int rc = comm_check(comm);

	if (rc != COHORT_OK)
		return rc;
	if (!memory || !bytes || !registration)
		return error_set(COHORT_INVALID, "register: %s",
		                 !memory  ? "memory is NULL"
		                 : !bytes ? "bytes is 0"
		                          : "registration is NULL");
	if (bytes > UINTPTR_MAX - (uintptr_t)memory)
		return error_set(
			COHORT_INVALID,
			"register: bytes is %zu and memory is %p: they reach "
			"past the end of the address space",
			bytes, memory);
	rc = enter_to_register(comm, &scope);
	if (rc == COHORT_OK) {
		rc = register_add(comm, memory, bytes, &r);
		leave_registered(comm, &scope);
	}
	if (rc == COHORT_OK)
		*registration = r;
	return rc;
}

/* After a cause, wait until the reaper has deregistered all memory. */
static int await_reclaim(struct cohort_comm *c, const char *call)
{
	struct clique *q = c->clique;
	int rc = memory_section_check(call);

	if (rc != COHORT_OK)
		return rc;
	if (clique_is_reclaimed(
		    clique_await(q, CLIQUE_RECLAIMED,
	                         clock_deadline(q->deadlines.abort_ns))))
		return COHORT_OK;
	return error_set(COHORT_WEDGED,
	                 "%s: the abort of rank %d did not complete, so the "
	                 "memory is still registered",
	                 call, c->rank);
}

int comm_release_memory(struct cohort_comm *c,
                        int (*inside)(struct cohort_comm *c, void *what),
                        void *what, const char *call)
{
	int rc;

	do {
		memory_section_begin();
		rc = comm_enter(c, true);
		if (rc == COHORT_OK) {
			rc = inside(c, what);
			comm_leave(c);
		}
		memory_section_end();
		/* Wait without the lock and the section, because the reaper
		 * needs both. */
	} while (rc == COHORT_TIMED_OUT &&
	         (rc = await_reclaim(c, call)) == COHORT_OK);
	return rc;
}

/* Deregister memory, with the lock held.  Return COHORT_TIMED_OUT if the clique
 * has ended and the reaper has not deregistered the memory yet. */
static int deregister_inside(struct cohort_comm *c, void *registration)
{
	const bool has_ended = cause_or_closing(c->clique->end);
	struct registration *r = registration;

	if (!register_has(c, r) || r->is_allocated)
		return error_set(COHORT_INVALID,
		                 "deregister: registration is %p, which is not "
		                 "a registration of rank %d",
		                 registration, c->rank);
	if (has_ended && !clique_is_reclaimed(clique_update_state(c->clique)))
		return COHORT_TIMED_OUT;
	return register_remove(c, r, has_ended);
}

int cohort_deregister(struct cohort_comm *comm, void *registration)
{
	int rc = comm_check(comm);

	return rc == COHORT_OK ? comm_release_memory(comm, deregister_inside,
	                                             registration, "deregister")
	                       : rc;
}

static int alloc_inside(struct cohort_comm *c, size_t bytes, void **memory)
{
	const struct platform *p = c->clique->platform;
	struct registration *r;
	int rc = NATIVE_NCCL(p, c->native, ncclMemAlloc, (memory, bytes));

	if (rc != COHORT_OK)
		return rc;
	rc = register_add(c, *memory, bytes, &r);
	if (rc != COHORT_OK)
		p->ncclMemFree(*memory);
	else
		r->is_allocated = true;
	return rc;
}

int cohort_alloc_registered(struct cohort_comm *comm, size_t bytes,
                            void **memory)
{
	struct device_scope scope;
	void *made = NULL;
	int rc = comm_check(comm);

	if (rc != COHORT_OK)
		return rc;
	if (!bytes || !memory)
		return error_set(COHORT_INVALID, "alloc_registered: %s",
		                 memory ? "bytes is 0" : "memory is NULL");
	rc = enter_to_register(comm, &scope);
	if (rc == COHORT_OK) {
		rc = alloc_inside(comm, bytes, &made);
		leave_registered(comm, &scope);
	}
	if (rc != COHORT_OK)
		return rc;
	atomic_fetch_add(&comm->clique->held, 1);
	*memory = made;
	return COHORT_OK;
}

int comm_free_registered(struct cohort_comm *c, struct registration *r,
                         void *memory, bool has_ended)
{
	const struct platform *p = c->clique->platform;
	int rc;

	if (!r->is_allocated || r->memory != memory)
		return error_set(COHORT_STATE,
		                 "free: memory is %p, which is registered with "
		                 "rank %d: deregister it first",
		                 memory, c->rank);
	rc = register_remove(c, r, has_ended);
	return rc == COHORT_OK
	               ? NATIVE_NCCL(p, c->native, ncclMemFree, (memory))
	               : rc;
}
