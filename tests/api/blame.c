/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of which rank a verdict blames: the last rank in a chain of waits,
 * never a rank that waits for another one. The programs have several
 * communicators or their own timeouts, or ranks that leave early.
 */

#include <criterion/criterion.h>
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cohort/reducer.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/place.h"
#include "support/ranks.h"
#include "support/spread.h"
#include "support/stuck.h"

#define MS UINT64_C(1000000)
#define RANKS 4

static struct cohort_group_options o;
static struct cohort_group *group;
static struct cohort_cause cause;

static void set_up(void)
{
	spread_not("the texts are those of one process");
	cohort_group_options_init(&o);
	o.name = "world";
	o.deadlines.join_ns = RANKS_SOON;
}

TestSuite(blame, .init = set_up, .timeout = 60);

static void run(int ranks, cohort_worker_fn worker, void *user, int status)
{
	group = ranks_open(ranks, &o);
	cr_assert_eq(cohort_group_run(group, worker, user, &cause), status,
	             "%s", cohort_last_error());
}

static void says(const char *text)
{
	expect_text(cause.text, text);
}

static void details(const char *rows)
{
	expect_text(cause.details, rows);
}

static void expect_blame(int rank)
{
	cr_assert_eq(cause.rank, rank, "%s", cause.text);
	cr_assert_eq(cause.world_rank, rank);
	cr_assert_eq(cause.missing[0], UINT64_C(1) << rank);
}

static void expect_lost(int rank)
{
	int lost[RANKS];

	cr_assert_eq(cohort_group_lost(group, lost, RANKS), 1);
	cr_assert_eq(lost[0], rank);
}

static atomic_int settled; /* number of ranks that hang or are about to wait */

/* Make no call until the communicator has ended. */
static int hang(struct cohort_comm *c)
{
	struct cohort_cause now = { .status = COHORT_OK };

	settled++;
	while (now.status == COHORT_OK) {
		test_nap();
		ranks_must(cohort_comm_cause(c, &now), "cause");
	}
	return 0;
}

static void await_others(void)
{
	while (settled < RANKS - 1)
		test_nap();
}

static int sum(struct cohort_comm *c, uint64_t timeout_ns)
{
	int32_t x = 1;

	return cohort_all_reduce_host(c, &x, 1, COHORT_I32, COHORT_SUM,
	                              timeout_ns);
}

/* Make a sum with a deadline that is long enough for a thread that starts
 * late. */
static void sum_patiently(struct cohort_comm *c)
{
	const struct cohort_deadlines patient = { .join_ns = RANKS_SOON,
		                                  .exec_ns = RANKS_SOON };

	ranks_must(cohort_deadline_push(c, &patient), "push");
	ranks_must(sum(c, COHORT_FOREVER), "sum");
	ranks_must(cohort_deadline_pop(c), "pop");
}

/* Split off a communicator of all ranks, and wait until all have it: otherwise
 * one rank could end the communicator while another rank is still inside the
 * split. */
static struct cohort_comm *split_all(struct cohort_comm *c)
{
	static struct spread_barrier all_have_it;
	struct cohort_comm *child;

	ranks_must(cohort_comm_split(c, 0, 0, &child), "split");
	spread_wait(&all_have_it, cohort_comm_size(c));
	return child;
}

/* ---- timeouts of the program ------------------------------------------ */

static int rank_3_hangs(struct cohort_comm *c, void *user)
{
	(void)user;
	return cohort_comm_rank(c) == 3 ? hang(c) : sum(c, 1000 * MS);
}

Test(blame, worker_that_returns_its_own_timeout_is_not_blamed)
{
	run(RANKS, rank_3_hangs, NULL, COHORT_STALLED);
	expect_blame(3);
	cr_assert_eq(cause.worker, COHORT_TIMED_OUT);
	says("rank 3 has not called all_reduce_host 1 of \"world\" (");
	says("; ranks 0-2 wait; rank ");
	says(" gave up first (its worker returned COHORT_TIMED_OUT)");
	expect_lost(3);
	expect_close(group);
}

static int rank_3_hangs_and_rank_1_polls(struct cohort_comm *c, void *user)
{
	uint64_t ticket;
	int32_t x = 1;
	int rc;

	(void)user;
	if (cohort_comm_rank(c) == 3)
		return hang(c);
	ticket = ranks_sum(c, &x);
	if (cohort_comm_rank(c) != 1) {
		settled++;
		return cohort_wait(c, ticket, COHORT_FOREVER);
	}
	await_others();
	rc = cohort_wait(c, ticket, 0);
	cr_assert_str_eq(cohort_last_error(),
	                 "ticket 1 of rank 1 is not done yet");
	return rc;
}

Test(blame, worker_that_gives_up_polling_is_not_blamed)
{
	place_need_no_sync("a call waits for all ranks to launch");
	ranks_launch_ahead();
	run(RANKS, rank_3_hangs_and_rank_1_polls, NULL, COHORT_STALLED);
	expect_blame(3);
	says("rank 1 gave up first (its worker returned COHORT_TIMED_OUT)");
	expect_lost(3);
	expect_close(group);
}

static int rank_3_hangs_and_rank_1_fails(struct cohort_comm *c, void *user)
{
	int rank = cohort_comm_rank(c);

	(void)user;
	return rank == 3 ? hang(c) : rank == 1 ? 5 : sum(c, COHORT_FOREVER);
}

Test(blame, worker_that_returns_its_own_code_is_blamed)
{
	run(RANKS, rank_3_hangs_and_rank_1_fails, NULL, COHORT_WORKER);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	cr_assert_eq(cause.worker, 5);
	expect_lost(1);
	expect_close(group);
}

static void *give_up(void *comm)
{
	ranks_must(cohort_comm_bind(comm), "bind");
	cr_assert_eq(sum(comm, 50 * MS), COHORT_TIMED_OUT);
	return NULL;
}

Test(blame, thread_that_exits_after_its_own_timeout_is_not_blamed)
{
	struct cohort_comm *comms[2];
	pthread_t thread;

	group = ranks_split(2, &o, comms);
	pthread_create(&thread, NULL, give_up, comms[0]);
	pthread_join(thread, NULL);
	ranks_must(cohort_group_cause(group, &cause), "cause");
	cr_assert_eq(cause.status, COHORT_STALLED);
	expect_blame(1);
	says("; rank 0 gave up first (its thread exited)");
	expect_close(group);
}

static void *exit_at_once(void *comm)
{
	ranks_must(cohort_comm_bind(comm), "bind");
	return NULL;
}

Test(blame, thread_that_exits_without_a_timeout_is_blamed)
{
	struct cohort_comm *comms[2];
	pthread_t thread;

	group = ranks_split(2, &o, comms);
	pthread_create(&thread, NULL, exit_at_once, comms[0]);
	pthread_join(thread, NULL);
	ranks_must(cohort_group_cause(group, &cause), "cause");
	cr_assert_eq(cause.status, COHORT_THREAD_EXITED);
	cr_assert_eq(cause.rank, 0, "%s", cause.text);
	expect_close(group);
}

static int rank_3_hangs_and_rank_1_exits(struct cohort_comm *c, void *user)
{
	int rc;

	(void)user;
	if (cohort_comm_rank(c) == 3)
		return hang(c);
	rc = sum(c, cohort_comm_rank(c) == 1 ? 50 * MS : COHORT_FOREVER);
	if (rc == COHORT_TIMED_OUT)
		pthread_exit(NULL);
	return rc;
}

