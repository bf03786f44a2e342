/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of ranks that wait for each other, in sends and receives and in two
 * communicators
 *
 * Each rank has a thread, which waits for its own ticket before it makes the
 * call that another rank waits for.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/expect.h"
#include "support/native.h"
#include "support/place.h"
#include "support/ranks.h"
#include "support/spread.h"
#include "support/verdicts.h"

/*
 * Disable strict mode, which ends a program whose ranks wait in a cycle.
 */
static void be_lenient(void)
{
	unsetenv("COHORT_HOST_STRICT");
}

TestSuite(waits, .init = be_lenient, .timeout = 60);

#define MS UINT64_C(1000000)
#define SHORT (100 * MS)
#define MAX_RANKS 5

static struct cohort_group_options o;
static struct cohort_cause cause;
static int32_t values[MAX_RANKS];
SPREAD_SHARED static struct spread_barrier have_called;

/*
 * Run @worker on a group of @n ranks with short deadlines, until the group has
 * a cause.
 */
static void stall(int n, cohort_worker_fn worker, void *user)
{
	struct cohort_group *group;

	cohort_group_options_init(&o);
	o.name = "dp";
	o.deadlines.join_ns = SHORT;
	o.deadlines.exec_ns = SHORT;
	group = ranks_open(n, &o);
	cause = expect_end_of_run(group, worker, user, COHORT_STALLED);
	expect_close(group);
}

static void says(const char *text)
{
	expect_text(cause.details, text);
}

/*
 * Pause before a rank's first call, so that no clock runs before all ranks have
 * made their calls.
 */
static void pause(struct cohort_comm *c)
{
	ranks_must(cohort_pause(c), "pause");
}

/*
 * Wait for this rank's calls in @in until @c's group has ended.
 */
static int await_in(struct cohort_comm *in, struct cohort_comm *c)
{
	/* After this wait, every operation that can start has started. */
	cr_assert_eq(cohort_synchronize(in, MS), COHORT_TIMED_OUT);
	spread_wait(&have_called, cohort_comm_size(c));
	ranks_must(cohort_resume(c), "resume");
	return cohort_synchronize(in, RANKS_SOON) == COHORT_STALLED ? 0 : 1;
}

static int await(struct cohort_comm *c)
{
	return await_in(c, c);
}

/* ---- sends and receives ----------------------------------------------- */

/* Send to the right on every rank. Each rank would receive from the left only
 * after its send is done. */
static int send_first(struct cohort_comm *c, void *user)
{
	int rank = cohort_comm_rank(c), n = cohort_comm_size(c);

	(void)user;
	pause(c);
	ranks_must(cohort_send(c, &values[rank], 1, COHORT_I32, (rank + 1) % n,
	                       cohort_comm_stream(c), NULL),
	           "send");
	return await(c);
}

Test(waits, ring_of_sends_is_reported_as_a_cycle)
{
	spread_not("the rows show the waits of one process");
	place_skip_on_nvidia("small messages are done without a receive");
	stall(3, send_first, NULL);
	cr_assert_eq(cause.kind, COHORT_VERDICT_CYCLE, "%s", cause.text);
	cr_assert_eq(cause.rank, -1, "%s", cause.text);
	says("ranks 0-2 wait for each other in a cycle (");
	says("\nwait   rank 0 waits in send to rank 1\n");
	says("\nwait   rank 1 waits in send to rank 2\n");
	says("\nwait   rank 2 waits in send to rank 0\n");
}

/* Send to the right on every rank, and queue the receive after the send. */
static int send_before_recv(struct cohort_comm *c, void *user)
{
	int rank = cohort_comm_rank(c), peer = !rank;
	void *stream = cohort_comm_stream(c);
	int32_t got;

	(void)user;
	pause(c);
	ranks_must(cohort_send(c, &values[rank], 1, COHORT_I32, peer, stream,
	                       NULL),
	           "send");
	ranks_must(cohort_recv(c, &got, 1, COHORT_I32, peer, stream, NULL),
	           "recv");
	return await(c);
}

