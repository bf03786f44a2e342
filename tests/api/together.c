/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of ranks that launch together: no rank launches its part of a
 * collective before all ranks have called. Also tests how the wait for the
 * other ranks ends.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/native.h"
#include "support/ranks.h"
#include "support/spread.h"
#include "support/stuck.h"

TestSuite(together, .timeout = 60);

#define MS UINT64_C(1000000)
#define SHORT (20 * MS)
#define COUNT 64
#define MOST 8

static struct cohort_group_options o;
static struct cohort_group *group;
static struct cohort_comm *comms[MOST];
static int32_t *sent[MOST], *got[MOST];
static int32_t plain[MOST][COUNT];

/* Platform table that counts the native calls that launch operations */
static struct platform table;
static const struct platform *real;
static atomic_int launches;

/* Set after the open, so that native calls that connect ranks are not
 * counted */
static atomic_bool is_open;

/* Function that the first launch calls, or NULL */
static void (*when_launching)(void);

static void launch_one(void)
{
	if (!atomic_load(&is_open))
		return;
	if (!atomic_fetch_add(&launches, 1) && when_launching)
		when_launching();
}

static ncclResult_t broadcast(const void *send, void *recv, size_t count,
                              ncclDataType_t type, int root, ncclComm_t comm,
                              cudaStream_t stream)
{
	launch_one();
	return real->ncclBroadcast(send, recv, count, type, root, comm, stream);
}

static ncclResult_t all_reduce(const void *send, void *recv, size_t count,
                               ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
	launch_one();
	return real->ncclAllReduce(send, recv, count, type, op, comm, stream);
}

static void options(int launch)
{
	cohort_group_options_init(&o);
	o.name = "dp";
	o.launch = launch;
}

static void make_buffers(int n)
{
	size_t i, bytes = COUNT * sizeof(int32_t);
	int r;

	for (r = 0; r < n; r++) {
		ranks_must(cohort_alloc(comms[r], bytes, (void **)&sent[r]),
		           "alloc");
		ranks_must(cohort_alloc(comms[r], bytes, (void **)&got[r]),
		           "alloc");
		for (i = 0; i < COUNT; i++) {
			sent[r][i] = r + 1;
			got[r][i] = -1;
		}
	}
}

static void open_ranks(int n)
{
	place_need_host("memory that this thread can read, and");
	real = place_table();
	table = *real;
	table.ncclAllReduce = all_reduce;
	table.ncclBroadcast = broadcast;
	platform_override(&table);
	group = ranks_split(n, &o, comms);
	atomic_store(&is_open, true);
	make_buffers(n);
}

static void close_ranks(int n)
{
	int r;

	for (r = 0; r < n; r++) {
		cr_assert_eq(cohort_free(comms[r], sent[r]), COHORT_OK, "%s",
		             cohort_last_error());
		cr_assert_eq(cohort_free(comms[r], got[r]), COHORT_OK);
	}
	expect_close(group);
}

/* ---- calls ------------------------------------------------------------ */

enum kind { ONE, LIST, BATCH, HOST, TIMED_HOST, BARRIER, KINDS };

static int make(enum kind kind, int r, uint64_t *ticket)
{
	struct cohort_comm *c = comms[r];
	void *stream = cohort_comm_stream(c);
	const struct cohort_tensor list[] = {
		{ sent[r], got[r], COUNT / 2, COHORT_I32 },
		{ sent[r] + COUNT / 2, got[r] + COUNT / 2, COUNT / 2,
		  COHORT_I32 },
	};
	int rc;

	*ticket = 0;
	switch (kind) {
	case LIST:
		return cohort_all_reduce_many(c, list, 2, COHORT_SUM, stream,
		                              ticket);
	case BATCH:
		rc = cohort_batch_begin(c);
		if (rc == COHORT_OK)
			rc = cohort_all_reduce(c, sent[r], got[r], COUNT,
			                       COHORT_I32, COHORT_SUM, NULL,
			                       NULL);
		return rc == COHORT_OK ? cohort_batch_end(c, stream, ticket)
		                       : rc;
	case HOST:
	case TIMED_HOST:
		memcpy(plain[r], sent[r], COUNT * sizeof(int32_t));
		return cohort_all_reduce_host(
			c, plain[r], COUNT, COHORT_I32, COHORT_SUM,
			kind == HOST ? COHORT_FOREVER : RANKS_SOON);
	case BARRIER:
		return cohort_barrier(c, stream, ticket);
	default:
		return cohort_all_reduce(c, sent[r], got[r], COUNT, COHORT_I32,
		                         COHORT_SUM, stream, ticket);
	}
}

/* A call of one rank, on a new thread */
struct caller {
	int rank;
	enum kind kind;
	bool binds;
	int rc;
	uint64_t ticket;
	atomic_int tid; /* thread id, or 0 until the thread runs */
	pthread_t thread;
	char error[1024];
};

