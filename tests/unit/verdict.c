/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Verdicts over made-up snapshots: when time is up, which rank is at fault, and
 * how the text says so
 */

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "watch/stall.h"
#include "watch/symbolizer.h"
#include "watch/verdict.h"

#define MS UINT64_C(1000000)
#define S (1000 * MS)

/* The time of every snapshot here. */
#define NOW (1000 * S)

static struct rank_snapshot ranks[COHORT_MAX_RANKS];
static struct snapshot s;
static struct verdict out;

/* A call that was made that long ago, of the kind that all tests use. */
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
 * @n ranks that made collective 6 a minute ago, and have not yet made number 7.
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
		.warn_percent = 50,
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
 * Rank @rank has called, that long ago, and allows 10 s to join and 20 s to
 * run.
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

/* All ranks have called, each a millisecond after the one before it. */
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

/* The text about the front after its time. */
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

/* ---- when ------------------------------------------------------------- */

Test(due, no_verdict_is_due_while_nothing_is_in_flight)
{
	given(2);
	s.front = 0;
	cr_assert_eq(expiry_next(&s).what, EXPIRY_NOTHING);
	cr_assert_eq(expiry_next(&s).next_ns, UINT64_MAX);
}

Test(due, a_warning_comes_at_its_percentage_of_the_time)
{
	const uint64_t began = NOW - S;

	given(2);
	joins(0, S);
	cr_assert_eq(at(began + 5 * S - 1).what, EXPIRY_NOTHING);
	cr_assert_eq(at(began + 5 * S - 1).next_ns, began + 5 * S);
	cr_assert_eq(at(began + 5 * S).what, EXPIRY_WARNING);
	cr_assert_eq(at(began + 5 * S).since_ns, began);
	cr_assert_eq(at(began + 5 * S).deadline_ns, 10 * S);
	cr_assert_eq(at(began + 5 * S).next_ns, began + 10 * S);
}

Test(due, a_warning_comes_once)
{
	given(2);
	joins(0, 6 * S);
	s.warned = true;
	cr_assert_eq(at(NOW).what, EXPIRY_NOTHING);
	cr_assert_eq(at(NOW).next_ns, NOW + 4 * S);
}

Test(due, at_100_percent_there_is_no_warning)
{
	given(2);
	joins(0, 10 * S);
	s.warn_percent = 100;
	cr_assert_eq(at(NOW - 1).what, EXPIRY_NOTHING);
	cr_assert_eq(at(NOW - 1).next_ns, NOW);
	cr_assert_eq(at(NOW).what, EXPIRY_VERDICT);
}

Test(due, a_clock_expires_exactly_at_its_deadline)
{
	given(2);
	joins(0, 10 * S);
	cr_assert_eq(at(NOW - 1).what, EXPIRY_WARNING);
	cr_assert_eq(at(NOW).what, EXPIRY_VERDICT);
	cr_assert_eq(at(NOW).since_ns, NOW - 10 * S);
	cr_assert_eq(at(NOW).deadline_ns, 10 * S);
}

Test(due, the_first_of_several_clocks_to_expire_decides)
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

Test(due, the_last_rank_to_join_starts_the_clock_of_the_run)
{
	given(2);
	all_join(60 * S);
	joins(1, 20 * S);
	cr_assert_eq(at(NOW - 1).what, EXPIRY_WARNING);
	cr_assert_eq(at(NOW).what, EXPIRY_VERDICT);
	cr_assert_eq(at(NOW).since_ns, NOW - 20 * S);
	cr_assert_eq(at(NOW).deadline_ns, 20 * S);
}

Test(due, a_rank_that_is_done_has_no_clock_once_all_have_joined)
{
	given(2);
	all_join(30 * S);
	ranks[0].done = true;
	ranks[1].limits.exec_ns = 60 * S;
	cr_assert_eq(at(NOW).what, EXPIRY_NOTHING);
	cr_assert_eq(at(NOW).next_ns, NOW + MS);
}

Test(due, a_clock_does_not_run_while_a_rank_is_paused)
{
	given(2);
	joins(0, 60 * S);
	s.paused = true;
	cr_assert_eq(at(NOW).what, EXPIRY_NOTHING);
	cr_assert_eq(at(NOW).next_ns, UINT64_MAX);
}

Test(due, a_clock_starts_anew_after_a_pause)
{
	given(2);
	joins(0, 60 * S);
	s.resumed_ns = NOW - 2 * S;
	cr_assert_eq(at(NOW).what, EXPIRY_NOTHING);
	cr_assert_eq(at(NOW).next_ns, NOW + 3 * S);
	cr_assert_eq(at(NOW + 8 * S).what, EXPIRY_VERDICT);
	cr_assert_eq(at(NOW + 8 * S).since_ns, NOW - 2 * S);
}

Test(due, a_pause_before_the_call_changes_nothing)
{
	given(2);
	joins(0, 2 * S);
	s.resumed_ns = NOW - 3 * S;
	cr_assert_eq(at(NOW).next_ns, NOW + 3 * S);
	cr_assert_eq(at(NOW + 8 * S).since_ns, NOW - 2 * S);
}

/* Observations allow 3 s to join and 4 s to run, counted from 1 s ago. */
static void adapts(void)
{
	s.adapted = (struct adapted){
		.limits = { 3 * S, 4 * S },
		.since_ns = NOW - S,
		.asked = { .factor = 8, .warmup = 100, .floor_ns = S },
		.join = { 512, 375 * MS },
		.exec = { 300, 500 * MS },
		.likeness = 17, /* all_reduce, up to 64 KiB */
	};
}

