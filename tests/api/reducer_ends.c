/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the reducer when a step cannot finish, because of a missing rank, an
 * abort or a failure
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "support/expect.h"
#include "support/failing.h"
#include "support/model.h"
#include "support/place.h"
#include "support/ranks.h"

TestSuite(reducer_ends, .timeout = 60);

#define RANKS 3
#define MS UINT64_C(1000000)

static struct cohort_group *group;
static struct cohort_comm *comms[RANKS];
static struct model model;
static struct model_rank ranks[RANKS];
static char text[1024], tag[48], label[48];

/* Store the last rank's tag and label, and the text of the verdict. */
static int keep(const struct cohort_verdict *v, void *user)
{
	const struct cohort_rank_report *last = &v->ranks[RANKS - 1];

	(void)user;
	if (v->stage != COHORT_STAGE_ENDED)
		return 0;
	snprintf(text, sizeof(text), "%s", v->text);
	snprintf(tag, sizeof(tag), "%s", last->tag);
	snprintf(label, sizeof(label), "%s", last->label);
	return 0;
}

static void open_for(uint64_t join_ns)
{
	struct cohort_group_options o;
	int r;

	cohort_group_options_init(&o);
	o.deadlines.join_ns = join_ns;
	o.on_verdict = keep;
	group = ranks_ahead(RANKS, &o, comms);
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(model_open(&ranks[r], &model, comms[r]), COHORT_OK,
		             "%s", cohort_last_error());
}

static void open_all(void)
{
	open_for(RANKS_SOON);
}

/* Open a group with a deadline that is short, but does not expire before
 * expect_stall(). */
static void open_to_stall(void)
{
	open_for(100 * MS);
	ranks_must(cohort_pause(comms[RANKS - 1]), "pause");
}

static void close_all(void)
{
	int r;

	for (r = 0; r < RANKS; r++)
		cr_assert_eq(model_close(&ranks[r]), COHORT_OK, "%s",
		             cohort_last_error());
	expect_close(group);
}

/*
 * Begin a step and mark all gradients on all ranks. The last rank does not mark
 * the gradients before @missing.
 */
static void begin_all(int missing)
{
	int r, i;

	for (r = 0; r < RANKS; r++)
		cr_assert_eq(cohort_reducer_begin(ranks[r].reducer, NULL),
		             COHORT_OK);
	for (r = 0; r < RANKS; r++)
		for (i = MODEL_PARAMETERS - 1; i >= 0; i--)
			if (r < RANKS - 1 || i >= missing)
				cr_assert_eq(
					cohort_reducer_ready(ranks[r].reducer,
				                             (size_t)i),
					COHORT_OK);
}

/*
 * Check the results of the other ranks' calls, and which calls the reducer
 * still accepts.
 */
static void expect_end(int status)
{
	int r;

	for (r = 0; r < RANKS - 1; r++) {
		cr_assert_eq(cohort_reducer_finish(ranks[r].reducer,
		                                   COHORT_FOREVER),
		             status, "%s", cohort_last_error());
		expect(cohort_reducer_begin(ranks[r].reducer, NULL),
		       COHORT_STATE, "an earlier step has failed");
		expect(cohort_reducer_finish(ranks[r].reducer, 0), COHORT_STATE,
		       "no step is open");
	}
}

static void expect_stall(void)
{
	ranks_must(cohort_resume(comms[RANKS - 1]), "resume");
	expect_end(COHORT_STALLED);
}

/* ---- a rank that never marks its gradients ------------------------------ */

Test(reducer_ends, verdict_names_the_missing_parameter)
{
	struct cohort_cause cause;

	model = model_of(RANKS);
	open_to_stall();
	/*
	 * The last rank marks only parameters 6 to 8. The first missing one,
	 * number 5, shares a bucket with 4 and 3.
	 */
	begin_all(6);
	expect_stall();
	cr_assert_eq(cohort_comm_cause(comms[0], &cause), COHORT_OK);
	cr_assert_eq(cause.rank, RANKS - 1);
	expect_text(cause.text, "; it needs parameter "
	                        "'layer4.conv2.weight' (and ");
	expect_text(cause.details, "more) to be marked ready");
	close_all();
	expect_text(text, "'layer4.conv2.weight'");
}