static void *call(void *arg)
{
	struct caller *c = arg;

	c->tid = gettid();
	if (c->binds)
		ranks_must(cohort_comm_bind(comms[c->rank]), "bind");
	c->rc = make(c->kind, c->rank, &c->ticket);
	snprintf(c->error, sizeof(c->error), "%s", cohort_last_error());
	if (c->binds)
		cohort_comm_unbind(comms[c->rank]);
	return NULL;
}

static void begin(struct caller *c, int rank, enum kind kind)
{
	*c = (struct caller){ .rank = rank, .kind = kind };
	cr_assert_eq(pthread_create(&c->thread, NULL, call, c), 0);
}

static void await_meeting(int rank)
{
	ranks_await_joined(comms[rank]);
}

static int end(const struct caller *c)
{
	pthread_join(c->thread, NULL);
	return c->rc;
}

/* ---- calls that are not launched -------------------------------------- */

static bool stream_is_empty(int rank)
{
	return real->cudaStreamQuery(cohort_comm_stream(comms[rank])) ==
	       cudaSuccess;
}

static void expect_untouched(int rank)
{
	int i;

	cr_assert_eq(atomic_load(&launches), 0);
	cr_assert(stream_is_empty(rank));
	for (i = 0; i < COUNT; i++)
		cr_assert_eq(got[rank][i], -1);
}

Test(together, collective_is_not_launched_until_all_ranks_call_it)
{
	struct caller c;

	options(COHORT_LAUNCH_TOGETHER);
	open_ranks(2);
	begin(&c, 0, ONE);
	await_meeting(0);
	expect_untouched(0);
	cr_assert_eq(cohort_group_abort(group, "enough"), COHORT_OK);
	cr_assert_eq(end(&c), COHORT_ABORTED, "%s", c.error);
	cr_assert_eq(c.ticket, 0);
	expect_untouched(0);
	close_ranks(2);
}

/* The buffers of a call that was not launched are free even before the abort is
 * complete. */
Test(together, buffers_of_an_unlaunched_call_are_free_when_it_returns)
{
	struct caller c;
	uint64_t ticket;

	options(COHORT_LAUNCH_TOGETHER);
	open_ranks(2);
	begin(&c, 0, LIST);
	await_meeting(0);
	cr_assert_eq(cohort_group_abort(group, "enough"), COHORT_OK);
	cr_assert_eq(end(&c), COHORT_ABORTED, "%s", c.error);
	expect_untouched(0);
	cr_assert_eq(cohort_free(comms[0], sent[0]), COHORT_OK);
	cr_assert_eq(cohort_free(comms[0], got[0]), COHORT_OK);
	sent[0] = got[0] = NULL;
	cr_assert_eq(make(LIST, 1, &ticket), COHORT_ABORTED);
	expect_untouched(1);
	close_ranks(2);
}

/*
 * Ranks that launch ahead do launch before the other ranks call, which shows
 * that the check for an empty stream can fail.
 */
