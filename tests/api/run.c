/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort_group_run(): threads, results, and who is told what when one fails
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "platform/platform.h"
#include "support/ranks.h"

TestSuite(run, .timeout = 30);

struct shared {
	char names[4][16];
	int devices[4];
	int owners[4];
	int blocked[4];
	int sums[4];
	int rcs[4];
	atomic_int calls;
	int fail_rank; /* -1: none */
};

static int report(struct cohort_comm *comm, void *user)
{
	struct shared *s = user;
	const struct platform *p;
	int rank = cohort_comm_rank(comm);
	sigset_t signals;

	atomic_fetch_add(&s->calls, 1);
	platform_open(COHORT_PLATFORM_HOST, &p);
	pthread_getname_np(pthread_self(), s->names[rank], 16);
	p->cudaGetDevice(&s->devices[rank]);
	s->owners[rank] = cohort_comm_bind(comm);
	pthread_sigmask(SIG_SETMASK, NULL, &signals);
	s->blocked[rank] = sigismember(&signals, SIGUSR1);
	s->sums[rank] = rank + 1;
	s->rcs[rank] = ranks_sum_wait(comm, &s->sums[rank]);
	return s->rcs[rank];
}

Test(run, gives_each_rank_a_bound_named_thread_on_its_device)
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
	cr_assert_eq(s.calls, 4);
	for (r = 0; r < 4; r++) {
		cr_assert_eq(s.devices[r], r);
		cr_assert_eq(s.owners[r], COHORT_ALREADY);
		cr_assert_eq(s.sums[r], 10);
		cr_assert_eq(s.blocked[r], 0, "signals are the caller's");
	}
	cr_assert_str_eq(s.names[2], "trainer/2");
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}

Test(run, runs_again_and_again)
{
	struct shared s = { .fail_rank = -1 };
	struct cohort_group *group = ranks_open(4, NULL);
	int i;

	for (i = 0; i < 20; i++)
		cr_assert_eq(cohort_group_run(group, report, &s, NULL),
		             COHORT_OK);
	cr_assert_eq(s.calls, 80);
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}

Test(run, runs_a_group_that_was_split)
{
	struct cohort_comm *comms[4];
	struct shared s = { .fail_rank = -1 };
	struct cohort_group *group = ranks_split(4, NULL, comms);

	cr_assert_eq(cohort_group_run(group, report, &s, NULL), COHORT_OK);
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}

Test(run, counts_as_a_split)
{
	struct cohort_comm *comms[4];
	struct shared s = { .fail_rank = -1 };
	struct cohort_group *group = ranks_open(4, NULL);

	cr_assert_eq(cohort_group_run(group, report, &s, NULL), COHORT_OK);
	cr_assert_eq(cohort_group_split(group, comms), COHORT_STATE);
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}

/* One rank fails before the collective that the others wait in. */
static int fail_one(struct cohort_comm *comm, void *user)
{
	struct shared *s = user;
	int rank = cohort_comm_rank(comm);

	if (rank == s->fail_rank)
		return 42;
	s->sums[rank] = 1;
	s->rcs[rank] = ranks_sum_wait(comm, &s->sums[rank]);
	return s->rcs[rank];
}

Test(run, a_failing_worker_unblocks_the_others_and_is_named)
{
	struct shared s = { .fail_rank = 2 };
	struct cohort_group *group = ranks_open(4, NULL);
	struct cohort_cause cause;

	cr_assert_eq(cohort_group_run(group, fail_one, &s, &cause),
	             COHORT_WORKER);
	cr_assert_eq(cause.status, COHORT_WORKER);
	cr_assert_eq(cause.rank, 2);
	cr_assert_eq(cause.worker, 42);
	cr_assert_str_eq(cause.text, "the worker of rank 2 returned 42");
	cr_assert_eq(s.rcs[0], COHORT_WORKER);
	cr_assert_eq(s.rcs[3], COHORT_WORKER);
	cr_assert_eq(cohort_group_run(group, fail_one, &s, &cause),
	             COHORT_STATE);
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}

Test(run, any_failing_rank_is_found_also_the_first)
{
	struct shared s = { .fail_rank = 0 };
	struct cohort_group *group = ranks_open(4, NULL);
	struct cohort_cause cause;

	cr_assert_eq(cohort_group_run(group, fail_one, &s, &cause),
	             COHORT_WORKER);
	cr_assert_eq(cause.rank, 0);
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
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

Test(run, an_abort_from_outside_ends_it_with_that_cause)
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
	/* The abort may have come before the run. */
	if (rc == COHORT_STATE)
		cr_assert_eq(cause.status, COHORT_ABORTED);
	else
		cr_assert_eq(rc, COHORT_ABORTED);
	cr_assert_str_eq(cause.text, "aborted: from outside");
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}

static int run_inside(struct cohort_comm *comm, void *user)
{
	if (cohort_comm_rank(comm) == 0)
		cr_assert_eq(cohort_group_run(user, run_inside, user, NULL),
		             COHORT_STATE);
	return 0;
}

Test(run, is_refused_inside_a_run_and_with_a_bound_rank)
{
	struct cohort_comm *comms[2];
	struct cohort_group *group = ranks_split(2, NULL, comms);

	cr_assert_eq(cohort_group_run(group, run_inside, group, NULL),
	             COHORT_OK);
	cohort_comm_bind(comms[1]);
	cr_assert_eq(cohort_group_run(group, run_inside, group, NULL),
	             COHORT_STATE);
	cr_assert_not_null(strstr(cohort_last_error(), "rank 1 is bound"));
	cohort_comm_unbind(comms[1]);
	cr_assert_eq(cohort_group_run(group, run_inside, group, NULL),
	             COHORT_OK);
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}
