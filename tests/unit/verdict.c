/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of verdicts on made-up snapshots: when a deadline expires, which rank
 * is blamed, and the text
 */

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "support/expect.h"
#include "watch/stall.h"
#include "watch/symbolizer.h"
#include "watch/verdict.h"

#define MS UINT64_C(1000000)
#define S (1000 * MS)

/* Time of every snapshot */
#define NOW (1000 * S)

static struct rank_snapshot ranks[COHORT_MAX_RANKS];
static struct snapshot s;
static struct verdict out;

/* Return the record of an all-reduce that was called @ago_ns ago. */
static struct record call(uint64_t ticket, uint64_t ago_ns)
{
	return (struct record){
		.ticket = ticket,
		.submitted_ns = NOW - ago_ns,
		.kind = OP_ALL_REDUCE,
		.type = COHORT_F32,
		.redop = COHORT_SUM,
		.n = 1,
		.count = 1000,
		.bytes = 4000,
	};
}

/*
 * Set up @n ranks that called collective 6 a minute ago and have not called
 * collective 7.
 */
static void given(int n)
{
	struct rank_snapshot *r;

	s = (struct snapshot){
		.group = "dp",
		.generation = 1,
		.size = n,
		.world = n,
		.abort_ns = 10 * S,
		.starts_are_marked = true,
		.now_ns = NOW,
		.front = 7,
		.reaping_rank = -1,
		.probing = -1,
		.ranks = ranks,
	};
	memset(ranks, 0, sizeof(ranks));
	for (r = ranks; r < ranks + n; r++) {
		r->rank = (int)(r - ranks);
		r->device = r->rank;
		r->last = call(12, 60 * S);
		r->bound = true;
		r->tid = 4000 + r->rank;
		r->alive = 1;
		snprintf(r->thread, sizeof(r->thread), "dp/%d", r->rank);
	}
	verdict_fini(&out);
	cr_assert(verdict_init(&out, n));
}

/*
 * Record that @rank called collective 7 @ago_ns ago, with limits of 10 s to
 * join and 20 s to run.
 */
static struct rank_snapshot *joins(int rank, uint64_t ago_ns)
{
	struct rank_snapshot *r = &ranks[rank];

	r->joined = true;
	r->arrived_ns = NOW - ago_ns;
	r->limits = (struct limits){ 10 * S, 20 * S };
	r->call = call(13, ago_ns);
	r->last = r->call;
	return r;
}

/* Record that all ranks called collective 7, rank 0 @ago_ns ago and each other
 * rank a millisecond after the previous one. */
static void all_join(uint64_t ago_ns)
{
	int i;

	for (i = 0; i < s.size; i++)
		joins(i, ago_ns - (uint64_t)i * MS);
	s.all_joined = true;
}

static struct expiry at(uint64_t now_ns)
{
	s.now_ns = now_ns;
	return expiry_next(&s);
}

/* Return the line of the verdict on collective 7 after its deadline of 10 s has
 * expired. */
static const char *stalled(void)
{
	const struct expiry due = {
		.what = EXPIRY_VERDICT,
		.since_ns = NOW - 10 * S,
		.deadline_ns = 10 * S,
	};

	verdict_stalled(&s, &due, &out);
	return out.line;
}

#define LAST                                                                   \
	"; its last call, all_reduce of 1000 float32, sum (ticket 12), was "   \
	"60.0 s ago"

static void drop(void)
{
	verdict_fini(&out);
}

TestSuite(due, .fini = drop);
TestSuite(verdict, .fini = drop);

/* ---- deadlines -------------------------------------------------------- */

Test(due, no_verdict_is_due_while_nothing_is_in_flight)
{
	given(2);
	s.front = 0;
	cr_assert_eq(expiry_next(&s).what, EXPIRY_NOTHING);
	cr_assert_eq(expiry_next(&s).next_ns, UINT64_MAX);
}

Test(due, verdict_is_due_exactly_at_the_deadline)
{
	given(2);
	joins(0, 10 * S);
	cr_assert_eq(at(NOW - 1).what, EXPIRY_NOTHING);
	cr_assert_eq(at(NOW - 1).next_ns, NOW);
	cr_assert_eq(at(NOW).what, EXPIRY_VERDICT);
	cr_assert_eq(at(NOW).since_ns, NOW - 10 * S);
	cr_assert_eq(at(NOW).deadline_ns, 10 * S);
}

Test(due, earliest_of_several_deadlines_decides_when_a_verdict_is_due)
{
	given(4);
	joins(0, 9 * S);
	joins(1, 3 * S)->limits.join_ns = 4 * S;
	joins(3, 9 * S + 1);
	cr_assert_eq(at(NOW).next_ns, NOW + S - 1);
	ranks[1].limits.join_ns = 3 * S;
	cr_assert_eq(at(NOW).what, EXPIRY_VERDICT);
	cr_assert_eq(at(NOW).since_ns, NOW - 3 * S);
	cr_assert_eq(at(NOW).deadline_ns, 3 * S);
}

Test(due, exec_deadline_starts_when_the_last_rank_joins)
{
	given(2);
	all_join(60 * S);
	joins(1, 20 * S);
	cr_assert_eq(at(NOW - 1).what, EXPIRY_NOTHING);
	cr_assert_eq(at(NOW).what, EXPIRY_VERDICT);
	cr_assert_eq(at(NOW).since_ns, NOW - 20 * S);
	cr_assert_eq(at(NOW).deadline_ns, 20 * S);
}

Test(due, rank_that_is_done_has_no_exec_deadline)
{
	given(2);
	all_join(30 * S);
	ranks[0].done = true;
	ranks[1].limits.exec_ns = 60 * S;
	cr_assert_eq(at(NOW).what, EXPIRY_NOTHING);
	cr_assert_eq(at(NOW).next_ns, NOW + 30 * S + MS);
}

Test(due, deadline_does_not_expire_while_a_rank_is_paused)
{
	given(2);
	joins(0, 60 * S);
	s.paused = true;
	cr_assert_eq(at(NOW).what, EXPIRY_NOTHING);
	cr_assert_eq(at(NOW).next_ns, UINT64_MAX);
}

Test(due, deadline_starts_anew_after_a_pause)
{
	given(2);
	joins(0, 60 * S);
	s.resumed_ns = NOW - 2 * S;
	cr_assert_eq(at(NOW).what, EXPIRY_NOTHING);
	cr_assert_eq(at(NOW).next_ns, NOW + 8 * S);
	cr_assert_eq(at(NOW + 8 * S).what, EXPIRY_VERDICT);
	cr_assert_eq(at(NOW + 8 * S).since_ns, NOW - 2 * S);
}

Test(due, pause_before_a_call_does_not_change_its_deadline)
{
	given(2);
	joins(0, 2 * S);
	s.resumed_ns = NOW - 3 * S;
	cr_assert_eq(at(NOW).next_ns, NOW + 8 * S);
	cr_assert_eq(at(NOW + 8 * S).since_ns, NOW - 2 * S);
}

/* Set adaptive limits of 3 s to join and 4 s to run, which took effect 1 s
 * ago. */
static void adapts(void)
{
	s.adapted = (struct adapted){
		.limits = { 3 * S, 4 * S },
		.since_ns = NOW - S,
		.asked = { .factor = 8, .warmup = 100, .floor_ns = S },
		.join = { 512, 375 * MS },
		.exec = { 300, 500 * MS },
		.op_class = 17, /* all_reduce, up to 64 KiB */
	};
}

Test(due, adaptive_limit_makes_a_deadline_expire_earlier)
{
	given(2);
	joins(0, 4 * S);
	adapts();
	cr_assert_eq(at(NOW).what, EXPIRY_NOTHING);
	cr_assert_eq(at(NOW).next_ns, NOW + 2 * S);
	cr_assert(at(NOW + 2 * S).is_adapted);
	cr_assert_eq(at(NOW + 2 * S).what, EXPIRY_VERDICT);
	cr_assert_eq(at(NOW + 2 * S).since_ns, NOW - S);
	cr_assert_eq(at(NOW + 2 * S).deadline_ns, 3 * S);
	cr_assert_eq(at(NOW + 2 * S).most_ns, 10 * S);
}

Test(due, adaptive_limit_counts_from_the_call_if_that_is_later)
{
	given(2);
	all_join(S / 2);
	joins(1, S / 4);
	adapts();
	cr_assert_eq(at(NOW).next_ns, NOW - S / 4 + 4 * S);
}

Test(due, adaptive_limit_never_extends_a_deadline)
{
	given(2);
	joins(0, 9 * S);
	adapts();
	s.adapted.limits.join_ns = 9 * S;
	cr_assert_eq(at(NOW).next_ns, NOW + S);
	cr_assert_not(at(NOW).is_adapted);
	s.adapted.limits.join_ns = 20 * S;
	joins(0, S);
	cr_assert_eq(at(NOW).next_ns, NOW + 9 * S);
	s.adapted.limits.join_ns = 0;
	cr_assert_eq(at(NOW).next_ns, NOW + 9 * S);
}

Test(due, adaptive_limit_starts_anew_after_a_pause_or_a_stop)
{
	given(2);
	joins(0, 4 * S);
	adapts();
	s.resumed_ns = NOW - S / 2;
	cr_assert_eq(at(NOW).next_ns, NOW - S / 2 + 3 * S);
	stops_record(&s.stops, NOW - S / 4, NOW - S / 4, NOW, 1);
	cr_assert_eq(at(NOW).next_ns, NOW - S / 4 + 3 * S);
	s.paused = true;
	cr_assert_eq(at(NOW).next_ns, UINT64_MAX);
}

Test(verdict, verdict_explains_an_adaptive_limit)
{
	struct expiry due;

	given(2);
	joins(0, 4 * S);
	adapts();
	due = at(NOW + 2 * S);
	verdict_stalled(&s, &due, &out);
	expect_text(out.text, "since  3.0 s (limit 3.0 s (8 x "
	                      "375 ms, observed over 512 all_reduce "
	                      "operations of up to 64 KiB; at least 1.0 s, "
	                      "at most 10.0 s)); ");
	all_join(4 * S);
	s.adapted.exec = (struct window){ 1, 1230000 };
	s.adapted.op_class = OP_BARRIER * 65;
	due = at(NOW + 3 * S);
	verdict_stalled(&s, &due, &out);
	expect_text(out.text, "(8 x 1.23 ms, observed over 1 "
	                      "barrier operation; at least");
}