Test(together, call_of_a_rank_that_launches_ahead_does_not_wait)
{
	uint64_t ticket;

	options(COHORT_LAUNCH_AHEAD);
	open_ranks(2);
	cr_assert_eq(make(ONE, 0, &ticket), COHORT_OK);
	cr_assert_eq(atomic_load(&launches), 1);
	cr_assert_not(stream_is_empty(0));
	cr_assert_eq(make(ONE, 1, &ticket), COHORT_OK);
	cr_assert_eq(cohort_wait(comms[0], 1, RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_wait(comms[1], 1, RANKS_SOON), COHORT_OK);
	close_ranks(2);
}

static void expect_sum(const int32_t *data, int32_t sum)
{
	int i;

	for (i = 0; i < COUNT; i++)
		cr_assert_eq(data[i], sum);
}

static bool is_host(enum kind kind)
{
	return kind == HOST || kind == TIMED_HOST;
}

/* Make the call on rank 1 after the other ranks have started to wait for it. */
static void launch_together(enum kind kind)
{
	struct caller c[3];
	uint64_t ticket;
	int r;

	for (r = 0; r < 3; r++) {
		begin(&c[r], r == 1 ? 2 : r / 2 * 3, kind);
		await_meeting(c[r].rank);
		expect_untouched(c[r].rank);
	}
	cr_assert_eq(make(kind, 1, &ticket), COHORT_OK, "%d: %s", kind,
	             cohort_last_error());
	for (r = 0; r < 3; r++)
		cr_assert_eq(end(&c[r]), COHORT_OK, "%d: %s", kind, c[r].error);
	for (r = 0; r < 4; r++) {
		cr_assert_eq(cohort_synchronize(comms[r], RANKS_SOON),
		             COHORT_OK);
		if (kind != BARRIER)
			expect_sum(is_host(kind) ? plain[r] : got[r], 10);
		memset(got[r], -1, COUNT * sizeof(*got[r]));
	}
	atomic_store(&launches, 0);
}

Test(together, all_kinds_of_collectives_can_launch_together)
{
	int kind;

	options(COHORT_LAUNCH_TOGETHER);
	open_ranks(4);
	for (kind = 0; kind < KINDS; kind++)
		launch_together(kind);
	close_ranks(4);
}

/* The second list is packed into the buffer that was allocated for the first
 * one. */
Test(together, packed_lists_can_launch_together)
{
	options(COHORT_LAUNCH_TOGETHER);
	o.many = COHORT_MANY_FLAT;
	open_ranks(4);
	launch_together(LIST);
	launch_together(LIST);
	close_ranks(4);
}

Test(together, group_level_calls_launch_without_waiting)
{
	int32_t value[3] = { 1, 2, 3 };
	const void *send[] = { &value[0], &value[1], &value[2] };
	void *recv[] = { &value[0], &value[1], &value[2] };
	uint64_t ticket;

	spread_not("the test makes the calls of all ranks");
	options(COHORT_LAUNCH_TOGETHER);
	group = ranks_open(3, &o);
	for (int i = 0; i < 3; i++) {
		cr_assert_eq(cohort_group_all_reduce(group, send, recv, 1,
		                                     COHORT_I32, COHORT_MAX,
		                                     NULL, &ticket),
		             COHORT_OK, "%s", cohort_last_error());
		cr_assert_eq(cohort_group_wait(group, ticket, RANKS_SOON),
		             COHORT_OK);
	}
	cr_assert_eq(value[0], 3);
	expect_close(group);
}

/* ---- either all ranks launch, or none ---------------------------------- */

/* Check that no launch window is open: a memory operation must not wait. */
static void expect_no_window(void)
{
	const uint64_t deadline = test_deadline(RANKS_SOON);

	ranks_must(cohort_quiet_begin(), "quiet_begin");
	ranks_must(cohort_quiet_end(), "quiet_end");
	cr_assert_lt(test_now(), deadline);
}

/*
 * The last rank has arrived and is paused before it opens the launch. Then all
 * ranks give up.
 */
Test(together, no_rank_launches_if_a_cause_precedes_the_launch)
{
	struct caller c[2];
	int r;

	options(COHORT_LAUNCH_TOGETHER);
	open_ranks(2);
	cr_assert_eq(cohort_quiet_begin(), COHORT_OK);
	begin(&c[0], 0, ONE);
	await_meeting(0);
	begin(&c[1], 1, ONE);
	native_await_wait(&c[1].tid);
	cr_assert_eq(cohort_group_abort(group, "enough"), COHORT_OK);
	for (r = 0; r < 2; r++)
		cr_assert_eq(end(&c[r]), COHORT_ABORTED, "%s", c[r].error);
	cr_assert_eq(cohort_quiet_end(), COHORT_OK);
	expect_untouched(0);
	expect_untouched(1);
	expect_no_window();
	close_ranks(2);
}

static void end_group(void)
{
	cohort_group_abort(group, "while it is launched");
}

/*
 * The cause appears before the other ranks have checked whether the launch is
 * open.
 */
Test(together, cause_after_the_launch_opens_lets_all_ranks_launch)
{
	struct caller c[3];
	uint64_t ticket;
	int r;

	options(COHORT_LAUNCH_TOGETHER);
	open_ranks(4);
	when_launching = end_group;
	for (r = 0; r < 3; r++) {
		begin(&c[r], r, ONE);
		await_meeting(r);
	}
	make(ONE, 3, &ticket);
	for (r = 0; r < 3; r++)
		end(&c[r]);
	cr_assert_eq(atomic_load(&launches), 4);
	expect_no_window();
	close_ranks(4);
}

static atomic_bool is_stuck, is_let_go;

static void stay(void)
{
	atomic_store(&is_stuck, true);
	while (!atomic_load(&is_let_go))
		sched_yield();
}

static atomic_int quiet_tid;

static void *be_quiet(void *arg)
{
	quiet_tid = gettid();
	expect_no_window();
	return arg;
}

/*
 * The launch window of a stuck launch is closed once the abort flags are set,
 * even if the launch never returns.
 */
Test(together, stuck_launch_blocks_no_memory_operation_after_an_abort)
{
	pthread_t quiet;
	struct caller c[2];
	int r;

	options(COHORT_LAUNCH_TOGETHER);
	open_ranks(2);
	when_launching = stay;
	for (r = 0; r < 2; r++)
		begin(&c[r], r, ONE);
	while (!atomic_load(&is_stuck))
		sched_yield();
	cr_assert_eq(pthread_create(&quiet, NULL, be_quiet, NULL), 0);
	native_await_wait(&quiet_tid);
	cr_assert_eq(cohort_group_abort(group, "enough"), COHORT_OK);
	pthread_join(quiet, NULL);
	atomic_store(&is_let_go, true);
	for (r = 0; r < 2; r++)
		end(&c[r]);
	cr_assert_eq(atomic_load(&launches), 2);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_ABORTED,
	             "%s", cohort_last_error());
	close_ranks(2);
}