Test(due, an_observed_limit_makes_a_clock_expire_earlier)
{
	given(2);
	joins(0, 4 * S);
	s.warn_percent = 100;
	adapts();
	cr_assert_eq(at(NOW).what, EXPIRY_NOTHING);
	cr_assert_eq(at(NOW).next_ns, NOW + 2 * S);
	cr_assert(at(NOW + 2 * S).is_adapted);
	cr_assert_eq(at(NOW + 2 * S).what, EXPIRY_VERDICT);
	cr_assert_eq(at(NOW + 2 * S).since_ns, NOW - S);
	cr_assert_eq(at(NOW + 2 * S).deadline_ns, 3 * S);
	cr_assert_eq(at(NOW + 2 * S).most_ns, 10 * S);
}

Test(due, an_observed_limit_counts_from_the_call_if_that_is_later)
{
	given(2);
	all_join(S / 2);
	joins(1, S / 4);
	s.warn_percent = 100;
	adapts();
	cr_assert_eq(at(NOW).next_ns, NOW - S / 4 + 4 * S);
}

Test(due, an_observed_limit_never_makes_a_clock_run_longer)
{
	given(2);
	joins(0, 9 * S);
	s.warn_percent = 100;
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

Test(due, an_observed_limit_starts_anew_after_a_pause_and_a_stop)
{
	given(2);
	joins(0, 4 * S);
	s.warn_percent = 100;
	adapts();
	s.resumed_ns = NOW - S / 2;
	cr_assert_eq(at(NOW).next_ns, NOW - S / 2 + 3 * S);
	stops_note(&s.stops, NOW - S / 4, NOW - S / 4, NOW, 1);
	cr_assert_eq(at(NOW).next_ns, NOW - S / 4 + 3 * S);
	s.paused = true;
	cr_assert_eq(at(NOW).next_ns, UINT64_MAX);
}

Test(verdict, says_where_a_limit_comes_from)
{
	struct expiry due;

	given(2);
	joins(0, 4 * S);
	adapts();
	due = at(NOW + 2 * S);
	verdict_stalled(&s, &due, &out);
	cr_assert_not_null(strstr(out.text,
	                          "since  3.0 s (limit 3.0 s (8 x "
	                          "375 ms, observed over 512 all_reduce "
	                          "operations of up to 64 KiB; at least 1.0 s, "
	                          "at most 10.0 s)); "),
	                   "%s", out.text);
	all_join(4 * S);
	s.adapted.exec = (struct window){ 1, 1230000 };
	s.adapted.likeness = OP_BARRIER * 65;
	due = at(NOW + 3 * S);
	verdict_stalled(&s, &due, &out);
	cr_assert_not_null(strstr(out.text, "(8 x 1.23 ms, observed over 1 "
	                                    "barrier operation; at least"),
	                   "%s", out.text);
}

Test(due, a_deadline_of_for_ever_never_expires_nor_warns)
{
	given(2);
	joins(0, 60 * S)->limits.join_ns = COHORT_FOREVER;
	cr_assert_eq(at(NOW).what, EXPIRY_NOTHING);
	cr_assert_eq(at(NOW).next_ns, UINT64_MAX);
}

Test(due, a_deadline_of_for_ever_on_one_rank_leaves_other_clocks_alone)
{
	given(3);
	joins(0, 60 * S)->limits.join_ns = COHORT_FOREVER;
	joins(1, 10 * S);
	cr_assert_eq(at(NOW).what, EXPIRY_VERDICT);
	cr_assert_eq(at(NOW).since_ns, NOW - 10 * S);
}

Test(due, a_deadline_beyond_the_clocks_range_never_expires)
{
	given(2);
	joins(0, S)->limits.join_ns = UINT64_MAX - NOW;
	cr_assert_eq(at(NOW).what, EXPIRY_NOTHING);
	cr_assert_eq(at(UINT64_MAX - S - 1).what, EXPIRY_WARNING);
	cr_assert_eq(at(UINT64_MAX - S).what, EXPIRY_VERDICT);
	ranks[0].limits.join_ns = UINT64_MAX - NOW + 2 * S;
	cr_assert_eq(at(UINT64_MAX).what, EXPIRY_NOTHING);
}

Test(due, an_expired_clock_is_due_again_after_each_further_deadline)
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

Test(due, repeated_expiry_does_not_overflow)
{
	given(2);
	joins(0, 20 * S)->limits.join_ns = UINT64_MAX / 2;
	s.expired = 2;
	cr_assert_eq(at(NOW).what, EXPIRY_NOTHING);
	cr_assert_eq(at(NOW).next_ns, UINT64_MAX);
}

Test(verdict, starts_the_clock_of_a_call_when_an_older_one_is_done)
{
	given(2);
	all_join(60 * S);
	s.moved_ns = NOW - 5 * S;
	cr_assert_eq(at(NOW).what, EXPIRY_NOTHING);
	cr_assert_eq(at(NOW + 15 * S).what, EXPIRY_VERDICT);
	cr_assert_eq(at(NOW + 15 * S).since_ns, NOW - 5 * S);
}

/* ---- never called ----------------------------------------------------- */

Test(verdict, names_a_rank_that_never_called_anything)
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

Test(verdict, names_a_rank_that_only_bound_itself)
{
	given(2);
	joins(0, 10 * S);
	ranks[1].last.ticket = 0;
	cr_assert_str_eq(
		stalled(),
		"rank 1 has not called all_reduce 7 of \"dp\" (10.0 s, limit "
		"10.0 s): it is busy in the program; rank 0 waits");
}

Test(verdict, names_a_rank_whose_thread_was_not_examined)
{
	given(2);
	joins(0, 10 * S);
	ranks[1].alive = -1;
	cr_assert_str_eq(
		stalled(),
		"rank 1 has not called all_reduce 7 of \"dp\" (10.0 s, limit "
		"10.0 s): it is busy in the program; rank 0 waits");
}

Test(verdict, names_a_rank_that_has_left)
{
	given(2);
	joins(0, 10 * S);
	ranks[1].closed = true;
	cr_assert_str_eq(
		stalled(),
		"rank 1 has left: its communicator was closed (10.0 s, limit "
		"10.0 s); rank 0 waits for it in all_reduce 7 of \"dp\"");
}

/* ---- elsewhere -------------------------------------------------------- */

Test(verdict, names_a_rank_outside_the_library)
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

Test(verdict, names_a_rank_that_waits_for_its_own_program)
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

Test(verdict, names_a_rank_in_native_calls)
{
	given(2);
	joins(0, 10 * S);
	ranks[1].inside = true;
	ranks[1].native = true;
	cr_assert_str_eq(
		stalled(),
		"rank 1 has not called all_reduce 7 of \"dp\" (10.0 s, limit "
		"10.0 s): it is inside its native communicator; rank 0 waits");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_OUTSIDE);
}

