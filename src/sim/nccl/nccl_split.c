/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Creates communicators from existing ones: ncclCommSplit() and
 * ncclCommShrink()
 *
 * A child can outlive its parent.  The child's handle is stored when the child
 * has been created, which can be after the call returns; before that, an abort
 * of the parent cancels the creation.  As in NCCL, the handle is stored even if
 * the creation fails, and the program must then abort the child.
 */

#include <stdlib.h>

#include "sim/host.h"
#include "sim/nccl/meeting.h"
#include "sim/nccl/nccl_group.h"
#include "sim/nccl/nccl_join.h"
#include "sim/strict/fault.h"

/* A split or shrink call of one rank. */
struct request {
	const char *function;
	struct ncclComm *parent;
	enum join_kind kind;
	int color, key;
	int *excluded;
	int excluded_count;
	ncclComm_t *out;
	/* NULL to copy the parent's configuration */
	const ncclConfig_t *config;
	bool shares;
};

/* Return true if the sorted list of excluded ranks is valid.  NCCL only checks
 * whether the calling rank is in the list, and hangs if a rank is listed twice
 * or does not exist. */
static bool can_leave_out(const struct request *r)
{
	int i;

	for (i = 0; i < r->excluded_count; i++)
		if (r->excluded[i] < 0 || r->excluded[i] >= r->parent->n ||
		    r->excluded[i] == r->parent->member.rank ||
		    (i && r->excluded[i] == r->excluded[i - 1]))
			return false;
	return true;
}

