/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of NCCL versions that connect ranks in their first call. After the
 * open, no collective may wait inside its call, and two ranks that both send
 * first may not wait for each other.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/ranks.h"
#include "support/spread.h"

#define RANKS 4
#define MS UINT64_C(1000000)

TestSuite(connect, .timeout = 60);

/* Make NCCL, simulated or NVIDIA's, connect ranks in their first call. */
static void connect_late(void)
{
	unsetenv("COHORT_CONNECT");
	setenv(place_is_nvidia() ? "NCCL_RUNTIME_CONNECT"
	                         : "COHORT_HOST_CONNECT",
	       place_is_nvidia() ? "1" : "first", 1);
	ranks_launch_ahead();
}

static void await_all(struct cohort_comm *comms[], int n)
{
	int r;

	for (r = 0; r < n; r++)
		ranks_must(cohort_synchronize(comms[r], RANKS_SOON),
		           "synchronize");
}

/* Set deadlines that end a deadlock of ranks with an error, before the test
 * times out. */
static void end_soon(struct cohort_group_options *o)
{
	o->deadlines.init_ns = o->deadlines.join_ns = o->deadlines.exec_ns =
		5000 * MS;
}

/* Make a sum with one thread, which makes the calls of each rank in turn. No
 * call may block. */
static void sum_in_turn(struct cohort_comm *comms[], int n)
{
	int32_t x[RANKS];
	int r;

	for (r = 0; r < n; r++) {
		x[r] = r + 1;
		ranks_sum(comms[r], &x[r]);
	}
	await_all(comms, n);
	for (r = 0; r < n; r++)
		cr_assert_eq(x[r], n * (n + 1) / 2);
}

/* ---- collectives ------------------------------------------------------- */

static int32_t memory[2][RANKS][RANKS];

static int call(struct cohort_comm *c, int kind, int r)
{
	void *const stream = cohort_comm_stream(c);
	int32_t *send = memory[0][r], *recv = memory[1][r];

	switch (kind) {
	case 0:
		return cohort_broadcast(c, send, recv, 1, COHORT_I32, 1, stream,
		                        NULL);
	case 1:
		return cohort_reduce(c, send, recv, 1, COHORT_I32, COHORT_SUM,
		                     2, stream, NULL);
	case 2:
		return cohort_all_gather(c, send, recv, 1, COHORT_I32, stream,
		                         NULL);
	default:
		return cohort_reduce_scatter(c, send, recv, 1, COHORT_I32,
		                             COHORT_SUM, stream, NULL);
	}
}

Test(connect, one_thread_may_call_for_all_ranks_after_an_open)
{
	struct cohort_comm *comms[RANKS];
	struct cohort_group *group;
	int kind, r;

	connect_late();
	group = ranks_ahead(RANKS, NULL, comms);
	for (kind = 0; kind < 4; kind++)
		for (r = 0; r < RANKS; r++)
			ranks_must(call(comms[r], kind, r), "a collective");
	sum_in_turn(comms, RANKS);
	expect_close(group);
}

static int split_by_parity(struct cohort_comm *c, void *user)
{
	struct cohort_comm **children = user;

	return cohort_comm_split(c, cohort_comm_rank(c) % 2, 0,
	                         &children[cohort_comm_rank(c)]);
}

Test(connect, one_thread_may_call_for_all_ranks_after_a_split)
{
	struct cohort_comm *children[RANKS], *even[2], *odd[2];
	struct cohort_group *group;

	spread_not("one thread has all communicators");
	connect_late();
	group = ranks_open(RANKS, NULL);
	ranks_must(cohort_group_run(group, split_by_parity, children, NULL),
	           "run");
	even[0] = children[0];
	even[1] = children[2];
	odd[0] = children[1];
	odd[1] = children[3];
	sum_in_turn(odd, 2);
	sum_in_turn(even, 2);
	expect_close(group);
}