Test(verdict, names_a_rank_that_waits_in_a_call_with_host_memory)
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

Test(verdict, names_a_rank_inside_another_call)
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

Test(verdict, names_a_rank_whose_thread_has_exited)
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

Test(verdict, names_a_rank_that_any_thread_may_call_for)
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

Test(verdict, does_not_take_the_last_callers_exit_for_that_of_an_unbound_rank)
{
	given(2);
	joins(0, 10 * S);
	ranks[1].bound = false;
	ranks[1].alive = 0;
	ranks[1].thread[0] = '\0';
	cr_assert_str_eq(
		stalled(),
		"rank 1 has not called all_reduce 7 of \"dp\" (10.0 s, limit "
		"10.0 s): the thread that last called for it has exited; rank "
		"0 waits");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_OUTSIDE);
}

Test(verdict, takes_a_thread_that_exited_inside_a_call_for_the_ranks)
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

Test(verdict, names_the_one_rank_that_has_not_started)
{
	given(2);
	all_join(10 * S);
	ranks[0].started = true;
	cr_assert_str_eq(
		stalled(),
		"rank 1 has not started all_reduce 7 of \"dp\" (10.0 s, limit "
		"10.0 s): its stream is busy with what was queued before; rank "
		"0 waits");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_STARTED);
	cr_assert_eq(out.v.rank, 1);
	cr_assert_eq(out.v.joined[0], 3);
	cr_assert_eq(out.v.missing[0], 2);
}

Test(verdict, names_the_one_rank_inside_its_native_call)
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

Test(verdict, blames_no_rank_if_all_have_started_and_none_is_done)
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

Test(verdict, names_the_one_rank_that_is_not_done)
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

Test(verdict, blames_the_only_rank_of_a_group)
{
	given(1);
	all_join(10 * S);
	ranks[0].started = true;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_FINISHED);
	cr_assert_eq(out.v.rank, 0);
}

Test(verdict, claims_no_starts_where_they_are_not_marked)
{
	given(2);
	all_join(10 * S);
	s.starts_are_marked = false;
	cr_assert_str_eq(
		stalled(),
		"all_reduce 7 of \"dp\" has started and has not finished on "
		"ranks 0-1 (10.0 s, limit 10.0 s)");
	ranks[1].in_call = true;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_STARTED);
	cr_assert_eq(out.v.rank, 1);
}

/* ---- many ranks ------------------------------------------------------- */

Test(verdict, is_named_after_the_first_of_several_missing_ranks)
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
	cr_assert_not_null(strstr(out.text, "\nalso   rank 2 ("));
}

Test(verdict, blames_nobody_if_less_than_half_have_called)
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

/* Ranks 1 and 3 wait in a child for rank 2. */
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

Test(verdict, blames_the_rank_that_the_missing_ones_wait_for)
{
	given(4);
	joins(0, 10 * S);
	wait_in_child();
	cr_assert_str_eq(stalled(),
	                 "rank 2 (1 there) has not called all_reduce 3 of "
	                 "\"dp.1\" (10.0 s, limit 10.0 s): it is busy in the "
	                 "program; rank 0 waits; ranks 1, 3 wait in all_reduce "
	                 "3 of group \"dp.1\" for rank 2");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_OUTSIDE);
	cr_assert_eq(out.v.rank, 2);
	cr_assert_eq(out.v.world_rank, 2);
	cr_assert_eq(out.v.missing[0], 4);
}

Test(verdict, blames_no_rank_of_the_group_if_the_culprit_is_in_another)
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

/* Rank 1, for which ranks 0 and 3 wait, has left, and waits for rank 2 elsewhere. */
Test(verdict, line_blames_the_rank_that_has_left_whatever_it_waits_for)
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

Test(verdict, line_says_how_the_end_of_a_chain_has_left)
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
	/* It has left the child alone. */
	ranks[2].returned = false;
	s.waits.culprits[0].at.returned = true;
	cr_assert_eq(strncmp(stalled(), "rank 2 has left: its worker", 27), 0,
	             "%s", out.line);
}

Test(verdict, several_ranks_that_have_left_are_named_together)
{
	given(4);
	joins(0, 10 * S);
	ranks[1].returned = ranks[2].returned = ranks[3].returned = true;
	cr_assert_str_eq(stalled(),
	                 "ranks 1-3 have left: their workers returned 0 (10.0 "
	                 "s, limit 10.0 s); rank 0 waits for them in "
	                 "all_reduce 7 of \"dp\"");
	cr_assert_not_null(strstr(out.text,
	                          "\nalso   rank 2 (thread 4002 \"dp/2\", "
	                          "device 2) has left: its worker returned 0;"),
	                   "%s", out.text);
	ranks[2].closed = true;
	cr_assert_eq(strncmp(stalled(), "ranks 1-3 have left (10.0 s", 27), 0,
	             "%s", out.line);
}

