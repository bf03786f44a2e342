/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of communicators that are split from others: their ranks, and how they
 * end by themselves or with a parent
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/failing.h"
#include "support/ranks.h"
#include "support/spread.h"
#include "support/stuck.h"

#define RANKS 4

TestSuite(split, .timeout = 60);

/* Sum, over the ranks of @c, the number that each had before the split. */
static int sum_origins(struct cohort_comm *c)
{
	int32_t value = cohort_comm_origin(c);

	ranks_must(ranks_sum_wait(c, &value), "sum");
	return value;
}

/* ---- ranks of a child ------------------------------------------------- */

static int by_parity(struct cohort_comm *c, void *user)
{
	int rank = cohort_comm_rank(c);
	struct cohort_comm *child = NULL;

	(void)user;
	ranks_must(cohort_comm_split(c, rank % 2, -rank, &child), "split");
	cr_assert_neq(child, c);
	cr_assert_eq(cohort_comm_size(child), 2);
	/* The keys are descending, so they reverse the order of the ranks. */
	cr_assert_eq(cohort_comm_rank(child), rank < 2);
	cr_assert_eq(cohort_comm_origin(child), rank);
	cr_assert_eq(cohort_comm_device(child), cohort_comm_device(c));
	cr_assert_eq(cohort_comm_generation(child), cohort_comm_generation(c));
	cr_assert_eq(sum_origins(child), rank % 2 ? 1 + 3 : 0 + 2);
	cr_assert_eq(sum_origins(c), 0 + 1 + 2 + 3);
	return 0;
}

Test(split, split_groups_by_color_and_orders_by_key)
{
	expect_run(RANKS, by_parity, NULL);
}

static int without_one(struct cohort_comm *c, void *user)
{
	int rank = cohort_comm_rank(c);
	struct cohort_comm *child = c;

	(void)user;
	ranks_must(cohort_comm_split(c, rank == 1 ? COHORT_NO_COLOR : 7, 0,
	                             &child),
	           "split");
	if (rank == 1)
		cr_assert_null(child);
	else
		cr_assert_eq(sum_origins(child), 0 + 2 + 3);
	/* Split again, with COHORT_NO_COLOR on every rank. */
	ranks_must(cohort_comm_split(c, COHORT_NO_COLOR, 0, &child), "split");
	cr_assert_null(child);
	return 0;
}

Test(split, split_gives_ranks_without_a_color_no_child)
{
	expect_run(RANKS, without_one, NULL);
}

static int to_the_last(struct cohort_comm *c, void *user)
{
	struct cohort_comm *half, *one;
	int rank = cohort_comm_rank(c);

	(void)user;
	ranks_must(cohort_comm_split(c, rank / 2, 0, &half), "split");
	ranks_must(cohort_comm_split(half, cohort_comm_rank(half), 0, &one),
	           "split again");
	cr_assert_eq(cohort_comm_size(one), 1);
	cr_assert_eq(sum_origins(one), rank);
	cr_assert_eq(sum_origins(half), rank < 2 ? 1 : 5);
	ranks_must(cohort_comm_close(one), "close");
	ranks_must(cohort_comm_close(half), "close");
	cr_assert_eq(sum_origins(c), 6);
	return 0;
}

Test(split, child_communicator_can_be_split)
{
	expect_run(RANKS, to_the_last, NULL);
}

static int again_and_again(struct cohort_comm *c, void *user)
{
	struct cohort_comm *child;
	int i;

	(void)user;
	for (i = 0; i < place_times(20); i++) {
		ranks_must(cohort_comm_split(c, i % 2, i, &child), "split");
		cr_assert_eq(sum_origins(child), 6);
		ranks_must(cohort_comm_close(child), "close");
	}
	return 0;
}

Test(split, split_can_be_repeated_after_the_child_is_closed)
{
	expect_run(RANKS, again_and_again, NULL);
}

static int behind_work(struct cohort_comm *c, void *user)
{
	static int32_t x[RANKS];
	struct cohort_comm *child;
	int rank = cohort_comm_rank(c);

	(void)user;
	x[rank] = 1;
	ranks_sum(c, &x[rank]);
	ranks_must(cohort_comm_split(c, 0, 0, &child), "split");
	cr_assert_eq(x[rank], RANKS, "what came before is not done");
	return 0;
}

