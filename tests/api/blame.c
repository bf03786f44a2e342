/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The rank that is blamed in programs with several communicators, timeouts of their own,
 * and ranks that leave early: the last one in the chain of waits, not a witness
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "core/clique.h"
#include "core/clique_tree.h"
#include "support/ranks.h"
#include "support/spread.h"

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

static void close_group(void)
{
	cr_assert_eq(cohort_group_close(group), COHORT_OK, "%s",
	             cohort_last_error());
}

static void says(const char *text)
{
	cr_assert_not_null(strstr(cause.text, text), "\"%s\" is not in %s",
	                   text, cause.text);
}

static void details(const char *rows)
{
	cr_assert_not_null(strstr(cause.details, rows), "\"%s\" is not in %s",
	                   rows, cause.details);
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

static atomic_int settled; /* ranks that hang, or are about to wait */

/* Make no call until the communicator has ended. */
static int hang(struct cohort_comm *c)
{
	struct cohort_cause now = { .status = COHORT_OK };
	struct backoff b = BACKOFF;

	settled++;
	while (now.status == COHORT_OK) {
		backoff_wait(&b, UINT64_MAX);
		ranks_must(cohort_comm_cause(c, &now), "cause");
	}
	return 0;
}

static int sum(struct cohort_comm *c, uint64_t timeout_ns)
{
	int32_t x = 1;

	return cohort_all_reduce_host(c, &x, 1, COHORT_I32, COHORT_SUM,
	                              timeout_ns);
}

/* Sum without a deadline that a thread could miss because it starts late. */
static void sum_patiently(struct cohort_comm *c)
{
	const struct cohort_deadlines patient = { .join_ns = RANKS_SOON,
		                                  .exec_ns = RANKS_SOON };

	ranks_must(cohort_deadline_push(c, &patient), "push");
	ranks_must(sum(c, COHORT_FOREVER), "sum");
	ranks_must(cohort_deadline_pop(c), "pop");
}

/* ---- timeouts of the program's own ------------------------------------- */

static int rank_3_hangs(struct cohort_comm *c, void *user)
{
	(void)user;
	return cohort_comm_rank(c) == 3 ? hang(c) : sum(c, 1000 * MS);
}

Test(blame, worker_that_returns_its_own_timeout_is_a_witness)
{
	run(RANKS, rank_3_hangs, NULL, COHORT_STALLED);
	expect_blame(3);
	cr_assert_eq(cause.worker, COHORT_TIMED_OUT);
	says("rank 3 has not called all_reduce_host 1 of \"world\" (");
	says("; ranks 0-2 wait; rank ");
	says(" gave up first (its worker returned COHORT_TIMED_OUT)");
	expect_lost(3);
	close_group();
}

static int rank_3_hangs_and_rank_1_fails(struct cohort_comm *c, void *user)
{
	int rank = cohort_comm_rank(c);

	(void)user;
	return rank == 3 ? hang(c) : rank == 1 ? 5 : sum(c, COHORT_FOREVER);
}

Test(blame, worker_that_returns_a_code_of_its_own_is_blamed)
{
	run(RANKS, rank_3_hangs_and_rank_1_fails, NULL, COHORT_WORKER);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	cr_assert_eq(cause.worker, 5);
	expect_lost(1);
	close_group();
}

static void *give_up(void *comm)
{
	ranks_must(cohort_comm_bind(comm), "bind");
	cr_assert_eq(sum(comm, 50 * MS), COHORT_TIMED_OUT);
	return NULL;
}

Test(blame, thread_that_exits_after_its_own_timeout_is_a_witness)
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
	close_group();
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
	close_group();
}

/* ---- several communicators --------------------------------------------- */

/* Ranks 1 and 3 wait in a child for rank 2, and rank 0 for them. */
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

Test(blame, rank_that_others_wait_for_in_a_child_is_blamed)
{
	o.deadlines.join_ns = 200 * MS;
	run(RANKS, rank_2_hangs_in_child, NULL, COHORT_STALLED);
	expect_blame(2);
	says("; ranks 1, 3 wait in all_reduce_host 1 of group \"world.0\" for "
	     "rank 2");
	expect_lost(2);
	close_group();
}

/* Of three ranks, 0 and 1 have a communicator, and 1 and 2 another one. */
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