Test(reducer_ends, verdict_says_that_reducer_finish_was_not_called)
{
	struct cohort_cause cause;

	model = model_of(RANKS);
	model.options.find_unused = 1;
	open_to_stall();
	begin_all(0);
	expect_stall();
	cr_assert_eq(cohort_comm_cause(comms[0], &cause), COHORT_OK);
	expect_text(cause.details, " waits for cohort_reducer_finish() to be");
	close_all();
}

static void *mark_rest(void *arg)
{
	int i;

	(void)arg;
	for (i = 5; i >= 0; i--)
		ranks_must(cohort_reducer_ready(ranks[RANKS - 1].reducer,
		                                (size_t)i),
		           "ready");
	return NULL;
}

Test(reducer_ends, verdict_says_that_the_owner_launches_no_ready_bucket)
{
	struct cohort_cause cause;
	pthread_t helper;

	model = model_of(RANKS);
	open_to_stall();
	begin_all(6);
	pthread_create(&helper, NULL, mark_rest, NULL);
	pthread_join(helper, NULL);
	expect_stall();
	cr_assert_eq(cohort_comm_cause(comms[0], &cause), COHORT_OK);
	expect_text(cause.details, "cohort_reducer_progress()");
	close_all();
}

Test(reducer_ends, verdict_names_tag_bucket_and_parameter)
{
	struct cohort_cause cause;

	model = model_of(RANKS);
	model.options.full_buckets = 1;
	open_to_stall();
	cr_assert_eq(cohort_tag(comms[RANKS - 1], "mine"), COHORT_OK);
	begin_all(6);
	expect_stall();
	cr_assert_eq(cohort_comm_cause(comms[0], &cause), COHORT_OK);
	expect_text(cause.details, ", tag \"mine\", label "
	                           "\"bucket 2/5: fc.weight and 1 more\"");
	expect_text(cause.details, "\nneeds  parameter "
	                           "'layer4.conv2.weight' (and ");
	close_all();
	cr_assert_str_eq(tag, "mine");
	cr_assert_str_eq(label, "bucket 2/5: fc.weight and 1 more");
}

/* Number of reducers, more than the number of texts that are stored */
#define MANY 200

static void create_many(struct cohort_reducer *r[RANKS])
{
	static float gradients[RANKS][MANY];
	static struct cohort_parameter p[MANY];
	struct cohort_reducer_options o;
	int i, k;

	cohort_reducer_options_init(&o);
	o.first_bytes = o.bucket_bytes = 1;
	o.full_buckets = o.keep_plan = 1;
	for (i = 0; i < RANKS; i++) {
		for (k = 0; k < MANY; k++) {
			p[k].gradient = &gradients[i][k];
			p[k].count = 1;
			p[k].type = COHORT_F32;
		}
		cr_assert_eq(cohort_reducer_create(comms[i], p, MANY, &o,
		                                   &r[i]),
		             COHORT_OK);
		cr_assert_eq(cohort_reducer_buckets(r[i]), MANY);
	}
}

static void mark_many(struct cohort_reducer *const r[RANKS], int from, int to)
{
	int i, k;

	for (i = 0; i < RANKS; i++)
		for (k = from; k > to; k--)
			cr_assert_eq(cohort_reducer_ready(r[i], (size_t)k - 1),
			             COHORT_OK);
}

static void finish_many(struct cohort_reducer *const r[RANKS])
{
	int i, left;

	for (left = RANKS; left;)
		for (left = 0, i = 0; i < RANKS; i++)
			left += cohort_reducer_finish(r[i], 0) ==
			        COHORT_TIMED_OUT;
}

