/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of a process that is stopped for longer than a deadline and then
 * continued: no rank is blamed for the stop, but a later hang is found
 *
 * The process is a child, which is forked before it uses the library. It stops
 * itself, and the parent continues it after the stop has lasted long enough.
 */

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/clock.h"
#include "support/ranks.h"
#include "support/spread.h"

static void in_one_process(void)
{
	spread_not("the test stops its whole process");
}

TestSuite(stopped, .init = in_one_process, .timeout = 60);

#define MS UINT64_C(1000000)
#define DEADLINE (2000 * MS)
#define STOP (DEADLINE + DEADLINE / 2)

static struct cohort_group_options o;
static struct cohort_group *group;
static struct cohort_comm *comms[2];
static int32_t values[2];

/* ---- the child -------------------------------------------------------- */

/* Exit with a message unless @holds. */
static void must(bool holds, const char *what)
{
	struct cohort_cause cause = { .status = COHORT_OK };

	if (holds)
		return;
	cohort_group_cause(group, &cause);
	fprintf(stderr, "not so: %s; %s\n", what, cause.text);
	_exit(1);
}

static void open_warm(void)
{
	int r;

	cohort_group_options_init(&o);
	o.deadlines.join_ns = o.deadlines.exec_ns = DEADLINE;
	group = ranks_ahead(2, &o, comms);
	for (r = 0; r < 2; r++)
		ranks_sum(comms[r], &values[r]);
	for (r = 0; r < 2; r++)
		ranks_must(cohort_synchronize(comms[r], RANKS_SOON), "warm up");
}

/* Stop until the parent continues this process. Return the time when the stop
 * began. */
static uint64_t stop(void)
{
	uint64_t began = test_now();

	kill(getpid(), SIGSTOP);
	must(test_now() - began >= STOP, "it was stopped");
	return began;
}

/* Wait until the watchdog has detected the stop. */
static void expect_counted(void)
{
	struct cohort_stats stats = { .size = sizeof(stats) };
	uint64_t until = test_deadline(RANKS_SOON);

	do
		must(cohort_stats(comms[0], &stats) == COHORT_OK, "stats");
	while (!stats.stops && test_now() < until);
	must(stats.stops >= 1, "the stop is counted");
}

/* Check that the wait for @ticket ends with a stall that blames rank 1. */
static void expect_stalled(uint64_t ticket)
{
	struct cohort_cause cause;

	must(cohort_wait(comms[0], ticket, RANKS_SOON) == COHORT_STALLED,
	     "the rank that waits is told");
	cause = ranks_cause(group);
	must(cause.rank == 1, "the rank that is missing is named");
	must(cause.deadline_ns == DEADLINE, "the deadline is what it was");
	must(cause.time_ns >= cause.since_ns + DEADLINE, "it has passed");
}

static void late_rank_comes_after_the_stop(void)
{
	uint64_t t;

	open_warm();
	t = ranks_sum(comms[0], &values[0]);
	stop();
	ranks_sum(comms[1], &values[1]);
	must(cohort_wait(comms[0], t, RANKS_SOON) == COHORT_OK,
	     "what was in flight is done");
	expect_counted();
	expect_stalled(ranks_sum(comms[0], &values[0]));
}

static void missing_rank_is_missing_after_the_stop(void)
{
	uint64_t t, began;

	open_warm();
	t = ranks_sum(comms[0], &values[0]);
	began = stop();
	expect_stalled(t);
	must(ranks_cause(group).since_ns >= began + STOP - DEADLINE,
	     "the time of the stop does not count");
	must(strstr(ranks_cause(group).details,
	            " in which this process did not run"),
	     "and the text says so");
}

static void a_message_is_sent_after_the_stop(void)
{
	uint64_t t;

	open_warm();
	ranks_must(cohort_recv(comms[0], &values[0], 1, COHORT_I32, 1,
	                       cohort_comm_stream(comms[0]), NULL),
	           "recv");
	ranks_must(cohort_send(comms[1], &values[1], 1, COHORT_I32, 0,
	                       cohort_comm_stream(comms[1]), NULL),
	           "send");
	ranks_must(cohort_recv(comms[0], &values[0], 1, COHORT_I32, 1,
	                       cohort_comm_stream(comms[0]), &t),
	           "recv");
	stop();
	ranks_must(cohort_send(comms[1], &values[1], 1, COHORT_I32, 0,
	                       cohort_comm_stream(comms[1]), NULL),
	           "send");
	must(cohort_wait(comms[0], t, RANKS_SOON) == COHORT_OK,
	     "what was in flight is done");
}

/* ---- the parent ------------------------------------------------------- */

static void run_and_stop(void (*act)(void))
{
	const struct timespec pause = { .tv_nsec = 10000000 };
	uint64_t until;
	pid_t child;
	int status;

	place_choose();
	place_need_for_child(2);
	child = fork();
	if (!child) {
		act();
		ranks_must(cohort_group_close(group), "close");
		_exit(0);
	}
	cr_assert_eq(waitpid(child, &status, WUNTRACED), child);
	cr_assert(WIFSTOPPED(status));
	/* The child measures by the same monotonic clock. */
	until = test_deadline(STOP);
	while (test_now() < until)
		nanosleep(&pause, NULL);
	kill(child, SIGCONT);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status));
	cr_assert_eq(WEXITSTATUS(status), 0);
}

Test(stopped, rank_that_calls_after_a_process_stop_is_not_blamed)
{
	run_and_stop(late_rank_comes_after_the_stop);
}

Test(stopped, rank_that_hangs_even_after_a_process_stop_is_blamed)
{
	run_and_stop(missing_rank_is_missing_after_the_stop);
}

Test(stopped, message_that_arrives_after_a_process_stop_is_in_time)
{
	run_and_stop(a_message_is_sent_after_the_stop);
}