Test(connect, one_thread_may_call_for_all_ranks_after_a_respawn)
{
	const int lost[] = { 1 };
	struct cohort_comm *comms[RANKS];
	struct cohort_group *group;

	spread_not("one thread has all communicators");
	connect_late();
	group = ranks_open(RANKS, NULL);
	cohort_group_abort(group, "enough");
	ranks_must(cohort_group_respawn(group, lost, 1), "respawn");
	ranks_must(cohort_group_split(group, comms), "split");
	sum_in_turn(comms, RANKS - 1);
	expect_close(group);
}

struct joiner {
	struct cohort_unique_id id;
	int rank;
	struct cohort_comm *comm;
	pthread_t thread;
};

static void *join_main(void *arg)
{
	struct joiner *j = arg;

	ranks_must(cohort_comm_join(&j->id, RANKS, j->rank, j->rank, NULL,
	                            &j->comm),
	           "join");
	return NULL;
}

Test(connect, one_thread_may_call_for_all_ranks_after_a_join)
{
	struct cohort_comm *comms[RANKS];
	struct joiner j[RANKS];
	int r;

	connect_late();
	place_choose();
	place_need(RANKS);
	ranks_must(cohort_unique_id(COHORT_PLATFORM_AUTO, &j[0].id),
	           "unique id");
	for (r = 0; r < RANKS; r++) {
		j[r].id = j[0].id;
		j[r].rank = r;
		pthread_create(&j[r].thread, NULL, join_main, &j[r]);
	}
	for (r = 0; r < RANKS; r++) {
		pthread_join(j[r].thread, NULL);
		comms[r] = j[r].comm;
	}
	sum_in_turn(comms, RANKS);
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(cohort_comm_close(comms[r]), COHORT_OK);
}

/* ---- what the program sees of connecting --------------------------------- */

Test(connect, connecting_does_not_count_as_a_call_of_the_program)
{
	struct cohort_group_options o;
	struct cohort_comm *comms[2];
	struct cohort_group *group;
	int32_t x = 1;

	connect_late();
	cohort_group_options_init(&o);
	o.connect = COHORT_CONNECT_ALL;
	group = ranks_ahead(2, &o, comms);
	cr_assert_eq(ranks_sum(comms[1], &x), 1);
	ranks_fault(0, 0, COHORT_FAULT_ERROR, 3);
	cr_assert_eq(cohort_all_reduce(comms[0], &x, &x, 1, COHORT_I32,
	                               COHORT_SUM, cohort_comm_stream(comms[0]),
	                               NULL),
	             COHORT_NCCL);
	expect_close(group);
}

Test(connect, open_refuses_an_invalid_connect_option)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	cohort_group_options_init(&o);
	o.connect = COHORT_CONNECT_NONE + 1;
	expect(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID,
	       "options->connect is 4, not a value of enum cohort_connect");
	setenv("COHORT_CONNECT", "some", 1);
	expect(cohort_group_open(NULL, 1, NULL, &group), COHORT_INVALID,
	       "COHORT_CONNECT is \"some\" in the environment, not "
	       "collectives, "
	       "all or none");
}

/* ---- messages ---------------------------------------------------------- */

static int just_send(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);

	(void)user;
	return cohort_send(c, memory[0][rank], 1, COHORT_I32, 1 - rank,
	                   cohort_comm_stream(c), NULL);
}

/* The operations may wait for receives, but cohort_send() must return. */
Test(connect, sends_of_two_ranks_that_both_send_first_return)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	spread_not("the processes do not abort together");
	/* Strict mode would report that both ranks wait for each other. */
	unsetenv("COHORT_HOST_STRICT");
	connect_late();
	cohort_group_options_init(&o);
	end_soon(&o);
	group = ranks_open(2, &o);
	expect_run_in(group, just_send, NULL);
	cohort_group_abort(group, "enough");
	expect_close(group);
}

