/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The collectives, sends and receives for plain host memory
 */

#include "api/staged_call.h"

int cohort_all_reduce_host(struct cohort_comm *comm, void *data, size_t count,
                           int type, int op, uint64_t timeout_ns)
{
	const struct cohort_tensor t = { data, data, count, type };

	return staging_call(comm,
	                    &(struct op){ .kind = OP_ALL_REDUCE,
	                                  .redop = op,
	                                  .tensors = &t },
	                    timeout_ns);
}

int cohort_broadcast_host(struct cohort_comm *comm, void *data, size_t count,
                          int type, int root, uint64_t timeout_ns)
{
	const struct cohort_tensor t = { data, data, count, type };

	return staging_call(comm,
	                    &(struct op){ .kind = OP_BROADCAST,
	                                  .root = root,
	                                  .tensors = &t },
	                    timeout_ns);
}

int cohort_reduce_host(struct cohort_comm *comm, void *data, size_t count,
                       int type, int op, int root, uint64_t timeout_ns)
{
	const struct cohort_tensor t = { data, data, count, type };

	return staging_call(comm,
	                    &(struct op){ .kind = OP_REDUCE,
	                                  .redop = op,
	                                  .root = root,
	                                  .tensors = &t },
	                    timeout_ns);
}

int cohort_all_gather_host(struct cohort_comm *comm, const void *send,
                           void *recv, size_t count, int type,
                           uint64_t timeout_ns)
{
	const struct cohort_tensor t = { send, recv, count, type };

	return staging_call(
		comm, &(struct op){ .kind = OP_ALL_GATHER, .tensors = &t },
		timeout_ns);
}

int cohort_reduce_scatter_host(struct cohort_comm *comm, const void *send,
                               void *recv, size_t count, int type, int op,
                               uint64_t timeout_ns)
{
	const struct cohort_tensor t = { send, recv, count, type };

	return staging_call(comm,
	                    &(struct op){ .kind = OP_REDUCE_SCATTER,
	                                  .redop = op,
	                                  .tensors = &t },
	                    timeout_ns);
}

int cohort_gather_host(struct cohort_comm *comm, const void *send, void *recv,
                       size_t count, int type, int root, uint64_t timeout_ns)
{
	const struct cohort_tensor t = { send, recv, count, type };

	return staging_call(
		comm,
		&(struct op){ .kind = OP_GATHER, .root = root, .tensors = &t },
		timeout_ns);
}

int cohort_scatter_host(struct cohort_comm *comm, const void *send, void *recv,
                        size_t count, int type, int root, uint64_t timeout_ns)
{
	const struct cohort_tensor t = { send, recv, count, type };

	return staging_call(
		comm,
		&(struct op){ .kind = OP_SCATTER, .root = root, .tensors = &t },
		timeout_ns);
}

int cohort_all_to_all_host(struct cohort_comm *comm, const void *send,
                           void *recv, size_t count, int type,
                           uint64_t timeout_ns)
{
	const struct cohort_tensor t = { send, recv, count, type };

	return staging_call(
		comm, &(struct op){ .kind = OP_ALL_TO_ALL, .tensors = &t },
		timeout_ns);
}

int cohort_send_host(struct cohort_comm *comm, const void *send, size_t count,
                     int type, int peer, uint64_t timeout_ns)
{
	const struct cohort_tensor t = { send, NULL, count, type };

	return staging_call(
		comm,
		&(struct op){ .kind = OP_SEND, .root = peer, .tensors = &t },
		timeout_ns);
}

int cohort_recv_host(struct cohort_comm *comm, void *recv, size_t count,
                     int type, int peer, uint64_t timeout_ns)
{
	const struct cohort_tensor t = { NULL, recv, count, type };

	return staging_call(
		comm,
		&(struct op){ .kind = OP_RECV, .root = peer, .tensors = &t },
		timeout_ns);
}
