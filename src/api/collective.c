/* SPDX-License-Identifier: Apache-2.0 */

/* Collectives, sends, receives, copies and batches: each fills in a struct op
 * and submits it */

#include "api/communicator.h"
#include "base/status.h"
#include "core/batch.h"
#include "core/comm_lock.h"
#include "core/submit.h"

int cohort_all_reduce(struct cohort_comm *comm, const void *send, void *recv,
                      size_t count, int type, int op, void *stream,
                      uint64_t *ticket)
{
	const struct cohort_tensor t = { send, recv, count, type };
	const struct op call = { .kind = OP_ALL_REDUCE,
		                 .redop = op,
		                 .stream = stream,
		                 .tensors = &t,
		                 .n = 1 };

	return submit(comm, 1, &call, ticket);
}

int cohort_broadcast(struct cohort_comm *comm, const void *send, void *recv,
                     size_t count, int type, int root, void *stream,
                     uint64_t *ticket)
{
	const struct cohort_tensor t = { send, recv, count, type };
	const struct op call = { .kind = OP_BROADCAST,
		                 .root = root,
		                 .stream = stream,
		                 .tensors = &t,
		                 .n = 1 };

	return submit(comm, 1, &call, ticket);
}

int cohort_reduce(struct cohort_comm *comm, const void *send, void *recv,
                  size_t count, int type, int op, int root, void *stream,
                  uint64_t *ticket)
{
	const struct cohort_tensor t = { send, recv, count, type };
	const struct op call = { .kind = OP_REDUCE,
		                 .redop = op,
		                 .root = root,
		                 .stream = stream,
		                 .tensors = &t,
		                 .n = 1 };

	return submit(comm, 1, &call, ticket);
}

int cohort_all_gather(struct cohort_comm *comm, const void *send, void *recv,
                      size_t count, int type, void *stream, uint64_t *ticket)
{
	const struct cohort_tensor t = { send, recv, count, type };
	const struct op call = {
		.kind = OP_ALL_GATHER, .stream = stream, .tensors = &t, .n = 1
	};

	return submit(comm, 1, &call, ticket);
}

int cohort_reduce_scatter(struct cohort_comm *comm, const void *send,
                          void *recv, size_t count, int type, int op,
                          void *stream, uint64_t *ticket)
{
	const struct cohort_tensor t = { send, recv, count, type };
	const struct op call = { .kind = OP_REDUCE_SCATTER,
		                 .redop = op,
		                 .stream = stream,
		                 .tensors = &t,
		                 .n = 1 };

	return submit(comm, 1, &call, ticket);
}

int cohort_gather(struct cohort_comm *comm, const void *send, void *recv,
                  size_t count, int type, int root, void *stream,
                  uint64_t *ticket)
{
	const struct cohort_tensor t = { send, recv, count, type };
	const struct op call = { .kind = OP_GATHER,
		                 .root = root,
		                 .stream = stream,
		                 .tensors = &t,
		                 .n = 1 };

	return submit(comm, 1, &call, ticket);
}

int cohort_scatter(struct cohort_comm *comm, const void *send, void *recv,
                   size_t count, int type, int root, void *stream,
                   uint64_t *ticket)
{
	const struct cohort_tensor t = { send, recv, count, type };
	const struct op call = { .kind = OP_SCATTER,
		                 .root = root,
		                 .stream = stream,
		                 .tensors = &t,
		                 .n = 1 };

	return submit(comm, 1, &call, ticket);
}

int cohort_all_to_all(struct cohort_comm *comm, const void *send, void *recv,
                      size_t count, int type, void *stream, uint64_t *ticket)
{
	const struct cohort_tensor t = { send, recv, count, type };
	const struct op call = {
		.kind = OP_ALL_TO_ALL, .stream = stream, .tensors = &t, .n = 1
	};

	return submit(comm, 1, &call, ticket);
}

