/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests that every rank gets an error, and none hangs, if their calls differ.
 * The error describes the calls and names the rank whose call differs.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "support/expect.h"
#include "support/ranks.h"
#include "support/spread.h"

#define MAX_RANKS 4

TestSuite(mismatch, .timeout = 60);

/* A call of one rank */
struct made {
	/*
	 * 0: all_reduce, 1: broadcast, 2: reduce, 3: barrier, 4: list, 5:
	 * longer list, 6 and 7: batches with lists 4 and 5, 8: list of
	 * broadcasts, 9: all_gather, 10: reduce_scatter.
	 */
	int kind;
	size_t count;
	int type;
	int op;
	int root;
};

static const struct made usual = { 0, 100, COHORT_F32, COHORT_SUM, 0 };

struct scene {
	int ranks;
	int differ;     /* rank that calls @other */
	int differ_too; /* rank that calls @third, or -1 */
	struct made other;
	struct made third;
	int results[MAX_RANKS];
	struct cohort_cause cause;
};

static int call(struct cohort_comm *c, const struct made *m, uint64_t *ticket)
{
	static float memory[MAX_RANKS][1000];
	float *data = memory[cohort_comm_rank(c)];
	void *stream = cohort_comm_stream(c);
	const struct cohort_tensor list[] = {
		{ data + 200, data + 200, 7, COHORT_I32 },
		{ data, data, m->count, m->type },
		{ data + 300, data + 300, 9, COHORT_F64 },
	};
	size_t n = m->kind % 2 ? 3 : 2;

	switch (m->kind) {
	case 1:
		return cohort_broadcast(c, data, data, m->count, m->type,
		                        m->root, stream, ticket);
	case 2:
		return cohort_reduce(c, data, data, m->count, m->type, m->op,
		                     m->root, stream, ticket);
	case 3:
		return cohort_barrier(c, stream, ticket);
	case 4:
	case 5:
		return cohort_all_reduce_many(c, list, n, m->op, stream,
		                              ticket);
	case 6:
	case 7:
		cohort_batch_begin(c);
		cohort_barrier(c, NULL, NULL);
		cohort_broadcast_many(c, list, n, m->root, NULL, NULL);
		cohort_all_reduce(c, data, data, 1, COHORT_F32, m->op, NULL,
		                  NULL);
		return cohort_batch_end(c, stream, ticket);
	case 8:
		return cohort_broadcast_many(c, list, 2, m->root, stream,
		                             ticket);
	case 9:
		return cohort_all_gather(c, data + 400, data + 600, 7,
		                         COHORT_I32, stream, ticket);
	case 10:
		return cohort_reduce_scatter(c, data + 400, data + 600, 7,
		                             COHORT_I32, m->op, stream, ticket);
	}
	return cohort_all_reduce(c, data, data, m->count, m->type, m->op,
	                         stream, ticket);
}

static int worker(struct cohort_comm *c, void *user)
{
	struct scene *s = user;
	int rank = cohort_comm_rank(c);
	const struct made *m = rank == s->differ       ? &s->other
	                       : rank == s->differ_too ? &s->third
	                                               : &usual;
	uint64_t ticket;
	int rc = cohort_barrier(c, cohort_comm_stream(c), NULL);

	if (rc == COHORT_OK)
		rc = call(c, m, &ticket);
	if (rc == COHORT_OK)
		rc = cohort_wait(c, ticket, RANKS_SOON);
	s->results[rank] = rc;
	return rc;
}

static void run_mismatch(struct scene *s)
{
	struct cohort_group *group = ranks_open(s->ranks, NULL);
	int r;

	cr_assert_eq(cohort_group_run(group, worker, s, &s->cause),
	             COHORT_MISMATCH, "%s", cohort_last_error());
	for (r = spread_first(s->ranks); r < spread_end(s->ranks); r++) {
		/*
		 * A call of no elements may finish before it is compared with
		 * the calls of the other ranks.
		 */
		if (r == s->differ && !s->other.count && s->other.kind == 0 &&
		    s->results[r] == COHORT_OK)
			continue;
		cr_assert_eq(s->results[r], COHORT_MISMATCH, "rank %d: %d", r,
		             s->results[r]);
	}
	cr_assert_eq(s->cause.status, COHORT_MISMATCH);
	expect_close(group);
}

