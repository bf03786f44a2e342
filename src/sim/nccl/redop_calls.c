/* SPDX-License-Identifier: Apache-2.0 */

/*
 * NCCL's functions that make and destroy reduction operations
 */

#include <string.h>

#include "base/type.h"
#include "sim/host.h"
#include "sim/nccl/comm.h"

ncclResult_t host_ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar,
                                           ncclDataType_t type,
                                           ncclScalarResidence_t residence,
                                           ncclComm_t comm)
{
	const size_t bytes = type_size((int)type);
	struct redop new = { .live = true, .type = (int)type };
	ncclResult_t result;
	int handle;

	if (!comm_is_valid(comm, "ncclRedOpCreatePreMulSum"))
		return comm_error(ncclInvalidArgument, "not a communicator");
	result = comm_ready(comm);
	if (result != ncclSuccess)
		return result;
	if (!op || !scalar)
		return comm_error(ncclInvalidArgument,
		                  "ncclRedOpCreatePreMulSum: op or scalar is "
		                  "NULL");
	if (residence == ncclScalarHostImmediate)
		memcpy(new.scalar.value, scalar, bytes);
	else
		new.scalar.at = scalar;
	handle = redop_add(&comm->redops, &new);
	if (handle < 0)
		return comm_error(ncclSystemError, "out of memory");
	/* As in NCCL, the place is taken all the same. */
	if (residence == ncclScalarHostImmediate && !bytes)
		return comm_error(
			ncclInternalError,
			"ncclRedOpCreatePreMulSum: no such data type");
	*op = (ncclRedOp_t)handle;
	return ncclSuccess;
}

ncclResult_t host_ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
	if ((int)op >= 0 && (int)op < ncclNumOps)
		return comm_error(ncclInvalidArgument,
		                  "ncclRedOpDestroy: operation is built in");
	if ((int)op < 0)
		return comm_error(ncclInvalidArgument,
		                  "ncclRedOpDestroy: operation is negative");
	if (!comm_is_valid(comm, "ncclRedOpDestroy"))
		return comm_error(ncclInvalidArgument, "not a communicator");
	if (!redop_remove(&comm->redops, (int)op))
		return comm_error(ncclInvalidArgument,
		                  "ncclRedOpDestroy: no operation of this "
		                  "communicator");
	return ncclSuccess;
}
