/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the reducer when a rank cancels a step: the results of all ranks'
 * calls
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "support/expect.h"
#include "support/model.h"
#include "support/place.h"
#include "support/ranks.h"
#include "support/spread.h"
#include "support/stress.h"

TestSuite(reducer_cancel, .timeout = 60);

#define RANKS 3
#define LAST (RANKS - 1)

static struct cohort_group *group;
static struct cohort_comm *comms[RANKS];
static struct model model;
static struct model_rank ranks[RANKS];

static void open_all(void)
{
	int r;

	place_need_no_sync("one thread gives the gradients of all ranks, and "
	                   "its copies for one wait for the other's launch");
	group = ranks_ahead(RANKS, NULL, comms);
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(model_open(&ranks[r], &model, comms[r]), COHORT_OK,
		             "%s", cohort_last_error());
}

static void close_all(void)
{
	int r;

	for (r = 0; r < RANKS; r++)
		cr_assert_eq(model_close(&ranks[r]), COHORT_OK, "%s",
		             cohort_last_error());
	expect_close(group);
}

static struct cohort_reducer *reducer(int r)
{
	return ranks[r].reducer;
}

static void begin(int r, uint64_t number)
{
	void *stream = cohort_comm_stream(comms[r]);
	int i, rc;

	for (i = 0; i < MODEL_PARAMETERS; i++)
		model_set(&ranks[r], number, i, 1.0);
	rc = model.options.weighted
	             ? cohort_reducer_begin_weighted(reducer(r), 1.0, stream)
	             : cohort_reducer_begin(reducer(r), stream);
	cr_assert_eq(rc, COHORT_OK, "%s", cohort_last_error());
}

/* Mark the parameters of rank @r from the last one down to @last. */
static void mark(int r, int last)
{
	int i;

	for (i = MODEL_PARAMETERS - 1; i >= last; i--)
		cr_assert_eq(cohort_reducer_ready(reducer(r), (size_t)i),
		             COHORT_OK, "%s", cohort_last_error());
}

/*
 * End a step in which rank k has marked its parameters down to @last[k]. Rank k
 * finishes the step if @last[k] is 0, and cancels it otherwise. Store the
 * results in @rc.
 */
static void end_all(const int last[RANKS], int rc[RANKS])
{
	int r, left;

	for (r = 0; r < RANKS; r++)
		rc[r] = COHORT_TIMED_OUT;
	for (left = RANKS; left;)
		for (left = 0, r = 0; r < RANKS; r++) {
			if (rc[r] == COHORT_TIMED_OUT)
				rc[r] = last[r] ? cohort_reducer_cancel(
							  reducer(r), 0)
				                : cohort_reducer_finish(
							  reducer(r), 0);
			left += rc[r] == COHORT_TIMED_OUT;
		}
}

/* A whole step of one rank, on a new thread */
struct part {
	pthread_t thread;
	uint64_t number;
	int r, last, rc;
};

static void *make_part(void *arg)
{
	struct part *p = arg;

	begin(p->r, p->number);
	mark(p->r, p->last);
	p->rc = p->last ? cohort_reducer_cancel(reducer(p->r), RANKS_SOON)
	                : cohort_reducer_finish(reducer(p->r), RANKS_SOON);
	return NULL;
}

static void step(uint64_t number, const int last[RANKS], int rc[RANKS])
{
	struct part parts[RANKS];
	int r;

	for (r = 0; r < RANKS; r++) {
		parts[r] = (struct part){ .number = number,
			                  .r = r,
			                  .last = last[r] };
		pthread_create(&parts[r].thread, NULL, make_part, &parts[r]);
	}
	for (r = 0; r < RANKS; r++) {
		pthread_join(parts[r].thread, NULL);
		rc[r] = parts[r].rc;
	}
}

static void expect_step(uint64_t number, const int last[RANKS])
{
	int r, rc[RANKS];

	step(number, last, rc);
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(rc[r], last[r] ? COHORT_OK : COHORT_SKIP,
		             "rank %d: %d, %s", r, rc[r], cohort_last_error());
}

/* Run a step that all ranks finish, and check the result. All weights are 1, so
 * the result is the mean, with slightly more rounding. */