Test(blame, worker_that_exits_after_its_own_timeout_is_not_blamed)
{
	run(RANKS, rank_3_hangs_and_rank_1_exits, NULL, COHORT_STALLED);
	expect_blame(3);
	says("; rank 1 gave up first (its thread exited)");
	expect_lost(3);
	expect_close(group);
}

static atomic_bool has_polled;

static void *exit_after_a_wait(void *comm)
{
	static int32_t values[2];
	uint64_t ticket;

	ranks_must(cohort_comm_bind(comm), "bind");
	ticket = ranks_sum(comm, &values[0]);
	ranks_sum(comm, &values[1]);
	cr_assert_eq(cohort_wait(comm, ticket, 0), COHORT_TIMED_OUT);
	has_polled = true;
	ranks_must(cohort_wait(comm, ticket, COHORT_FOREVER), "wait");
	return NULL;
}

/* Rank 0's wait for its first sum has timed out once.  When rank 0 exits, rank
 * 1 has not called the second sum yet, for which rank 0 has not waited. */
Test(blame, thread_that_exits_after_a_later_success_is_blamed)
{
	struct cohort_comm *comms[2];
	pthread_t thread;
	int32_t x = 1;

	place_need_no_sync("a call waits for all ranks to launch");
	group = ranks_ahead(2, &o, comms);
	pthread_create(&thread, NULL, exit_after_a_wait, comms[0]);
	while (!has_polled)
		test_nap();
	ranks_must(ranks_sum_wait(comms[1], &x), "sum");
	pthread_join(thread, NULL);
	ranks_must(cohort_group_cause(group, &cause), "cause");
	cr_assert_eq(cause.status, COHORT_THREAD_EXITED);
	cr_assert_eq(cause.rank, 0, "%s", cause.text);
	expect_close(group);
}

static struct cohort_comm *_Atomic bound_to_rank_1;

/* Rank 0 calls for rank 1, while rank 1 is late for a sum. */
static int rank_0_calls_for_rank_1(struct cohort_comm *c, void *user)
{
	static int32_t value;

	(void)user;
	if (cohort_comm_rank(c) == 1) {
		bound_to_rank_1 = c;
		return hang(c);
	}
	ranks_sum(c, &value);
	while (!bound_to_rank_1)
		test_nap();
	return sum(bound_to_rank_1, COHORT_FOREVER);
}

Test(blame, worker_that_returns_a_refusal_of_its_call_is_blamed)
{
	place_need_no_sync("a call waits for all ranks to launch");
	ranks_launch_ahead();
	run(2, rank_0_calls_for_rank_1, NULL, COHORT_WORKER);
	cr_assert_eq(cause.rank, 0, "%s", cause.text);
	cr_assert_eq(cause.worker, COHORT_OWNER);
	says("the worker of rank 0 returned COHORT_OWNER: rank 1 is bound to ");
	expect_lost(0);
	expect_close(group);
}

/* ---- several communicators --------------------------------------------- */

/* Ranks 1 and 3 wait for rank 2 in a child communicator. Rank 0 waits for ranks
 * 1 and 3. */
static int rank_2_hangs_in_child(struct cohort_comm *c, void *user)
{
	const struct cohort_deadlines patient = { .join_ns = RANKS_SOON };
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *child;
	int rc;

	(void)user;
	ranks_must(cohort_comm_split(c, rank ? 0 : COHORT_NO_COLOR, 0, &child),
	           "split");
	if (rank)
		ranks_must(cohort_deadline_push(child, &patient), "push");
	if (rank == 2)
		return hang(c);
	rc = rank ? sum(child, COHORT_FOREVER) : COHORT_OK;
	return rc == COHORT_OK ? sum(c, COHORT_FOREVER) : rc;
}

Test(blame, rank_that_hangs_in_a_split_communicator_is_blamed)
{
	o.deadlines.join_ns = 200 * MS;
	run(RANKS, rank_2_hangs_in_child, NULL, COHORT_STALLED);
	expect_blame(2);
	says("; ranks 1, 3 wait in all_reduce_host 1 of group \"world.0\" for "
	     "rank 2");
	expect_lost(2);
	expect_close(group);
}

/* Ranks 0 and 1 share one communicator, and ranks 1 and 2 share another. */
static int rank_2_hangs_in_sibling(struct cohort_comm *c, void *user)
{
	const struct cohort_deadlines patient = { .join_ns = RANKS_SOON };
	const int rank = cohort_comm_rank(c);
	struct cohort_cause *causes = user;
	struct cohort_comm *a, *b;
	int rc = COHORT_OK;

	ranks_must(cohort_comm_split(c, rank < 2 ? 0 : COHORT_NO_COLOR, 0, &a),
	           "split");
	ranks_must(cohort_comm_split(c, rank > 0 ? 1 : COHORT_NO_COLOR, 0, &b),
	           "split");
	if (b)
		ranks_must(cohort_deadline_push(b, &patient), "push");
	if (rank == 2)
		return hang(b);
	if (b)
		rc = sum(b, COHORT_FOREVER);
	else
		rc = sum(a, COHORT_FOREVER);
	if (a)
		ranks_must(cohort_comm_cause(a, &causes[rank]), "cause");
	return rc;
}

Test(blame, rank_that_waits_in_another_communicator_is_not_blamed)
{
	static struct cohort_cause causes[2];

	o.deadlines.join_ns = 200 * MS;
	run(3, rank_2_hangs_in_sibling, causes, COHORT_STALLED);
	expect_blame(2);
	cause = causes[0];
	cr_assert_eq(cause.rank, -1, "%s", cause.text);
	cr_assert_eq(cause.world_rank, 2);
	cr_assert_eq(cause.missing[0], 0);
	says("; rank 1 waits in all_reduce_host 1 of group \"world.1\"");
	expect_close(group);
}

static int rank_3_hangs_in_pair(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *pair;

	(void)user;
	ranks_must(cohort_comm_split(c, rank / 2, 0, &pair), "split");
	cr_assert_eq(cohort_comm_group_rank(pair, 1), rank < 2 ? 1 : 3);
	return rank == 3 ? hang(c) : sum(pair, COHORT_FOREVER);
}

Test(blame, rank_that_returns_the_error_of_a_child_is_not_blamed)
{
	o.deadlines.join_ns = 200 * MS;
	run(RANKS, rank_3_hangs_in_pair, NULL, COHORT_STALLED);
	expect_blame(3);
	says("rank 3 (1 in \"world.1\") has not called all_reduce_host 1 of ");
	expect_text(cause.details, "\nwhy    it has never called anything in "
	                           "this communicator; last seen in thread ");
	expect_text(cause.details, "\nnote   rank 2 gave up first (its worker "
	                           "returned COHORT_STALLED)");
	cr_assert_leq(strlen(cause.text), 200);
	expect_lost(3);
	expect_close(group);
}

/* Rank 3 hangs. Rank 2 waits for it in a communicator of the two, and ends with
 * the error. Ranks 0 and 1 wait in the group, whose deadline does not pass. */
static void own_rank(struct cohort_comm *c, bool closes)
{
	const struct cohort_deadlines soon = { .join_ns = 200 * MS };
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *pair;

	ranks_must(cohort_comm_bind(c), "bind");
	ranks_must(cohort_comm_split(c, rank / 2, 0, &pair), "split");
	ranks_must(cohort_deadline_push(pair, &soon), "push");
	if (rank == 3)
		hang(c);
	else
		cr_assert_eq(sum(rank == 2 ? pair : c, COHORT_FOREVER),
		             COHORT_STALLED, "%s", cohort_last_error());
	if (rank == 2 && closes)
		cohort_comm_close(c);
	else if (rank != 2)
		ranks_must(cohort_comm_unbind(c), "unbind");
}

