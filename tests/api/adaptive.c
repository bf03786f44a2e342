/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of adaptive deadlines: they must find a hang long before the configured
 * deadline, and blame only a rank that hangs
 *
 * The configured deadlines are the defaults, which are minutes long, so a
 * verdict within a test comes from an adaptive limit. The limits are short. A
 * test that expects no verdict waits several times the shortest limit.
 */

#include <criterion/criterion.h>
#include <string.h>
#include <time.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/ranks.h"
#include "support/verdicts.h"

#define MS UINT64_C(1000000)
/* lowest adaptive limit; long enough that a delay of a thread on a busy machine
 * does not exceed it */
#define FLOOR (1000 * MS)
#define FACTOR 4
#define WARMUP 20
#define WARM 40 /* number of calls that complete the warm-up */
#define LARGE 100000

/* Time within which a hang leads to a verdict */
#define LONG (2 * FLOOR)

static struct verdicts reported;
static struct cohort_group_options o;
static struct cohort_group *group;
static struct cohort_comm *comms[3];
static int32_t values[3];

static void set_up(void)
{
	cohort_group_options_init(&o);
	o.adaptive_factor = FACTOR;
	o.adaptive_floor_ns = FLOOR;
	o.adaptive_warmup = WARMUP;
}

TestSuite(adaptive, .init = set_up, .timeout = 60);

static void synchronize_all(int n)
{
	int r;

	for (r = 0; r < n; r++)
		ranks_must(cohort_synchronize(comms[r], RANKS_SOON), "sum");
}

/* Make a sum on all ranks, and wait for the result. */
static void sum_of_all(int n)
{
	int r;

	for (r = 0; r < n; r++)
		ranks_sum(comms[r], &values[r]);
	synchronize_all(n);
}

static void warm(int n, int times)
{
	while (times--)
		sum_of_all(n);
}

static void open_warm(int n)
{
	group = ranks_ahead(n, &o, comms);
	warm(n, WARM);
}

static uint64_t cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000 * MS + (uint64_t)t.tv_nsec;
}

/*
 * Start a sum on ranks 0 and 1, without waiting for it. Return false if this
 * thread was descheduled for so long that rank 1 might be blamed as late.
 */
static bool call_both(void)
{
	const uint64_t began = test_now(), cpu = cpu_time();
	int r, rc = COHORT_OK;

	for (r = 0; r < 2 && rc == COHORT_OK; r++)
		rc = cohort_all_reduce(comms[r], &values[r], &values[r], 1,
		                       COHORT_I32, COHORT_SUM,
		                       cohort_comm_stream(comms[r]), NULL);
	if (test_now() - began >= FLOOR && cpu_time() - cpu < FLOOR / 2)
		return false;
	ranks_must(rc, "sum");
	return true;
}

/* Make sums until the watchdog has observed enough calls. Return false if this
 * thread was descheduled for so long that a rank might be blamed as late. */
static bool call_until_seen(void)
{
	uint64_t until = test_deadline(LONG);

	while (test_now() < until) {
		if (!call_both())
			return false;
		synchronize_all(2);
	}
	return true;
}

/* Open a group, and make sums until the watchdog has observed enough calls. */
static void open_seen(void)
{
	open_warm(2);
	while (!call_until_seen()) {
		expect_close(group);
		open_warm(2);
	}
}

/* Start a sum only on rank 0, and return the cause that ends the group. */
static struct cohort_cause stall(void)
{
	struct cohort_cause cause;
	uint64_t t = ranks_sum(comms[0], &values[0]);

	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	cause = ranks_cause(group);
	cr_assert_geq(cause.deadline_ns, FLOOR);
	cr_assert_geq(cause.time_ns, cause.since_ns + cause.deadline_ns);
	expect_text(cause.details, " (4 x ");
	cr_assert_not_null(
		strstr(cause.details,
	               " all_reduce operations of up to 4 bytes; at least "
	               "1.0 s, at most 300.0 s)"),
		"%s", cause.text);
	expect_text(cause.text, ", observed limit ");
	return cause;
}