Test(blame, rank_that_waits_in_a_sibling_is_no_culprit)
{
	static struct cohort_cause causes[2];

	o.deadlines.join_ns = 200 * MS;
	run(3, rank_2_hangs_in_sibling, causes, COHORT_STALLED);
	expect_blame(2);
	/* Of the communicator of ranks 0 and 1. */
	cause = causes[0];
	cr_assert_eq(cause.rank, -1, "%s", cause.text);
	cr_assert_eq(cause.world_rank, 2);
	cr_assert_eq(cause.missing[0], 0);
	says("; rank 1 waits in all_reduce_host 1 of group \"world.1\" for "
	     "rank "
	     "2");
	close_group();
}

/* Ranks 2 and 3 are a pair, in which rank 3 hangs. */
static int rank_3_hangs_in_pair(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *pair;

	(void)user;
	ranks_must(cohort_comm_split(c, rank / 2, 0, &pair), "split");
	cr_assert_eq(cohort_comm_group_rank(pair, 1), rank < 2 ? 1 : 3);
	return rank == 3 ? hang(c) : sum(pair, COHORT_FOREVER);
}

Test(blame, error_of_a_child_is_no_fault_of_the_rank_that_returns_it)
{
	o.deadlines.join_ns = 200 * MS;
	run(RANKS, rank_3_hangs_in_pair, NULL, COHORT_STALLED);
	expect_blame(3);
	says("rank 3 (1 in \"world.1\") has not called all_reduce_host 1 of ");
	cr_assert_not_null(strstr(cause.details,
	                          "\nwhy    it has never called anything in "
	                          "this communicator; last seen in thread "),
	                   "%s", cause.details);
	cr_assert_not_null(strstr(cause.details,
	                          "\nnote   rank 2 gave up first (its worker "
	                          "returned COHORT_STALLED)"));
	cr_assert_leq(strlen(cause.text), 200);
	expect_lost(3);
	close_group();
}

/* ---- sends and receives --------------------------------------------------- */

#define PATIENCE (300 * MS) /* a rank that is about to wait does so by then */

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

static void await_others(void)
{
	struct backoff b = BACKOFF;

	while (settled < RANKS - 1)
		backoff_wait(&b, UINT64_MAX);
}

/* Once the others hang or wait, receive with a deadline that passes before any other. */
static int receive_last(struct cohort_comm *c, int peer)
{
	const struct cohort_deadlines soon = { .join_ns = PATIENCE };

	await_others();
	ranks_must(cohort_deadline_push(c, &soon), "push");
	return receive(c, peer, COHORT_FOREVER);
}

/* Rank 1 hangs, rank 0 waits for it in a pair, and rank 2 for rank 0 in another one. */
static int stage_waits_for_stage(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *tensors, *pipeline;

	(void)user;
	ranks_must(cohort_comm_split(c, rank / 2, 0, &tensors), "split");
	ranks_must(cohort_comm_split(c, rank % 2, 0, &pipeline), "split");
	/* The first call allocates host memory, which may wait for a device. */
	sum_patiently(tensors);
	sum_patiently(pipeline);
	if (rank == 0)
		return wait_in(tensors);
	return rank == 2 ? receive_last(pipeline, 0) : hang(c);
}

Test(blame, rank_that_a_sender_waits_for_in_another_pair_is_blamed)
{
	o.connect = COHORT_CONNECT_ALL; /* or the first message has init_ns */
	run(RANKS, stage_waits_for_stage, NULL, COHORT_STALLED);
	expect_blame(1);
	says("rank 1 has not called all_reduce_host 2 of \"world.0\" (");
	details("\nwait   rank 2 waits in recv from rank 0"
	        "\nwait   rank 0 waits in all_reduce_host 2 of group "
	        "\"world.0\" for rank 1\n");
	expect_lost(1);
	close_group();
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

Test(blame, first_stage_of_a_pipeline_is_blamed_for_the_wait_of_the_last_one)
{
	o.connect = COHORT_CONNECT_ALL; /* or the first message has init_ns */
	run(RANKS, rank_0_hangs_in_pipeline, NULL, COHORT_STALLED);
	expect_blame(0);
	cr_assert_neq(cause.kind, COHORT_VERDICT_DIFFERENT_CALL);
	says("rank 0 has not called send 1 to rank 1 of \"world\" (");
	details("\nwait   rank 3 waits in recv from rank 2"
	        "\nwait   rank 2 waits in recv from rank 1"
	        "\nwait   rank 1 waits in recv from rank 0\n");
	expect_lost(0);
	close_group();
}

/* Rank 3 receives from rank 2, which waits in a child for rank 1; if @user is not NULL,
 * with a timeout of its own. */
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
	close_group();
}