Test(due, infinite_deadline_never_expires)
{
	given(2);
	joins(0, 60 * S)->limits.join_ns = COHORT_FOREVER;
	cr_assert_eq(at(NOW).what, EXPIRY_NOTHING);
	cr_assert_eq(at(NOW).next_ns, UINT64_MAX);
}

Test(due, infinite_deadline_of_a_rank_does_not_affect_others)
{
	given(3);
	joins(0, 60 * S)->limits.join_ns = COHORT_FOREVER;
	joins(1, 10 * S);
	cr_assert_eq(at(NOW).what, EXPIRY_VERDICT);
	cr_assert_eq(at(NOW).since_ns, NOW - 10 * S);
}

Test(due, deadline_beyond_the_range_of_the_clock_never_expires)
{
	given(2);
	joins(0, S)->limits.join_ns = UINT64_MAX - NOW;
	cr_assert_eq(at(NOW).what, EXPIRY_NOTHING);
	cr_assert_eq(at(UINT64_MAX - S - 1).what, EXPIRY_NOTHING);
	cr_assert_eq(at(UINT64_MAX - S).what, EXPIRY_VERDICT);
	ranks[0].limits.join_ns = UINT64_MAX - NOW + 2 * S;
	cr_assert_eq(at(UINT64_MAX).what, EXPIRY_NOTHING);
}

Test(due, expired_deadline_is_due_again_after_the_same_time)
{
	given(2);
	joins(0, 20 * S);
	s.expired = 1;
	cr_assert_eq(at(NOW - 1).what, EXPIRY_NOTHING);
	cr_assert_eq(at(NOW - 1).next_ns, NOW);
	cr_assert_eq(at(NOW).what, EXPIRY_VERDICT);
	s.expired = 2;
	cr_assert_eq(at(NOW).what, EXPIRY_NOTHING);
	cr_assert_eq(at(NOW).next_ns, NOW + 10 * S);
}

Test(due, repeated_expiry_of_a_deadline_does_not_overflow)
{
	given(2);
	joins(0, 20 * S)->limits.join_ns = UINT64_MAX / 2;
	s.expired = 2;
	cr_assert_eq(at(NOW).what, EXPIRY_NOTHING);
	cr_assert_eq(at(NOW).next_ns, UINT64_MAX);
}

Test(verdict, exec_deadline_starts_when_the_older_call_is_done)
{
	given(2);
	all_join(60 * S);
	s.moved_ns = NOW - 5 * S;
	cr_assert_eq(at(NOW).what, EXPIRY_NOTHING);
	cr_assert_eq(at(NOW + 15 * S).what, EXPIRY_VERDICT);
	cr_assert_eq(at(NOW + 15 * S).since_ns, NOW - 5 * S);
}

/* ---- never called ----------------------------------------------------- */

Test(verdict, verdict_names_a_rank_that_never_called_anything)
{
	given(2);
	joins(0, 10 * S);
	ranks[1] =
		(struct rank_snapshot){ .rank = 1, .device = 1, .alive = -1 };
	cr_assert_str_eq(
		stalled(),
		"rank 1 has not called all_reduce 7 of \"dp\" (10.0 s, limit "
		"10.0 s): it has never called anything; rank 0 waits");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NEVER_CALLED);
	cr_assert_eq(out.v.stage, COHORT_STAGE_EXPIRED);
	cr_assert_eq(out.v.rank, 1);
	cr_assert_eq(out.v.joined[0], 1);
	cr_assert_eq(out.v.missing[0], 2);
}

Test(verdict, verdict_names_a_rank_that_has_only_been_bound)
{
	given(2);
	joins(0, 10 * S);
	ranks[1].last.ticket = 0;
	cr_assert_str_eq(
		stalled(),
		"rank 1 has not called all_reduce 7 of \"dp\" (10.0 s, limit "
		"10.0 s): it is busy in the program; rank 0 waits");
}

Test(verdict, verdict_names_a_rank_whose_thread_was_not_examined)
{
	given(2);
	joins(0, 10 * S);
	ranks[1].alive = -1;
	cr_assert_str_eq(
		stalled(),
		"rank 1 has not called all_reduce 7 of \"dp\" (10.0 s, limit "
		"10.0 s): it is busy in the program; rank 0 waits");
}

Test(verdict, verdict_names_a_rank_that_has_left)
{
	given(2);
	joins(0, 10 * S);
	ranks[1].closed = true;
	cr_assert_str_eq(
		stalled(),
		"rank 1 has left: its communicator was closed (10.0 s, limit "
		"10.0 s); rank 0 waits for it in all_reduce 7 of \"dp\"");
}

/* ---- busy elsewhere --------------------------------------------------- */

Test(verdict, verdict_names_a_rank_that_is_busy_in_the_program)
{
	given(2);
	joins(0, 10 * S);
	cr_assert_str_eq(
		stalled(),
		"rank 1 has not called all_reduce 7 of \"dp\" (10.0 s, limit "
		"10.0 s): it is busy in the program; rank 0 waits");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_OUTSIDE);
	cr_assert_eq(out.v.rank, 1);
}

Test(verdict, verdict_says_what_a_rank_needs_from_its_program)
{
	given(2);
	joins(0, 10 * S);
	snprintf(ranks[1].awaits, sizeof(ranks[1].awaits),
	         "parameter 'fc.bias' to be marked ready");
	cr_assert_str_eq(
		stalled(),
		"rank 1 has not called all_reduce 7 of \"dp\" (10.0 s, limit "
		"10.0 s): it is busy in the program; rank 0 waits; it needs "
		"parameter 'fc.bias' to "
		"be marked ready");
}

Test(verdict, verdict_names_a_rank_that_uses_its_native_communicator)
{
	given(2);
	joins(0, 10 * S);
	ranks[1].inside = true;
	ranks[1].native = true;
	cr_assert_str_eq(
		stalled(),
		"rank 1 has not called all_reduce 7 of \"dp\" (10.0 s, limit "
		"10.0 s): it is using its native communicator; rank 0 waits");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_OUTSIDE);
}

Test(verdict, verdict_names_a_rank_that_waits_in_a_host_memory_call)
{
	given(2);
	joins(0, 10 * S);
	ranks[1].inside = ranks[1].staged = true;
	cr_assert_str_eq(
		stalled(),
		"rank 1 has not called all_reduce 7 of \"dp\" (10.0 s, limit "
		"10.0 s): it waits in a call with host memory; rank 0 waits");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_DIFFERENT_CALL);
	cr_assert_eq(out.v.ranks[1].inside, 1);
}

Test(verdict, verdict_names_a_rank_inside_another_call)
{
	given(2);
	joins(0, 10 * S);
	ranks[1].inside = true;
	cr_assert_str_eq(
		stalled(),
		"rank 1 has not called all_reduce 7 of \"dp\" (10.0 s, limit "
		"10.0 s): it is inside all_reduce; rank 0 waits");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_DIFFERENT_CALL);
}

Test(verdict, verdict_names_a_rank_whose_thread_has_exited)
{
	given(2);
	joins(0, 10 * S);
	ranks[1].alive = 0;
	ranks[1].thread[0] = '\0';
	cr_assert_str_eq(
		stalled(),
		"rank 1 has not called all_reduce 7 of \"dp\" (10.0 s, limit "
		"10.0 s): its thread has exited; rank 0 waits");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_THREAD_EXITED);
}

Test(verdict, verdict_names_a_rank_that_is_not_bound_to_a_thread)
{
	given(2);
	joins(0, 10 * S);
	ranks[1].bound = false;
	snprintf(ranks[1].state, sizeof(ranks[1].state), "asleep in futex");
	cr_assert_str_eq(
		stalled(),
		"rank 1 has not called all_reduce 7 of \"dp\" (10.0 s, limit "
		"10.0 s): asleep in futex; rank 0 waits");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_OUTSIDE);
	cr_assert_eq(out.v.ranks[0].bound, 1);
	cr_assert_eq(out.v.ranks[1].bound, 0);
}

Test(verdict, verdict_says_that_the_last_caller_of_an_unbound_rank_exited)
{
	given(2);
	joins(0, 10 * S);
	ranks[1].bound = false;
	ranks[1].alive = 0;
	ranks[1].thread[0] = '\0';
	cr_assert_str_eq(
		stalled(),
		"rank 1 has not called all_reduce 7 of \"dp\" (10.0 s, limit "
		"10.0 s): the thread that last used it has exited; rank "
		"0 waits");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_OUTSIDE);
}

Test(verdict, verdict_names_an_unbound_rank_whose_thread_died_in_a_call)
{
	given(2);
	joins(0, 10 * S);
	ranks[1].bound = false;
	ranks[1].inside = true;
	ranks[1].alive = 0;
	cr_assert_str_eq(
		stalled(),
		"rank 1 has not called all_reduce 7 of \"dp\" (10.0 s, limit "
		"10.0 s): its thread has exited; rank 0 waits");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_THREAD_EXITED);
}

/* ---- on the device ---------------------------------------------------- */

Test(verdict, verdict_names_the_one_rank_that_has_not_started)
{
	given(2);
	all_join(10 * S);
	ranks[0].started = true;
	cr_assert_str_eq(
		stalled(),
		"rank 1 has not started all_reduce 7 of \"dp\" (10.0 s, limit "
		"10.0 s): its stream is still busy with earlier work; rank "
		"0 waits");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_STARTED);
	cr_assert_eq(out.v.rank, 1);
	cr_assert_eq(out.v.joined[0], 3);
	cr_assert_eq(out.v.missing[0], 2);
}

Test(verdict, verdict_names_the_one_rank_inside_its_native_call)
{
	given(2);
	all_join(10 * S);
	ranks[0].started = true;
	ranks[1].started = true;
	ranks[1].in_call = true;
	cr_assert_str_eq(
		stalled(),
		"rank 1 has not returned from the native call of all_reduce 7 "
		"of \"dp\" (10.0 s, limit 10.0 s): it is inside ncclAllReduce; "
		"rank 0 waits");
	cr_assert_eq(out.v.rank, 1);
}

