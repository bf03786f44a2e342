/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of cohort_group_run(): its threads, its results, and the results of
 * each rank's calls if another worker fails
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "support/expect.h"
#include "support/ranks.h"
#include "support/spread.h"
#include "support/stuck.h"

TestSuite(run, .timeout = 30);

struct shared {
	char names[4][16];
	int devices[4];
	int owners[4];
	int blocked[4];
	int sums[4];
	int rcs[4];
	atomic_int calls;
	int fail_rank; /* rank that fails, or -1 */
	atomic_bool has_run;
};

static int report(struct cohort_comm *comm, void *user)
{
	struct shared *s = user;
	const struct platform *p;
	int rank = cohort_comm_rank(comm);
	sigset_t signals;

	atomic_fetch_add(&s->calls, 1);
	p = place_table();
	pthread_getname_np(pthread_self(), s->names[rank], 16);
	p->cudaGetDevice(&s->devices[rank]);
	s->owners[rank] = cohort_comm_bind(comm);
	pthread_sigmask(SIG_SETMASK, NULL, &signals);
	s->blocked[rank] = sigismember(&signals, SIGUSR1);
	s->sums[rank] = rank + 1;
	s->rcs[rank] = ranks_sum_wait(comm, &s->sums[rank]);
	return s->rcs[rank];
}

Test(run, run_gives_each_rank_a_bound_named_thread_on_its_device)
{
	struct shared s = { .fail_rank = -1 };
	struct cohort_group_options o;
	struct cohort_group *group;
	struct cohort_cause cause = { .status = -99 };
	int r;

	cohort_group_options_init(&o);
	o.name = "trainer";
	group = ranks_open(4, &o);
	cr_assert_eq(cohort_group_run(group, report, &s, &cause), COHORT_OK);
	cr_assert_eq(cause.status, COHORT_OK);
	cr_assert_eq(s.calls, spread_end(4) - spread_first(4));
	for (r = spread_first(4); r < spread_end(4); r++) {
		cr_assert_eq(s.devices[r], r);
		cr_assert_eq(s.owners[r], COHORT_ALREADY);
		cr_assert_eq(s.sums[r], 10);
		cr_assert_eq(s.blocked[r], 0, "signals are the caller's");
	}
	if (spread_first(4) <= 2 && spread_end(4) > 2)
		cr_assert_str_eq(s.names[2], "trainer/2");
	expect_close(group);
}

Test(run, group_can_run_many_times)
{
	struct shared s = { .fail_rank = -1 };
	struct cohort_group *group = ranks_open(4, NULL);
	int i;

	for (i = 0; i < 20; i++)
		expect_run_in(group, report, &s);
	cr_assert_eq(s.calls, 20 * (spread_end(4) - spread_first(4)));
	expect_close(group);
}

Test(run, group_that_was_split_can_run)
{
	struct cohort_comm *comms[4];
	struct shared s = { .fail_rank = -1 };
	struct cohort_group *group = ranks_split(4, NULL, comms);

	expect_run_in(group, report, &s);
	expect_close(group);
}

Test(run, run_of_a_group_counts_as_its_split)
{
	struct cohort_comm *comms[4];
	struct shared s = { .fail_rank = -1 };
	struct cohort_group *group = ranks_open(4, NULL);

	expect_run_in(group, report, &s);
	cr_assert_eq(cohort_group_split(group, comms), COHORT_STATE);
	expect_close(group);
}

/* Fail on one rank before a collective for which the other ranks wait. */
static int fail_one(struct cohort_comm *comm, void *user)
{
	struct shared *s = user;
	int rank = cohort_comm_rank(comm);

	s->has_run = true;
	if (rank == s->fail_rank)
		return 42;
	s->sums[rank] = 1;
	s->rcs[rank] = ranks_sum_wait(comm, &s->sums[rank]);
	return s->rcs[rank];
}

