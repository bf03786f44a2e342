/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of abort handles: which threads may fire them and when, and what the
 * abort ends. Also tests of cohort_comm_fail().
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/ranks.h"
#include "support/spread.h"
#include "support/stuck.h"

static struct cohort_group *group;
static struct cohort_comm *comms[2];
static struct cohort_abort *handle;

static void open_two(void)
{
	group = ranks_split(2, NULL, comms);
	handle = cohort_comm_abort_handle(comms[1]);
}

static void close_two(void)
{
	cohort_abort_put(handle);
}

TestSuite(handle, .init = open_two, .fini = close_two, .timeout = 60);

/* Reopen the group so that one thread can make the calls of each rank in
 * turn. */
static void in_turn(void)
{
	close_two();
	expect_close(group);
	group = ranks_ahead(2, NULL, comms);
	handle = cohort_comm_abort_handle(comms[1]);
}

Test(handle, firing_an_abort_handle_ends_operations_in_flight, .init = in_turn)
{
	int32_t a = 1;
	uint64_t t = ranks_sum(comms[0], &a);
	struct cohort_cause cause;

	cr_assert_eq(cohort_abort_fired(handle), 0);
	cr_assert_eq(cohort_abort_fire(handle, "the supervisor says so"),
	             COHORT_OK);
	cr_assert_eq(cohort_abort_fired(handle), 1);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_ABORTED);
	cohort_group_cause(group, &cause);
	cr_assert_eq(cause.status, COHORT_ABORTED);
	cr_assert_eq(cause.rank, -1, "%s", cause.text);
	cr_assert_str_eq(
		cause.text,
		"aborted: the supervisor says so; when the group ended: rank "
		"0 in all_reduce of 1 int32, sum (collective 1); rank "
		"1 without a call so far");
	expect_close(group);
}

Test(handle, abort_handle_can_be_fired_only_once)
{
	cr_assert_eq(cohort_abort_fire(handle, "first"), COHORT_OK);
	cr_assert_eq(cohort_abort_fire(handle, "second"), COHORT_ALREADY);
	cr_assert_eq(cohort_group_abort(group, "third"), COHORT_ALREADY);
	expect_close(group);
}

Test(handle, abort_handle_reports_an_abort_by_another_call)
{
	cr_assert_eq(cohort_group_abort(group, NULL), COHORT_OK);
	cr_assert_eq(cohort_abort_fired(handle), 1);
	cr_assert_eq(cohort_abort_fire(handle, NULL), COHORT_ALREADY);
	expect_close(group);
}

Test(handle, abort_handle_outlives_its_group)
{
	expect_close(group);
	cr_assert_eq(cohort_abort_fired(handle), 0);
	cr_assert_eq(cohort_abort_fire(handle, "too late"), COHORT_ALREADY);
	cr_assert_eq(cohort_abort_fired(handle), 0);
}

Test(handle, abort_handle_of_a_closed_communicator_still_fires)
{
	cr_assert_eq(cohort_comm_close(comms[1]), COHORT_OK);
	cr_assert_eq(cohort_abort_fire(handle, NULL), COHORT_OK);
	cr_assert_eq(cohort_barrier(comms[0], NULL, NULL), COHORT_ABORTED);
	expect_close(group);
}

Test(handle, abort_reason_is_cut_to_200_bytes)
{
	char reason[1000];
	struct cohort_cause cause;

	memset(reason, 'x', sizeof(reason) - 1);
	reason[sizeof(reason) - 1] = '\0';
	cr_assert_eq(cohort_abort_fire(handle, reason), COHORT_OK);
	cohort_group_cause(group, &cause);
	cr_assert_eq(strspn(cause.text + strlen("aborted: "), "x"), 197);
	expect_ending(cause.text + strlen("aborted: ") + 197, "...");
	expect_close(group);
}

Test(handle, abort_handle_calls_tolerate_null)
{
	cr_assert_null(cohort_comm_abort_handle(NULL));
	expect_text(cohort_last_error(), "comm is NULL");
	cr_assert_eq(cohort_abort_fire(NULL, NULL), COHORT_INVALID);
	cr_assert_eq(cohort_abort_fired(NULL), 0);
	cohort_abort_put(NULL);
	expect_close(group);
}

static void on_signal(int number)
{
	(void)number;
	cohort_abort_fire(handle, "signal");
}

