/* SPDX-License-Identifier: Apache-2.0 */

#include "core/launch.h"

#include <pthread.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/thread.h"
#include "core/call.h"
#include "core/launch_barrier.h"
#include "core/list_launch.h"
#include "core/native.h"
#include "core/pair.h"
#include "core/split.h"

enum plan launch_plan(const struct cohort_comm *comms, int n,
                      const struct op *ops, bool captured)
{
	if (ops->kind == OP_SPLIT)
		return PLAN_SPLIT;
	if (ops->kind == OP_COPY)
		return PLAN_COPY;
	if (ops->staged)
		return PLAN_STAGED;
	/* If one thread makes the call of several ranks, no rank has a list of
	 * tensors. */
	return n == 1 && ops->n > 1 && list_is_special(comms, ops, captured)
	               ? PLAN_LIST
	               : PLAN_CALLS;
}

/* Make the rank's device current.  If there is only one rank, its device is
 * current already. */
static void make_device_current(const struct cohort_comm *c, int n,
                                struct native_result *r)
{
	if (n > 1 && !r->what) {
		r->rank = c->rank;
		native_record_cuda(
			r, "cudaSetDevice",
			c->clique->platform->cudaSetDevice(c->device));
	}
}

/* Queue a mark for each rank's done or started word.  If the call is being
 * captured, queue none, because the mark would become part of the graph. */
static void mark_all(struct cohort_comm *comms, int n, const struct op *ops,
                     bool done, struct submission *s)
{
	const struct platform *p = comms->clique->platform;
	const uint64_t slot = s->ticket & (comms->clique->slots - 1);
	struct cohort_comm *c;

	for (c = comms; !s->captured && c < comms + n; c++, ops++) {
		make_device_current(c, n, &s->r);
		if (s->r.what)
			return;
		native_record_cuda(&s->r, "cuStreamWriteValue32",
		                   p->mark(ops->stream,
		                           done ? &c->tickets.done[slot]
		                                : &c->tickets.started[slot],
		                           (uint32_t)s->ticket));
	}
}

/* Queue the copies of all ranks.  Once a copy is queued, a failure ends the
 * clique. */
static void copy_all(struct cohort_comm *comms, int n, const struct op *ops,
                     struct submission *s)
{
	const struct platform *p = comms->clique->platform;
	const struct cohort_tensor *t;
	int i;

	for (i = 0; i < n; i++) {
		t = ops[i].tensors;
		make_device_current(&comms[i], n, &s->r);
		if (s->r.what)
			return;
		native_record_cuda(
			&s->r, op_native_name(ops->kind),
			p->cudaMemcpyAsync(t->recv, t->send, t->count,
		                           cudaMemcpyDefault, ops[i].stream));
		s->queued |= !s->r.what && !s->captured;
	}
}

/* Record the event after everything that this rank may have queued, because no
 * mark shows when this work is done.  On a lost device nothing runs, so no
 * event is needed. */
static void set_unmarked(struct cohort_comm *c, int n, const struct op *op)
{
	const struct platform *p = c->clique->platform;
	cudaError_t error = cudaErrorNotReady;

	if (n > 1)
		p->cudaSetDevice(c->device);
	if (!op->staged || !op->staged->is_lost)
		error = p->cudaEventRecord(c->after.event, op->stream);
	c->tickets.unmarked_event = error == cudaSuccess;
	c->tickets.unmarked = !cuda_error_is_sticky(error);
}

/* Mark @ticket as done immediately, because the stream sets no mark for it. */
static void set_done(struct cohort_comm *c, uint64_t ticket)
{
	unsigned slot = ticket & (c->clique->slots - 1);

	/* The release pairs with the acquire in comm_ticket_done().  The second
	 * store is seq_cst, as the device's marks are, so that it precedes any
	 * later load of the clique's state. */
	__atomic_store_n(&c->tickets.started[slot], (uint32_t)ticket,
	                 __ATOMIC_RELEASE);
	__atomic_store_n(&c->tickets.done[slot], (uint32_t)ticket,
	                 __ATOMIC_SEQ_CST);
}

