/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of groups: opening, splitting and closing, and calls that one thread
 * makes for all ranks
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/expect.h"
#include "support/ranks.h"
#include "support/spread.h"

TestSuite(group, .timeout = 30);

/* ---- open ------------------------------------------------------------- */

Test(group, open_with_n_uses_the_first_n_devices)
{
	struct cohort_group *group = ranks_open(3, NULL);
	int devices[3] = { -1, -1, -1 };

	spread_not("the test makes the calls of all ranks");
	cr_assert_eq(cohort_group_size(group), 3);
	cr_assert_eq(cohort_group_platform(group), place_platform());
	cr_assert_eq(cohort_group_devices(group, devices), COHORT_OK);
	cr_assert_arr_eq(devices, ((int[]){ 0, 1, 2 }), sizeof(devices));
	expect_close(group);
}

Test(group, open_with_n_0_uses_all_devices)
{
	struct cohort_group *group = ranks_open(0, NULL);

	cr_assert_eq(cohort_group_size(group), place_devices());
	expect_close(group);
}

Test(group, open_with_a_device_list_keeps_its_order)
{
	const int list[] = { 5, 0, 3 };
	int devices[3], r;
	struct cohort_group_options o;
	struct cohort_group *group;
	struct cohort_comm *comms[3];

	place_need(6);
	cohort_group_options_init(&o);
	o.platform = place_platform();
	ranks_must(cohort_group_open(list, 3, &o, &group), "open");
	cohort_group_devices(group, devices);
	cr_assert_arr_eq(devices, list, sizeof(list));
	ranks_must(cohort_group_split(group, comms), "split");
	for (r = 0; r < 3; r++) {
		cr_assert_eq(cohort_comm_rank(comms[r]), r);
		cr_assert_eq(cohort_comm_size(comms[r]), 3);
		cr_assert_eq(cohort_comm_device(comms[r]), list[r]);
	}
	expect_close(group);
}

static int open_list(const int *devices, int n)
{
	struct cohort_group *untouched = (struct cohort_group *)&open_list;
	struct cohort_group *group = untouched;
	struct cohort_group_options o;
	int rc;

	cohort_group_options_init(&o);
	o.platform = place_platform();
	rc = cohort_group_open(devices, n, &o, &group);
	cr_assert_eq(group, untouched, "the output was written");
	return rc;
}

Test(group, open_names_the_invalid_entry_of_a_device_list)
{
	int n = place_devices();
	char text[64];

	expect(open_list(NULL, -1), COHORT_INVALID, "n is -1");
	snprintf(text, sizeof(text), "n is %d", n + 1);
	expect(open_list(NULL, n + 1), COHORT_INVALID, text);
	expect(open_list((int[]){ 0 }, 0), COHORT_INVALID, "n is 0");
	snprintf(text, sizeof(text), "devices[0] is %d", n);
	expect(open_list((int[]){ n }, 1), COHORT_INVALID, text);
	expect(open_list((int[]){ -1 }, 1), COHORT_INVALID, "devices[0] is -1");
	place_need(5);
	expect(open_list((int[]){ 4, 2, 4 }, 3), COHORT_INVALID,
	       "devices[2] is 4, the same as devices[0]: each rank needs its "
	       "own device");
}

Test(group, open_works_after_a_refused_open)
{
	struct cohort_group *group;
	struct cohort_comm *comm;
	int32_t value = 7;

	open_list((int[]){ 4, 4 }, 2);
	group = ranks_split(1, NULL, &comm);
	cr_assert_eq(ranks_sum_wait(comm, &value), COHORT_OK);
	expect_close(group);
}

Test(group, group_calls_refuse_null_outputs)
{
	expect(cohort_group_open(NULL, 1, NULL, NULL), COHORT_INVALID,
	       "group is NULL");
	expect(cohort_group_split(NULL, NULL), COHORT_INVALID, "group");
	expect(cohort_group_run(NULL, NULL, NULL, NULL), COHORT_INVALID,
	       "group");
	expect(cohort_group_abort(NULL, NULL), COHORT_INVALID, "group");
	expect(cohort_group_wait(NULL, 1, 0), COHORT_INVALID, "group");
	expect(cohort_group_devices(NULL, NULL), COHORT_INVALID, "group");
	expect(cohort_group_cause(NULL, NULL), COHORT_INVALID, "group");
	cr_assert_eq(cohort_group_size(NULL), -1);
	cr_assert_eq(cohort_group_platform(NULL), -1);
	expect_close(NULL);
}

/* ---- options ---------------------------------------------------------- */