/* ---- how the wait ends ------------------------------------------------ */

Test(together, abort_handle_ends_the_wait_to_launch)
{
	struct cohort_abort *handle;
	struct caller c[3];
	int r;

	options(COHORT_LAUNCH_TOGETHER);
	open_ranks(4);
	handle = cohort_comm_abort_handle(comms[3]);
	for (r = 0; r < 3; r++) {
		begin(&c[r], r, ONE);
		await_meeting(r);
	}
	cohort_abort_fire(handle, "by hand");
	for (r = 0; r < 3; r++) {
		cr_assert_eq(end(&c[r]), COHORT_ABORTED, "%s", c[r].error);
		expect_untouched(r);
	}
	cohort_abort_put(handle);
	close_ranks(4);
}

Test(together, rank_that_others_wait_for_to_launch_is_named)
{
	struct cohort_cause cause;
	struct caller c;

	options(COHORT_LAUNCH_TOGETHER);
	o.deadlines.join_ns = SHORT;
	open_ranks(2);
	begin(&c, 0, ONE);
	cr_assert_eq(end(&c), COHORT_STALLED, "%s", c.error);
	cause = ranks_cause(group);
	cr_assert_str_eq(c.error, cause.text);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	cr_assert_eq(cause.joined[0], 1);
	cr_assert_eq(cause.missing[0], 2);
	expect_untouched(0);
	close_ranks(2);
}

Test(together, snapshot_says_which_ranks_wait_to_launch)
{
	struct cohort_rank_report ranks[2];
	struct caller c;

	options(COHORT_LAUNCH_TOGETHER);
	open_ranks(2);
	begin(&c, 0, ONE);
	do
		cr_assert_eq(cohort_group_snapshot(group, ranks, 2,
		                                   sizeof(*ranks)),
		             COHORT_OK);
	while (!strstr(ranks[0].text,
	               " has called, and waits for the other ranks' calls to "
	               "launch it with them"));
	cr_assert(ranks[0].joined && !ranks[1].joined);
	cohort_group_abort(group, NULL);
	cr_assert_eq(end(&c), COHORT_ABORTED);
	close_ranks(2);
}

Test(together, thread_that_calls_for_ranks_in_turn_gets_a_hint)
{
	uint64_t ticket;

	options(COHORT_LAUNCH_TOGETHER);
	o.deadlines.join_ns = SHORT;
	open_ranks(2);
	expect(make(ONE, 0, &ticket), COHORT_STALLED,
	       "; one thread makes the calls of ranks 0 and 1: use a "
	       "group-level call, or COHORT_LAUNCH_AHEAD");
	close_ranks(2);
}

Test(together, thread_that_split_the_group_and_calls_alone_gets_a_hint)
{
	int32_t x = 1;

	options(COHORT_LAUNCH_TOGETHER);
	o.deadlines.join_ns = SHORT;
	group = ranks_split(2, &o, comms);
	expect(cohort_all_reduce(comms[0], &x, &x, 1, COHORT_I32, COHORT_SUM,
	                         cohort_comm_stream(comms[0]), NULL),
	       COHORT_STALLED,
	       "; one thread makes the calls of ranks 0 and 1: ");
	expect_close(group);
}

/* Each rank has its own thread, so the error must not hint at a thread that
 * makes the calls of several ranks. */
Test(together, thread_that_calls_for_one_rank_gets_no_hint)
{
	struct caller c;

	options(COHORT_LAUNCH_TOGETHER);
	o.deadlines.join_ns = SHORT;
	open_ranks(2);
	begin(&c, 0, ONE);
	cr_assert_eq(end(&c), COHORT_STALLED);
	cr_assert_null(strstr(c.error, "this very thread"), "%s", c.error);
	close_ranks(2);
}

Test(together, mismatch_ends_the_wait_to_launch)
{
	struct caller c;
	uint64_t ticket;

	options(COHORT_LAUNCH_TOGETHER);
	open_ranks(2);
	begin(&c, 0, ONE);
	await_meeting(0);
	cr_assert_eq(make(LIST, 1, &ticket), COHORT_MISMATCH, "%s",
	             cohort_last_error());
	cr_assert_eq(end(&c), COHORT_MISMATCH, "%s", c.error);
	expect_untouched(0);
	close_ranks(2);
}

static void *sum_once(void *comm)
{
	int32_t x = 1;

	return (void *)(intptr_t)ranks_sum_wait(comm, &x);
}

static void begin_sum(pthread_t *thread, struct cohort_comm *comm)
{
	cr_assert_eq(pthread_create(thread, NULL, sum_once, comm), 0);
	ranks_await_joined(comm);
}