/* After ncclRemoteError, wait for a cause that another process sends, which is
 * more specific. */
static void await_reason(const struct clique *q, ncclResult_t result)
{
	const uint64_t deadline = clock_deadline(NATIVE_REASON_NS);
	struct backoff b = BACKOFF;

	if (result != ncclRemoteError || q->world_size == q->size)
		return;
	while (!cause_or_closing(q->end) && clock_now() < deadline)
		backoff_wait(&b, deadline);
}

/* Set the failure as this thread's error.  Make it the clique's cause as well
 * if work may have been queued or other ranks wait, unless the process is
 * exiting. */
static int fail(struct cohort_comm *c, const struct op *op,
                struct submission *s)
{
	const struct platform *p = c->clique->platform;
	struct cohort_cause cause = {
		.kind = native_verdict(s->r.cuda),
		.rank = s->r.rank,
		.ticket = s->ticket,
		.nccl = (int)s->r.nccl,
		.cuda = (int)s->r.cuda,
	};
	char name[RANK_NAME_SIZE];

	cause.status = s->r.cuda != cudaSuccess
	                       ? native_set_cuda_error(p, s->r.what, s->r.cuda)
	                       : native_set_nccl_error(p, s->r.what, c->native,
	                                               s->r.nccl);
	if (!s->queued || native_is_exit(s->r.cuda))
		return cause.status;
	if (op_is_collective(op))
		cause.collective = atomic_load(&c->agreement.collectives);
	await_reason(c->clique, s->r.nccl);
	clique_fire(c->clique, &cause, "%s%s, %s, ticket %llu: %s",
	            s->r.rank < 0
	                    ? "one of the ranks"
	                    : clique_name_rank(c->clique, s->r.rank, name),
	            cause.kind == COHORT_VERDICT_DEVICE_LOST
	                    ? ", whose device has failed"
	                    : "",
	            op_name_of(op), (unsigned long long)s->ticket,
	            cohort_last_error());
	s->ended = true;
	return cause.status;
}

void launch_end_for_device(struct cohort_comm *c, int status, cudaError_t error,
                           struct submission *s)
{
	const struct cohort_cause cause = {
		.status = status,
		.kind = native_verdict(error),
		.rank = c->rank,
		.cuda = (int)error,
	};
	char name[RANK_NAME_SIZE];

	clique_fire(c->clique, &cause, "%s: %s",
	            clique_name_rank(c->clique, c->rank, name),
	            cohort_last_error());
	s->ended = true;
}

static int launch_split(struct cohort_comm *c, const struct op *op,
                        struct submission *s)
{
	int rc = split_run(c, op->split);

	s->ended = rc != COHORT_OK;
	if (rc == COHORT_OK)
		set_done(c, s->ticket);
	return rc;
}

/* Connect the pairs of ranks that exchange messages in this operation.  The
 * launch would also connect them, but NCCL may then mix up the connection data
 * of two ranks that both send first. */
static int connect_first(struct cohort_comm *comms, int n, const struct op *ops,
                         struct submission *s)
{
	int rc;

	if (op_is_plain(ops) && !op_is_of_messages(ops->kind))
		return COHORT_OK;
	rc = pair_connect(comms, n, ops, &s->r);
	if (!s->r.what)
		return rc;
	s->queued = true;
	return fail(comms, ops, s);
}

int launch(struct cohort_comm *comms, int n, const struct op *ops,
           struct submission *s)
{
	int i, rc;