/* Run a step with one parameter named @name. Return the label of its call. */
static const char *label_of(const char *name)
{
	static struct cohort_rank_report reports[RANKS];
	static float gradients[RANKS];
	struct cohort_reducer_options o;
	struct cohort_reducer *r[RANKS];
	struct cohort_parameter p = { .name = name,
		                      .count = 1,
		                      .type = COHORT_F32 };
	int i;

	cohort_reducer_options_init(&o);
	o.keep_plan = 1;
	for (i = 0; i < RANKS; i++) {
		p.gradient = &gradients[i];
		cr_assert_eq(cohort_reducer_create(comms[i], &p, 1, &o, &r[i]),
		             COHORT_OK);
	}
	for (i = 0; i < RANKS; i++) {
		cr_assert_eq(cohort_reducer_begin(r[i], NULL), COHORT_OK);
		cr_assert_eq(cohort_reducer_ready(r[i], 0), COHORT_OK);
	}
	finish_many(r);
	cr_assert_eq(cohort_comm_snapshot(comms[0], reports, RANKS,
	                                  sizeof(*reports)),
	             COHORT_OK);
	for (i = 0; i < RANKS; i++)
		cr_assert_eq(cohort_reducer_free(r[i]), COHORT_OK);
	return reports[0].label;
}

Test(reducer_ends, bucket_label_is_cut_between_utf8_characters)
{
	model = model_of(RANKS);
	open_all();
	cr_assert_str_eq(label_of("twenty.bytes.of.name"),
	                 "bucket 1/1: twenty.bytes.of.name");
	cr_assert_str_eq(label_of("encoder.日本語日本語.weight"),
	                 "bucket 1/1: encoder.日本語...");
	cr_assert_str_eq(label_of("encoder1.日本語日本語.weight"),
	                 "bucket 1/1: encoder1.日本...");
	close_all();
}

/* Check the verdict on the last rank, which makes no call. */
static void expect_last_call(const char *in_text)
{
	const struct cohort_deadlines soon = { .join_ns = 100 * MS };
	struct cohort_cause cause;
	static int32_t x;

	cr_assert_eq(cohort_deadline_push(comms[0], &soon), COHORT_OK);
	ranks_sum(comms[0], &x);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_STALLED);
	cr_assert_eq(cohort_comm_cause(comms[0], &cause), COHORT_OK);
	expect_text(cause.details, in_text);
}

static void make_a_step_of_many(struct cohort_reducer *r[RANKS], bool tags)
{
	int i;

	cr_assert_eq(cohort_tag(comms[RANKS - 1], "step 12"), COHORT_OK);
	create_many(r);
	for (i = 0; i < RANKS; i++)
		cr_assert_eq(cohort_reducer_begin(r[i], NULL), COHORT_OK);
	mark_many(r, MANY, MANY / 2);
	if (tags)
		cr_assert_eq(cohort_tag(comms[RANKS - 1], "step 12, back half"),
		             COHORT_OK);
	mark_many(r, MANY / 2, 0);
	finish_many(r);
}

Test(reducer_ends, tag_of_the_program_outlives_200_bucket_labels)
{
	struct cohort_reducer *r[RANKS];
	int i;

	model = model_of(RANKS);
	open_all();
	make_a_step_of_many(r, false);
	expect_last_call(", tag \"step 12\", label \"bucket 200/200: 0\"");
	for (i = 0; i < RANKS; i++)
		cr_assert_eq(cohort_reducer_free(r[i]), COHORT_OK);
	close_all();
}