Test(verdict, verdict_blames_no_rank_if_all_started_and_none_is_done)
{
	given(2);
	all_join(10 * S);
	ranks[0].started = true;
	ranks[1].started = true;
	cr_assert_str_eq(
		stalled(),
		"all_reduce 7 of \"dp\" has started and has not finished on "
		"ranks 0-1 (10.0 s, limit 10.0 s)");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_FINISHED);
	cr_assert_eq(out.v.rank, -1);
}

Test(verdict, verdict_names_the_one_rank_that_is_not_done)
{
	given(3);
	all_join(10 * S);
	ranks[0].started = ranks[0].done = true;
	ranks[1].started = true;
	ranks[2].started = ranks[2].done = true;
	cr_assert_str_eq(
		stalled(),
		"all_reduce 7 of \"dp\" has started and has not finished on "
		"rank 1 (10.0 s, limit 10.0 s); ranks 0, 2 wait");
	cr_assert_eq(out.v.rank, 1);
}

Test(verdict, verdict_blames_the_only_rank_of_a_group)
{
	given(1);
	all_join(10 * S);
	ranks[0].started = true;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_FINISHED);
	cr_assert_eq(out.v.rank, 0);
}

Test(verdict, without_start_marks_a_rank_counts_as_started_after_its_call)
{
	given(2);
	all_join(10 * S);
	s.starts_are_marked = false;
	cr_assert_str_eq(
		stalled(),
		"all_reduce 7 of \"dp\" has not finished on ranks 0-1 (10.0 s, "
		"limit 10.0 s)");
	ranks[1].in_call = true;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_STARTED);
	cr_assert_eq(out.v.rank, 1);
}

/* ---- many ranks ------------------------------------------------------- */

Test(verdict, verdict_has_the_kind_of_the_first_missing_rank)
{
	given(4);
	joins(1, 10 * S);
	joins(3, 10 * S);
	ranks[0].inside = true;
	cr_assert_str_eq(stalled(),
	                 "ranks 0, 2 have not called all_reduce 7 of \"dp\" "
	                 "(10.0 s, limit 10.0 s): rank 0 is inside all_reduce; "
	                 "ranks 1, 3 wait");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_DIFFERENT_CALL);
	cr_assert_eq(out.v.rank, 0);
	cr_assert_eq(out.v.missing[0], 5);
	expect_text(out.text, "\nalso   rank 2 (");
}

Test(verdict, verdict_blames_no_rank_if_less_than_half_have_called)
{
	given(4);
	snprintf(joins(0, 10 * S)->tag, TAG_SIZE, "save");
	snprintf(ranks[1].tag_now, TAG_SIZE, "step 60");
	cr_assert_str_eq(stalled(),
	                 "rank 0 alone waits in all_reduce 7 of \"dp\" (tag "
	                 "\"save\") (10.0 s, limit 10.0 s); ranks 1-3 are "
	                 "between calls (tag \"step 60\")");
	cr_assert_eq(out.v.rank, -1);
	cr_assert_eq(out.v.missing[0], 0);
	cr_assert_eq(out.v.joined[0], 1);
	ranks[2].alive = 0;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_THREAD_EXITED);
	cr_assert_eq(out.v.rank, 2);
	cr_assert_eq(out.v.missing[0], 4);
}

/* Let rank 3 hold Python's interpreter lock, for which ranks 0 and 1 wait. */
static struct stack_report *hold_python(void)
{
	static struct stack_report stacks[4];
	int i;

	given(4);
	joins(2, 10 * S);
	for (i = 0; i < 4; i++) {
		ranks[i].stack = &stacks[i];
		stacks[i].holds_python = i == 3;
	}
	strcpy(stacks[0].text, "take_gil+0x1f < PyEval_RestoreThread+0x9");
	strcpy(stacks[1].text, "PyEval_RestoreThread+0x9 < call+0x3");
	strcpy(stacks[3].text, "match+0x5");
	strcpy(stacks[3].brief, "match+0x5");
	strcpy(ranks[3].state, "running");
	return stacks;
}

Test(verdict, verdict_blames_only_the_rank_that_holds_the_interpreter_lock)
{
	hold_python();
	cr_assert_str_eq(stalled(),
	                 "rank 3 has not called all_reduce 7 of \"dp\" (10.0 "
	                 "s, limit 10.0 s): running at match+0x5; rank 2 "
	                 "waits");
	cr_assert_eq(out.v.rank, 3);
	cr_assert_eq(out.v.world_rank, 3);
	cr_assert_eq(out.v.missing[0], 8);
	cr_assert_eq(out.v.kind, COHORT_VERDICT_OUTSIDE);
	expect_text(out.text, "; it holds Python's interpreter "
	                      "lock\n");
	expect_text(out.text, "\nnote   ranks 0-1 wait for "
	                      "Python's interpreter lock");
}

Test(verdict, ranks_that_do_not_wait_for_the_interpreter_lock_are_blamed)
{
	struct stack_report *stacks = hold_python();

	joins(0, 10 * S);
	strcpy(stacks[1].text, "PyThread_acquire_lock_timed+0x20");
	stalled();
	cr_assert_eq(out.v.missing[0], 0xa);
	strcpy(stacks[1].text, "take_gil+0x1f");
	stalled();
	cr_assert_eq(out.v.missing[0], 8);
	stacks[1].holds_python = 1;
	stalled();
	cr_assert_eq(out.v.missing[0], 0xa);
	ranks[1].stack = NULL;
	stalled();
	cr_assert_eq(out.v.missing[0], 0xa);
}

/* Let ranks 1 and 3 wait for rank 2 in a child communicator. */
static void wait_in_child(void)
{
	s.waits.link_count = 1;
	s.waits.links[0] =
		(struct wait_link){ .worlds = { 0xa }, .for_world = 2 };
	strcpy(s.waits.links[0].call, "all_reduce 3 of group \"dp.1\"");
	s.waits.culprit_count = 1;
	s.waits.culprits[0] =
		(struct culprit){ .world = 2, .rank = 1, .at = ranks[2] };
	strcpy(s.waits.culprits[0].call, "all_reduce 3 of \"dp.1\"");
	s.waits.here[0] = 4;
}

Test(verdict, verdict_blames_the_rank_that_missing_ranks_wait_for)
{
	given(4);
	joins(0, 10 * S);
	wait_in_child();
	cr_assert_str_eq(
		stalled(),
		"rank 2 has not called all_reduce 3 of \"dp.1\", where "
		"it is rank 1 (10.0 s, limit 10.0 s): it is busy in "
		"the program; rank 0 waits; ranks 1, 3 wait in "
		"all_reduce 3 of group \"dp.1\" for rank 2");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_OUTSIDE);
	cr_assert_eq(out.v.rank, 2);
	cr_assert_eq(out.v.world_rank, 2);
	cr_assert_eq(out.v.missing[0], 4);
}

Test(verdict, verdict_blames_no_local_rank_if_the_culprit_is_remote)
{
	given(2);
	joins(0, 10 * S);
	wait_in_child();
	s.waits.here[0] = 0;
	stalled();
	cr_assert_eq(out.v.rank, -1);
	cr_assert_eq(out.v.world_rank, 2);
	cr_assert_eq(out.v.missing[0], 0);
}

/* Rank 1 has left, and ranks 0 and 3 wait for it. Rank 1 itself waits for rank
 * 2 in another communicator. */
Test(verdict, verdict_blames_a_rank_that_has_left_even_if_it_waits)
{
	given(4);
	joins(0, 10 * S);
	joins(3, 10 * S);
	wait_in_child();
	s.waits.links[0].worlds[0] = 2;
	ranks[1].closed = true;
	cr_assert_str_eq(stalled(),
	                 "rank 1 has left: its communicator was closed (10.0 "
	                 "s, limit 10.0 s); ranks 0, 3 wait for it in "
	                 "all_reduce 7 of \"dp\"");
	cr_assert_eq(out.v.rank, 1);
}

Test(verdict, verdict_says_how_the_last_rank_of_a_chain_has_left)
{
	given(4);
	joins(0, 10 * S);
	ranks[2].returned = true;
	wait_in_child();
	cr_assert_str_eq(stalled(),
	                 "rank 2 has left: its worker returned 0 (10.0 s, "
	                 "limit 10.0 s); rank 0 waits for it in all_reduce 7 "
	                 "of \"dp\"; ranks 1, 3 wait in all_reduce 3 of group "
	                 "\"dp.1\" for rank 2");
	/* Now rank 2 has left only the child communicator. */
	ranks[2].returned = false;
	s.waits.culprits[0].at.returned = true;
	cr_assert_eq(strncmp(stalled(), "rank 2 has left: its worker", 27), 0,
	             "%s", out.line);
}

Test(verdict, several_ranks_that_have_left_are_named_together)
{
	given(4);
	joins(0, 10 * S);
	joins(3, 10 * S);
	ranks[1].returned = ranks[2].returned = true;
	cr_assert_str_eq(stalled(),
	                 "ranks 1-2 have left: their workers returned 0 (10.0 "
	                 "s, limit 10.0 s); ranks 0, 3 wait for them in "
	                 "all_reduce 7 of \"dp\"");
	expect_text(out.text, "\nalso   rank 2 (thread 4002 \"dp/2\", "
	                      "device 2) has left: its worker returned 0;");
	ranks[2].closed = true;
	cr_assert_eq(strncmp(stalled(), "ranks 1-2 have left (10.0 s", 27), 0,
	             "%s", out.line);
}

Test(verdict, majority_that_has_left_is_not_blamed)
{
	given(4);
	joins(0, 10 * S);
	ranks[1].returned = ranks[2].returned = ranks[3].returned = true;
	cr_assert_str_eq(
		stalled(),
		"rank 0 alone waits in all_reduce 7 of \"dp\" (10.0 s, "
		"limit 10.0 s); ranks 1-3 have left");
	cr_assert_eq(out.v.rank, -1);
	ranks[3].returned = false;
	stalled();
	cr_assert_eq(out.v.rank, 1, "%s", out.line);
	cr_assert_eq(out.v.missing[0], 6);
}

