/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of deadlines: what the watchdog reports about ranks that never call and
 * operations that never end, and what it does afterwards
 *
 * Deadlines that must expire are short, and all others are long. The tests wait
 * only for verdicts and tickets.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/native.h"
#include "support/ranks.h"
#include "support/verdicts.h"

TestSuite(watch, .timeout = 60);

#define MS UINT64_C(1000000)
#define SHORT (20 * MS)

static struct verdicts recorded_verdicts;
static struct cohort_group_options o;
static struct cohort_group *group;
static struct cohort_comm *comms[4];
static int32_t values[4];

static void defaults(void)
{
	cohort_group_options_init(&o);
	o.name = "dp";
}

/* Open @n ranks, and complete a first collective while the clocks are
 * paused. */
static void open_warm(int n)
{
	int r;

	group = ranks_ahead(n, &o, comms);
	ranks_must(cohort_pause(comms[0]), "pause");
	for (r = 0; r < n; r++)
		ranks_sum(comms[r], &values[r]);
	for (r = 0; r < n; r++)
		ranks_must(cohort_synchronize(comms[r], RANKS_SOON), "warm up");
	ranks_must(cohort_resume(comms[0]), "resume");
}

/* ---- ranks that never call -------------------------------------------- */

Test(watch, rank_that_never_calls_is_named_in_the_others_error)
{
	struct cohort_cause cause;
	uint64_t t;

	defaults();
	o.deadlines.join_ns = SHORT;
	open_warm(2);
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	cause = ranks_cause(group);
	cr_assert_str_eq(cohort_last_error(), cause.text);
	cr_assert_eq(cause.status, COHORT_STALLED);
	cr_assert_eq(cause.kind, COHORT_VERDICT_OUTSIDE);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	cr_assert_eq(cause.collective, 2);
	cr_assert_eq(cause.joined[0], 1);
	cr_assert_eq(cause.missing[0], 2);
	cr_assert_eq(cause.deadline_ns, SHORT);
	cr_assert_geq(cause.time_ns, cause.since_ns + cause.deadline_ns);
	expect_text(cause.text,
	            "rank 1 has not called all_reduce 2 of \"dp\" (");
	expect_text(cause.text, ", limit 20 ms): ");
	expect_text(cause.text, "; rank 0 waits");
	expect_text(cause.details, "last seen in thread ");
	expect_close(group);
}

Test(watch, first_collective_has_the_usual_deadline)
{
	struct cohort_cause cause;
	uint64_t t;

	defaults();
	o.deadlines.join_ns = SHORT;
	group = ranks_ahead(3, &o, comms);
	t = ranks_sum(comms[1], &values[1]);
	cr_assert_eq(cohort_wait(comms[1], t, RANKS_SOON), COHORT_STALLED);
	cause = ranks_cause(group);
	cr_assert_eq(cause.kind, COHORT_VERDICT_NEVER_CALLED);
	cr_assert_eq(cause.rank, -1, "%s", cause.text);
	cr_assert_eq(cause.collective, 1);
	cr_assert_eq(cause.deadline_ns, SHORT);
	cr_assert_eq(cause.joined[0], 2);
	cr_assert_eq(cause.missing[0], 0);
	expect_text(cause.text, "rank 1 alone waits in all_reduce 1 of ");
	expect_text(cause.text, "; ranks 0, 2 have made no call so far");
	expect_close(group);
}

/* Make a sum with a deadline that is long enough for a thread that starts
 * late. */
static void sum_patiently(struct cohort_comm *c, int32_t *x)
{
	static const struct cohort_deadlines patient = {
		.join_ns = RANKS_SOON,
		.exec_ns = RANKS_SOON,
	};

	ranks_must(cohort_deadline_push(c, &patient), "push");
	ranks_must(ranks_sum_wait(c, x), "sum");
	ranks_must(cohort_deadline_pop(c), "pop");
}

static sem_t is_away;
static sem_t go_home;

static void *bind_and_stay_away(void *arg)
{
	pthread_setname_np(pthread_self(), "sleeper");
	ranks_must(cohort_comm_bind(arg), "bind");
	sum_patiently(arg, &values[1]);
	sem_post(&is_away);
	while (sem_wait(&go_home))
		continue;
	ranks_must(cohort_comm_unbind(arg), "unbind");
	return NULL;
}

Test(watch, verdict_names_the_thread_of_a_bound_rank)
{
	struct cohort_cause cause;
	pthread_t thread;
	uint64_t t;

	defaults();
	o.deadlines.join_ns = SHORT;
	sem_init(&is_away, 0, 0);
	sem_init(&go_home, 0, 0);
	group = ranks_ahead(2, &o, comms);
	pthread_create(&thread, NULL, bind_and_stay_away, comms[1]);
	sum_patiently(comms[0], &values[0]);
	while (sem_wait(&is_away))
		continue;
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	cause = ranks_cause(group);
	cr_assert_eq(cause.kind, COHORT_VERDICT_OUTSIDE);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	expect_text(cause.details,
	            "\nwhy    it is busy in the program: thread ");
	expect_text(cause.details, " \"sleeper\"");
	expect_text(cause.details,
	            "its last call was all_reduce of 1 int32, sum");
	sem_post(&go_home);
	pthread_join(thread, NULL);
	expect_close(group);
}

static void *call_and_exit(void *tid)
{
	pthread_setname_np(pthread_self(), "loader/1");
	*(int *)tid = gettid();
	sum_patiently(comms[1], &values[1]);
	return NULL;
}