Test(waits, ring_of_sends_is_a_cycle_even_with_queued_receives)
{
	spread_not("the rows show the waits of one process");
	place_skip_on_nvidia("small messages are done without a receive");
	stall(2, send_before_recv, NULL);
	cr_assert_eq(cause.kind, COHORT_VERDICT_CYCLE, "%s", cause.text);
	says("\nwait   rank 0 waits in send to rank 1\n");
	says("\nwait   rank 1 waits in send to rank 0\n");
}

/* Rank 0 would sum only after its receive, and rank 1 would send only after the
 * sum. */
static int recv_before_sum(struct cohort_comm *c, void *user)
{
	int rank = cohort_comm_rank(c);
	void *stream = cohort_comm_stream(c);

	(void)user;
	pause(c);
	if (rank == 0)
		ranks_must(cohort_recv(c, &values[2], 1, COHORT_I32, 1, stream,
		                       NULL),
		           "recv");
	else
		ranks_sum(c, &values[rank]);
	return await(c);
}

Test(waits, cycle_of_waiting_ranks_may_include_a_collective)
{
	spread_not("the rows show the waits of one process");
	place_need_no_sync("a kernel is loaded beside a launch, as ranks that "
	                   "launch ahead begin with different calls");
	ranks_launch_ahead();
	stall(2, recv_before_sum, NULL);
	cr_assert_eq(cause.kind, COHORT_VERDICT_CYCLE, "%s", cause.text);
	says("\nwait   rank 0 waits in recv from rank 1\n");
	says("\nwait   rank 1 waits in all_reduce 1 of group \"dp\" for rank "
	     "0\n");
}

/* ---- two communicators ------------------------------------------------ */

/* Communicators of the second group */
static struct cohort_comm *others[MAX_RANKS];

static int32_t more[MAX_RANKS];

/* Rank 1 calls first in the second group, and all other ranks call first in the
 * first group.  If @reverse is not NULL, it is the reverse. */
static int each_awaited(struct cohort_comm *c, void *reverse)
{
	int rank = cohort_comm_rank(c);
	struct cohort_comm *other = others[rank];
	const bool calls_other = (rank == 1) != !!reverse;

	pause(c);
	if (calls_other)
		ranks_sum(other, &more[rank]);
	else
		ranks_sum(c, &values[rank]);
	return await_in(calls_other ? other : c, c);
}

/*
 * Both calls of a rank are on one stream, so the second call starts after the
 * end of the first one.
 */
static int both_queued(struct cohort_comm *c, void *user)
{
	int i, rank = cohort_comm_rank(c);
	void *stream = cohort_comm_stream(c);

	(void)user;
	pause(c);
	for (i = 0; i < 2; i++)
		ranks_must(
			cohort_all_reduce(i == (rank == 1) ? c : others[rank],
		                          &more[rank], &more[rank], 1,
		                          COHORT_I32, COHORT_SUM, stream, NULL),
			"all_reduce");
	return await(c);
}

/*
 * Open a second group, with deadlines that do not expire. Its ranks launch
 * ahead, because each rank must return from its call before the other ranks
 * have called.
 */
static struct cohort_group *open_other(int n)
{
	struct cohort_group_options other;

	cohort_group_options_init(&other);
	other.name = "tp";
	ranks_launch_ahead();
	return ranks_split(n, &other, others);
}

/* Rank 1's worker waits in the second group, which is then aborted. */
static int each_awaited_then_freed(struct cohort_comm *c, void *user)
{
	struct cohort_abort *other;
	int rc;

	if (cohort_comm_rank(c) == 1)
		return each_awaited(c, user) == 0;
	rc = each_awaited(c, user);
	other = cohort_comm_abort_handle(others[0]);
	cohort_abort_fire(other, NULL);
	cohort_abort_put(other);
	return rc;
}