/* Start a sum on rank 0, and much later on rank 1. No rank may be blamed. */
static void call_late(void)
{
	uint64_t t = ranks_sum(comms[0], &values[0]);

	cr_assert_eq(cohort_wait(comms[0], t, LONG), COHORT_TIMED_OUT, "%s",
	             ranks_cause(group).text);
	ranks_sum(comms[1], &values[1]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	ranks_must(cohort_synchronize(comms[1], RANKS_SOON), "sum");
}

/* ---- hangs -------------------------------------------------------------- */

Test(adaptive, adaptive_limit_finds_a_missing_rank_before_the_deadline)
{
	open_warm(2);
	cr_assert_eq(stall().rank, 1);
	expect_close(group);
}

Test(adaptive, adaptive_limit_finds_an_unfinished_operation)
{
	struct cohort_cause cause;
	uint64_t t;

	ranks_fault(1, WARM, COHORT_FAULT_NEVER, 0);
	open_warm(2);
	t = ranks_sum(comms[0], &values[0]);
	ranks_sum(comms[1], &values[1]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	cause = ranks_cause(group);
	cr_assert_eq(cause.joined[0], 3);
	expect_text(cause.details, ", observed over ");
	expect_close(group);
}

Test(adaptive, adaptive_limit_needs_no_flight_records)
{
	o.recorder_slots = 16;
	open_seen();
	cr_assert_eq(stall().rank, 1);
	expect_close(group);
}

/* ---- slow ranks that do not hang --------------------------------------- */

Test(adaptive, deadlines_do_not_adapt_by_default)
{
	o.adaptive_factor = 0;
	open_warm(2);
	call_late();
	expect_close(group);
}

Test(adaptive, no_adaptive_limit_applies_during_the_warm_up)
{
	o.adaptive_warmup = WARM + 10;
	open_warm(2);
	call_late();
	expect_close(group);
}

Test(adaptive, no_adaptive_limit_applies_to_a_call_of_a_new_size)
{
	static int32_t large[2][LARGE];
	uint64_t t;

	ranks_fault(1, WARM, COHORT_FAULT_DELAY, LONG);
	open_warm(2);
	cohort_all_reduce(comms[0], large[0], large[0], LARGE, COHORT_I32,
	                  COHORT_SUM, cohort_comm_stream(comms[0]), &t);
	cr_assert_eq(cohort_wait(comms[0], t, LONG), COHORT_TIMED_OUT);
	cohort_all_reduce(comms[1], large[1], large[1], LARGE, COHORT_I32,
	                  COHORT_SUM, cohort_comm_stream(comms[1]), NULL);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK, "%s",
	             ranks_cause(group).text);
	ranks_must(cohort_synchronize(comms[1], RANKS_SOON), "large");
	/* Calls of the usual size still have the same adaptive limit. */
	cr_assert_eq(stall().rank, 1);
	expect_close(group);
}

Test(adaptive, no_adaptive_limit_applies_to_a_call_of_a_new_kind)
{
	uint64_t t;

	open_warm(2);
	ranks_must(cohort_barrier(comms[0], cohort_comm_stream(comms[0]), &t),
	           "barrier");
	cr_assert_eq(cohort_wait(comms[0], t, LONG), COHORT_TIMED_OUT);
	ranks_must(cohort_barrier(comms[1], cohort_comm_stream(comms[1]), NULL),
	           "barrier");
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	expect_close(group);
}

/* One call is late during the warm-up. A later call is twice as late. */
Test(adaptive, late_call_in_the_warm_up_widens_the_adaptive_limit)
{
	const uint64_t late = 3 * FLOOR / 2;

	ranks_fault(1, WARMUP / 2, COHORT_FAULT_DELAY, late);
	ranks_fault(1, WARM, COHORT_FAULT_DELAY, 2 * late);
	ranks_fault(1, WARM + 1, COHORT_FAULT_NEVER, 0);
	open_warm(2);
	sum_of_all(2);
	ranks_sum(comms[0], &values[0]);
	ranks_sum(comms[1], &values[1]);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_STALLED);
	cr_assert_geq(ranks_cause(group).deadline_ns, FACTOR * late);
	expect_close(group);
}

/* Rank 1 calls only after the first report. */
Test(adaptive, call_that_finishes_after_a_report_widens_the_limit)
{
	const struct cohort_verdict *v;
	uint64_t first;

	o.policy = COHORT_POLICY_REPORT;
	verdicts_attach(&reported, &o);
	open_warm(2);
	ranks_sum(comms[0], &values[0]);
	v = verdicts_next_of(&reported, COHORT_STAGE_EXPIRED);
	first = v->deadline_ns;
	ranks_sum(comms[1], &values[1]);
	ranks_must(cohort_synchronize(comms[0], RANKS_SOON), "sum");
	ranks_must(cohort_synchronize(comms[1], RANKS_SOON), "sum");
	ranks_sum(comms[0], &values[0]);
	do
		v = verdicts_next_of(&reported, COHORT_STAGE_EXPIRED);
	while (v->collective <= WARM + 1);
	cr_assert_geq(v->deadline_ns, FACTOR * first);
	ranks_must(cohort_group_abort(group, NULL), "abort");
	expect_close(group);
}