/* Check that the other ranks' calls in this process have returned @status. */
static void expect_released(const struct shared *s, int status)
{
	int r;

	/* If the group ended before the run, no worker has run. */
	for (r = spread_first(4); r < spread_end(4) && s->has_run; r++)
		if (r != s->fail_rank)
			cr_assert_eq(s->rcs[r], status, "rank %d: %d", r,
			             s->rcs[r]);
}

Test(run, failing_worker_ends_the_group_and_is_named)
{
	struct shared s = { .fail_rank = 2 };
	struct cohort_group *group = ranks_open(4, NULL);
	struct cohort_cause cause;

	cause = expect_end_of_run(group, fail_one, &s, COHORT_WORKER);
	cr_assert_eq(cause.status, COHORT_WORKER);
	cr_assert_eq(cause.rank, 2, "%s", cause.text);
	cr_assert_eq(cause.worker, 42);
	expect_ending(cause.text, "the worker of rank 2 returned 42");
	expect_released(&s, COHORT_WORKER);
	cr_assert_eq(cohort_group_run(group, fail_one, &s, &cause),
	             spread_processes() > 1 ? COHORT_WORKER : COHORT_STATE);
	expect_close(group);
}

Test(run, failing_worker_is_named_even_if_it_is_rank_0)
{
	struct shared s = { .fail_rank = 0 };
	struct cohort_group *group = ranks_open(4, NULL);
	struct cohort_cause cause;

	cause = expect_end_of_run(group, fail_one, &s, COHORT_WORKER);
	cr_assert_eq(cause.rank, 0, "%s", cause.text);
	expect_close(group);
}

/* ---- the cause if a worker returns an error ----------------------------- */

enum fault { REFUSED, REFUSED_ONCE, OTHER_CODE, GIVES_UP };

/* Make an invalid call on rank 1. Then act according to @user, an enum
 * fault. */
static int fail_by_a_call(struct cohort_comm *comm, void *user)
{
	enum fault fault = *(enum fault *)user;
	int32_t value = 1;
	int rc = COHORT_OK;

	if (cohort_comm_rank(comm) == 1)
		rc = cohort_broadcast(comm, &value, &value, 1, COHORT_I32, 9,
		                      NULL, NULL);
	if (fault == REFUSED_ONCE || rc == COHORT_OK)
		if (ranks_sum_wait(comm, &value) != COHORT_OK)
			return COHORT_SYSTEM;
	if (rc != COHORT_OK && fault == GIVES_UP)
		cohort_comm_fail(comm, 77, "no such root");
	return fault == OTHER_CODE && rc != COHORT_OK ? 77 : rc;
}

static void expect_cause(enum fault fault, const char *text)
{
	struct cohort_group *group = ranks_open(2, NULL);
	struct cohort_cause cause;

	cause = expect_end_of_run(group, fail_by_a_call, &fault, COHORT_WORKER);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	expect_ending(cause.text, text);
	expect_close(group);
}

Test(run, cause_has_the_text_of_the_error_that_a_worker_returned)
{
	expect_cause(REFUSED,
	             "the worker of rank 1 returned COHORT_INVALID: broadcast: "
	             "root is 9, not 0 to 1");
}

Test(run, cause_text_omits_an_error_that_the_worker_handled)
{
	spread_not(
		"a process's run may be over before another's worker returns");
	expect_cause(REFUSED_ONCE, "the worker of rank 1 returned -1");
	expect_cause(OTHER_CODE, "the worker of rank 1 returned 77");
}

Test(run, comm_fail_takes_precedence_over_the_workers_result)
{
	expect_cause(GIVES_UP, "rank 1 gave up with code 77: no such root");
}

static int stuck_or_wait(struct cohort_comm *comm, void *user)
{
	struct shared *s = user;
	int rank = cohort_comm_rank(comm);

	s->rcs[rank] = ranks_sum_wait(comm, &s->sums[rank]);
	if (rank == s->fail_rank)
		cohort_group_abort(NULL, NULL);
	return s->rcs[rank];
}

