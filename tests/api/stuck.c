/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of threads that hang without limit: in native calls, in the reaper, in
 * the prober or in on_verdict. The process must continue, other groups must
 * work, and close must return and name the part that hangs.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/ranks.h"
#include "support/spread.h"
#include "support/stuck.h"
#include "support/verdicts.h"

#define MS UINT64_C(1000000)
#define SHORT (20 * MS)
/* Abort deadline, long enough for everything that does not hang */
#define ABORT (400 * MS)

static struct verdicts reported;
static const char *limit; /* the abort deadline as text */
static struct cohort_group_options o;
static struct cohort_group *group;
static struct cohort_comm *comms[2];
static int32_t values[2];

static void set_up(void)
{
	stuck_install();
	cohort_group_options_init(&o);
	o.name = "dp";
	/* Use a longer deadline with NVIDIA's NCCL, whose abort takes half a
	 * second, or more on a busy machine. */
	limit = place_is_nvidia() ? "2.0 s" : "400 ms";
	o.deadlines.abort_ns = place_is_nvidia() ? 5 * ABORT : ABORT;
	verdicts_attach(&reported, &o);
}

TestSuite(stuck, .init = set_up, .timeout = 60);

/*
 * Check that another group works. Its ranks launch together, because NCCL frees
 * memory of the ended group for another half second. Ranks that launched ahead
 * could hang on devices that wait for each other's kernels.
 */
static void another_group_works(void)
{
	int32_t two[2] = { 1, 2 };
	void *const memory[] = { &two[0], &two[1] };
	struct cohort_group_options together;
	struct cohort_group *another;
	uint64_t t;

	cohort_group_options_init(&together);
	together.launch = COHORT_LAUNCH_TOGETHER;
	another = ranks_open(2, &together);
	ranks_must(cohort_group_all_reduce(another, (const void *const *)memory,
	                                   memory, 1, COHORT_I32, COHORT_SUM,
	                                   NULL, &t),
	           "all_reduce");
	cr_assert_eq(cohort_group_wait(another, t, RANKS_SOON), COHORT_OK);
	cr_assert_eq(two[0], 3);
	cr_assert_eq(two[1], 3);
	expect_close(another);
}

/* Return the start of the message about a group that could not be ended, up to
 * and including @why. */
static const char *wedged_text(const char *why)
{
	static char text[256];

	snprintf(text, sizeof(text),
	         "group \"dp\" (generation 1) could not be ended within %s%s",
	         limit, why);
	return text;
}

/* Check that close says that the group could not be ended, because of @why. */
static void close_says(const char *why)
{
	cr_assert_eq(cohort_group_close(group), COHORT_WEDGED);
	expect_text(cohort_last_error(), why);
}

static const struct cohort_verdict *next_of_kind(int kind)
{
	const struct cohort_verdict *v;

	do
		v = verdicts_next(&reported);
	while (v->kind != kind);
	return v;
}

/* ---- native calls ----------------------------------------------------- */

static void *sum_on_rank_1(void *unused)
{
	(void)unused;
	return (void *)(intptr_t)ranks_sum_wait(comms[1], &values[1]);
}

Test(stuck, close_names_the_rank_whose_native_call_hangs)
{
	const struct cohort_verdict *v;
	pthread_t thread;
	uint64_t t;
	void *rc;

	o.deadlines.exec_ns = SHORT;
	group = ranks_ahead(2, &o, comms);
	stuck_at("ncclAllReduce", 1);
	ranks_must(cohort_pause(comms[0]), "pause");
	pthread_create(&thread, NULL, sum_on_rank_1, NULL);
	stuck_await();
	t = ranks_sum(comms[0], &values[0]);
	ranks_must(cohort_resume(comms[0]), "resume");
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_WEDGED);
	v = next_of_kind(COHORT_VERDICT_WEDGED);
	cr_assert_eq(v->stage, COHORT_STAGE_ENDED);
	cr_assert_eq(v->rank, 1);
	cr_assert_eq(v->missing[0], 2);
	expect_text(v->text, wedged_text("; rank 1 (thread "));
	expect_text(v->text, "has been inside all_reduce for ");
	another_group_works();
	close_says("has been inside all_reduce for ");
	stuck_release();
	pthread_join(thread, &rc);
	cr_assert_eq((intptr_t)rc, COHORT_WEDGED);
}