Test(waits, verdict_names_both_orders_of_two_groups)
{
	struct cohort_group *other = open_other(2);

	stall(2, each_awaited_then_freed, NULL);
	cr_assert_eq(cause.kind, COHORT_VERDICT_ORDER, "%s", cause.text);
	cr_assert_eq(cause.rank, -1, "%s", cause.text);
	says("all_reduce 1 of \"dp\": ranks 0-1 use \"dp\" and \"tp\" in "
	     "different "
	     "orders (");
	says("\nwait   rank 0 (thread ");
	says(" has called collective 1 of \"dp\" ");
	says(" ago, and not yet all_reduce of 1 int32, sum (collective 1, "
	     "group \"tp\")\nwait   rank 1 (thread ");
	says(" has called collective 1 of \"tp\" ");
	says(" ago, and not yet collective 1 of \"dp\"");
	cohort_group_close(other);
}

Test(waits, rank_whose_order_differs_from_the_majority_is_named)
{
	struct cohort_group *other = open_other(4);

	stall(4, each_awaited_then_freed, NULL);
	cr_assert_eq(cause.kind, COHORT_VERDICT_ORDER, "%s", cause.text);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	cohort_group_close(other);
}

Test(waits, order_verdict_considers_the_order_of_queued_calls)
{
	struct cohort_group *other = open_other(2);

	stall(2, both_queued, NULL);
	cr_assert_eq(cause.kind, COHORT_VERDICT_ORDER, "%s", cause.text);
	says(" ago, then all_reduce of 1 int32, sum (collective 1, group "
	     "\"tp\")\nwait   rank 1 (thread ");
	says(" ago, then collective 1 of \"dp\"");
	cohort_group_abort(other, NULL);
	cohort_group_close(other);
}

Test(waits, rank_that_queues_calls_in_another_order_is_named)
{
	struct cohort_group *other = open_other(4);

	stall(4, both_queued, NULL);
	cr_assert_eq(cause.kind, COHORT_VERDICT_ORDER, "%s", cause.text);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	cohort_group_abort(other, NULL);
	cohort_group_close(other);
}

/* Split the second communicator from the first one, on each rank. */
static int split_first(struct cohort_comm *c, void *reverse)
{
	const struct cohort_deadlines patient = { .join_ns = RANKS_SOON,
		                                  .exec_ns = RANKS_SOON };
	int rank = cohort_comm_rank(c);

	ranks_must(cohort_deadline_push(c, &patient), "push");
	ranks_must(cohort_comm_split(c, 0, 0, &others[rank]), "split");
	ranks_must(cohort_deadline_pop(c), "pop");
	ranks_must(cohort_deadline_push(others[rank], &patient), "push");
	return each_awaited(c, reverse);
}

Test(waits, split_communicators_used_in_different_orders_are_named)
{
	spread_not("the order of calls is known within a process");
	ranks_launch_ahead();
	stall(2, split_first, NULL);
	cr_assert_eq(cause.kind, COHORT_VERDICT_ORDER, "%s", cause.text);
	says("group \"dp.0\"");
}

/* Only rank 1 differs, so no process needs to have ranks of both orders, and
 * most ranks may be in the other communicator. */
static void order_of_rank_1_differs(void *reverse)
{
	ranks_launch_ahead();
	stall(5, split_first, reverse);
	cr_assert_eq(cause.kind, COHORT_VERDICT_ORDER, "%s", cause.text);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	cr_assert_eq(cause.missing[0], 2, "%s", cause.text);
	says("all_reduce 2 of \"dp\": rank 1 uses \"dp\" and \"dp.0\" in a "
	     "different order from most ranks (");
}

Test(waits, rank_that_calls_a_split_before_its_parent_is_named)
{
	order_of_rank_1_differs(NULL);
}

Test(waits, rank_that_calls_a_parent_before_its_split_is_named)
{
	order_of_rank_1_differs("the reverse");
}

/* Rank 3 calls in a communicator of ranks 2 and 3, and waits there for rank 2.
 * All other ranks call in the group. */
