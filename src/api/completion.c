/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks tickets, waits for them, and makes streams wait for them
 *
 * A waiter reads the done word first and the clique's state second.  If the
 * state is LIVE, no abort flag was up when the word was read, so the word can
 * be trusted.  In any later state the word cannot be trusted, because an
 * aborted operation also "completes".  Then only operations in the snapshot of
 * completions, which is taken before any flag is raised, count as done.  A
 * waiter gets the cause only after no operation can access a buffer, so that it
 * may free its buffers.
 */

#include "api/communicator.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "base/util.h"
#include "core/batch.h"
#include "core/capture.h"
#include "core/comm_lock.h"
#include "core/native.h"
#include "core/stream.h"

/* Record the current time as the time at which @ticket was done.  It is exact
 * if this thread waited for the ticket, otherwise an upper bound.  Also record
 * it as an upper bound for earlier tickets that are done. */
static void record_done(struct cohort_comm *c, uint64_t ticket, bool has_waited)
{
	uint64_t now = clock_now();

	if (!has_waited)
		comm_record_done(c, ticket, now);
	else if (recorder_observed_end(&c->recorder, ticket, now))
		comm_record_done(c, ticket - 1, now);
}

/* Record in the flight recorder that @ticket has started or, if @done, that it
 * is done, unless this is recorded already.  May be called only while the
 * clique is LIVE. */
static void record_event(struct cohort_comm *c, uint64_t ticket, bool done,
                         bool has_waited)
{
	if (done &&
	    (has_waited || !recorder_has_finished(&c->recorder, ticket)))
		record_done(c, ticket, has_waited);
	else if (!done && !recorder_has_started(&c->recorder, ticket) &&
	         comm_ticket_started(c, ticket))
		recorder_set_started(&c->recorder, ticket, clock_now());
}

/* Return the status of @ticket's operation, or COHORT_TIMED_OUT if it is not
 * done.
 * @has_waited: true if this thread has just seen that the operation was not
 *              done */
static int check_status(struct cohort_comm *c, uint64_t ticket, bool has_waited)
{
	enum clique_state state = clique_update_state(c->clique);
	bool done;

	/* The done words may be freed once the clique has ended. */
	if (state == CLIQUE_LIVE) {
		done = comm_ticket_done(c, ticket);
		record_event(c, ticket, done, has_waited);
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
		                 "ticket is COHORT_CAPTURED: a captured "
		                 "operation has no ticket (wait for the stream "
		                 "on which its graph runs)");
	if (!ticket && batch_is_open(c))
		return error_set(COHORT_INVALID,
		                 "ticket is 0: a batch is open on rank %d; "
		                 "cohort_batch_end() returns its ticket",
		                 c->rank);
	return error_set(COHORT_INVALID,
	                 "ticket is %llu, but the last ticket of rank %d is "
	                 "%llu",
	                 (unsigned long long)ticket, c->rank,
	                 (unsigned long long)last);
}

/* If comm_ticket_progress() takes longer than this, there was work to run. */
#define HELPED_NS 20000

/* Run queued work of @ticket's operation until it is done or @deadline has
 * passed, if the platform supports this.  Then check the operation again. */
static int run_queued(struct cohort_comm *c, uint64_t ticket, uint64_t deadline)
{
	comm_ticket_progress(c, ticket, deadline);
	return check_status(c, ticket, true);
}

/* Wait for a ticket that was not done when last checked.  Restart the backoff
 * with short pauses whenever this thread has run queued work. */
static int await_answer(struct cohort_comm *c, uint64_t ticket,
                        uint64_t deadline)
{
	struct backoff b = backoff_among(c->clique->world_size);
	uint64_t from, now = clock_now();
	int rc = COHORT_TIMED_OUT;

	while (rc == COHORT_TIMED_OUT && now < deadline) {
		backoff_wait(&b, deadline);
		rc = check_status(c, ticket, true);
		if (rc != COHORT_TIMED_OUT)
			break;
		from = clock_now();
		rc = run_queued(c, ticket, deadline);
		now = clock_now();
		if (now - from > HELPED_NS)
			b = backoff_among(c->clique->world_size);
	}
	return rc;
}

/* Return true if the rank is bound to another thread, through this communicator
 * or one that it was split from. */
static bool is_helper(const struct cohort_comm *c)
{
	while (c->above && !atomic_load(&c->lock.owner))
		c = c->above;
	return atomic_load(&c->lock.owner) &&
	       atomic_load(&c->lock.owner_tid) != thread_id();
}