Test(split, split_waits_for_operations_in_flight)
{
	ranks_fault(2, 0, COHORT_FAULT_DELAY, 20 * 1000 * 1000);
	expect_run(RANKS, behind_work, NULL);
}

/* ---- arguments -------------------------------------------------------- */

Test(split, split_names_the_invalid_argument_and_its_value)
{
	struct cohort_comm *c[2], *child = NULL;
	struct cohort_group *group = ranks_ahead(2, NULL, c);
	int32_t a = 1, b = 2;

	expect(cohort_comm_split(NULL, 0, 0, &child), COHORT_INVALID,
	       "comm is NULL");
	expect(cohort_comm_split(c[0], 0, 0, NULL), COHORT_INVALID,
	       "child is NULL");
	expect(cohort_comm_split(c[0], -2, 0, &child), COHORT_INVALID,
	       "color is -2");
	ranks_must(cohort_batch_begin(c[0]), "batch");
	expect(cohort_comm_split(c[0], 0, 0, &child), COHORT_STATE,
	       "a batch is open");
	ranks_must(cohort_batch_end(c[0], NULL, NULL), "batch");
	cr_assert_null(child);
	ranks_sum(c[0], &a);
	ranks_sum(c[1], &b);
	cr_assert_eq(cohort_synchronize(c[0], RANKS_SOON), COHORT_OK);
	cohort_group_abort(group, "over");
	expect(cohort_comm_split(c[0], 0, 0, &child), COHORT_ABORTED, "over");
	cr_assert_null(child);
	expect_close(group);
}

/* ---- ends ------------------------------------------------------------- */

static int abort_child(struct cohort_comm *c, void *user)
{
	struct cohort_comm *child;
	struct cohort_abort *handle;
	int rank = cohort_comm_rank(c);
	int32_t x = 1;

	(void)user;
	ranks_must(cohort_comm_split(c, rank / 2, 0, &child), "split");
	if (rank == 0) {
		handle = cohort_comm_abort_handle(child);
		cr_assert_eq(cohort_abort_fire(handle, "only this"), COHORT_OK);
		cohort_abort_put(handle);
	}
	if (rank == 1)
		cr_assert_eq(ranks_sum_wait(child, &x), COHORT_ABORTED);
	if (rank >= 2)
		cr_assert_eq(sum_origins(child), 5);
	cr_assert_eq(sum_origins(c), 6);
	return 0;
}

Test(split, abort_of_a_child_leaves_its_parent_alone)
{
	expect_run(RANKS, abort_child, NULL);
}

SPREAD_SHARED static atomic_int have_come;

static int hang_in_grandchild(struct cohort_comm *c, void *user)
{
	struct cohort_comm *child, *grandchild;
	struct cohort_cause cause;
	int rank = cohort_comm_rank(c), rc;
	int32_t x = 1;

	ranks_must(cohort_comm_split(c, rank / 2, 0, &child), "split");
	ranks_must(cohort_comm_split(child, 0, 0, &grandchild), "split again");
	sum_origins(c);
	if (rank == 3) {
		/*
		 * Abort only after all other ranks have the result of the sum.
		 */
		while (atomic_load(&have_come) < RANKS - 1)
			sched_yield();
		cohort_group_abort(user, "all of it");
		return 0;
	}
	atomic_fetch_add(&have_come, 1);
	if (rank == 2)
		rc = ranks_sum_wait(grandchild, &x);
	else
		rc = ranks_sum_wait(rank ? child : c, &x);
	if (rank == 2) {
		cohort_comm_cause(grandchild, &cause);
		expect_text(cause.text,
		            "\"cohort.1\", from which this was split, has "
		            "ended: \"cohort\", from which this was split, "
		            "has ended: aborted: all of it");
		expect_text(cause.text, "; when \"cohort.1.0\" ended: rank");
	}
	return rc != COHORT_ABORTED;
}