static void *stuck_until_aborted(void *rc)
{
	int32_t value = 1;

	*(int *)rc = ranks_sum_wait(comms[0], &value);
	return NULL;
}

Test(handle, signal_handler_can_abort_the_call_that_it_interrupts)
{
	struct sigaction action = { .sa_handler = on_signal };
	pthread_t thread;
	int rc = COHORT_OK;

	sigaction(SIGUSR1, &action, NULL);
	ranks_fault(0, 0, COHORT_FAULT_STUCK, 0);
	pthread_create(&thread, NULL, stuck_until_aborted, &rc);
	pthread_kill(thread, SIGUSR1);
	pthread_join(thread, NULL);
	cr_assert_eq(rc, COHORT_ABORTED);
	expect_close(group);
}

Test(handle, abort_copies_the_reason)
{
	char reason[] = "mine";
	struct cohort_cause cause;

	cr_assert_eq(cohort_abort_fire(handle, reason), COHORT_OK);
	memset(reason, '-', sizeof(reason) - 1);
	cohort_group_cause(group, &cause);
	expect_ending(cause.text, "aborted: mine");
	expect_close(group);
}

/* ---- a rank that gives up --------------------------------------------- */

Test(handle, comm_fail_ends_the_group_and_names_rank_and_reason,
     .init = in_turn)
{
	int32_t a = 1;
	uint64_t t = ranks_sum(comms[0], &a);
	struct cohort_cause cause;

	cr_assert_eq(cohort_comm_fail(comms[1], -7, "shard 12 is unreadable"),
	             COHORT_OK);
	cr_assert_eq(cohort_abort_fired(handle), 1);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_WORKER);
	cohort_comm_cause(comms[0], &cause);
	cr_assert_eq(cause.status, COHORT_WORKER);
	cr_assert_eq(cause.kind, COHORT_VERDICT_WORKER);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	cr_assert_eq(cause.worker, -7);
	expect_ending(cause.text,
	              "rank 1 gave up with code -7: shard 12 is unreadable");
	cr_assert_eq(cohort_comm_fail(comms[0], 3, NULL), COHORT_ALREADY);
	cohort_comm_cause(comms[0], &cause);
	cr_assert_eq(cause.worker, -7);
	expect_close(group);
}

Test(handle, comm_fail_refuses_code_0_and_a_null_communicator)
{
	expect(cohort_comm_fail(comms[0], 0, "nothing"), COHORT_INVALID,
	       "code is 0");
	expect(cohort_comm_fail(NULL, 1, NULL), COHORT_INVALID, "comm is NULL");
	cr_assert_eq(cohort_abort_fired(handle), 0);
	expect_close(group);
}

Test(handle, comm_fail_text_may_be_null_or_long)
{
	char text[1000];
	struct cohort_cause cause;

	memset(text, 'x', sizeof(text)); /* no terminating zero */
	cr_assert_eq(cohort_comm_fail(comms[1], 5, text), COHORT_OK);
	cohort_group_cause(group, &cause);
	cr_assert_eq(strspn(strchr(cause.text, 'x'), "x"), 197);
	expect_ending(strchr(cause.text, 'x') + 197, "...");
	cr_assert_eq(cohort_group_respawn(group, NULL, 0), COHORT_OK);
	cr_assert_eq(cohort_comm_fail(comms[0], 6, NULL), COHORT_ALREADY);
	cr_assert_eq(cohort_group_split(group, comms), COHORT_OK);
	cr_assert_eq(cohort_comm_fail(comms[0], 6, NULL), COHORT_OK);
	cohort_group_cause(group, &cause);
	expect_ending(cause.text, "rank 0 gave up with code 6");
	expect_close(group);
}

static void *give_up_elsewhere(void *comm)
{
	return cohort_comm_fail(comm, 9, NULL) == COHORT_OK ? NULL : comm;
}

static void give_up_from_another_thread(struct cohort_comm *comm)
{
	pthread_t thread;
	void *failed;

	pthread_create(&thread, NULL, give_up_elsewhere, comm);
	pthread_join(thread, &failed);
	cr_assert_null(failed, "%s", cohort_last_error());
}