static int pair_differs(struct cohort_comm *c, void *user)
{
	const struct cohort_deadlines patient = { .join_ns = RANKS_SOON,
		                                  .exec_ns = RANKS_SOON };
	int rank = cohort_comm_rank(c);
	struct cohort_comm *pair;

	(void)user;
	ranks_must(cohort_deadline_push(c, &patient), "push");
	ranks_must(cohort_comm_split(c, rank / 2, 0, &pair), "split");
	ranks_must(cohort_deadline_pop(c), "pop");
	ranks_must(cohort_deadline_push(pair, &patient), "push");
	pause(c);
	if (rank == 3)
		ranks_sum(pair, &more[rank]);
	else
		ranks_sum(c, &values[rank]);
	return await_in(rank == 3 ? pair : c, c);
}

Test(waits, order_verdict_counts_only_ranks_of_both_communicators)
{
	spread_not("the order of calls is known within a process");
	place_need_no_sync(
		"ranks that launch ahead begin with different calls");
	ranks_launch_ahead();
	stall(4, pair_differs, NULL);
	cr_assert_eq(cause.kind, COHORT_VERDICT_ORDER, "%s", cause.text);
	cr_assert_eq(cause.rank, -1, "%s", cause.text);
	says(": ranks 2-3 use \"dp\" and \"dp.1\" in different orders (");
}

/* Ranks 1 and 3 call first in one split, and the others in a second split, in
 * which the ranks are numbered in reverse and which has a short deadline. */
static int two_differ_in_splits(struct cohort_comm *c, void *user)
{
	const struct cohort_deadlines patient = { .join_ns = RANKS_SOON };
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *first, *second;

	(void)user;
	ranks_must(cohort_comm_split(c, 0, 0, &first), "split");
	ranks_must(cohort_comm_split(c, 0, cohort_comm_size(c) - rank, &second),
	           "split");
	ranks_must(cohort_deadline_push(first, &patient), "push");
	if (rank == 1 || rank == 3)
		second = first;
	ranks_sum(second, &values[rank]);
	return cohort_synchronize(second, RANKS_SOON);
}

Test(waits, ranks_blamed_in_a_split_are_missing_in_its_group)
{
	ranks_launch_ahead();
	stall(5, two_differ_in_splits, NULL);
	cr_assert_eq(cause.kind, COHORT_VERDICT_ORDER, "%s", cause.text);
	cr_assert(cause.rank == 1 || cause.rank == 3, "%s", cause.text);
	cr_assert_eq(cause.missing[0], 10, "%s", cause.text);
}

/* The last rank calls first in the second communicator, and rank 1 in the first
 * one.  All other ranks wait in @c. */
static int each_in_another(struct cohort_comm *c, void *user)
{
	const struct cohort_deadlines soon = { .join_ns = SHORT };
	const struct cohort_deadlines later = { .join_ns = RANKS_SOON };
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *first, *second;

	(void)user;
	ranks_must(cohort_deadline_push(c, &later), "push");
	ranks_must(cohort_comm_split(c, 0, 0, &first), "split");
	ranks_must(cohort_comm_split(c, 0, 0, &second), "split");
	ranks_must(cohort_deadline_push(first, &soon), "push");
	if (rank == 1)
		c = first;
	else if (rank == 4)
		c = second;
	ranks_sum(c, &values[rank]);
	return cohort_synchronize(c, RANKS_SOON);
}

Test(waits, crossing_with_a_majority_is_preferred)
{
	ranks_launch_ahead();
	stall(5, each_in_another, NULL);
	cr_assert_eq(cause.kind, COHORT_VERDICT_ORDER, "%s", cause.text);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
}

/* ---- orders that are not the cause -------------------------------------- */

/* Split a communicator from @c without a deadline. */
static struct cohort_comm *split_patiently(struct cohort_comm *c)
{
	const struct cohort_deadlines patient = { .join_ns = RANKS_SOON,
		                                  .exec_ns = RANKS_SOON };
	struct cohort_comm *child;

	ranks_must(cohort_deadline_push(c, &patient), "push");
	ranks_must(cohort_comm_split(c, 0, 0, &child), "split");
	ranks_must(cohort_deadline_pop(c), "pop");
	ranks_must(cohort_deadline_push(child, &patient), "push");
	return child;
}

/* Make no call until the group has ended. */
static int hang(struct cohort_comm *c)
{
	struct cohort_abort *handle = cohort_comm_abort_handle(c);

	while (!cohort_abort_fired(handle))
		sched_yield();
	cohort_abort_put(handle);
	return 0;
}