static int end_sum(pthread_t thread)
{
	void *rc;

	pthread_join(thread, &rc);
	return (int)(intptr_t)rc;
}

/* Each rank waits, in its first call, for the other rank's first call in a
 * different group. */
Test(together, launches_in_different_orders_end_as_an_order_verdict)
{
	struct cohort_group *other;
	struct cohort_comm *others[2];
	struct cohort_cause cause;
	pthread_t threads[2];

	options(COHORT_LAUNCH_TOGETHER);
	other = ranks_split(2, &o, others);
	o.deadlines.join_ns = SHORT;
	group = ranks_split(2, &o, comms);
	begin_sum(&threads[1], others[1]);
	begin_sum(&threads[0], comms[0]);
	cr_assert_eq(end_sum(threads[0]), COHORT_STALLED);
	cause = ranks_cause(group);
	cr_assert_eq(cause.kind, COHORT_VERDICT_ORDER, "%s", cause.text);
	expect_close(group);
	cohort_group_abort(other, NULL);
	cr_assert_eq(end_sum(threads[1]), COHORT_ABORTED);
	expect_close(other);
}

static void *bind_and_exit(void *comm)
{
	ranks_must(cohort_comm_bind(comm), "bind");
	return NULL;
}

Test(together, exit_of_a_bound_thread_ends_the_wait_to_launch)
{
	pthread_t thread;
	struct caller c;

	options(COHORT_LAUNCH_TOGETHER);
	open_ranks(2);
	begin(&c, 0, ONE);
	await_meeting(0);
	pthread_create(&thread, NULL, bind_and_exit, comms[1]);
	pthread_join(thread, NULL);
	cr_assert_eq(end(&c), COHORT_THREAD_EXITED, "%s", c.error);
	cr_assert_eq(ranks_cause(group).rank, 1);
	expect_untouched(0);
	close_ranks(2);
}

/* Make a call on rank 0 that times out while it waits for rank 1. */
static void leave_call(int32_t *data, uint64_t timeout_ns)
{
	int i;

	for (i = 0; i < COUNT; i++)
		data[i] = 1;
	cr_assert_eq(cohort_all_reduce_host(comms[0], data, COUNT, COHORT_I32,
	                                    COHORT_SUM, timeout_ns),
	             COHORT_TIMED_OUT);
	expect_untouched(0);
	/* After the timeout, the caller owns the memory again. */
	memset(data, 0, COUNT * sizeof(*data));
}

static void expect_all(const int32_t *data, int32_t value)
{
	int i;

	for (i = 0; i < COUNT; i++)
		cr_assert_eq(data[i], value);
}

/* Make the call on rank 1 after rank 0's call has timed out. Rank 0's call must
 * still complete. */
static void call_late(uint64_t timeout_ns)
{
	int32_t a[COUNT], b[COUNT];
	int i;

	for (i = 0; i < COUNT; i++)
		b[i] = 2;
	leave_call(a, timeout_ns);
	cr_assert_eq(cohort_synchronize(comms[0], 0), COHORT_TIMED_OUT);
	expect_untouched(0);
	cr_assert_eq(cohort_all_reduce_host(comms[1], b, COUNT, COHORT_I32,
	                                    COHORT_SUM, RANKS_SOON),
	             COHORT_OK, "%s", cohort_last_error());
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_OK);
	expect_all(a, 0);
	expect_all(b, 3);
	cr_assert_eq(atomic_load(&launches), 2);
	atomic_store(&launches, 0);
}

Test(together, timed_out_host_memory_call_launches_once_others_call)
{
	options(COHORT_LAUNCH_TOGETHER);
	open_ranks(2);
	call_late(SHORT);
	call_late(0);
	call_late(0);
	close_ranks(2);
}

Test(together, abort_ends_a_timed_out_call_before_its_launch)
{
	int32_t a[COUNT];

	options(COHORT_LAUNCH_TOGETHER);
	open_ranks(2);
	leave_call(a, 0);
	cr_assert_eq(cohort_group_abort(group, "enough"), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_ABORTED,
	             "%s", cohort_last_error());
	expect_untouched(0);
	expect_all(a, 0);
	close_ranks(2);
}

Test(together, rank_that_a_timed_out_call_waits_for_is_named)
{
	struct cohort_cause cause;
	int32_t a[COUNT];

	options(COHORT_LAUNCH_TOGETHER);
	o.deadlines.join_ns = SHORT;
	open_ranks(2);
	leave_call(a, 0);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_STALLED,
	             "%s", cohort_last_error());
	cohort_group_cause(group, &cause);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	cr_assert_null(strstr(cause.text, "this very thread"), "%s",
	               cause.text);
	expect_untouched(0);
	close_ranks(2);
}

/* The call that timed out is launched first, even if the next call is made
 * before its launch. */