static void *abort_from_outside(void *arg)
{
	while (cohort_group_abort(arg, "from outside") == COHORT_INVALID)
		;
	return NULL;
}

Test(run, abort_by_another_thread_ends_the_run)
{
	struct shared s = { .fail_rank = -1 };
	struct cohort_group *group = ranks_open(4, NULL);
	struct cohort_cause cause;
	pthread_t thread;
	int rc;

	ranks_fault(3, 0, COHORT_FAULT_STUCK, 0);
	pthread_create(&thread, NULL, abort_from_outside, group);
	rc = cohort_group_run(group, stuck_or_wait, &s, &cause);
	pthread_join(thread, NULL);
	/* The abort may precede the start of the run. */
	if (rc == COHORT_STATE)
		cr_assert_eq(cause.status, COHORT_ABORTED);
	else
		cr_assert_eq(rc, COHORT_ABORTED);
	expect_ending(cause.text, "aborted: from outside");
	expect_close(group);
}

static int run_inside(struct cohort_comm *comm, void *user)
{
	if (cohort_comm_rank(comm) == 0)
		expect_end_of_run(user, run_inside, user, COHORT_STATE);
	return 0;
}

Test(run, run_is_refused_inside_a_run_and_with_a_bound_rank)
{
	struct cohort_comm *comms[2];
	struct cohort_group *group = ranks_split(2, NULL, comms);

	expect_run_in(group, run_inside, group);
	cohort_comm_bind(comms[1]);
	expect_end_of_run(group, run_inside, group, COHORT_STATE);
	expect_text(cohort_last_error(), "rank 1 is bound");
	cohort_comm_unbind(comms[1]);
	expect_run_in(group, run_inside, group);
	expect_close(group);
}

/* ---- workers that do not return --------------------------------------- */

#define MS UINT64_C(1000000)

/* State of rank 1's worker, which hangs while the other workers fail */
static struct {
	sem_t is_away, may_go_on, has_gone_on;
	struct cohort_comm *comm;
	uint64_t ticket;
	void *memory;
	int tid;
	int answers[4];
} away;

/* Return whether the thread with this id is running. */
static bool thread_lives(pid_t tid)
{
	return tgkill(getpid(), tid, 0) == 0;
}

static void await(sem_t *sem)
{
	while (sem_wait(sem))
		continue;
}

/*
 * Stay busy in the program until the test lets the worker continue. Then make
 * every kind of call that is allowed.
 */
static int stay_away(struct cohort_comm *comm)
{
	int32_t value = 1;

	away.comm = comm;
	away.tid = gettid();
	ranks_must(cohort_alloc(comm, 16, &away.memory), "alloc");
	away.ticket = ranks_sum(comm, &value);
	ranks_must(cohort_wait(comm, away.ticket, RANKS_SOON), "wait");
	sem_post(&away.is_away);
	await(&away.may_go_on);
	away.answers[0] = cohort_barrier(comm, NULL, NULL);
	sem_post(&away.has_gone_on);
	await(&away.may_go_on);
	away.answers[1] = cohort_wait(comm, away.ticket, RANKS_SOON);
	away.answers[2] = cohort_barrier(comm, NULL, NULL);
	away.answers[3] = cohort_free(comm, away.memory);
	return 0;
}

/* Rank 1's worker hangs. Then rank 2 fails, while the other ranks wait for
 * both. */
static int fail_while_one_is_away(struct cohort_comm *comm, void *user)
{
	int32_t value = 1;
	int rc;

	(void)user;
	if (cohort_comm_rank(comm) == 1)
		return stay_away(comm);
	rc = ranks_sum_wait(comm, &value);
	if (cohort_comm_rank(comm) == 2) {
		await(&away.is_away);
		return 42;
	}
	return rc == COHORT_OK ? ranks_sum_wait(comm, &value) : rc;
}