static void *own_rank_that_exits(void *c)
{
	own_rank(c, false);
	return NULL; /* rank 2 is still bound */
}

static void *own_rank_that_closes(void *c)
{
	own_rank(c, true);
	return NULL;
}

static void run_on_own_threads(void *(*rank)(void *))
{
	struct cohort_comm *comms[RANKS];
	pthread_t threads[RANKS];
	int r;

	group = ranks_split(RANKS, &o, comms);
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(pthread_create(&threads[r], NULL, rank, comms[r]),
		             0);
	for (r = 0; r < RANKS; r++)
		pthread_join(threads[r], NULL);
	ranks_must(cohort_group_cause(group, &cause), "cause");
}

static void run_own_threads(void *(*rank)(void *))
{
	run_on_own_threads(rank);
	expect_blame(3);
	expect_lost(3);
	expect_close(group);
}

Test(blame, thread_that_exits_after_a_childs_error_is_not_blamed)
{
	run_own_threads(own_rank_that_exits);
}

Test(blame, thread_that_closes_after_a_childs_error_is_not_blamed)
{
	run_own_threads(own_rank_that_closes);
}

static void *sum_on_a_thread(void *child)
{
	return (void *)(intptr_t)sum(child, COHORT_FOREVER);
}

/* Rank 1 hangs. A second thread of every other rank waits for it. */
static int hung_beside_helpers(struct cohort_comm *c, void *user)
{
	struct cohort_comm *child = split_all(c);
	pthread_t helper;
	void *rc;

	(void)user;
	if (cohort_comm_rank(c) == 1)
		return hang(c);
	cr_assert_eq(pthread_create(&helper, NULL, sum_on_a_thread, child), 0);
	pthread_join(helper, &rc);
	return (int)(intptr_t)rc;
}

Test(blame, rank_that_returns_the_error_of_another_thread_is_not_blamed)
{
	o.deadlines.join_ns = 200 * MS;
	run(3, hung_beside_helpers, NULL, COHORT_STALLED);
	expect_blame(1);
	expect_lost(1);
	expect_close(group);
}

/* Rank 1 hangs in a child communicator, in which a second thread of rank 0
 * waits for it. Rank 0 joins that thread, and rank 2 waits for rank 0. */
static int hung_behind_a_join(struct cohort_comm *c, void *user)
{
	const struct cohort_deadlines never = { .join_ns = COHORT_FOREVER };
	struct cohort_comm *child;
	pthread_t helper;
	void *rc;

	(void)user;
	ranks_must(cohort_comm_split(c, cohort_comm_rank(c) / 2, 0, &child),
	           "split");
	ranks_must(cohort_deadline_push(child, &never), "push");
	if (cohort_comm_rank(c) != 0)
		return cohort_comm_rank(c) == 1 ? hang(c)
		                                : sum(c, COHORT_FOREVER);
	cr_assert_eq(pthread_create(&helper, NULL, sum_on_a_thread, child), 0);
	pthread_join(helper, &rc);
	return (int)(intptr_t)rc;
}

Test(blame, rank_that_joins_a_thread_that_waits_is_not_blamed)
{
	place_skip_in_qemu("/proc shows the host's system calls");
	o.deadlines.join_ns = 200 * MS;
	run(3, hung_behind_a_join, NULL, COHORT_STALLED);
	expect_blame(1);
	says("rank 0 waits in all_reduce_host 1 of group \"world.0\" for rank "
	     "1");
	expect_lost(1);
	expect_close(group);
}

struct helped {
	struct cohort_comm *child;
	uint64_t ticket;
};

static void *wait_for_ticket(void *arg)
{
	struct helped *h = arg;

	return (void *)(intptr_t)cohort_wait(h->child, h->ticket,
	                                     COHORT_FOREVER);
}

/* Rank 2 hangs before a collective, while its second thread waits for a ticket
 * in a child communicator. The other ranks call the collective first, then the
 * one in the child. */
static int hung_beside_a_wait(struct cohort_comm *c, void *user)
{
	static int32_t value;
	struct helped h = { .child = split_all(c) };
	pthread_t helper;
	void *rc;
	int status;

	(void)user;
	if (cohort_comm_rank(c) != 2) {
		status = sum(c, COHORT_FOREVER);
		return status == COHORT_OK ? sum(h.child, COHORT_FOREVER)
		                           : status;
	}
	h.ticket = ranks_sum(h.child, &value);
	cr_assert_eq(pthread_create(&helper, NULL, wait_for_ticket, &h), 0);
	hang(c);
	pthread_join(helper, &rc);
	return (int)(intptr_t)rc;
}

Test(blame, rank_that_hangs_while_another_thread_waits_is_blamed)
{
	place_need_no_sync("a call waits for all ranks to launch");
	ranks_launch_ahead();
	o.deadlines.join_ns = 200 * MS;
	run(3, hung_beside_a_wait, NULL, COHORT_STALLED);
	expect_blame(2);
	says("rank 2 has not called ");
	expect_lost(2);
	expect_close(group);
}

/* Rank 2 calls first in a child communicator, then in the group. The other
 * ranks call first in the group. */
static int in_another_order(struct cohort_comm *c, void *user)
{
	struct cohort_comm *child = split_all(c);
	const bool is_odd = cohort_comm_rank(c) == 2;
	int rc = sum(is_odd ? child : c, COHORT_FOREVER);

	(void)user;
	return rc == COHORT_OK ? sum(is_odd ? c : child, COHORT_FOREVER) : rc;
}

Test(blame, one_rank_with_another_order_of_communicators_is_blamed)
{
	spread_not("the order of calls is known within a process");
	o.deadlines.join_ns = 200 * MS;
	run(RANKS, in_another_order, NULL, COHORT_STALLED);
	cr_assert_eq(cause.kind, COHORT_VERDICT_ORDER, "%s", cause.text);
	expect_blame(2);
	expect_close(group);
}

static struct helped helped;
static sem_t has_queued;

/* Rank 1 hangs in a child communicator. Rank 0 queues a sum there, and rank 3's
 * thread waits for rank 0's ticket. Rank 2 calls in the group. */
static int waits_for_another_ranks_ticket(struct cohort_comm *c, void *user)
{
	static int32_t value;
	struct cohort_comm *child;

	(void)user;
	ranks_must(cohort_comm_split(c, cohort_comm_rank(c) / 2, 0, &child),
	           "split");
	sum_patiently(c);
	switch (cohort_comm_rank(c)) {
	case 0:
		helped.child = child;
		helped.ticket = ranks_sum(child, &value);
		sem_post(&has_queued);
		return (int)(intptr_t)wait_for_ticket(&helped);
	case 1:
		return hang(c);
	case 3:
		while (sem_wait(&has_queued))
			continue;
		return (int)(intptr_t)wait_for_ticket(&helped);
	}
	return sum(c, COHORT_FOREVER);
}

Test(blame, rank_that_waits_for_another_ranks_ticket_is_not_blamed)
{
	spread_not("a ticket is of this process");
	place_need_no_sync("a call waits for all ranks to launch");
	ranks_launch_ahead();
	sem_init(&has_queued, 0, 0);
	o.deadlines.join_ns = 200 * MS;
	run(RANKS, waits_for_another_ranks_ticket, NULL, COHORT_STALLED);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	expect_lost(1);
	expect_close(group);
}

