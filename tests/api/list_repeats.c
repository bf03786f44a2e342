/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of lists that are called repeatedly, as in the steps of a training run:
 * each call must act like the first one, even if the list has changed
 */

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/expect.h"
#include "support/failing.h"
#include "support/native.h"
#include "support/ranks.h"

#define RANKS 2
#define TENSORS 20
#define EACH 50
#define LISTS 200 /* more lists than the library remembers */

static struct cohort_group *group;
static struct cohort_comm *c[RANKS];
static int32_t data[RANKS][LISTS][TENSORS][EACH];
static struct cohort_tensor list[RANKS][LISTS][TENSORS];

static void fill(int r, int at)
{
	int t, i;

	for (t = 0; t < TENSORS; t++)
		for (i = 0; i < EACH; i++)
			data[r][at][t][i] = (r + 1) * (1000 * t + i + at);
}

static void set_list(int at)
{
	int r, t;

	for (r = 0; r < RANKS; r++)
		for (t = 0; t < TENSORS; t++)
			list[r][at][t] = (struct cohort_tensor){
				data[r][at][t], data[r][at][t], EACH, COHORT_I32
			};
}

static void set_up(void)
{
	int at;

	platform_override(failing_wrap(place_table()));
	for (at = 0; at < LISTS; at++)
		set_list(at);
}

TestSuite(list_repeats, .init = set_up, .timeout = 60);

static uint64_t call(int r, int at, int op)
{
	uint64_t ticket = 0;

	cr_assert_eq(cohort_all_reduce_many(c[r], list[r][at], TENSORS, op,
	                                    cohort_comm_stream(c[r]), &ticket),
	             COHORT_OK, "%s", cohort_last_error());
	return ticket;
}

static void await(const uint64_t tickets[RANKS])
{
	int r;

	for (r = 0; r < RANKS; r++)
		cr_assert_eq(cohort_wait(c[r], tickets[r], RANKS_SOON),
		             COHORT_OK, "%s", cohort_last_error());
}

/* Reduce list @at on all ranks, and wait for the operations. */
static void reduce(int at, int op)
{
	uint64_t tickets[RANKS];
	int r;

	for (r = 0; r < RANKS; r++) {
		fill(r, at);
		tickets[r] = call(r, at, op);
	}
	await(tickets);
}

/* Return the expected result of element @i of tensor @t. Rank 1 has the larger
 * value. */
static int expected(int at, int t, size_t i, int op)
{
	const int of_0 = 1000 * t + (int)i + at;

	return op == COHORT_MAX ? 2 * of_0 : 3 * of_0;
}

static void check(int at, int op)
{
	size_t i;
	int r, t;

	for (r = 0; r < RANKS; r++)
		for (t = 0; t < TENSORS; t++) {
			const struct cohort_tensor *x = &list[r][at][t];

			for (i = 0; i < x->count; i++)
				cr_assert_eq(((const int32_t *)x->recv)[i],
				             expected(at, t, i, op),
				             "rank %d, tensor %d, %zu: %d", r,
				             t, i,
				             ((const int32_t *)x->recv)[i]);
		}
}

static void reductions(int at, int op)
{
	reduce(at, op);
	check(at, op);
}

Test(list_repeats, repeated_list_may_alternate_with_many_others)
{
	int i, at;

	group = ranks_ahead(RANKS, NULL, c);
	for (i = 0; i < 2; i++)
		for (at = 0; at < LISTS; at++)
			reductions(at, COHORT_SUM);
	expect_close(group);
}

Test(list_repeats, repeated_list_may_change_in_any_way)
{
	int r;

	group = ranks_ahead(RANKS, NULL, c);
	reductions(0, COHORT_SUM);
	reductions(0, COHORT_MAX);
	reductions(0, COHORT_MAX);
	for (r = 0; r < RANKS; r++)
		list[r][0][7].count = 3;
	reductions(0, COHORT_MAX);
	cr_assert_eq(data[0][0][7][3], 7000 + 3, "past the count: %d",
	             data[0][0][7][3]);
	/* Change the list on only one rank. */
	list[1][0][19].recv = data[1][1][0];
	reductions(0, COHORT_MAX);
	list[1][0][19].recv = data[1][1][1];
	reductions(0, COHORT_MAX);
	expect_close(group);
}

