/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of tickets: what a wait for a ticket returns and when. The result of a
 * ticket must never change.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#include "support/expect.h"
#include "support/failing.h"
#include "support/native.h"
#include "support/ranks.h"

#define MS (1000 * 1000)

static struct cohort_group *group;
static struct cohort_comm *comms[2];
static const struct platform *p;

static void open_two(void)
{
	struct cohort_group_options o;

	cohort_group_options_init(&o);
	o.recorder_slots = 16;
	o.deadlines.abort_ns = RANKS_SOON;
	group = ranks_ahead(2, &o, comms);
	p = place_table();
}

static void close_two(void)
{
	expect_close(group);
}

/* Make a first collective, which may load its kernel, before a stream is
 * blocked. */
static void warm_up(void)
{
	int32_t a = 1, b = 2;
	uint64_t t = ranks_sum(comms[0], &a);

	ranks_sum(comms[1], &b);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[1], RANKS_SOON), COHORT_OK);
}

TestSuite(ticket, .init = open_two, .fini = close_two, .timeout = 60);

/* ---- waiting ---------------------------------------------------------- */

Test(ticket, wait_times_out_without_a_peer_and_changes_nothing)
{
	static int32_t a = 1, b = 2;
	uint64_t t = ranks_sum(comms[0], &a);

	cr_assert_eq(cohort_wait(comms[0], t, 0), COHORT_TIMED_OUT);
	cr_assert_eq(cohort_wait(comms[0], t, 1 * MS), COHORT_TIMED_OUT);
	cr_assert_eq(cohort_synchronize(comms[0], 1 * MS), COHORT_TIMED_OUT);
	cr_assert_eq(a, 1);
	ranks_sum(comms[1], &b);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	cr_assert_eq(a, 3);
}

Test(ticket, ticket_can_be_waited_for_repeatedly)
{
	static int32_t a = 1, b = 2;
	uint64_t t = ranks_sum(comms[0], &a);
	int i;

	ranks_sum(comms[1], &b);
	for (i = 0; i < 5; i++)
		cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_wait(comms[0], t, 0), COHORT_OK);
}

Test(ticket, ticket_that_was_never_returned_is_refused)
{
	cr_assert_eq(cohort_wait(comms[0], 0, 0), COHORT_INVALID);
	cr_assert_eq(cohort_wait(comms[0], 1, 0), COHORT_INVALID);
	expect_text(cohort_last_error(), "ticket is 1");
	cr_assert_eq(cohort_synchronize(comms[0], 0), COHORT_OK);
}

struct waiter {
	struct cohort_comm *comm;
	uint64_t ticket;
	int rc;
};

static void *wait_thread(void *arg)
{
	struct waiter *w = arg;

	w->rc = cohort_wait(w->comm, w->ticket, RANKS_SOON);
	return NULL;
}

Test(ticket, several_threads_may_wait_for_one_ticket)
{
	struct waiter w[4];
	pthread_t thread[4];
	static int32_t a = 1, b = 2;
	uint64_t t = ranks_sum(comms[0], &a);
	int i;

	for (i = 0; i < 4; i++) {
		w[i] = (struct waiter){ comms[0], t, -1 };
		pthread_create(&thread[i], NULL, wait_thread, &w[i]);
	}
	ranks_sum(comms[1], &b);
	for (i = 0; i < 4; i++) {
		pthread_join(thread[i], NULL);
		cr_assert_eq(w[i].rc, COHORT_OK);
	}
}

Test(ticket, ticket_stays_done_when_its_slot_is_reused)
{
	int32_t a[100], b[100];
	uint64_t first = 0, t = 0;
	int i;

	for (i = 0; i < 100; i++) {
		a[i] = b[i] = i;
		t = ranks_sum(comms[0], &a[i]);
		ranks_sum(comms[1], &b[i]);
		if (!i)
			first = t;
	}
	cr_assert_eq(t, first + 99);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[1], RANKS_SOON), COHORT_OK);
	for (; t >= first; t--)
		cr_assert_eq(cohort_wait(comms[0], t, 0), COHORT_OK);
	for (i = 0; i < 100; i++)
		cr_assert_eq(a[i], 2 * i);
}