Test(stuck, registered_memory_is_kept_while_a_native_call_hangs)
{
	pthread_t thread;
	void *memory;

	group = ranks_ahead(2, &o, comms);
	ranks_must(cohort_alloc_registered(comms[0], 100, &memory), "alloc");
	stuck_at("ncclAllReduce", 1);
	pthread_create(&thread, NULL, sum_on_rank_1, NULL);
	stuck_await();
	ranks_must(cohort_group_abort(group, NULL), "abort");
	cr_assert_eq(cohort_free(comms[0], memory), COHORT_WEDGED);
	cr_assert_eq(cohort_free(comms[0], memory), COHORT_WEDGED,
	             "freed once it was known to be wedged");
	close_says("has been inside all_reduce for ");
	stuck_release();
	pthread_join(thread, NULL);
}

/* ---- the reaper ------------------------------------------------------- */

Test(stuck, close_names_the_abort_call_that_hangs)
{
	const struct cohort_verdict *v;
	uint64_t t;

	group = ranks_ahead(2, &o, comms);
	t = ranks_sum(comms[0], &values[0]);
	stuck_at("ncclGroupEnd", -1);
	ranks_must(cohort_group_abort(group, NULL), "abort");
	/* The wait must return before any native memory is freed. */
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_ABORTED);
	stuck_await();
	v = next_of_kind(COHORT_VERDICT_WEDGED);
	cr_assert_eq(v->rank, -1);
	cr_assert_str_eq(v->text,
	                 wedged_text("; ncclGroupEnd has not returned"));
	cr_assert_eq(cohort_group_respawn(group, NULL, 0), COHORT_STATE);
	cr_assert_str_eq(cohort_last_error(), v->text);
	another_group_works();
	close_says("ncclGroupEnd has not returned; generation 1 is leaked");
	stuck_release();
}

/* Another thread's CUDA call may hold a lock that a call of the reaper would
 * wait for. Only an abort makes the CUDA call return. */
Test(stuck, all_ranks_are_aborted_before_the_reaper_calls_cuda)
{
	uint64_t t;

	group = ranks_ahead(2, &o, comms);
	t = ranks_sum(comms[0], &values[0]);
	stuck_at("cudaSetDevice of the reaper", -1);
	ranks_must(cohort_group_abort(group, NULL), "abort");
	stuck_await();
	cr_assert_eq(stuck_aborted(), 2);
	stuck_release();
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_ABORTED);
	expect_close(group);
}

Test(stuck, close_names_the_destroy_call_that_hangs)
{
	group = ranks_ahead(2, &o, comms);
	stuck_at("ncclGroupEnd", -1);
	close_says("; ncclGroupEnd has not returned");
	cr_assert_eq(next_of_kind(COHORT_VERDICT_CLOSE_STUCK)->rank, -1);
	another_group_works();
	stuck_release();
}

/* ---- the prober ------------------------------------------------------- */