static void expect_whole_step(uint64_t number)
{
	const int none[RANKS] = { 0 };
	double values[MODEL_MOST], want;
	int r, i, rc[RANKS];
	size_t first, n, k;

	step(number, none, rc);
	for (r = 0; r < RANKS; r++) {
		cr_assert_eq(rc[r], COHORT_OK, "rank %d: %d, %s", r, rc[r],
		             cohort_last_error());
		for (i = 0; i < MODEL_PARAMETERS; i++) {
			model_get(&ranks[r], i, values);
			cohort_reducer_shard(reducer(r), (size_t)i, &first, &n);
			for (k = first; k < first + n; k++) {
				want = (double)model_fold(&model, number, i, k,
				                          NULL, RANKS);
				cr_assert_float_eq(values[k], want, 0.01);
			}
		}
	}
}

/* ---- steps that every rank skips -------------------------------------- */

static void cancel_in_many_ways(void)
{
	open_all();
	expect_whole_step(1);
	expect_step(2, (const int[]){ 0, 0, 6 });
	expect_whole_step(3);
	expect_step(4, (const int[]){ MODEL_PARAMETERS, 0, 0 });
	expect_step(5, (const int[]){ 0, 3, 0 });
	expect_step(6, (const int[]){ 0, 1, 7 });
	expect_step(7, (const int[]){ 2, MODEL_PARAMETERS, 6 });
	expect_whole_step(8);
	close_all();
}

Test(reducer_cancel, canceled_step_is_skipped_and_the_group_continues)
{
	model = model_of(RANKS);
	cancel_in_many_ways();
}

Test(reducer_cancel, canceled_step_with_shards_is_skipped)
{
	model = model_of(RANKS);
	model.options.sharded = 1;
	cancel_in_many_ways();
}

Test(reducer_cancel, canceled_step_with_unused_gradients_is_skipped)
{
	model = model_of(RANKS);
	model.options.find_unused = 1;
	cancel_in_many_ways();
}

Test(reducer_cancel, canceled_weighted_step_is_skipped)
{
	model = model_of(RANKS);
	model.options.weighted = 1;
	cancel_in_many_ways();
}

Test(reducer_cancel, canceled_first_step_does_not_make_the_plan)
{
	int buckets[MODEL_PARAMETERS], r, i, rc[RANKS];
	bool differs = false;

	model = model_of(RANKS);
	open_all();
	for (i = 0; i < MODEL_PARAMETERS; i++)
		buckets[i] = cohort_reducer_bucket(reducer(1), (size_t)i);
	expect_step(1, (const int[]){ 7, 0, 0 });
	expect_step(2, (const int[]){ 0, 0, 7 });
	for (i = 0; i < MODEL_PARAMETERS; i++)
		for (r = 0; r < RANKS; r++)
			cr_assert_eq(cohort_reducer_bucket(reducer(r),
			                                   (size_t)i),
			             buckets[i]);
	/* Mark the gradients in reverse order. */
	for (r = 0; r < RANKS; r++) {
		begin(r, 3);
		for (i = 0; i < MODEL_PARAMETERS; i++)
			cr_assert_eq(cohort_reducer_ready(reducer(r),
			                                  (size_t)i),
			             COHORT_OK);
	}
	end_all((const int[RANKS]){ 0 }, rc);
	for (i = 0; i < MODEL_PARAMETERS; i++)
		differs |= cohort_reducer_bucket(reducer(1), (size_t)i) !=
		           buckets[i];
	cr_assert(differs);
	close_all();
}

Test(reducer_cancel, canceled_step_of_weight_0_does_not_affect_the_next)
{
	int r, rc[RANKS];

	model = model_of(RANKS);
	model.options.weighted = 1;
	open_all();
	for (r = 0; r < RANKS; r++) {
		cr_assert_eq(cohort_reducer_begin_weighted(reducer(r), 0.0,
		                                           NULL),
		             COHORT_OK);
		mark(r, r ? 0 : 7);
	}
	end_all((const int[]){ 7, 0, 0 }, rc);
	cr_assert_eq(rc[0], COHORT_OK);
	cr_assert_eq(rc[1], COHORT_SKIP);
	expect_whole_step(1);
	close_all();
}