Test(verdict, says_where_a_rank_has_never_called)
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
	cr_assert_not_null(strstr(out.text,
	                          "\nwhy    it has never called anything in "
	                          "this communicator; last seen in thread 4001 "
	                          "\"dp/1\", which is asleep in futex"),
	                   "%s", out.text);
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

Test(verdict, names_of_ranks_of_a_split_group_are_not_cut)
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
	cr_assert_not_null(
		strstr(out.text,
	               "\nwhy    rank 1001 (1 in \"a group whose name "
	               "has sixty-three characters, and needs "
	               "them\") "),
		"%s", out.text);
}

/* Everything that can be said about a rank. */
static void say_all_of(struct rank_snapshot *r)
{
	snprintf(r->state, sizeof(r->state), "asleep in clock_nanosleep");
	snprintf(r->awaits, sizeof(r->awaits),
	         "parameter 'encoder.layers.11.attention.output.weight' (and "
	         "37 more) to be marked ready");
	snprintf(r->tag, sizeof(r->tag), "bucket 12/37: encoder.layers.11...");
}

Test(verdict, line_has_at_most_200_bytes)
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
		cr_assert_not_null(strstr(out.line, "have not called"));
	}
	cr_assert_not_null(strstr(out.text, " 29, 31 and 496 more have not "),
	                   "%s", out.text);
	cr_assert(rank_set_has(out.v.missing, 1023));
}

Test(verdict, block_describes_three_more_ranks)
{
	int i;

	given(16);
	for (i = 0; i < 8; i++)
		joins(i, 10 * S);
	stalled();
	cr_assert_not_null(strstr(out.text, "\nalso   rank 9 ("));
	cr_assert_not_null(strstr(out.text, "\nalso   rank 11 ("));
	cr_assert_null(strstr(out.text, "rank 12 ("), "%s", out.text);
}

Test(verdict, sets_of_ranks_are_printed_as_ranges)
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

Test(verdict, finds_the_last_of_1024_ranks)
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

/* The names of threads have the most characters that the system allows. */
Test(verdict, block_with_the_longest_stack_is_not_cut_off)
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
	cr_assert_not_null(strstr(out.text, "\nwait   ranks 0, 2-7, in "));
	cr_assert_eq(out.v.rank_size, sizeof(out.v.ranks[0]));
	cr_assert_str_eq(out.v.ranks[1].stack, stacks[1].text);
}

/* Names of 100 bytes, each of which gets an equal share. */
Test(verdict, has_eight_frames_however_long_their_names_are)
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
		cr_assert_not_null(strstr(out.text, start), "%s", out.text);
	}
	cr_assert_not_null(strstr(out.text, "\n       bbb"), "%s", out.text);
}

Test(verdict, has_the_stack_of_a_function_whose_name_begins_with_stack)
{
	static struct stack_report stack;

	given(2);
	joins(0, 10 * S);
	ranks[1].stack = &stack;
	strcpy(stack.brief, "stack_up < main");
	stalled();
	cr_assert_not_null(
		strstr(out.text, "\nwhere  stack_up\n       main\n"));
	strcpy(stack.text, STACK_UNAVAILABLE "it is gone");
	stalled();
	cr_assert_not_null(
		strstr(out.text, "\nwhere  " STACK_UNAVAILABLE "it is gone\n"));
}

Test(verdict, says_that_a_call_is_no_longer_on_record)
{
	given(2);
	joins(0, 10 * S)->call.ticket = 0;
	cr_assert_str_eq(
		stalled(),
		"rank 1 has not called collective 7 of \"dp\" (10.0 s, "
		"limit 10.0 s): it is busy in the program; rank 0 "
		"waits");
	cr_assert_not_null(
		strstr(out.text, ", in a call that is not on record"));
}

/* ---- what else is said ------------------------------------------------ */

Test(verdict, of_a_warning_says_how_long_it_has_waited)
{
	const struct expiry due = {
		.what = EXPIRY_WARNING,
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
		"limit 500 ms): it has never called anything; rank 0 "
		"waits");
	cr_assert_str_eq(out.text,
	                 "LATE   rank 1 has not called all_reduce 7 of \"dp\" "
	                 "(generation 1)\n"
	                 "why    it has never called anything\n"
	                 "since  250 ms (limit 500 ms)\n"
	                 "wait   rank 0, in all_reduce of 1000 float32, sum");
	cr_assert_eq(out.v.stage, COHORT_STAGE_WARNING);
	cr_assert_eq(out.v.since_ns, NOW - 250 * MS);
	cr_assert_eq(out.v.deadline_ns, 500 * MS);
	cr_assert_eq(out.v.time_ns, NOW);
	cr_assert_eq(out.v.collective, 7);
	cr_assert_eq(out.v.generation, 1);
	cr_assert_str_eq(out.v.group, "dp");
	cr_assert_eq(out.v.size, 2);
}

Test(verdict, names_a_query_of_the_prober_that_has_no_answer)
{
	given(2);
	all_join(10 * S);
	ranks[0].started = true;
	s.probing = 1;
	s.asking = "ncclCommGetAsyncError";
	s.probing_since_ns = NOW - 3 * S;
	stalled();
	cr_assert_not_null(strstr(out.text,
	                          "\nnote   ncclCommGetAsyncError of rank 1 "
	                          "has not returned for 3.0 s"));
}

Test(verdict, has_a_report_for_every_rank)
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
	                 "and not finished");
}