static int until_stalled(struct cohort_comm *c)
{
	return cohort_synchronize(c, RANKS_SOON) == COHORT_STALLED ? 0 : 1;
}

/* Rank 1 queues its two calls in another order, on two streams, so it would not
 * wait.  The last rank hangs. */
static int queued_but_last_hangs(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *other = split_patiently(c);

	(void)user;
	if (rank == 4)
		return hang(c);
	ranks_sum(rank == 1 ? other : c, &values[rank]);
	ranks_sum(rank == 1 ? c : other, &more[rank]);
	return until_stalled(c);
}

Test(waits, rank_that_hangs_is_named_although_queued_orders_differ)
{
	ranks_launch_ahead();
	stall(5, queued_but_last_hangs, NULL);
	cr_assert_eq(cause.kind, COHORT_VERDICT_OUTSIDE, "%s", cause.text);
	cr_assert_eq(cause.rank, 4, "%s", cause.text);
	cr_assert_eq(cause.missing[0], 16, "%s", cause.text);
}

/* Ranks 1 and 2 call first in the other communicator, and the last rank leaves
 * without a call. */
static int last_leaves(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *other = split_patiently(c);

	(void)user;
	if (rank == 1 || rank == 2)
		c = other;
	if (rank < 4)
		ranks_sum(c, &values[rank]);
	spread_wait(&have_called, 5);
	return rank < 4 ? until_stalled(c) : 0;
}

Test(waits, rank_that_has_left_is_named_although_orders_differ)
{
	ranks_launch_ahead();
	stall(5, last_leaves, NULL);
	cr_assert_eq(cause.kind, COHORT_VERDICT_LEFT, "%s", cause.text);
	cr_assert_eq(cause.rank, 4, "%s", cause.text);
	cr_assert_eq(cause.missing[0], 16, "%s", cause.text);
}

/* Rank 1 has recovered from the end of a communicator that it used in another
 * order, and waits with ranks 0, 2 and 3 for the last rank, which hangs. */
static int recovered_but_last_hangs(struct cohort_comm *c, void *user)
{
	const struct cohort_deadlines soon = { .join_ns = SHORT },
				      later = { .join_ns = 4 * SHORT };
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *first = split_patiently(c);
	struct cohort_comm *second = split_patiently(c);

	(void)user;
	if (rank == 4)
		return hang(c);
	ranks_must(cohort_deadline_push(c, &later), "push");
	ranks_sum(c, &values[rank]);
	if (rank == 1)
		first = second;
	ranks_must(cohort_deadline_push(first, &soon), "push");
	ranks_sum(first, &more[rank]);
	if (cohort_synchronize(first, RANKS_SOON) != COHORT_STALLED)
		return 1;
	return until_stalled(c);
}

Test(waits, rank_that_hangs_is_named_although_a_split_ended_by_an_order)
{
	spread_not("the split's end may name no rank");
	ranks_launch_ahead();
	stall(5, recovered_but_last_hangs, NULL);
	cr_assert_eq(cause.kind, COHORT_VERDICT_OUTSIDE, "%s", cause.text);
	cr_assert_eq(cause.rank, 4, "%s", cause.text);
	cr_assert_eq(cause.missing[0], 16, "%s", cause.text);
}

struct second_thread {
	struct cohort_comm *c;
	atomic_bool has_called;
};

static void *sum_elsewhere(void *arg)
{
	struct second_thread *t = arg;

	ranks_sum(t->c, &more[1]);
	atomic_store(&t->has_called, true);
	cohort_synchronize(t->c, RANKS_SOON);
	return NULL;
}

/* Rank 3 calls only in the other communicator.  Two threads of rank 1 call in
 * both, first in the other one.  All other ranks call only in @c. */