/* Make more calls than there are slots, so that the caller must wait for the
 * oldest call. */
static void *submit_forty(void *arg)
{
	int32_t *value = arg;
	int i;

	for (i = 0; i < 40; i++)
		ranks_sum(comms[0], &value[i]);
	return NULL;
}

Test(ticket, rank_can_run_ahead_only_by_its_number_of_slots)
{
	int32_t a[40], b[40];
	pthread_t thread;
	int i;

	for (i = 0; i < 40; i++)
		a[i] = b[i] = i;
	pthread_create(&thread, NULL, submit_forty, a);
	for (i = 0; i < 40; i++)
		ranks_sum(comms[1], &b[i]);
	pthread_join(thread, NULL);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[1], RANKS_SOON), COHORT_OK);
	cr_assert_eq(a[39], 78);
	cr_assert_eq(b[0], 0);
}

static void *submit_until_refused(void *rc)
{
	static int32_t value;

	do
		*(int *)rc =
			cohort_all_reduce(comms[0], &value, &value, 1,
		                          COHORT_I32, COHORT_SUM,
		                          cohort_comm_stream(comms[0]), NULL);
	while (*(int *)rc == COHORT_OK);
	return NULL;
}

Test(ticket, abort_ends_the_wait_of_ranks_that_ran_ahead)
{
	pthread_t thread;
	int rc = 0;

	pthread_create(&thread, NULL, submit_until_refused, &rc);
	/*
	 * Ticket 16 is invalid until the other thread has made its 16th call.
	 */
	while (cohort_wait(comms[0], 16, 0) == COHORT_INVALID)
		;
	cohort_group_abort(group, "enough");
	pthread_join(thread, NULL);
	cr_assert_eq(rc, COHORT_ABORTED);
}

/* ---- causes ----------------------------------------------------------- */

Test(ticket, aborted_operation_does_not_look_complete)
{
	int32_t a = 1;
	uint64_t t = ranks_sum(comms[0], &a);

	cr_assert_eq(cohort_wait(comms[0], t, 0), COHORT_TIMED_OUT);
	cohort_group_abort(group, "no more");
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_ABORTED);
	expect_ending(cohort_last_error(), "aborted: no more");
	cr_assert_eq(cohort_wait(comms[0], t, 0), COHORT_ABORTED);
	cr_assert_eq(cohort_synchronize(comms[0], 0), COHORT_ABORTED);
	cr_assert_eq(a, 1);
}

Test(ticket, ticket_stays_done_after_an_abort)
{
	int32_t a = 1, b = 2, c = 3;
	uint64_t done = ranks_sum(comms[0], &a), cut;

	ranks_sum(comms[1], &b);
	cr_assert_eq(cohort_wait(comms[0], done, RANKS_SOON), COHORT_OK);
	cut = ranks_sum(comms[0], &c);
	cohort_group_abort(group, NULL);
	cr_assert_eq(cohort_wait(comms[0], cut, RANKS_SOON), COHORT_ABORTED);
	cr_assert_eq(cohort_wait(comms[0], done, 0), COHORT_OK);
	cr_assert_eq(cohort_wait(comms[0], done, 0), COHORT_OK);
}

Test(ticket, calls_after_an_abort_return_its_cause)
{
	int32_t a = 1;
	uint64_t ticket = 77;

	cohort_group_abort(group, "done here");
	cr_assert_eq(cohort_all_reduce(comms[1], &a, &a, 1, COHORT_I32,
	                               COHORT_SUM, NULL, &ticket),
	             COHORT_ABORTED);
	expect_ending(cohort_last_error(), "aborted: done here");
	cr_assert_eq(ticket, 77);
	cr_assert_eq(cohort_stream_after(comms[1], 1, NULL), COHORT_INVALID);
	cr_assert_eq(cohort_after_stream(comms[1], NULL), COHORT_ABORTED);
}