Test(reducer_ends, tag_set_during_a_step_outlives_the_reducer)
{
	struct cohort_reducer *r[RANKS];
	static int32_t x;
	int i;

	model = model_of(RANKS);
	open_all();
	make_a_step_of_many(r, true);
	for (i = 0; i < RANKS; i++)
		cr_assert_eq(cohort_reducer_free(r[i]), COHORT_OK);
	cr_assert_eq(cohort_copy(comms[RANKS - 1], &x, &x, 0,
	                         cohort_comm_stream(comms[RANKS - 1])),
	             COHORT_OK);
	expect_last_call(", tag \"step 12, back half\"");
	close_all();
}

Test(reducer_ends, step_end_restores_the_tag_of_the_program)
{
	const struct cohort_deadlines soon = { .join_ns = 100 * MS };
	static int32_t x;
	struct cohort_cause cause;
	int r, left;

	model = model_of(RANKS);
	open_all();
	cr_assert_eq(cohort_tag(comms[RANKS - 1], "mine"), COHORT_OK);
	begin_all(0);
	for (left = RANKS; left;)
		for (left = 0, r = 0; r < RANKS; r++)
			left += cohort_reducer_finish(ranks[r].reducer, 0) ==
			        COHORT_TIMED_OUT;
	cr_assert_eq(cohort_copy(comms[RANKS - 1], &x, &x, 0,
	                         cohort_comm_stream(comms[RANKS - 1])),
	             COHORT_OK);
	cr_assert_eq(cohort_deadline_push(comms[0], &soon), COHORT_OK);
	ranks_sum(comms[0], &x);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_STALLED);
	cr_assert_eq(cohort_comm_cause(comms[0], &cause), COHORT_OK);
	expect_text(cause.details, "tag \"mine\"");
	close_all();
}

/* ---- ends during a step ----------------------------------------------- */

Test(reducer_ends, abort_ends_a_step_with_gradients_missing)
{
	int r;

	model = model_of(RANKS);
	open_all();
	begin_all(6);
	cr_assert_eq(cohort_group_abort(group, "enough"), COHORT_OK);
	/* The abort ends the step even if a rank continues to mark
	 * gradients. */
	cr_assert_eq(cohort_reducer_ready(ranks[RANKS - 1].reducer, 0),
	             COHORT_OK, "nothing is full");
	for (r = 3; r > 0; r--)
		cohort_reducer_ready(ranks[RANKS - 1].reducer, (size_t)r);
	cr_assert_eq(cohort_reducer_ready(ranks[RANKS - 1].reducer, 4),
	             COHORT_OK);
	cr_assert_eq(cohort_reducer_ready(ranks[RANKS - 1].reducer, 5),
	             COHORT_ABORTED, "%s", cohort_last_error());
	cr_assert_eq(cohort_reducer_finish(ranks[RANKS - 1].reducer,
	                                   COHORT_FOREVER),
	             COHORT_ABORTED);
	expect_end(COHORT_ABORTED);
	close_all();
}

/* After the abort, no rank marks the missing gradients. */
Test(reducer_ends, abort_ends_a_step_whose_owner_waits_for_helpers)
{
	struct cohort_reducer *r;

	model = model_of(RANKS);
	open_all();
	begin_all(6);
	cr_assert_eq(cohort_group_abort(group, "enough"), COHORT_OK);
	r = ranks[RANKS - 1].reducer;
	expect(cohort_reducer_progress(r, COHORT_FOREVER), COHORT_ABORTED,
	       "enough");
	expect(cohort_reducer_finish(r, COHORT_FOREVER), COHORT_ABORTED,
	       "enough");
	expect(cohort_reducer_finish(r, COHORT_FOREVER), COHORT_STATE,
	       "no step is open");
	expect_end(COHORT_ABORTED);
	close_all();
}

Test(reducer_ends, reducer_with_an_open_step_can_be_freed_after_an_abort)
{
	model = model_of(RANKS);
	open_all();
	begin_all(6);
	expect(cohort_reducer_free(ranks[0].reducer), COHORT_STATE,
	       "a step is open");
	cr_assert_eq(cohort_group_abort(group, "enough"), COHORT_OK);
	close_all();
}