Test(verdict, has_no_call_in_the_report_of_a_rank_that_made_none)
{
	given(2);
	joins(0, 10 * S);
	ranks[1].last.ticket = 0;
	stalled();
	cr_assert_eq(out.v.ranks[1].ticket, 0);
	cr_assert_eq(out.v.ranks[1].age_ns, 0);
	cr_assert_str_eq(out.v.ranks[1].call, "");
}

/* ---- the end ---------------------------------------------------------- */

Test(verdict, of_an_end_is_its_cause)
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

#define WEDGED "group \"dp\", generation 1 could not be ended within 10.0 s"

Test(verdict, names_a_call_that_keeps_the_group_from_ending)
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

Test(verdict, does_not_take_an_unrecorded_call_for_the_last_recorded_one)
{
	all_idle(2);
	ranks[1].idle = false;
	ranks[1].inside = true;
	verdict_wedged(&s, &out);
	cr_assert_str_eq(out.text, WEDGED
	                 "; rank 1 (thread 4001 \"dp/1\", device 1) is inside "
	                 "a call");
}

/* An abort does not wait for a thread that only waits. */
Test(verdict, names_the_operation_that_a_call_with_host_memory_waits_for)
{
	all_idle(2);
	ranks[1].idle = false;
	ranks[1].inside = ranks[1].staged = true;
	verdict_wedged(&s, &out);
	cr_assert_str_eq(out.text, WEDGED
	                 "; rank 1 (thread 4001 \"dp/1\", device 1) has an "
	                 "operation in flight that does not end");
}

Test(verdict, names_a_thread_that_died_inside_a_call)
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

Test(verdict, names_native_calls_and_operations_that_do_not_end)
{
	all_idle(3);
	ranks[0].idle = false;
	ranks[0].inside = ranks[0].native = true;
	ranks[2].idle = false;
	verdict_wedged(&s, &out);
	cr_assert_str_eq(out.text, WEDGED
	                 "; rank 0 (thread 4000 \"dp/0\", device 0) is inside "
	                 "its native communicator"
	                 "; rank 2 (thread 4002 \"dp/2\", device 2) has an "
	                 "operation in flight that does not end");
	cr_assert_eq(out.v.rank, 0);
	cr_assert_eq(out.v.missing[0], 5);
}

Test(verdict, names_further_reasons_after_many_ranks)
{
	int i;

	all_idle(64);
	for (i = 0; i < 64; i++)
		ranks[i].idle = false;
	s.reaping = "ncclGroupEnd";
	verdict_wedged(&s, &out);
	cr_assert_not_null(strstr(out.text, "; rank 3 (thread 4003 \"dp/3\", "
	                                    "device 3) has an operation in "
	                                    "flight that does not end; and 60 "
	                                    "more ranks; the reaper is inside "
	                                    "ncclGroupEnd"),
	                   "%s", out.text);
	cr_assert(rank_set_has(out.v.missing, 63));
}

Test(verdict, names_a_reaper_that_does_not_return)
{
	all_idle(2);
	s.reaping = "ncclGroupEnd";
	verdict_wedged(&s, &out);
	cr_assert_str_eq(out.text,
	                 WEDGED "; the reaper is inside ncclGroupEnd");
	cr_assert_eq(out.v.rank, -1);
	s.reaping = "ncclCommAbort";
	s.reaping_rank = 1;
	verdict_wedged(&s, &out);
	cr_assert_str_eq(out.text,
	                 WEDGED "; the reaper is inside ncclCommAbort of "
	                        "rank 1");
}

Test(verdict, names_a_prober_and_an_on_verdict_that_do_not_return)
{
	all_idle(2);
	s.probing = 1;
	s.asking = "ncclCommGetAsyncError";
	s.probing_since_ns = NOW - 11 * S;
	s.telling = "on_verdict";
	s.telling_since_ns = NOW - 12 * S;
	verdict_wedged(&s, &out);
	cr_assert_str_eq(out.text, WEDGED
	                 "; the prober is inside ncclCommGetAsyncError of "
	                 "rank 1; on_verdict has not returned for 12.0 s");
	s.asking = "cudaEventQuery";
	s.telling_since_ns = 0;
	verdict_wedged(&s, &out);
	cr_assert_str_eq(out.text, WEDGED
	                 "; the prober is inside cudaEventQuery of rank 1");
}

Test(verdict, names_a_prober_that_does_not_answer)
{
	given(2);
	s.probing = 1;
	s.asking = "ncclCommGetAsyncError";
	s.probing_since_ns = NOW - 11 * S;
	verdict_prober(&s, &out);
	cr_assert_str_eq(out.text,
	                 "the prober of group \"dp\" has been inside "
	                 "ncclCommGetAsyncError of rank 1 for 11.0 s");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_PROBER_STUCK);
	cr_assert_eq(out.v.stage, COHORT_STAGE_WARNING);
	cr_assert_eq(out.v.rank, 1);
	cr_assert_eq(out.v.since_ns, NOW - 11 * S);
	cr_assert_eq(out.v.deadline_ns, 10 * S);
	s.asking = "cudaEventQuery";
	verdict_prober(&s, &out);
	cr_assert_str_eq(out.text, "the prober of group \"dp\" has been inside "
	                           "cudaEventQuery of rank 1 for 11.0 s");
}

/* ---- as a cause, as a copy, as a word --------------------------------- */

Test(verdict, line_is_the_text_of_the_cause)
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

Test(verdict, copy_does_not_depend_on_the_original)
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

Test(verdict, kinds_all_have_their_words)
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

/* Rank 0 has sent to rank 1, that long ago, and allows 10 s. */
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

/* The text about the transfer after its time. */
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

