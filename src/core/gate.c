/* SPDX-License-Identifier: Apache-2.0 */

#include "core/gate.h"

#include "base/status.h"
#include "base/thread.h"
#include "core/owner.h"

int gate_check_owner(const struct cohort_comm *c)
{
	uintptr_t owner = atomic_load_explicit(&c->owner, memory_order_relaxed);

	if (owner && owner != owner_self())
		return error_set(COHORT_OWNER,
		                 "rank %d is bound to another thread", c->rank);
	return COHORT_OK;
}

static int gate_check(const struct cohort_comm *c, bool with_cause)
{
	const struct cohort_cause *cause = NULL;
	int rc = gate_check_owner(c); /* again, inside: now it cannot change */

	if (rc != COHORT_OK)
		return rc;
	if (atomic_load_explicit(&c->closed, memory_order_relaxed))
		return error_set(COHORT_STATE,
		                 "the communicator of rank %d was closed",
		                 c->rank);
	if (!with_cause && cause_any(c->clique->end))
		cause = clique_whole_cause(c->clique);
	if (!cause)
		return COHORT_OK;
	if (atomic_load(&c->clique->stale) || atomic_load(&c->abandoned))
		return error_set(COHORT_STALE,
		                 "rank %d of generation %d is of the past: %s",
		                 c->rank, c->clique->generation, cause->text);
	return cause_error(cause);
}

int gate_enter(struct cohort_comm *c, bool with_cause)
{
	/* An intruder must not keep the owner out. */
	int rc = gate_check_owner(c);

	if (rc != COHORT_OK)
		return rc;
	/* seq_cst, see cause.h: in first, then look at the cause. */
	if (atomic_exchange(&c->gate, 1))
		return error_set(COHORT_BUSY,
		                 "another thread is inside the communicator of "
		                 "rank %d",
		                 c->rank);
	rc = gate_check(c, with_cause);
	if (rc != COHORT_OK)
		gate_leave(c);
	else
		atomic_store_explicit(&c->tid, thread_id(),
		                      memory_order_relaxed);
	return rc;
}

void gate_leave(struct cohort_comm *c)
{
	/* Release: what was done inside.  Nothing is looked at after it. */
	atomic_store_explicit(&c->gate, 0, memory_order_release);
}
