/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Functions of NCCL that the host platform does not have yet
 */

#include "platform/host/host.h"

ncclResult_t host_ncclMemAlloc(void **memory, size_t bytes)
{
	(void)memory;
	(void)bytes;
	return ncclInternalError;
}

ncclResult_t host_ncclMemFree(void *memory)
{
	(void)memory;
	return ncclInternalError;
}

ncclResult_t host_ncclCommRegister(const ncclComm_t comm, void *memory,
                                   size_t bytes, void **handle)
{
	(void)comm;
	(void)memory;
	(void)bytes;
	(void)handle;
	return ncclInternalError;
}

ncclResult_t host_ncclCommDeregister(const ncclComm_t comm, void *handle)
{
	(void)comm;
	(void)handle;
	return ncclInternalError;
}

ncclResult_t host_ncclCommWindowRegister(ncclComm_t comm, void *memory,
                                         size_t bytes, ncclWindow_t *window,
                                         int flags)
{
	(void)comm;
	(void)memory;
	(void)bytes;
	(void)window;
	(void)flags;
	return ncclInternalError;
}

ncclResult_t host_ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
	(void)comm;
	(void)window;
	return ncclInternalError;
}

ncclResult_t host_ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar,
                                           ncclDataType_t type,
                                           ncclScalarResidence_t residence,
                                           ncclComm_t comm)
{
	(void)op;
	(void)scalar;
	(void)type;
	(void)residence;
	(void)comm;
	return ncclInternalError;
}

ncclResult_t host_ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
	(void)op;
	(void)comm;
	return ncclInternalError;
}

ncclResult_t host_ncclBcast(void *memory, size_t count, ncclDataType_t type,
                            int root, ncclComm_t comm, cudaStream_t stream)
{
	(void)memory;
	(void)count;
	(void)type;
	(void)root;
	(void)comm;
	(void)stream;
	return ncclInternalError;
}

ncclResult_t host_ncclAlltoAll(const void *send, void *recv, size_t count,
                               ncclDataType_t type, ncclComm_t comm,
                               cudaStream_t stream)
{
	(void)send;
	(void)recv;
	(void)count;
	(void)type;
	(void)comm;
	(void)stream;
	return ncclInternalError;
}

ncclResult_t host_ncclGather(const void *send, void *recv, size_t count,
                             ncclDataType_t type, int root, ncclComm_t comm,
                             cudaStream_t stream)
{
	(void)send;
	(void)recv;
	(void)count;
	(void)type;
	(void)root;
	(void)comm;
	(void)stream;
	return ncclInternalError;
}

ncclResult_t host_ncclScatter(const void *send, void *recv, size_t count,
                              ncclDataType_t type, int root, ncclComm_t comm,
                              cudaStream_t stream)
{
	(void)send;
	(void)recv;
	(void)count;
	(void)type;
	(void)root;
	(void)comm;
	(void)stream;
	return ncclInternalError;
}

ncclResult_t host_ncclSend(const void *send, size_t count, ncclDataType_t type,
                           int peer, ncclComm_t comm, cudaStream_t stream)
{
	(void)send;
	(void)count;
	(void)type;
	(void)peer;
	(void)comm;
	(void)stream;
	return ncclInternalError;
}

ncclResult_t host_ncclRecv(void *recv, size_t count, ncclDataType_t type,
                           int peer, ncclComm_t comm, cudaStream_t stream)
{
	(void)recv;
	(void)count;
	(void)type;
	(void)peer;
	(void)comm;
	(void)stream;
	return ncclInternalError;
}

ncclResult_t host_ncclGroupSimulateEnd(ncclSimInfo_t *info)
{
	(void)info;
	return ncclInternalError;
}