Test(due, a_transfer_has_a_clock_of_its_own)
{
	const uint64_t began = NOW - S;

	given(2);
	sends(S);
	cr_assert_eq(at(began + 5 * S - 1).what, EXPIRY_NOTHING);
	cr_assert_eq(at(began + 5 * S - 1).next_ns, began + 5 * S);
	cr_assert_eq(at(began + 5 * S).what, EXPIRY_WARNING);
	s.transfer.warned = true;
	cr_assert_eq(at(began + 5 * S).what, EXPIRY_NOTHING);
	cr_assert_eq(at(began + 5 * S).next_ns, began + 10 * S);
	cr_assert_eq(at(began + 10 * S).what, EXPIRY_VERDICT);
	cr_assert(at(began + 10 * S).is_transfer);
	s.transfer.expired = 1;
	cr_assert_eq(at(began + 10 * S).next_ns, began + 20 * S);
	s.paused = true;
	cr_assert_eq(at(began + 10 * S).what, EXPIRY_NOTHING);
}

/* Its peer may have received by a native call or a graph before it left. */
Test(due, a_transfer_to_a_rank_that_has_left_is_due_at_once_if_it_is_numbered)
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

Test(due, the_graver_of_a_transfer_and_a_collective_is_reported)
{
	given(2);
	sends(8 * S);
	s.front = 7;
	joins(1, 4 * S);
	/* 8 s and 4 s of 10 s: a warning of each is due, or will be. */
	cr_assert_eq(at(NOW).what, EXPIRY_WARNING);
	cr_assert(at(NOW).is_transfer);
	s.transfer.warned = true;
	cr_assert_eq(at(NOW).next_ns, NOW + S);
	cr_assert_eq(at(NOW + S).what, EXPIRY_WARNING);
	cr_assert_not(at(NOW + S).is_transfer);
	cr_assert_eq(at(NOW + 2 * S).what, EXPIRY_VERDICT);
	cr_assert(at(NOW + 2 * S).is_transfer);
	s.transfer.expired = 1;
	cr_assert_eq(at(NOW + 6 * S).what, EXPIRY_VERDICT);
	cr_assert_not(at(NOW + 6 * S).is_transfer);
}

Test(verdict, of_a_transfer_names_the_rank_that_has_not_called)
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

Test(verdict, of_a_transfer_says_if_the_rank_never_called_or_is_dead)
{
	given(2);
	sends(10 * S);
	ranks[1].tid = 0;
	ranks[1].last.ticket = 0;
	*ranks[1].thread = '\0';
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NEVER_CALLED);
	cr_assert_not_null(strstr(out.text, "rank 1 (device 1) has not called "
	                                    "its recv: has never called "
	                                    "anything"),
	                   "%s", out.text);
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

Test(verdict, of_a_transfer_that_both_called_names_the_rank_that_delays_it)
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
	cr_assert_not_null(strstr(out.text, "rank 1 (thread 4001 \"dp/1\", "
	                                    "device 1) has not started"),
	                   "%s", out.text);
	x->other.started = true;
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_FINISHED);
	cr_assert_eq(out.v.rank, -1);
	x->own = (struct half){ .in_call = true };
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_STARTED);
	cr_assert_eq(out.v.rank, 0);
	cr_assert_not_null(strstr(out.text, "is inside the native call"));
}

/* Rank 0 sends to rank 3, which is of another process and has not answered. */
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

Test(verdict, of_a_transfer_with_another_process_says_so)
{
	sends_to_other()->own.started = true;
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_REMOTE);
	cr_assert_eq(out.v.rank, 3);
	cr_assert_eq(out.v.missing[0], 8);
	cr_assert_not_null(strstr(out.line, "recv 3 from rank 0 of \"dp\" ("));
	cr_assert_not_null(strstr(out.text, "rank 3 is of another process"));
}

/*
 * NCCL connects two ranks in the first call between them, which waits for the
 * other one's.
 */
Test(verdict,
     of_the_first_transfer_with_another_process_does_not_blame_the_caller)
{
	struct transfer_snapshot *x = sends_to_other();

	x->number = 1;
	x->own.in_call = true;
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_REMOTE);
	cr_assert_eq(out.v.rank, 3);
	cr_assert_eq(out.v.missing[0], 8);
	cr_assert_not_null(strstr(out.text, "is inside the native call"));
	cr_assert_not_null(strstr(out.text,
	                          "rank 3 is of another process, and the first "
	                          "call waits until it calls"));
	/* They are connected. */
	x->number = 2;
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_STARTED);
	cr_assert_eq(out.v.rank, 0);
}

/* What rank 3 has answered about its half. */
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

Test(verdict, of_a_transfer_says_what_the_rank_of_the_other_process_does)
{
	given_peer(true);
	peer.kind = COHORT_VERDICT_OUTSIDE;
	strcpy(peer.text, "rank 3 (pid 7, device 0) has not called its recv:");
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_OUTSIDE);
	cr_assert_eq(out.v.rank, 3);
	cr_assert_eq(out.v.joined[0], 1);
	cr_assert_eq(out.v.missing[0], 8);
	cr_assert_not_null(strstr(out.text,
	                          "\nalso   rank 3 (pid 7, device 0) has not "
	                          "called its recv:"),
	                   "%s", out.text);
	cr_assert_null(strstr(out.text, "is of another process"));
	/* Though the stream of rank 0 has not come to the send. */
	given_peer(false);
	peer.kind = COHORT_VERDICT_THREAD_EXITED;
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_THREAD_EXITED);
	cr_assert_eq(out.v.rank, 3);
}

Test(verdict, of_a_transfer_with_a_process_that_is_stopped_begins_with_it)
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

Test(verdict, of_a_transfer_names_the_process_that_has_not_answered)
{
	sends_to_other()->own.started = true;
	s.silent = "process 1 (pid 4711), which is stopped";
	stalled_transfer();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_REMOTE);
	cr_assert_eq(out.v.rank, 3);
	cr_assert_not_null(strstr(out.text,
	                          "\nnote   no answer from process 1 (pid "
	                          "4711), which is stopped"),
	                   "%s", out.text);
}