/* ---- steps that count although a rank cancels --------------------------- */

Test(reducer_cancel, step_counts_if_all_gradients_were_ready_before_cancel)
{
	int r, rc[RANKS];

	model = model_of(RANKS);
	open_all();
	for (r = 0; r < RANKS; r++) {
		begin(r, 1);
		/* Parameter 4 has no elements. */
		mark(r, r == LAST ? 5 : 0);
	}
	for (r = 3; r >= 0; r--)
		cr_assert_eq(cohort_reducer_ready(reducer(LAST), (size_t)r),
		             COHORT_OK);
	cr_assert_eq(cohort_reducer_cancel(reducer(LAST), RANKS_SOON),
	             COHORT_ALREADY);
	cr_assert_eq(cohort_reducer_cancel(reducer(0), RANKS_SOON),
	             COHORT_ALREADY);
	end_all((const int[RANKS]){ 0 }, rc);
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(rc[r], COHORT_OK);
	expect_whole_step(2);
	close_all();
}

Test(reducer_cancel, cancel_is_refused_after_finish_marked_unused_gradients)
{
	int r, rc[RANKS];

	model = model_of(RANKS);
	model.options.find_unused = 1;
	open_all();
	for (r = 0; r < RANKS; r++) {
		begin(r, 1);
		mark(r, r);
	}
	cr_assert_eq(cohort_reducer_finish(reducer(1), 0), COHORT_TIMED_OUT);
	cr_assert_eq(cohort_reducer_cancel(reducer(1), 0), COHORT_ALREADY);
	end_all((const int[RANKS]){ 0 }, rc);
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(rc[r], COHORT_OK);
	close_all();
}

Test(reducer_cancel, canceled_accumulate_affects_no_other_rank)
{
	model = model_of(RANKS);
	open_all();
	cr_assert_eq(cohort_reducer_accumulate(reducer(0)), COHORT_OK);
	mark(0, 5);
	cr_assert_eq(cohort_reducer_cancel(reducer(0), 0), COHORT_OK);
	expect(cohort_reducer_finish(reducer(0), 0), COHORT_STATE,
	       "no step is open");
	expect_whole_step(1);
	close_all();
}

/* ---- refused and repeated cancels ------------------------------------- */

static void *cancel_elsewhere(void *arg)
{
	(void)arg;
	expect(cohort_reducer_cancel(reducer(0), 0), COHORT_OWNER,
	       "another thread has begun");
	return NULL;
}

Test(reducer_cancel, cancel_out_of_order_is_refused_and_changes_nothing)
{
	pthread_t other;
	int r, i, rc[RANKS];

	model = model_of(RANKS);
	open_all();
	expect(cohort_reducer_cancel(NULL, 0), COHORT_INVALID, "reducer is");
	expect(cohort_reducer_cancel(reducer(0), 0), COHORT_STATE,
	       "no step is open");
	for (r = 0; r < RANKS; r++) {
		begin(r, 1);
		mark(r, 7);
	}
	pthread_create(&other, NULL, cancel_elsewhere, NULL);
	pthread_join(other, NULL);
	for (r = 0; r < RANKS; r++) {
		for (i = 6; i >= 0; i--)
			cr_assert_eq(cohort_reducer_ready(reducer(r),
			                                  (size_t)i),
			             COHORT_OK);
	}
	end_all((const int[RANKS]){ 0 }, rc);
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(rc[r], COHORT_OK);
	close_all();
}

Test(reducer_cancel, cancel_that_timed_out_is_completed_by_finish)
{
	int r, rc[RANKS];

	model = model_of(RANKS);
	open_all();
	for (r = 0; r < RANKS; r++) {
		begin(r, 1);
		mark(r, r == LAST ? 6 : 0);
	}
	cr_assert_eq(cohort_reducer_cancel(reducer(LAST), 0), COHORT_TIMED_OUT);
	cr_assert_eq(cohort_reducer_ready(reducer(LAST), 0), COHORT_ALREADY);
	expect(cohort_reducer_finish_on(reducer(LAST), NULL), COHORT_STATE,
	       "has canceled");
	expect(cohort_reducer_free(reducer(LAST)), COHORT_STATE,
	       "a step is open");
	end_all((const int[RANKS]){ 0 }, rc);
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(rc[r], COHORT_SKIP, "rank %d: %d", r, rc[r]);
	expect(cohort_reducer_cancel(reducer(LAST), 0), COHORT_STATE,
	       "no step is open");
	expect_whole_step(2);
	close_all();
}