static int two_threads_call(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);
	struct second_thread second = { .c = split_patiently(c) };
	pthread_t thread;
	int rc;

	(void)user;
	if (rank == 1) {
		cr_assert_eq(pthread_create(&thread, NULL, sum_elsewhere,
		                            &second),
		             0);
		while (!atomic_load(&second.has_called))
			sched_yield();
	}
	if (rank == 3)
		c = second.c;
	ranks_sum(c, &values[rank]);
	rc = until_stalled(c);
	if (rank == 1)
		pthread_join(thread, NULL);
	return rc;
}

Test(waits, rank_whose_threads_call_in_two_communicators_has_no_order)
{
	ranks_launch_ahead();
	stall(5, two_threads_call, NULL);
	cr_assert_eq(cause.rank, 3, "%s", cause.text);
	cr_assert_eq(cause.missing[0], 8, "%s", cause.text);
}

/* ---- chains ------------------------------------------------------------- */

/* Rank 0 waits for rank 1 in a child communicator. Rank 1 waits for a message
 * from rank 2, whose stream is busy with other work. */
static int behind_a_busy_stream(struct cohort_comm *c, void *user)
{
	const struct cohort_deadlines soon = { .join_ns = SHORT };
	const int rank = cohort_comm_rank(c);
	void *stream = cohort_comm_stream(c);
	struct cohort_abort *end = cohort_comm_abort_handle(c);
	struct cohort_comm *child;
	struct native_gate gate;

	ranks_must(cohort_comm_split(c, rank / 2, 0, &child), "split");
	ranks_must(ranks_sum_wait(c, &values[rank]), "sum");
	/* Connect ranks 1 and 2 by a first message, because the busy stream
	 * would block the connection. */
	if (rank == 2)
		ranks_must(cohort_send(c, &values[2], 1, COHORT_I32, 1, stream,
		                       NULL),
		           "send");
	if (rank == 1)
		ranks_must(cohort_recv(c, &values[1], 1, COHORT_I32, 2, stream,
		                       NULL),
		           "recv");
	ranks_must(cohort_synchronize(c, RANKS_SOON), "synchronize");
	if (rank == 2) {
		native_gate_hold(user, &gate, stream);
		ranks_must(cohort_send(c, &values[2], 1, COHORT_I32, 1, stream,
		                       NULL),
		           "send");
		spread_wait(&have_called, 3);
		while (!cohort_abort_fired(end))
			sched_yield();
		native_gate_open(&gate);
		cohort_abort_put(end);
		return 0;
	}
	cohort_abort_put(end);
	if (rank == 1) {
		ranks_must(cohort_recv(c, &values[1], 1, COHORT_I32, 2, stream,
		                       NULL),
		           "recv");
		spread_wait(&have_called, 3);
		return cohort_synchronize(c, RANKS_SOON);
	}
	spread_wait(&have_called, 3);
	ranks_must(cohort_deadline_push(child, &soon), "push");
	return ranks_sum_wait(child, &values[0]);
}

Test(waits, chain_of_waits_blames_the_rank_whose_stream_is_busy)
{
	const struct platform *p;
	struct cohort_group *group;

	place_need(3);
	p = place_table();
	cohort_group_options_init(&o);
	o.deadlines.exec_ns = COHORT_FOREVER;
	group = ranks_open(3, &o);
	cause = expect_end_of_run(group, behind_a_busy_stream,
	                          (void *)(uintptr_t)p, COHORT_STALLED);
	cr_assert_eq(cause.rank, 2, "%s", cause.text);
	cr_assert_eq(cause.kind, COHORT_VERDICT_NOT_STARTED, "%s", cause.text);
	expect_text(cause.text, "rank 2 has not started send 2 to "
	                        "rank 1 ");
	expect_close(group);
}

/* ---- one cycle that several deadlines end ------------------------------ */

/*
 * Rank i waits for the next rank, in a communicator of the two, by a receive or
 * a sum. The short deadlines apply only to these waits, because NCCL may need
 * longer for a split.
 */
