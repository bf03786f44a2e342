/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Whether something is a communicator, and ready
 */

#include "sim/nccl/background.h"
#include "sim/nccl/comm.h"
#include "sim/nccl/group.h"

/* What a program passes may be anything, and be aligned to nothing. */
static bool has_magic(const struct ncclComm *comm, uint64_t magic)
{
	return comm && (uintptr_t)comm % _Alignof(struct ncclComm) == 0 &&
	       comm->magic == magic;
}

bool comm_is_valid(const struct ncclComm *comm, const char *function)
{
	if (has_magic(comm, COMM_BURIED))
		lifetime_used(comm, function);
	return has_magic(comm, COMM_MAGIC);
}

static bool is_revoked(const struct ncclComm *comm)
{
	return atomic_load_explicit(&comm->revoked, memory_order_relaxed);
}

bool comm_shares(const struct ncclComm *comm, int configured)
{
	return configured && !is_revoked(comm);
}

ncclResult_t comm_state(const struct ncclComm *comm)
{
	/* Acquire: pairs with the release when a group is done. */
	return (ncclResult_t)atomic_load_explicit(&comm->async_error,
	                                          memory_order_acquire);
}

ncclResult_t comm_ready(struct ncclComm *comm)
{
	ncclResult_t result = comm_state(comm);

	if (result == ncclSuccess || comm_is_aborted(comm)) {
		background_settle(comm);
		return ncclSuccess;
	}
	if (result == ncclInProgress)
		return comm_error(ncclInvalidArgument,
		                  "the communicator was used before its last "
		                  "operation returned ncclSuccess");
	return comm_error(result, "the communicator has failed before");
}

ncclResult_t comm_use(struct ncclComm *comm, const char *function)
{
	ncclResult_t result;

	if (!comm_is_valid(comm, function))
		return group_fail(ncclInvalidArgument, "not a communicator");
	if (strict_is_on())
		lifetime_enter(comm, function);
	if (is_revoked(comm))
		return group_fail(ncclInvalidUsage,
		                  "the communicator was revoked");
	result = comm_ready(comm);
	if (result != ncclSuccess)
		return group_note(result);
	if (!comm->member.world)
		return group_fail(ncclInvalidArgument,
		                  "the communicator's init has not succeeded");
	return ncclSuccess;
}

bool comm_blocks(const struct ncclComm *comm)
{
	return !has_magic(comm, COMM_MAGIC) || comm->config.blocking;
}

ncclResult_t comm_answer(struct ncclComm *comm, ncclResult_t result)
{
	if (comm_blocks(comm))
		return result;
	/* The call was refused at once: the error does not stay. */
	if (result == ncclInvalidUsage && is_revoked(comm))
		return result;
	if (result != ncclSuccess && result != ncclInProgress)
		atomic_store_explicit(&comm->async_error, (int)result,
		                      memory_order_release);
	/* Also if it is over already: the answer does not depend on which
	 * thread is faster. */
	return result == ncclInProgress ? result : comm_state(comm);
}