Test(reducer_cancel, cancel_that_returned_busy_can_be_repeated)
{
	const int last[RANKS] = { [LAST] = 1 };
	int r, rc[RANKS];
	void *native;

	model = model_of(RANKS);
	open_all();
	for (r = 0; r < RANKS; r++)
		begin(r, 1);
	ranks_must(cohort_comm_native_enter(comms[LAST], &native), "enter");
	cr_assert_eq(cohort_reducer_cancel(reducer(LAST), 0), COHORT_BUSY);
	ranks_must(cohort_comm_native_leave(comms[LAST]), "leave");
	for (r = 0; r < RANKS; r++) {
		ranks_must(cohort_barrier(comms[r], NULL, NULL), "barrier");
		mark(r, last[r] ? MODEL_PARAMETERS : 0);
	}
	end_all(last, rc);
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(rc[r], last[r] ? COHORT_OK : COHORT_SKIP,
		             "rank %d: %d", r, rc[r]);
	expect_whole_step(2);
	close_all();
}

/* ---- ends of the group ------------------------------------------------ */

Test(reducer_cancel, cancel_returns_the_cause_after_the_groups_end)
{
	int r;

	model = model_of(RANKS);
	open_all();
	for (r = 0; r < RANKS; r++) {
		begin(r, 1);
		mark(r, 6);
	}
	cr_assert_eq(cohort_reducer_cancel(reducer(0), 0), COHORT_TIMED_OUT);
	cr_assert_eq(cohort_group_abort(group, "enough"), COHORT_OK);
	for (r = 0; r < RANKS; r++) {
		expect(cohort_reducer_cancel(reducer(r), RANKS_SOON),
		       COHORT_ABORTED, "enough");
		expect(cohort_reducer_begin(reducer(r), NULL), COHORT_STATE,
		       "an earlier step has failed");
	}
	close_all();
}

/*
 * Begin step 2 on all ranks. The last rank marks its parameters only down to 6,
 * rank 0 down to @last, and the other ranks mark all.
 */
static void begin_but_the_last(int last)
{
	int r;

	model = model_of(RANKS);
	open_all();
	expect_whole_step(1);
	for (r = 0; r < RANKS; r++) {
		begin(r, 2);
		mark(r, r == LAST ? 6 : r ? 0 : last);
	}
}

/*
 * Check that all ranks' calls end. Rank 0 has finished the step on a stream,
 * and the last rank has canceled it.
 */
static void expect_that_all_ends(void)
{
	struct cohort_cause cause;
	int rc = cohort_reducer_finish(reducer(1), RANKS_SOON);

	cr_assert(rc == COHORT_ABORTED || rc == COHORT_SKIP, "%d", rc);
	cr_assert_eq(cohort_comm_cause(comms[1], &cause), COHORT_OK);
	cr_assert_eq(cause.rank, LAST);
	expect_text(cause.text, "rank 2 has canceled a step of "
	                        "the reducer that rank 0 has already "
	                        "finished on a stream");
	close_all();
}

Test(reducer_cancel, cancel_of_a_step_finished_on_a_stream_ends_the_group)
{
	begin_but_the_last(0);
	cr_assert_eq(cohort_reducer_finish_on(reducer(0), NULL), COHORT_OK);
	expect(cohort_reducer_cancel(reducer(LAST), RANKS_SOON), COHORT_ABORTED,
	       "has canceled a step");
	expect_that_all_ends();
}

/* Rank 0 continues with another reducer, which launches nothing because it has
 * no elements. */