/* Rank 1's call differs from that of ranks 0 and 3, while rank 2 hangs. */
static int differ_beside_a_hang(struct cohort_comm *c, void *user)
{
	uint64_t ticket;
	int rc;

	(void)user;
	if (cohort_comm_rank(c) == 2)
		return hang(c);
	if (cohort_comm_rank(c) == 1)
		return sum(c, COHORT_FOREVER);
	rc = cohort_barrier(c, cohort_comm_stream(c), &ticket);
	return rc == COHORT_OK ? cohort_wait(c, ticket, COHORT_FOREVER) : rc;
}

Test(blame, mismatch_takes_precedence_over_a_rank_that_hangs)
{
	o.deadlines.join_ns = 800 * MS;
	run(RANKS, differ_beside_a_hang, NULL, COHORT_MISMATCH);
	says("rank 1 calls all_reduce");
	expect_close(group);
}

static sem_t is_quiet;
static atomic_bool may_end;

static void *stay_quiet(void *unused)
{
	cohort_quiet_begin();
	sem_post(&is_quiet);
	while (!may_end)
		sched_yield();
	cohort_quiet_end();
	return unused;
}

static int sum_once(struct cohort_comm *c, void *user)
{
	(void)user;
	return sum(c, COHORT_FOREVER);
}

Test(blame, no_rank_is_blamed_if_a_quiet_section_blocks_all_ranks)
{
	pthread_t thread;

	spread_not("the section is of this process");
	o.launch = COHORT_LAUNCH_TOGETHER;
	o.deadlines.join_ns = o.deadlines.exec_ns = 200 * MS;
	sem_init(&is_quiet, 0, 0);
	group = ranks_open(RANKS, &o);
	cr_assert_eq(pthread_create(&thread, NULL, stay_quiet, NULL), 0);
	while (sem_wait(&is_quiet))
		continue;
	cause = expect_end_of_run(group, sum_once, NULL, COHORT_STALLED);
	may_end = true;
	pthread_join(thread, NULL);
	cr_assert_eq(cause.rank, -1, "%s", cause.text);
	says("): a quiet section of thread ");
	cr_assert_eq(cohort_group_lost(group, NULL, 0), 0);
	expect_close(group);
}

static int sum_in_a_child(struct cohort_comm *c, void *user)
{
	const struct cohort_deadlines soon = { .join_ns = 200 * MS,
		                               .exec_ns = 200 * MS };
	struct cohort_comm *child = split_all(c);
	int32_t x = 1;

	(void)user;
	ranks_must(cohort_deadline_push(child, &soon), "push");
	return ranks_sum_wait(child, &x);
}

/* The native call of rank 1 never returns, so the child communicator cannot be
 * aborted. */
Test(blame, rank_that_returns_the_wedged_status_of_a_child_is_not_blamed)
{
	spread_not("the native call of one process is stuck");
	place_skip_on_nvidia("no rank launches while a native call is stuck");
	o.deadlines.abort_ns = 50 * MS;
	stuck_install();
	group = ranks_open(3, &o);
	stuck_at("ncclAllReduce", 1);
	cause = expect_end_of_run(group, sum_in_a_child, NULL, COHORT_STALLED);
	expect_blame(1);
	says(" gave up first (its worker returned COHORT_WEDGED)");
	expect_lost(1);
	cr_assert_eq(cohort_group_close(group), COHORT_WEDGED);
	stuck_release();
}

static void *fail_on_a_thread(void *child)
{
	cohort_comm_bind(child);
	return NULL; /* the thread exits while it is bound */
}

/* A second thread of rank 1 exits. The second threads of the other ranks wait
 * for it, and their workers return the error of this wait. */
static int exited_beside_helpers(struct cohort_comm *c, void *user)
{
	const bool exits = cohort_comm_rank(c) == 1;
	struct cohort_comm *child = split_all(c);
	pthread_t helper;
	void *rc;

	(void)user;
	cr_assert_eq(pthread_create(&helper, NULL,
	                            exits ? fail_on_a_thread : sum_on_a_thread,
	                            child),
	             0);
	pthread_join(helper, &rc);
	return exits ? hang(c) : (int)(intptr_t)rc;
}

Test(blame, rank_whose_second_thread_gets_an_error_is_not_blamed)
{
	run(3, exited_beside_helpers, NULL, COHORT_THREAD_EXITED);
	expect_blame(1);
	expect_lost(1);
	expect_close(group);
}

static void *mark_ready(void *reducer)
{
	ranks_must(cohort_reducer_ready(reducer, 0), "ready");
	return NULL;
}

/* A helper thread of each rank launches the gradient's bucket and exits. Then
 * rank 1 hangs. */
static int hung_after_a_helper(struct cohort_comm *c, void *user)
{
	const struct cohort_parameter p = { "a", NULL, 1, COHORT_F32 };
	struct cohort_reducer_options options;
	struct cohort_reducer *reducer;
	pthread_t helper;
	int rc;

	(void)user;
	cohort_reducer_options_init(&options);
	options.helpers_launch = 1;
	ranks_must(cohort_reducer_create(c, &p, 1, &options, &reducer),
	           "create");
	ranks_must(cohort_reducer_begin(reducer, cohort_comm_stream(c)),
	           "begin");
	cr_assert_eq(pthread_create(&helper, NULL, mark_ready, reducer), 0);
	pthread_join(helper, NULL);
	if (cohort_comm_rank(c) == 1)
		hang(c);
	rc = cohort_reducer_finish(reducer, RANKS_SOON);
	if (rc == COHORT_OK)
		rc = sum(c, COHORT_FOREVER);
	cohort_reducer_free(reducer);
	return rc;
}

Test(blame, exit_of_a_helper_thread_is_not_an_exit_of_its_rank)
{
	o.deadlines.join_ns = 200 * MS;
	run(3, hung_after_a_helper, NULL, COHORT_STALLED);
	expect_blame(1);
	cr_assert_eq(cause.kind, COHORT_VERDICT_OUTSIDE, "%s", cause.text);
	expect_lost(1);
	expect_close(group);
}

static void *time_out_on_a_thread(void *child)
{
	return (void *)(intptr_t)sum(child, 50 * MS);
}

/* A second thread of rank 0 waits for rank 1, which hangs. */
static int timed_out_beside_helpers(struct cohort_comm *c, void *user)
{
	struct cohort_comm *child = split_all(c);
	pthread_t helper;
	void *rc;

	(void)user;
	if (cohort_comm_rank(c) != 0)
		return cohort_comm_rank(c) == 1 ? hang(c)
		                                : sum(child, COHORT_FOREVER);
	cr_assert_eq(pthread_create(&helper, NULL, time_out_on_a_thread, child),
	             0);
	pthread_join(helper, &rc);
	cr_assert_eq((intptr_t)rc, COHORT_TIMED_OUT);
	return COHORT_TIMED_OUT;
}

Test(blame, rank_whose_second_thread_times_out_is_not_blamed)
{
	run(3, timed_out_beside_helpers, NULL, COHORT_STALLED);
	expect_blame(1);
	expect_lost(1);
	expect_close(group);
}

static struct cohort_comm *others[RANKS]; /* ranks of another group */

/* Sum twice in another group, for whose ranks the same threads call. Rank 1
 * hangs before the second sum. */
static int sum_in_another_group(struct cohort_comm *c, void *user)
{
	struct cohort_comm *other = others[cohort_comm_rank(c)];

	(void)user;
	sum_patiently(other);
	return cohort_comm_rank(c) == 1 ? hang(c) : sum(other, COHORT_FOREVER);
}