static int wait_in_pair(struct cohort_comm *c, void *by_message)
{
	const struct cohort_deadlines soon = { .join_ns = SHORT,
		                               .exec_ns = SHORT };
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *pair, *own = NULL;
	int i, peer;

	for (i = 0; i < 3; i++) {
		ranks_must(cohort_comm_split(c,
		                             rank == i || rank == (i + 1) % 3
		                                     ? 0
		                                     : COHORT_NO_COLOR,
		                             0, &pair),
		           "split");
		own = rank == i ? pair : own;
	}
	ranks_must(cohort_deadline_push(own, &soon), "push");
	spread_wait(&have_called, 3);
	peer = 1 - cohort_comm_rank(own);
	if (!by_message)
		return ranks_sum_wait(own, &values[rank]);
	ranks_must(cohort_recv(own, &values[rank], 1, COHORT_I32, peer,
	                       cohort_comm_stream(own), NULL),
	           "recv");
	return cohort_synchronize(own, RANKS_SOON);
}

/*
 * The deadlines of three communicators expire at about the same time. In later
 * verdicts, the calls of some ranks have already returned the cause of the
 * first one.
 */
static void wait_in_pairs(void *by_message)
{
	struct cohort_group *group;
	int i;

	place_need(3);
	for (i = 0; i < place_times(10); i++) {
		group = ranks_open(3, NULL);
		cause = expect_end_of_run(group, wait_in_pair, by_message,
		                          COHORT_STALLED);
		expect_close(group);
		cr_assert_eq(cause.kind, COHORT_VERDICT_CYCLE, "%s",
		             cause.text);
		cr_assert_eq(cause.rank, -1, "%s", cause.text);
	}
}

Test(waits, communicators_in_one_cycle_end_with_the_same_verdict)
{
	wait_in_pairs(NULL);
}

Test(waits, communicators_in_a_message_cycle_end_with_one_verdict)
{
	wait_in_pairs(values);
}

/* The two ranks of each communicator; the first waits for the second. Rank 3
 * only queues a receive, and then hangs until rank 4 has its verdict. */
static const int pairs[][2] = {
	{ 0, 1 }, { 1, 2 }, { 2, 0 }, { 3, 0 }, { 4, 3 }
};
#define PAIRS ((int)(sizeof(pairs) / sizeof(pairs[0])))
SPREAD_SHARED static atomic_bool is_judged;
SPREAD_SHARED static struct cohort_cause judged;

static int hang_beside_a_cycle(struct cohort_comm *c, void *unused)
{
	const int rank = cohort_comm_rank(c);
	const struct cohort_deadlines soon = {
		.join_ns = rank == 4 ? 8 * SHORT : SHORT,
		.exec_ns = SHORT,
	};
	struct cohort_comm *pair, *own = NULL;
	int i;

	(void)unused;
	for (i = 0; i < PAIRS; i++) {
		ranks_must(cohort_comm_split(c,
		                             rank == pairs[i][0] ||
		                                             rank == pairs[i][1]
		                                     ? 0
		                                     : COHORT_NO_COLOR,
		                             0, &pair),
		           "split");
		own = rank == pairs[i][0] ? pair : own;
	}
	ranks_must(cohort_deadline_push(own, &soon), "push");
	spread_wait(&have_called, 5);
	if (rank == 3) {
		ranks_must(cohort_recv(own, &values[3], 1, COHORT_I32, 0,
		                       cohort_comm_stream(own), NULL),
		           "recv");
	} else {
		cr_assert_eq(ranks_sum_wait(own, &values[rank]), COHORT_STALLED,
		             "%s", cohort_last_error());
	}
	if (rank == 4) {
		ranks_must(cohort_comm_cause(own, &judged), "cause");
		atomic_store(&is_judged, true);
	}
	while (!atomic_load(&is_judged))
		sched_yield();
	return 0;
}

/* Ranks 0 to 2 wait in a cycle. The cycle also ends the communicator of ranks 3
 * and 0, although rank 3 does not wait in it but hangs. */
Test(waits, rank_that_hangs_is_blamed_even_if_a_cycle_ended_its_call)
{
	struct cohort_group *group;

	place_need(5);
	group = ranks_open(5, NULL);
	expect_run_in(group, hang_beside_a_cycle, NULL);
	expect_close(group);
	cr_assert_eq(judged.world_rank, 3, "%s", judged.text);
}
