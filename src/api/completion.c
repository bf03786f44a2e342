/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tickets: asking, waiting, and making streams wait
 *
 * A waiter reads the done word first and the clique's state second.  If the
 * state is LIVE, no abort flag was up when the word was read, so the word can
 * be trusted.  In any later state it cannot, because an aborted operation also
 * "completes": only what was noted as done before any flag was raised counts as
 * done.  The cause itself is returned only when no buffer can be touched any
 * more, so that the caller may free its buffers.
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
#include "core/stream.h"

/* Record that @ticket is done: now if this thread has waited for it, else some
 * time before.  Earlier tickets had ended by then. */
static void note_done(struct cohort_comm *c, uint64_t ticket, bool has_waited)
{
	uint64_t now = clock_now();

	if (!has_waited)
		comm_saw_done(c, ticket, now);
	else if (recorder_observed_end(&c->recorder, ticket, now))
		comm_saw_done(c, ticket - 1, now);
}

/* Record what is seen of @ticket, which is done or not, while the clique is
 * LIVE. */
static void note(struct cohort_comm *c, uint64_t ticket, bool done,
                 bool has_waited)
{
	if (done &&
	    (has_waited || !recorder_has_finished(&c->recorder, ticket)))
		note_done(c, ticket, has_waited);
	else if (!done && !recorder_has_started(&c->recorder, ticket) &&
	         comm_ticket_started(c, ticket))
		recorder_saw_started(&c->recorder, ticket, clock_now());
}

/* Return the ticket's answer, or COHORT_TIMED_OUT if there is none yet.
 * @has_waited: this thread has found the ticket not done just before */
static int ask(struct cohort_comm *c, uint64_t ticket, bool has_waited)
{
	enum clique_state state = clique_update_state(c->clique);
	bool done;

	/* The words may be freed once the clique has ended. */
	if (state == CLIQUE_LIVE) {
		done = comm_ticket_done(c, ticket);
		note(c, ticket, done, has_waited);
		state = clique_update_state(c->clique);
		if (state == CLIQUE_LIVE)
			return done ? COHORT_OK : COHORT_TIMED_OUT;
	}
	if (comm_ticket_was_done(c, ticket))
		return COHORT_OK;
	return clique_end_status(c->clique, state);
}

static int ticket_check(const struct cohort_comm *c, uint64_t ticket)
{
	uint64_t last =
		atomic_load_explicit(&c->tickets.last, memory_order_acquire);

	if (ticket && ticket <= last)
		return COHORT_OK;
	if (ticket == COHORT_CAPTURED)
		return error_set(COHORT_UNSUPPORTED,
		                 "a captured operation cannot be waited for");
	if (!ticket && batch_is_open(c))
		return error_set(COHORT_INVALID,
		                 "ticket is 0: a batch is open on rank %d, "
		                 "and its end gives the ticket",
		                 c->rank);
	return error_set(COHORT_INVALID,
	                 "ticket is %llu, the last of rank %d is %llu",
	                 (unsigned long long)ticket, c->rank,
	                 (unsigned long long)last);
}

/* Help that took longer than this has done some work. */
#define HELPED_NS 20000

/* Help the operation of @ticket for a little, and ask again. */
static int help(struct cohort_comm *c, uint64_t ticket, uint64_t deadline)
{
	comm_ticket_help(c, ticket, deadline);
	return ask(c, ticket, true);
}

/* Wait for a ticket that was not done when last checked.  If helping did some
 * work, the backoff starts over with short pauses. */
static int await_answer(struct cohort_comm *c, uint64_t ticket,
                        uint64_t deadline)
{
	struct backoff b = backoff_among(c->clique->world_size);
	uint64_t from, now = clock_now();
	int rc = COHORT_TIMED_OUT;

	while (rc == COHORT_TIMED_OUT && now < deadline) {
		backoff_wait(&b, deadline);
		rc = ask(c, ticket, true);
		if (rc != COHORT_TIMED_OUT)
			break;
		from = clock_now();
		rc = help(c, ticket, deadline);
		now = clock_now();
		if (now - from > HELPED_NS)
			b = backoff_among(c->clique->world_size);
	}
	return rc;
}