Test(ticket, native_error_on_one_rank_ends_the_group_and_is_named)
{
	int32_t a = 1, b = 2;
	struct cohort_cause cause;
	uint64_t t, untouched = 77;

	ranks_fault(1, 0, COHORT_FAULT_ERROR, ncclSystemError);
	t = ranks_sum(comms[0], &a);
	cr_assert_eq(cohort_all_reduce(comms[1], &b, &b, 1, COHORT_I32,
	                               COHORT_SUM, NULL, &untouched),
	             COHORT_NCCL);
	cr_assert_eq(untouched, 77);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_NCCL);
	cr_assert_eq(cohort_comm_cause(comms[0], &cause), COHORT_OK);
	cr_assert_eq(cause.status, COHORT_NCCL);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	cr_assert_eq(cause.ticket, 1);
	cr_assert_eq(cause.nccl, ncclSystemError);
	expect_text(cause.text, "rank 1, all_reduce, ticket 1");
	expect_text(cause.text, "ncclAllReduce: unhandled system error");
	expect_text(cause.text, "scripted fault");
}

Test(ticket, unknown_nccl_result_code_is_kept_in_the_cause)
{
	int32_t a = 1;
	struct cohort_cause cause;

	ranks_fault(0, 0, COHORT_FAULT_ERROR, 99);
	cr_assert_eq(cohort_all_reduce(comms[0], &a, &a, 1, COHORT_I32,
	                               COHORT_SUM, NULL, NULL),
	             COHORT_NCCL);
	cohort_comm_cause(comms[0], &cause);
	cr_assert_eq(cause.nccl, 99);
	expect_text(cause.text, "(99)");
}

Test(ticket, ranks_wait_for_a_rank_that_never_arrives)
{
	int32_t a = 1, b = 2;
	uint64_t t;

	ranks_fault(1, 0, COHORT_FAULT_NEVER, 0);
	t = ranks_sum(comms[0], &a);
	ranks_sum(comms[1], &b);
	cr_assert_eq(cohort_wait(comms[0], t, 5 * MS), COHORT_TIMED_OUT);
	cohort_group_abort(group, "gave up");
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_ABORTED);
	cr_assert_eq(cohort_wait(comms[1], 1, RANKS_SOON), COHORT_ABORTED);
}

/* ---- a failing platform ----------------------------------------------- */

/* Open the gate on another thread, because the library waits for the work that
 * the gate blocks. */
static void *open_gate_soon(void *arg)
{
	native_gate_open(arg);
	return NULL;
}

static int sum_with_failing(const char *function)
{
	static int32_t value = 1;

	failing_at(function, 1, ncclInternalError, cudaErrorLaunchFailure);
	return cohort_all_reduce_many(
		comms[0],
		(struct cohort_tensor[]){ { &value, &value, 1, COHORT_I32 },
	                                  { &value, &value, 1, COHORT_I32 } },
		2, COHORT_SUM, cohort_comm_stream(comms[0]), NULL);
}

static void open_failing(void)
{
	const struct platform *real;

	real = place_table();
	platform_override(failing_wrap(real));
	open_two();
}

TestSuite(failing, .init = open_failing, .fini = close_two, .timeout = 60);

static void expect_cause(int got, int status, const char *function)
{
	struct cohort_cause cause;

	cr_assert_str_eq(failing_fired(), function);
	cr_assert_eq(got, status);
	cohort_group_cause(group, &cause);
	cr_assert_eq(cause.status, status);
	cr_assert_eq(cause.rank, 0, "%s", cause.text);
	cr_assert_eq(cohort_barrier(comms[1], NULL, NULL), status);
}

Test(failing, failed_ncclGroupStart_ends_the_group)
{
	expect_cause(sum_with_failing("ncclGroupStart"), COHORT_NCCL,
	             "ncclGroupStart");
}

/* Return the number of marks that a rank's call queues: an end mark, and a
 * start mark if the platform has start marks. */
static unsigned long marks_of_a_sum(void)
{
	unsigned long before = failing_calls("cuStreamWriteValue32");

	warm_up();
	return (failing_calls("cuStreamWriteValue32") - before) / 2;
}