Test(group, open_accepts_options_of_an_older_version)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	place_choose();
	place_need(2);
	cohort_group_options_init(&o);
	o.size = offsetof(struct cohort_group_options, deadlines);
	o.recorder_slots = 64;
	o.deadlines.close_ns = 1; /* beyond the fields that this caller knows */
	cr_assert_eq(cohort_group_open(NULL, 2, &o, &group), COHORT_OK);
	expect_close(group);
}

Test(group, open_accepts_newer_options_if_the_new_fields_are_0)
{
	struct {
		struct cohort_group_options o;
		uint64_t later;
	} newer;
	const size_t words = sizeof(newer.o.reserved) / sizeof(newer.later);
	struct cohort_group *group;
	char text[64];

	memset(&newer, 0, sizeof(newer));
	cohort_group_options_init(&newer.o);
	newer.o.platform = place_platform();
	newer.o.size = sizeof(newer);
	cr_assert_eq(cohort_group_open(NULL, 1, &newer.o, &group), COHORT_OK);
	expect_close(group);
	newer.later = 1;
	snprintf(text, sizeof(text),
	         "options->reserved[%zu] is 1, not 0: version ", words);
	expect(cohort_group_open(NULL, 1, &newer.o, &group), COHORT_INVALID,
	       text);
	newer.later = 0;
	newer.o.reserved[words - 1] = 1;
	snprintf(text, sizeof(text), "options->reserved[%zu] is 1, not 0",
	         words - 1);
	expect(cohort_group_open(NULL, 1, &newer.o, &group), COHORT_INVALID,
	       text);
}

Test(group, open_refuses_options_that_were_not_initialized)
{
	struct cohort_group_options o = { .size = 0 };
	struct cohort_group *group;

	expect(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID,
	       "options->size is 0");
}

Test(group, open_refuses_options_with_unknown_values)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	cohort_group_options_init(&o);
	o.platform = place_platform();
	o.deadlines.reserved[0] = 8;
	expect(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID,
	       "options->deadlines.reserved[0] is 8, not 0");
}

static int open_with_slots(unsigned slots)
{
	struct cohort_group_options o;
	struct cohort_group *group = NULL;
	int rc;

	cohort_group_options_init(&o);
	o.platform = place_platform();
	o.recorder_slots = slots;
	rc = cohort_group_open(NULL, 1, &o, &group);
	expect_close(group);
	return rc;
}

Test(group, recorder_slots_must_be_a_power_of_two)
{
	cr_assert_eq(open_with_slots(0), COHORT_OK);
	cr_assert_eq(open_with_slots(16), COHORT_OK);
	cr_assert_eq(open_with_slots(65536), COHORT_OK);
	expect(open_with_slots(1), COHORT_INVALID, "recorder_slots is 1,");
	expect(open_with_slots(8), COHORT_INVALID, "recorder_slots is 8,");
	expect(open_with_slots(17), COHORT_INVALID, "recorder_slots is 17");
	expect(open_with_slots(131072), COHORT_INVALID, "is 131072");
}

Test(group, open_refuses_an_unknown_platform)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	cohort_group_options_init(&o);
	o.platform = 7;
	expect(cohort_group_open(NULL, 1, &o, &group), COHORT_INVALID,
	       "platform is 7");
}

Test(group, open_refuses_an_unknown_platform_in_the_environment)
{
	struct cohort_group *group;

	setenv("COHORT_PLATFORM", "tpu", 1);
	expect(cohort_group_open(NULL, 1, NULL, &group), COHORT_INVALID,
	       "COHORT_PLATFORM is \"tpu\"");
}

Test(group, open_refuses_a_malformed_device_count)
{
	struct cohort_group *group;

	place_choose();
	place_need_host("COHORT_HOST_DEVICES");
	setenv("COHORT_HOST_DEVICES", "many", 1);
	expect(cohort_group_open(NULL, 1, NULL, &group), COHORT_INVALID,
	       "COHORT_HOST_DEVICES is \"many\"");
}

static void refuse_faults(const char *list, const char *part)
{
	struct cohort_group *group;

	setenv("COHORT_FAULTS", list, 1);
	expect(cohort_group_open(NULL, 1, NULL, &group), COHORT_INVALID, part);
}

Test(group, open_refuses_a_malformed_fault_list)
{
	place_need_our_nccl("faults");
	place_choose();
	refuse_faults("0@1:never,1@x:stuck",
	              "\"1@x:stuck\" is not RANK@OPERATION:KIND, such as "
	              "2@5:delay=50ms");
	refuse_faults("4294967296@0:never", "\"4294967296@0:never\"");
	refuse_faults("0@-1:never", "\"0@-1:never\"");
	refuse_faults("0@99999999999999999999:never", "99999999999999999999");
	refuse_faults("0@0:delay=-5ms", "delay=-5ms");
	refuse_faults("0@0:delay=99999999999999s", "delay=99999999999999s");
	refuse_faults("0@0:delay=5", "delay=5");
	refuse_faults("0@0:error=3x", "error=3x");
}