/* Wait for a ticket that was not done at the first look. */
static int await_rest(struct cohort_comm *c, uint64_t ticket, uint64_t deadline)
{
	int rc = help(c, ticket, deadline);

	if (rc != COHORT_TIMED_OUT)
		return rc;
	/* This wait is long enough to be counted. */
	atomic_fetch_add_explicit(&c->thread.waits, 1, memory_order_relaxed);
	rc = await_answer(c, ticket, deadline);
	atomic_fetch_add_explicit(&c->thread.waits_ended, 1,
	                          memory_order_relaxed);
	/* A poll needs no text. */
	if (rc == COHORT_TIMED_OUT && deadline)
		error_set(rc, "ticket %llu of rank %d is not done yet",
		          (unsigned long long)ticket, c->rank);
	return rc;
}

/* The answer now. */
static int ask_first(struct cohort_comm *c, uint64_t ticket)
{
	int rc = ticket_check(c, ticket);

	return rc == COHORT_OK ? ask(c, ticket, false) : rc;
}

int comm_await(struct cohort_comm *c, uint64_t ticket, uint64_t deadline)
{
	int rc = ask_first(c, ticket);

	return rc == COHORT_TIMED_OUT ? await_rest(c, ticket, deadline) : rc;
}

int comm_carry_on(struct cohort_comm *c, uint64_t ticket, uint64_t until)
{
	int rc = ask_first(c, ticket);

	return rc == COHORT_TIMED_OUT ? help(c, ticket, until) : rc;
}

void comm_flush(struct cohort_comm *c)
{
	c->clique->platform->flush(c->device, c->stream);
}

int comm_await_all(struct cohort_comm *c, uint64_t deadline)
{
	uint64_t last =
		atomic_load_explicit(&c->tickets.last, memory_order_acquire);
	uint64_t known = atomic_load_explicit(&c->tickets.all_done,
	                                      memory_order_relaxed);
	uint64_t ticket = last > c->clique->slots ? last - c->clique->slots : 0;
	int rc = COHORT_OK;

	/* On different streams, any ticket may be the last to be done.  Tickets
	 * whose slot was taken again are done. */
	ticket = MAX(ticket, known);
	while (rc == COHORT_OK && ticket < last)
		rc = comm_await(c, ++ticket, deadline);
	if (rc == COHORT_OK)
		atomic_store_explicit(&c->tickets.all_done, last,
		                      memory_order_relaxed);
	return rc;
}

int cohort_wait(struct cohort_comm *comm, uint64_t ticket, uint64_t timeout_ns)
{
	int rc = comm_check(comm);

	if (rc == COHORT_OK)
		rc = ask_first(comm, ticket);
	/* The clock is read only if there is something to wait for. */
	if (rc == COHORT_TIMED_OUT)
		rc = await_rest(comm, ticket,
		                timeout_ns ? clock_deadline(timeout_ns) : 0);
	return rc;
}

int cohort_synchronize(struct cohort_comm *comm, uint64_t timeout_ns)
{
	int rc = comm_check(comm);

	return rc == COHORT_OK
	               ? comm_await_all(comm, clock_deadline(timeout_ns))
	               : rc;
}

/* ---- streams ---------------------------------------------------------- */

/*
 * CUDA does not see an order that stream memory operations impose, and may
 * schedule streams so that they deadlock: its documentation asks for events,
 * too.  An event waits for everything queued on its stream, so it is used for
 * the last ticket only; what follows an earlier one may itself have to wait for
 * @stream.  It is used on the communicator's own stream only, as the program
 * may have destroyed any other.
 */