/* Run a step that cannot finish, free its reducer, and return the step's first
 * error, as the worker of a failing program does. */
static int finish_unready(struct cohort_comm *comm, void *user)
{
	const struct cohort_parameter p[] = {
		{ .name = "a", .count = 1000, .type = COHORT_F32 },
		{ .name = "b", .count = 1000, .type = COHORT_F32 },
	};
	struct cohort_reducer_options options;
	struct cohort_reducer *r;
	int rc;

	(void)user;
	cohort_reducer_options_init(&options);
	options.first_bytes = options.bucket_bytes = 4000;
	ranks_must(cohort_reducer_create(comm, p, 2, &options, &r), "create");
	ranks_must(cohort_reducer_begin(r, cohort_comm_stream(comm)), "begin");
	ranks_must(cohort_reducer_ready(r, 1), "ready");
	if (cohort_comm_rank(comm) != 1)
		cohort_reducer_ready(r, 0);
	rc = cohort_reducer_finish(r, COHORT_FOREVER);
	ranks_must(cohort_reducer_free(r), "free");
	return rc;
}

Test(reducer_ends, reducer_can_be_freed_if_a_gradient_is_not_ready)
{
	struct cohort_cause cause;

	group = ranks_open(RANKS, NULL);
	cause = expect_end_of_run(group, finish_unready, NULL, COHORT_WORKER);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	expect_text(cause.text, "1 of 2 gradients are not ready: 'a'");
	expect_close(group);
}

Test(reducer_ends, abort_ends_a_step_that_exchanges_weights)
{
	int r;

	model = model_of(RANKS);
	model.options.weighted = 1;
	open_all();
	for (r = 0; r < RANKS - 1; r++)
		cr_assert_eq(cohort_reducer_join(ranks[r].reducer, 0),
		             COHORT_TIMED_OUT);
	cr_assert_eq(cohort_group_abort(group, "enough"), COHORT_OK);
	for (r = 0; r < RANKS - 1; r++)
		cr_assert_eq(cohort_reducer_join(ranks[r].reducer,
		                                 COHORT_FOREVER),
		             COHORT_ABORTED);
	close_all();
}

/* Ranks whose parameter lists differ make different calls. */
Test(reducer_ends, reducers_with_different_parameters_are_a_mismatch)
{
	static float x[RANKS][8];
	struct cohort_parameter p = { "a", NULL, 3, COHORT_F32 };
	struct cohort_reducer *r[RANKS];
	int k, rc;

	group = ranks_ahead(RANKS, NULL, comms);
	for (k = 0; k < RANKS; k++) {
		p.gradient = x[k];
		p.count = k == 1 ? 4 : 3;
		cr_assert_eq(cohort_reducer_create(comms[k], &p, 1, NULL,
		                                   &r[k]),
		             COHORT_OK);
		cr_assert_eq(cohort_reducer_begin(r[k], NULL), COHORT_OK);
	}
	for (k = 0; k < RANKS; k++)
		cohort_reducer_ready(r[k], 0);
	for (k = 0; k < RANKS; k++) {
		rc = cohort_reducer_finish(r[k], RANKS_SOON);
		cr_assert_eq(rc, COHORT_MISMATCH, "%d: %s", rc,
		             cohort_last_error());
		cr_assert_eq(cohort_reducer_free(r[k]), COHORT_OK);
	}
	expect_close(group);
}

/* ---- other threads in the communicator -------------------------------- */

struct intruder {
	sem_t is_in;
	sem_t go_out;
};

static void *intrude(void *arg)
{
	struct intruder *in = arg;
	void *native;

	ranks_must(cohort_comm_native_enter(comms[0], &native), "enter");
	sem_post(&in->is_in);
	while (sem_wait(&in->go_out))
		;
	ranks_must(cohort_comm_native_leave(comms[0]), "leave");
	return NULL;
}

