/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes calls on host memory: copies in, runs the operation, copies out, waits
 */

#include "api/communicator.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/util.h"
#include "core/batch.h"
#include "core/capture.h"
#include "core/comm_lock.h"
#include "core/native.h"
#include "core/submit.h"

/* Maximum time to run one stream's work before turning to the next. */
#define HELP_NS UINT64_C(20000)

static int reserve(struct cohort_comm *c)
{
	int rc = comm_enter(c, true);

	if (rc != COHORT_OK)
		return rc;
	comm_reserve(c);
	comm_leave(c);
	return COHORT_OK;
}

/* Wait for an earlier host-memory call that has timed out and still uses the
 * staging memory. */
static int await_former(struct cohort_comm *c, const struct op *op,
                        uint64_t deadline)
{
	struct staging *g = &c->staging;
	int rc = comm_await(c, g->ticket, deadline);

	if (rc == COHORT_TIMED_OUT)
		return error_set(COHORT_BUSY,
		                 "%s: an earlier call with host memory, ticket "
		                 "%llu of rank %d, has timed out and is still "
		                 "running",
		                 op_name_of(op), (unsigned long long)g->ticket,
		                 c->rank);
	if (rc == COHORT_OK)
		g->ticket = 0;
	return rc;
}

static int prepare(struct cohort_comm *c, const struct op *op)
{
	struct device_scope scope;
	bool captured;
	int rc;

	rc = comm_enter_on_device(c, false, &scope);
	if (rc != COHORT_OK)
		return rc;
	/* Refuse a captured stream before any memory is checked or
	 * allocated. */
	rc = capture_check(c, 1, op, &captured);
	if (rc == COHORT_OK)
		rc = staging_prepare(c, op, op->staged);
	comm_leave_on_device(c, &scope);
	return rc;
}

/* Run queued work of the call's streams, if the platform needs a thread for
 * that.  The last stream waits for the earlier ones. */
static void run_queued(struct cohort_comm *c, const struct op *op, size_t k,
                       uint64_t deadline)
{
	const struct platform *p = c->clique->platform;
	const struct staging *g = &c->staging;
	const cudaStream_t streams[] = { g->in, op->stream, g->out };
	uint64_t until;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(streams); i++) {
		until = clock_deadline(HELP_NS);
		p->progress(c->device, streams[i], &g->words[k],
		            op->staged->number, MIN(until, deadline));
	}
}

/* Wait until chunk @k has been copied back to the staging memory, or the clique
 * has a cause. */
static int await_chunk(struct cohort_comm *c, const struct op *op, size_t k,
                       uint64_t deadline)
{
	const struct staged *s = op->staged;
	struct backoff b = backoff_among(c->clique->world_size);

	while (!staging_is_copied_back(c, s, k)) {
		if (clique_cause(c->clique))
			return COHORT_ABORTED;
		run_queued(c, op, k, deadline);
		if (staging_is_copied_back(c, s, k))
			break;
		if (clock_now() >= deadline)
			return error_set(COHORT_TIMED_OUT,
			                 "%s of rank %d is not done yet",
			                 op_name_of(op), c->rank);
		backoff_wait(&b, deadline);
	}
	return COHORT_OK;
}

static bool copies_out(const struct staged *s)
{
	return !s->recvs_direct && s->recv_blocks;
}

/* Copy each chunk from number @k on to the caller's memory as soon as it is in
 * the staging memory; copy the last one once the ticket is done.  If the caller
 * times out, remember the call. */