/* A thread pool that shrinks can end a thread after its call. */
Test(watch, exited_caller_is_not_mistaken_for_the_ranks_thread)
{
	struct cohort_cause cause;
	const struct cohort_verdict *v;
	pthread_t thread;
	uint64_t t;
	char name[128];
	int tid;

	place_skip_in_qemu("threads end a while after they were joined");
	defaults();
	o.deadlines.join_ns = SHORT;
	verdicts_attach(&recorded_verdicts, &o);
	group = ranks_ahead(2, &o, comms);
	pthread_create(&thread, NULL, call_and_exit, &tid);
	sum_patiently(comms[0], &values[0]);
	pthread_join(thread, NULL);
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	cause = ranks_cause(group);
	cr_assert_eq(cause.kind, COHORT_VERDICT_OUTSIDE, "%s", cause.text);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	snprintf(name, sizeof(name),
	         "used it has exited; last seen in thread %d, which has exited",
	         tid);
	expect_text(cause.details, name);
	v = verdicts_next(&recorded_verdicts);
	cr_assert_eq(v->ranks[1].bound, 0);
	cr_assert_eq(v->ranks[1].tid, tid);
	cr_assert_eq(v->ranks[1].alive, 0);
	expect_close(group);
}

static void *receive_from_rank_2(void *unused)
{
	cr_assert_eq(cohort_recv_host(comms[1], &values[1], 1, COHORT_I32, 2,
	                              COHORT_FOREVER),
	             COHORT_ABORTED);
	return unused;
}

Test(watch, rank_in_a_host_memory_call_is_reported_as_inside)
{
	const struct cohort_deadlines soon = { .join_ns = SHORT };
	struct cohort_stats stats = { .size = sizeof(stats) };
	const struct cohort_verdict *v;
	pthread_t thread;
	uint64_t t;

	place_need_no_sync("a sum's kernel is loaded beside a receive");
	defaults();
	o.policy = COHORT_POLICY_REPORT;
	verdicts_attach(&recorded_verdicts, &o);
	group = ranks_ahead(3, &o, comms);
	pthread_create(&thread, NULL, receive_from_rank_2, NULL);
	while (!stats.transfers)
		ranks_must(cohort_stats(comms[1], &stats), "stats");
	ranks_must(cohort_deadline_push(comms[0], &soon), "push");
	t = ranks_sum(comms[0], &values[0]);
	v = verdicts_next(&recorded_verdicts);
	/* Rank 1 waits for rank 2, so rank 2 must be blamed. */
	cr_assert_eq(v->kind, COHORT_VERDICT_NEVER_CALLED, "%s", v->text);
	cr_assert_eq(v->rank, 2);
	cr_assert_str_eq(v->call, "all_reduce 1 of \"dp\"");
	expect_text(v->line, v->call);
	cr_assert_eq(v->ranks[1].inside, 1);
	cr_assert_eq(v->ranks[2].inside, 0);
	expect_text(v->text, "\nwait   rank 1 waits in recv from rank 2\n");
	ranks_must(cohort_group_abort(group, NULL), "abort");
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_ABORTED);
	pthread_join(thread, NULL);
	expect_close(group);
}