Test(failing, failed_ncclAllReduce_ends_the_group)
{
	unsigned long marks, starts;

	starts = marks_of_a_sum() - 1;
	marks = failing_calls("cuStreamWriteValue32");
	expect_cause(sum_with_failing("ncclAllReduce"), COHORT_NCCL,
	             "ncclAllReduce");
	/* A failed call queues no end mark. */
	cr_assert_eq(failing_calls("cuStreamWriteValue32") - marks, starts);
}

Test(failing, failed_ncclGroupEnd_ends_the_group)
{
	expect_cause(sum_with_failing("ncclGroupEnd"), COHORT_NCCL,
	             "ncclGroupEnd");
}

Test(failing, failed_mark_ends_the_group)
{
	int rc = sum_with_failing("cuStreamWriteValue32");

	expect_cause(rc, COHORT_CUDA, "cuStreamWriteValue32");
}

Test(failing, failed_copy_changes_nothing)
{
	int x = 1, y = 2;
	struct cohort_cause cause;

	failing_at("cudaMemcpyAsync", 1, 0, cudaErrorLaunchFailure);
	cr_assert_eq(cohort_copy(comms[0], &x, &y, sizeof(x), NULL),
	             COHORT_CUDA);
	expect_text(cohort_last_error(), "cudaMemcpyAsync: unspecified");
	cohort_group_cause(group, &cause);
	cr_assert_eq(cause.status, COHORT_OK);
	cr_assert_eq(cohort_copy(comms[0], &x, &y, sizeof(x), NULL), COHORT_OK);
	cr_assert_eq(x, 2);
}

static struct cohort_group *open_whole(uint64_t abort_timeout_ns)
{
	struct cohort_group_options o;

	cohort_group_options_init(&o);
	o.deadlines.abort_ns = abort_timeout_ns;
	return ranks_open(2, &o);
}

Test(failing, group_call_waits_for_rank_0_if_rank_1s_mark_fails)
{
	static int32_t value[2] = { 1, 2 };
	const void *send[] = { &value[0], &value[1] };
	void *recv[] = { &value[0], &value[1] };
	struct cohort_group *whole = open_whole(RANKS_SOON);
	struct native_gate gate;
	cudaStream_t stream = native_stream(p, 0), other = native_stream(p, 1);
	void *streams[] = { stream, other };
	pthread_t thread;

	/* The first rank's part is blocked until another thread opens the
	 * gate. */
	native_gate_hold(p, &gate, stream);
	native_gate_reached(&gate);
	pthread_create(&thread, NULL, open_gate_soon, &gate);
	failing_at("cuStreamWriteValue32", 2, 0, cudaErrorLaunchFailure);
	cr_assert_eq(cohort_group_all_reduce(whole, send, recv, 1, COHORT_I32,
	                                     COHORT_SUM, streams, NULL),
	             COHORT_CUDA);
	cr_assert_eq(p->cudaStreamQuery(stream), cudaSuccess);
	cr_assert_eq(p->cudaStreamQuery(other), cudaSuccess);
	pthread_join(thread, NULL);
	expect_close(whole);
}

Test(failing, copy_on_the_legacy_stream_is_awaited_if_its_mark_fails)
{
	struct cohort_group_options o;
	struct cohort_group *whole;
	struct cohort_comm *c[2];
	struct native_gate gate;
	void *from, *to;

	cohort_group_options_init(&o);
	o.deadlines.abort_ns = 20 * MS;
	whole = ranks_split(2, &o, c);
	ranks_must(cohort_alloc(c[1], 64, &from), "alloc");
	ranks_must(cohort_alloc(c[1], 64, &to), "alloc");
	p->cudaSetDevice(1);
	native_gate_hold(p, &gate, NULL);
	p->cudaSetDevice(0);
	failing_at("cuStreamWriteValue32", 1, 0, cudaErrorLaunchFailure);
	cr_assert_eq(cohort_copy(c[1], to, from, 64, NULL), COHORT_WEDGED);
	cr_assert_eq(cohort_group_close(whole), COHORT_WEDGED);
	native_gate_open(&gate);
	p->cudaSetDevice(1);
	cr_assert_eq(p->cudaStreamSynchronize(NULL), cudaSuccess);
	p->cudaSetDevice(0);
	p->cudaFree(from);
	p->cudaFree(to);
}