Test(verdict, verdict_says_that_a_rank_never_called_in_this_group)
{
	given(2);
	joins(0, 10 * S);
	ranks[1].last.ticket = 0;
	ranks[1].is_new = true;
	ranks[1].bound = false;
	snprintf(ranks[1].state, sizeof(ranks[1].state), "asleep in futex");
	cr_assert_str_eq(stalled(),
	                 "rank 1 has not called all_reduce 7 of \"dp\" (10.0 "
	                 "s, limit 10.0 s): asleep in futex; rank 0 waits");
	expect_text(out.text, "\nwhy    it has never called anything in "
	                      "this communicator; last seen in thread 4001 "
	                      "\"dp/1\", which is asleep in futex");
}

Test(verdict, ranks_of_a_split_group_are_named_by_both_numbers)
{
	given(2);
	s.is_child = true;
	s.world = 2;
	ranks[0].world = 2;
	ranks[1].world = 3;
	joins(0, 10 * S);
	cr_assert_str_eq(stalled(),
	                 "rank 3 (1 in \"dp\") has not called all_reduce 7 of "
	                 "\"dp\" (10.0 s, limit 10.0 s): it is busy in the "
	                 "program; rank 2 (0 in \"dp\") waits");
	cr_assert_eq(out.v.rank, 1);
	cr_assert_eq(out.v.world_rank, 3);
	cr_assert_str_eq(out.ranks[1].text,
	                 "rank 3 (1 in \"dp\", thread 4001 \"dp/1\", device 1) "
	                 "is alive, busy in the program" LAST);
}

Test(verdict, long_names_of_ranks_of_a_split_group_are_not_cut)
{
	given(4);
	s.is_child = true;
	s.group =
		"a group whose name has sixty-three characters, and needs them";
	s.world = 4;
	ranks[1].world = 1001;
	ranks[2].world = 1002;
	joins(0, 10 * S);
	joins(3, 10 * S);
	stalled();
	expect_text(out.text, "\nwhy    rank 1001 (1 in \"a group whose name "
	                      "has sixty-three characters, and needs "
	                      "them\") ");
}

/* Set all optional texts that a verdict shows for a rank. */
static void say_all_of(struct rank_snapshot *r)
{
	snprintf(r->state, sizeof(r->state), "asleep in clock_nanosleep");
	snprintf(r->awaits, sizeof(r->awaits),
	         "parameter 'encoder.layers.11.attention.output.weight' (and "
	         "37 more) to be marked ready");
	snprintf(r->tag, sizeof(r->tag), "bucket 12/37: encoder.layers.11...");
}

Test(verdict, verdict_line_has_at_most_200_bytes)
{
	static struct stack_report stack;
	int i, n;

	snprintf(stack.brief, sizeof(stack.brief),
	         "asleep_in_here < load_the_next_batch < train < worker_main < "
	         "start_thread < clone3");
	for (n = 4; n <= COHORT_MAX_RANKS; n *= 2) {
		given(n);
		joins(0, 10 * S);
		for (i = 2; i < n; i += 2)
			joins(i, 10 * S);
		for (i = 1; i < n; i += 2)
			say_all_of(&ranks[i]);
		ranks[1].stack = &stack;
		cr_assert_leq(strlen(stalled()), 200, "%s", out.line);
		expect_text(out.line, "have not called");
	}
	expect_text(out.text, " 29, 31 and 496 more have not ");
	cr_assert(rank_set_has(out.v.missing, 1023));
}

Test(verdict, verdict_describes_at_most_three_more_missing_ranks)
{
	int i;

	given(16);
	for (i = 0; i < 8; i++)
		joins(i, 10 * S);
	stalled();
	expect_text(out.text, "\nalso   rank 9 (");
	expect_text(out.text, "\nalso   rank 11 (");
	cr_assert_null(strstr(out.text, "rank 12 ("), "%s", out.text);
}

Test(verdict, verdict_prints_sets_of_ranks_as_ranges)
{
	int i;

	given(130);
	for (i = 0; i < 130; i++)
		if (i != 4 && i != 6 && i != 65)
			joins(i, 10 * S);
	cr_assert_str_eq(stalled(),
	                 "ranks 4, 6, 65 have not called all_reduce 7 of "
	                 "\"dp\" (10.0 s, limit 10.0 s): rank 4 is busy in the "
	                 "program; ranks 0-3, 5, 7-64, 66-129 wait");
	cr_assert_eq(out.v.joined[1], ~UINT64_C(2));
	cr_assert_eq(out.v.missing[1], 2);
}

Test(verdict, verdict_names_the_last_of_1024_ranks)
{
	int i;

	given(1024);
	for (i = 0; i < 1023; i++)
		joins(i, 10 * S);
	cr_assert_str_eq(
		stalled(),
		"rank 1023 has not called all_reduce 7 of \"dp\" (10.0 s, "
		"limit 10.0 s): it is busy in the program; ranks 0-1022 wait");
	cr_assert_eq(out.v.rank, 1023);
	cr_assert_eq(out.v.missing[15], UINT64_C(1) << 63);
	cr_assert_eq(out.v.size, 1024);
	cr_assert_eq(out.v.ranks[1023].tid, 5023);
}

/* All thread names have the maximum length. */
Test(verdict, verdict_block_with_the_longest_stack_is_not_cut)
{
	static struct stack_report stacks[STACK_RANKS];
	int i;

	given(8);
	joins(0, 10 * S);
	for (i = 1; i < 8; i++) {
		joins(i, 10 * S);
		memset(ranks[i].thread, 'n', sizeof(ranks[i].thread) - 1);
		strcpy(ranks[i].state, "asleep in clock_nanosleep");
	}
	memset(stacks[1].brief, 'f', sizeof(stacks[1].brief) - 1);
	memset(stacks[1].text, 'f', sizeof(stacks[1].text) - 1);
	ranks[1].joined = false;
	ranks[1].stack = &stacks[1];
	stalled();
	cr_assert_lt(strlen(out.text), sizeof(out.text) - 1);
	expect_text(out.text, "\nwait   ranks 0, 2-7, in ");
	cr_assert_eq(out.v.rank_size, sizeof(out.v.ranks[0]));
	cr_assert_str_eq(out.v.ranks[1].stack, stacks[1].text);
}

/* Eight function names of 100 bytes share the room in equal parts. */
Test(verdict, verdict_block_has_eight_frames_even_with_long_names)
{
	static struct stack_report stack;
	struct text t = { stack.brief, sizeof(stack.brief) };
	char name[101], start[16];
	int i;

	given(2);
	joins(0, 10 * S);
	say_all_of(&ranks[1]);
	ranks[1].stack = &stack;
	for (i = 0; i < 8; i++) {
		memset(name, 'a' + i, sizeof(name) - 1);
		name[100] = '\0';
		text_add(&t, "%s%s", i ? " < " : "", name);
	}
	stalled();
	for (i = 0; i < 8; i++) {
		memset(start, 'a' + i, sizeof(start) - 1);
		start[15] = '\0';
		expect_text(out.text, start);
	}
	expect_text(out.text, "\n       bbb");
}

Test(verdict, function_named_stack_is_not_taken_for_a_missing_stack)
{
	static struct stack_report stack;

	given(2);
	joins(0, 10 * S);
	ranks[1].stack = &stack;
	strcpy(stack.brief, "stack_up < main");
	stalled();
	expect_text(out.text, "\nwhere  stack_up\n       main\n");
	strcpy(stack.text, STACK_UNAVAILABLE "it is gone");
	stalled();
	expect_text(out.text, "\nwhere  " STACK_UNAVAILABLE "it is gone\n");
}

Test(verdict, verdict_says_if_a_call_is_no_longer_recorded)
{
	given(2);
	joins(0, 10 * S)->call.ticket = 0;
	cr_assert_str_eq(
		stalled(),
		"rank 1 has not called collective 7 of \"dp\" (10.0 s, "
		"limit 10.0 s): it is busy in the program; rank 0 "
		"waits");
	expect_text(out.text, ", in a call that is no longer on record");
}

/* ---- other contents --------------------------------------------------- */

Test(verdict, slow_report_says_how_long_a_rank_has_waited)
{
	const struct expiry due = {
		.what = EXPIRY_SLOW,
		.since_ns = NOW - 250 * MS,
		.deadline_ns = 500 * MS,
	};

	given(2);
	joins(0, 250 * MS);
	ranks[1] =
		(struct rank_snapshot){ .rank = 1, .device = 1, .alive = -1 };
	verdict_stalled(&s, &due, &out);
	cr_assert_str_eq(
		out.line,
		"rank 1 has not called all_reduce 7 of \"dp\" (250 ms, "
		"slow after 500 ms): it has never called anything; rank 0 "
		"waits");
	cr_assert_str_eq(out.text,
	                 "SLOW   rank 1 has not called all_reduce 7 of \"dp\" "
	                 "(generation 1)\n"
	                 "why    it has never called anything\n"
	                 "since  250 ms (slow after 500 ms)\n"
	                 "wait   rank 0, in all_reduce of 1000 float32, sum");
	cr_assert_eq(out.v.stage, COHORT_STAGE_SLOW);
	cr_assert_eq(out.v.since_ns, NOW - 250 * MS);
	cr_assert_eq(out.v.deadline_ns, 500 * MS);
	cr_assert_eq(out.v.time_ns, NOW);
	cr_assert_eq(out.v.collective, 7);
	cr_assert_eq(out.v.generation, 1);
	cr_assert_str_eq(out.v.group, "dp");
	cr_assert_eq(out.v.size, 2);
}

Test(verdict, verdict_mentions_a_query_of_the_prober_that_hangs)
{
	given(2);
	all_join(10 * S);
	ranks[0].started = true;
	s.probing = 1;
	s.asking = "ncclCommGetAsyncError";
	s.probing_since_ns = NOW - 3 * S;
	stalled();
	expect_text(out.text, "\nnote   ncclCommGetAsyncError of rank 1 "
	                      "has not returned for 3.0 s");
}