static int await_rest(struct cohort_comm *c, uint64_t ticket, uint64_t deadline)
{
	int rc = run_queued(c, ticket, deadline);
	bool helps;

	if (rc != COHORT_TIMED_OUT)
		return rc;
	helps = is_helper(c);
	/* Count only waits that do not end immediately. */
	atomic_fetch_add_explicit(&c->thread.waits, 1, memory_order_relaxed);
	if (helps) {
		atomic_fetch_add(&c->thread.waits_ended, 1);
		atomic_store(&c->thread.helper_tid, thread_id());
		atomic_fetch_add(&c->thread.helpers, 1);
	}
	rc = await_answer(c, ticket, deadline);
	if (helps)
		atomic_fetch_sub(&c->thread.helpers, 1);
	else
		atomic_fetch_add_explicit(&c->thread.waits_ended, 1,
		                          memory_order_relaxed);
	if (rc != COHORT_TIMED_OUT)
		return rc;
	atomic_store_explicit(&c->thread.timed_out, ticket,
	                      memory_order_relaxed);
	return error_set(rc, "ticket %llu of rank %d is not done yet",
	                 (unsigned long long)ticket, c->rank);
}

/* Return the status of @ticket's operation without waiting for it. */
static int first_status(struct cohort_comm *c, uint64_t ticket)
{
	int rc = ticket_check(c, ticket);

	return rc == COHORT_OK ? check_status(c, ticket, false) : rc;
}

int comm_await(struct cohort_comm *c, uint64_t ticket, uint64_t deadline)
{
	int rc = first_status(c, ticket);

	return rc == COHORT_TIMED_OUT ? await_rest(c, ticket, deadline) : rc;
}

int comm_run_queued(struct cohort_comm *c, uint64_t ticket, uint64_t until)
{
	int rc = first_status(c, ticket);

	return rc == COHORT_TIMED_OUT ? run_queued(c, ticket, until) : rc;
}

void comm_flush(struct cohort_comm *c)
{
	c->clique->platform->flush(c->device, c->stream);
}

int comm_await_all(struct cohort_comm *c, uint64_t deadline)
{
	uint64_t last =
		atomic_load_explicit(&c->tickets.last, memory_order_acquire);
	/* The acquire makes visible what the operations wrote, because this
	 * thread does not read the done words of these tickets. */
	uint64_t known = atomic_load_explicit(&c->tickets.all_done,
	                                      memory_order_acquire);
	uint64_t ticket = last > c->clique->slots ? last - c->clique->slots : 0;
	int rc = COHORT_OK;

	/* Operations on different streams may finish in any order, so check
	 * every ticket.  A ticket whose slot was reused is done. */
	ticket = MAX(ticket, known);
	while (rc == COHORT_OK && ticket < last)
		rc = comm_await(c, ++ticket, deadline);
	if (rc == COHORT_OK)
		atomic_store_explicit(&c->tickets.all_done, last,
		                      memory_order_release);
	return rc;
}

int cohort_wait(struct cohort_comm *comm, uint64_t ticket, uint64_t timeout_ns)
{
	int rc = comm_check(comm);

	if (rc == COHORT_OK)
		rc = first_status(comm, ticket);
	/* Read the clock only if there is something to wait for. */
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

/*
 * Make @stream wait for @ticket by an event, in addition to await_mark()
 *
 * CUDA does not see dependencies made by stream memory operations, and may
 * schedule streams so that they deadlock.  So its documentation requires events
 * as well.  An event waits for all work queued on its stream.  So it is used
 * only for the last ticket, because operations after an earlier ticket may
 * themselves have to wait for @stream.  The event is recorded only on the
 * communicator's own stream, because the program may have destroyed any other
 * stream.
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
	rc = NATIVE_CUDA(p, cudaEventRecord, (c->after.event, c->stream));
	if (rc == COHORT_OK)
		rc = NATIVE_CUDA(p, cudaStreamWaitEvent,
		                 (stream, c->after.event, 0));
	return rc;
}

/* Record that the communicator's own stream has a wait queued after its last
 * ticket, so that an event recorded there would wait for more than that
 * ticket. */
static void record_queued_wait(struct cohort_comm *c)
{
	c->tickets.last_behind =
		atomic_load_explicit(&c->tickets.last, memory_order_relaxed);
}

/* Queue on @stream a wait for @ticket, followed by a mark that is set when the
 * wait ends. */
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
	rc = NATIVE_CUDA(p, await_mark, (stream, word, (uint32_t)ticket));
	if (rc != COHORT_OK)
		return rc;
	c->after.count = k;
	if (stream == c->stream)
		record_queued_wait(c);
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
		rc = NATIVE_CUDA(p, cudaEventRecord, (c->after.event, stream));
	if (rc == COHORT_OK)
		rc = NATIVE_CUDA(p, cudaStreamWaitEvent,
		                 (c->stream, c->after.event, 0));
	if (rc == COHORT_OK)
		record_queued_wait(c);
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