static struct cohort_group *run_with_one_away(void)
{
	struct cohort_group_options o;
	struct cohort_group *group;
	struct cohort_cause cause;
	int ranks[3] = { -1, -1, -1 };

	spread_not("a worker left behind is known in its process");
	cohort_group_options_init(&o);
	/* Time within which the group must end */
	o.deadlines.abort_ns = place_patience_ns(300 * MS);
	sem_init(&away.is_away, 0, 0);
	sem_init(&away.may_go_on, 0, 0);
	sem_init(&away.has_gone_on, 0, 0);
	group = ranks_open(3, &o);
	cause = expect_end_of_run(group, fail_while_one_is_away, NULL,
	                          COHORT_WORKER);
	cr_assert_eq(cause.rank, 2, "%s", cause.text);
	cr_assert_eq(cohort_group_abandoned(group, NULL, 0), 1);
	cr_assert_eq(cohort_group_abandoned(group, ranks, 3), 1);
	cr_assert_eq(ranks[0], 1);
	return group;
}

static void let_it_end(void)
{
	sem_post(&away.may_go_on);
	while (thread_lives(away.tid))
		sched_yield();
	cr_assert_eq(away.answers[1], COHORT_OK);
	cr_assert_eq(away.answers[2], COHORT_STALE);
	cr_assert_eq(away.answers[3], COHORT_OK);
}

Test(run, run_abandons_a_worker_that_does_not_return)
{
	struct cohort_group *group = run_with_one_away();

	sem_post(&away.may_go_on);
	await(&away.has_gone_on);
	cr_assert_eq(away.answers[0], COHORT_STALE);
	expect_end_of_run(group, fail_one, NULL, COHORT_STATE);
	expect_close(group);
	let_it_end();
}

/*
 * Bind rank 1's communicator again in its worker, and exit without unbinding
 * it.
 */
static int bind_and_exit(struct cohort_comm *comm, void *user)
{
	(void)user;
	if (cohort_comm_rank(comm) != 1)
		return 42;
	away.tid = gettid();
	await(&away.may_go_on);
	away.answers[0] = cohort_comm_unbind(comm);
	away.answers[1] = cohort_comm_bind(comm);
	pthread_exit(NULL);
}

Test(run, abandoned_worker_may_unbind_and_exit_after_the_close)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	spread_not("a worker left behind is known in its process");
	cohort_group_options_init(&o);
	/* Time within which the group must end */
	o.deadlines.abort_ns = place_patience_ns(300 * MS);
	sem_init(&away.may_go_on, 0, 0);
	group = ranks_open(2, &o);
	expect_end_of_run(group, bind_and_exit, NULL, COHORT_WORKER);
	cr_assert_eq(cohort_group_abandoned(group, NULL, 0), 1);
	expect_close(group);
	sem_post(&away.may_go_on);
	while (thread_lives(away.tid))
		sched_yield();
	cr_assert_eq(away.answers[0], COHORT_OK);
	cr_assert_eq(away.answers[1], COHORT_STALE);
}

/*
 * Pause rank 1, unbind it, and exit by pthread_exit() without a resume.
 */
static int exit_paused(struct cohort_comm *comm, void *user)
{
	(void)user;
	if (cohort_comm_rank(comm) != 1)
		return 0;
	cohort_pause(comm);
	cohort_comm_unbind(comm);
	pthread_exit(NULL);
}

static int wait_for_the_other(struct cohort_comm *comm, void *user)
{
	int32_t value = 1;
	int rc = COHORT_OK;

	(void)user;
	if (cohort_comm_rank(comm) == 1) {
		await(&away.may_go_on);
		return 0;
	}
	rc = ranks_sum_wait(comm, &value);
	sem_post(&away.may_go_on);
	return rc;
}

Test(run, worker_that_exits_its_thread_is_no_longer_paused)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	cohort_group_options_init(&o);
	o.deadlines.join_ns = 50 * MS;
	sem_init(&away.may_go_on, 0, 0);
	group = ranks_open(2, &o);
	expect_run_in(group, exit_paused, NULL);
	expect_end_of_run(group, wait_for_the_other, NULL, COHORT_STALLED);
	expect_close(group);
}