static int finish(struct cohort_comm *c, const struct op *op, size_t k,
                  uint64_t deadline)
{
	struct staging *g = &c->staging;
	const struct staged *s = op->staged;
	const bool copies = copies_out(s);
	int rc = COHORT_OK;

	for (; copies && k + 1 < s->chunks; k++) {
		rc = await_chunk(c, op, k, deadline);
		if (rc != COHORT_OK)
			break;
		staging_copy_out(c, op, k);
	}
	if (rc == COHORT_TIMED_OUT)
		atomic_store_explicit(&c->thread.timed_out, g->ticket,
		                      memory_order_relaxed);
	else
		/* After a cause, the ticket's status shows whether the
		 * operation was done before the cause. */
		rc = comm_await(c, g->ticket, deadline);
	for (; copies && rc == COHORT_OK && k < s->chunks; k++)
		staging_copy_out(c, op, k);
	if (rc != COHORT_TIMED_OUT) {
		g->ticket = 0;
		return rc;
	}
	g->late.op = *op;
	g->late.tensor = *op->tensors;
	g->late.staged = *s;
	g->late.copied = k;
	return rc;
}

/* Run the call in the staging memory, which the caller has reserved. */
static int run(struct cohort_comm *c, struct op *op, uint64_t timeout_ns)
{
	struct staging *g = &c->staging;
	struct staged s = {
		.timeout_ns = timeout_ns,
		.deadline_ns = clock_deadline(timeout_ns),
	};
	uint64_t ticket;
	int rc = COHORT_OK;

	if (g->ticket)
		rc = await_former(c, op, s.deadline_ns);
	if (rc != COHORT_OK)
		return rc;
	op->staged = &s;
	rc = prepare(c, op);
	if (rc == COHORT_OK)
		rc = submit(c, 1, op, &ticket);
	if (rc != COHORT_OK)
		return rc;
	g->ticket = ticket;
	return finish(c, op, 0, s.deadline_ns);
}

static int refuse_batch(const struct cohort_comm *c, const struct op *op)
{
	return error_set(COHORT_STATE,
	                 "%s: a batch is open on rank %d, and calls that wait "
	                 "cannot be part of it",
	                 op_name_of(op), c->rank);
}

/*
 * Run @op on one tensor, on the communicator's own stream, and wait until it is
 * done.  A communicator runs one such call at a time.  After COHORT_TIMED_OUT
 * the operation continues in the staging memory, and the next call that needs
 * this memory waits for it.
 */
static int call_on_host(struct cohort_comm *c, struct op *op,
                        const struct cohort_tensor *tensor, uint64_t timeout_ns)
{
	uint64_t ticket;
	int rc = comm_check(c);

	if (rc != COHORT_OK)
		return rc;
	op->from_host = true;
	op->tensors = tensor;
	op->n = 1;
	op->stream = c->stream;
	if (batch_is_open(c))
		return refuse_batch(c, op);
	/* Work directly on the caller's memory, as if it were device memory. */
	if (timeout_ns == COHORT_FOREVER &&
	    c->clique->platform->memory_is_host &&
	    c->clique->platform->is_one_process && op_is_aligned(op)) {
		rc = submit(c, 1, op, &ticket);
		if (rc == COHORT_OK)
			rc = comm_await(c, ticket, timeout_ns);
		comm_unreserve(c);
		return rc;
	}
	rc = op_check(op, c->rank, c->clique->world_size);
	if (rc == COHORT_OK)
		rc = reserve(c);
	if (rc != COHORT_OK)
		return rc;
	rc = run(c, op, timeout_ns);
	comm_unreserve(c);
	return rc;
}

int cohort_all_reduce_host(struct cohort_comm *comm, void *data, size_t count,
                           int type, int op, uint64_t timeout_ns)
{
	return call_on_host(comm,
	                    &(struct op){ .kind = OP_ALL_REDUCE, .redop = op },
	                    &(struct cohort_tensor){ data, data, count, type },
	                    timeout_ns);
}

int cohort_broadcast_host(struct cohort_comm *comm, void *data, size_t count,
                          int type, int root, uint64_t timeout_ns)
{
	return call_on_host(comm,
	                    &(struct op){ .kind = OP_BROADCAST, .root = root },
	                    &(struct cohort_tensor){ data, data, count, type },
	                    timeout_ns);
}

int cohort_reduce_host(struct cohort_comm *comm, void *data, size_t count,
                       int type, int op, int root, uint64_t timeout_ns)
{
	return call_on_host(
		comm,
		&(struct op){ .kind = OP_REDUCE, .redop = op, .root = root },
		&(struct cohort_tensor){ data, data, count, type }, timeout_ns);
}