static int compare(const void *a, const void *b)
{
	const int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

/* Check the excluded ranks in NCCL's order.  Like NCCL, sort the caller's own
 * array. */
static ncclResult_t check_list(const struct request *r)
{
	if (!r->excluded)
		return group_fail(ncclInvalidArgument,
		                  "ncclCommShrink: the list is NULL");
	if (r->excluded_count <= 0)
		return group_fail(ncclInvalidArgument,
		                  "ncclCommShrink: the list is empty");
	qsort(r->excluded, (size_t)r->excluded_count, sizeof(int), compare);
	if (!can_leave_out(r))
		return group_fail(
			ncclInvalidArgument,
			"ncclCommShrink: the list contains the calling rank, "
			"an invalid rank, or a rank twice");
	return ncclSuccess;
}

static ncclResult_t check(const struct request *r)
{
	ncclResult_t result = ncclSuccess;

	if (!comm_is_valid(r->parent, r->function))
		return group_fail(ncclInvalidArgument,
		                  "comm is not a communicator");
	if (!r->out)
		return group_fail(ncclInvalidArgument, "newcomm is NULL");
	if (r->kind == JOIN_SHRINK)
		result = check_list(r);
	if (result == ncclSuccess)
		result = group_record_error(comm_ready(r->parent));
	if (result == ncclSuccess && !meeting_world(r->parent))
		result = group_fail(ncclInvalidArgument,
		                    "the initialization of the communicator "
		                    "has not succeeded");
	return result;
}

static bool copy_list(struct join *j, const struct request *r)
{
	size_t i;

	j->list_count = (size_t)r->excluded_count;
	if (!j->list_count)
		return true;
	j->list = calloc(j->list_count, sizeof(*j->list));
	for (i = 0; j->list && i < j->list_count; i++)
		j->list[i] = (uint64_t)r->excluded[i];
	return j->list;
}

/* Create the join of one rank.  @config is NULL if the rank will be in no
 * child. */
static struct join *join_create(const struct request *r,
                                const ncclConfig_t *config)
{
	struct join *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->kind = r->kind;
	j->number = r->parent->member.number;
	j->n = r->parent->n;
	j->rank = r->parent->member.rank;
	j->color = r->color;
	j->key = r->key;
	j->parent = r->parent;
	comm_get(j->parent);
	if (config)
		j->comm = comm_create(r->parent->member.device, config);
	if ((config && !j->comm) || !copy_list(j, r)) {
		join_free(j);
		return NULL;
	}
	return j;
}

/* Return the configuration of the child, or NULL if the program passed an
 * invalid one. */
static const ncclConfig_t *child_config(const struct request *r,
                                        ncclConfig_t *config)
{
	const char *error;

	if (!r->config) {
		*config = r->parent->config;
		config_override(config);
		return config;
	}
	error = config_parse(r->config, config);
	if (error)
		group_fail(ncclInvalidArgument, error);
	return error ? NULL : config;
}

static ncclResult_t add(const struct request *r)
{
	const bool none =
		r->kind == JOIN_SPLIT && r->color == NCCL_SPLIT_NOCOLOR;
	const ncclConfig_t *config = NULL;
	ncclConfig_t parsed;
	ncclResult_t result;
	struct join *j;

	if (!none) {
		config = child_config(r, &parsed);
		if (!config)
			return ncclInvalidArgument;
	}
	j = join_create(r, config);
	if (!j)
		return group_fail(ncclSystemError, "out of memory");
	result = group_record_error(
		join_apply_fault(j, r->parent->member.rank, FAULT_SPLIT));
	if (result != ncclSuccess) {
		join_free(j);
		return result;
	}
	if (j->comm) {
		j->out = r->out;
		j->comm->join = j;
		if (r->shares)
			comm_join_family(r->parent, j->comm);
		else
			/* The release pairs with the acquire of a thread that
			 * aborts the parent and then reads the child. */
			store_release(&r->parent->lifetime.child, j->comm);
	}
	return group_join(j);
}

static ncclResult_t check_and_add(const struct request *r)
{
	ncclResult_t result = check(r);

	if (result != ncclSuccess)
		return result;
	if (strict_is_on()) {
		lifetime_check_idle(r->parent, r->function);
		lifetime_enter(r->parent, r->function);
	}
	*r->out = NULL;
	return add(r);
}

/* End the group.  Return ncclSuccess if the child is still being created,
 * because the parent then reports ncclInProgress until the child is
 * complete. */
static ncclResult_t end_call(ncclResult_t result)
{
	result = group_end_call(result);
	return result == ncclInProgress ? ncclSuccess : result;
}

ncclResult_t host_ncclCommSplit(ncclComm_t comm, int color, int key,
                                ncclComm_t *child, ncclConfig_t *config)
{
	struct request r = {
		.function = "ncclCommSplit",
		.parent = comm,
		.kind = JOIN_SPLIT,
		.color = color,
		.key = key,
		.out = child,
		.config = config,
	};

	group_start();
	if (comm_is_valid(comm, r.function))
		r.shares = comm_shares(comm, comm->config.splitShare);
	return end_call(check_and_add(&r));
}

/* If @flags contains NCCL_SHRINK_ABORT, cut short the parent's work in
 * flight. */
static ncclResult_t stop(struct ncclComm *comm, int flags)
{
	if (!(flags & NCCL_SHRINK_ABORT))
		return ncclSuccess;
	if (!comm_is_valid(comm, "ncclCommShrink"))
		return group_fail(ncclInvalidArgument,
		                  "comm is not a communicator");
	comm_pulse(comm);
	return comm_quiesce(comm);
}

ncclResult_t host_ncclCommShrink(ncclComm_t comm, int *excluded,
                                 int excluded_count, ncclComm_t *child,
                                 ncclConfig_t *config, int flags)
{
	struct request r = {
		.function = "ncclCommShrink",
		.parent = comm,
		.kind = JOIN_SHRINK,
		.excluded = excluded,
		.excluded_count = excluded_count,
		.out = child,
		.config = config,
	};
	ncclResult_t result;

	group_start();
	result = stop(comm, flags);
	if (result == ncclSuccess && comm_is_valid(comm, r.function))
		r.shares = comm_shares(comm, comm->config.shrinkShare) &&
		           !(flags & NCCL_SHRINK_ABORT);
	if (result == ncclSuccess)
		result = check_and_add(&r);
	return end_call(result);
}
