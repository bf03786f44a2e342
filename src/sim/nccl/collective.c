/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The collectives, sends and receives of the host platform: each fills one struct
 * call
 */

#include "sim/host.h"
#include "sim/nccl/enqueue.h"

ncclResult_t host_ncclAllReduce(const void *send, void *recv, size_t count,
                                ncclDataType_t type, ncclRedOp_t op,
                                ncclComm_t comm, cudaStream_t stream)
{
	struct call c = {
		.kind = CALL_ALL_REDUCE,
		.send = send,
		.recv = recv,
		.count = count,
		.type = (int)type,
		.op = (int)op,
	};

	return enqueue(comm, &c, stream);
}

ncclResult_t host_ncclBroadcast(const void *send, void *recv, size_t count,
                                ncclDataType_t type, int root, ncclComm_t comm,
                                cudaStream_t stream)
{
	struct call c = {
		.kind = CALL_BROADCAST,
		.send = send,
		.recv = recv,
		.count = count,
		.type = (int)type,
		.root = root,
	};

	return enqueue(comm, &c, stream);
}

ncclResult_t host_ncclBcast(void *memory, size_t count, ncclDataType_t type,
                            int root, ncclComm_t comm, cudaStream_t stream)
{
	struct call c = {
		.kind = CALL_BROADCAST,
		.send = memory,
		.recv = memory,
		.count = count,
		.type = (int)type,
		.root = root,
	};

	return enqueue(comm, &c, stream);
}

ncclResult_t host_ncclReduce(const void *send, void *recv, size_t count,
                             ncclDataType_t type, ncclRedOp_t op, int root,
                             ncclComm_t comm, cudaStream_t stream)
{
	struct call c = {
		.kind = CALL_REDUCE,
		.send = send,
		.recv = recv,
		.count = count,
		.type = (int)type,
		.op = (int)op,
		.root = root,
	};

	return enqueue(comm, &c, stream);
}

ncclResult_t host_ncclAllGather(const void *send, void *recv, size_t count,
                                ncclDataType_t type, ncclComm_t comm,
                                cudaStream_t stream)
{
	struct call c = {
		.kind = CALL_ALL_GATHER,
		.send = send,
		.recv = recv,
		.count = count,
		.type = (int)type,
	};

	return enqueue(comm, &c, stream);
}

ncclResult_t host_ncclReduceScatter(const void *send, void *recv, size_t count,
                                    ncclDataType_t type, ncclRedOp_t op,
                                    ncclComm_t comm, cudaStream_t stream)
{
	struct call c = {
		.kind = CALL_REDUCE_SCATTER,
		.send = send,
		.recv = recv,
		.count = count,
		.type = (int)type,
		.op = (int)op,
	};

	return enqueue(comm, &c, stream);
}

ncclResult_t host_ncclAlltoAll(const void *send, void *recv, size_t count,
                               ncclDataType_t type, ncclComm_t comm,
                               cudaStream_t stream)
{
	struct call c = {
		.kind = CALL_ALL_TO_ALL,
		.send = send,
		.recv = recv,
		.count = count,
		.type = (int)type,
	};

	return enqueue(comm, &c, stream);
}

ncclResult_t host_ncclGather(const void *send, void *recv, size_t count,
                             ncclDataType_t type, int root, ncclComm_t comm,
                             cudaStream_t stream)
{
	struct call c = {
		.kind = CALL_GATHER,
		.send = send,
		.recv = recv,
		.count = count,
		.type = (int)type,
		.root = root,
	};

	return enqueue(comm, &c, stream);
}

ncclResult_t host_ncclScatter(const void *send, void *recv, size_t count,
                              ncclDataType_t type, int root, ncclComm_t comm,
                              cudaStream_t stream)
{
	struct call c = {
		.kind = CALL_SCATTER,
		.send = send,
		.recv = recv,
		.count = count,
		.type = (int)type,
		.root = root,
	};

	return enqueue(comm, &c, stream);
}

ncclResult_t host_ncclSend(const void *send, size_t count, ncclDataType_t type,
                           int peer, ncclComm_t comm, cudaStream_t stream)
{
	struct call c = {
		.kind = CALL_SEND,
		.send = send,
		.count = count,
		.type = (int)type,
		.root = peer,
	};

	return enqueue(comm, &c, stream);
}

ncclResult_t host_ncclRecv(void *recv, size_t count, ncclDataType_t type,
                           int peer, ncclComm_t comm, cudaStream_t stream)
{
	struct call c = {
		.kind = CALL_RECV,
		.recv = recv,
		.count = count,
		.type = (int)type,
		.root = peer,
	};

	return enqueue(comm, &c, stream);
}