Test(together, next_call_waits_for_the_launch_of_a_timed_out_call)
{
	int32_t a[COUNT], b[COUNT] = { 2 };
	struct caller c;
	uint64_t ticket;

	options(COHORT_LAUNCH_TOGETHER);
	open_ranks(2);
	leave_call(a, 0);
	begin(&c, 0, ONE);
	cr_assert_eq(cohort_all_reduce_host(comms[1], b, COUNT, COHORT_I32,
	                                    COHORT_SUM, RANKS_SOON),
	             COHORT_OK, "%s", cohort_last_error());
	cr_assert_eq(b[0], 3);
	cr_assert_eq(make(ONE, 1, &ticket), COHORT_OK);
	cr_assert_eq(end(&c), COHORT_OK, "%s", c.error);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[1], RANKS_SOON), COHORT_OK);
	expect_all(got[0], 3);
	close_ranks(2);
}

/* A memory operation of a rank, on a new thread */
struct operation {
	bool allocates;
	void *memory; /* memory to register, or allocated memory */
	void *registration;
	atomic_int tid; /* thread id, or 0 until the thread runs */
	int rc;
	char error[512];
};

static void *operate(void *arg)
{
	struct operation *o0 = arg;

	o0->tid = gettid();
	if (o0->allocates)
		o0->rc = cohort_alloc_registered(comms[0], 64, &o0->memory);
	else
		o0->rc = cohort_register(comms[0], o0->memory, 64,
		                         &o0->registration);
	snprintf(o0->error, sizeof(o0->error), "%s", cohort_last_error());
	return NULL;
}

/*
 * Start an operation that waits inside the communicator for the launch of a
 * call that timed out. No memory section may be open during this wait.
 */
static void register_behind(struct operation *o0)
{
	int32_t a[COUNT], b[COUNT] = { 2 };
	pthread_t thread;

	leave_call(a, 0);
	cr_assert_eq(pthread_create(&thread, NULL, operate, o0), 0);
	native_await_wait(&o0->tid);
	cr_assert_eq(cohort_all_reduce_host(comms[1], b, COUNT, COHORT_I32,
	                                    COHORT_SUM, RANKS_SOON),
	             COHORT_OK, "%s", cohort_last_error());
	cr_assert_eq(b[0], 3);
	pthread_join(thread, NULL);
	cr_assert_eq(o0->rc, COHORT_OK, "%s", o0->error);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_OK);
	atomic_store(&launches, 0);
}

static void open_patiently(void)
{
	options(COHORT_LAUNCH_TOGETHER);
	/* Use long deadlines, so that the time limit of a section does not end
	 * the wait. */
	o.deadlines.join_ns = o.deadlines.exec_ns = RANKS_SOON;
	open_ranks(2);
}

Test(together, register_waits_for_the_launch_of_a_timed_out_call)
{
	struct operation one = { .allocates = false };

	place_skip_on_nvidia_from(23000, "from 2.30 on it registers only what "
	                                 "ncclMemAlloc() and the driver's "
	                                 "virtual memory have");
	open_patiently();
	one.memory = sent[0];
	register_behind(&one);
	cr_assert_eq(cohort_deregister(comms[0], one.registration), COHORT_OK);
	close_ranks(2);
}

Test(together, alloc_registered_waits_for_a_timed_out_calls_launch)
{
	struct operation two = { .allocates = true };

	open_patiently();
	register_behind(&two);
	cr_assert_eq(cohort_free(comms[0], two.memory), COHORT_OK);
	close_ranks(2);
}

static void refuse_quietly(int rc)
{
	expect(rc, COHORT_STATE, "(a host-memory call that timed out)");
}

/* The wait would never end, because the launch would wait for the end of the
 * quiet section. */
Test(together, quiet_section_refuses_waits_for_a_timed_out_call)
{
	int32_t a[COUNT], b[COUNT] = { 2 };
	void *registration, *memory;
	int32_t factor = 1;
	int op, other;

	options(COHORT_LAUNCH_TOGETHER);
	open_ranks(2);
	ranks_must(cohort_premul_sum_create(comms[0], &factor, COHORT_I32,
	                                    COHORT_SCALAR_HOST, &op),
	           "premul_sum_create");
	leave_call(a, 0);
	ranks_must(cohort_quiet_begin(), "quiet_begin");
	refuse_quietly(cohort_copy(comms[0], got[0], sent[0], 4, NULL));
	refuse_quietly(
		cohort_send(comms[0], sent[0], 1, COHORT_I32, 1, NULL, NULL));
	refuse_quietly(cohort_register(comms[0], sent[0], 64, &registration));
	refuse_quietly(cohort_alloc_registered(comms[0], 64, &memory));
	refuse_quietly(cohort_premul_sum_create(comms[0], &factor, COHORT_I32,
	                                        COHORT_SCALAR_HOST, &other));
	refuse_quietly(cohort_op_destroy(comms[0], op));
	ranks_must(cohort_quiet_end(), "quiet_end");
	cr_assert_eq(cohort_all_reduce_host(comms[1], b, COUNT, COHORT_I32,
	                                    COHORT_SUM, RANKS_SOON),
	             COHORT_OK, "%s", cohort_last_error());
	cr_assert_eq(b[0], 3);
	/* The refused operations had no effect. */
	ranks_must(cohort_op_destroy(comms[0], op), "op_destroy");
	ranks_must(cohort_synchronize(comms[0], RANKS_SOON), "synchronize");
	close_ranks(2);
}