/* If ranks launch ahead, a call that is queued after others has not started. */
Test(adaptive, clock_of_a_queued_call_starts_after_the_calls_before_it)
{
	uint64_t t = 0;
	int i;

	for (i = 1; i <= 5; i++)
		ranks_fault(1, (uint64_t)(WARM + i), COHORT_FAULT_DELAY, FLOOR);
	o.adaptive_floor_ns = 3 * FLOOR;
	open_warm(2);
	for (i = 0; i < 20; i++)
		t = ranks_sum(comms[0], &values[0]);
	for (i = 0; i < 20; i++)
		ranks_sum(comms[1], &values[1]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK, "%s",
	             ranks_cause(group).text);
	ranks_must(cohort_synchronize(comms[1], RANKS_SOON), "sum");
	expect_close(group);
}

Test(adaptive, respawned_group_learns_its_adaptive_limits_anew)
{
	const int lost = 2;

	open_warm(3);
	ranks_sum(comms[0], &values[0]);
	ranks_sum(comms[1], &values[1]);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_STALLED);
	cr_assert_eq(ranks_cause(group).rank, 2);
	ranks_must(cohort_group_respawn(group, &lost, 1), "respawn");
	ranks_must(cohort_group_split(group, comms), "split");
	sum_of_all(2);
	call_late();
	warm(2, WARM);
	cr_assert_eq(stall().rank, 1);
	expect_close(group);
}

/* ---- pauses and pushed deadlines -------------------------------------- */

static void push(int rank, uint64_t join_ns)
{
	const struct cohort_deadlines d = { .join_ns = join_ns };

	ranks_must(cohort_deadline_push(comms[rank], &d), "push");
}

static void pop(int rank)
{
	ranks_must(cohort_deadline_pop(comms[rank]), "pop");
}

/* Check that the adaptive limit applies again only after more calls: a late
 * call is not blamed at first, and a missing call is blamed later. */
static void expect_back(void)
{
	call_late();
	warm(2, WARM);
	cr_assert_eq(stall().rank, 1);
	expect_close(group);
}

Test(adaptive, pushed_deadline_replaces_the_adaptive_limit_until_popped)
{
	open_seen();
	push(0, RANKS_SOON);
	call_late();
	call_late();
	pop(0);
	expect_back();
}

Test(adaptive, adaptive_limit_pauses_while_the_missing_rank_has_pushed)
{
	open_seen();
	push(1, 0);
	call_late();
	call_late();
	pop(1);
	expect_back();
}

Test(adaptive, call_made_under_pushed_deadlines_may_be_late_after_the_pop)
{
	uint64_t t;

	open_seen();
	push(1, 0);
	t = ranks_sum(comms[0], &values[0]);
	pop(1);
	cr_assert_eq(cohort_wait(comms[0], t, LONG), COHORT_TIMED_OUT);
	ranks_sum(comms[1], &values[1]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	ranks_must(cohort_synchronize(comms[1], RANKS_SOON), "sum");
	warm(2, WARM);
	cr_assert_eq(stall().rank, 1);
	expect_close(group);
}

Test(adaptive, adaptive_limit_returns_only_after_the_last_pop)
{
	open_seen();
	push(0, 0);
	push(0, 0);
	pop(0);
	call_late();
	call_late();
	pop(0);
	expect_back();
}

Test(adaptive, pushed_deadline_may_be_shorter_than_the_adaptive_limit)
{
	uint64_t t;

	open_seen();
	push(0, FLOOR / 2);
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	cr_assert_eq(ranks_cause(group).deadline_ns, FLOOR / 2);
	cr_assert_null(strstr(ranks_cause(group).text, "observed over"));
	expect_close(group);
}

Test(adaptive, paused_rank_is_not_late_and_neither_is_its_next_call)
{
	open_seen();
	ranks_must(cohort_pause(comms[1]), "pause");
	call_late();
	ranks_must(cohort_resume(comms[1]), "resume");
	expect_back();
}

/* ---- bounds ----------------------------------------------------------- */

Test(adaptive, adaptive_limit_never_exceeds_the_configured_deadline)
{
	uint64_t t;

	o.deadlines.join_ns = FLOOR / 2;
	o.deadlines.exec_ns = RANKS_SOON;
	group = ranks_ahead(1, &o, comms);
	warm(1, WARM);
	expect_close(group);
	group = ranks_ahead(2, &o, comms);
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	cr_assert_eq(ranks_cause(group).deadline_ns, FLOOR / 2);
	expect_close(group);
}

static void refused(const char *text)
{
	cr_assert_eq(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID);
	cr_assert_str_eq(cohort_last_error(), text);
}

Test(adaptive, open_refuses_an_invalid_adaptive_factor)
{
	place_choose();
	o.adaptive_factor = 1;
	refused("options->adaptive_factor is 1, not 2 to 1000, or 0 "
	        "for deadlines that do not adapt");
	o.adaptive_factor = 1001;
	refused("options->adaptive_factor is 1001, not 2 to 1000, or 0 "
	        "for deadlines that do not adapt");
}