Test(verdict, verdict_has_a_report_for_every_rank)
{
	const struct cohort_rank_report *r;

	given(2);
	joins(0, 10 * S)->started = true;
	ranks[1].inside = true;
	ranks[1].alive = -1;
	stalled();
	r = &out.v.ranks[0];
	cr_assert_eq(r->joined, 1);
	cr_assert_eq(r->started, 1);
	cr_assert_eq(r->done, 0);
	cr_assert_eq(r->alive, 1);
	cr_assert_eq(r->inside, 0);
	cr_assert_eq(r->ticket, 13);
	cr_assert_eq(r->age_ns, 10 * S);
	r = &out.v.ranks[1];
	cr_assert_eq(r->rank, 1);
	cr_assert_eq(r->device, 1);
	cr_assert_eq(r->joined, 0);
	cr_assert_eq(r->alive, -1);
	cr_assert_eq(r->inside, 1);
	cr_assert_eq(r->tid, 4001);
	cr_assert_str_eq(r->thread, "dp/1");
	cr_assert_eq(r->age_ns, 60 * S);
	cr_assert_str_eq(r->call, "all_reduce of 1000 float32, sum");
	cr_assert_str_eq(r->text,
	                 "rank 1 (thread 4001 \"dp/1\", device 1) is inside "
	                 "another call" LAST);
	cr_assert_str_eq(out.v.ranks[0].text,
	                 "rank 0 (thread 4000 \"dp/0\", device 0) has started, "
	                 "but not finished");
}

Test(verdict, report_of_a_rank_that_made_no_call_has_no_call)
{
	given(2);
	joins(0, 10 * S);
	ranks[1].last.ticket = 0;
	stalled();
	cr_assert_eq(out.v.ranks[1].ticket, 0);
	cr_assert_eq(out.v.ranks[1].age_ns, 0);
	cr_assert_str_eq(out.v.ranks[1].call, "");
}

/* ---- the end of a group ----------------------------------------------- */

Test(verdict, verdict_on_the_end_of_a_group_has_the_causes_fields)
{
	struct cohort_cause cause = {
		.status = COHORT_WORKER,
		.kind = COHORT_VERDICT_WORKER,
		.rank = 1,
		.collective = 9,
		.time_ns = NOW - S,
		.since_ns = NOW - 3 * S,
		.deadline_ns = 2 * S,
		.joined = { 5 },
		.missing = { 2 },
		.text = "the worker of rank 1 returned 3",
	};

	given(2);
	verdict_ended(&s, &cause, &out);
	cr_assert_str_eq(out.text, "the worker of rank 1 returned 3");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_WORKER);
	cr_assert_eq(out.v.stage, COHORT_STAGE_ENDED);
	cr_assert_eq(out.v.rank, 1);
	cr_assert_eq(out.v.collective, 9);
	cr_assert_eq(out.v.time_ns, NOW - S);
	cr_assert_eq(out.v.since_ns, NOW - 3 * S);
	cr_assert_eq(out.v.deadline_ns, 2 * S);
	cr_assert_eq(out.v.joined[0], 5);
	cr_assert_eq(out.v.missing[0], 2);
	cr_assert_eq(out.v.ranks[1].tid, 4001);
}

static void all_idle(int n)
{
	int i;

	given(n);
	for (i = 0; i < n; i++)
		ranks[i].idle = true;
}

#define WEDGED "group \"dp\" (generation 1) could not be ended within 10.0 s"

Test(verdict, wedged_verdict_names_a_call_that_does_not_return)
{
	all_idle(3);
	ranks[1].idle = false;
	ranks[1].inside = true;
	ranks[1].last.outcome = COHORT_TIMED_OUT;
	verdict_wedged(&s, &out);
	cr_assert_str_eq(out.text, WEDGED
	                 "; rank 1 (thread 4001 \"dp/1\", device 1) has been "
	                 "inside all_reduce for 60.0 s");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_WEDGED);
	cr_assert_eq(out.v.stage, COHORT_STAGE_ENDED);
	cr_assert_eq(out.v.rank, 1);
	cr_assert_eq(out.v.missing[0], 2);
	cr_assert_eq(out.v.deadline_ns, 10 * S);
}

Test(verdict, wedged_verdict_does_not_name_an_unrecorded_call)
{
	all_idle(2);
	ranks[1].idle = false;
	ranks[1].inside = true;
	verdict_wedged(&s, &out);
	cr_assert_str_eq(out.text, WEDGED
	                 "; rank 1 (thread 4001 \"dp/1\", device 1) is inside "
	                 "a call");
}

/* An abort waits for the operation of a host-memory call, but not for the
 * thread that waits for that operation. */
Test(verdict, wedged_verdict_names_the_operation_of_a_host_memory_call)
{
	all_idle(2);
	ranks[1].idle = false;
	ranks[1].inside = ranks[1].staged = true;
	verdict_wedged(&s, &out);
	cr_assert_str_eq(out.text, WEDGED
	                 "; rank 1 (thread 4001 \"dp/1\", device 1) has an "
	                 "operation in flight that does not end");
}

Test(verdict, wedged_verdict_names_a_thread_that_died_inside_a_call)
{
	all_idle(2);
	ranks[0].idle = false;
	ranks[0].inside = true;
	ranks[0].alive = 0;
	ranks[0].thread[0] = '\0';
	ranks[0].last.outcome = COHORT_TIMED_OUT;
	verdict_wedged(&s, &out);
	cr_assert_str_eq(out.text, WEDGED
	                 "; rank 0 (thread 4000, device 0) has been inside "
	                 "all_reduce for 60.0 s, and its thread has exited");
}

Test(verdict, wedged_verdict_names_native_calls_and_endless_operations)
{
	all_idle(3);
	ranks[0].idle = false;
	ranks[0].inside = ranks[0].native = true;
	ranks[2].idle = false;
	verdict_wedged(&s, &out);
	cr_assert_str_eq(out.text, WEDGED
	                 "; rank 0 (thread 4000 \"dp/0\", device 0) is using "
	                 "its native communicator"
	                 "; rank 2 (thread 4002 \"dp/2\", device 2) has an "
	                 "operation in flight that does not end");
	cr_assert_eq(out.v.rank, 0);
	cr_assert_eq(out.v.missing[0], 5);
}

Test(verdict, wedged_verdict_names_the_reaper_even_after_many_ranks)
{
	int i;

	all_idle(64);
	for (i = 0; i < 64; i++)
		ranks[i].idle = false;
	s.reaping = "ncclGroupEnd";
	verdict_wedged(&s, &out);
	expect_text(out.text, "; rank 3 (thread 4003 \"dp/3\", "
	                      "device 3) has an operation in "
	                      "flight that does not end; and 60 "
	                      "more ranks; ncclGroupEnd has not "
	                      "returned");
	cr_assert(rank_set_has(out.v.missing, 63));
}

Test(verdict, wedged_verdict_names_a_reaper_that_does_not_return)
{
	all_idle(2);
	s.reaping = "ncclGroupEnd";
	verdict_wedged(&s, &out);
	cr_assert_str_eq(out.text, WEDGED "; ncclGroupEnd has not returned");
	cr_assert_eq(out.v.rank, -1);
	s.reaping = "ncclCommAbort";
	s.reaping_rank = 1;
	verdict_wedged(&s, &out);
	cr_assert_str_eq(out.text,
	                 WEDGED "; ncclCommAbort of rank 1 has not returned");
}

Test(verdict, wedged_verdict_names_a_prober_and_on_verdict_that_hang)
{
	all_idle(2);
	s.probing = 1;
	s.asking = "ncclCommGetAsyncError";
	s.probing_since_ns = NOW - 11 * S;
	s.callback_since_ns = NOW - 12 * S;
	verdict_wedged(&s, &out);
	cr_assert_str_eq(out.text, WEDGED
	                 "; ncclCommGetAsyncError of rank 1 has not returned"
	                 "; on_verdict has not returned for 12.0 s");
	s.asking = "cudaEventQuery";
	s.callback_since_ns = 0;
	verdict_wedged(&s, &out);
	cr_assert_str_eq(out.text,
	                 WEDGED "; cudaEventQuery of rank 1 has not returned");
}

Test(verdict, prober_that_hangs_gets_its_own_verdict)
{
	given(2);
	s.probing = 1;
	s.asking = "ncclCommGetAsyncError";
	s.probing_since_ns = NOW - 11 * S;
	verdict_prober(&s, &out);
	cr_assert_str_eq(out.text,
	                 "group \"dp\": ncclCommGetAsyncError of rank 1 has "
	                 "not returned for 11.0 s");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_PROBER_STUCK);
	cr_assert_eq(out.v.stage, COHORT_STAGE_WARNING);
	cr_assert_eq(out.v.rank, 1);
	cr_assert_eq(out.v.since_ns, NOW - 11 * S);
	cr_assert_eq(out.v.deadline_ns, 10 * S);
	s.asking = "cudaEventQuery";
	verdict_prober(&s, &out);
	cr_assert_str_eq(out.text, "group \"dp\": cudaEventQuery of rank 1 has "
	                           "not returned for 11.0 s");
}

/* ---- causes, copies and words ----------------------------------------- */

Test(verdict, verdict_line_is_the_text_of_the_cause)
{
	struct cohort_cause cause;

	given(2);
	joins(0, 10 * S);
	stalled();
	cause = verdict_cause(&out);
	cr_assert_eq(cause.status, COHORT_STALLED);
	cr_assert_eq(cause.kind, COHORT_VERDICT_OUTSIDE);
	cr_assert_eq(cause.rank, 1);
	cr_assert_eq(cause.collective, 7);
	cr_assert_eq(cause.since_ns, NOW - 10 * S);
	cr_assert_eq(cause.deadline_ns, 10 * S);
	cr_assert_eq(cause.joined[0], 1);
	cr_assert_eq(cause.missing[0], 2);
	cr_assert_str_eq(cause.text, out.line);
}