Test(reducer_cancel, cancel_ends_the_group_even_after_a_step_without_elements)
{
	const struct cohort_parameter none = { NULL, NULL, 0, COHORT_F32 };
	struct cohort_reducer_options o;
	struct cohort_reducer *empty;
	int r;

	cohort_reducer_options_init(&o);
	o.keep_plan = 1;
	model = model_of(RANKS);
	open_all();
	expect_whole_step(1);
	ranks_must(cohort_reducer_create(comms[0], &none, 1, &o, &empty),
	           "create");
	for (r = 0; r < RANKS; r++) {
		begin(r, 2);
		mark(r, r == LAST ? 6 : 0);
	}
	cr_assert_eq(cohort_reducer_finish_on(reducer(0), NULL), COHORT_OK);
	ranks_must(cohort_reducer_begin(empty, NULL), "begin");
	ranks_must(cohort_reducer_ready(empty, 0), "ready");
	ranks_must(cohort_reducer_finish_on(empty, NULL), "finish_on");
	expect(cohort_reducer_cancel(reducer(LAST), RANKS_SOON), COHORT_ABORTED,
	       "has canceled a step");
	cr_assert_eq(cohort_reducer_free(empty), COHORT_OK);
	expect_that_all_ends();
}

Test(reducer_cancel, canceled_step_finished_on_a_stream_ends_the_group)
{
	int i;

	begin_but_the_last(6);
	cr_assert_eq(cohort_reducer_cancel(reducer(LAST), 0), COHORT_TIMED_OUT);
	for (i = 5; i >= 0; i--)
		cr_assert_eq(cohort_reducer_ready(reducer(0), (size_t)i),
		             COHORT_OK);
	expect(cohort_reducer_finish_on(reducer(0), NULL), COHORT_ABORTED,
	       "has canceled a step");
	cr_assert_eq(cohort_reducer_finish(reducer(0), RANKS_SOON),
	             COHORT_ABORTED);
	/* The whole step was launched, so it may be done. */
	i = cohort_reducer_cancel(reducer(LAST), RANKS_SOON);
	cr_assert(i == COHORT_ABORTED || i == COHORT_OK, "%d", i);
	expect_that_all_ends();
}

Test(reducer_cancel, step_finished_on_a_stream_after_its_cancel_ends_the_group)
{
	begin_but_the_last(0);
	cr_assert_eq(cohort_reducer_cancel(reducer(LAST), RANKS_SOON),
	             COHORT_OK);
	expect(cohort_reducer_finish_on(reducer(0), NULL), COHORT_ABORTED,
	       "has canceled a step");
	expect(cohort_reducer_begin(reducer(LAST), NULL), COHORT_ABORTED,
	       "has canceled a step");
	expect_that_all_ends();
}

Test(reducer_cancel, cancel_does_not_affect_an_earlier_step_on_a_stream)
{
	int r;

	model = model_of(RANKS);
	open_all();
	for (r = 0; r < RANKS; r++) {
		begin(r, 1);
		mark(r, 0);
	}
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(cohort_reducer_finish_on(reducer(r), NULL),
		             COHORT_OK);
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(cohort_synchronize(comms[r], RANKS_SOON),
		             COHORT_OK);
	expect_step(2, (const int[]){ 0, 0, 6 });
	expect_whole_step(3);
	close_all();
}

/* ---- random steps ----------------------------------------------------- */

#define STEPS 60

struct plan {
	struct model model;
	uint64_t seed;
	/*
	 * For each step, the number of ranks that have canceled it, and the
	 * numbers of ranks whose finish has returned COHORT_OK and COHORT_SKIP
	 */
	atomic_int cancelled[STEPS], counted[STEPS], skipped[STEPS];
};

static uint64_t chance(const struct plan *p, uint64_t number, int rank)
{
	uint64_t seed = p->seed * 1000003 + number * 64 + (uint64_t)rank;

	stress_random(&seed);
	return stress_random(&seed);
}

/*
 * Return the number of gradients that a rank marks before it fails, or
 * MODEL_PARAMETERS if it does not fail.
 */
static int ready_of(const struct plan *p, uint64_t number, int rank)
{
	uint64_t x = chance(p, number, rank);

	return x % 5 ? MODEL_PARAMETERS : (int)(x / 5 % MODEL_PARAMETERS);
}