Test(blame, rank_that_returns_the_error_of_another_group_is_not_blamed)
{
	struct cohort_group_options of_other = o;
	struct cohort_group *other;

	spread_not("ranks of both groups are numbered alike");
	place_need_no_sync("two groups are on the same devices");
	of_other.name = "other";
	of_other.deadlines.join_ns = 200 * MS;
	other = ranks_split(3, &of_other, others);
	run(3, sum_in_another_group, NULL, COHORT_STALLED);
	expect_blame(1);
	says("rank 1 has not called all_reduce_host 2 of \"other\" (");
	expect_lost(1);
	expect_close(group);
	expect_close(other);
}

/* Rank r of the group is rank (r + 1) % 3 of the other group. */
Test(blame, text_of_another_group_says_which_rank_is_meant)
{
	struct cohort_group_options of_other = o;
	struct cohort_comm *of[3];
	struct cohort_group *other;
	int r;

	spread_not("the calling threads are in one process");
	place_need_no_sync("two groups are on the same devices");
	of_other.name = "other";
	of_other.deadlines.join_ns = 200 * MS;
	other = ranks_split(3, &of_other, of);
	for (r = 0; r < 3; r++)
		others[r] = of[(r + 1) % 3];
	run(3, sum_in_another_group, NULL, COHORT_STALLED);
	expect_blame(1);
	says("rank 2 has not called all_reduce_host 2 of \"other\" (");
	says("; rank 2 of \"other\" is rank 1 here; rank ");
	expect_lost(1);
	expect_close(group);
	expect_close(other);
}

/* Like sum_in_another_group(), but ranks 0 and 2 have a timeout.  If @user is
 * not NULL, rank 1 has already called in the other group. */
static int time_out_in_another_group(struct cohort_comm *c, void *user)
{
	struct cohort_comm *other = others[cohort_comm_rank(c)];

	if (user)
		sum_patiently(other);
	return cohort_comm_rank(c) == 1 ? hang(c) : sum(other, 200 * MS);
}

static void expect_blame_in_other(bool has_called, const char *text)
{
	struct cohort_group_options of_other = o;
	struct cohort_group *other;

	spread_not("ranks of both groups are numbered alike");
	place_need_no_sync("two groups are on the same devices");
	o.deadlines.abort_ns = 1000 * MS;
	of_other.name = "other";
	other = ranks_split(3, &of_other, others);
	run(3, time_out_in_another_group, has_called ? others : NULL,
	    COHORT_STALLED);
	expect_blame(1);
	says(text);
	says(" gave up first (its worker returned COHORT_TIMED_OUT)");
	expect_lost(1);
	/* At this point, a library thread still has to free memory of the
	 * timed-out call. */
	expect_close(group);
	cohort_group_abort(other, "test");
	expect_close(other);
}

Test(blame, rank_that_times_out_in_another_group_is_not_blamed)
{
	expect_blame_in_other(true, "rank 1 has not called all_reduce_host 2 "
	                            "of \"other\" (");
}

Test(blame, rank_that_has_not_called_in_another_group_is_blamed)
{
	expect_blame_in_other(false, "rank 1 has not called all_reduce_host 1 "
	                             "of \"other\" (");
}

/* ---- sends and receives ------------------------------------------------- */

#define PATIENCE (300 * MS) /* time in which a rank starts to wait */

static int wait_in(struct cohort_comm *c)
{
	settled++;
	return sum(c, COHORT_FOREVER);
}

static int receive(struct cohort_comm *c, int peer, uint64_t timeout_ns)
{
	int32_t x;

	return cohort_recv_host(c, &x, 1, COHORT_I32, peer, timeout_ns);
}

/* Receive after the other ranks have hung or started to wait, with a deadline
 * that expires before theirs. */
static int receive_last(struct cohort_comm *c, int peer)
{
	const struct cohort_deadlines soon = { .join_ns = PATIENCE };

	await_others();
	ranks_must(cohort_deadline_push(c, &soon), "push");
	return receive(c, peer, COHORT_FOREVER);
}

/* Rank 1 hangs. Rank 0 waits for rank 1 in a communicator of the two, and rank
 * 2 waits for rank 0 in another one. */
static int stage_waits_for_stage(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *tensors, *pipeline;

	(void)user;
	ranks_must(cohort_comm_split(c, rank / 2, 0, &tensors), "split");
	ranks_must(cohort_comm_split(c, rank % 2, 0, &pipeline), "split");
	/* Make the first calls now, because they allocate host memory, which
	 * may wait for a device. */
	sum_patiently(tensors);
	sum_patiently(pipeline);
	if (rank == 0)
		return wait_in(tensors);
	return rank == 2 ? receive_last(pipeline, 0) : hang(c);
}

Test(blame, rank_that_a_sender_waits_for_in_another_pair_is_blamed)
{
	o.connect = COHORT_CONNECT_ALL; /* so that init_ns does not apply */
	run(RANKS, stage_waits_for_stage, NULL, COHORT_STALLED);
	expect_blame(1);
	says("rank 1 has not called all_reduce_host 2 of \"world.0\" (");
	details("\nwait   rank 2 waits in recv from rank 0"
	        "\nwait   rank 0 waits in all_reduce_host 2 of group "
	        "\"world.0\" for rank 1\n");
	expect_lost(1);
	expect_close(group);
}

static int rank_0_hangs_in_pipeline(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);

	(void)user;
	sum_patiently(c);
	if (!rank)
		return hang(c);
	if (rank == RANKS - 1)
		return receive_last(c, rank - 1);
	settled++;
	return receive(c, rank - 1, COHORT_FOREVER);
}

Test(blame, hang_of_the_first_pipeline_stage_blames_that_stage)
{
	o.connect = COHORT_CONNECT_ALL; /* so that init_ns does not apply */
	run(RANKS, rank_0_hangs_in_pipeline, NULL, COHORT_STALLED);
	expect_blame(0);
	cr_assert_neq(cause.kind, COHORT_VERDICT_DIFFERENT_CALL);
	says("rank 0 has not called send 1 to rank 1 of \"world\" (");
	details("\nwait   rank 3 waits in recv from rank 2"
	        "\nwait   rank 2 waits in recv from rank 1"
	        "\nwait   rank 1 waits in recv from rank 0\n");
	expect_lost(0);
	expect_close(group);
}

/* Rank 3 receives from rank 2, which waits for rank 1 in a child communicator.
 * If @user is not NULL, rank 3 gives up at a timeout. */
static int rank_1_hangs_in_child(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *child;

	ranks_must(cohort_comm_split(c, rank < 3 ? 0 : COHORT_NO_COLOR, 0,
	                             &child),
	           "split");
	sum_patiently(c);
	if (rank < 3)
		sum_patiently(child);
	if (rank == 1)
		return hang(c);
	if (rank < 3)
		return wait_in(child);
	if (!user)
		return receive_last(c, 2);
	await_others();
	return receive(c, 2, PATIENCE);
}

static void expect_rank_1(void)
{
	expect_blame(1);
	says("rank 1 has not called all_reduce_host 2 of \"world.0\" (");
	details("\nwait   rank 3 waits in recv from rank 2"
	        "\nwait   rank 2 waits in all_reduce_host 2 of group "
	        "\"world.0\" for rank 1\n");
	expect_lost(1);
	expect_close(group);
}

Test(blame, rank_that_a_sender_waits_for_in_a_child_is_blamed)
{
	o.connect = COHORT_CONNECT_ALL; /* so that init_ns does not apply */
	run(RANKS, rank_1_hangs_in_child, NULL, COHORT_STALLED);
	expect_rank_1();
}