	s->r.rank = comms->rank;
	rc = connect_first(comms, n, ops, s);
	if (rc != COHORT_OK)
		return rc;
	s->queued = op_is_awaited(ops);
	if (comms->clique->starts_are_marked && s->queued &&
	    s->plan != PLAN_SPLIT)
		mark_all(comms, n, ops, false, s);
	if (!s->r.what)
		switch (s->plan) {
		case PLAN_CALLS:
			call_all(comms, n, ops, &s->r);
			break;
		case PLAN_LIST:
			s->r = list_launch(comms, ops, s->captured);
			break;
		case PLAN_STAGED:
			s->r = staging_launch(comms, ops);
			break;
		case PLAN_COPY:
			copy_all(comms, n, ops, s);
			break;
		case PLAN_SPLIT:
			return launch_split(comms, ops, s);
		}
	mark_all(comms, n, ops, true, s);
	for (i = 0; s->r.what && s->queued && !s->captured && i < n; i++)
		set_unmarked(&comms[i], n, &ops[i]);
	if (s->r.what)
		return fail(comms, ops, s);
	/* A captured call has no mark, because it runs later, and each launch
	 * of the graph would set the mark again. */
	for (i = 0; s->captured && i < n; i++) {
		set_done(&comms[i], s->ticket);
		atomic_fetch_add_explicit(&comms[i].captured, 1,
		                          memory_order_relaxed);
	}
	return COHORT_OK;
}

/* Launch a call on this library thread, because its caller has timed out.
 * @error is the result of cudaSetDevice(). */
static int launch_in_place(struct cohort_comm *c, cudaError_t error,
                           struct submission *s)
{
	int rc = native_set_cuda_error(c->clique->platform, "cudaSetDevice",
	                               error);

	if (rc == COHORT_OK)
		return launch(c, 1, &c->left.op, s);
	if (!native_is_exit(error))
		launch_end_for_device(c, rc, error, s);
	return rc;
}

/* Wait for the other ranks and launch a call in place of its caller, which has
 * timed out.  Main function of a library thread. */
static void *late_main(void *arg)
{
	struct cohort_comm *c = arg;
	struct clique *q = c->clique;
	const cudaError_t error = native_thread_init(q->platform, c->device);
	struct submission s = { .ticket = c->left.ticket, .plan = PLAN_STAGED };
	int rc;

	rc = launch_barrier_await(c, 1, c->left.number, false, COHORT_FOREVER);
	if (rc == COHORT_OK) {
		rc = launch_in_place(c, error, &s);
		launch_barrier_leave(q, 1);
	}
	recorder_end(&c->recorder, s.ticket, rc);
	/* No mark will follow, so set the done word.  This changes no result,
	 * because the snapshot of completed operations already decides about
	 * the ticket.  If something was queued anyway, the reaper waits for the
	 * event. */
	if (rc != COHORT_OK && clique_explained_cause(q))
		set_done(c, s.ticket);
	atomic_store(&c->lock.is_detached, false);
	return NULL;
}

/* Hand the call over to a library thread.  Return false if none can be
 * started. */
static bool detach_call(struct cohort_comm *c, const struct op *op,
                        uint64_t ticket, uint64_t number)
{
	struct detached_call *l = &c->left;
	pthread_t thread;

	staging_copy_in(c, op);
	*l = (struct detached_call){ *op, *op->tensors, *op->staged, ticket,
		                     number };
	l->op.tensors = &l->tensor;
	l->op.staged = &l->staged;
	atomic_store(&c->lock.is_detached, true);
	if (thread_start(&thread, late_main, c, "%.8s/late", c->clique->name)) {
		atomic_store(&c->lock.is_detached, false);
		return false;
	}
	pthread_detach(thread);
	return true;
}

int launch_await(struct cohort_comm *comms, int n, const struct op *ops,
                 struct submission *s)
{
	const uint64_t number = atomic_load_explicit(
		&comms->agreement.collectives, memory_order_relaxed);
	int rc = launch_barrier_await(comms, n, number, s->arrives_last,
	                              staging_deadline(ops));

	if (rc != COHORT_TIMED_OUT)
		return rc;
	s->left = detach_call(comms, ops, s->ticket, number);
	return s->left ? COHORT_OK
	               : launch_barrier_await(comms, n, number, false,
	                                      COHORT_FOREVER);
}