Test(group, refused_fault_list_scripts_no_fault)
{
	struct cohort_comm *comm;
	struct cohort_group *group;
	int32_t value = 1;

	place_need_our_nccl("faults");
	place_choose();
	refuse_faults("0@0:never,nonsense", "nonsense");
	unsetenv("COHORT_FAULTS");
	group = ranks_split(1, NULL, &comm);
	cr_assert_eq(ranks_sum_wait(comm, &value), COHORT_OK);
	expect_close(group);
}

/* ---- split ------------------------------------------------------------ */

Test(group, group_can_be_split_only_once)
{
	struct cohort_comm *comms[2], *again[2] = { NULL, NULL };
	struct cohort_group *group = ranks_split(2, NULL, comms);

	expect(cohort_group_split(group, again), COHORT_STATE,
	       "was already called on the group");
	cr_assert_null(again[0]);
	expect_close(group);
}

Test(group, group_level_calls_are_refused_after_the_split)
{
	int32_t a = 1, b = 2;
	const void *send[] = { &a, &b };
	void *recv[] = { &a, &b };
	struct cohort_comm *comms[2];
	struct cohort_group *group = ranks_split(2, NULL, comms);

	expect(cohort_group_all_reduce(group, send, recv, 1, COHORT_I32,
	                               COHORT_SUM, NULL, NULL),
	       COHORT_STATE, "was split");
	cr_assert_eq(a, 1);
	expect_close(group);
}

Test(group, group_cannot_be_split_after_an_abort)
{
	struct cohort_group *group = ranks_open(2, NULL);
	struct cohort_comm *comms[2];

	spread_not("the processes do not abort together");
	cr_assert_eq(cohort_group_abort(group, "enough"), COHORT_OK);
	expect(cohort_group_split(group, comms), COHORT_STATE, "enough");
	expect_close(group);
}

/* ---- all ranks from one thread ---------------------------------------- */