Test(blame, culprit_is_blamed_even_if_the_receiver_times_out_first)
{
	o.connect = COHORT_CONNECT_ALL; /* so that init_ns does not apply */
	run(RANKS, rank_1_hangs_in_child, &o, COHORT_STALLED);
	cr_assert_eq(cause.worker, COHORT_TIMED_OUT);
	says("; rank 3 gave up first (its worker returned COHORT_TIMED_OUT)");
	expect_rank_1();
}

Test(blame, verdict_line_is_short_and_printable_for_any_group_name)
{
	o.name = "a name of two lines,\nred and long: \033[31m";
	o.deadlines.join_ns = 200 * MS;
	run(RANKS, rank_3_hangs_in_pair, NULL, COHORT_STALLED);
	expect_blame(3);
	says("\"a name of two lines,?red and long: ?[31m.1\"");
	says("; rank 2 gave up first (its worker returned COHORT_STALLED)");
	cr_assert_leq(strlen(cause.text), 200, "%s", cause.text);
	cr_assert_null(strchr(cause.details, '\033'), "%s", cause.details);
	expect_close(group);
}

/* Return true until the library has freed the child communicator. Until then, a
 * dump contains a file about it. */
static bool has_child(void)
{
	char folder[] = "/tmp/cohort-blame-XXXXXX", path[512];
	struct dirent *entry;
	bool found = false;
	DIR *dir;

	cr_assert_not_null(mkdtemp(folder));
	ranks_must(cohort_dump(group, folder), "dump");
	dir = opendir(folder);
	while ((entry = readdir(dir))) {
		found |= strstr(entry->d_name, "world.0") != NULL;
		snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
		unlink(path);
	}
	closedir(dir);
	rmdir(folder);
	return found;
}

/* Rank 3 is late in a child communicator of ranks 1 to 3. They close the child,
 * give the library time to free it, and return its error. */
static int rank_3_is_late_in_child(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *child;
	int i, rc;

	ranks_must(cohort_comm_split(c, rank ? 0 : COHORT_NO_COLOR, 0, &child),
	           "split");
	if (!rank)
		return hang(c);
	if (rank == 3)
		hang(child);
	rc = sum(child, COHORT_FOREVER);
	cr_assert(rank != 1 || has_child());
	spread_wait(user, RANKS - 1);
	cohort_comm_close(child);
	/* If a call was still being staged, the child's memory may stay until
	 * the group ends. A dump also delays the free, so wait between two
	 * dumps. */
	for (i = 0; rank == 1 && i < 20 && has_child(); i++)
		nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
	spread_wait(user, RANKS - 1);
	return rc;
}

Test(blame, rank_that_returns_a_closed_childs_error_is_not_blamed)
{
	struct spread_barrier barrier = { 0 };

	o.deadlines.join_ns = 200 * MS;
	run(RANKS, rank_3_is_late_in_child, &barrier, COHORT_STALLED);
	expect_blame(3);
	says("rank 3 (2 in \"world.0\") has not called all_reduce_host 1 of ");
	says(" gave up first (its worker returned COHORT_STALLED)");
	expect_lost(3);
	expect_close(group);
}

/* Check that the cause's text is @text, which uses the ranks' numbers in the
 * group, and that its details are the same text. */
static void expect_child_text(const char *text)
{
	says(text);
	cr_assert_str_eq(cause.details, cause.text);
}

/* Ranks 2 and 3 sum different counts in their communicator. */
static int pair_differs(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *pair;
	int32_t x[2] = { 1, 1 };
	int rc;

	(void)user;
	rc = cohort_comm_split(c, rank / 2, 0, &pair);
	if (rc != COHORT_OK)
		return rc; /* the library has ended the group */
	return rank < 2 ? sum(c, COHORT_FOREVER)
	                : cohort_all_reduce_host(pair, x, (size_t)rank - 1,
	                                         COHORT_I32, COHORT_SUM,
	                                         COHORT_FOREVER);
}

Test(blame, mismatch_in_a_child_names_ranks_by_group_number)
{
	run(RANKS, pair_differs, NULL, COHORT_MISMATCH);
	expect_child_text("collective 1 of \"world.1\" differs, no majority: "
	                  "rank 2 (0 in \"world.1\") calls all_reduce_host of "
	                  "1 int32, sum; rank 3 (1 in \"world.1\") calls "
	                  "all_reduce_host of 2 int32, sum; rank ");
	expect_close(group);
}

static int rank_3_fails_in_pair(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *pair;
	int rc;

	(void)user;
	rc = cohort_comm_split(c, rank / 2, 0, &pair);
	if (rc != COHORT_OK)
		return rc; /* the library has ended the group */
	if (rank != 3)
		return sum(rank == 2 ? pair : c, COHORT_FOREVER);
	ranks_must(cohort_comm_fail(pair, 77, "disk is full"), "fail");
	return hang(c);
}

Test(blame, failure_in_a_child_names_the_rank_by_group_number)
{
	run(RANKS, rank_3_fails_in_pair, NULL, COHORT_WORKER);
	expect_blame(3);
	expect_child_text(
		"rank 3 (1 in \"world.1\") gave up with code 77: disk is "
		"full; when \"world.1\" ended: rank");
	says("; rank 2 gave up first (");
	expect_close(group);
}

/* Make sums until the group ends.  Return the last sum's status. */
static int sum_until_the_end(struct cohort_comm *c)
{
	const struct cohort_deadlines patient = { .join_ns = RANKS_SOON };
	int rc;

	ranks_must(cohort_deadline_push(c, &patient), "push");
	do
		rc = sum(c, COHORT_FOREVER);
	while (rc == COHORT_OK);
	return rc;
}

/* Rank 3 gives up its pair.  All ranks go on in the group, until rank 2 fails
 * with the code that bindings use for exceptions. */
static int rank_2_fails_after_pair(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *pair;

	(void)user;
	ranks_must(cohort_comm_split(c, rank / 2, 0, &pair), "split");
	sum_patiently(c); /* now no rank is in the split */
	if (rank == 3)
		ranks_must(cohort_comm_fail(pair, 77, NULL), "fail");
	if (rank != 2)
		return sum_until_the_end(c);
	cr_assert_eq(sum(pair, COHORT_FOREVER), COHORT_WORKER);
	sum_patiently(c);
	ranks_must(cohort_comm_fail(c, COHORT_WORKER, "a bug"), "fail");
	return COHORT_WORKER;
}

Test(blame, rank_that_goes_on_after_a_childs_end_can_be_blamed)
{
	run(RANKS, rank_2_fails_after_pair, NULL, COHORT_WORKER);
	cr_assert_eq(cause.rank, 2, "%s", cause.text);
	says("rank 2 gave up with code -14: a bug");
	expect_lost(2);
	expect_close(group);
}

/* Rank 3 does not call in its pair.  When the pair has ended, all ranks go on in
 * the group, until the thread of rank 2 exits. */
static void *exit_after_pair(void *c)
{
	const struct cohort_deadlines soon = { .join_ns = 200 * MS };
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *pair;

	ranks_must(cohort_comm_bind(c), "bind");
	ranks_must(cohort_comm_split(c, rank / 2, 0, &pair), "split");
	sum_patiently(c); /* now no rank is in the split */
	ranks_must(cohort_deadline_push(pair, &soon), "push");
	if (rank == 3)
		hang(pair);
	if (rank == 2) {
		cr_assert_eq(sum(pair, COHORT_FOREVER), COHORT_STALLED);
		sum_patiently(c);
		return NULL;
	}
	cr_assert_eq(sum_until_the_end(c), COHORT_THREAD_EXITED);
	ranks_must(cohort_comm_unbind(c), "unbind");
	return NULL;
}