int cohort_all_gather_host(struct cohort_comm *comm, const void *send,
                           void *recv, size_t count, int type,
                           uint64_t timeout_ns)
{
	return call_on_host(comm, &(struct op){ .kind = OP_ALL_GATHER },
	                    &(struct cohort_tensor){ send, recv, count, type },
	                    timeout_ns);
}

int cohort_reduce_scatter_host(struct cohort_comm *comm, const void *send,
                               void *recv, size_t count, int type, int op,
                               uint64_t timeout_ns)
{
	return call_on_host(
		comm, &(struct op){ .kind = OP_REDUCE_SCATTER, .redop = op },
		&(struct cohort_tensor){ send, recv, count, type }, timeout_ns);
}

int cohort_gather_host(struct cohort_comm *comm, const void *send, void *recv,
                       size_t count, int type, int root, uint64_t timeout_ns)
{
	return call_on_host(comm,
	                    &(struct op){ .kind = OP_GATHER, .root = root },
	                    &(struct cohort_tensor){ send, recv, count, type },
	                    timeout_ns);
}

int cohort_scatter_host(struct cohort_comm *comm, const void *send, void *recv,
                        size_t count, int type, int root, uint64_t timeout_ns)
{
	return call_on_host(comm,
	                    &(struct op){ .kind = OP_SCATTER, .root = root },
	                    &(struct cohort_tensor){ send, recv, count, type },
	                    timeout_ns);
}

int cohort_all_to_all_host(struct cohort_comm *comm, const void *send,
                           void *recv, size_t count, int type,
                           uint64_t timeout_ns)
{
	return call_on_host(comm, &(struct op){ .kind = OP_ALL_TO_ALL },
	                    &(struct cohort_tensor){ send, recv, count, type },
	                    timeout_ns);
}

int cohort_send_host(struct cohort_comm *comm, const void *send, size_t count,
                     int type, int peer, uint64_t timeout_ns)
{
	return call_on_host(comm, &(struct op){ .kind = OP_SEND, .root = peer },
	                    &(struct cohort_tensor){ send, NULL, count, type },
	                    timeout_ns);
}

int cohort_recv_host(struct cohort_comm *comm, void *recv, size_t count,
                     int type, int peer, uint64_t timeout_ns)
{
	return call_on_host(comm, &(struct op){ .kind = OP_RECV, .root = peer },
	                    &(struct cohort_tensor){ NULL, recv, count, type },
	                    timeout_ns);
}

/* Wait again for the call whose caller has timed out. */
static int wait_again(struct cohort_comm *c, void *recv, size_t bytes,
                      uint64_t timeout_ns)
{
	struct staging *g = &c->staging;
	const struct staged *s = &g->late.staged;
	struct op op = g->late.op;
	const size_t output =
		s->recv_blocks * g->late.tensor.count * s->element;

	if (!g->ticket)
		return error_set(
			COHORT_STATE,
			"no call with host memory of rank %d has timed "
			"out since the last one was done",
			c->rank);
	if (output && (bytes != output || !recv))
		return error_set(COHORT_INVALID,
		                 "recv has %zu bytes, but the output of %s on "
		                 "rank %d has %zu",
		                 recv ? bytes : 0, op_name_of(&op), c->rank,
		                 output);
	g->late.tensor.recv = recv;
	op.tensors = &g->late.tensor;
	op.staged = &g->late.staged;
	return finish(c, &op, g->late.copied, clock_deadline(timeout_ns));
}

int cohort_wait_host(struct cohort_comm *comm, void *recv, size_t bytes,
                     uint64_t timeout_ns)
{
	int rc = comm_check(comm);

	if (rc == COHORT_OK)
		rc = reserve(comm);
	if (rc != COHORT_OK)
		return rc;
	rc = wait_again(comm, recv, bytes, timeout_ns);
	comm_unreserve(comm);
	return rc;
}