Test(verdict, of_a_transfer_that_both_processes_called_names_who_delays_it)
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

static void transfer_is_cycle(bool is)
{
	stalled_transfer();
	cr_assert_eq(out.v.kind == COHORT_VERDICT_CYCLE, is, "%s", out.text);
	if (!is)
		return;
	cr_assert_eq(out.v.rank, -1);
	cr_assert_eq(out.v.missing[0], 0);
	cr_assert_not_null(strstr(out.text, "\nwait   rank 3, for rank 0 to "
	                                    "receive (number 2)"),
	                   "%s", out.text);
}

/* The peer has not called its half, and its thread waits for what rank 0 has not come to;
 * or its stream does. */
Test(verdict, of_a_transfer_finds_a_cycle_of_two_processes)
{
	struct transfer_snapshot *x = given_peer(true);

	peer.kind = COHORT_VERDICT_OUTSIDE;
	s.kept.exists = true;
	s.kept.number = 2;
	transfer_is_cycle(false);
	peer.is_held = 1;
	transfer_is_cycle(true);
	s.kept.exists = false;
	transfer_is_cycle(false);
	s.kept.exists = true;
	peer.is_held = 0;
	peer.joined = 1;
	peer.kind = COHORT_VERDICT_NOT_FINISHED;
	transfer_is_cycle(false);
	peer.kind = COHORT_VERDICT_NOT_STARTED;
	transfer_is_cycle(true);
	x->own.started = false;
	transfer_is_cycle(false);
	x->own.in_call = true;
	transfer_is_cycle(true);
}

/* What the ranks 2 to 4 of other processes say about the front, that ranks 0 and 1 have
 * started. */
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

/* Rank 3, of another process, has not called, and waits for rank @world elsewhere. */
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

Test(verdict, blames_the_rank_that_one_of_another_process_waits_for)
{
	rank_3_waits_for(4);
	s.waits.here[0] = 0x10;
	cr_assert_str_eq(stalled(),
	                 "rank 4 (1 there) has not called all_reduce 3 of "
	                 "\"dp.1\" (10.0 s, limit 10.0 s): rank 4 (pid 7) is "
	                 "asleep in futex; ranks 0-2 wait; rank 3 waits in "
	                 "all_reduce 3 of group \"dp.1\" for rank 4");
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NEVER_CALLED);
	cr_assert_eq(out.v.rank, 4);
	cr_assert_eq(out.v.missing[0], 0x10);
}

Test(verdict, names_the_rank_of_no_member_that_one_of_another_process_waits_for)
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

/* Rank 3 waits for rank 0 in another communicator: it is the minority. */
Test(verdict, blames_the_rank_of_another_process_that_uses_another_order)
{
	rank_3_waits_for(0);
	s.waits.culprit_count = 0;
	s.waits.is_cycle = s.waits.is_crossing = true;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_ORDER);
	cr_assert_eq(out.v.rank, 3);
	cr_assert_eq(out.v.missing[0], 8);
	cr_assert_not_null(strstr(out.line, "in different orders ("), "%s",
	                   out.line);
	/* With two more it is the majority. */
	remote[0].joined = remote[2].joined = 0;
	remote[0].waits = remote[2].waits = true;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_CYCLE);
	cr_assert_eq(out.v.rank, -1);
	cr_assert_eq(out.v.missing[0], 0);
}

/* Another process says that rank 3 waits, and rank 4 does not: that is to blame. */
Test(verdict, blames_a_rank_that_waits_for_nobody)
{
	rank_3_waits_for(0);
	memset(&s.waits, 0, sizeof(s.waits));
	remote[2].joined = 0;
	remote[2].kind = COHORT_VERDICT_OUTSIDE;
	stalled();
	cr_assert_eq(out.v.rank, 4);
	cr_assert_eq(out.v.missing[0], 0x10);
}

/* Of five ranks only rank 0 has called. */
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

Test(verdict, blames_nobody_if_less_than_half_of_all_processes_ranks_wait)
{
	only_rank_0_has_called();
	cr_assert(stall_may_be_minority(&s));
	stalled();
	cr_assert_eq(out.v.rank, -1, "%s", out.text);
	cr_assert_eq(out.v.missing[0], 0);
	cr_assert_not_null(strstr(out.line, "rank 0 alone waits in "), "%s",
	                   out.line);
	cr_assert_not_null(strstr(out.text, "\nothers ranks 1-4 are "), "%s",
	                   out.text);
}

Test(verdict, blames_a_missing_rank_if_half_of_all_processes_ranks_wait)
{
	only_rank_0_has_called();
	remote[0].joined = remote[1].joined = 1;
	stalled();
	cr_assert_eq(out.v.rank, 1, "%s", out.text);
	s.others_joined = 2;
	cr_assert_not(stall_may_be_minority(&s));
}

Test(verdict, blames_a_missing_rank_if_one_of_another_process_has_left)
{
	only_rank_0_has_called();
	remote[2].kind = COHORT_VERDICT_LEFT;
	stalled();
	cr_assert_neq(out.v.rank, -1, "%s", out.text);
}

Test(verdict, blames_a_missing_rank_if_another_process_does_not_answer)
{
	only_rank_0_has_called();
	s.remote_count = 2;
	stalled();
	cr_assert_neq(out.v.rank, -1, "%s", out.text);
}