/* If native_enter succeeded, two threads would be inside the communicator. */
Test(together, native_enter_is_busy_until_a_timed_out_call_launches)
{
	int32_t a[COUNT], b[COUNT] = { 2 };
	void *native = NULL;

	options(COHORT_LAUNCH_TOGETHER);
	open_ranks(2);
	leave_call(a, 0);
	expect(cohort_comm_native_enter(comms[0], &native), COHORT_BUSY,
	       "native_enter: ticket 1 of rank 0");
	cr_assert_null(native);
	expect(cohort_comm_native_leave(comms[0]), COHORT_STATE,
	       "has not called");
	cr_assert_eq(cohort_all_reduce_host(comms[1], b, COUNT, COHORT_I32,
	                                    COHORT_SUM, RANKS_SOON),
	             COHORT_OK, "%s", cohort_last_error());
	ranks_must(cohort_synchronize(comms[0], RANKS_SOON), "synchronize");
	while (cohort_comm_native_enter(comms[0], &native) == COHORT_BUSY)
		sched_yield();
	cr_assert_not_null(native);
	ranks_must(cohort_comm_native_leave(comms[0]), "native_leave");
	close_ranks(2);
}

/* ---- many rounds ------------------------------------------------------ */

#define ROUNDS 200

static int work(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c), n = cohort_comm_size(c);
	unsigned seed = (unsigned)rank;
	int32_t x;
	int i, k;

	(void)user;
	for (i = 0; i < ROUNDS; i++) {
		for (k = rand_r(&seed) % 3; k; k--)
			sched_yield();
		x = rank + i;
		if (ranks_sum_wait(c, &x) != COHORT_OK)
			return 1;
		if (x != n * i + n * (n - 1) / 2)
			return 2;
	}
	return 0;
}

Test(together, ranks_can_launch_together_many_times)
{
	struct cohort_cause cause;
	int n;

	for (n = 1; n <= MOST; n *= 2) {
		options(COHORT_LAUNCH_TOGETHER);
		group = ranks_open(n, &o);
		cr_assert_eq(cohort_group_run(group, work, NULL, &cause),
		             COHORT_OK, "%d ranks: %s", n, cause.text);
		expect_close(group);
	}
}

/* Make a call on rank 0 alone. Return the launch mode, which the wait shows: a
 * rank that launches together waits until the deadline. */
static int launch_alone(struct cohort_comm *c)
{
	const struct cohort_deadlines soon = { .join_ns = SHORT };
	int rc;

	ranks_must(cohort_deadline_push(c, &soon), "push");
	rc = cohort_barrier(c, cohort_comm_stream(c), NULL);
	return rc == COHORT_OK        ? COHORT_LAUNCH_AHEAD
	       : rc == COHORT_STALLED ? COHORT_LAUNCH_TOGETHER
	                              : rc;
}

static atomic_int launch_of_child;

static int split(struct cohort_comm *c, void *user)
{
	struct cohort_cause cause = { .status = COHORT_OK };
	struct cohort_comm *child;

	(void)user;
	ranks_must(cohort_comm_split(c, 0, 0, &child), "split");
	if (cohort_comm_rank(c) == 0) {
		launch_of_child = launch_alone(child);
		return 0;
	}
	while (cause.status == COHORT_OK) {
		sched_yield();
		cohort_comm_cause(child, &cause);
	}
	return 0;
}

Test(together, children_launch_as_their_parents_do)
{
	spread_not("the ranks of one process launch together");
	options(COHORT_LAUNCH_TOGETHER);
	group = ranks_open(2, &o);
	cohort_group_run(group, split, NULL, NULL);
	cr_assert_eq(launch_of_child, COHORT_LAUNCH_TOGETHER);
	expect_close(group);
}

/* ---- the launch option ------------------------------------------------ */

static int launch_of(int launch)
{
	options(launch);
	group = ranks_split(2, &o, comms);
	launch = launch_alone(comms[0]);
	cohort_group_abort(group, NULL);
	expect_close(group);
	return launch;
}

static int probed(void)
{
	struct cohort_platform_info info = { .size = sizeof(info) };

	ranks_must(cohort_platform_probe(place_platform(), &info), "probe");
	return info.launch;
}