/* Have rank 2 of 4 call @other. The error must describe the call as @says. */
static void odd_one(struct made other, const char *says)
{
	struct scene s = {
		.ranks = 4, .differ = 2, .differ_too = -1, .other = other
	};

	run_mismatch(&s);
	cr_assert_eq(s.cause.rank, 2, "rank %d is named: %s", s.cause.rank,
	             s.cause.text);
	expect_text(s.cause.text, says);
	expect_text(s.cause.text,
	            "ranks 0-1, 3 call all_reduce of 100 float32, "
	            "sum");
	expect_text(s.cause.text, "collective 2 differs");
}

Test(mismatch, mismatch_of_counts_names_the_rank_that_differs)
{
	odd_one((struct made){ 0, 99, COHORT_F32, COHORT_SUM, 0 },
	        "rank 2 calls all_reduce of 99 float32, sum");
}

Test(mismatch, mismatch_of_types_names_the_rank_that_differs)
{
	odd_one((struct made){ 0, 100, COHORT_I32, COHORT_SUM, 0 },
	        "rank 2 calls all_reduce of 100 int32, sum");
}

Test(mismatch, mismatch_of_operations_names_the_rank_that_differs)
{
	odd_one((struct made){ 0, 100, COHORT_F32, COHORT_MAX, 0 },
	        "rank 2 calls all_reduce of 100 float32, max");
}

Test(mismatch, mismatch_of_collectives_names_the_rank_that_differs)
{
	odd_one((struct made){ 1, 100, COHORT_F32, 0, 3 },
	        "rank 2 calls broadcast of 100 float32, root 3");
}

Test(mismatch, mismatch_with_a_barrier_names_the_rank_that_differs)
{
	odd_one((struct made){ .kind = 3 }, "rank 2 calls barrier;");
}

Test(mismatch, mismatch_with_a_list_names_the_rank_that_differs)
{
	odd_one((struct made){ 4, 100, COHORT_F32, COHORT_SUM, 0 },
	        "rank 2 calls all_reduce of 2 tensors, 428 bytes, the first of "
	        "7 int32, sum");
}

Test(mismatch, mismatch_names_the_rank_with_another_collective)
{
	odd_one((struct made){ 8, 100, COHORT_F32, 0, 3 },
	        "rank 2 calls broadcast of 2 tensors, 428 bytes, the first of "
	        "7 int32, root 3");
	odd_one((struct made){ 9, 100, COHORT_F32, 0, 0 },
	        "rank 2 calls all_gather of 7 int32;");
	odd_one((struct made){ 10, 100, COHORT_F32, COHORT_MAX, 0 },
	        "rank 2 calls reduce_scatter of 7 int32, max;");
}

/* Have ranks 0 and 1 make different calls. The error must end with @says. */
static void two_sides(struct made one, struct made other, const char *says)
{
	struct scene s = { .ranks = 2,
		           .differ = 0,
		           .differ_too = 1,
		           .other = one,
		           .third = other };
	size_t length, wanted = strlen(says);

	run_mismatch(&s);
	length = strlen(s.cause.text);
	cr_assert(length > wanted &&
	                  strcmp(s.cause.text + length - wanted, says) == 0,
	          "\"%s\" is not at the end of %s", says, s.cause.text);
}

Test(mismatch, mismatch_of_lists_names_the_tensor_that_differs)
{
	spread_not("what a list holds is reported by the process that has it");
	const struct made usual_list = { 4, 100, COHORT_F32, COHORT_SUM, 0 };

	two_sides(usual_list, (struct made){ 4, 99, COHORT_F32, COHORT_SUM, 0 },
	          ": tensors[1] is 100 float32 on rank 0, 99 float32 on rank "
	          "1");
	two_sides((struct made){ 4, 100, COHORT_I32, COHORT_SUM, 0 },
	          usual_list,
	          ": tensors[1] is 100 int32 on rank 0, 100 float32 on rank 1");
	two_sides((struct made){ 5, 100, COHORT_F32, COHORT_SUM, 0 },
	          usual_list,
	          ": tensors[2] is 9 float64 on rank 0, missing on rank 1");
	two_sides((struct made){ 4, 0, COHORT_I8, COHORT_SUM, 0 }, usual_list,
	          ": tensors[1] is 0 int8 on rank 0, 100 float32 on rank 1");
	/* The first tensors of both lists are equal, so the error names only
	 * the calls. */
	two_sides((struct made){ 4, 100, COHORT_F32, COHORT_MAX, 0 },
	          usual_list,
	          "rank 1 calls all_reduce of 2 tensors, 428 bytes, the first "
	          "of 7 int32, sum");
}

