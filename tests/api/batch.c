/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of batches, which launch several calls as one operation: all of the
 * calls, or none
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "support/expect.h"
#include "support/failing.h"
#include "support/ranks.h"

#define RANKS 3

static struct cohort_group *group;
static struct cohort_comm *c[RANKS];

static void open_all(void)
{
	group = ranks_split(RANKS, NULL, c);
}

static void close_all(void)
{
	expect_close(group);
}

TestSuite(batch, .init = open_all, .fini = close_all, .timeout = 60);

/* Open the group so that one thread can make the calls of each rank in turn. */
static void in_turn(void)
{
	close_all();
	group = ranks_ahead(RANKS, NULL, c);
}

static int sum(struct cohort_comm *comm, int32_t *x)
{
	return cohort_all_reduce(comm, x, x, 1, COHORT_I32, COHORT_SUM, NULL,
	                         NULL);
}

/* ---- the operation ---------------------------------------------------- */

Test(batch, batch_is_one_operation_with_one_ticket, .init = in_turn)
{
	int32_t a[RANKS] = { 1, 2, 3 }, b[RANKS] = { 40, 50, 60 },
		all[RANKS][3];
	const struct cohort_tensor list[RANKS][2] = {
		{ { &a[0], &a[0], 1, COHORT_I32 },
		  { &b[0], &b[0], 1, COHORT_I32 } },
		{ { &a[1], &a[1], 1, COHORT_I32 },
		  { &b[1], &b[1], 1, COHORT_I32 } },
		{ { &a[2], &a[2], 1, COHORT_I32 },
		  { &b[2], &b[2], 1, COHORT_I32 } },
	};
	uint64_t ticket[RANKS];
	int r;

	for (r = 0; r < RANKS; r++) {
		int32_t was = a[r];

		cr_assert_eq(cohort_batch_begin(c[r]), COHORT_OK);
		cr_assert_eq(cohort_all_reduce_many(c[r], list[r], 2,
		                                    COHORT_SUM, NULL, NULL),
		             COHORT_OK);
		cr_assert_eq(cohort_all_gather(c[r], &b[r], all[r], 1,
		                               COHORT_I32, NULL, NULL),
		             COHORT_OK);
		cr_assert_eq(cohort_barrier(c[r], NULL, NULL), COHORT_OK);
		cr_assert_eq(a[r], was,
		             "a call was made before the batch's end");
		cr_assert_eq(cohort_batch_end(c[r], cohort_comm_stream(c[r]),
		                              &ticket[r]),
		             COHORT_OK, "%s", cohort_last_error());
		cr_assert_eq(ticket[r], 1);
	}
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(cohort_wait(c[r], ticket[r], RANKS_SOON),
		             COHORT_OK);
	for (r = 0; r < RANKS; r++) {
		cr_assert_eq(a[r], 6);
		cr_assert_eq(b[r], 150);
	}
}