Test(blame, thread_that_goes_on_after_a_childs_end_can_be_blamed)
{
	run_on_own_threads(exit_after_pair);
	cr_assert_eq(cause.rank, 2, "%s", cause.text);
	expect_lost(2);
	expect_close(group);
}

/* ---- pauses and pushed deadlines --------------------------------------- */

/* Rank 0 is late in two child communicators, after it has paused the parent or
 * pushed a deadline on it. */
static int rank_0_is_late(struct cohort_comm *c, void *user)
{
	const bool pauses = user != NULL;
	const struct cohort_deadlines patient = { .join_ns = RANKS_SOON };
	const uint64_t late_ns = 250 * MS;
	struct cohort_comm *child, *later;
	uint64_t until;

	ranks_must(cohort_comm_split(c, 0, 0, &child), "split");
	if (!pauses)
		ranks_must(cohort_deadline_push(c, &patient), "push");
	ranks_must(cohort_comm_split(c, 0, 0, &later), "split");
	if (cohort_comm_rank(c) == 0) {
		if (pauses)
			ranks_must(cohort_pause(c), "pause");
		for (until = test_deadline(late_ns); test_now() < until;)
			test_nap();
		if (pauses)
			ranks_must(cohort_resume(c), "resume");
	}
	ranks_must(sum(child, COHORT_FOREVER), "sum");
	ranks_must(sum(later, COHORT_FOREVER), "sum");
	return 0;
}

Test(blame, pause_of_a_parent_also_pauses_its_children)
{
	o.deadlines.join_ns = 100 * MS;
	run(3, rank_0_is_late, &o, COHORT_OK);
	expect_close(group);
}

Test(blame, deadlines_pushed_on_a_parent_apply_to_its_children)
{
	o.deadlines.join_ns = 100 * MS;
	run(3, rank_0_is_late, NULL, COHORT_OK);
	expect_close(group);
}

struct late {
	uint64_t ns;
	uint64_t called_ns; /* time of the late call */
};

/* Rank 3 waits for rank 2, which waits in a child communicator for rank 1,
 * which waits in another child for rank 0. Rank 0 calls at the moment when the
 * deadline expires. */
static int rank_0_is_at_its_deadline(struct cohort_comm *c, void *user)
{
	const struct cohort_deadlines soon = { .join_ns = 40 * MS };
	const int rank = cohort_comm_rank(c);
	struct late *late = user;
	struct cohort_comm *first, *second;
	uint64_t until;
	int rc;

	ranks_must(cohort_comm_split(c, rank < 2 ? 0 : COHORT_NO_COLOR, 0,
	                             &first),
	           "split");
	ranks_must(cohort_comm_split(
			   c, rank == 1 || rank == 2 ? 1 : COHORT_NO_COLOR, 0,
			   &second),
	           "split");
	sum_patiently(c);
	ranks_must(cohort_deadline_push(c, &soon), "push");
	if (rank == 0)
		for (until = test_deadline(late->ns); test_now() < until;)
			sched_yield();
	if (rank == 0)
		late->called_ns = test_now();
	rc = first ? sum(first, COHORT_FOREVER) : COHORT_OK;
	if (rc == COHORT_OK && second)
		rc = sum(second, COHORT_FOREVER);
	return rc == COHORT_OK ? sum(c, COHORT_FOREVER) : rc;
}

/* The watchdog must not trust a single snapshot, which may show a rank just
 * after its wait has ended. A verdict more than 6 ms after rank 0's call does
 * not count as wrong, because then the machine has delayed a rank. */
Test(blame, ranks_that_continue_at_the_deadline_are_not_blamed)
{
	struct late late;
	int round, wrong = 0;

	for (round = 0; round < 30; round++) {
		late.ns = 39 * MS + (uint64_t)round * MS / 20;
		group = ranks_open(RANKS, &o);
		wrong += cohort_group_run(group, rank_0_is_at_its_deadline,
		                          &late, &cause) != COHORT_OK &&
		         cause.rank > 0 &&
		         cause.time_ns < late.called_ns + 6 * MS;
		expect_close(group);
	}
	cr_assert_leq(wrong, 5);
}

/* ---- ranks that leave --------------------------------------------------- */

static int rank_1_returns(struct cohort_comm *c, void *user)
{
	(void)user;
	return cohort_comm_rank(c) == 1 ? 0 : sum(c, COHORT_FOREVER);
}

/* The deadline is infinite, so it cannot cause the verdict. */
Test(blame, worker_that_returns_0_while_ranks_wait_is_named_at_once)
{
	o.deadlines.join_ns = COHORT_FOREVER;
	run(RANKS, rank_1_returns, NULL, COHORT_STALLED);
	expect_blame(1);
	cr_assert_eq(cause.kind, COHORT_VERDICT_LEFT);
	says("rank 1 has left: its worker returned 0 (");
	/* How many ranks have called before the verdict depends on timing. */
	says("wait");
	says(" for it in all_reduce_host 1 of \"world\"");
	expect_close(group);
}

/* Time of rank 0's call, in ns */
static _Atomic uint64_t called_ns;

static int rank_1_returns_long_before(struct cohort_comm *c, void *user)
{
	const uint64_t until = test_deadline(20 * MS);

	(void)user;
	if (cohort_comm_rank(c) == 1)
		return 0;
	while (test_now() < until)
		test_nap();
	called_ns = test_now();
	return sum(c, COHORT_FOREVER);
}

/*
 * The watchdog must report the rank when it leaves, not at its next regular
 * check a second later. A busy machine can delay the report in some rounds but
 * not in all.
 */
Test(blame, rank_that_left_is_named_at_once_when_a_wait_begins)
{
	uint64_t ns, least = UINT64_MAX;

	o.deadlines.join_ns = COHORT_FOREVER;
	for (int i = 0; i < 10 && least >= 500 * MS; i++) {
		run(2, rank_1_returns_long_before, NULL, COHORT_STALLED);
		cr_assert_eq(cause.kind, COHORT_VERDICT_LEFT);
		ns = cause.time_ns - called_ns;
		least = ns < least ? ns : least;
		expect_close(group);
	}
	cr_assert_lt(least, 500 * MS);
}

static int rank_1_returns_before_child(struct cohort_comm *c, void *user)
{
	struct cohort_comm *child;
	int rc;

	(void)user;
	rc = cohort_comm_split(c, 0, 0, &child);
	if (rc != COHORT_OK)
		return rc; /* the library has ended the group */
	return cohort_comm_rank(c) == 1 ? 0 : sum(child, COHORT_FOREVER);
}

Test(blame, worker_that_returns_0_while_a_child_waits_is_named)
{
	o.deadlines.join_ns = COHORT_FOREVER;
	run(RANKS, rank_1_returns_before_child, NULL, COHORT_STALLED);
	expect_blame(1);
	cr_assert_eq(cause.kind, COHORT_VERDICT_LEFT);
	says("rank 1 has left: its worker returned 0 (");
	expect_close(group);
}

static int rank_1_does_not_split(struct cohort_comm *c, void *user)
{
	struct cohort_comm *child;

	(void)user;
	return cohort_comm_rank(c) == 1 ? 0
	                                : cohort_comm_split(c, 0, 0, &child);
}

Test(blame, worker_that_returns_0_while_ranks_split_is_named_at_once)
{
	o.deadlines.join_ns = COHORT_FOREVER;
	run(RANKS, rank_1_does_not_split, NULL, COHORT_STALLED);
	expect_blame(1);
	cr_assert_eq(cause.kind, COHORT_VERDICT_LEFT);
	says(" for it in comm_split 1 of \"world\"");
	expect_close(group);
}