Test(handle, any_thread_may_fail_a_bound_rank_that_is_inside_a_call)
{
	void *native;

	cr_assert_eq(cohort_comm_bind(comms[0]), COHORT_OK);
	cr_assert_eq(cohort_comm_native_enter(comms[0], &native), COHORT_OK);
	give_up_from_another_thread(comms[0]);
	cr_assert_eq(cohort_comm_native_leave(comms[0]), COHORT_OK);
	cr_assert_eq(cohort_barrier(comms[1], NULL, NULL), COHORT_WORKER);
	expect_close(group);
}

Test(handle, comm_fail_of_a_closed_communicator_ends_the_group)
{
	cr_assert_eq(cohort_comm_close(comms[1]), COHORT_OK);
	give_up_from_another_thread(comms[1]);
	cr_assert_eq(cohort_barrier(comms[0], NULL, NULL), COHORT_WORKER);
	expect_close(group);
}

struct split {
	struct cohort_comm *comm, **child;
};

static void *split_other(void *arg)
{
	struct split *s = arg;

	ranks_must(cohort_comm_split(s->comm, 0, 0, s->child), "split");
	return NULL;
}

Test(handle, comm_fail_in_a_child_leaves_its_parent_alone)
{
	struct cohort_abort *of_child;
	struct cohort_comm *children[2];
	struct split other = { comms[1], &children[1] };
	pthread_t thread;

	pthread_create(&thread, NULL, split_other, &other);
	cr_assert_eq(cohort_comm_split(comms[0], 0, 0, &children[0]),
	             COHORT_OK);
	pthread_join(thread, NULL);
	of_child = cohort_comm_abort_handle(children[0]);
	cr_assert_eq(cohort_comm_fail(children[1], 9, NULL), COHORT_OK);
	cr_assert_eq(cohort_abort_fired(of_child), 1);
	cr_assert_eq(cohort_abort_fired(handle), 0);
	cohort_abort_put(of_child);
	expect_close(group);
}

/* ---- handles that are created before the group --------------------------- */

static struct cohort_group_options o;

static void before_open(void)
{
	cohort_group_options_init(&o);
	o.abort = handle = cohort_abort_create();
	cr_assert_not_null(handle);
	cr_assert_eq(cohort_abort_fired(handle), 0);
	place_choose();
	place_need(2);
	o.platform = place_platform();
}

static int open_group(void)
{
	group = NULL;
	return cohort_group_open(NULL, 2, &o, &group);
}

TestSuite(early_handle, .init = before_open, .fini = close_two, .timeout = 60);

Test(early_handle, open_fails_if_its_abort_handle_was_fired_before)
{
	cr_assert_eq(cohort_abort_fire(handle, "too late"), COHORT_OK);
	expect(open_group(), COHORT_ABORTED, "aborted: too late");
	cr_assert_null(group);
	cr_assert_eq(cohort_abort_fire(handle, "again"), COHORT_ALREADY);
}

Test(early_handle, options_abort_handle_ends_the_group)
{
	struct cohort_cause cause;

	cr_assert_eq(open_group(), COHORT_OK, "%s", cohort_last_error());
	cr_assert_eq(cohort_abort_fired(handle), 0);
	cr_assert_eq(cohort_abort_fire(handle, "enough"), COHORT_OK);
	cr_assert_eq(cohort_abort_fired(handle), 1);
	cr_assert_eq(cohort_abort_fire(handle, "again"), COHORT_ALREADY);
	ranks_must(cohort_group_cause(group, &cause), "cause");
	cr_assert_eq(cause.status, COHORT_ABORTED);
	expect_text(cause.text, "aborted: enough");
	expect_close(group);
}

Test(early_handle, options_abort_handle_reports_an_abort_by_another_call)
{
	cr_assert_eq(open_group(), COHORT_OK, "%s", cohort_last_error());
	ranks_must(cohort_group_abort(group, "enough"), "abort");
	cr_assert_eq(cohort_abort_fired(handle), 1);
	cr_assert_eq(cohort_abort_fire(handle, "again"), COHORT_ALREADY);
	expect_close(group);
}

Test(early_handle, options_abort_handle_may_be_fired_after_the_close)
{
	cr_assert_eq(open_group(), COHORT_OK, "%s", cohort_last_error());
	expect_close(group);
	cr_assert_eq(cohort_abort_fire(handle, NULL), COHORT_ALREADY);
	cr_assert_eq(cohort_abort_fired(handle), 0);
}