Test(watch, rank_that_calls_in_time_is_not_blamed)
{
	const struct cohort_verdict *v;
	uint64_t t;

	defaults();
	o.deadlines.join_ns = 2000 * MS;
	o.slow_ns = SHORT;
	verdicts_attach(&recorded_verdicts, &o);
	open_warm(2);
	t = ranks_sum(comms[0], &values[0]);
	v = verdicts_next(&recorded_verdicts);
	cr_assert_eq(v->stage, COHORT_STAGE_SLOW);
	cr_assert_eq(v->kind, COHORT_VERDICT_OUTSIDE);
	cr_assert_eq(v->rank, 1);
	cr_assert_eq(v->deadline_ns, SHORT);
	cr_assert_str_eq(v->group, "dp");
	ranks_sum(comms[1], &values[1]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	expect_close(group);
	cr_assert_eq(recorded_verdicts.count, 1);
}

Test(watch, rank_that_has_closed_its_communicator_is_named)
{
	struct cohort_cause cause;
	uint64_t t;

	defaults();
	o.deadlines.join_ns = SHORT;
	open_warm(2);
	ranks_must(cohort_comm_close(comms[1]), "close");
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	cause = ranks_cause(group);
	cr_assert_eq(cause.kind, COHORT_VERDICT_LEFT);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	expect_text(cause.text, "has left: its communicator was closed");
	expect_close(group);
}

/*
 * Rank 0 finishes its part immediately, and its record is overwritten long
 * before rank 1 calls.
 */
Test(watch, call_whose_record_is_overwritten_keeps_its_deadline)
{
	const struct cohort_verdict *v;
	const struct cohort_deadlines d = { .join_ns = 10 * SHORT };
	uint64_t before = test_now();
	int i;

	defaults();
	o.recorder_slots = 16;
	o.deadlines.join_ns = SHORT;
	o.policy = COHORT_POLICY_REPORT;
	verdicts_attach(&recorded_verdicts, &o);
	group = ranks_ahead(2, &o, comms);
	ranks_must(cohort_deadline_push(comms[0], &d), "push");
	ranks_must(cohort_all_reduce(comms[0], NULL, NULL, 0, COHORT_I32,
	                             COHORT_SUM, NULL, NULL),
	           "all_reduce");
	for (i = 0; i < 17; i++)
		ranks_must(cohort_copy(comms[0], &values[0], &values[1],
		                       sizeof(values[0]), NULL),
		           "copy");
	v = verdicts_next(&recorded_verdicts);
	cr_assert_eq(v->stage, COHORT_STAGE_EXPIRED);
	cr_assert_eq(v->deadline_ns, d.join_ns);
	cr_assert_geq(v->since_ns, before);
	cr_assert_eq(v->rank, 1);
	ranks_must(cohort_group_abort(group, NULL), "abort");
	expect_close(group);
}

/* ---- operations that never end ---------------------------------------- */

/*
 * Start a sum on rank 0, and wait until the operation has started. The library
 * detects the start only while a thread waits for the ticket.
 */
static uint64_t start_rank_0(void)
{
	uint64_t t = ranks_sum(comms[0], &values[0]);

	cr_assert_eq(cohort_wait(comms[0], t, SHORT), COHORT_TIMED_OUT);
	return t;
}

/* Make a sum on both ranks, with a fault on rank 1. */
static int sum_with_fault(int kind, uint64_t value)
{
	ranks_fault(1, 1, kind, value);
	start_rank_0();
	return ranks_sum_wait(comms[1], &values[1]);
}

/* Do the same as sum_with_fault(), but pause the deadlines until both ranks
 * have started. */
static int start_both_with_fault(int kind, uint64_t value)
{
	uint64_t t;

	ranks_fault(1, 1, kind, value);
	ranks_must(cohort_pause(comms[0]), "pause");
	start_rank_0();
	t = ranks_sum(comms[1], &values[1]);
	cr_assert_eq(cohort_wait(comms[1], t, SHORT), COHORT_TIMED_OUT);
	ranks_must(cohort_resume(comms[0]), "resume");
	return cohort_wait(comms[1], t, RANKS_SOON);
}

Test(watch, operation_that_no_rank_finishes_blames_no_rank)
{
	struct cohort_cause cause;

	defaults();
	o.deadlines.exec_ns = SHORT;
	open_warm(2);
	cr_assert_eq(start_both_with_fault(COHORT_FAULT_NEVER, 0),
	             COHORT_STALLED);
	cause = ranks_cause(group);
	cr_assert_eq(cause.kind, COHORT_VERDICT_NOT_FINISHED);
	cr_assert_eq(cause.rank, -1, "%s", cause.text);
	cr_assert_eq(cause.deadline_ns, SHORT);
	cr_assert_geq(cause.time_ns, cause.since_ns + SHORT);
	cr_assert_eq(cause.joined[0], 3);
	cr_assert_eq(cause.missing[0], 3);
	expect_text(cause.text, " has not finished on ranks 0-1");
	expect_close(group);
}

Test(watch, operation_that_exceeds_exec_ns_is_ended)
{
	defaults();
	o.deadlines.exec_ns = SHORT;
	open_warm(2);
	cr_assert_eq(sum_with_fault(COHORT_FAULT_DELAY, RANKS_SOON),
	             COHORT_STALLED);
	expect_close(group);
}

Test(watch, join_ns_no_longer_counts_once_all_have_joined)
{
	defaults();
	o.deadlines.join_ns = 10 * SHORT;
	open_warm(2);
	cr_assert_eq(start_both_with_fault(COHORT_FAULT_DELAY, 15 * SHORT),
	             COHORT_OK);
	expect_close(group);
}

static void *sum_on_rank_1(void *unused)
{
	(void)unused;
	return (void *)(intptr_t)ranks_sum_wait(comms[1], &values[1]);
}

Test(watch, rank_that_is_stuck_in_its_native_call_is_named)
{
	struct cohort_cause cause;
	pthread_t thread;
	uint64_t t;
	void *rc;

	defaults();
	o.deadlines.exec_ns = SHORT;
	open_warm(2);
	ranks_fault(1, 1, COHORT_FAULT_STUCK, 0);
	t = start_rank_0();
	pthread_create(&thread, NULL, sum_on_rank_1, NULL);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	pthread_join(thread, &rc);
	cr_assert_eq((intptr_t)rc, COHORT_STALLED);
	cause = ranks_cause(group);
	cr_assert_eq(cause.kind, COHORT_VERDICT_NOT_STARTED);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	cr_assert_eq(cause.missing[0], 2);
	expect_text(cause.text, "it is inside ncclAllReduce");
	expect_close(group);
}

/* Start a sum on both ranks while rank 1's stream is busy with other work until
 * @gate is opened. Return the verdict, and store rank 0's ticket in @ticket. */
static const struct cohort_verdict *stall_behind(struct native_gate *gate,
                                                 uint64_t *ticket)
{
	const struct platform *p;

	o.deadlines.exec_ns = SHORT;
	verdicts_attach(&recorded_verdicts, &o);
	open_warm(2);
	p = place_table();
	native_gate_hold(p, gate, cohort_comm_stream(comms[1]));
	*ticket = start_rank_0();
	ranks_sum(comms[1], &values[1]);
	return verdicts_next(&recorded_verdicts);
}

static void end_stall(struct native_gate *gate, uint64_t ticket)
{
	/* The operation completes, unless it was aborted before. */
	native_gate_open(gate);
	cr_assert_neq(cohort_wait(comms[0], ticket, RANKS_SOON),
	              COHORT_TIMED_OUT);
	expect_close(group);
}

Test(watch, rank_whose_stream_is_busy_with_other_work_is_named)
{
	const struct cohort_verdict *v;
	struct native_gate gate;
	uint64_t t;

	defaults();
	v = stall_behind(&gate, &t);
	cr_assert_eq(v->stage, COHORT_STAGE_ENDED);
	cr_assert_eq(v->kind, COHORT_VERDICT_NOT_STARTED);
	cr_assert_eq(v->rank, 1);
	expect_text(v->text, "\nwhy    its stream is still busy "
	                     "with earlier work");
	end_stall(&gate, t);
}

/* Without start marks, a rank with a busy stream looks like a rank that waits
 * for another one. */
Test(watch, rank_with_a_busy_stream_is_not_named_without_start_marks)
{
	const struct cohort_verdict *v;
	struct native_gate gate;
	uint64_t t;

	defaults();
	o.no_start_marks = 1;
	v = stall_behind(&gate, &t);
	cr_assert_eq(v->kind, COHORT_VERDICT_NOT_FINISHED);
	cr_assert_eq(v->rank, -1);
	end_stall(&gate, t);
}

/*
 * The clock of the second call must not start when the call is made, because
 * that call waits for the late rank only after the first one has ended. This
 * must hold even if the watchdog checks between the two calls.
 */
Test(watch, deadline_of_a_queued_call_starts_when_the_one_ahead_is_done)
{
	const uint64_t late = 1700 * MS;
	static int32_t second = 0;
	uint64_t t, u;

	defaults();
	o.deadlines.join_ns = 3000 * MS;
	open_warm(2);
	t = ranks_sum(comms[0], &values[0]);
	u = ranks_sum(comms[0], &second);
	cr_assert_eq(cohort_wait(comms[0], t, late), COHORT_TIMED_OUT);
	ranks_sum(comms[1], &values[1]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_wait(comms[0], u, late), COHORT_TIMED_OUT, "%s",
	             cohort_last_error());
	ranks_sum(comms[1], &values[2]);
	cr_assert_eq(cohort_wait(comms[0], u, RANKS_SOON), COHORT_OK);
	expect_close(group);
}

/* ---- pushed deadlines ------------------------------------------------- */

static void push(int rank, uint64_t join_ns, uint64_t exec_ns)
{
	const struct cohort_deadlines d = {
		.join_ns = join_ns,
		.exec_ns = exec_ns,
	};

	ranks_must(cohort_deadline_push(comms[rank], &d), "push");
}

static void pop(int rank)
{
	ranks_must(cohort_deadline_pop(comms[rank]), "pop");
}

/* Make a call of no elements, in which no rank waits for another one. */
static uint64_t call_nothing(struct cohort_comm *c)
{
	uint64_t ticket = 0;

	ranks_must(cohort_all_reduce(c, NULL, NULL, 0, COHORT_F32, COHORT_SUM,
	                             cohort_comm_stream(c), &ticket),
	           "all_reduce");
	return ticket;
}

Test(watch, rank_ahead_by_a_full_ring_does_not_hide_a_missing_rank)
{
	const struct cohort_verdict *v;
	const struct platform *p;
	struct native_gate gate;
	uint64_t t = 0;
	int i;

	defaults();
	o.recorder_slots = 16;
	o.deadlines.exec_ns = SHORT;
	verdicts_attach(&recorded_verdicts, &o);
	group = ranks_ahead(2, &o, comms);
	p = place_table();
	native_gate_hold(p, &gate, cohort_comm_stream(comms[1]));
	ranks_must(cohort_pause(comms[1]), "pause");
	call_nothing(comms[1]);
	for (i = 0; i < 17; i++)
		t = call_nothing(comms[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	ranks_must(cohort_resume(comms[1]), "resume");
	v = verdicts_next(&recorded_verdicts);
	cr_assert_eq(v->stage, COHORT_STAGE_ENDED);
	cr_assert_eq(v->kind, COHORT_VERDICT_NOT_STARTED);
	cr_assert_eq(v->rank, 1);
	cr_assert_eq(v->collective, 1);
	native_gate_open(&gate);
	expect_close(group);
}

Test(watch, pushed_join_ns_does_not_replace_the_groups_exec_ns)
{
	const struct cohort_deadlines d = { .join_ns = 100000 * MS };
	const struct platform *p;
	struct native_gate gate;

	place_need_no_sync(
		"the first collective's kernel is loaded behind work "
		"that is held");
	defaults();
	o.deadlines.exec_ns = SHORT;
	verdicts_attach(&recorded_verdicts, &o);
	group = ranks_ahead(2, &o, comms);
	p = place_table();
	native_gate_hold(p, &gate, cohort_comm_stream(comms[1]));
	cr_assert_eq(cohort_deadline_push(comms[0], &d), COHORT_OK);
	cr_assert_eq(cohort_deadline_push(comms[1], &d), COHORT_OK);
	ranks_must(cohort_pause(comms[0]), "pause");
	ranks_sum(comms[0], &values[0]);
	ranks_sum(comms[1], &values[1]);
	ranks_must(cohort_resume(comms[0]), "resume");
	cr_assert_eq(verdicts_next(&recorded_verdicts)->deadline_ns, SHORT);
	native_gate_open(&gate);
	expect_close(group);
}

Test(watch, pushing_a_shorter_deadline_wakes_the_watchdog)
{
	uint64_t t;

	defaults();
	open_warm(2);
	push(0, SHORT, 0);
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	cr_assert_eq(ranks_cause(group).deadline_ns, SHORT);
	expect_close(group);
}

Test(watch, longer_pushed_deadline_holds_for_calls_made_under_it)
{
	uint64_t t;

	defaults();
	o.deadlines.join_ns = SHORT;
	open_warm(2);
	push(0, COHORT_FOREVER, 0);
	t = ranks_sum(comms[0], &values[0]);
	pop(0);
	cr_assert_eq(cohort_wait(comms[0], t, 3 * SHORT), COHORT_TIMED_OUT);
	ranks_sum(comms[1], &values[1]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	expect_close(group);
}

/*
 * Rank 0 calls while deadlines are pushed, and then pops them. The pushed join
 * deadline must pass. Then rank 1 calls but never finishes, and the pushed exec
 * deadline must pass.
 */
Test(watch, call_keeps_its_pushed_deadline_after_the_pop)
{
	const uint64_t join_ns = 2 * SHORT, exec_ns = 3 * SHORT;
	const struct cohort_verdict *v;

	defaults();
	o.deadlines.join_ns = COHORT_FOREVER;
	o.deadlines.exec_ns = COHORT_FOREVER;
	o.policy = COHORT_POLICY_REPORT;
	verdicts_attach(&recorded_verdicts, &o);
	open_warm(2);
	push(0, join_ns, exec_ns);
	ranks_sum(comms[0], &values[0]);
	pop(0);
	v = verdicts_next(&recorded_verdicts);
	cr_assert_eq(v->deadline_ns, join_ns);
	ranks_fault(1, 1, COHORT_FAULT_NEVER, 0);
	ranks_sum(comms[1], &values[1]);
	while (v->deadline_ns == join_ns)
		v = verdicts_next(&recorded_verdicts);
	cr_assert_eq(v->deadline_ns, exec_ns);
	ranks_must(cohort_group_abort(group, NULL), "abort");
	expect_close(group);
}

Test(watch, pushing_0_leaves_a_deadline_unchanged)
{
	uint64_t t;

	defaults();
	open_warm(2);
	push(0, SHORT, 0);
	push(0, 0, 2 * SHORT);
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	cr_assert_eq(ranks_cause(group).deadline_ns, SHORT);
	expect_close(group);
}

Test(watch, COHORT_DEADLINE_overrides_options_and_pushed_deadlines)
{
	uint64_t t;

	defaults();
	setenv("COHORT_DEADLINE", "20ms", 1);
	open_warm(2);
	push(0, COHORT_FOREVER, COHORT_FOREVER);
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	cr_assert_eq(ranks_cause(group).deadline_ns, 20 * MS);
	expect_close(group);
}

/* Rank 1 calls later than the deadlines and the adaptive limit of rank 0's call
 * allow. */
Test(watch, deadline_off_in_the_environment_disables_all_deadlines)
{
	uint64_t t;
	int i;

	defaults();
	setenv("COHORT_DEADLINE", "off", 1);
	o.deadlines.join_ns = SHORT;
	o.adaptive_factor = 2;
	o.adaptive_warmup = 1;
	o.adaptive_floor_ns = SHORT;
	open_warm(2);
	for (i = 0; i < 3; i++) {
		t = ranks_sum(comms[0], &values[0]);
		ranks_sum(comms[1], &values[1]);
		ranks_must(cohort_wait(comms[0], t, RANKS_SOON), "sum");
	}
	push(0, SHORT, SHORT);
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, 5 * SHORT), COHORT_TIMED_OUT);
	ranks_sum(comms[1], &values[1]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	expect_close(group);
}

Test(watch, open_refuses_an_invalid_deadline_in_the_environment)
{
	defaults();
	setenv("COHORT_DEADLINE", "30", 1);
	place_choose();
	expect(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID,
	       "COHORT_DEADLINE is \"30\" in the environment");
	setenv("COHORT_DEADLINE", "30s", 1);
	setenv("COHORT_POLICY", "ask", 1);
	expect(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID,
	       "COHORT_POLICY is \"ask\" in the environment");
}

Test(watch, sixteen_deadlines_can_be_pushed_and_popped)
{
	const struct cohort_deadlines one_more = { .join_ns = MS };
	int i;

	defaults();
	open_warm(1);
	for (i = 0; i < 16; i++)
		push(0, RANKS_SOON, RANKS_SOON);
	cr_assert_eq(cohort_deadline_push(comms[0], &one_more), COHORT_STATE);
	cr_assert_str_eq(
		cohort_last_error(),
		"16 deadlines are pushed, which is the limit: pop one first");
	for (i = 0; i < 16; i++)
		pop(0);
	cr_assert_eq(cohort_deadline_pop(comms[0]), COHORT_STATE);
	cr_assert_str_eq(cohort_last_error(), "rank 0 has no pushed deadlines");
	expect_close(group);
}

static void expect_refused(struct cohort_deadlines d, const char *text)
{
	cr_assert_eq(cohort_deadline_push(comms[0], &d), COHORT_INVALID);
	cr_assert_str_eq(cohort_last_error(), text);
}

Test(watch, push_refuses_deadlines_of_the_whole_group)
{
	defaults();
	open_warm(1);
	expect_refused((struct cohort_deadlines){ .init_ns = 5 },
	               "deadlines->init_ns is 5, not 0: only the group's "
	               "options can set it");
	expect_refused((struct cohort_deadlines){ .close_ns = 7 },
	               "deadlines->close_ns is 7, not 0: only the group's "
	               "options can set it");
	expect_refused((struct cohort_deadlines){ .abort_ns = 8 },
	               "deadlines->abort_ns is 8, not 0: only the group's "
	               "options can set it");
	cr_assert_eq(cohort_deadline_push(comms[0], NULL), COHORT_INVALID);
	cr_assert_eq(cohort_deadline_push(NULL, NULL), COHORT_INVALID);
	cr_assert_eq(cohort_deadline_pop(comms[0]), COHORT_STATE);
	expect_close(group);
}

Test(watch, push_refuses_deadlines_below_1_ms)
{
	defaults();
	o.deadlines.join_ns = SHORT;
	open_warm(2);
	expect_refused((struct cohort_deadlines){ .join_ns = 5 },
	               "deadlines->join_ns is 5, but the unit is nanoseconds, "
	               "and the minimum is 1000000 (1 ms)");
	expect_refused((struct cohort_deadlines){ .exec_ns = MS - 1 },
	               "deadlines->exec_ns is 999999, but the unit is "
	               "nanoseconds, and the minimum is 1000000 (1 ms)");
	cr_assert_eq(cohort_deadline_pop(comms[0]), COHORT_STATE);
	expect_close(group);
}

static void expect_short(size_t offset, const char *name)
{
	char text[128];

	defaults();
	*(uint64_t *)((char *)&o.deadlines + offset) = 30;
	snprintf(text, sizeof(text),
	         "options->deadlines.%s is 30, but the unit is nanoseconds",
	         name);
	expect(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID, text);
}

Test(watch, open_refuses_deadlines_below_1_ms)
{
	place_choose();
	expect_short(offsetof(struct cohort_deadlines, init_ns), "init_ns");
	expect_short(offsetof(struct cohort_deadlines, join_ns), "join_ns");
	expect_short(offsetof(struct cohort_deadlines, exec_ns), "exec_ns");
	expect_short(offsetof(struct cohort_deadlines, close_ns), "close_ns");
	expect_short(offsetof(struct cohort_deadlines, abort_ns), "abort_ns");
}

static void *call_from_outside(void *unused)
{
	const struct cohort_deadlines d = { .join_ns = MS };

	(void)unused;
	cr_assert_eq(cohort_deadline_push(comms[0], &d), COHORT_OWNER);
	cr_assert_eq(cohort_deadline_pop(comms[0]), COHORT_OWNER);
	cr_assert_eq(cohort_pause(comms[0]), COHORT_OWNER);
	cr_assert_eq(cohort_resume(comms[0]), COHORT_OWNER);
	return NULL;
}

Test(watch, only_the_owner_of_an_open_communicator_may_push_deadlines)
{
	const struct cohort_deadlines d = { .join_ns = MS };
	pthread_t thread;

	defaults();
	open_warm(1);
	ranks_must(cohort_comm_bind(comms[0]), "bind");
	pthread_create(&thread, NULL, call_from_outside, NULL);
	pthread_join(thread, NULL);
	ranks_must(cohort_comm_close(comms[0]), "close");
	cr_assert_eq(cohort_deadline_push(comms[0], &d), COHORT_STATE);
	cr_assert_eq(cohort_deadline_pop(comms[0]), COHORT_STATE);
	cr_assert_eq(cohort_pause(comms[0]), COHORT_STATE);
	cr_assert_eq(cohort_resume(comms[0]), COHORT_STATE);
	expect_close(group);
}

Test(watch, push_refuses_reserved_fields_that_are_not_0)
{
	struct cohort_deadlines d = { .join_ns = MS, .reserved = { [10] = 7 } };

	defaults();
	open_warm(1);
	expect(cohort_deadline_push(comms[0], &d), COHORT_INVALID,
	       "deadlines->reserved[10] is 7");
	cr_assert_eq(cohort_deadline_pop(comms[0]), COHORT_STATE);
	expect_close(group);
}

static int push_and_pause(struct cohort_comm *comm, void *unused)
{
	const struct cohort_deadlines d = { .join_ns = MS };

	(void)unused;
	return cohort_deadline_push(comm, &d) + cohort_pause(comm);
}

Test(watch, deadlines_and_pauses_of_a_worker_end_when_it_returns)
{
	defaults();
	open_warm(2);
	expect_run_in(group, push_and_pause, NULL);
	cr_assert_eq(cohort_deadline_pop(comms[1]), COHORT_STATE);
	cr_assert_eq(cohort_resume(comms[1]), COHORT_STATE);
	cr_assert_str_eq(cohort_last_error(), "rank 1 is not paused");
	expect_close(group);
}

/* ---- pauses ----------------------------------------------------------- */

Test(watch, no_rank_is_blamed_while_one_is_paused)
{
	uint64_t t, resumed;

	defaults();
	o.deadlines.join_ns = SHORT;
	open_warm(2);
	ranks_must(cohort_pause(comms[1]), "pause");
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, 3 * SHORT), COHORT_TIMED_OUT);
	resumed = test_now();
	ranks_must(cohort_resume(comms[1]), "resume");
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	cr_assert_geq(ranks_cause(group).since_ns, resumed);
	expect_close(group);
}

Test(watch, paused_rank_may_make_a_call)
{
	uint64_t t;

	defaults();
	o.deadlines.join_ns = SHORT;
	open_warm(2);
	ranks_must(cohort_pause(comms[1]), "pause");
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, 2 * SHORT), COHORT_TIMED_OUT);
	ranks_sum(comms[1], &values[1]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	expect_close(group);
}

