/* SPDX-License-Identifier: Apache-2.0 */

/* Implements NCCL's collectives, sends and receives */

#include "sim/host.h"
#include "sim/nccl/enqueue.h"

static inline ncclResult_t call(enum call_kind kind, const void *send,
                                void *recv, size_t count, ncclDataType_t type,
                                ncclRedOp_t op, int root, ncclComm_t comm,
                                cudaStream_t stream)
{
	struct call c = {
		.kind = kind,
		.send = send,
		.recv = recv,
		.count = count,
		.type = (int)type,
		.op = (int)op,
		.root = root,
	};

	return enqueue(comm, &c, stream);
}

ncclResult_t host_ncclAllReduce(const void *send, void *recv, size_t count,
                                ncclDataType_t type, ncclRedOp_t op,
                                ncclComm_t comm, cudaStream_t stream)
{
	return call(CALL_ALL_REDUCE, send, recv, count, type, op, 0, comm,
	            stream);
}

ncclResult_t host_ncclBroadcast(const void *send, void *recv, size_t count,
                                ncclDataType_t type, int root, ncclComm_t comm,
                                cudaStream_t stream)
{
	return call(CALL_BROADCAST, send, recv, count, type, 0, root, comm,
	            stream);
}

ncclResult_t host_ncclBcast(void *memory, size_t count, ncclDataType_t type,
                            int root, ncclComm_t comm, cudaStream_t stream)
{
	return call(CALL_BROADCAST, memory, memory, count, type, 0, root, comm,
	            stream);
}

ncclResult_t host_ncclReduce(const void *send, void *recv, size_t count,
                             ncclDataType_t type, ncclRedOp_t op, int root,
                             ncclComm_t comm, cudaStream_t stream)
{
	return call(CALL_REDUCE, send, recv, count, type, op, root, comm,
	            stream);
}

ncclResult_t host_ncclAllGather(const void *send, void *recv, size_t count,
                                ncclDataType_t type, ncclComm_t comm,
                                cudaStream_t stream)
{
	return call(CALL_ALL_GATHER, send, recv, count, type, 0, 0, comm,
	            stream);
}

ncclResult_t host_ncclReduceScatter(const void *send, void *recv, size_t count,
                                    ncclDataType_t type, ncclRedOp_t op,
                                    ncclComm_t comm, cudaStream_t stream)
{
	return call(CALL_REDUCE_SCATTER, send, recv, count, type, op, 0, comm,
	            stream);
}

ncclResult_t host_ncclAlltoAll(const void *send, void *recv, size_t count,
                               ncclDataType_t type, ncclComm_t comm,
                               cudaStream_t stream)
{
	return call(CALL_ALL_TO_ALL, send, recv, count, type, 0, 0, comm,
	            stream);
}

ncclResult_t host_ncclGather(const void *send, void *recv, size_t count,
                             ncclDataType_t type, int root, ncclComm_t comm,
                             cudaStream_t stream)
{
	return call(CALL_GATHER, send, recv, count, type, 0, root, comm,
	            stream);
}

ncclResult_t host_ncclScatter(const void *send, void *recv, size_t count,
                              ncclDataType_t type, int root, ncclComm_t comm,
                              cudaStream_t stream)
{
	return call(CALL_SCATTER, send, recv, count, type, 0, root, comm,
	            stream);
}

ncclResult_t host_ncclSend(const void *send, size_t count, ncclDataType_t type,
                           int peer, ncclComm_t comm, cudaStream_t stream)
{
	return call(CALL_SEND, send, NULL, count, type, 0, peer, comm, stream);
}

ncclResult_t host_ncclRecv(void *recv, size_t count, ncclDataType_t type,
                           int peer, ncclComm_t comm, cudaStream_t stream)
{
	return call(CALL_RECV, NULL, recv, count, type, 0, peer, comm, stream);
}