Test(together, default_launch_is_ahead_only_if_the_platform_allows_it)
{
	const int usual = place_table()->launches_ahead
	                          ? COHORT_LAUNCH_AHEAD
	                          : COHORT_LAUNCH_TOGETHER;

	unsetenv("COHORT_LAUNCH");
	cr_assert_eq(launch_of(COHORT_LAUNCH_DEFAULT), usual);
	cr_assert_eq(probed(), usual);
	cr_assert_eq(launch_of(COHORT_LAUNCH_AHEAD), COHORT_LAUNCH_AHEAD);
	cr_assert_eq(launch_of(COHORT_LAUNCH_TOGETHER), COHORT_LAUNCH_TOGETHER);
}

Test(together, environment_chooses_the_launch_if_options_do_not)
{
	setenv("COHORT_LAUNCH", "together", 1);
	cr_assert_eq(launch_of(COHORT_LAUNCH_DEFAULT), COHORT_LAUNCH_TOGETHER);
	cr_assert_eq(probed(), COHORT_LAUNCH_TOGETHER);
	cr_assert_eq(launch_of(COHORT_LAUNCH_AHEAD), COHORT_LAUNCH_AHEAD);
	setenv("COHORT_LAUNCH", "ahead", 1);
	cr_assert_eq(launch_of(COHORT_LAUNCH_DEFAULT), COHORT_LAUNCH_AHEAD);
	cr_assert_eq(launch_of(COHORT_LAUNCH_TOGETHER), COHORT_LAUNCH_TOGETHER);
}

Test(together, open_refuses_an_invalid_launch_option)
{
	options(3);
	o.platform = place_platform();
	expect(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID,
	       "options->launch is 3, not a value of enum cohort_launch");
	o.launch = -1;
	expect(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID,
	       "options->launch is -1");
	o.launch = COHORT_LAUNCH_DEFAULT;
	setenv("COHORT_LAUNCH", "apart", 1);
	expect(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID,
	       "COHORT_LAUNCH is \"apart\" in the environment, not together or "
	       "ahead");
	cr_assert_eq(probed(), COHORT_LAUNCH_DEFAULT);
}

/* ---- after the launch ---------------------------------------------------- */

static atomic_int returned; /* number of calls that have returned */

static void *call_and_count(void *comm)
{
	static int32_t values[MOST];
	int32_t *value = &values[cohort_comm_rank(comm)];

	cohort_all_reduce(comm, value, value, 1, COHORT_I32, COHORT_SUM,
	                  cohort_comm_stream(comm), NULL);
	returned++;
	return NULL;
}

/* Start a collective in which rank 0 has launched and waits for rank 1, whose
 * launch is stuck. */
static void begin_stuck_launch(pthread_t threads[2])
{
	struct cohort_stats stats = { .size = sizeof(stats) };
	int r;

	stuck_install();
	o.deadlines.abort_ns = RANKS_SOON;
	group = ranks_split(2, &o, comms);
	stuck_at("ncclAllReduce", 1);
	for (r = 0; r < 2; r++)
		pthread_create(&threads[r], NULL, call_and_count, comms[r]);
	stuck_await();
	while (!returned && !stats.operations) {
		sched_yield();
		ranks_must(cohort_stats(comms[0], &stats), "stats");
	}
	cr_assert_eq(returned, 0, "before all ranks have launched");
}

static void end_launch(pthread_t thread)
{
	pthread_join(thread, NULL);
	expect_close(group);
}

/* If rank 0's call returned earlier, rank 0's next call, such as cudaFree(),
 * could block rank 1's launch. */
Test(together, call_returns_once_all_ranks_have_launched)
{
	pthread_t threads[2];

	spread_not("the ranks are threads of one process");
	options(COHORT_LAUNCH_TOGETHER);
	begin_stuck_launch(threads);
	stuck_release();
	pthread_join(threads[0], NULL);
	end_launch(threads[1]);
}

Test(together, cause_ends_the_wait_for_other_ranks_launches)
{
	pthread_t threads[2];

	spread_not("the ranks are threads of one process");
	options(COHORT_LAUNCH_TOGETHER);
	begin_stuck_launch(threads);
	cohort_group_abort(group, "enough");
	pthread_join(threads[0], NULL);
	cr_assert_eq(returned, 1);
	stuck_release();
	end_launch(threads[1]);
}

Test(together, rank_that_is_stuck_in_its_launch_is_blamed)
{
	struct cohort_cause cause = { .status = COHORT_OK };
	pthread_t threads[2];

	spread_not("the ranks are threads of one process");
	options(COHORT_LAUNCH_TOGETHER);
	o.deadlines.exec_ns = 500 * MS;
	begin_stuck_launch(threads);
	while (cause.status == COHORT_OK) {
		sched_yield();
		ranks_must(cohort_group_cause(group, &cause), "cause");
	}
	cr_assert_eq(cause.status, COHORT_STALLED);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	stuck_release();
	pthread_join(threads[0], NULL);
	end_launch(threads[1]);
}