Test(watch, pauses_can_be_nested)
{
	uint64_t t;

	defaults();
	o.deadlines.join_ns = SHORT;
	open_warm(2);
	ranks_must(cohort_pause(comms[1]), "pause");
	ranks_must(cohort_pause(comms[1]), "pause");
	ranks_must(cohort_pause(comms[0]), "pause");
	ranks_must(cohort_resume(comms[1]), "resume");
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, 2 * SHORT), COHORT_TIMED_OUT);
	ranks_must(cohort_resume(comms[1]), "resume");
	cr_assert_eq(cohort_wait(comms[0], t, 2 * SHORT), COHORT_TIMED_OUT);
	cr_assert_eq(cohort_resume(comms[1]), COHORT_STATE);
	ranks_must(cohort_resume(comms[0]), "resume");
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	expect_close(group);
}

Test(watch, closed_rank_is_no_longer_paused)
{
	uint64_t t;

	defaults();
	o.deadlines.join_ns = SHORT;
	open_warm(2);
	ranks_must(cohort_pause(comms[1]), "pause");
	ranks_must(cohort_comm_close(comms[1]), "close");
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	expect_close(group);
}

Test(watch, verdict_measures_time_from_the_end_of_a_pause)
{
	const struct cohort_verdict *v;
	uint64_t before;

	defaults();
	o.deadlines.join_ns = SHORT;
	o.policy = COHORT_POLICY_REPORT;
	verdicts_attach(&recorded_verdicts, &o);
	open_warm(2);
	ranks_sum(comms[0], &values[0]);
	v = verdicts_next(&recorded_verdicts);
	before = test_now();
	cr_assert_lt(v->since_ns, before);
	ranks_must(cohort_pause(comms[1]), "pause");
	ranks_must(cohort_resume(comms[1]), "resume");
	while (v->since_ns < before)
		v = verdicts_next(&recorded_verdicts);
	cr_assert_eq(v->stage, COHORT_STAGE_EXPIRED);
	ranks_must(cohort_group_abort(group, NULL), "abort");
	expect_close(group);
}