static int await_event(const struct cohort_comm *c, uint64_t ticket,
                       void *stream)
{
	const struct platform *p = c->clique->platform;
	struct record r;
	int rc;

	if (ticket != atomic_load_explicit(&c->tickets.last,
	                                   memory_order_relaxed) ||
	    ticket == c->tickets.last_behind ||
	    !recorder_read(&c->recorder, ticket, &r) || r.captured ||
	    r.stream != c->stream || stream == c->stream)
		return COHORT_OK;
	rc = native_set_cuda_error(p, "cudaEventRecord",
	                           p->cudaEventRecord(c->after.event,
	                                              c->stream));
	if (rc == COHORT_OK)
		rc = native_set_cuda_error(
			p, "cudaStreamWaitEvent",
			p->cudaStreamWaitEvent(stream, c->after.event, 0));
	return rc;
}

/* The communicator's own stream waits for something else behind its last
 * ticket. */
static void note_behind(struct cohort_comm *c)
{
	c->tickets.last_behind =
		atomic_load_explicit(&c->tickets.last, memory_order_relaxed);
}

/* Queue the wait, followed by a mark that shows when the wait is over. */
static int await_mark(struct cohort_comm *c, uint64_t ticket, void *stream)
{
	const struct platform *p = c->clique->platform;
	uint32_t *word = &c->tickets.done[ticket & (c->clique->slots - 1)];
	uint32_t k = c->after.count + 1;
	uint32_t *after = &c->after.words[k % AFTER_WORDS];
	int rc;

	if (k > AFTER_WORDS &&
	    __atomic_load_n(after, __ATOMIC_ACQUIRE) != k - AFTER_WORDS)
		c->after.have_lost = true;
	rc = native_set_cuda_error(
		p, "await_mark", p->await_mark(stream, word, (uint32_t)ticket));
	if (rc != COHORT_OK)
		return rc;
	c->after.count = k;
	if (stream == c->stream)
		note_behind(c);
	if (p->mark(stream, after, k) != cudaSuccess)
		c->after.have_lost = true;
	return COHORT_OK;
}

static int await_ticket(struct cohort_comm *c, uint64_t ticket, void *stream)
{
	struct device_scope scope;
	int rc = stream_check(c, stream, -1);

	if (rc == COHORT_OK)
		rc = device_enter(&scope, c->clique->platform, c->device);
	if (rc != COHORT_OK)
		return rc;
	rc = capture_refuse(c->clique->platform, stream, "stream_after");
	if (rc == COHORT_OK && !comm_ticket_done(c, ticket)) {
		rc = await_event(c, ticket, stream);
		if (rc == COHORT_OK)
			rc = await_mark(c, ticket, stream);
	}
	device_leave(&scope);
	return rc;
}

int cohort_stream_after(struct cohort_comm *comm, uint64_t ticket, void *stream)
{
	int rc = comm_check(comm);

	if (rc == COHORT_OK)
		rc = ticket_check(comm, ticket);
	if (rc == COHORT_OK)
		rc = comm_enter(comm, false);
	if (rc != COHORT_OK)
		return rc;
	rc = await_ticket(comm, ticket, stream);
	comm_leave(comm);
	return rc;
}

static int await_stream(struct cohort_comm *c, void *stream)
{
	const struct platform *p = c->clique->platform;
	struct device_scope scope;
	int rc = stream_check(c, stream, -1);

	if (rc == COHORT_OK)
		rc = device_enter(&scope, p, c->device);
	if (rc != COHORT_OK)
		return rc;
	rc = capture_refuse(p, stream, "after_stream");
	if (rc == COHORT_OK)
		rc = capture_refuse(p, c->stream, "after_stream");
	if (rc == COHORT_OK)
		rc = native_set_cuda_error(p, "cudaEventRecord",
		                           p->cudaEventRecord(c->after.event,
		                                              stream));
	if (rc == COHORT_OK)
		rc = native_set_cuda_error(
			p, "cudaStreamWaitEvent",
			p->cudaStreamWaitEvent(c->stream, c->after.event, 0));
	if (rc == COHORT_OK)
		note_behind(c);
	device_leave(&scope);
	return rc;
}

int cohort_after_stream(struct cohort_comm *comm, void *stream)
{
	int rc = comm_check(comm);

	if (rc == COHORT_OK)
		rc = comm_enter(comm, false);
	if (rc != COHORT_OK)
		return rc;
	rc = await_stream(comm, stream);
	comm_leave(comm);
	return rc;
}