Test(verdict, of_a_rank_of_another_process_says_what_that_does)
{
	given_remote(3);
	remote[1].joined = 0;
	remote[1].kind = COHORT_VERDICT_OUTSIDE;
	strcpy(remote[1].text, "rank 3 (pid 7, device 0) is outside");
	strcpy(remote[1].brief, "rank 3 (pid 7) is outside");
	stalled();
	cr_assert_not_null(strstr(out.line, "): rank 3 (pid 7) is outside; "),
	                   "%s", out.line);
	cr_assert_eq(out.v.kind, COHORT_VERDICT_OUTSIDE);
	cr_assert_eq(out.v.rank, 3);
	cr_assert_eq(out.v.joined[0], 0x17);
	cr_assert_eq(out.v.missing[0], 0x8);
	cr_assert_not_null(
		strstr(out.text,
	               "\nnote   rank 3 (pid 7, device 0) is outside"),
		"%s", out.text);
}

Test(verdict, of_a_rank_of_another_process_that_has_not_started_blames_it)
{
	given_remote(3);
	remote[2].kind = COHORT_VERDICT_NOT_STARTED;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_STARTED);
	cr_assert_eq(out.v.rank, 4);
	cr_assert_eq(out.v.missing[0], 0x10);
}

/* The process of ranks 3 and 4 is stopped, and rank 2 of another one is late. */
Test(verdict, blames_a_stopped_process_before_a_rank_that_is_late)
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
	/* All have called, so that rank 2 is not late. */
	for (i = 0; i < 3; i++)
		remote[i].joined = 1;
	stalled();
	cr_assert_eq(out.v.rank, 3);
	cr_assert_eq(out.v.missing[0], 0x18);
}

Test(verdict, of_other_processes_names_the_ranks_without_an_answer)
{
	given_remote(2);
	s.silent = "process 2 (pid 7)";
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_REMOTE);
	cr_assert_eq(out.v.rank, -1);
	cr_assert_eq(out.v.missing[0], 0x10);
	cr_assert_not_null(strstr(out.text,
	                          "\nnote   nothing is known of rank 4\n"
	                          "note   no answer from process 2 (pid 7)"),
	                   "%s", out.text);
}

/* Ranks 0 and 1 have called what @digest says, rank 2 the same, 3 and 4 not. */
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

Test(verdict, of_other_processes_tells_who_calls_something_else)
{
	given_different(5);
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_DIFFERENT_CALL);
	cr_assert_eq(out.v.rank, 3);
	cr_assert_eq(out.v.missing[0], 0x18);
	cr_assert_not_null(
		strstr(out.text,
	               "\nnote   rank 3 calls broadcast of 3 float32 from 0"),
		"%s", out.text);
}

Test(verdict, of_other_processes_blames_no_rank_if_most_call_something_else)
{
	given_different(6);
	remote[0].word = UINT64_C(7) << 32 | 5;
	remote[1].word = remote[2].word = remote[0].word;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_DIFFERENT_CALL);
	cr_assert_eq(out.v.rank, -1);
	cr_assert_eq(out.v.missing[0], 0);
}

/* A record that is gone has no digest, and neither has a rank that has not called. */
Test(verdict, of_other_processes_compares_what_is_known)
{
	given_different(0);
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_FINISHED);
	given_different(5);
	remote[1].word = remote[2].word = 0;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_FINISHED);
}

/* All of this process have called, and a rank of another has not, which it shows. */
Test(verdict, of_ranks_that_others_miss_comes_after_the_join_deadline)
{
	given_remote(3);
	s.others_miss = true;
	remote[1].joined = 0;
	remote[1].kind = COHORT_VERDICT_NEVER_CALLED;
	/* Its own ranks have not started, which is nobody's fault. */
	s.starts_are_marked = true;
	ranks[0].started = ranks[1].started = false;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NEVER_CALLED);
	cr_assert_eq(out.v.rank, 3);
	cr_assert_eq(out.v.missing[0], 0x8);
	cr_assert_not_null(strstr(out.line, "rank 3 has not called "), "%s",
	                   out.line);
}

/* Whoever waits for a rank of which nothing is known has not started, either. */
Test(verdict, of_other_processes_blames_no_rank_that_may_wait_for_another)
{
	given_remote(2);
	remote[0].kind = COHORT_VERDICT_NOT_STARTED;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_REMOTE);
	cr_assert_eq(out.v.rank, -1);
	cr_assert_eq(out.v.missing[0], 0x10);
}

Test(verdict, of_other_processes_blames_no_rank_that_waits_for_an_older_call)
{
	given_remote(3);
	remote[1].kind = COHORT_VERDICT_NOT_STARTED;
	remote[1].is_behind = 1;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_FINISHED);
	cr_assert_eq(out.v.rank, -1);
}

/* Both ranks of this process are inside the first collective's native call. */
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

Test(verdict, of_a_first_call_that_all_are_inside_blames_no_rank)
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

Test(verdict, of_a_first_call_that_all_others_have_left_blames_this_process)
{
	given_first(3);
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_STARTED);
	cr_assert_eq(out.v.rank, 0);
	cr_assert_eq(out.v.missing[0], 0x3);
}

Test(verdict, of_what_runs_in_all_processes_blames_no_rank)
{
	given_remote(3);
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_FINISHED);
	cr_assert_eq(out.v.rank, -1);
	cr_assert_eq(out.v.missing[0], 0x1f);
}

/* So does the first collective, which may connect all ranks. */
Test(verdict,
     of_the_first_collective_with_another_process_blames_no_rank_of_this)
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
	/* One that has left its call shows that they are connected. */
	ranks[0].in_call = false;
	ranks[0].started = true;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_STARTED);
	cr_assert_eq(out.v.rank, 1);
	ranks[0].in_call = true;
	s.front = 2;
	stalled();
	cr_assert_eq(out.v.kind, COHORT_VERDICT_NOT_STARTED);
}