Test(mismatch, mismatch_of_batches_names_the_call_that_differs)
{
	spread_not("what a list holds is reported by the process that has it");
	const struct made batch = { 6, 100, COHORT_F32, COHORT_SUM, 0 };

	two_sides(batch, (struct made){ 6, 100, COHORT_F32, COHORT_SUM, 1 },
	          ": call 2 is broadcast, root 0, on rank 0, broadcast, root "
	          "1, on rank 1");
	two_sides(batch, (struct made){ 6, 100, COHORT_F32, COHORT_MIN, 0 },
	          ": call 3 is all_reduce, sum, on rank 0, all_reduce, min, on "
	          "rank 1");
	two_sides(batch, (struct made){ 6, 101, COHORT_F32, COHORT_SUM, 0 },
	          ": call 2: tensors[1] is 100 float32 on rank 0, 101 float32 "
	          "on rank 1");
	two_sides(batch, (struct made){ 7, 100, COHORT_F32, COHORT_SUM, 0 },
	          ": call 2: tensors[2] is missing on rank 0, 9 float64 on "
	          "rank 1");
}

/* Make a different call on one of four ranks, after more equal lists than the
 * library remembers. */
static int differ_late(struct cohort_comm *c, void *user)
{
	static float memory[4][40];
	float *data = memory[cohort_comm_rank(c)];
	struct cohort_tensor list[20];
	int i, k, rc = COHORT_OK;

	(void)user;
	for (k = 0; k < 20; k++)
		list[k] = (struct cohort_tensor){ data + k, data + k, 1,
			                          COHORT_F32 };
	for (i = 0; i < 50 && rc == COHORT_OK; i++) {
		list[17].type =
			i == 49 && data == memory[3] ? COHORT_U32 : COHORT_F32;
		rc = cohort_all_reduce_many(c, list, 20, COHORT_SUM,
		                            cohort_comm_stream(c), NULL);
		if (rc == COHORT_OK)
			rc = cohort_synchronize(c, RANKS_SOON);
	}
	return rc;
}

Test(mismatch, mismatch_in_the_50th_list_call_names_the_differing_tensor)
{
	spread_not("what a list holds is reported by the process that has it");
	struct cohort_group_options o;
	struct cohort_cause cause;
	struct cohort_group *group;

	cohort_group_options_init(&o);
	o.recorder_slots = 16;
	group = ranks_open(4, &o);
	cause = expect_end_of_run(group, differ_late, NULL, COHORT_MISMATCH);
	cr_assert_eq(cause.rank, 3, "%s", cause.text);
	expect_text(cause.text, "tensors[17] is 1 float32 on "
	                        "rank 0, 1 uint32 on rank 3");
	expect_close(group);
}

Test(mismatch, mismatch_with_a_count_of_0_names_the_rank_that_differs)
{
	spread_not("a process is done with calls of 0 elements before others "
	           "call");
	odd_one((struct made){ 0, 0, COHORT_F32, COHORT_SUM, 0 },
	        "rank 2 calls all_reduce of 0 float32, sum");
}

Test(mismatch, mismatch_of_roots_names_the_rank_that_differs)
{
	struct scene s = { .ranks = 2,
		           .differ = 0,
		           .differ_too = 1,
		           .other = { 1, 5, COHORT_F32, 0, 0 },
		           .third = { 1, 5, COHORT_F32, 0, 1 } };

	run_mismatch(&s);
	expect_text(s.cause.text, "root 0");
	expect_text(s.cause.text, "root 1");
}

Test(mismatch, mismatch_of_two_ranks_blames_neither)
{
	struct scene s = { .ranks = 2,
		           .differ = 1,
		           .differ_too = -1,
		           .other = { 0, 99, COHORT_F32, COHORT_SUM, 0 } };

	run_mismatch(&s);
	cr_assert_eq(s.cause.rank, -1);
	cr_assert_str_eq(expect_own(s.cause.text),
	                 "collective 2 differs, no majority: rank 0 calls "
	                 "all_reduce of 100 float32, sum; rank 1 calls "
	                 "all_reduce of 99 float32, sum");
}