Test(blame, rank_that_a_sender_waits_for_in_a_child_is_blamed)
{
	o.connect = COHORT_CONNECT_ALL; /* or the first message has init_ns */
	run(RANKS, rank_1_hangs_in_child, NULL, COHORT_STALLED);
	expect_rank_1();
}

Test(blame, rank_that_a_sender_waits_for_is_blamed_if_the_receiver_gives_up)
{
	o.connect = COHORT_CONNECT_ALL; /* or the first message has init_ns */
	run(RANKS, rank_1_hangs_in_child, &o, COHORT_STALLED);
	cr_assert_eq(cause.worker, COHORT_TIMED_OUT);
	says("; rank 3 gave up first (its worker returned COHORT_TIMED_OUT)");
	expect_rank_1();
}

static void ignore(struct clique *q, void *arg)
{
	(void)q;
	(void)arg;
}

Test(blame, line_is_short_and_plain_whatever_the_group_is_called)
{
	o.name = "a name of two lines,\nred and long: \033[31m";
	o.deadlines.join_ns = 200 * MS;
	run(RANKS, rank_3_hangs_in_pair, NULL, COHORT_STALLED);
	expect_blame(3);
	says("\"a name of two lines,?red and long: ?[31m.1\"");
	says("; rank 2 gave up first (its worker returned COHORT_STALLED)");
	cr_assert_leq(strlen(cause.text), 200, "%s", cause.text);
	cr_assert_null(strchr(cause.details, '\033'), "%s", cause.details);
	close_group();
}

/* Ranks 1 to 3 have a child, in which rank 3 is late.  All close it, and return its error
 * once the library has no more use for it. */
static int rank_3_is_late_in_child(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);
	struct backoff b = BACKOFF;
	struct cohort_comm *child;
	struct clique *q;
	int rc;

	ranks_must(cohort_comm_split(c, rank ? 0 : COHORT_NO_COLOR, 0, &child),
	           "split");
	if (!rank)
		return hang(c);
	if (rank == 3)
		hang(child);
	rc = sum(child, COHORT_FOREVER);
	q = child->clique;
	clique_await(q, CLIQUE_RECLAIMED, UINT64_MAX);
	spread_wait(user, RANKS - 1);
	cohort_comm_close(child);
	while (clique_tree_look(q, ignore, NULL))
		backoff_wait(&b, UINT64_MAX);
	return rc;
}

Test(blame, error_of_a_child_that_all_have_closed_blames_no_witness)
{
	struct spread_barrier barrier = { 0 };

	o.deadlines.join_ns = 200 * MS;
	run(RANKS, rank_3_is_late_in_child, &barrier, COHORT_STALLED);
	expect_blame(3);
	says("rank 3 (2 in \"world.0\") has not called all_reduce_host 1 of ");
	says(" gave up first (its worker returned COHORT_STALLED)");
	expect_lost(3);
	close_group();
}

/* The ranks of the group are named by their numbers in it, and nothing is left out. */
static void expect_child_text(const char *text)
{
	says(text);
	cr_assert_str_eq(cause.details, cause.text);
}

/* Ranks 2 and 3 are a pair, in which they sum different counts. */
static int pair_differs(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *pair;
	int32_t x[2] = { 1, 1 };
	int rc;

	(void)user;
	rc = cohort_comm_split(c, rank / 2, 0, &pair);
	if (rc != COHORT_OK)
		return rc; /* the group has ended */
	return rank < 2 ? sum(c, COHORT_FOREVER)
	                : cohort_all_reduce_host(pair, x, (size_t)rank - 1,
	                                         COHORT_I32, COHORT_SUM,
	                                         COHORT_FOREVER);
}

Test(blame, mismatch_in_a_child_names_the_ranks_of_the_group)
{
	run(RANKS, pair_differs, NULL, COHORT_MISMATCH);
	expect_child_text("collective 1 of \"world.1\" differs, no majority: "
	                  "rank 2 (0 in \"world.1\") calls all_reduce_host of "
	                  "1 int32, sum: rank 3 (1 in \"world.1\") calls "
	                  "all_reduce_host of 2 int32, sum; rank ");
	close_group();
}