/* ---- policies --------------------------------------------------------- */

Test(watch, report_policy_repeats_its_verdict_and_ends_nothing)
{
	const struct cohort_verdict *v;
	uint64_t t, i;

	defaults();
	o.deadlines.join_ns = SHORT;
	o.policy = COHORT_POLICY_REPORT;
	verdicts_attach(&recorded_verdicts, &o);
	open_warm(2);
	t = ranks_sum(comms[0], &values[0]);
	for (i = 1; i <= 3; i++) {
		v = verdicts_next(&recorded_verdicts);
		cr_assert_eq(v->stage, COHORT_STAGE_EXPIRED);
		cr_assert_eq(v->kind, COHORT_VERDICT_OUTSIDE);
		cr_assert_eq(v->rank, 1);
		cr_assert_geq(v->time_ns, v->since_ns + i * SHORT);
	}
	cr_assert_eq(ranks_cause(group).status, COHORT_OK);
	ranks_sum(comms[1], &values[1]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	expect_close(group);
}

Test(watch, policy_of_the_environment_overrides_the_options)
{
	uint64_t t;

	defaults();
	setenv("COHORT_POLICY", "report", 1);
	o.deadlines.join_ns = SHORT;
	verdicts_attach(&recorded_verdicts, &o);
	open_warm(2);
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(verdicts_next(&recorded_verdicts)->stage,
	             COHORT_STAGE_EXPIRED);
	ranks_sum(comms[1], &values[1]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	expect_close(group);
	setenv("COHORT_POLICY", "end", 1);
	o.policy = COHORT_POLICY_REPORT;
	open_warm(2);
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	expect_close(group);
}

Test(watch, ask_policy_ends_nothing_if_on_verdict_returns_0)
{
	uint64_t t;

	defaults();
	o.deadlines.join_ns = SHORT;
	o.policy = COHORT_POLICY_ASK;
	verdicts_attach(&recorded_verdicts, &o);
	open_warm(2);
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(verdicts_next(&recorded_verdicts)->stage,
	             COHORT_STAGE_EXPIRED);
	cr_assert_eq(verdicts_next(&recorded_verdicts)->stage,
	             COHORT_STAGE_EXPIRED);
	cr_assert_eq(ranks_cause(group).status, COHORT_OK);
	ranks_sum(comms[1], &values[1]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	expect_close(group);
}

Test(watch, ask_policy_ends_the_group_if_on_verdict_returns_nonzero)
{
	const struct cohort_verdict *v;
	uint64_t t;

	defaults();
	o.deadlines.join_ns = SHORT;
	o.policy = COHORT_POLICY_ASK;
	recorded_verdicts.answer = -7;
	verdicts_attach(&recorded_verdicts, &o);
	open_warm(2);
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	v = verdicts_next(&recorded_verdicts);
	cr_assert_eq(v->stage, COHORT_STAGE_EXPIRED);
	cr_assert_str_eq(ranks_cause(group).text, v->line);
	cr_assert_str_eq(ranks_cause(group).details, v->text);
	cr_assert_eq(ranks_cause(group).rank, 1);
	cr_assert_eq(verdicts_next(&recorded_verdicts)->stage,
	             COHORT_STAGE_ENDED);
	expect_close(group);
}

Test(watch, result_of_on_verdict_for_a_slow_operation_is_ignored)
{
	uint64_t t;

	defaults();
	o.deadlines.join_ns = 2000 * MS;
	o.policy = COHORT_POLICY_ASK;
	recorded_verdicts.answer = 1;
	o.slow_ns = SHORT;
	verdicts_attach(&recorded_verdicts, &o);
	open_warm(2);
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(verdicts_next(&recorded_verdicts)->stage,
	             COHORT_STAGE_SLOW);
	ranks_sum(comms[1], &values[1]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	expect_close(group);
}

/* ---- reporting -------------------------------------------------------- */

Test(watch, on_verdict_is_not_called_at_an_orderly_end)
{
	defaults();
	verdicts_attach(&recorded_verdicts, &o);
	open_warm(2);
	expect_close(group);
	cr_assert_eq(recorded_verdicts.count, 0);
}

/* Check that the end of the group was reported once, with @kind, @rank and
 * @text. */
static void expect_told(int kind, int rank, const char *text)
{
	expect_close(group);
	cr_assert_eq(recorded_verdicts.count, 1);
	cr_assert_eq(recorded_verdicts.seen[0].stage, COHORT_STAGE_ENDED);
	cr_assert_eq(recorded_verdicts.seen[0].kind, kind);
	cr_assert_eq(recorded_verdicts.seen[0].rank, rank);
	cr_assert_str_eq(recorded_verdicts.seen[0].line, text);
}

Test(watch, group_ended_by_a_deadline_is_reported_once)
{
	struct cohort_cause cause;
	uint64_t t;

	defaults();
	o.deadlines.join_ns = SHORT;
	verdicts_attach(&recorded_verdicts, &o);
	open_warm(2);
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	cause = ranks_cause(group);
	expect_told(COHORT_VERDICT_OUTSIDE, 1, cause.text);
	cr_assert_eq(recorded_verdicts.seen[0].since_ns, cause.since_ns);
	cr_assert_eq(recorded_verdicts.seen[0].deadline_ns, SHORT);
	cr_assert_eq(recorded_verdicts.seen[0].missing[0], 2);
}

Test(watch, on_verdict_reports_an_abort)
{
	struct cohort_cause cause;

	defaults();
	verdicts_attach(&recorded_verdicts, &o);
	open_warm(2);
	ranks_must(cohort_group_abort(group, "enough"), "abort");
	cause = ranks_cause(group);
	expect_ending(cause.text, "aborted: enough");
	expect_told(COHORT_VERDICT_ABORTED, -1, cause.text);
}

static int fail_on_rank_1(struct cohort_comm *comm, void *unused)
{
	(void)unused;
	return cohort_comm_rank(comm) == 1 ? 42 : 0;
}

Test(watch, on_verdict_reports_a_worker_that_fails)
{
	struct cohort_cause cause;

	defaults();
	verdicts_attach(&recorded_verdicts, &o);
	open_warm(2);
	cause = expect_end_of_run(group, fail_on_rank_1, NULL, COHORT_WORKER);
	expect_ending(cause.text, "the worker of rank 1 returned 42");
	expect_told(COHORT_VERDICT_WORKER, 1, cause.text);
}

Test(watch, on_verdict_reports_a_mismatch)
{
	struct cohort_cause cause;

	defaults();
	verdicts_attach(&recorded_verdicts, &o);
	open_warm(2);
	ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_barrier(comms[1], NULL, NULL), COHORT_MISMATCH);
	cause = ranks_cause(group);
	expect_told(COHORT_VERDICT_DIFFERENT_CALL, -1, cause.text);
}

static void *bind_and_exit(void *arg)
{
	ranks_must(cohort_comm_bind(arg), "bind");
	return NULL;
}

Test(watch, on_verdict_reports_the_exit_of_a_bound_thread)
{
	struct cohort_cause cause;
	pthread_t thread;

	defaults();
	verdicts_attach(&recorded_verdicts, &o);
	open_warm(2);
	pthread_create(&thread, NULL, bind_and_exit, comms[1]);
	pthread_join(thread, NULL);
	cause = ranks_cause(group);
	expect_told(COHORT_VERDICT_THREAD_EXITED, 1, cause.text);
	cr_assert_eq(recorded_verdicts.seen[0].ranks[1].bound, 1);
}

/* Make calls that are allowed in on_verdict, and calls that are not. */
static void call_back(const struct cohort_verdict *v, void *user)
{
	static const char refusal[] = "this call is not allowed in on_verdict";
	struct cohort_cause cause;

	(void)user;
	cr_assert_eq(cohort_group_cause(group, &cause), COHORT_OK);
	cr_assert_eq(cause.status, v->stage == COHORT_STAGE_ENDED
	                                   ? COHORT_ABORTED
	                                   : COHORT_OK);
	cr_assert_eq(cohort_group_abort(group, "by on_verdict"),
	             v->stage == COHORT_STAGE_ENDED ? COHORT_ALREADY
	                                            : COHORT_OK);
	cr_assert_eq(cohort_group_close(group), COHORT_STATE);
	cr_assert_str_eq(cohort_last_error(), refusal);
	cr_assert_eq(cohort_group_respawn(group, NULL, 0), COHORT_STATE);
	cr_assert_str_eq(cohort_last_error(), refusal);
}

Test(watch, on_verdict_may_abort_but_neither_close_nor_respawn)
{
	uint64_t t;

	defaults();
	o.deadlines.join_ns = 10 * SHORT;
	o.policy = COHORT_POLICY_REPORT;
	recorded_verdicts.also = call_back;
	verdicts_attach(&recorded_verdicts, &o);
	open_warm(2);
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_ABORTED);
	expect_close(group);
	cr_assert_eq(recorded_verdicts.count, 2);
	cr_assert_eq(recorded_verdicts.seen[0].stage, COHORT_STAGE_EXPIRED);
	cr_assert_eq(recorded_verdicts.seen[1].stage, COHORT_STAGE_ENDED);
	expect_ending(recorded_verdicts.seen[1].text, "aborted: by on_verdict");
}

static void close_during_close(const struct cohort_verdict *v, void *user)
{
	(void)user;
	if (v->stage != COHORT_STAGE_ENDED)
		return;
	while (cohort_barrier(comms[0], NULL, NULL) != COHORT_STALE)
		test_nap();
	cr_assert_eq(cohort_group_close(group), COHORT_STATE, "%s",
	             cohort_last_error());
}

Test(watch, on_verdict_may_not_close_a_group_that_is_being_closed)
{
	defaults();
	recorded_verdicts.also = close_during_close;
	verdicts_attach(&recorded_verdicts, &o);
	open_warm(2);
	ranks_must(cohort_group_abort(group, "a test"), "abort");
	expect_close(group);
	cr_assert_eq(recorded_verdicts.count, 1);
}

/* ---- options ---------------------------------------------------------- */

static void expect_no_group(const char *text)
{
	struct cohort_group *none = NULL;

	o.platform = place_platform();
	cr_assert_eq(cohort_group_open(NULL, 2, &o, &none), COHORT_INVALID);
	cr_assert_str_eq(cohort_last_error(), text);
	cr_assert_null(none);
}

Test(watch, open_refuses_invalid_watchdog_options)
{
	defaults();
	o.policy = 3;
	expect_no_group(
		"options->policy is 3, not a value of enum cohort_policy");
	o.policy = -1;
	expect_no_group(
		"options->policy is -1, not a value of enum cohort_policy");
	o.policy = COHORT_POLICY_ASK;
	expect_no_group("options->on_verdict is NULL, but "
	                "options->policy is COHORT_POLICY_ASK");
}
