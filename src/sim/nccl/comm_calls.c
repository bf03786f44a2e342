/* SPDX-License-Identifier: Apache-2.0 */

/*
 * NCCL's functions that ask about a communicator
 */

#include "sim/host.h"
#include "sim/nccl/background.h"
#include "sim/nccl/comm.h"

const char *host_ncclGetLastError(ncclComm_t comm)
{
	if (strict_is_on())
		comm_is_valid(comm, "ncclGetLastError");
	return comm_last_error();
}

static ncclResult_t check_fact(const struct ncclComm *comm, const void *out,
                               const char *function)
{
	if (!comm_is_valid(comm, function))
		return comm_error(ncclInvalidArgument, "not a communicator");
	if (!out)
		return comm_error(ncclInvalidArgument, "output is NULL");
	return ncclSuccess;
}

static ncclResult_t comm_fact(struct ncclComm *comm, const void *out,
                              const char *function)
{
	ncclResult_t result = check_fact(comm, out, function);

	return result == ncclSuccess ? comm_ready(comm) : result;
}

ncclResult_t host_ncclCommCount(const ncclComm_t comm, int *count)
{
	ncclResult_t result = comm_fact(comm, count, "ncclCommCount");

	if (result == ncclSuccess)
		*count = comm->n;
	return result;
}

ncclResult_t host_ncclCommCuDevice(const ncclComm_t comm, int *device)
{
	ncclResult_t result = comm_fact(comm, device, "ncclCommCuDevice");

	if (result == ncclSuccess)
		*device = comm->member.device;
	return result;
}

ncclResult_t host_ncclCommUserRank(const ncclComm_t comm, int *rank)
{
	ncclResult_t result = comm_fact(comm, rank, "ncclCommUserRank");

	if (result == ncclSuccess)
		*rank = comm->member.rank;
	return result;
}

ncclResult_t host_ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *async)
{
	ncclResult_t result = check_fact(comm, async, "ncclCommGetAsyncError");

	if (result != ncclSuccess)
		return result;
	*async = comm_state(comm);
	if (*async == ncclSuccess)
		background_settle(comm);
	return ncclSuccess;
}