Test(group, one_thread_can_all_reduce_and_broadcast_for_all_ranks)
{
	int32_t value[3] = { 1, 20, 300 };
	const void *send[] = { &value[0], &value[1], &value[2] };
	void *recv[] = { &value[0], &value[1], &value[2] };
	struct cohort_group *group = ranks_open(3, NULL);
	uint64_t first = 0, second = 0;

	spread_not("the test makes the calls of all ranks");
	cr_assert_eq(cohort_group_broadcast(group, send, recv, 1, COHORT_I32, 1,
	                                    NULL, &first),
	             COHORT_OK);
	cr_assert_eq(cohort_group_all_reduce(group, send, recv, 1, COHORT_I32,
	                                     COHORT_SUM, NULL, &second),
	             COHORT_OK);
	cr_assert_gt(second, first);
	cr_assert_eq(cohort_group_wait(group, second, RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_group_wait(group, first, 0), COHORT_OK);
	cr_assert_eq(value[0], 60);
	cr_assert_eq(value[2], 60);
	expect(cohort_group_wait(group, second + 1, 0), COHORT_INVALID,
	       "ticket is");
	expect_close(group);
}

Test(group, group_call_with_one_invalid_argument_queues_nothing)
{
	int32_t value[2] = { 1, 2 };
	const void *send[] = { &value[0], NULL };
	void *recv[] = { &value[0], &value[1] };
	struct cohort_group *group = ranks_open(2, NULL);
	uint64_t ticket = 77;

	spread_not("the test makes the calls of all ranks");
	expect(cohort_group_all_reduce(group, send, recv, 1, COHORT_I32,
	                               COHORT_SUM, NULL, &ticket),
	       COHORT_INVALID, "send is NULL");
	cr_assert_eq(ticket, 77);
	send[1] = &value[1];
	cr_assert_eq(cohort_group_all_reduce(group, send, recv, 1, COHORT_I32,
	                                     COHORT_SUM, NULL, &ticket),
	             COHORT_OK);
	cr_assert_eq(cohort_group_wait(group, ticket, RANKS_SOON), COHORT_OK);
	cr_assert_eq(value[0], 3);
	expect_close(group);
}

Test(group, ticket_numbers_continue_after_the_split)
{
	int32_t value[2] = { 1, 2 };
	const void *send[] = { &value[0], &value[1] };
	void *recv[] = { &value[0], &value[1] };
	struct cohort_group *group;
	struct cohort_comm *comms[2];
	uint64_t before = 0, after;

	spread_not("the test makes the calls of all ranks");
	ranks_launch_ahead();
	group = ranks_open(2, NULL);
	cr_assert_eq(cohort_group_all_reduce(group, send, recv, 1, COHORT_I32,
	                                     COHORT_SUM, NULL, &before),
	             COHORT_OK);
	ranks_must(cohort_group_split(group, comms), "split");
	after = ranks_sum(comms[0], &value[0]);
	ranks_sum(comms[1], &value[1]);
	cr_assert_gt(after, before);
	cr_assert_eq(cohort_wait(comms[0], after, RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_wait(comms[0], before, 0), COHORT_OK);
	cr_assert_eq(value[0], 6);
	expect_close(group);
}

/* ---- close and abort -------------------------------------------------- */

Test(group, close_of_a_closed_group_is_refused)
{
	struct cohort_group *group = ranks_open(1, NULL);
	char closed[64];

	snprintf(closed, sizeof(closed),
	         "group %p is not open (was it closed?)", (void *)group);
	expect_close(group);
	expect(cohort_group_close(group), COHORT_INVALID, closed);
}

Test(group, close_waits_for_operations_in_flight)
{
	struct cohort_comm *comms[2];
	struct cohort_group *group = ranks_ahead(2, NULL, comms);
	int32_t a = 1, b = 2;

	ranks_fault(1, 0, COHORT_FAULT_DELAY, 20 * 1000 * 1000);
	ranks_sum(comms[0], &a);
	ranks_sum(comms[1], &b);
	expect_close(group);
	cr_assert_eq(a, 3);
	cr_assert_eq(b, 3);
}

Test(group, close_aborts_operations_that_do_not_finish_in_time)
{
	struct cohort_group_options o;
	struct cohort_comm *comms[2];
	struct cohort_group *group;
	int32_t a = 1;

	cohort_group_options_init(&o);
	o.deadlines.close_ns = 1000 * 1000;
	group = ranks_ahead(2, &o, comms);
	ranks_sum(comms[1], &a);
	expect(cohort_group_close(group), COHORT_ABORTED,
	       "operations of rank 1 were in flight");
}

Test(group, group_abort_succeeds_once_and_keeps_its_reason)
{
	struct cohort_group *group = ranks_open(2, NULL);
	struct cohort_cause cause;

	spread_not("each process has aborted by itself");
	cohort_group_cause(group, &cause);
	cr_assert_eq(cause.status, COHORT_OK);
	cr_assert_eq(cohort_group_abort(group, "first"), COHORT_OK);
	cr_assert_eq(cohort_group_abort(group, "second"), COHORT_ALREADY);
	cohort_group_cause(group, &cause);
	cr_assert_eq(cause.status, COHORT_ABORTED);
	cr_assert_eq(cause.rank, -1, "%s", cause.text);
	cr_assert_str_eq(cause.text,
	                 "aborted: first; when the group ended: ranks 0-1 "
	                 "without a call so far");
	expect_close(group);
}

struct holder {
	struct cohort_comm *comm;
	int32_t value;
	int rc;
};

static void *hold_gate(void *arg)
{
	struct holder *h = arg;

	/* The first calls can return busy while the main thread tries to
	 * unbind. */
	do
		h->rc = cohort_all_reduce(h->comm, &h->value, &h->value, 1,
		                          COHORT_I32, COHORT_SUM,
		                          cohort_comm_stream(h->comm), NULL);
	while (h->rc == COHORT_BUSY);
	return NULL;
}

Test(group, close_is_refused_while_a_thread_is_inside_a_call)
{
	struct cohort_comm *comms[2];
	struct cohort_group *group = ranks_split(2, NULL, comms);
	struct holder h = { .comm = comms[0] };
	pthread_t thread;
	int rc;

	ranks_fault(0, 0, COHORT_FAULT_STUCK, 0);
	pthread_create(&thread, NULL, hold_gate, &h);
	/* Unbinding succeeds until the other thread is inside the
	 * communicator. */
	do
		rc = cohort_comm_unbind(comms[0]);
	while (rc != COHORT_BUSY);
	expect(cohort_group_close(group), COHORT_STATE, "rank 0");
	cr_assert_eq(cohort_group_abort(group, "release"), COHORT_OK);
	pthread_join(thread, NULL);
	cr_assert_eq(h.rc, COHORT_ABORTED);
	expect_close(group);
}

Test(group, group_can_be_opened_and_closed_a_hundred_times)
{
	struct cohort_comm *comms[4];
	struct cohort_group *group;
	int i;

	for (i = 0; i < place_times(100); i++) {
		group = ranks_split(4, NULL, comms);
		expect_close(group);
	}
}