Test(split, end_of_a_group_ends_all_its_descendants)
{
	struct cohort_group *group = ranks_open(RANKS, NULL);

	spread_not("a process tells what ended its own communicators");
	expect_end_of_run(group, hang_in_grandchild, group, COHORT_ABORTED);
	expect_close(group);
}

static struct cohort_comm *children[RANKS];

/* Barrier of the test's processes */
SPREAD_SHARED static struct spread_barrier all_have_run;

static int keep_child(struct cohort_comm *c, void *user)
{
	int rank = cohort_comm_rank(c);

	(void)user;
	return cohort_comm_split(c, 0, 0, &children[rank]);
}

Test(split, split_of_a_former_generation_is_refused)
{
	struct cohort_group *group = ranks_open(RANKS, NULL);
	int32_t x = 1;
	int r;

	expect_run_in(group, keep_child, NULL);
	spread_wait(&all_have_run, spread_processes());
	cohort_group_abort(group, "again");
	cr_assert_eq(cohort_group_respawn(group, NULL, 0), COHORT_OK, "%s",
	             cohort_last_error());
	for (r = spread_first(RANKS); r < spread_end(RANKS); r++)
		expect(cohort_all_reduce(children[r], &x, &x, 1, COHORT_I32,
		                         COHORT_SUM, NULL, NULL),
		       COHORT_STALE, "was replaced by a respawn");
	expect_run_in(group, by_parity, NULL);
	expect_close(group);
}

Test(split, group_close_waits_for_operations_of_children)
{
	struct cohort_group *group;
	int32_t x[2] = { 1, 2 };

	spread_not("one thread has all communicators");
	ranks_launch_ahead();
	group = ranks_open(2, NULL);
	ranks_must(cohort_group_run(group, keep_child, NULL, NULL), "run");
	ranks_sum(children[0], &x[0]);
	ranks_sum(children[1], &x[1]);
	expect_close(group);
	cr_assert_eq(x[0], 3);
	cr_assert_eq(x[1], 3);
}

Test(split, group_close_aborts_operations_of_children_that_hang)
{
	struct cohort_group_options o;
	struct cohort_group *group;
	int32_t x = 1;

	spread_not("one thread has all communicators");
	ranks_launch_ahead();
	cohort_group_options_init(&o);
	o.deadlines.close_ns = 5 * 1000 * 1000;
	group = ranks_open(2, &o);
	ranks_must(cohort_group_run(group, keep_child, NULL, NULL), "run");
	ranks_sum(children[0], &x);
	expect(cohort_group_close(group), COHORT_ABORTED,
	       "operations of rank 0 were in flight");
}

/* ---- verdicts --------------------------------------------------------- */

/* Number of ranks that are about to call. The last rank resumes the clocks once
 * this counts all others. */
SPREAD_SHARED static atomic_int others_come;

static void await_others(struct cohort_comm *c)
{
	while (atomic_load(&others_come) < RANKS - 1)
		sched_yield();
	ranks_must(cohort_resume(c), "resume");
}

static int rank_3_stays_away(struct cohort_comm *c, void *user)
{
	struct cohort_comm *child = c;
	int rc;

	(void)user;
	if (cohort_comm_rank(c) == 3)
		ranks_must(cohort_pause(c), "pause");
	ranks_must(cohort_barrier(c, NULL, NULL), "barrier");
	if (cohort_comm_rank(c) == 3) {
		struct cohort_cause cause = { .status = COHORT_OK };

		await_others(c);
		while (cause.status == COHORT_OK) {
			test_nap();
			cohort_comm_cause(c, &cause);
		}
		return 0;
	}
	ranks_must(cohort_synchronize(c, RANKS_SOON), "synchronize");
	atomic_fetch_add(&others_come, 1);
	rc = cohort_comm_split(c, 0, 0, &child);
	cr_assert_eq(child, c, "there is a child");
	return rc != COHORT_STALLED;
}

Test(split, split_names_a_rank_that_never_calls)
{
	struct cohort_group_options o;
	struct cohort_group *group;
	struct cohort_cause cause;

	cohort_group_options_init(&o);
	o.deadlines.join_ns = 100 * 1000 * 1000;
	group = ranks_open(RANKS, &o);
	cause = expect_end_of_run(group, rank_3_stays_away, NULL,
	                          COHORT_STALLED);
	cr_assert_eq(cause.rank, 3, "%s", cause.text);
	cr_assert_eq(cause.kind, COHORT_VERDICT_OUTSIDE);
	expect_text(cause.text, "rank 3 has not called comm_split 2 ");
	expect_close(group);
}