Test(list_repeats, list_may_be_called_again_while_it_is_in_flight)
{
	uint64_t tickets[RANKS];
	int i, r;

	group = ranks_ahead(RANKS, NULL, c);
	reductions(0, COHORT_SUM);
	for (i = 0; i < 3; i++) {
		for (r = 0; r < RANKS; r++)
			fill(r, 0);
		for (r = 0; r < RANKS; r++) {
			call(r, 0, COHORT_SUM);
			call(r, 0, COHORT_MAX);
			tickets[r] = call(r, 0, COHORT_MAX);
		}
		await(tickets);
		check(0, COHORT_SUM);
	}
	expect_close(group);
}

Test(list_repeats, repeated_list_runs_on_the_stream_of_each_call)
{
	const struct platform *p = place_table();
	uint64_t tickets[RANKS];
	cudaStream_t other[RANKS];
	int i, r;

	group = ranks_ahead(RANKS, NULL, c);
	for (r = 0; r < RANKS; r++) {
		cr_assert_eq(p->cudaSetDevice(cohort_comm_device(c[r])),
		             cudaSuccess);
		cr_assert_eq(p->cudaStreamCreateWithFlags(&other[r], 1),
		             cudaSuccess);
	}
	for (i = 0; i < 4; i++) {
		reductions(0, COHORT_SUM);
		for (r = 0; r < RANKS; r++)
			fill(r, 0);
		for (r = 0; r < RANKS; r++)
			cr_assert_eq(cohort_all_reduce_many(
					     c[r], list[r][0], TENSORS,
					     COHORT_SUM, other[r], &tickets[r]),
			             COHORT_OK);
		for (r = 0; r < RANKS; r++)
			cr_assert_eq(p->cudaStreamSynchronize(other[r]),
			             cudaSuccess);
		check(0, COHORT_SUM);
	}
	expect_close(group);
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(p->cudaStreamDestroy(other[r]), cudaSuccess);
}

/* ---- checks of repeated lists ----------------------------------------- */

Test(list_repeats, repeated_list_is_checked_again_if_it_has_changed)
{
	group = ranks_ahead(RANKS, NULL, c);
	reductions(0, COHORT_SUM);
	reductions(0, COHORT_SUM);
	list[0][0][4].type = 99;
	expect(cohort_all_reduce_many(c[0], list[0][0], TENSORS, COHORT_SUM,
	                              cohort_comm_stream(c[0]), NULL),
	       COHORT_INVALID, "tensors[4].type is 99");
	list[0][0][4].type = COHORT_I32;
	list[0][0][5].recv = NULL;
	expect(cohort_all_reduce_many(c[0], list[0][0], TENSORS, COHORT_SUM,
	                              cohort_comm_stream(c[0]), NULL),
	       COHORT_INVALID, "tensors[5].recv is NULL");
	set_list(0);
	reductions(0, COHORT_SUM);
	expect_close(group);
}

/* Repeat the list until the ring of call shapes has wrapped several times. */
Test(list_repeats, mismatch_of_a_repeated_list_names_the_tensor)
{
	struct cohort_group_options o;
	struct cohort_cause cause;
	int i;

	cohort_group_options_init(&o);
	o.recorder_slots = 16;
	group = ranks_ahead(RANKS, &o, c);
	for (i = 0; i < 100; i++)
		reductions(i % 3, COHORT_SUM);
	for (i = 0; i < 100; i++)
		reductions(0, COHORT_SUM);
	list[1][0][13].count = 49;
	call(0, 0, COHORT_SUM);
	cr_assert_eq(cohort_all_reduce_many(c[1], list[1][0], TENSORS,
	                                    COHORT_SUM,
	                                    cohort_comm_stream(c[1]), NULL),
	             COHORT_MISMATCH);
	cr_assert_eq(cohort_group_cause(group, &cause), COHORT_OK);
	expect_text(cause.text, "tensors[13] is 50 int32 on rank 0, 49 "
	                        "int32 on rank 1");
	expect_close(group);
}