Test(batch, empty_batch_is_done_in_stream_order, .init = in_turn)
{
	uint64_t ticket;

	cr_assert_eq(cohort_batch_begin(c[0]), COHORT_OK);
	cr_assert_eq(cohort_batch_end(c[0], NULL, &ticket), COHORT_OK);
	cr_assert_eq(cohort_wait(c[0], ticket, RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_barrier(c[1], NULL, NULL), COHORT_OK);
	cr_assert_eq(cohort_barrier(c[0], NULL, NULL), COHORT_OK);
	cr_assert_eq(cohort_barrier(c[2], NULL, NULL), COHORT_OK);
	cr_assert_eq(cohort_synchronize(c[1], RANKS_SOON), COHORT_OK);
}

static int many_sums(struct cohort_comm *comm, void *user)
{
	static int32_t x[RANKS][700];
	int i, k, rank = cohort_comm_rank(comm), rc = COHORT_OK;

	(void)user;
	for (k = 0; k < 3 && rc == COHORT_OK; k++) {
		rc = cohort_batch_begin(comm);
		for (i = 0; i < 700 && rc == COHORT_OK; i++) {
			x[rank][i] = i;
			rc = sum(comm, &x[rank][i]);
		}
		if (rc == COHORT_OK)
			rc = cohort_batch_end(comm, cohort_comm_stream(comm),
			                      NULL);
		if (rc == COHORT_OK)
			rc = cohort_synchronize(comm, RANKS_SOON);
		for (i = 0; i < 700 && rc == COHORT_OK; i++)
			rc = x[rank][i] == RANKS * i ? COHORT_OK : 1;
	}
	return rc;
}

Test(batch, batch_takes_hundreds_of_calls)
{
	expect_run_in(group, many_sums, NULL);
}

/* ---- refused calls ------------------------------------------------------ */

static void barrier_of_all(void)
{
	int r;

	for (r = 0; r < RANKS; r++)
		cr_assert_eq(cohort_barrier(c[r], NULL, NULL), COHORT_OK, "%s",
		             cohort_last_error());
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(cohort_synchronize(c[r], RANKS_SOON), COHORT_OK);
}

Test(batch, batch_end_refuses_all_calls_if_one_was_bad, .init = in_turn)
{
	int32_t x = 7;
	uint64_t ticket = 77;

	cr_assert_eq(cohort_batch_begin(c[0]), COHORT_OK);
	cr_assert_eq(sum(c[0], &x), COHORT_OK);
	expect(cohort_broadcast(c[0], &x, &x, 1, 99, 0, NULL, NULL),
	       COHORT_INVALID, "broadcast: type is 99");
	expect(cohort_broadcast(c[0], &x, &x, 1, COHORT_I32, 3, NULL, NULL),
	       COHORT_INVALID, "root is 3");
	cr_assert_eq(sum(c[0], &x), COHORT_OK);
	expect(cohort_batch_end(c[0], NULL, &ticket), COHORT_INVALID,
	       "batch: call 2: broadcast: type is 99");
	cr_assert_eq(ticket, 77);
	expect(cohort_batch_end(c[0], NULL, NULL), COHORT_STATE, "no batch");
	/* The refused batch does not count as a collective of rank 0. */
	barrier_of_all();
	cr_assert_eq(x, 7);
}

Test(batch, batch_end_refuses_a_call_with_its_own_stream, .init = in_turn)
{
	int32_t x = 7;
	void *stream = cohort_comm_stream(c[0]);

	cr_assert_eq(cohort_batch_begin(c[0]), COHORT_OK);
	cr_assert_eq(cohort_all_reduce(c[0], &x, &x, 1, COHORT_I32, COHORT_SUM,
	                               stream, NULL),
	             COHORT_OK);
	expect(cohort_batch_end(c[0], NULL, NULL), COHORT_INVALID,
	       "batch: call 1: all_reduce: stream is 0x");
	barrier_of_all();
}

Test(batch, call_in_a_batch_cannot_have_its_own_ticket, .init = in_turn)
{
	int32_t x = 7;
	uint64_t ticket = 77;

	cr_assert_eq(cohort_batch_begin(c[0]), COHORT_OK);
	expect(cohort_all_reduce(c[0], &x, &x, 1, COHORT_I32, COHORT_SUM, NULL,
	                         &ticket),
	       COHORT_INVALID, "ticket is not NULL");
	cr_assert_eq(ticket, 77);
	expect(cohort_wait(c[0], 0, RANKS_SOON), COHORT_INVALID,
	       "ticket is 0: a batch is open on rank 0");
	expect(cohort_batch_end(c[0], NULL, NULL), COHORT_INVALID,
	       "batch: call 1: all_reduce: ticket");
	barrier_of_all();
}

Test(batch, copies_are_refused_in_a_batch, .init = in_turn)
{
	int32_t x = 7, y = 8;

	cr_assert_eq(cohort_batch_begin(c[0]), COHORT_OK);
	expect(cohort_copy(c[0], &x, &y, sizeof(x), NULL), COHORT_STATE,
	       "rank 0 has an open batch");
	expect(cohort_batch_end(c[0], NULL, NULL), COHORT_STATE,
	       "batch: call 1: copy");
	cr_assert_eq(cohort_copy(c[0], &x, &y, sizeof(x), NULL), COHORT_OK);
	cr_assert_eq(cohort_synchronize(c[0], RANKS_SOON), COHORT_OK);
	cr_assert_eq(x, 8);
	barrier_of_all();
}

Test(batch, batch_cannot_be_nested_or_ended_twice)
{
	expect(cohort_batch_end(c[0], NULL, NULL), COHORT_STATE,
	       "no batch is open on rank 0");
	cr_assert_eq(cohort_batch_begin(c[0]), COHORT_OK);
	expect(cohort_batch_begin(c[0]), COHORT_STATE,
	       "a batch is open on rank 0");
	/* Other ranks can open a batch while rank 0 has one. */
	cr_assert_eq(cohort_batch_begin(c[1]), COHORT_OK);
	cr_assert_eq(cohort_batch_end(c[1], NULL, NULL), COHORT_OK);
	cr_assert_eq(cohort_batch_end(c[0], NULL, NULL), COHORT_OK);
	expect(cohort_batch_begin(NULL), COHORT_INVALID, "comm is NULL");
	expect(cohort_batch_end(NULL, NULL, NULL), COHORT_INVALID,
	       "comm is NULL");
}

static void *intrude(void *arg)
{
	int32_t x = 7;

	(void)arg;
	expect(cohort_batch_begin(c[0]), COHORT_OWNER, "another thread");
	expect(sum(c[0], &x), COHORT_OWNER, "another thread has a batch");
	expect(cohort_batch_end(c[0], NULL, NULL), COHORT_OWNER,
	       "another thread");
	return NULL;
}

Test(batch, only_the_thread_that_began_a_batch_may_use_it, .init = in_turn)
{
	pthread_t thread;

	cr_assert_eq(cohort_batch_begin(c[0]), COHORT_OK);
	pthread_create(&thread, NULL, intrude, NULL);
	pthread_join(thread, NULL);
	cr_assert_eq(cohort_barrier(c[0], NULL, NULL), COHORT_OK);
	cr_assert_eq(cohort_batch_end(c[0], NULL, NULL), COHORT_OK);
	cr_assert_eq(cohort_barrier(c[1], NULL, NULL), COHORT_OK);
	cr_assert_eq(cohort_barrier(c[2], NULL, NULL), COHORT_OK);
	cr_assert_eq(cohort_synchronize(c[0], RANKS_SOON), COHORT_OK);
}

static pthread_barrier_t step;

static void *bind_for_a_while(void *arg)
{
	(void)arg;
	cr_assert_eq(cohort_comm_bind(c[0]), COHORT_OK);
	pthread_barrier_wait(&step);
	pthread_barrier_wait(&step);
	cr_assert_eq(cohort_comm_unbind(c[0]), COHORT_OK);
	return NULL;
}

Test(batch, batch_stays_open_if_its_end_returns_owner, .init = in_turn)
{
	int32_t x[RANKS] = { 1, 2, 3 };
	pthread_t thread;
	int r;

	pthread_barrier_init(&step, NULL, 2);
	cr_assert_eq(cohort_batch_begin(c[0]), COHORT_OK);
	cr_assert_eq(sum(c[0], &x[0]), COHORT_OK);
	pthread_create(&thread, NULL, bind_for_a_while, NULL);
	pthread_barrier_wait(&step);
	expect(cohort_batch_end(c[0], NULL, NULL), COHORT_OWNER, "is bound");
	pthread_barrier_wait(&step);
	pthread_join(thread, NULL);
	cr_assert_eq(cohort_batch_end(c[0], NULL, NULL), COHORT_OK, "%s",
	             cohort_last_error());
	cr_assert_eq(sum(c[1], &x[1]), COHORT_OK);
	cr_assert_eq(sum(c[2], &x[2]), COHORT_OK);
	for (r = 0; r < RANKS; r++) {
		cr_assert_eq(cohort_synchronize(c[r], RANKS_SOON), COHORT_OK);
		cr_assert_eq(x[r], 6);
	}
}

/* ---- ends of ranks and groups ----------------------------------------- */

Test(batch, batch_end_reports_an_abort)
{
	int32_t x = 7;
	uint64_t ticket = 77;

	cr_assert_eq(cohort_batch_begin(c[0]), COHORT_OK);
	cr_assert_eq(sum(c[0], &x), COHORT_OK);
	cohort_group_abort(group, "enough");
	cr_assert_eq(sum(c[0], &x), COHORT_OK);
	expect(cohort_batch_end(c[0], NULL, &ticket), COHORT_ABORTED, "enough");
	cr_assert_eq(ticket, 77);
	cr_assert_eq(x, 7);
	expect(cohort_batch_begin(c[0]), COHORT_ABORTED, "enough");
	expect(cohort_batch_end(c[0], NULL, NULL), COHORT_STATE, "no batch");
}

Test(batch, close_discards_an_open_batch)
{
	int32_t x = 7;

	cr_assert_eq(cohort_batch_begin(c[0]), COHORT_OK);
	cr_assert_eq(sum(c[0], &x), COHORT_OK);
	cr_assert_eq(cohort_comm_close(c[0]), COHORT_OK);
	expect(cohort_batch_end(c[0], NULL, NULL), COHORT_STATE, "no batch");
	/* The group's close also discards an open batch. */
	cr_assert_eq(cohort_batch_begin(c[1]), COHORT_OK);
	cr_assert_eq(sum(c[1], &x), COHORT_OK);
}

static int leave_open(struct cohort_comm *comm, void *user)
{
	static int32_t x = 7;

	int rc = cohort_batch_begin(comm);

	if (rc == COHORT_OK)
		rc = sum(comm, &x);
	if (user && cohort_comm_rank(comm) == 1)
		pthread_exit(NULL);
	return rc;
}

static int barrier_main(struct cohort_comm *comm, void *user)
{
	(void)user;
	ranks_must(cohort_barrier(comm, NULL, NULL), "barrier");
	return cohort_synchronize(comm, RANKS_SOON);
}

Test(batch, open_batch_is_discarded_if_its_worker_returns)
{
	int exits = 1;

	expect_run_in(group, leave_open, NULL);
	expect_run_in(group, barrier_main, NULL);
	expect_end_of_run(group, leave_open, &exits, COHORT_THREAD_EXITED);
}

Test(batch, run_is_refused_while_a_rank_has_an_open_batch)
{
	cr_assert_eq(cohort_batch_begin(c[1]), COHORT_OK);
	expect(cohort_group_run(group, barrier_main, NULL, NULL), COHORT_STATE,
	       "rank 1 is in an open batch");
	cr_assert_eq(cohort_batch_end(c[1], NULL, NULL), COHORT_OK);
	expect_run_in(group, barrier_main, NULL);
}

/* ---- differences ------------------------------------------------------ */

/* Make rank 1's batch differ from the other ranks' batches. *@user selects
 * how. */
static int differing(struct cohort_comm *comm, void *user)
{
	static int32_t x[RANKS][2];
	int differ = *(const int *)user, rank = cohort_comm_rank(comm);
	bool odd = rank == 1;
	uint64_t ticket;
	int rc = COHORT_OK;

	if (!odd || differ != 1)
		rc = cohort_batch_begin(comm);
	if (rc == COHORT_OK && !(odd && differ == 2))
		rc = sum(comm, &x[rank][0]);
	if (rc == COHORT_OK)
		rc = cohort_all_reduce(comm, x[rank], x[rank],
		                       odd && differ == 3 ? 1 : 2, COHORT_I32,
		                       COHORT_MAX, NULL, NULL);
	if (rc == COHORT_OK && odd && differ == 2)
		/* make the calls in the other order */
		rc = sum(comm, &x[rank][0]);
	if (rc == COHORT_OK && (!odd || differ != 1))
		rc = cohort_batch_end(comm, NULL, &ticket);
	return rc == COHORT_OK ? cohort_synchronize(comm, RANKS_SOON) : rc;
}

static void differ(int how, const char *text)
{
	struct cohort_cause cause;

	cause = expect_end_of_run(group, differing, &how, COHORT_MISMATCH);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	expect_text(cause.text, text);
	expect_text(cause.text,
	            "ranks 0, 2 call batch of 2 calls, the first all_reduce "
	            "of 1 int32, sum");
}

Test(batch, batch_and_single_call_are_a_mismatch)
{
	differ(1, "rank 1 calls all_reduce of 1 int32, sum");
}

Test(batch, batches_in_different_orders_are_a_mismatch)
{
	differ(2, "rank 1 calls batch of 2 calls, the first all_reduce of 2 "
	          "int32, max");
}

Test(batch, batches_with_one_different_call_are_a_mismatch)
{
	differ(3, "rank 1 calls batch of 2 calls, the first all_reduce of 1 "
	          "int32, sum");
}

/* ---- native failures -------------------------------------------------- */

TestSuite(batch_failure, .timeout = 60);

static int three_sums(struct cohort_comm *comm, int32_t *x)
{
	int i, rc = cohort_batch_begin(comm);

	for (i = 0; i < 3 && rc == COHORT_OK; i++)
		rc = sum(comm, &x[i]);
	return rc == COHORT_OK ? cohort_batch_end(comm, NULL, NULL) : rc;
}

/*
 * Make the @n-th call of @function on rank 0 fail. None of the batch's calls
 * may be made.
 */
static void fail_at(const char *function, unsigned long n, const char *says)
{
	const struct platform *real;
	struct cohort_comm *comm[2];
	struct cohort_cause cause;
	int32_t x[2][3] = { { 1, 2, 3 }, { 4, 5, 6 } };
	const int32_t was[2][3] = { { 1, 2, 3 }, { 4, 5, 6 } };
	struct cohort_group *g;

	real = place_table();
	platform_override(failing_wrap(real));
	g = ranks_ahead(2, NULL, comm);
	cr_assert_eq(three_sums(comm[1], x[1]), COHORT_OK);
	failing_at(function, n, ncclSystemError, cudaErrorLaunchFailure);
	cr_assert_neq(three_sums(comm[0], x[0]), COHORT_OK);
	cr_assert_not_null(failing_fired());
	cohort_group_cause(g, &cause);
	cr_assert_eq(cause.rank, 0, "%s", cause.text);
	cr_assert_eq(cause.kind, cause.cuda ? COHORT_VERDICT_DEVICE_LOST
	                                    : COHORT_VERDICT_NATIVE_ERROR);
	expect_text(cause.text, says);
	cr_assert_eq(cohort_synchronize(comm[1], RANKS_SOON), cause.status);
	cr_assert_arr_eq(x[0], was[0], sizeof(x[0]),
	                 "a call of the batch was made");
	/* On a GPU, a collective that is cut short may have written to its
	 * buffers. */
	if (!place_is_real() || !place_is_nvidia())
		cr_assert_arr_eq(x[1], was[1], sizeof(x[1]));
	expect_close(g);
}

Test(batch_failure, batch_makes_no_calls_if_one_of_them_fails)
{
	fail_at("ncclAllReduce", 2, "rank 0, batch, ticket 1: ncclAllReduce");
}

Test(batch_failure, batch_makes_no_calls_if_ncclGroupEnd_fails)
{
	fail_at("ncclGroupEnd", 1, "rank 0, batch, ticket 1: ncclGroupEnd");
}

Test(batch_failure, batch_makes_no_calls_if_ncclGroupStart_fails)
{
	fail_at("ncclGroupStart", 1, "rank 0, batch, ticket 1: ncclGroupStart");
}