Test(failing, failed_cudaSetDevice_ends_the_group)
{
	static int32_t a = 1;
	struct cohort_cause cause;

	failing_at("cudaSetDevice", 1, 0, cudaErrorLaunchFailure);
	cr_assert_eq(cohort_all_reduce(comms[1], &a, &a, 1, COHORT_I32,
	                               COHORT_SUM, NULL, NULL),
	             COHORT_CUDA);
	cohort_group_cause(group, &cause);
	cr_assert_eq(cause.status, COHORT_CUDA);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	expect_text(cause.text, "cudaSetDevice");
	cr_assert_eq(cause.cuda, cudaErrorLaunchFailure);
}

/* ---- streams ---------------------------------------------------------- */

Test(ticket, stream_that_waits_for_a_ticket_may_outlive_the_group)
{
	struct cohort_comm *c[2];
	struct cohort_group *gone = ranks_ahead(2, NULL, c);
	cudaStream_t stream = native_stream(p, 0);
	struct native_gate gate;
	int32_t a = 1, b = 2;
	uint64_t t = ranks_sum(c[0], &a);

	native_gate_hold(p, &gate, stream);
	cr_assert_eq(cohort_stream_after(c[0], t, stream), COHORT_OK);
	ranks_sum(c[1], &b);
	cr_assert_eq(cohort_wait(c[0], t, RANKS_SOON), COHORT_OK);
	/*
	 * The close waits for the stream, because it frees memory that the
	 * stream reads.
	 */
	native_gate_open(&gate);
	expect_close(gone);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	p->cudaStreamDestroy(stream);
}

struct order {
	sem_t *gate;
	int seen;
	const int32_t *value;
};

static void read_value(void *arg)
{
	struct order *o = arg;

	o->seen = *o->value;
}

Test(ticket, stream_can_wait_for_a_ticket)
{
	static int32_t a = 1, b = 2;
	struct order o = { .value = &a };
	cudaStream_t stream = native_stream(p, 0);
	uint64_t t = ranks_sum(comms[0], &a);

	cr_assert_eq(cohort_stream_after(comms[0], t, stream), COHORT_OK);
	p->cudaLaunchHostFunc(stream, read_value, &o);
	cr_assert_eq(p->cudaStreamQuery(stream), cudaErrorNotReady);
	ranks_sum(comms[1], &b);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	cr_assert_eq(o.seen, 3);
	cr_assert_eq(cohort_stream_after(comms[0], t + 1, stream),
	             COHORT_INVALID);
	p->cudaStreamDestroy(stream);
}

static const struct platform *real;
static int events_waited_for;

static cudaError_t count_event(cudaStream_t stream, cudaEvent_t event,
                               unsigned flags)
{
	events_waited_for++;
	return real->cudaStreamWaitEvent(stream, event, flags);
}

/* CUDA does not know the order that a value in memory enforces, so the stream
 * must wait for an event. */
Test(streams, stream_after_waits_for_an_event_of_the_last_ticket)
{
	static struct platform table;
	struct cohort_comm *c[2];
	struct cohort_group *counted;
	cudaStream_t stream;
	int32_t a[2] = { 1, 1 }, b[2] = { 2, 2 };
	uint64_t first, last;

	real = place_table();
	table = *real;
	table.cudaStreamWaitEvent = count_event;
	platform_override(&table);
	counted = ranks_ahead(2, NULL, c);
	stream = native_stream(real, 0);
	first = ranks_sum(c[0], &a[0]);
	events_waited_for = 0;
	ranks_must(cohort_stream_after(c[0], first, stream), "stream_after");
	cr_assert_eq(events_waited_for, 1);
	last = ranks_sum(c[0], &a[1]);
	ranks_must(cohort_stream_after(c[0], first, stream), "stream_after");
	cr_assert_eq(events_waited_for, 1, "the event is behind both");
	ranks_must(cohort_stream_after(c[0], last, stream), "stream_after");
	cr_assert_eq(events_waited_for, 2);
	ranks_sum(c[1], &b[0]);
	ranks_sum(c[1], &b[1]);
	cr_assert_eq(real->cudaStreamSynchronize(stream), cudaSuccess);
	cr_assert_eq(a[0], 3);
	cr_assert_eq(a[1], 3);
	real->cudaStreamDestroy(stream);
	expect_close(counted);
}