/* Every tensor counts as an operation for scripted faults. */
Test(list_repeats, scripted_fault_strikes_the_right_tensor_of_a_list)
{
	uint64_t ticket;
	int i;

	group = ranks_ahead(RANKS, NULL, c);
	for (i = 0; i < 4; i++)
		reductions(0, COHORT_SUM);
	ranks_fault(1, 5 * TENSORS + 7, COHORT_FAULT_ERROR, 1);
	reductions(0, COHORT_SUM);
	call(0, 0, COHORT_SUM);
	cr_assert_eq(cohort_all_reduce_many(c[1], list[1][0], TENSORS,
	                                    COHORT_SUM,
	                                    cohort_comm_stream(c[1]), &ticket),
	             COHORT_NCCL, "%s", cohort_last_error());
	expect_close(group);
}

Test(list_repeats, repeated_list_on_one_rank_launches_nothing)
{
	struct cohort_comm *alone;
	uint64_t ticket;
	int i;

	group = ranks_split(1, NULL, &alone);
	for (i = 0; i < 3; i++) {
		fill(0, 0);
		cr_assert_eq(cohort_all_reduce_many(
				     alone, list[0][0], TENSORS, COHORT_SUM,
				     cohort_comm_stream(alone), &ticket),
		             COHORT_OK);
		cr_assert_eq(cohort_wait(alone, ticket, RANKS_SOON), COHORT_OK);
		cr_assert_eq(data[0][0][3][2], 3002);
	}
	cr_assert_eq(failing_calls("ncclAllReduce"), 0);
	/* Make one tensor of the list out of place. */
	list[0][0][3].recv = data[1][0][0];
	cr_assert_eq(cohort_all_reduce_many(alone, list[0][0], TENSORS,
	                                    COHORT_SUM,
	                                    cohort_comm_stream(alone), &ticket),
	             COHORT_OK);
	cr_assert_eq(cohort_wait(alone, ticket, RANKS_SOON), COHORT_OK);
	cr_assert_eq(data[1][0][0][2], 3002);
	expect_close(group);
}

/*
 * On one rank, a list is done immediately if the stream is idle, otherwise
 * after earlier work on the stream.
 */
Test(list_repeats, list_on_one_rank_is_done_in_stream_order)
{
	const struct platform *p = place_table();
	struct cohort_comm *alone;
	struct native_gate gate;
	uint64_t ticket;
	int i;

	group = ranks_split(1, NULL, &alone);
	for (i = 0; i < 3; i++) {
		native_gate_hold(p, &gate, cohort_comm_stream(alone));
		cr_assert_eq(cohort_all_reduce_many(
				     alone, list[0][0], TENSORS, COHORT_SUM,
				     cohort_comm_stream(alone), &ticket),
		             COHORT_OK);
		cr_assert_eq(cohort_wait(alone, ticket, 0), COHORT_TIMED_OUT);
		native_gate_open(&gate);
		cr_assert_eq(cohort_wait(alone, ticket, RANKS_SOON), COHORT_OK);
	}
	expect_close(group);
}

/*
 * The list is checked before the state of the group, so the error is about the
 * list.
 */
Test(list_repeats, list_is_checked_even_if_the_group_has_ended)
{
	group = ranks_split(RANKS, NULL, c);
	cohort_group_abort(group, "enough");
	list[0][0][4].type = 99;
	expect(cohort_all_reduce_many(c[0], list[0][0], TENSORS, COHORT_SUM,
	                              cohort_comm_stream(c[0]), NULL),
	       COHORT_INVALID, "tensors[4].type is 99");
	list[0][0][4].type = COHORT_I32;
	expect(cohort_all_reduce_many(c[0], list[0][0], TENSORS, COHORT_SUM,
	                              cohort_comm_stream(c[0]), NULL),
	       COHORT_ABORTED, "enough");
	expect_close(group);
}
