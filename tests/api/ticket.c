/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tickets: what they answer and when, and that the answer stays
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#include "core/clique.h"
#include "platform/platform.h"
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
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}

/* A first collective, which may load its kernel, before a stream is held. */
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

Test(ticket, times_out_without_a_peer_and_changes_nothing)
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

Test(ticket, answers_as_often_as_asked)
{
	static int32_t a = 1, b = 2;
	uint64_t t = ranks_sum(comms[0], &a);
	int i;

	ranks_sum(comms[1], &b);
	for (i = 0; i < 5; i++)
		cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_wait(comms[0], t, 0), COHORT_OK);
}

Test(ticket, is_refused_if_it_was_never_given_out)
{
	cr_assert_eq(cohort_wait(comms[0], 0, 0), COHORT_INVALID);
	cr_assert_eq(cohort_wait(comms[0], 1, 0), COHORT_INVALID);
	cr_assert_not_null(strstr(cohort_last_error(), "ticket is 1"));
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

Test(ticket, may_be_waited_for_by_several_threads)
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

Test(ticket, stays_done_when_its_slot_is_taken_again)
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

/* More calls than slots: the submitter waits for the oldest. */
static void *submit_forty(void *arg)
{
	int32_t *value = arg;
	int i;

	for (i = 0; i < 40; i++)
		ranks_sum(comms[0], &value[i]);
	return NULL;
}

Test(ticket, lets_a_rank_run_ahead_by_its_slots_and_no_further)
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

Test(ticket, an_abort_releases_ranks_that_ran_ahead)
{
	pthread_t thread;
	int rc = 0;

	pthread_create(&thread, NULL, submit_until_refused, &rc);
	/*
	 * The other thread's first ticket exists once the answer is not INVALID
	 * any more.
	 */
	while (cohort_wait(comms[0], 16, 0) == COHORT_INVALID)
		;
	cohort_group_abort(group, "enough");
	pthread_join(thread, NULL);
	cr_assert_eq(rc, COHORT_ABORTED);
}

/* After 2^31 tickets, slot words look as they did 2^31 tickets before. */
Test(ticket, is_done_for_good_even_if_its_slot_words_have_wrapped)
{
	int32_t a = 1, b = 2;
	uint64_t t = 0;
	int i;

	for (i = 0; i < 17; i++) {
		ranks_sum(comms[1], &b);
		t = ranks_sum(comms[0], &a);
	}
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[1], RANKS_SOON), COHORT_OK);
	cr_assert(comm_ticket_started(comms[0], 1));
	comms[0]->tickets.started[1] += UINT32_C(1) << 31;
	comms[0]->tickets.done[1] += UINT32_C(1) << 31;
	cr_assert(comm_ticket_done(comms[0], 1));
	cr_assert(comm_ticket_started(comms[0], 1));
	cr_assert(!comm_ticket_started(comms[0], t + 1));
	comms[0]->tickets.started[1] -= UINT32_C(1) << 31;
	comms[0]->tickets.done[1] -= UINT32_C(1) << 31;
}

/* ---- causes ----------------------------------------------------------- */

Test(ticket, an_aborted_operation_does_not_look_complete)
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

Test(ticket, stays_done_after_an_abort)
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

Test(ticket, calls_after_an_abort_answer_with_its_cause)
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

Test(ticket, a_native_error_on_one_rank_ends_all_and_is_named)
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
	cr_assert_not_null(strstr(cause.text, "rank 1, all_reduce, ticket 1"));
	cr_assert_not_null(
		strstr(cause.text, "ncclAllReduce: unhandled system error"));
	cr_assert_not_null(strstr(cause.text, "scripted fault"));
}

Test(ticket, an_unknown_result_code_is_kept)
{
	int32_t a = 1;
	struct cohort_cause cause;

	ranks_fault(0, 0, COHORT_FAULT_ERROR, 99);
	cr_assert_eq(cohort_all_reduce(comms[0], &a, &a, 1, COHORT_I32,
	                               COHORT_SUM, NULL, NULL),
	             COHORT_NCCL);
	cohort_comm_cause(comms[0], &cause);
	cr_assert_eq(cause.nccl, 99);
	cr_assert_not_null(strstr(cause.text, "(99)"));
}

Test(ticket, a_rank_that_never_arrives_leaves_the_others_waiting)
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

/* Once no thread is left inside: the group has ended. */
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

Test(failing, group_start_ends_the_group)
{
	expect_cause(sum_with_failing("ncclGroupStart"), COHORT_NCCL,
	             "ncclGroupStart");
}