Test(connect, one_thread_may_send_then_receive_if_pairs_are_connected)
{
	struct cohort_comm *comms[2];
	struct cohort_group *group;
	int32_t x = 7, y = 0;

	connect_late();
	setenv("COHORT_CONNECT", "all", 1);
	group = ranks_ahead(2, NULL, comms);
	ranks_must(cohort_send(comms[0], &x, 1, COHORT_I32, 1,
	                       cohort_comm_stream(comms[0]), NULL),
	           "send");
	ranks_must(cohort_recv(comms[1], &y, 1, COHORT_I32, 0,
	                       cohort_comm_stream(comms[1]), NULL),
	           "recv");
	await_all(comms, 2);
	cr_assert_eq(y, 7);
	expect_close(group);
}

/* ---- ranks that launch together ---------------------------------------- */

/* The ranks wait for each other before they connect. The timeout of the call
 * ends this wait. */
Test(connect, gather_that_times_out_continues_without_its_caller)
{
	struct cohort_group_options o;
	struct cohort_comm *comms[2];
	struct cohort_group *group;
	int32_t all[2] = { 0 };

	connect_late();
	setenv("COHORT_LAUNCH", "together", 1);
	cohort_group_options_init(&o);
	end_soon(&o);
	group = ranks_split(2, &o, comms);
	memory[0][0][0] = 3;
	memory[0][1][0] = 4;
	cr_assert_eq(cohort_gather_host(comms[0], memory[0][0], NULL, 1,
	                                COHORT_I32, 1, 1000000),
	             COHORT_TIMED_OUT);
	ranks_must(cohort_gather_host(comms[1], memory[0][1], all, 1,
	                              COHORT_I32, 1, COHORT_FOREVER),
	           "gather");
	cr_assert_eq(all[0], 3);
	cr_assert_eq(all[1], 4);
	ranks_must(cohort_synchronize(comms[0], RANKS_SOON), "synchronize");
	expect_close(group);
}

/* ---- first messages ---------------------------------------------------- */

static int send_first(struct cohort_comm *c, void *user)
{
	(void)user;
	return cohort_comm_rank(c)
	               ? COHORT_OK
	               : cohort_send(c, memory[0][0], 1, COHORT_I32, 1,
	                             cohort_comm_stream(c), NULL);
}

SPREAD_SHARED static atomic_bool is_launched;

/* Have rank 2 launch its part of the scatter before the other ranks call. */
static int scatter(struct cohort_comm *c, int r)
{
	int rc;

	while (r != 2 && !atomic_load(&is_launched))
		test_nap();
	rc = cohort_scatter(c, memory[0][r], memory[1][r], 1, COHORT_I32, 1,
	                    cohort_comm_stream(c), NULL);
	atomic_store(&is_launched, true);
	return rc;
}

static int gather_and_scatter(struct cohort_comm *c, void *user)
{
	const int r = cohort_comm_rank(c);
	int rc = cohort_gather(c, memory[0][r], memory[1][r], 1, COHORT_I32, 2,
	                       cohort_comm_stream(c), NULL);

	(void)user;
	if (rc == COHORT_OK)
		rc = cohort_synchronize(c, COHORT_FOREVER);
	if (rc == COHORT_OK)
		rc = scatter(c, r);
	return rc == COHORT_OK ? cohort_synchronize(c, COHORT_FOREVER) : rc;
}

/*
 * The gather connects ranks 2 and 1, so rank 2 can launch the scatter first.
 * The other ranks still have to connect, and allocate memory for it.
 */
Test(connect, no_rank_launches_a_scatter_while_others_connect)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	connect_late();
	setenv("COHORT_HOST_SYNC", "memory", 1);
	cohort_group_options_init(&o);
	end_soon(&o);
	group = ranks_open(RANKS, &o);
	expect_run_in(group, gather_and_scatter, NULL);
	expect_close(group);
}

Test(connect, first_send_without_its_receive_ends_as_a_stall)
{
	struct cohort_group_options o;
	struct cohort_group *group;
	struct cohort_cause cause;

	connect_late();
	place_skip_if_shared("ranks are connected from the start");
	cohort_group_options_init(&o);
	o.deadlines.join_ns = 300 * MS;
	group = ranks_open(2, &o);
	expect(cohort_group_run(group, send_first, NULL, &cause),
	       COHORT_STALLED, "send");
	cr_assert_eq(cause.kind, COHORT_VERDICT_LEFT, "%s", cause.text);
	expect_close(group);
}