Test(mismatch, mismatch_of_three_different_calls_names_them_all)
{
	struct scene s = { .ranks = 4,
		           .differ = 0,
		           .differ_too = 3,
		           .other = { .kind = 3 },
		           .third = { 2, 100, COHORT_F32, COHORT_MIN, 1 } };

	run_mismatch(&s);
	cr_assert_eq(s.cause.rank, -1);
	expect_text(s.cause.text, "rank 0 calls barrier");
	expect_text(s.cause.text, "ranks 1-2 call all_reduce");
	expect_text(s.cause.text,
	            "rank 3 calls reduce of 100 float32, min, root 1");
}

/* One rank has not called. The other ranks must get the error nevertheless. */
Test(mismatch, mismatch_is_reported_before_all_ranks_have_called)
{
	struct cohort_comm *c[3];
	struct cohort_group *group = ranks_ahead(3, NULL, c);
	struct cohort_cause cause;
	int32_t a = 1, b = 2;
	uint64_t t = ranks_sum(c[0], &a);

	cr_assert_eq(cohort_all_reduce(c[1], &b, &b, 1, COHORT_I32, COHORT_MAX,
	                               NULL, NULL),
	             COHORT_MISMATCH);
	cr_assert_eq(cohort_wait(c[0], t, RANKS_SOON), COHORT_MISMATCH);
	cr_assert_eq(cohort_barrier(c[2], NULL, NULL), COHORT_MISMATCH);
	cohort_group_cause(group, &cause);
	cr_assert_eq(cause.rank, -1, "%s", cause.text);
	cr_assert_eq(a, 1, "it was launched");
	expect_close(group);
}

/*
 * Run ahead by as many calls as the ring has slots, with calls of no elements,
 * which wait for no peer. All calls must be compared.
 */
static int run_ahead(struct cohort_comm *c, void *user)
{
	int i, rc = COHORT_OK, rank = cohort_comm_rank(c);

	(void)user;
	for (i = 0; i < 200 && rc == COHORT_OK; i++)
		rc = cohort_all_reduce(c, NULL, NULL, 0,
		                       rank && i == 150 ? COHORT_F64
		                                        : COHORT_F32,
		                       COHORT_SUM, cohort_comm_stream(c), NULL);
	return rc == COHORT_OK ? cohort_synchronize(c, RANKS_SOON) : rc;
}

/*
 * Make enough calls to wrap the ring of agreement words and the truncated call
 * numbers. The test repeats this for each number of slots.
 */
static int agree_long(struct cohort_comm *c, void *user)
{
	int i, rc = COHORT_OK, calls = *(const int *)user;

	for (i = 0; i < calls && rc == COHORT_OK; i++)
		rc = cohort_all_reduce(c, NULL, NULL, (size_t)0,
		                       i % 2 ? COHORT_F64 : COHORT_F32,
		                       COHORT_SUM, cohort_comm_stream(c), NULL);
	return rc == COHORT_OK ? cohort_synchronize(c, RANKS_SOON) : rc;
}

static void run_long(unsigned slots, int calls)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	cohort_group_options_init(&o);
	o.recorder_slots = slots;
	group = ranks_open(2, &o);
	expect_run_in(group, agree_long, &calls);
	expect_close(group);
}

Test(mismatch, calls_that_agree_never_mismatch)
{
	run_long(16, 70000);
	run_long(32768, 70000);
	run_long(65536, 140000);
}

Test(mismatch, mismatch_is_found_if_a_rank_runs_far_ahead)
{
	struct cohort_group_options o;
	struct cohort_cause cause;
	struct cohort_group *group;

	spread_not("a process is done with calls of 0 elements before others "
	           "call");
	cohort_group_options_init(&o);
	o.recorder_slots = 16;
	group = ranks_open(2, &o);
	cause = expect_end_of_run(group, run_ahead, NULL, COHORT_MISMATCH);
	expect_text(cause.text, "collective 151 differs");
	expect_close(group);
}