static int rank_3_fails_in_pair(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *pair;
	int rc;

	(void)user;
	rc = cohort_comm_split(c, rank / 2, 0, &pair);
	if (rc != COHORT_OK)
		return rc; /* the group has ended */
	if (rank != 3)
		return sum(rank == 2 ? pair : c, COHORT_FOREVER);
	ranks_must(cohort_comm_fail(pair, 77, "disk is full"), "fail");
	return hang(c);
}

Test(blame, failure_in_a_child_names_the_rank_of_the_group)
{
	run(RANKS, rank_3_fails_in_pair, NULL, COHORT_WORKER);
	expect_blame(3);
	expect_child_text("rank 3 (1 in \"world.1\") gave up with 77: disk is "
	                  "full; when \"world.1\" ended: rank");
	says("; rank 2 gave up first (");
	close_group();
}

/* ---- pauses and pushed deadlines --------------------------------------- */

/* Rank 0 takes its time, as it says on the parent. */
static int rank_0_is_late(struct cohort_comm *c, void *user)
{
	const bool pauses = user != NULL;
	const struct cohort_deadlines patient = { .join_ns = RANKS_SOON };
	const uint64_t late_ns = 250 * MS;
	struct cohort_comm *child, *later;
	struct backoff b = BACKOFF;
	uint64_t until;

	ranks_must(cohort_comm_split(c, 0, 0, &child), "split");
	if (!pauses)
		ranks_must(cohort_deadline_push(c, &patient), "push");
	ranks_must(cohort_comm_split(c, 0, 0, &later), "split");
	if (cohort_comm_rank(c) == 0) {
		if (pauses)
			ranks_must(cohort_pause(c), "pause");
		for (until = clock_deadline(late_ns); clock_now() < until;)
			backoff_wait(&b, until);
		if (pauses)
			ranks_must(cohort_resume(c), "resume");
	}
	ranks_must(sum(child, COHORT_FOREVER), "sum");
	ranks_must(sum(later, COHORT_FOREVER), "sum");
	return 0;
}

Test(blame, pause_of_a_parent_holds_for_its_children)
{
	o.deadlines.join_ns = 100 * MS;
	run(3, rank_0_is_late, &o, COHORT_OK);
	close_group();
}

Test(blame, deadlines_pushed_on_a_parent_hold_for_its_children)
{
	o.deadlines.join_ns = 100 * MS;
	run(3, rank_0_is_late, NULL, COHORT_OK);
	close_group();
}

/* ---- ranks that leave --------------------------------------------------- */

static int rank_1_returns(struct cohort_comm *c, void *user)
{
	(void)user;
	return cohort_comm_rank(c) == 1 ? 0 : sum(c, COHORT_FOREVER);
}

/* The deadline is longer than the test may take. */
Test(blame, worker_that_returns_0_while_others_wait_is_named_at_once)
{
	o.deadlines.join_ns = COHORT_FOREVER;
	run(RANKS, rank_1_returns, NULL, COHORT_STALLED);
	expect_blame(1);
	cr_assert_eq(cause.kind, COHORT_VERDICT_LEFT);
	says("rank 1 has left: its worker returned 0 (");
	/* How many have called by then is a matter of time. */
	says("wait");
	says(" for it in all_reduce_host 1 of \"world\"");
	close_group();
}

/* When rank 0 called. */
static _Atomic uint64_t called_ns;

static int rank_1_returns_long_before(struct cohort_comm *c, void *user)
{
	const uint64_t until = clock_deadline(20 * MS);
	struct backoff b = BACKOFF;

	(void)user;
	if (cohort_comm_rank(c) == 1)
		return 0;
	while (clock_now() < until)
		backoff_wait(&b, until);
	called_ns = clock_now();
	return sum(c, COHORT_FOREVER);
}

/* The watchdog has looked when the rank left, and looks again at the latest a second after
 * that.  It may be late on a busy machine, but not each time. */