/* ---- duration of a call that connects ------------------------------------ */

static int sum_twice(struct cohort_comm *c, void *user)
{
	int32_t x = 1;
	int rc = ranks_sum_wait(c, &x);

	(void)user;
	return rc == COHORT_OK ? ranks_sum_wait(c, &x) : rc;
}

static int send_to_1(struct cohort_comm *c)
{
	static int32_t x[2];
	const int rank = cohort_comm_rank(c);
	void *stream = cohort_comm_stream(c);
	int rc = rank ? cohort_recv(c, &x[1], 1, COHORT_I32, 0, stream, NULL)
	              : cohort_send(c, &x[0], 1, COHORT_I32, 1, stream, NULL);

	return rc == COHORT_OK ? cohort_synchronize(c, RANKS_SOON) : rc;
}

static int send_twice(struct cohort_comm *c, void *user)
{
	int rc = send_to_1(c);

	(void)user;
	return rc == COHORT_OK ? send_to_1(c) : rc;
}

/* Make rank 1's first call late by more than exec_ns, and omit its second call.
 * Return the cause. */
static struct cohort_cause be_late(cohort_worker_fn worker, int connect)
{
	struct cohort_group_options o;
	struct cohort_group *group;
	struct cohort_cause cause;

	spread_not("the text names ranks of one process");
	connect_late();
	cohort_group_options_init(&o);
	o.connect = connect;
	o.deadlines.init_ns = o.deadlines.join_ns = RANKS_SOON;
	o.deadlines.exec_ns = 100 * MS;
	ranks_fault(1, 0, COHORT_FAULT_DELAY, 300 * MS);
	ranks_fault(1, 1, COHORT_FAULT_NEVER, 0);
	group = ranks_open(2, &o);
	cause = expect_end_of_run(group, worker, NULL, COHORT_STALLED);
	cr_assert_eq(cause.deadline_ns, 100 * MS, "%s", cause.text);
	expect_close(group);
	return cause;
}

Test(connect, first_collective_gets_exec_ns_if_ranks_are_connected)
{
	cr_assert_eq(be_late(sum_twice, COHORT_CONNECT_COLLECTIVES).collective,
	             1);
}

Test(connect, first_collective_gets_init_ns_if_it_connects_the_ranks)
{
	cr_assert_eq(be_late(sum_twice, COHORT_CONNECT_NONE).collective, 2);
}

Test(connect, first_message_gets_exec_ns_if_the_pair_is_connected)
{
	const struct cohort_cause cause =
		be_late(send_twice, COHORT_CONNECT_ALL);

	expect_text(cause.text, "send 1 to rank 1 of ");
}

Test(connect, first_message_gets_init_ns_if_it_connects_the_pair)
{
	const struct cohort_cause cause =
		be_late(send_twice, COHORT_CONNECT_COLLECTIVES);

	expect_text(cause.text, "send 2 to rank 1 of ");
}

/* ---- ranks that are not connected in time ------------------------------ */

static const struct platform *real;
static struct platform table;
static atomic_int aborts, ends;
static _Thread_local bool has_aborted;

static ncclResult_t note_abort(ncclComm_t comm)
{
	const ncclResult_t result = real->ncclCommAbort(comm);

	has_aborted = true;
	aborts++;
	return result;
}

static ncclResult_t record_trial_end(void)
{
	const bool is_of_abort = has_aborted;
	const ncclResult_t result = real->ncclGroupEnd();

	has_aborted = false;
	ends += is_of_abort;
	return result;
}

/* Wait until all ranks are aborted, as if a rank of another process were
 * missing. */
static ncclResult_t simulate_until_aborted(ncclSimInfo_t *info)
{
	while (aborts < RANKS)
		test_nap();
	cr_assert_eq(ends, 0, "freed under a thread that is inside");
	real->ncclGroupSimulateEnd(info);
	return ncclInternalError;
}