static int make_step(struct plan *p, struct model_rank *rank, uint64_t number)
{
	int r = cohort_comm_rank(rank->comm), n = ready_of(p, number, r);
	int order[MODEL_PARAMETERS], k, rc;
	void *stream = cohort_comm_stream(rank->comm);
	/* Use a short timeout for half of the calls, chosen at random. */
	uint64_t timeout = chance(p, number, r) / 64 % 2 ? RANKS_SOON : 10000;
	bool cancels = false;

	rc = p->model.options.weighted
	             ? cohort_reducer_begin_weighted(rank->reducer, 1.0, stream)
	             : cohort_reducer_begin(rank->reducer, stream);
	model_shuffle(order, chance(p, number, r));
	for (k = 0; k < MODEL_PARAMETERS && rc == COHORT_OK; k++) {
		if (k >= n)
			cancels |= model_count(order[k]) > 0;
		if (k >= n)
			continue;
		model_set(rank, number, order[k], 1.0);
		rc = cohort_reducer_ready(rank->reducer, (size_t)order[k]);
	}
	if (rc != COHORT_OK)
		return rc;
	do
		rc = n < MODEL_PARAMETERS
		             ? cohort_reducer_cancel(rank->reducer, timeout)
		             : cohort_reducer_finish(rank->reducer, timeout);
	while (rc == COHORT_TIMED_OUT);
	/* The missing gradients have no elements. */
	if (rc == COHORT_ALREADY && n < MODEL_PARAMETERS && !cancels)
		rc = cohort_reducer_finish(rank->reducer, RANKS_SOON);
	if (rc != COHORT_OK && (cancels || rc != COHORT_SKIP))
		return rc < 0 ? rc : 100;
	atomic_fetch_add(cancels           ? &p->cancelled[number]
	                 : rc == COHORT_OK ? &p->counted[number]
	                                   : &p->skipped[number],
	                 1);
	if (!cancels && rc == COHORT_OK && !p->model.options.weighted &&
	    !p->model.options.sharded &&
	    model_wrong(rank, number, NULL, (float)p->model.size))
		return 101;
	return rc == COHORT_SKIP ? COHORT_OK : rc;
}

/* Run steps with two reducers of one communicator, chosen at random. */
static int steps_by_chance(struct cohort_comm *comm, void *user)
{
	struct plan *p = user;
	struct model_rank rank[2];
	uint64_t number;
	int rc = model_open(&rank[0], &p->model, comm);

	if (rc == COHORT_OK)
		rc = model_open(&rank[1], &p->model, comm);
	for (number = 0; number < STEPS && rc == COHORT_OK; number++) {
		/* In some steps, this rank first makes a pass without
		 * communication. */
		if (chance(p, number, 60 + cohort_comm_rank(comm)) % 4 == 0) {
			rc = cohort_reducer_accumulate(rank[0].reducer);
			if (rc == COHORT_OK)
				rc = cohort_reducer_cancel(rank[0].reducer, 0);
		}
		if (rc == COHORT_OK)
			rc = make_step(p, &rank[chance(p, number, 50) % 3 == 0],
			               number);
	}
	if (rc == COHORT_OK)
		rc = model_close(&rank[0]);
	return rc == COHORT_OK ? model_close(&rank[1]) : rc;
}

Test(reducer_cancel, no_rank_counts_a_step_that_another_rank_has_canceled)
{
	int round, k, skipped = 0, counted = 0;
	static struct plan p;

	spread_not("ranks of other processes cannot be notified");
	place_need_our_nccl("an order of additions");
	for (round = 0; round < 5; round++) {
		memset(&p, 0, sizeof(p));
		p.seed = (uint64_t)round + 1;
		p.model = model_of(RANKS);
		p.model.options.find_unused = round % 2;
		p.model.options.weighted = round == 2;
		p.model.options.sharded = round == 3;
		expect_run(RANKS, steps_by_chance, &p);
		for (k = 0; k < STEPS; k++) {
			cr_assert_eq(p.cancelled[k] + p.counted[k] +
			                     p.skipped[k],
			             RANKS);
			if (p.cancelled[k])
				cr_assert_eq(p.counted[k], 0, "step %d", k);
			else
				cr_assert_eq(p.counted[k], RANKS, "step %d", k);
			skipped += p.cancelled[k] > 0;
			counted += p.cancelled[k] == 0;
		}
	}
	cr_assert_gt(skipped, 6 * STEPS / 5);
	cr_assert_gt(counted, 6 * STEPS / 5);
}