int cohort_send(struct cohort_comm *comm, const void *send, size_t count,
                int type, int peer, void *stream, uint64_t *ticket)
{
	const struct cohort_tensor t = { send, NULL, count, type };
	const struct op call = { .kind = OP_SEND,
		                 .root = peer,
		                 .stream = stream,
		                 .tensors = &t,
		                 .n = 1 };

	return submit(comm, 1, &call, ticket);
}

int cohort_recv(struct cohort_comm *comm, void *recv, size_t count, int type,
                int peer, void *stream, uint64_t *ticket)
{
	const struct cohort_tensor t = { NULL, recv, count, type };
	const struct op call = { .kind = OP_RECV,
		                 .root = peer,
		                 .stream = stream,
		                 .tensors = &t,
		                 .n = 1 };

	return submit(comm, 1, &call, ticket);
}

/* A barrier is an all-reduce of one element, because an empty all-reduce does
 * nothing in NCCL, and would not wait for the other ranks. */
int cohort_barrier(struct cohort_comm *comm, void *stream, uint64_t *ticket)
{
	struct cohort_tensor t = { .count = 1, .type = COHORT_I32 };
	const struct op call = { .kind = OP_BARRIER,
		                 .redop = COHORT_SUM,
		                 .stream = stream,
		                 .tensors = &t,
		                 .n = 1 };
	int rc = comm_check(comm);

	if (rc != COHORT_OK)
		return rc;
	t.send = t.recv = comm->barrier;
	return submit(comm, 1, &call, ticket);
}

int cohort_all_reduce_many(struct cohort_comm *comm,
                           const struct cohort_tensor *tensors, size_t n,
                           int op, void *stream, uint64_t *ticket)
{
	const struct op call = { .kind = OP_ALL_REDUCE,
		                 .redop = op,
		                 .stream = stream,
		                 .tensors = tensors,
		                 .n = n };

	return submit(comm, 1, &call, ticket);
}

int cohort_broadcast_many(struct cohort_comm *comm,
                          const struct cohort_tensor *tensors, size_t n,
                          int root, void *stream, uint64_t *ticket)
{
	const struct op call = { .kind = OP_BROADCAST,
		                 .root = root,
		                 .stream = stream,
		                 .tensors = tensors,
		                 .n = n };

	return submit(comm, 1, &call, ticket);
}

int cohort_copy(struct cohort_comm *comm, void *dst, const void *src,
                size_t bytes, void *stream)
{
	const struct cohort_tensor t = { src, dst, bytes, COHORT_U8 };
	const struct op call = {
		.kind = OP_COPY, .stream = stream, .tensors = &t, .n = 1
	};

	if (bytes && (!dst || !src))
		return error_set(COHORT_INVALID,
		                 "copy: %s is NULL, but bytes is %zu",
		                 dst ? "src" : "dst", bytes);
	return submit(comm, 1, &call, NULL);
}

int cohort_batch_begin(struct cohort_comm *comm)
{
	int rc = comm_check(comm);

	if (rc == COHORT_OK)
		rc = comm_enter(comm, false);
	if (rc != COHORT_OK)
		return rc;
	rc = batch_begin(comm);
	comm_leave(comm);
	return rc;
}

int cohort_batch_end(struct cohort_comm *comm, void *stream, uint64_t *ticket)
{
	struct op op;
	int rc = comm_check(comm);

	if (rc == COHORT_OK)
		rc = batch_check(comm);
	if (rc != COHORT_OK)
		return rc;
	rc = batch_end(comm, stream, &op);
	if (rc == COHORT_OK)
		rc = submit(comm, 1, &op, ticket);
	/* After COHORT_BUSY or COHORT_OWNER, another thread holds the lock or
	 * owns the rank.  The batch then stays open, so that the caller can try
	 * again. */
	if (rc != COHORT_BUSY && rc != COHORT_OWNER)
		batch_drop(comm);
	return rc;
}