static bool late(void)
{
	return true;
}

static void install(void)
{
	real = place_table();
	table = *real;
	table.connects_late = late;
	table.ncclCommAbort = note_abort;
	table.ncclGroupEnd = record_trial_end;
	platform_override(&table);
}

static void await_count(const atomic_int *count, int n)
{
	while (*count < n)
		test_nap();
}

static void short_init(struct cohort_group_options *o)
{
	cohort_group_options_init(o);
	o->deadlines.init_ns = place_patience_ns(2 * UINT64_C(1000000000));
}

Test(connect, open_that_hangs_while_connecting_is_aborted)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	install();
	place_need(RANKS);
	table.ncclGroupSimulateEnd = simulate_until_aborted;
	short_init(&o);
	expect(cohort_group_open(NULL, RANKS, &o, &group), COHORT_INIT_TIMEOUT,
	       "init stuck: ncclGroupSimulateEnd, which connects the ranks, of "
	       "ranks 0-3");
	await_count(&ends, 1);
	cr_assert_eq(aborts, RANKS);
}

static int split_all(struct cohort_comm *c, void *user)
{
	struct cohort_comm *child;

	(void)user;
	return cohort_comm_split(c, 0, 0, &child);
}

Test(connect, split_that_hangs_while_connecting_ends_its_parent)
{
	struct cohort_group_options o;
	struct cohort_group *group;
	struct cohort_cause cause;
	char stuck[128];

	spread_not("one thread connects all pairs");
	install();
	short_init(&o);
	snprintf(stuck, sizeof(stuck),
	         "init stuck: ncclGroupSimulateEnd, which connects the ranks, "
	         "of 4 ranks has not returned within %d ms",
	         (int)(o.deadlines.init_ns / 1000000));
	group = ranks_open(RANKS, &o);
	table.ncclGroupSimulateEnd = simulate_until_aborted;
	expect(cohort_group_run(group, split_all, NULL, &cause),
	       COHORT_INIT_TIMEOUT, stuck);
	expect_close(group);
	cr_assert_eq(aborts, 2 * RANKS, "the children were not aborted");
	await_count(&ends, 1);
}

/* ---- connections and memory sections ------------------------------------- */

static atomic_int inits, sends;
static atomic_bool is_open;

static ncclResult_t count_init(ncclComm_t *comms, int n, const int *devices)
{
	const ncclResult_t result = real->ncclCommInitAll(comms, n, devices);

	inits++;
	return result;
}

static ncclResult_t count_send(const void *data, size_t count,
                               ncclDataType_t type, int peer, ncclComm_t comm,
                               cudaStream_t stream)
{
	sends++;
	return real->ncclSend(data, count, type, peer, comm, stream);
}

static void *open_group(void *group)
{
	*(struct cohort_group **)group = ranks_open(2, NULL);
	is_open = true;
	return NULL;
}

/*
 * All pairs are connected by messages that are launched one after the other. On
 * devices that wait for each other's kernels, a free between two launches would
 * wait for the first message and delay the last.
 */
Test(connect, connecting_all_pairs_waits_for_a_quiet_section)
{
	struct cohort_group *group;
	pthread_t thread;

	spread_not("one thread connects all pairs");
	connect_late();
	setenv("COHORT_CONNECT", "all", 1);
	real = place_table();
	table = *real;
	table.ncclCommInitAll = count_init;
	table.ncclSend = count_send;
	platform_override(&table);
	ranks_must(cohort_quiet_begin(), "quiet_begin");
	pthread_create(&thread, NULL, open_group, &group);
	while (!inits)
		test_nap();
	usleep(50000);
	cr_assert_not(is_open);
	cr_assert_eq(sends, 0);
	ranks_must(cohort_quiet_end(), "quiet_end");
	pthread_join(thread, NULL);
	cr_assert_gt(sends, 0);
	expect_close(group);
}