Test(stuck, close_names_the_error_query_that_hangs)
{
	const struct cohort_verdict *v;
	struct cohort_stats stats = { .size = sizeof(stats) };
	uint64_t t;

	group = ranks_ahead(2, &o, comms);
	stuck_at("ncclCommGetAsyncError", 1);
	t = ranks_sum(comms[0], &values[0]);
	v = next_of_kind(COHORT_VERDICT_PROBER_STUCK);
	cr_assert_eq(v->stage, COHORT_STAGE_WARNING);
	cr_assert_eq(v->rank, 1);
	ranks_must(cohort_stats(comms[0], &stats), "stats");
	cr_assert_eq(stats.verdicts[COHORT_VERDICT_PROBER_STUCK], 1);
	expect_text(v->text, "group \"dp\": ncclCommGetAsyncError of "
	                     "rank 1 has not returned for ");
	/* The prober is stuck, but the ranks must still work. */
	ranks_sum(comms[1], &values[1]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	another_group_works();
	close_says("; ncclCommGetAsyncError of rank 1 has not returned");
	cr_assert_eq(next_of_kind(COHORT_VERDICT_CLOSE_STUCK)->stage,
	             COHORT_STAGE_ENDED);
	stuck_release();
}

/*
 * All operations in flight have marks, so only the prober queries events.
 */
Test(stuck, close_names_the_event_query_that_hangs)
{
	const struct cohort_verdict *v;
	uint64_t t;

	group = ranks_ahead(2, &o, comms);
	stuck_at("cudaEventQuery", -1);
	t = ranks_sum(comms[0], &values[0]);
	v = next_of_kind(COHORT_VERDICT_PROBER_STUCK);
	cr_assert_eq(v->rank, 0);
	expect_text(v->text, "group \"dp\": cudaEventQuery of rank 0 "
	                     "has not returned for ");
	ranks_sum(comms[1], &values[1]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	close_says("; cudaEventQuery of rank 0 has not returned");
	stuck_release();
}

/* The prober calls cudaSetDevice() before its first query. */
Test(stuck, close_names_the_probers_first_call_if_it_hangs)
{
	stuck_at("cudaSetDevice", 0);
	group = ranks_ahead(2, &o, comms);
	ranks_sum(comms[0], &values[0]);
	stuck_await();
	ranks_sum(comms[1], &values[1]);
	close_says("; cudaSetDevice of rank 0 has not returned");
	stuck_release();
}

Test(stuck, close_reports_a_prober_stuck_at_a_later_rank)
{
	const struct cohort_verdict *v;
	uint64_t t;

	stuck_at("cudaSetDevice", 1);
	group = ranks_ahead(2, &o, comms);
	t = ranks_sum(comms[0], &values[0]);
	v = next_of_kind(COHORT_VERDICT_PROBER_STUCK);
	cr_assert_eq(v->rank, 1);
	expect_text(v->text, "group \"dp\": cudaSetDevice of rank 1 "
	                     "has not returned for ");
	ranks_sum(comms[1], &values[1]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_OK);
	close_says("; cudaSetDevice of rank 1 has not returned");
	stuck_release();
}

Test(stuck, asynchronous_error_ends_the_group)
{
	struct cohort_cause cause;
	uint64_t t;

	group = ranks_ahead(2, &o, comms);
	t = ranks_sum(comms[0], &values[0]);
	stuck_async_error(1, ncclRemoteError);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_NCCL);
	cohort_group_cause(group, &cause);
	cr_assert_eq(cause.kind, COHORT_VERDICT_ASYNC_ERROR);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	cr_assert_eq(cause.nccl, 6);
	expect_text(cause.text, "rank 1: the native communicator has failed: "
	                        "remote process exited or there was a network "
	                        "error (6)");
	expect_text(cause.text,
	            "; when the group ended: rank 1 without a call so "
	            "far; rank 0 in all_reduce of 1 int32, sum "
	            "(collective 1)");
	cr_assert_eq(verdicts_next(&reported)->kind,
	             COHORT_VERDICT_ASYNC_ERROR);
	expect_close(group);
}

/* The prober hangs in a query for one group. A new thread must replace it and
 * query the other group. */
Test(stuck, prober_that_hangs_in_one_group_is_replaced_for_others)
{
	struct cohort_group_options lone;
	struct cohort_comm *others[2];
	struct cohort_group *other;
	uint64_t first, t;
	int32_t value = 1;

	cohort_group_options_init(&lone);
	other = ranks_ahead(2, &lone, others);
	group = ranks_ahead(2, &o, comms);
	stuck_at("ncclCommGetAsyncError", 1);
	first = ranks_sum(comms[0], &values[0]);
	stuck_await();
	t = ranks_sum(others[0], &value);
	stuck_async_error(1, ncclRemoteError);
	cr_assert_eq(cohort_wait(others[0], t, RANKS_SOON), COHORT_NCCL);
	/* Abort this group before the other one is closed, because the close
	 * waits for operations in flight on these devices. */
	cr_assert_eq(cohort_group_abort(group, NULL), COHORT_OK);
	cr_assert_eq(cohort_wait(comms[0], first, RANKS_SOON), COHORT_WEDGED);
	expect_close(other);
	close_says("ncclCommGetAsyncError of rank 1 has not returned");
	stuck_release();
}

/* ---- on_verdict ------------------------------------------------------- */

/* A callback that hangs occupies only one worker thread. */
Test(stuck, on_verdict_that_hangs_does_not_delay_other_groups)
{
	struct cohort_group_options late;
	struct cohort_comm *others[2];
	struct cohort_group *other;
	struct cohort_cause cause;
	int32_t value = 1;
	uint64_t t;
	int i;

	reported.block_stage = COHORT_STAGE_ENDED;
	group = ranks_ahead(2, &o, comms);
	ranks_must(cohort_group_abort(group, NULL), "abort");
	verdicts_await_block(&reported);
	cohort_group_options_init(&late);
	late.deadlines.join_ns = SHORT;
	for (i = 0; i < 3; i++) {
		other = ranks_ahead(2, &late, others);
		t = ranks_sum(others[0], &value);
		cr_assert_eq(cohort_wait(others[0], t, RANKS_SOON),
		             COHORT_STALLED);
		cohort_group_cause(other, &cause);
		cr_assert_eq(cause.missing[0], 2);
		expect_close(other);
	}
	close_says("on_verdict has not returned: its thread is abandoned");
	cr_assert_str_eq(verdicts_release(&reported), "dp");
}

Test(stuck, on_verdict_that_hangs_at_the_end_is_abandoned)
{
	uint64_t t;

	reported.block_stage = COHORT_STAGE_ENDED;
	group = ranks_ahead(2, &o, comms);
	t = ranks_sum(comms[0], &values[0]);
	ranks_must(cohort_group_abort(group, NULL), "abort");
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_ABORTED);
	verdicts_await_block(&reported);
	another_group_works();
	close_says("on_verdict has not returned: its thread is abandoned");
	cr_assert_str_eq(verdicts_release(&reported), "dp");
}