/* Ready buckets wait while another thread of the program is inside the
 * communicator. */
Test(reducer_ends, ready_does_not_return_busy_while_another_thread_is_inside)
{
	struct intruder in;
	pthread_t thread;
	int r, i, left;

	sem_init(&in.is_in, 0, 0);
	sem_init(&in.go_out, 0, 0);
	model = model_of(RANKS);
	open_all();
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(cohort_reducer_begin(ranks[r].reducer, NULL),
		             COHORT_OK);
	pthread_create(&thread, NULL, intrude, &in);
	while (sem_wait(&in.is_in))
		;
	for (i = 0; i < MODEL_PARAMETERS; i++)
		cr_assert_eq(cohort_reducer_ready(ranks[0].reducer, (size_t)i),
		             COHORT_OK, "%s", cohort_last_error());
	cr_assert_eq(cohort_reducer_finish(ranks[0].reducer, MS),
	             COHORT_TIMED_OUT);
	sem_post(&in.go_out);
	pthread_join(thread, NULL);
	for (r = 1; r < RANKS; r++)
		for (i = 0; i < MODEL_PARAMETERS; i++)
			cr_assert_eq(cohort_reducer_ready(ranks[r].reducer,
			                                  (size_t)i),
			             COHORT_OK);
	for (left = RANKS; left;)
		for (left = 0, r = 0; r < RANKS; r++)
			left += cohort_reducer_finish(ranks[r].reducer, 0) ==
			        COHORT_TIMED_OUT;
	close_all();
}

/*
 * Buckets that become ready while the owner is in native calls are launched
 * later.
 */
Test(reducer_ends, reducer_calls_of_an_owner_in_native_calls_return_busy)
{
	struct cohort_reducer *r;
	int k, left, rc = COHORT_OK;
	void *native;

	model = model_of(RANKS);
	open_all();
	for (k = 0; k < RANKS; k++)
		cr_assert_eq(cohort_reducer_begin(ranks[k].reducer, NULL),
		             COHORT_OK);
	r = ranks[0].reducer;
	ranks_must(cohort_comm_native_enter(comms[0], &native), "enter");
	for (k = MODEL_PARAMETERS - 1; k >= 0; k--)
		rc = cohort_reducer_ready(r, (size_t)k);
	cr_assert_eq(rc, COHORT_BUSY);
	cr_assert_eq(cohort_reducer_progress(r, 0), COHORT_BUSY);
	cr_assert_eq(cohort_reducer_finish(r, RANKS_SOON), COHORT_BUSY);
	ranks_must(cohort_comm_native_leave(comms[0]), "leave");
	cr_assert_eq(cohort_reducer_ready(r, 0), COHORT_ALREADY);
	for (k = 0; k < MODEL_PARAMETERS * (RANKS - 1); k++)
		cr_assert_eq(
			cohort_reducer_ready(ranks[1 + k % (RANKS - 1)].reducer,
		                             (size_t)(k / (RANKS - 1))),
			COHORT_OK);
	for (left = RANKS; left;)
		for (left = 0, k = 0; k < RANKS; k++)
			left += cohort_reducer_finish(ranks[k].reducer, 0) ==
			        COHORT_TIMED_OUT;
	close_all();
}

/*
 * If NCCL fails to free a reduction operation, the operation leaks.
 * cohort_reducer_free() must free everything else.
 */
Test(reducer_ends, reducer_free_continues_if_ncclRedOpDestroy_fails)
{
	int rc;

	platform_override(failing_wrap(place_table()));
	model = model_of(RANKS);
	model.options.weighted = 1;
	open_all();
	failing_at("ncclRedOpDestroy", 1, ncclInternalError, 0);
	rc = cohort_reducer_free(ranks[0].reducer);
	cr_assert_eq(rc, COHORT_NCCL, "%d: %s", rc, cohort_last_error());
	close_all();
}