Test(run, abandoned_worker_may_return_before_the_close)
{
	struct cohort_group *group = run_with_one_away();

	sem_post(&away.may_go_on);
	let_it_end();
	expect_close(group);
}

/*
 * After everything else has ended, close the child communicator that only rank
 * 1 has split off.
 */
static int close_child_late(struct cohort_comm *comm, void *user)
{
	int rank = cohort_comm_rank(comm);
	struct cohort_comm *child;

	(void)user;
	ranks_must(cohort_comm_split(comm, rank, 0, &child), "split");
	if (rank == 0) {
		await(&away.is_away);
		return 42;
	}
	away.tid = gettid();
	sem_post(&away.is_away);
	await(&away.may_go_on);
	away.answers[0] = cohort_comm_close(child);
	return 0;
}

Test(run, abandoned_worker_may_close_its_split_after_the_group_closed)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	spread_not("a worker left behind is known in its process");
	cohort_group_options_init(&o);
	/* Time within which the group must end */
	o.deadlines.abort_ns = place_patience_ns(300 * MS);
	sem_init(&away.is_away, 0, 0);
	sem_init(&away.may_go_on, 0, 0);
	group = ranks_open(2, &o);
	away.answers[0] = COHORT_TIMED_OUT;
	expect_end_of_run(group, close_child_late, NULL, COHORT_WORKER);
	cr_assert_eq(cohort_group_abandoned(group, NULL, 0), 1);
	expect_close(group);
	sem_post(&away.may_go_on);
	while (thread_lives(away.tid))
		sched_yield();
	cr_assert_eq(away.answers[0], COHORT_OK);
}

Test(run, group_can_respawn_without_an_abandoned_worker)
{
	struct shared s = { .fail_rank = -1 };
	struct cohort_group *group = run_with_one_away();

	cr_assert_eq(cohort_group_respawn(group, (const int[]){ 1 }, 1),
	             COHORT_OK);
	cr_assert_eq(cohort_group_abandoned(group, NULL, 0), 0);
	expect_run_in(group, report, &s);
	sem_post(&away.may_go_on);
	await(&away.has_gone_on);
	cr_assert_eq(away.answers[0], COHORT_STALE);
	expect_close(group);
	let_it_end();
}

static struct cohort_comm *_Atomic in_run[4];

static int sum_and_remember(struct cohort_comm *comm, void *user)
{
	struct shared *s = user;
	const int rank = cohort_comm_rank(comm);

	if (rank == 1)
		away.tid = gettid();
	in_run[rank] = comm;
	s->rcs[rank] = ranks_sum_wait(comm, &s->sums[rank]);
	return s->rcs[rank];
}

static bool has_launched(struct cohort_comm *comm)
{
	struct cohort_stats stats = { .size = sizeof(stats) };

	if (!comm)
		return false;
	ranks_must(cohort_stats(comm, &stats), "stats");
	return stats.operations > 0;
}

/* End the group when rank 1 is stuck in its call and the other ranks have
 * launched. */
static void *end_group(void *group)
{
	int r;

	stuck_await();
	for (r = 0; r < 4; r++)
		while (r != 1 && !has_launched(in_run[r]))
			sched_yield();
	cohort_group_abort(group, NULL);
	return NULL;
}

/*
 * The other workers wait for their results until shortly before the run would
 * abandon them as well.
 */