Test(early_handle, options_abort_handle_may_be_released_before_the_close)
{
	cr_assert_eq(open_group(), COHORT_OK, "%s", cohort_last_error());
	cohort_abort_put(handle);
	handle = NULL;
	expect_close(group);
}

Test(early_handle, options_abort_handle_does_not_end_a_respawned_group)
{
	cr_assert_eq(open_group(), COHORT_OK, "%s", cohort_last_error());
	cr_assert_eq(cohort_abort_fire(handle, "enough"), COHORT_OK);
	ranks_must(cohort_group_respawn(group, NULL, 0), "respawn");
	cr_assert_eq(cohort_abort_fire(handle, "again"), COHORT_ALREADY);
	expect_close(group);
}

Test(early_handle, options_abort_handle_serves_only_one_group)
{
	struct cohort_group *first;

	cr_assert_eq(open_group(), COHORT_OK, "%s", cohort_last_error());
	first = group;
	expect(open_group(), COHORT_STATE,
	       "options->abort is already the abort handle of another group: "
	       "create one for each group");
	cr_assert_null(group);
	expect_close(first);
}

Test(early_handle, options_abort_handle_can_be_reused_after_a_failed_open)
{
	o.platform = COHORT_PLATFORM_HOST;
	cr_assert_eq(cohort_group_open(NULL, 9999, &o, &group), COHORT_INVALID);
	cr_assert_eq(open_group(), COHORT_OK, "%s", cohort_last_error());
	cr_assert_eq(cohort_abort_fire(handle, NULL), COHORT_OK);
	expect_close(group);
}

Test(early_handle, open_refuses_the_abort_handle_of_a_communicator)
{
	o.abort = NULL;
	cr_assert_eq(open_group(), COHORT_OK, "%s", cohort_last_error());
	ranks_must(cohort_group_split(group, comms), "split");
	o.abort = cohort_comm_abort_handle(comms[0]);
	expect(cohort_group_open(NULL, 2, &o, &group), COHORT_INVALID,
	       "options->abort is the handle of a communicator: make one with "
	       "cohort_abort_create()");
	cohort_abort_put(o.abort);
	expect_close(group);
}

static void *open_main(void *rc_out)
{
	*(int *)rc_out = open_group();
	return *(int *)rc_out == COHORT_ABORTED
	               ? strstr(cohort_last_error(), "aborted: enough")
	               : NULL;
}

Test(early_handle, abort_handle_ends_an_open_that_waits_for_nccl)
{
	pthread_t thread;
	void *text;
	int rc;

	spread_not("the test waits for its own call");
	stuck_install();
	o.platform = place_platform();
	stuck_at("ncclCommInitAll", -1);
	pthread_create(&thread, NULL, open_main, &rc);
	stuck_await();
	cr_assert_eq(cohort_abort_fire(handle, "enough"), COHORT_OK);
	pthread_join(thread, &text);
	cr_assert_eq(rc, COHORT_ABORTED);
	cr_assert_not_null(text);
	cr_assert_null(group);
	stuck_release();
	while (stuck_aborted() < 2)
		test_nap();
}

/* Start an exchange of the bootstrap table. It never completes, because the
 * second process never takes part. */
static int gather_never(void *send, void *recv, size_t bytes, void *info,
                        void **request)
{
	(void)send;
	(void)recv;
	(void)bytes;
	*request = info;
	return 0;
}

/* Fire the abort handle while the open waits for the other process. */
static int test_never(void *request)
{
	int *looks = request;

	if (++*looks == 3)
		cohort_abort_fire(handle, "enough");
	return 1;
}

static int release(void *request)
{
	(void)request;
	return 0;
}

Test(early_handle, abort_handle_ends_an_open_that_waits_for_a_process)
{
	int looks = 0;
	const struct cohort_bootstrap table = {
		.size = sizeof(table),
		.kind = COHORT_BOOTSTRAP_TABLE,
		.processes = 2,
		.allgather = gather_never,
		.req_test = test_never,
		.req_free = release,
		.info = &looks,
	};

	o.bootstrap = &table;
	expect(open_group(), COHORT_ABORTED, "aborted: enough");
	cr_assert_null(group);
	cr_assert_eq(looks, 3);
}