Test(verdict, copied_verdict_does_not_depend_on_the_original)
{
	struct verdict copy;

	given(2);
	joins(0, 10 * S);
	stalled();
	cr_assert(verdict_init(&copy, 2));
	verdict_copy(&copy, &out);
	memset(out.ranks, 0, 2 * sizeof(*out.ranks));
	memset(out.text, 0, sizeof(out.text));
	memset(out.line, 0, sizeof(out.line));
	memset(out.group, 0, sizeof(out.group));
	cr_assert_eq(copy.v.kind, COHORT_VERDICT_OUTSIDE);
	cr_assert_eq(copy.v.ranks[1].tid, 4001);
	cr_assert_str_eq(copy.v.group, "dp");
	cr_assert_eq(strncmp(copy.v.text, "HANG   rank 1 ", 14), 0);
	cr_assert_eq(strncmp(copy.v.line, "rank 1 has not ", 15), 0);
	verdict_fini(&copy);
}

Test(verdict, every_kind_of_verdict_has_a_text)
{
	cr_assert_str_eq(cohort_verdict_text(COHORT_VERDICT_NONE), "none");
	cr_assert_str_eq(cohort_verdict_text(COHORT_VERDICT_NOT_STARTED),
	                 "joined but not started");
	cr_assert_str_eq(cohort_verdict_text(COHORT_VERDICT_PROBER_STUCK),
	                 "prober does not answer");
	cr_assert_str_eq(cohort_verdict_text(-1),
	                 "a verdict that this version of cohort does not know");
	cr_assert_str_eq(cohort_verdict_text(31), cohort_verdict_text(-1));
}

/* ---- sends and receives ----------------------------------------------- */

/* Record a send from rank 0 to rank 1 @ago_ns ago, with a deadline of 10 s. */
static struct transfer_snapshot *sends(uint64_t ago_ns)
{
	s.front = 0;
	s.transfer = (struct transfer_snapshot){
		.number = 3,
		.rank = 0,
		.peer = 1,
		.sends = true,
		.count = 1000,
		.type = COHORT_F32,
		.is_local = true,
		.since_ns = NOW - ago_ns,
		.allowed_ns = 10 * S,
	};
	return &s.transfer;
}

/* Return the line of the verdict on the transfer after its deadline has
 * expired. */
static const char *stalled_transfer(void)
{
	const struct expiry due = {
		.is_transfer = true,
		.what = EXPIRY_VERDICT,
		.since_ns = NOW - 10 * S,
		.deadline_ns = 10 * S,
	};

	verdict_stalled(&s, &due, &out);
	return out.line;
}

Test(due, transfer_has_its_own_deadline)
{
	const uint64_t began = NOW - S;

	given(2);
	sends(S);
	cr_assert_eq(at(began + 5 * S).what, EXPIRY_NOTHING);
	cr_assert_eq(at(began + 5 * S).next_ns, began + 10 * S);
	cr_assert_eq(at(began + 10 * S).what, EXPIRY_VERDICT);
	cr_assert(at(began + 10 * S).is_transfer);
	s.transfer.expired = 1;
	cr_assert_eq(at(began + 10 * S).next_ns, began + 20 * S);
	s.paused = true;
	cr_assert_eq(at(began + 10 * S).what, EXPIRY_NOTHING);
}

/* The peer may have received by a native call or a graph before it left, so
 * transfers cannot be matched by number. */
Test(due, transfer_with_a_rank_that_has_left_is_reported_at_once)
{
	given(2);
	sends(S / 1000);
	ranks[0].waiting = true;
	ranks[1].returned = true;
	cr_assert_eq(at(NOW).what, EXPIRY_VERDICT);
	ranks[1].is_uncompared = true;
	cr_assert_eq(at(NOW).what, EXPIRY_NOTHING);
	ranks[1].is_uncompared = false;
	ranks[0].is_uncompared = true;
	cr_assert_eq(at(NOW).what, EXPIRY_NOTHING);
}

Test(due, more_severe_of_a_transfer_and_a_collective_is_reported)
{
	given(2);
	sends(8 * S);
	s.front = 7;
	joins(1, 4 * S);
	cr_assert_eq(at(NOW).what, EXPIRY_NOTHING);
	cr_assert_eq(at(NOW).next_ns, NOW + 2 * S);
	/* The collective is slow, but the transfer's deadline has passed. */
	s.slow_ns = 5 * S;
	s.transfer.slow = true;
	cr_assert_eq(at(NOW + S).what, EXPIRY_SLOW);
	cr_assert_not(at(NOW + S).is_transfer);
	cr_assert_eq(at(NOW + 2 * S).what, EXPIRY_VERDICT);
	cr_assert(at(NOW + 2 * S).is_transfer);
	s.transfer.expired = 1;
	cr_assert_eq(at(NOW + 6 * S).what, EXPIRY_VERDICT);
	cr_assert_not(at(NOW + 6 * S).is_transfer);
}

Test(verdict, transfer_verdict_names_the_rank_that_has_not_called)
{
	given(2);
	sends(10 * S);
	cr_assert_str_eq(stalled_transfer(),
	                 "rank 1 has not called recv 3 from rank 0 of \"dp\" "
	                 "(10.0 s, limit 10.0 s): it is busy in the program; "
	                 "rank 0 waits");
	cr_assert_eq(out.v.rank, 1);
	cr_assert_eq(out.v.kind, COHORT_VERDICT_OUTSIDE);
	cr_assert_eq(out.v.joined[0], 1);
	cr_assert_eq(out.v.missing[0], 2);
	cr_assert_eq(out.v.collective, 0);
}

Test(verdict, transfer_verdict_says_if_the_rank_never_called_or_exited)
{
	given(2);
	sends(10 * S);
	ranks[1].tid = 0;
	ranks[1].last.ticket = 0;
	*ranks[1].thread = '\0';
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NEVER_CALLED);
	expect_text(out.text, "\nwhy    it has never called ");
	cr_assert_null(strstr(out.text, "\nalso "), "it is described once");
	given(2);
	sends(10 * S);
	ranks[1].alive = 0;
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_THREAD_EXITED);
	ranks[1].alive = 1;
	ranks[1].inside = true;
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_DIFFERENT_CALL);
}

Test(verdict, transfer_verdict_names_the_rank_that_has_not_started)
{
	struct transfer_snapshot *x;

	given(2);
	x = sends(10 * S);
	x->met = true;
	x->own.started = true;
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_STARTED);
	cr_assert_eq(out.v.rank, 1);
	cr_assert_eq(out.v.joined[0], 3);
	expect_text(out.text, "rank 1 (thread 4001 \"dp/1\", "
	                      "device 1) has not started");
	x->other.started = true;
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_FINISHED);
	cr_assert_eq(out.v.rank, -1);
	x->own = (struct half){ .in_call = true };
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_STARTED);
	cr_assert_eq(out.v.rank, 0);
	expect_text(out.text, "is inside the native call");
}

/* Record a send from rank 0 to rank 3 of another process, which has not
 * answered. */
static struct transfer_snapshot *sends_to_other(void)
{
	struct transfer_snapshot *x;

	given(2);
	s.world = 4;
	x = sends(10 * S);
	x->peer = 3;
	x->is_local = false;
	x->met = true;
	return x;
}

Test(verdict, transfer_verdict_says_that_the_peer_is_in_another_process)
{
	sends_to_other()->own.started = true;
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_REMOTE);
	cr_assert_eq(out.v.rank, 3);
	cr_assert_eq(out.v.missing[0], 8);
	expect_text(out.line, "recv 3 from rank 0 of \"dp\" (");
	expect_text(out.text, "rank 3 is in another process");
}

/*
 * NCCL connects two ranks in the first call between them, in which each waits
 * for the other's call.
 */
Test(verdict, first_transfer_with_another_process_blames_the_peer)
{
	struct transfer_snapshot *x = sends_to_other();

	x->number = 1;
	x->own.in_call = true;
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_REMOTE);
	cr_assert_eq(out.v.rank, 3);
	cr_assert_eq(out.v.missing[0], 8);
	expect_text(out.text, "is inside the native call");
	expect_text(out.text, "rank 3 is in another process, and the first "
	                      "send or receive between two ranks waits until "
	                      "both have called");
	/* After the first call, the ranks are connected. */
	x->number = 2;
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_STARTED);
	cr_assert_eq(out.v.rank, 0);
}

/* What rank 3's process reports about its half of the transfer */
static struct remote_rank peer;

static struct transfer_snapshot *given_peer(bool started)
{
	struct transfer_snapshot *x = sends_to_other();

	x->own.started = started;
	peer = (struct remote_rank){ .rank = 3, .world = 3 };
	s.remote = &peer;
	s.remote_count = 1;
	return x;
}

Test(verdict, transfer_verdict_says_what_the_remote_peer_is_doing)
{
	given_peer(true);
	peer.kind = COHORT_VERDICT_OUTSIDE;
	strcpy(peer.text,
	       "rank 3 (pid 7, device 0) has not called its recv, and");
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_OUTSIDE);
	cr_assert_eq(out.v.rank, 3);
	cr_assert_eq(out.v.joined[0], 1);
	cr_assert_eq(out.v.missing[0], 8);
	expect_text(out.text, "\nalso   rank 3 (pid 7, device 0) has not "
	                      "called its recv, and");
	cr_assert_null(strstr(out.text, "is in another process"));
	/* Rank 3 is to blame even if rank 0's stream has not reached the
	 * send. */
	given_peer(false);
	peer.kind = COHORT_VERDICT_THREAD_EXITED;
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_THREAD_EXITED);
	cr_assert_eq(out.v.rank, 3);
}

Test(verdict, transfer_verdict_begins_with_the_stopped_process)
{
	given_peer(true);
	peer.kind = COHORT_VERDICT_PROCESS_STOPPED;
	peer.is_process = true;
	strcpy(peer.text, "process 1 (pid 7), which drives rank 3, is stopped");
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_PROCESS_STOPPED);
	cr_assert_eq(out.v.rank, 3);
	cr_assert_eq(strncmp(out.line, peer.text, strlen(peer.text)), 0, "%s",
	             out.line);
}

Test(verdict, transfer_verdict_names_the_process_that_sent_no_report)
{
	sends_to_other()->own.started = true;
	s.silent = "process 1 (pid 4711), which is stopped";
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_REMOTE);
	cr_assert_eq(out.v.rank, 3);
	expect_text(out.text, "\nnote   no answer from process 1 (pid "
	                      "4711), which is stopped");
}