static int rank_1_sums(struct cohort_comm *c, void *user)
{
	struct cohort_comm *child;
	int32_t x = 1;

	(void)user;
	return cohort_comm_rank(c) == 1 ? ranks_sum_wait(c, &x)
	                                : cohort_comm_split(c, 0, 0, &child);
}

Test(split, split_and_another_call_are_a_mismatch)
{
	struct cohort_group *group = ranks_open(RANKS, NULL);
	struct cohort_cause cause;

	cause = expect_end_of_run(group, rank_1_sums, NULL, COHORT_MISMATCH);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	expect_text(cause.text, "ranks 0, 2-3 call comm_split");
	expect_close(group);
}

/* The watchdog must report the stall of the child communicator. */
static int child_stalls(struct cohort_comm *c, void *user)
{
	const struct cohort_deadlines patience = { .join_ns = RANKS_SOON };
	const struct cohort_deadlines soon = { .join_ns = 100000000 };
	struct cohort_comm *child;
	struct cohort_cause cause;
	int32_t x = 1;

	(void)user;
	ranks_must(cohort_comm_split(c, 0, 0, &child), "split");
	ranks_must(cohort_deadline_push(c, &patience), "push");
	ranks_must(cohort_deadline_push(child, &soon), "push");
	if (cohort_comm_rank(c) == 2)
		ranks_must(cohort_pause(child), "pause");
	ranks_must(cohort_barrier(child, NULL, NULL), "barrier");
	ranks_must(cohort_synchronize(child, RANKS_SOON), "synchronize");
	if (cohort_comm_rank(c) == 2) {
		await_others(child);
	} else {
		atomic_fetch_add(&others_come, 1);
		cr_assert_eq(ranks_sum_wait(child, &x), COHORT_STALLED);
	}
	cr_assert_eq(sum_origins(c), 6);
	cohort_comm_cause(child, &cause);
	cr_assert_eq(cause.rank, 2, "%s", cause.text);
	expect_text(cause.text, " of \"cohort.0\"");
	return 0;
}

Test(split, child_reports_its_stalls_by_its_own_name)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	cohort_group_options_init(&o);
	o.deadlines.join_ns = 100 * 1000 * 1000;
	o.deadlines.exec_ns = COHORT_FOREVER;
	group = ranks_open(RANKS, &o);
	expect_run_in(group, child_stalls, NULL);
	expect_close(group);
}

/* ---- native failures -------------------------------------------------- */

static int just_split(struct cohort_comm *c, void *user)
{
	struct cohort_comm *child = c;
	int rc = cohort_comm_split(c, 0, 0, &child);

	cr_assert_eq(child, c, "there is a child");
	((int *)user)[cohort_comm_rank(c)] = rc;
	return rc;
}

/* Make the @n-th native call of @function fail in a split. Return the rank that
 * is blamed. */
static int fail_at(const char *function, unsigned long n, int status)
{
	const struct platform *real;
	struct cohort_group *group;
	struct cohort_cause cause;
	int r, rcs[RANKS];

	real = place_table();
	platform_override(failing_wrap(real));
	group = ranks_open(RANKS, NULL);
	failing_at(function, n, ncclSystemError, cudaErrorLaunchFailure);
	cohort_group_run(group, just_split, rcs, &cause);
	cr_assert_not_null(failing_fired());
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(rcs[r], status, "rank %d: %d", r, rcs[r]);
	expect_text(cause.text, "comm_split: ");
	expect_text(cause.text, function);
	expect_close(group);
	return cause.rank;
}

Test(split, split_makes_no_child_if_nccl_refuses_one_rank)
{
	spread_not("what fails, fails in one process's calls");
	cr_assert_eq(fail_at("ncclCommSplit", 3, COHORT_NCCL), 2);
}