Test(blame, rank_that_others_begin_to_wait_for_after_it_left_is_named_at_once)
{
	uint64_t ns, least = UINT64_MAX;

	o.deadlines.join_ns = COHORT_FOREVER;
	for (int i = 0; i < 10 && least >= 500 * MS; i++) {
		run(2, rank_1_returns_long_before, NULL, COHORT_STALLED);
		cr_assert_eq(cause.kind, COHORT_VERDICT_LEFT);
		ns = cause.time_ns - called_ns;
		least = ns < least ? ns : least;
		close_group();
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
		return rc; /* the group has ended */
	return cohort_comm_rank(c) == 1 ? 0 : sum(child, COHORT_FOREVER);
}

Test(blame, worker_that_returns_0_while_others_wait_in_a_child_is_named_at_once)
{
	o.deadlines.join_ns = COHORT_FOREVER;
	run(RANKS, rank_1_returns_before_child, NULL, COHORT_STALLED);
	expect_blame(1);
	cr_assert_eq(cause.kind, COHORT_VERDICT_LEFT);
	says("rank 1 has left: its worker returned 0 (");
	close_group();
}

static int rank_1_does_not_split(struct cohort_comm *c, void *user)
{
	struct cohort_comm *child;

	(void)user;
	return cohort_comm_rank(c) == 1 ? 0
	                                : cohort_comm_split(c, 0, 0, &child);
}

Test(blame, worker_that_returns_0_while_others_split_is_named_at_once)
{
	o.deadlines.join_ns = COHORT_FOREVER;
	run(RANKS, rank_1_does_not_split, NULL, COHORT_STALLED);
	expect_blame(1);
	cr_assert_eq(cause.kind, COHORT_VERDICT_LEFT);
	says(" for it in comm_split 1 of \"world\"");
	close_group();
}

static int rank_1_closes_child(struct cohort_comm *c, void *user)
{
	struct cohort_comm *child;

	(void)user;
	ranks_must(cohort_comm_split(c, 0, 0, &child), "split");
	/* All have their communicators. */
	sum_patiently(c);
	if (cohort_comm_rank(c) != 1)
		return sum(child, COHORT_FOREVER);
	ranks_must(cohort_comm_close(child), "close");
	return hang(c);
}

Test(blame, rank_that_closes_a_child_while_others_wait_is_named_at_once)
{
	o.deadlines.join_ns = COHORT_FOREVER;
	run(RANKS, rank_1_closes_child, NULL, COHORT_STALLED);
	expect_blame(1);
	says("rank 1 has left: its communicator was closed (");
	close_group();
}

static int rank_1_closes_child_and_goes_on(struct cohort_comm *c, void *user)
{
	struct cohort_comm *child;

	(void)user;
	ranks_must(cohort_comm_split(c, 0, 0, &child), "split");
	/* All have their communicators. */
	sum_patiently(c);
	if (cohort_comm_rank(c) != 1)
		return sum(child, COHORT_FOREVER);
	ranks_must(cohort_comm_close(child), "close");
	return sum(c, COHORT_FOREVER);
}

Test(blame, rank_that_closes_a_child_has_left_wherever_it_waits)
{
	o.deadlines.join_ns = COHORT_FOREVER;
	run(2, rank_1_closes_child_and_goes_on, NULL, COHORT_STALLED);
	expect_blame(1);
	cr_assert_eq(cause.kind, COHORT_VERDICT_LEFT);
	says("rank 1 has left: its communicator was closed (");
	close_group();
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

/* Another thread may call for it, however late. */
Test(blame, rank_whose_run_is_over_has_not_left)
{
	struct cohort_comm *comms[2];

	o.deadlines.join_ns = 200 * MS;
	group = ranks_split(2, &o, comms);
	ranks_must(cohort_group_run(group, return_at_once, NULL, NULL), "run");
	cr_assert_eq(sum(comms[0], COHORT_FOREVER), COHORT_STALLED);
	ranks_must(cohort_group_cause(group, &cause), "cause");
	expect_blame(1);
	cr_assert_neq(cause.kind, COHORT_VERDICT_LEFT, "%s", cause.text);
	close_group();
}

Test(blame, group_can_run_again_after_its_workers_returned)
{
	run(RANKS, all_return, NULL, COHORT_OK);
	cr_assert_eq(cohort_group_run(group, all_return, NULL, NULL), COHORT_OK,
	             "%s", cohort_last_error());
	close_group();
}

/* ---- ranks alone --------------------------------------------------------- */

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

Test(blame, rank_that_waits_alone_accuses_nobody)
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
	close_group();
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

Test(blame, tags_that_differed_before_are_shown)
{
	o.deadlines.join_ns = 200 * MS;
	run(RANKS, rank_0_has_other_tags, NULL, COHORT_STALLED);
	says("; tags of collective 1: \"save\" (rank 0), \"finish\" (ranks "
	     "1-3)");
	close_group();
}
