/* SPDX-License-Identifier: Apache-2.0 */

/* Communicators: queries, checks, binding to a thread, and direct NCCL calls by
 * the program */

#include "api/communicator.h"

#include "api/generation.h"
#include "base/process.h"
#include "base/status.h"
#include "base/text.h"
#include "core/comm_lock.h"
#include "core/hazard.h"
#include "core/native.h"
#include "core/owner.h"

int comm_check_fork(const struct cohort_comm *comm)
{
	int rc = comm_check(comm);

	return rc == COHORT_OK ? process_check_closely() : rc;
}

static bool comm_is_open(const struct cohort_comm *comm)
{
	return comm && comm_protect(comm) &&
	       !atomic_load_explicit(&comm->lock.closed, memory_order_relaxed);
}

int cohort_comm_rank(const struct cohort_comm *comm)
{
	return comm_is_open(comm) ? comm->rank : -1;
}

int cohort_comm_size(const struct cohort_comm *comm)
{
	return comm_is_open(comm) ? comm->clique->world_size : -1;
}

int cohort_comm_device(const struct cohort_comm *comm)
{
	return comm_is_open(comm) ? comm->device : -1;
}

int cohort_comm_platform(const struct cohort_comm *comm)
{
	return comm_is_open(comm) ? comm->clique->platform->kind : -1;
}

int cohort_comm_generation(const struct cohort_comm *comm)
{
	return comm_is_open(comm) ? comm->clique->generation : -1;
}

int cohort_comm_origin(const struct cohort_comm *comm)
{
	return comm_is_open(comm) ? comm->origin : -1;
}

int cohort_comm_group_rank(const struct cohort_comm *comm, int rank)
{
	return comm_is_open(comm) && rank >= 0 &&
	                       rank < comm->clique->world_size
	               ? clique_world(comm->clique, rank)
	               : -1;
}

void *cohort_comm_stream(struct cohort_comm *comm)
{
	return comm_is_open(comm) ? comm->stream : NULL;
}

int rank_list_check(const char *name, const int *ranks, int n, int size,
                    uint64_t *set)
{
	int i;

	if (n && !ranks)
		return error_set(COHORT_INVALID, "%s is NULL", name);
	for (i = 0; i < n; i++) {
		if (ranks[i] < 0 || ranks[i] >= size)
			return error_set(COHORT_INVALID,
			                 "%s[%d] is %d, not 0 to %d", name, i,
			                 ranks[i], size - 1);
		if (rank_set_has(set, ranks[i]))
			return error_set(COHORT_INVALID,
			                 "%s[%d] is %d, which is already in "
			                 "the list",
			                 name, i, ranks[i]);
		rank_set_add(set, ranks[i]);
	}
	return COHORT_OK;
}

void cause_copy(struct clique *q, struct cohort_cause *out)
{
	const struct cohort_cause *cause = clique_explained_cause(q);

	*out = cause ? *cause
	             : (struct cohort_cause){ .rank = -1, .world_rank = -1 };
	/* A cause without a verdict has no details, so use its one-line
	 * text. */
	if (!*out->details)
		text_set(out->details, sizeof(out->details), "%s", out->text);
}

int cohort_comm_cause(struct cohort_comm *comm, struct cohort_cause *cause)
{
	int rc = comm_check(comm);

	if (rc != COHORT_OK)
		return rc;
	if (!cause)
		return error_set(COHORT_INVALID, "cause is NULL");
	cause_copy(comm->clique, cause);
	return COHORT_OK;
}

int comm_call_locked(struct cohort_comm *comm, int (*fn)(struct cohort_comm *))
{
	int rc = comm_check(comm);

	if (rc == COHORT_OK)
		rc = comm_enter(comm, true);
	if (rc != COHORT_OK)
		return rc;
	rc = fn(comm);
	comm_leave(comm);
	return rc;
}

int comm_enter_on_device(struct cohort_comm *c, bool with_cause,
                         struct device_scope *scope)
{
	int rc = comm_enter(c, with_cause);

	if (rc != COHORT_OK)
		return rc;
	rc = comm_await_detached(c);
	if (with_cause)
		rc = COHORT_OK;
	if (rc == COHORT_OK)
		rc = device_enter(scope, c->clique->platform, c->device);
	if (rc != COHORT_OK)
		comm_leave(c);
	return rc;
}

void comm_leave_on_device(struct cohort_comm *c,
                          const struct device_scope *scope)
{
	device_leave(scope);
	comm_leave(c);
}

int cohort_comm_bind(struct cohort_comm *comm)
{
	int rc = comm_check_fork(comm);

	return rc == COHORT_OK ? comm_call_locked(comm, owner_bind) : rc;
}

int cohort_comm_unbind(struct cohort_comm *comm)
{
	struct clique *q;
	bool is_open;
	int rc = comm_check_fork(comm);

	if (rc != COHORT_OK)
		return rc;
	q = comm->clique;
	/* A closed communicator needs no lock, because no thread enters it. */
	is_open = comm_is_open(comm);
	if (is_open)
		rc = comm_enter(comm, true);
	if (rc != COHORT_OK)
		return rc;
	rc = owner_unbind(comm);
	if (is_open)
		comm_leave(comm);
	if (rc == COHORT_OK)
		clique_put(q); /* also frees @comm if its group was closed */
	return rc;
}

int cohort_tag(struct cohort_comm *comm, const char *text)
{
	int rc = comm_check(comm);

	if (rc == COHORT_OK)
		rc = comm_enter(comm, true);
	if (rc != COHORT_OK)
		return rc;
	tag_set(&comm->recorder.tags, text);
	comm_leave(comm);
	return COHORT_OK;
}

int cohort_comm_native_enter(struct cohort_comm *comm, void **nccl_comm)
{
	int rc = comm_check(comm);

	if (rc != COHORT_OK)
		return rc;
	if (!nccl_comm)
		return error_set(COHORT_INVALID, "nccl_comm is NULL");
	rc = comm_enter(comm, false);
	if (rc != COHORT_OK)
		return rc;
	/* Refuse if a library thread is about to launch a call on this
	 * communicator. */
	if (atomic_load(&comm->lock.is_detached)) {
		rc = comm_refuse_detached(comm, COHORT_BUSY, "native_enter");
		comm_leave(comm);
		return rc;
	}
	atomic_store(&comm->transfers.is_uncompared, true);
	/* Relaxed, because only the thread that stored the value depends on
	 * it. */
	atomic_store_explicit(&comm->lock.native_user, owner_self(),
	                      memory_order_relaxed);
	*nccl_comm = comm->native;
	return COHORT_OK;
}

int cohort_comm_native_leave(struct cohort_comm *comm)
{
	int rc = comm_check(comm);
	uintptr_t user;

	if (rc != COHORT_OK)
		return rc;
	user = atomic_load_explicit(&comm->lock.native_user,
	                            memory_order_relaxed);
	if (!user)
		return error_set(COHORT_STATE,
		                 "native_leave: rank %d has not called "
		                 "cohort_comm_native_enter()",
		                 comm->rank);
	if (user != owner_self())
		return error_set(COHORT_OWNER,
		                 "native_leave: another thread has called "
		                 "cohort_comm_native_enter() for rank %d, and "
		                 "must leave",
		                 comm->rank);
	atomic_store_explicit(&comm->lock.native_user, 0, memory_order_relaxed);
	comm_leave(comm);
	return COHORT_OK;
}