Test(verdict, transfer_verdict_names_the_process_that_delays_it)
{
	struct transfer_snapshot *x = given_peer(true);

	peer.joined = 1;
	peer.kind = COHORT_VERDICT_NOT_STARTED;
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_STARTED);
	cr_assert_eq(out.v.rank, 3);
	cr_assert_eq(out.v.joined[0], 9);
	peer.kind = COHORT_VERDICT_NOT_FINISHED;
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_FINISHED);
	cr_assert_eq(out.v.rank, -1);
	cr_assert_eq(out.v.missing[0], 9);
	peer.is_done = 1;
	stalled_transfer();
	cr_assert_eq(out.v.missing[0], 1);
	x->own.started = false;
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_STARTED);
	cr_assert_eq(out.v.rank, 0);
}

/* Answers about ranks 2 to 4 of other processes. Ranks 0 and 1 have started the
 * front, which is the oldest collective that has not ended on all ranks. */
static struct remote_rank remote[3];

static void given_remote(int answers)
{
	int i;

	given(2);
	s.world = 5;
	for (i = 0; i < 2; i++) {
		joins(i, 10 * S);
		ranks[i].started = true;
	}
	s.all_joined = true;
	for (i = 0; i < answers; i++)
		remote[i] = (struct remote_rank){
			.rank = 2 + i,
			.kind = COHORT_VERDICT_NOT_FINISHED,
			.joined = 1,
			.world = 2 + i,
		};
	s.remote = remote;
	s.remote_count = answers;
}

/* Let rank 3, in another process, wait for rank @world in another communicator,
 * without having called the front, in which ranks 0 and 1 wait. */
static void rank_3_waits_for(int world)
{
	given_remote(3);
	remote[1].joined = 0;
	remote[1].waits = true;
	s.waits.link_count = s.waits.culprit_count = 1;
	s.waits.links[0] =
		(struct wait_link){ .worlds = { 8 }, .for_world = world };
	strcpy(s.waits.links[0].call, "all_reduce 3 of group \"dp.1\"");
	s.waits.culprits[0] = (struct culprit){
		.world = world,
		.rank = 1,
		.at = { .rank = -1 },
		.kind = COHORT_VERDICT_NEVER_CALLED,
		.text = "rank 4 (pid 7) is asleep in futex",
	};
	strcpy(s.waits.culprits[0].call, "all_reduce 3 of \"dp.1\"");
}

Test(verdict, verdict_blames_the_rank_that_a_remote_rank_waits_for)
{
	rank_3_waits_for(4);
	s.waits.here[0] = 0x10;
	cr_assert_str_eq(
		stalled(),
		"rank 4 has not called all_reduce 3 of \"dp.1\", where "
		"it is rank 1 (10.0 s, limit 10.0 s): rank 4 (pid 7) "
		"is asleep in futex; ranks 0-2 wait; rank 3 waits in "
		"all_reduce 3 of group \"dp.1\" for rank 4");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NEVER_CALLED);
	cr_assert_eq(out.v.rank, 4);
	cr_assert_eq(out.v.missing[0], 0x10);
}

/* Two splits of one communicator with the same color have the same name. */
Test(verdict, order_verdict_says_that_two_communicators_share_a_name)
{
	rank_3_waits_for(0);
	memset(&s.waits, 0, sizeof(s.waits));
	s.crossing.exists = true;
	s.crossing.first.rank = 0;
	s.crossing.second.rank = 1;
	strcpy(s.crossing.group, "other");
	stalled();
	expect_text(out.line, ": ranks 0-1 use \"dp\" and "
	                      "\"other\" in different orders (");
	strcpy(s.crossing.group, s.group);
	stalled();
	expect_text(out.line, ": ranks 0-1 use two communicators "
	                      "named \"dp\" in different "
	                      "orders (");
}

Test(verdict, verdict_names_a_culprit_that_is_not_in_the_split_group)
{
	rank_3_waits_for(7);
	s.is_child = true;
	ranks[0].world = 0;
	ranks[1].world = 1;
	stalled();
	cr_assert_eq(out.v.rank, -1);
	cr_assert_eq(out.v.world_rank, 7);
	cr_assert_eq(out.v.missing[0], 0);
}

/* All ranks but rank 3 have called this communicator first. */
static void order_of_rank_3_differs(void)
{
	strcpy(s.crossing.group, "other");
	s.crossing.members[0] = 0x1f;
	s.crossing.here_first[0] = 0x17;
	s.crossing.there_first[0] = 8;
}

Test(verdict, verdict_blames_a_remote_rank_that_uses_another_order)
{
	rank_3_waits_for(0);
	s.waits.culprit_count = 0;
	s.waits.is_cycle = true;
	order_of_rank_3_differs();
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_ORDER);
	cr_assert_eq(out.v.rank, 3);
	cr_assert_eq(out.v.missing[0], 8);
	expect_text(out.line, ": rank 3 uses \"dp\" and \"other\" in a "
	                      "different order from most ranks (");
	/* If no order has a majority, no rank is to blame. */
	s.crossing.here_first[0] = 3;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_CYCLE);
	cr_assert_eq(out.v.rank, -1);
	cr_assert_eq(out.v.missing[0], 0);
}

/* The process of rank 4 does not know which order most ranks have. */
Test(verdict, no_rank_is_blamed_if_the_waits_end_at_an_order)
{
	rank_3_waits_for(4);
	s.waits.culprits->kind = COHORT_VERDICT_ORDER;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_ORDER, "%s", out.text);
	cr_assert_eq(out.v.rank, -1, "%s", out.text);
	cr_assert_eq(out.v.world_rank, -1);
}

/* The order of the other ranks may be a consequence. */
Test(verdict, verdict_blames_a_remote_rank_that_left_before_an_order)
{
	given_remote(3);
	order_of_rank_3_differs();
	s.crossing.exists = true;
	s.others_miss = true;
	remote[0].joined = 0;
	remote[0].kind = COHORT_VERDICT_LEFT;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_LEFT, "%s", out.text);
	cr_assert_eq(out.v.rank, 2, "%s", out.text);
	cr_assert_eq(out.v.missing[0], 4);
}

/* Another process has found that its ranks call in different orders. */
Test(verdict, verdict_blames_no_majority_that_uses_another_order)
{
	int i;

	given_remote(3);
	for (i = 0; i < 3; i++) {
		remote[i].joined = 0;
		remote[i].kind = COHORT_VERDICT_ORDER;
	}
	s.others_miss = true;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_ORDER, "%s", out.text);
	cr_assert_eq(out.v.rank, -1, "%s", out.text);
	cr_assert_eq(out.v.world_rank, -1);
	cr_assert_eq(out.v.missing[0], 0);
	/* Most ranks wait in the other communicator, so these are to blame. */
	order_of_rank_3_differs();
	s.crossing.here_first[0] = 3;
	s.crossing.there_first[0] = 0x1c;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_ORDER, "%s", out.text);
	cr_assert_eq(out.v.rank, 0, "%s", out.text);
	cr_assert_eq(out.v.missing[0], 3);
}

/* The process of rank 3 has found the cycle, and reports only rank 3. */
Test(verdict, verdict_does_not_show_a_cycle_of_one_rank)
{
	rank_3_waits_for(0);
	s.waits.culprit_count = 0;
	s.waits.is_cycle = true;
	s.waits.link_count = 1;
	stalled();
	expect_text(out.line, "ranks 0, 3 wait for each other in "
	                      "a cycle (");
	s.waits.links[0].for_world = -1;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_CYCLE);
	expect_text(out.line, "rank 3 and others wait for each "
	                      "other in a cycle (");
}

/* Another process reports that rank 3 waits and that rank 4 does not, so rank 4
 * is to blame. */
Test(verdict, verdict_blames_a_remote_rank_that_waits_for_no_other)
{
	rank_3_waits_for(0);
	memset(&s.waits, 0, sizeof(s.waits));
	remote[2].joined = 0;
	remote[2].kind = COHORT_VERDICT_OUTSIDE;
	stalled();
	cr_assert_eq(out.v.rank, 4);
	cr_assert_eq(out.v.missing[0], 0x10);
}

/* Set up five ranks, of which only rank 0 has called. */
static void only_rank_0_has_called(void)
{
	int i;

	given_remote(3);
	s.ranks[1].joined = s.ranks[1].started = s.all_joined = false;
	for (i = 0; i < 3; i++) {
		remote[i].joined = 0;
		remote[i].kind = COHORT_VERDICT_OUTSIDE;
	}
}

Test(verdict, verdict_blames_no_rank_if_less_than_half_of_all_wait)
{
	only_rank_0_has_called();
	stalled();
	cr_assert_eq(out.v.rank, -1, "%s", out.text);
	cr_assert_eq(out.v.missing[0], 0);
	expect_text(out.line, "rank 0 alone waits in ");
	expect_text(out.text, "\nothers ranks 1-4 are ");
}

Test(verdict, verdict_blames_a_missing_rank_if_half_of_all_wait)
{
	only_rank_0_has_called();
	remote[0].joined = remote[1].joined = 1;
	stalled();
	cr_assert_eq(out.v.rank, 1, "%s", out.text);
	cr_assert_eq(out.v.missing[0], 0x12);
	cr_assert_eq(out.v.joined[0], 0xd);
	expect_text(out.line, "ranks 1, 4 have not called ");
	expect_text(out.line, "; ranks 0, 2-3 wait");
}

Test(verdict, verdict_blames_a_stopped_process_before_a_rank_of_its_own)
{
	only_rank_0_has_called();
	remote[0].joined = remote[1].joined = 1;
	remote[2].kind = COHORT_VERDICT_PROCESS_STOPPED;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_PROCESS_STOPPED);
	cr_assert_eq(out.v.rank, 4, "%s", out.text);
	cr_assert_eq(out.v.missing[0], 0x12);
}

/* Rank 1 may wait for the rank that has left. */
Test(verdict, verdict_blames_a_remote_rank_that_left_before_a_busy_one)
{
	only_rank_0_has_called();
	remote[0].joined = remote[1].joined = 1;
	remote[2].kind = COHORT_VERDICT_LEFT;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_LEFT);
	cr_assert_eq(out.v.rank, 4, "%s", out.text);
	cr_assert_eq(out.v.missing[0], 0x10);
}