static int rank_1_closes_child(struct cohort_comm *c, void *user)
{
	struct cohort_comm *child;

	ranks_must(cohort_comm_split(c, 0, 0, &child), "split");
	/* Wait until every rank has its communicators and is in no call. */
	sum_patiently(c);
	spread_wait(user, cohort_comm_size(c));
	if (cohort_comm_rank(c) != 1)
		return sum(child, COHORT_FOREVER);
	ranks_must(cohort_comm_close(child), "close");
	return hang(c);
}

Test(blame, rank_that_closes_a_child_in_which_ranks_wait_is_named)
{
	struct spread_barrier barrier = { 0 };

	o.deadlines.join_ns = COHORT_FOREVER;
	run(RANKS, rank_1_closes_child, &barrier, COHORT_STALLED);
	expect_blame(1);
	says("rank 1 has left: its communicator was closed (");
	expect_close(group);
}

static int rank_1_closes_child_and_goes_on(struct cohort_comm *c, void *user)
{
	struct cohort_comm *child;

	ranks_must(cohort_comm_split(c, 0, 0, &child), "split");
	/* Wait until every rank has its communicators and is in no call. */
	sum_patiently(c);
	spread_wait(user, cohort_comm_size(c));
	if (cohort_comm_rank(c) != 1)
		return sum(child, COHORT_FOREVER);
	ranks_must(cohort_comm_close(child), "close");
	return sum(c, COHORT_FOREVER);
}

Test(blame, rank_that_closed_a_child_is_named_even_while_it_waits)
{
	struct spread_barrier barrier = { 0 };

	o.deadlines.join_ns = COHORT_FOREVER;
	run(2, rank_1_closes_child_and_goes_on, &barrier, COHORT_STALLED);
	expect_blame(1);
	cr_assert_eq(cause.kind, COHORT_VERDICT_LEFT);
	says("rank 1 has left: its communicator was closed (");
	expect_close(group);
}

static int all_return(struct cohort_comm *c, void *user)
{
	(void)user;
	return sum(c, COHORT_FOREVER);
}

static int return_at_once(struct cohort_comm *c, void *user)
{
	(void)c;
	(void)user;
	return 0;
}

static int rank_2_calls_once_more(struct cohort_comm *c, void *user)
{
	(void)user;
	sum_patiently(c);
	settled++;
	if (cohort_comm_rank(c) != 2)
		return 0;
	while (settled < RANKS)
		test_nap();
	return sum(c, COHORT_FOREVER);
}

Test(blame, majority_that_left_before_an_extra_call_is_not_blamed)
{
	int lost[RANKS];

	run(RANKS, rank_2_calls_once_more, NULL, COHORT_STALLED);
	cr_assert_eq(cause.rank, -1, "%s", cause.text);
	says("rank 2 alone waits in all_reduce_host 2 of \"world\"");
	says("ranks 0-1, 3 have left");
	cr_assert_eq(cohort_group_lost(group, lost, RANKS), 0);
	expect_close(group);
}

/* After a run, another thread can call for a rank.  So the rank has left only
 * if it has not called by the deadline. */
Test(blame, rank_whose_run_is_over_is_blamed_only_at_the_deadline)
{
	struct cohort_comm *comms[2];

	o.deadlines.join_ns = 200 * MS;
	group = ranks_split(2, &o, comms);
	ranks_must(cohort_group_run(group, return_at_once, NULL, NULL), "run");
	cr_assert_eq(sum(comms[0], COHORT_FOREVER), COHORT_STALLED);
	ranks_must(cohort_group_cause(group, &cause), "cause");
	expect_blame(1);
	cr_assert_eq(cause.kind, COHORT_VERDICT_LEFT);
	says("rank 1 has left: its worker returned 0 (");
	says(", limit 200 ms); rank 0 waits");
	expect_close(group);
}

Test(blame, group_can_run_again_after_its_workers_returned)
{
	run(RANKS, all_return, NULL, COHORT_OK);
	expect_run_in(group, all_return, NULL);
	expect_close(group);
}

/* ---- abandoned workers -------------------------------------------------- */

static struct {
	atomic_bool may_return;
	pid_t tids[RANKS];
	int ranks_to_blame;
} late;

/* Return late, as if waiting for Python's interpreter lock, which the hung
 * ranks hold. */
static int return_late(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);

	(void)user;
	late.tids[rank] = gettid();
	sum_patiently(c);
	if (rank < RANKS - late.ranks_to_blame)
		sum(c, COHORT_FOREVER);
	while (!late.may_return)
		test_nap();
	return 0;
}

static void run_and_abandon_all(int ranks_to_blame)
{
	late.ranks_to_blame = ranks_to_blame;
	o.deadlines.join_ns = 200 * MS;
	o.deadlines.abort_ns = place_patience_ns(300 * MS);
	run(RANKS, return_late, NULL, COHORT_STALLED);
	cr_assert_eq(cohort_group_abandoned(group, NULL, 0), RANKS);
}

static void let_all_return(void)
{
	int rank;

	late.may_return = true;
	for (rank = 0; rank < RANKS; rank++)
		while (tgkill(getpid(), late.tids[rank], 0) == 0)
			sched_yield();
}

Test(blame, blamed_rank_is_lost_if_all_workers_are_abandoned)
{
	run_and_abandon_all(1);
	expect_blame(3);
	expect_lost(3);
	cr_assert_eq(cohort_group_respawn(group, (const int[]){ 3 }, 1),
	             COHORT_OK, "%s", cohort_last_error());
	expect_run_in(group, all_return, NULL);
	expect_close(group);
	let_all_return();
}

Test(blame, no_rank_is_lost_if_all_are_abandoned_and_none_is_blamed)
{
	run_and_abandon_all(RANKS - 1);
	cr_assert_eq(cause.rank, -1, "%s", cause.text);
	cr_assert_eq(cohort_group_lost(group, NULL, 0), 0);
	expect_close(group);
	let_all_return();
}

/* ---- a rank that waits alone --------------------------------------------- */

static int rank_0_saves(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);

	(void)user;
	ranks_must(cohort_tag(c, "step 60"), "tag");
	sum_patiently(c);
	if (rank)
		return hang(c);
	ranks_must(cohort_tag(c, "save_checkpoint"), "tag");
	return sum(c, COHORT_FOREVER);
}

Test(blame, no_rank_is_blamed_if_only_one_waits)
{
	o.deadlines.join_ns = 200 * MS;
	run(RANKS, rank_0_saves, NULL, COHORT_STALLED);
	cr_assert_eq(cause.rank, -1, "%s", cause.text);
	cr_assert_eq(cause.missing[0], 0);
	cr_assert_eq(cause.joined[0], 1);
	says("rank 0 alone waits in all_reduce_host 2 of \"world\" (tag "
	     "\"save_checkpoint\")");
	says("; ranks 1-3 are between calls (tag \"step 60\")");
	cr_assert_eq(cohort_group_lost(group, NULL, 0), 0);
	expect_close(group);
}

static int rank_0_has_other_tags(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);

	(void)user;
	ranks_must(cohort_tag(c, rank ? "finish" : "save"), "tag");
	sum_patiently(c);
	ranks_must(cohort_tag(c, "finish"), "tag");
	return rank ? hang(c) : sum(c, COHORT_FOREVER);
}

Test(blame, verdict_shows_tags_that_differed_before_the_hang)
{
	o.deadlines.join_ns = 200 * MS;
	run(RANKS, rank_0_has_other_tags, NULL, COHORT_STALLED);
	says("; tags of collective 1 differ: \"save\" (rank 0), \"finish\" "
	     "(ranks 1-3)");
	expect_close(group);
}