static bool is_default(int number)
{
	struct sigaction now;

	sigaction(number, NULL, &now);
	return now.sa_handler == SIG_DFL;
}

/*
 * The callback uses up the close deadline. The dumper must still end, either
 * within the deadline or later on its own.
 */
Test(stuck, dumper_ends_even_if_on_verdict_uses_up_the_close_deadline)
{
	char folder[] = "/tmp/cohort-stuck-XXXXXX", command[64];
	uint64_t deadline = test_deadline(RANKS_SOON);

	ranks_must(mkdtemp(folder) ? COHORT_OK : COHORT_SYSTEM, "mkdtemp");
	o.dump_directory = folder;
	o.dump_signal = SIGUSR2;
	reported.block_stage = COHORT_STAGE_ENDED;
	group = ranks_split(2, &o, comms);
	cr_assert_not(is_default(SIGUSR2));
	ranks_must(cohort_group_abort(group, NULL), "abort");
	verdicts_await_block(&reported);
	close_says("on_verdict has not returned: its thread is abandoned");
	while (!is_default(SIGUSR2) && test_now() < deadline)
		test_nap();
	cr_assert(is_default(SIGUSR2));
	cr_assert_str_eq(verdicts_release(&reported), "dp");
	snprintf(command, sizeof(command), "rm -r %s", folder);
	cr_assert_eq(system(command), 0);
}

Test(stuck, on_verdict_that_does_not_return_ends_the_group)
{
	struct cohort_cause cause;
	uint64_t t;

	o.deadlines.join_ns = SHORT;
	o.policy = COHORT_POLICY_ASK;
	reported.block_stage = COHORT_STAGE_EXPIRED;
	group = ranks_ahead(2, &o, comms);
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	cohort_group_cause(group, &cause);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	expect_text(cause.text, "it has never called anything; rank 0 waits; "
	                        "on_verdict has not returned in time");
	close_says("on_verdict has not returned: its thread is abandoned");
	cr_assert_str_eq(verdicts_release(&reported), "dp");
}

Test(stuck, on_verdict_that_hangs_delays_a_respawn_only_briefly)
{
	reported.block_stage = COHORT_STAGE_ENDED;
	group = ranks_ahead(2, &o, comms);
	ranks_must(cohort_group_abort(group, NULL), "abort");
	verdicts_await_block(&reported);
	cr_assert_eq(cohort_group_respawn(group, NULL, 0), COHORT_OK, "%s",
	             cohort_last_error());
	cr_assert_eq(cohort_group_split(group, comms), COHORT_OK);
	ranks_sum(comms[0], &values[0]);
	cr_assert_eq(ranks_sum_wait(comms[1], &values[1]), COHORT_OK);
	cr_assert_eq(cohort_group_close(group), COHORT_WEDGED);
	expect_text(cohort_last_error(), "on_verdict has not returned");
	cr_assert_str_eq(verdicts_release(&reported), "dp");
}

/* ---- connecting ------------------------------------------------------- */

static int open_two(void)
{
	place_need(4);
	o.platform = place_platform();
	return cohort_group_open((const int[]){ 3, 1 }, 2, &o, &group);
}

Test(stuck, connection_that_is_made_after_the_timeout_is_freed)
{
	spread_not("the test makes the calls of all ranks");
	place_skip_in_qemu("system calls have the numbers of its machine");
	/* long enough for the thread to reach ncclCommInitAll() */
	o.deadlines.init_ns = ABORT;
	stuck_at("ncclCommInitAll", -1);
	cr_assert_eq(open_two(), COHORT_INIT_TIMEOUT);
	expect_text(cohort_last_error(),
	            "init stuck: ncclCommInitAll of ranks 0-1, on "
	            "devices 3 1 has not returned within 400 ms; "
	            "its thread ");
	expect_text(cohort_last_error(),
	            " is asleep in futex; NCCL does not say "
	            "which of them it waits for");
	cr_assert_null(group);
	stuck_await(); /* the native call may get stuck only now */
	another_group_works();
	cr_assert_eq(stuck_opened(), 2);
	cr_assert_eq(stuck_aborted(), 0);
	stuck_release();
	while (stuck_aborted() < 2)
		test_nap();
	cr_assert_eq(stuck_opened(), 4);
	o.deadlines.init_ns = 0;
	cr_assert_eq(open_two(), COHORT_OK);
	expect_close(group);
}
