/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tickets: asking, waiting, and making streams wait
 *
 * A waiter reads the done word first and the cause second.  Without a cause,
 * done is done.  With one, only what was done before any abort flag was raised
 * is: an aborted operation also "completes".  The cause itself is told only
 * when no buffer can be touched any more, so that the caller may free them.
 */

#include "api/comm.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "core/native.h"
#include "core/submit.h"

/* The answer now, COHORT_TIMED_OUT: there is none yet. */
static int ask(struct cohort_comm *c, uint64_t ticket)
{
	struct clique *q = c->clique;
	bool done = comm_ticket_done(c, ticket);

	if (!clique_cause(q))
		return done ? COHORT_OK : COHORT_TIMED_OUT;
	/* Acquire: pairs with the release in take_snapshot(). */
	if (atomic_load_explicit(&q->snapshot, memory_order_acquire) &&
	    comm_ticket_was_done(c, ticket))
		return COHORT_OK;
	return clique_answer(q);
}

static int ticket_check(const struct cohort_comm *c, uint64_t ticket)
{
	uint64_t last = atomic_load_explicit(&c->last, memory_order_acquire);

	if (ticket && ticket <= last)
		return COHORT_OK;
	return error_set(COHORT_INVALID,
	                 "ticket is %llu, the last of rank %d is %llu",
	                 (unsigned long long)ticket, c->rank,
	                 (unsigned long long)last);
}

int comm_await(struct cohort_comm *c, uint64_t ticket, uint64_t deadline)
{
	struct backoff b = BACKOFF;
	int rc = ticket_check(c, ticket);

	if (rc != COHORT_OK)
		return rc;
	for (;;) {
		rc = ask(c, ticket);
		if (rc != COHORT_TIMED_OUT)
			return rc;
		c->clique->platform->progress(
			recorder_stream(&c->recorder, ticket));
		rc = ask(c, ticket);
		if (rc != COHORT_TIMED_OUT || clock_now() >= deadline)
			return rc;
		backoff_wait(&b, deadline);
	}
}

int comm_await_all(struct cohort_comm *c, uint64_t deadline)
{
	uint64_t last = atomic_load_explicit(&c->last, memory_order_acquire);
	uint64_t ticket = last > c->clique->slots ? last - c->clique->slots : 0;
	int rc = COHORT_OK;

	/* Streams differ, so that any of them may be the last to be done; those
	 * whose slot was taken again are. */
	while (rc == COHORT_OK && ticket < last)
		rc = comm_await(c, ++ticket, deadline);
	return rc;
}

int cohort_wait(struct cohort_comm *comm, uint64_t ticket, uint64_t timeout_ns)
{
	int rc = comm_check(comm);

	return rc == COHORT_OK
	               ? comm_await(comm, ticket, clock_deadline(timeout_ns))
	               : rc;
}

int cohort_synchronize(struct cohort_comm *comm, uint64_t timeout_ns)
{
	int rc = comm_check(comm);

	return rc == COHORT_OK
	               ? comm_await_all(comm, clock_deadline(timeout_ns))
	               : rc;
}

/* ---- streams ---------------------------------------------------------- */

static int await_mark(struct cohort_comm *c, uint64_t ticket, void *stream)
{
	const struct platform *p = c->clique->platform;
	uint32_t *word = &c->done[ticket & (c->clique->slots - 1)];
	struct device_scope scope;
	int rc;

	if (comm_ticket_done(c, ticket))
		return COHORT_OK;
	rc = device_enter(&scope, p, c->device);
	if (rc != COHORT_OK)
		return rc;
	rc = native_cuda(p, "await_mark",
	                 p->await_mark(stream, word, (uint32_t)ticket));
	device_leave(&scope);
	return rc;
}

int cohort_stream_after(struct cohort_comm *comm, uint64_t ticket, void *stream)
{
	int rc = comm_check(comm);

	if (rc == COHORT_OK)
		rc = ticket_check(comm, ticket);
	if (rc == COHORT_OK)
		rc = gate_enter(comm, false);
	if (rc != COHORT_OK)
		return rc;
	rc = await_mark(comm, ticket, stream);
	gate_leave(comm);
	return rc;
}

static int await_stream(struct cohort_comm *c, void *stream)
{
	const struct platform *p = c->clique->platform;
	struct device_scope scope;
	int rc = device_enter(&scope, p, c->device);

	if (rc != COHORT_OK)
		return rc;
	rc = native_cuda(p, "cudaEventRecord",
	                 p->cudaEventRecord(c->event, stream));
	if (rc == COHORT_OK)
		rc = native_cuda(p, "cudaStreamWaitEvent",
		                 p->cudaStreamWaitEvent(c->stream, c->event,
		                                        0));
	device_leave(&scope);
	return rc;
}

int cohort_after_stream(struct cohort_comm *comm, void *stream)
{
	int rc = comm_check(comm);

	if (rc == COHORT_OK)
		rc = gate_enter(comm, false);
	if (rc != COHORT_OK)
		return rc;
	rc = await_stream(comm, stream);
	gate_leave(comm);
	return rc;
}