Test(run, run_abandons_only_workers_that_hang)
{
	static struct shared s;
	struct cohort_group_options o;
	struct cohort_group *group;
	pthread_t ender;
	int ranks[4];

	spread_not("a worker left behind is known in its process");
	cohort_group_options_init(&o);
	o.deadlines.abort_ns = 20 * MS;
	stuck_install();
	group = ranks_open(4, &o);
	stuck_at("ncclAllReduce", 1);
	pthread_create(&ender, NULL, end_group, group);
	expect_end_of_run(group, sum_and_remember, &s, COHORT_ABORTED);
	pthread_join(ender, NULL);
	cr_assert_eq(cohort_group_abandoned(group, ranks, 4), 1);
	cr_assert_eq(ranks[0], 1);
	cr_assert_eq(s.rcs[0], COHORT_WEDGED);
	cr_assert_eq(s.rcs[3], COHORT_WEDGED);
	cr_assert_eq(cohort_group_close(group), COHORT_WEDGED);
	stuck_release();
	while (thread_lives(away.tid))
		sched_yield();
	cr_assert_eq(s.rcs[1], COHORT_WEDGED);
}

static int exit_or_wait(struct cohort_comm *comm, void *user)
{
	struct shared *s = user;
	int rank = cohort_comm_rank(comm);

	if (rank == s->fail_rank)
		pthread_exit(NULL);
	s->rcs[rank] = ranks_sum_wait(comm, &s->sums[rank]);
	return s->rcs[rank];
}

Test(run, worker_that_exits_its_thread_ends_the_group)
{
	struct shared s = { .fail_rank = 2 };
	struct cohort_group *group = ranks_open(4, NULL);
	struct cohort_cause cause;

	cause = expect_end_of_run(group, exit_or_wait, &s,
	                          COHORT_THREAD_EXITED);
	cr_assert_eq(cause.rank, 2, "%s", cause.text);
	cr_assert_eq(cause.kind, COHORT_VERDICT_THREAD_EXITED);
	expect_released(&s, COHORT_THREAD_EXITED);
	cr_assert_eq(cohort_group_abandoned(group, NULL, 0), 0);
	expect_close(group);
}

/* ---- many ranks on few cores ------------------------------------------ */

enum { MANY = COHORT_SIM_MAX_DEVICES };

static int sum_in_halves(struct cohort_comm *comm, void *user)
{
	const int rank = cohort_comm_rank(comm);
	struct cohort_comm *half = NULL;
	int32_t value = 1;
	int rc, closed;

	(void)user;
	rc = cohort_all_reduce_host(comm, &value, 1, COHORT_I32, COHORT_SUM,
	                            RANKS_SOON);
	if (rc == COHORT_OK)
		rc = cohort_comm_split(comm, rank % 2, rank, &half);
	if (rc != COHORT_OK)
		return rc;
	rc = cohort_all_reduce_host(half, &value, 1, COHORT_I32, COHORT_SUM,
	                            RANKS_SOON);
	closed = cohort_comm_close(half);
	if (rc == COHORT_OK && value != MANY * (MANY / 2))
		rc = COHORT_INVALID;
	return rc == COHORT_OK ? closed : rc;
}

/* Waiting ranks must yield the cores to threads that have work. */
Test(run, many_ranks_on_two_cores_meet_their_deadlines)
{
	struct cohort_group_options o;
	struct cohort_group *group;
	cpu_set_t own, two;
	int i, n = 0;

	place_need_one_process("1024 devices");
	place_skip_in_qemu("1024 threads on two cores take minutes");
	spread_not("the test has all ranks");
	CPU_ZERO(&two);
	sched_getaffinity(0, sizeof(own), &own);
	for (i = 0; i < CPU_SETSIZE && n < 2; i++)
		if (CPU_ISSET(i, &own)) {
			CPU_SET(i, &two);
			n++;
		}
	cr_assert_eq(sched_setaffinity(0, sizeof(two), &two), 0);
	place_open(MANY);
	cohort_group_options_init(&o);
	o.deadlines.init_ns = o.deadlines.join_ns = RANKS_SOON;
	o.deadlines.exec_ns = o.deadlines.close_ns = RANKS_SOON;
	group = ranks_open(MANY, &o);
	expect_run_in(group, sum_in_halves, NULL);
	expect_close(group);
}