Test(split, split_makes_no_child_if_ncclGroupEnd_fails)
{
	spread_not("what fails, fails in one process's calls");
	fail_at("ncclGroupEnd", 1, COHORT_NCCL);
}

Test(split, split_makes_no_child_if_a_device_fails)
{
	spread_not("what fails, fails in one process's calls");
	fail_at("ncclCommUserRank", 2, COHORT_NCCL);
}

static const struct platform *host;
static _Thread_local bool has_split;
static atomic_int aborts;

static ncclResult_t note_split(ncclComm_t comm, int color, int key,
                               ncclComm_t *child, ncclConfig_t *config)
{
	has_split = true;
	return host->ncclCommSplit(comm, color, key, child, config);
}

static ncclResult_t note_abort(ncclComm_t comm)
{
	ncclResult_t result = host->ncclCommAbort(comm);

	aborts++;
	return result;
}

static ncclResult_t end_when_aborted(void)
{
	while (has_split && aborts < RANKS)
		test_nap();
	has_split = false;
	return host->ncclGroupEnd();
}

/* Hang in the native call, like a split with a missing rank in another
 * process. */
Test(split, split_that_hangs_ends_in_time)
{
	struct cohort_group_options o;
	struct cohort_group *group;
	struct cohort_cause cause;
	struct platform table;
	int r, rcs[RANKS];

	spread_not("what fails, fails in one process's calls");
	host = place_table();
	table = *host;
	table.ncclCommSplit = note_split;
	table.ncclCommAbort = note_abort;
	table.ncclGroupEnd = end_when_aborted;
	platform_override(&table);
	cohort_group_options_init(&o);
	place_skip_on_nvidia("to open takes longer than the deadline");
	o.deadlines.init_ns = UINT64_C(2000000000);
	group = ranks_open(RANKS, &o);
	cause = expect_end_of_run(group, just_split, rcs, COHORT_INIT_TIMEOUT);
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(rcs[r], COHORT_INIT_TIMEOUT);
	cr_assert_str_eq(
		cause.text,
		"init stuck: ncclCommSplit of 4 ranks has not "
		"returned within 2000 ms; NCCL does not say which of "
		"them it waits for; when the group ended: ranks 0-3 in "
		"comm_split (collective 1)");
	expect_close(group);
}

/* ---- failed splits ---------------------------------------------------- */

static struct {
	ncclComm_t parents[RANKS], *places[RANKS], children[RANKS];
	/* number of children in this thread's open native group */
	int split;
	atomic_int parents_raised; /* number of parents that were aborted */
	atomic_int children_raised, in_vain;
} left;

static ncclResult_t split_and_note(ncclComm_t comm, int color, int key,
                                   ncclComm_t *child, ncclConfig_t *config)
{
	left.parents[left.split] = comm;
	left.places[left.split++] = child;
	has_split = true;
	return host->ncclCommSplit(comm, color, key, child, config);
}

/* Create the children, then return an error. */
static ncclResult_t end_in_failure(void)
{
	ncclResult_t result = host->ncclGroupEnd();
	int i;

	if (!has_split)
		return result;
	has_split = false;
	for (i = 0; i < RANKS; i++)
		left.children[i] = *left.places[i];
	return ncclSystemError;
}

static bool is_of(ncclComm_t comm, const ncclComm_t *comms)
{
	int i;

	for (i = 0; i < RANKS; i++)
		if (comms[i] == comm)
			return true;
	return false;
}

/* Check that each child is aborted after its parent, because the parent's abort
 * writes to the child's flags. */
static ncclResult_t abort_in_order(ncclComm_t comm)
{
	if (is_of(comm, left.parents)) {
		left.in_vain += left.children_raised;
		left.parents_raised++;
	} else if (is_of(comm, left.children)) {
		left.in_vain += left.parents_raised != RANKS;
		left.children_raised++;
	}
	return host->ncclCommAbort(comm);
}