Test(ticket, communicators_stream_can_wait_for_another_stream)
{
	struct native_gate gate;
	int32_t a = 1, b = 2;
	cudaStream_t stream = native_stream(p, 0);
	uint64_t t;

	warm_up();
	native_gate_hold(p, &gate, stream);
	cr_assert_eq(cohort_after_stream(comms[0], stream), COHORT_OK);
	t = ranks_sum(comms[0], &a);
	ranks_sum(comms[1], &b);
	cr_assert_eq(cohort_wait(comms[0], t, 2 * MS), COHORT_TIMED_OUT);
	cr_assert_eq(a, 1);
	native_gate_open(&gate);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	cr_assert_eq(a, 3);
	cr_assert_eq(cohort_synchronize(comms[1], RANKS_SOON), COHORT_OK);
	p->cudaStreamDestroy(stream);
}

Test(ticket, streams_continue_after_an_abort)
{
	int32_t a = 1;
	cudaStream_t stream = native_stream(p, 0);
	uint64_t t = ranks_sum(comms[0], &a);

	cr_assert_eq(cohort_stream_after(comms[0], t, stream), COHORT_OK);
	cohort_group_abort(group, NULL);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_ABORTED);
	p->cudaStreamDestroy(stream);
}

Test(ticket, operations_on_several_streams_keep_their_order)
{
	cudaStream_t s[2][3];
	int32_t a[3] = { 1, 10, 100 }, b[3] = { 2, 20, 200 };
	int i;

	for (i = 0; i < 3; i++) {
		s[0][i] = native_stream(p, 0);
		s[1][i] = native_stream(p, 1);
	}
	for (i = 0; i < 3; i++)
		cohort_all_reduce(comms[0], &a[i], &a[i], 1, COHORT_I32,
		                  COHORT_SUM, s[0][i], NULL);
	for (i = 0; i < 3; i++)
		cohort_all_reduce(comms[1], &b[i], &b[i], 1, COHORT_I32,
		                  COHORT_SUM, s[1][2 - i], NULL);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[1], RANKS_SOON), COHORT_OK);
	for (i = 0; i < 3; i++) {
		cr_assert_eq(a[i], b[i]);
		p->cudaStreamDestroy(s[0][i]);
		p->cudaStreamDestroy(s[1][i]);
	}
	cr_assert_eq(a[2], 300);
}

/* ---- groups that cannot be ended ---------------------------------------- */

TestSuite(wedged, .timeout = 60);

Test(wedged, waits_and_close_report_a_group_that_cannot_be_ended)
{
	struct cohort_group_options o;
	struct native_gate gate;
	cudaStream_t stream;
	int32_t a = 1;
	uint64_t t;

	cohort_group_options_init(&o);
	o.deadlines.abort_ns = 20 * MS;
	group = ranks_ahead(2, &o, comms);
	p = place_table();
	warm_up();
	/* The program's own work, earlier on the stream, never ends. */
	stream = cohort_comm_stream(comms[0]);
	native_gate_hold(p, &gate, stream);
	native_gate_reached(&gate);
	t = ranks_sum(comms[0], &a);
	cohort_group_abort(group, "try");
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_WEDGED);
	cr_assert_eq(cohort_wait(comms[0], t, 0), COHORT_WEDGED);
	expect_text(cohort_last_error(), "aborted: try");
	cr_assert_eq(cohort_group_close(group), COHORT_WEDGED);
	/* Let the abandoned operations of the group run. */
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
}