Test(failing, all_reduce_ends_the_group)
{
	const unsigned long marks = failing_calls("mark");

	expect_cause(sum_with_failing("ncclAllReduce"), COHORT_NCCL,
	             "ncclAllReduce");
	/* The start's at most: nothing says that a failed call is done. */
	cr_assert_eq(failing_calls("mark") - marks,
	             comms[0]->clique->starts_are_marked);
}

Test(failing, group_end_ends_the_group)
{
	expect_cause(sum_with_failing("ncclGroupEnd"), COHORT_NCCL,
	             "ncclGroupEnd");
}

Test(failing, mark_ends_the_group)
{
	int rc = sum_with_failing("mark");

	expect_cause(rc, COHORT_CUDA, "mark");
}

Test(failing, copy_changes_nothing_else)
{
	int x = 1, y = 2;
	struct cohort_cause cause;

	failing_at("cudaMemcpyAsync", 1, 0, cudaErrorLaunchFailure);
	cr_assert_eq(cohort_copy(comms[0], &x, &y, sizeof(x), NULL),
	             COHORT_CUDA);
	cr_assert_not_null(
		strstr(cohort_last_error(), "cudaMemcpyAsync: unspecified"));
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

Test(failing, the_second_ranks_mark_leaves_nothing_of_the_first_in_flight)
{
	static int32_t value[2] = { 1, 2 };
	const void *send[] = { &value[0], &value[1] };
	void *recv[] = { &value[0], &value[1] };
	struct cohort_group *whole = open_whole(RANKS_SOON);
	struct native_gate gate;
	cudaStream_t stream = native_stream(p, 0), other = native_stream(p, 1);
	void *streams[] = { stream, other };
	pthread_t thread;

	/* The first rank's part is held until another thread lets it go. */
	native_gate_hold(p, &gate, stream);
	native_gate_reached(&gate);
	pthread_create(&thread, NULL, open_gate_soon, &gate);
	failing_at("mark", 2, 0, cudaErrorLaunchFailure);
	cr_assert_eq(cohort_group_all_reduce(whole, send, recv, 1, COHORT_I32,
	                                     COHORT_SUM, streams, NULL),
	             COHORT_CUDA);
	cr_assert_eq(p->cudaStreamQuery(stream), cudaSuccess);
	cr_assert_eq(p->cudaStreamQuery(other), cudaSuccess);
	pthread_join(thread, NULL);
	cr_assert_eq(cohort_group_close(whole), COHORT_OK);
}

Test(failing, a_copy_without_a_mark_on_the_legacy_stream_is_awaited)
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
	failing_at("mark", 1, 0, cudaErrorLaunchFailure);
	cr_assert_eq(cohort_copy(c[1], to, from, 64, NULL), COHORT_WEDGED);
	cr_assert_eq(cohort_group_close(whole), COHORT_WEDGED);
	native_gate_open(&gate);
	p->cudaSetDevice(1);
	cr_assert_eq(p->cudaStreamSynchronize(NULL), cudaSuccess);
	p->cudaSetDevice(0);
	p->cudaFree(from);
	p->cudaFree(to);
}

Test(failing, device_switch_ends_the_group)
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
	cr_assert_not_null(strstr(cause.text, "cudaSetDevice"));
	cr_assert_eq(cause.cuda, cudaErrorLaunchFailure);
}

/* ---- streams ---------------------------------------------------------- */

Test(ticket, a_stream_that_waits_for_a_ticket_may_outlive_the_group)
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
	 * To free the memory that the stream reads means to wait for the
	 * stream.
	 */
	native_gate_open(&gate);
	cr_assert_eq(cohort_group_close(gone), COHORT_OK);
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

Test(ticket, a_stream_waits_for_a_ticket_on_the_device)
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

/* A memory value alone is an order that CUDA does not see. */
Test(streams, wait_for_an_event_of_the_last_ticket)
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
	cr_assert_eq(cohort_group_close(counted), COHORT_OK);
}

Test(ticket, the_communicators_stream_waits_for_a_stream)
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

Test(ticket, streams_go_on_after_an_abort)
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

/* ---- what cannot be ended --------------------------------------------- */

TestSuite(wedged, .timeout = 60);

Test(wedged, group_is_reported_by_tickets_and_close)
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
	/* The program's own work ahead on the stream never ends. */
	stream = cohort_comm_stream(comms[0]);
	native_gate_hold(p, &gate, stream);
	native_gate_reached(&gate);
	t = ranks_sum(comms[0], &a);
	cohort_group_abort(group, "try");
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_WEDGED);
	cr_assert_eq(cohort_wait(comms[0], t, 0), COHORT_WEDGED);
	cr_assert_not_null(strstr(cohort_last_error(), "aborted: try"));
	cr_assert_eq(cohort_group_close(group), COHORT_WEDGED);
	/* The leaked parts still run. */
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
}