Test(verdict, verdict_blames_a_missing_rank_if_a_remote_one_has_left)
{
	only_rank_0_has_called();
	remote[2].kind = COHORT_VERDICT_LEFT;
	stalled();
	cr_assert_neq(out.v.rank, -1, "%s", out.text);
}

/* Rank 1 of this process and two of the other processes' ranks leave. */
Test(verdict, no_rank_is_blamed_if_most_ranks_of_all_processes_left)
{
	only_rank_0_has_called();
	s.ranks[1].returned = true;
	remote[0].kind = COHORT_VERDICT_LEFT;
	stalled();
	cr_assert_neq(out.v.rank, -1, "%s", out.text);
	remote[1].kind = COHORT_VERDICT_LEFT;
	stalled();
	cr_assert_eq(out.v.rank, -1, "%s", out.text);
	cr_assert_eq(out.v.missing[0], 0);
	expect_text(out.text, "\nothers ranks 1-3 have left, rank 4 is "
	                      "between calls");
}

Test(verdict, verdict_blames_a_missing_rank_if_a_process_is_silent)
{
	only_rank_0_has_called();
	s.remote_count = 2;
	stalled();
	cr_assert_neq(out.v.rank, -1, "%s", out.text);
}

Test(verdict, verdict_says_what_a_remote_rank_is_doing)
{
	given_remote(3);
	remote[1].joined = 0;
	remote[1].kind = COHORT_VERDICT_OUTSIDE;
	strcpy(remote[1].text, "rank 3 (pid 7, device 0) is outside");
	strcpy(remote[1].brief, "rank 3 (pid 7) is outside");
	stalled();
	expect_text(out.line, "): rank 3 (pid 7) is outside; ");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_OUTSIDE);
	cr_assert_eq(out.v.rank, 3);
	cr_assert_eq(out.v.joined[0], 0x17);
	cr_assert_eq(out.v.missing[0], 0x8);
	expect_text(out.text, "\nnote   rank 3 (pid 7, device 0) is outside");
}

Test(verdict, verdict_blames_a_remote_rank_that_has_not_started)
{
	given_remote(3);
	remote[2].kind = COHORT_VERDICT_NOT_STARTED;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_STARTED);
	cr_assert_eq(out.v.rank, 4);
	cr_assert_eq(out.v.missing[0], 0x10);
}

/* The process of ranks 3 and 4 is stopped, and rank 2 of another process is
 * late. */
Test(verdict, verdict_blames_a_stopped_process_before_a_late_rank)
{
	static const char stopped[] =
		"process 2 (pid 7), which drives ranks 3-4, is stopped";
	int i;

	given_remote(3);
	for (i = 0; i < 3; i++)
		remote[i].joined = 0;
	remote[0].kind = COHORT_VERDICT_OUTSIDE;
	for (i = 1; i < 3; i++) {
		remote[i].kind = COHORT_VERDICT_PROCESS_STOPPED;
		remote[i].is_process = true;
		memcpy(remote[i].text, stopped, sizeof(stopped));
	}
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_PROCESS_STOPPED);
	cr_assert_eq(out.v.rank, 3);
	cr_assert_eq(out.v.missing[0], 0x1c);
	cr_assert_eq(strncmp(out.line, stopped, strlen(stopped)), 0, "%s",
	             out.line);
	/* Now all ranks have called, so rank 2 is not late. */
	for (i = 0; i < 3; i++)
		remote[i].joined = 1;
	stalled();
	cr_assert_eq(out.v.rank, 3);
	cr_assert_eq(out.v.missing[0], 0x18);
}

Test(verdict, waiting_rank_with_another_call_has_its_own_row)
{
	given(3);
	joins(0, 10 * S);
	joins(1, 10 * S)->call.digest++;
	stalled();
	cr_assert_eq(out.v.rank, 2);
	expect_text(out.text, "\nwait   rank 0, in all_reduce ");
	expect_text(out.text, "\nwait   rank 1, in another call: "
	                      "all_reduce ");
}

/* All ranks have called a split, and a stopped process keeps the others
 * inside. */
Test(verdict, verdict_on_a_split_blames_the_stopped_process)
{
	int i;

	given_remote(3);
	for (i = 0; i < 2; i++) {
		ranks[i].started = false;
		ranks[i].call.kind = OP_SPLIT;
	}
	ranks[0].in_call = true;
	remote[0].kind = remote[1].kind = COHORT_VERDICT_NOT_STARTED;
	remote[2].kind = COHORT_VERDICT_PROCESS_STOPPED;
	s.remote_count = 0;
	cr_assert(stall_is_remote(&s, false));
	s.remote_count = 3;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_PROCESS_STOPPED);
	cr_assert_eq(out.v.rank, 4);
	cr_assert_eq(out.v.missing[0], 0x10);
}

Test(verdict, verdict_names_remote_ranks_that_sent_no_report)
{
	given_remote(2);
	s.silent = "process 2 (pid 7)";
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_REMOTE);
	cr_assert_eq(out.v.rank, -1);
	cr_assert_eq(out.v.missing[0], 0x10);
	expect_text(out.text, "\nnote   nothing is known about rank 4\n"
	                      "note   no answer from process 2 (pid 7)");
}

/* Set up calls with different digests: @digest on ranks 0 and 1, 5 on rank 2,
 * and 6 on ranks 3 and 4. */
static void given_different(uint32_t digest)
{
	int i;

	given_remote(3);
	for (i = 0; i < 2; i++)
		ranks[i].call.digest = digest;
	for (i = 0; i < 3; i++)
		remote[i].word = UINT64_C(7) << 32 | (i ? 6 : 5);
	strcpy(remote[1].call, "broadcast of 3 float32 from 0");
}

Test(verdict, verdict_names_a_remote_rank_that_calls_something_else)
{
	given_different(5);
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_DIFFERENT_CALL);
	cr_assert_eq(out.v.rank, 3);
	cr_assert_eq(out.v.missing[0], 0x18);
	expect_text(out.text,
	            "\nnote   rank 3 calls broadcast of 3 float32 from 0");
}

Test(verdict, verdict_blames_no_rank_if_most_call_something_else)
{
	given_different(6);
	remote[0].word = UINT64_C(7) << 32 | 5;
	remote[1].word = remote[2].word = remote[0].word;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_DIFFERENT_CALL);
	cr_assert_eq(out.v.rank, -1);
	cr_assert_eq(out.v.missing[0], 0);
}

/* The digest of a call is unknown if its record was overwritten or the rank has
 * not called. */
Test(verdict, verdict_compares_only_known_calls_of_remote_ranks)
{
	given_different(0);
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_FINISHED);
	given_different(5);
	remote[1].word = remote[2].word = 0;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_FINISHED);
}

/* All ranks of this process have called. Another process publishes that its
 * rank 3 has not called. */
Test(verdict, verdict_names_a_remote_rank_that_others_wait_for)
{
	given_remote(3);
	s.others_miss = true;
	remote[1].joined = 0;
	remote[1].kind = COHORT_VERDICT_NEVER_CALLED;
	/* Now the ranks of this process have not started, but are not to
	 * blame. */
	s.starts_are_marked = true;
	ranks[0].started = ranks[1].started = false;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NEVER_CALLED);
	cr_assert_eq(out.v.rank, 3);
	cr_assert_eq(out.v.missing[0], 0x8);
	expect_text(out.line, "rank 3 has not called ");
}

/* Rank 2 has not started, perhaps because rank 4, whose process is silent, has
 * not called. */
Test(verdict, verdict_blames_no_rank_that_may_wait_for_a_silent_one)
{
	given_remote(2);
	remote[0].kind = COHORT_VERDICT_NOT_STARTED;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_REMOTE);
	cr_assert_eq(out.v.rank, -1);
	cr_assert_eq(out.v.missing[0], 0x10);
}

Test(verdict, verdict_blames_no_rank_that_waits_for_an_older_call)
{
	given_remote(3);
	remote[1].kind = COHORT_VERDICT_NOT_STARTED;
	remote[1].is_behind = 1;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_FINISHED);
	cr_assert_eq(out.v.rank, -1);
}

/* Put both ranks of this process inside the native call of the first
 * collective. */
static void given_first(int answers)
{
	int i;

	given_remote(answers);
	s.front = 1;
	for (i = 0; i < 2; i++) {
		ranks[i].started = false;
		ranks[i].in_call = true;
	}
}

Test(verdict, verdict_blames_no_rank_if_all_are_in_the_first_call)
{
	int i;

	given_first(3);
	for (i = 0; i < 3; i++)
		remote[i].kind = COHORT_VERDICT_NOT_STARTED;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_STARTED);
	cr_assert_eq(out.v.rank, -1);
	cr_assert_eq(out.v.missing[0], 0x1f);
}

Test(verdict, verdict_blames_this_process_if_others_passed_the_first_call)
{
	given_first(3);
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_STARTED);
	cr_assert_eq(out.v.rank, 0);
	cr_assert_eq(out.v.missing[0], 0x3);
}

Test(verdict, verdict_on_a_call_that_runs_everywhere_blames_no_rank)
{
	given_remote(3);
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_FINISHED);
	cr_assert_eq(out.v.rank, -1);
	cr_assert_eq(out.v.missing[0], 0x1f);
}

/* While no rank of this process has started in a call, the call may be waiting
 * for other processes, for example to connect all ranks. */
Test(verdict, verdict_blames_no_local_rank_if_none_has_started)
{
	int i;

	given(2);
	s.world = 4;
	s.front = 1;
	for (i = 0; i < 2; i++) {
		joins(i, 10 * S);
		ranks[i].in_call = true;
	}
	s.all_joined = true;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_REMOTE);
	cr_assert_eq(out.v.rank, -1);
	cr_assert_eq(out.v.missing[0], 12);
	/* Once a rank of this process has returned from the call, the call does
	 * not wait for other processes. */
	ranks[0].in_call = false;
	ranks[0].started = true;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_STARTED);
	cr_assert_eq(out.v.rank, 1);
}