Test(split, children_of_a_failed_split_are_aborted_after_the_parent)
{
	struct cohort_group *group;
	struct platform table;
	int r, rcs[RANKS];

	spread_not("what fails, fails in one process's calls");
	host = place_table();
	table = *host;
	table.ncclCommSplit = split_and_note;
	table.ncclCommAbort = abort_in_order;
	table.ncclGroupEnd = end_in_failure;
	platform_override(&table);
	group = ranks_open(RANKS, NULL);
	expect_end_of_run(group, just_split, rcs, COHORT_NCCL);
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(rcs[r], COHORT_NCCL);
	expect_close(group);
	cr_assert_eq(left.parents_raised, RANKS);
	cr_assert_eq(left.children_raised, RANKS, "a child was not aborted");
	cr_assert_eq(left.in_vain, 0, "a child was aborted before its parent");
}

static void *abort_soon(void *group)
{
	stuck_await();
	cohort_group_abort(group, "enough");
	return NULL;
}

/* The native call never returns, so nothing is freed. All ranks' calls must
 * still return. */
Test(split, split_whose_native_call_never_returns_is_wedged)
{
	struct cohort_group_options o;
	struct cohort_group *group;
	int r, rcs[RANKS];
	pthread_t thread;

	spread_not("what fails, fails in one process's calls");
	stuck_install();
	cohort_group_options_init(&o);
	o.deadlines.abort_ns = 50 * 1000 * 1000;
	group = ranks_open(RANKS, &o);
	stuck_at("ncclCommSplit", 2);
	pthread_create(&thread, NULL, abort_soon, group);
	expect_end_of_run(group, just_split, rcs, COHORT_ABORTED);
	pthread_join(thread, NULL);
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(rcs[r], COHORT_WEDGED, "rank %d: %d", r, rcs[r]);
	expect(cohort_group_close(group), COHORT_WEDGED, "could not be ended");
	stuck_release();
}

/* Let the native call return long after the execution deadline. */
static void *release_late(void *deadline_ns)
{
	uint64_t until;

	stuck_await();
	for (until = test_deadline(4 * *(uint64_t *)deadline_ns);
	     test_now() < until;)
		test_nap();
	stuck_release();
	return NULL;
}

static int split_once(struct cohort_comm *c, void *user)
{
	struct cohort_comm *child;

	(void)user;
	return cohort_comm_split(c, 0, 0, &child);
}

Test(split, split_may_take_longer_than_the_execution_deadline)
{
	struct cohort_group_options o;
	struct cohort_group *group;
	pthread_t thread;

	spread_not("the native call of one process is slow");
	stuck_install();
	cohort_group_options_init(&o);
	o.deadlines.exec_ns = 50 * 1000 * 1000;
	group = ranks_open(RANKS, &o);
	stuck_at("ncclCommSplit", 2);
	pthread_create(&thread, NULL, release_late, &o.deadlines.exec_ns);
	expect_run_in(group, split_once, NULL);
	pthread_join(thread, NULL);
	expect_close(group);
}

/* ---- joined ranks ----------------------------------------------------- */

struct joiner {
	struct cohort_unique_id id;
	int rank;
};

static void *join_and_split(void *arg)
{
	const struct joiner *j = arg;
	struct cohort_comm *c, *child;

	ranks_must(cohort_comm_join(&j->id, RANKS, j->rank, j->rank, NULL, &c),
	           "join");
	ranks_must(cohort_comm_split(c, j->rank % 2, 0, &child), "split");
	cr_assert_eq(sum_origins(child), j->rank % 2 ? 4 : 2);
	/* Close only the child of the even ranks. The other child ends with its
	 * parent. */
	if (j->rank % 2 == 0)
		ranks_must(cohort_comm_close(child), "close");
	cr_assert_eq(sum_origins(c), 6);
	ranks_must(cohort_comm_close(c), "close");
	return NULL;
}

Test(split, joined_ranks_can_be_split)
{
	struct joiner joiners[RANKS];
	struct cohort_unique_id id;
	pthread_t threads[RANKS];
	int r;

	place_need(RANKS);
	place_choose();
	ranks_must(cohort_unique_id(COHORT_PLATFORM_AUTO, &id), "id");
	for (r = 0; r < RANKS; r++) {
		joiners[r] = (struct joiner){ id, r };
		pthread_create(&threads[r], NULL, join_and_split, &joiners[r]);
	}
	for (r = 0; r < RANKS; r++)
		pthread_join(threads[r], NULL);
}
