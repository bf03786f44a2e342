/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Several groups on the same devices, at the same time
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/backoff.h"
#include "support/ranks.h"

#define RANKS 2
#define GROUPS 3

TestSuite(neighbours, .timeout = 60);

static int many_sums(struct cohort_comm *c, void *user)
{
	int32_t value;
	int i, rc = COHORT_OK;

	(void)user;
	for (i = 0; i < 50 && rc == COHORT_OK; i++) {
		value = i;
		rc = ranks_sum_wait(c, &value);
		if (rc == COHORT_OK && value != RANKS * i)
			rc = 1;
	}
	return rc;
}

static void *run(void *group)
{
	ranks_must(cohort_group_run(group, many_sums, NULL, NULL), "run");
	return NULL;
}

Test(neighbours, work_side_by_side)
{
	struct cohort_group *groups[GROUPS];
	pthread_t threads[GROUPS];
	int i;

	for (i = 0; i < GROUPS; i++)
		groups[i] = ranks_open(RANKS, NULL);
	for (i = 0; i < GROUPS; i++)
		pthread_create(&threads[i], NULL, run, groups[i]);
	for (i = 0; i < GROUPS; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < GROUPS; i++)
		cr_assert_eq(cohort_group_close(groups[i]), COHORT_OK);
}

Test(neighbours, end_independently)
{
	struct cohort_comm *a[RANKS], *b[RANKS];
	struct cohort_group *first = ranks_ahead(RANKS, NULL, a);
	struct cohort_group *second = ranks_ahead(RANKS, NULL, b);
	int32_t x = 1, y = 2, z = 3;
	uint64_t hung = ranks_sum(a[0], &x), t;

	cohort_group_abort(first, "only this");
	cr_assert_eq(cohort_wait(a[0], hung, RANKS_SOON), COHORT_ABORTED);
	ranks_sum(b[0], &y);
	t = ranks_sum(b[1], &z);
	cr_assert_eq(cohort_wait(b[1], t, RANKS_SOON), COHORT_OK);
	cr_assert_eq(z, 5);
	cr_assert_eq(cohort_group_close(second), COHORT_OK);
	cr_assert_eq(cohort_group_close(first), COHORT_OK);
}

/* ---- which group frees first ------------------------------------------ */

static const struct platform *real;
static struct platform table;

static _Thread_local bool has_aborted; /* this thread is a reaper */
static atomic_bool is_held;            /* the next reaper that aborts waits, */
static atomic_bool is_waiting;
static atomic_bool may_go; /* until it may go on */
static atomic_int freed;   /* reapers that have begun to free */

static ncclResult_t comm_abort(ncclComm_t comm)
{
	struct backoff b = BACKOFF;

	has_aborted = true;
	if (atomic_exchange(&is_held, false)) {
		is_waiting = true;
		while (!may_go)
			backoff_wait(&b, UINT64_MAX);
	}
	return real->ncclCommAbort(comm);
}

static ncclResult_t group_end(void)
{
	if (has_aborted)
		freed++;
	return real->ncclGroupEnd();
}

static void install(void)
{
	real = place_table();
	table = *real;
	table.ncclCommAbort = comm_abort;
	table.ncclGroupEnd = group_end;
	platform_override(&table);
}

static void await(const atomic_bool *what)
{
	struct backoff b = BACKOFF;

	while (!*what)
		backoff_wait(&b, UINT64_MAX);
}

/*
 * One group is about to raise its flags.  The other, whose flags are up and
 * which no thread is inside, answers, but does not free before that.
 */
Test(neighbours, raise_all_flags_before_any_aborted_one_is_freed)
{
	struct cohort_group_options o;
	struct cohort_comm *a[RANKS], *b[RANKS];
	struct cohort_group *first, *second;
	int32_t y = 2;
	uint64_t hung;
	int i;

	install();
	/* The groups that come and go may take long. */
	cohort_group_options_init(&o);
	o.deadlines.abort_ns = RANKS_SOON;
	first = ranks_ahead(RANKS, &o, a);
	second = ranks_ahead(RANKS, &o, b);
	hung = ranks_sum(b[0], &y);
	is_held = true;
	cohort_group_abort(first, "first");
	await(&is_waiting);
	cohort_group_abort(second, "second");
	cr_assert_eq(cohort_wait(b[0], hung, RANKS_SOON), COHORT_ABORTED);
	/*
	 * Long enough for the other group to free, if it did not wait for this
	 * one.
	 */
	for (i = 0; i < 5; i++)
		cr_assert_eq(cohort_group_close(ranks_open(RANKS, NULL)),
		             COHORT_OK);
	cr_assert_eq(freed, 0);
	may_go = true;
	cr_assert_eq(cohort_group_close(second), COHORT_OK);
	cr_assert_eq(cohort_group_close(first), COHORT_OK);
	cr_assert_eq(freed, 2);
}

Test(neighbours, cannot_hold_others_up_for_ever_by_flags_they_do_not_raise)
{
	struct cohort_group_options o;
	struct cohort_comm *a[RANKS], *b[RANKS];
	struct cohort_group *first, *second;

	install();
	cohort_group_options_init(&o);
	o.deadlines.abort_ns = place_patience_ns(200 * 1000 * 1000);
	first = ranks_split(RANKS, &o, a);
	second = ranks_split(RANKS, &o, b);
	is_held = true;
	cohort_group_abort(first, "first");
	await(&is_waiting);
	cohort_group_abort(second, "second");
	cr_assert_eq(cohort_group_close(first), COHORT_WEDGED);
	cr_assert_eq(cohort_group_close(second), COHORT_OK, "%s",
	             cohort_last_error());
	may_go = true;
}

/* ---- a neighbour's kernel holds up the end ----------------------------- */

static atomic_bool neighbour_is_done;
static atomic_int destroyed; /* groups that have been freed */
static _Thread_local bool has_destroyed;

static ncclResult_t note_destroy(ncclComm_t comm)
{
	has_destroyed = true;
	return real->ncclCommDestroy(comm);
}

/* As cudaFree() waits for all kernels of its device. */
static ncclResult_t free_after_neighbour(void)
{
	const bool is_of_destroy = has_destroyed;
	ncclResult_t result;

	has_destroyed = false;
	if (is_of_destroy)
		await(&neighbour_is_done);
	result = real->ncclGroupEnd();
	destroyed += is_of_destroy;
	return result;
}

Test(neighbours, close_in_the_background_beside_one_that_runs)
{
	struct cohort_comm *a[RANKS], *b[RANKS];
	struct cohort_group *first, *second;
	struct cohort_group_options o;
	struct backoff wait = BACKOFF;
	int32_t x = 1, y = 2;
	uint64_t t;

	install();
	table.ncclCommDestroy = note_destroy;
	table.ncclGroupEnd = free_after_neighbour;
	cohort_group_options_init(&o);
	o.deadlines.abort_ns = 200 * 1000 * 1000;
	first = ranks_ahead(RANKS, &o, a);
	second = ranks_ahead(RANKS, NULL, b);
	ranks_sum(b[0], &x);
	cr_assert_eq(cohort_group_close(first), COHORT_OK, "%s",
	             cohort_last_error());
	cr_assert_eq(destroyed, 0);
	t = ranks_sum(b[1], &y);
	cr_assert_eq(cohort_wait(b[1], t, RANKS_SOON), COHORT_OK);
	cr_assert_eq(y, 3);
	neighbour_is_done = true;
	while (!destroyed)
		backoff_wait(&wait, UINT64_MAX);
	cr_assert_eq(cohort_group_close(second), COHORT_OK);
}

/* ---- no rank alone ----------------------------------------------------- */

static atomic_int aborted, late_calls;

static ncclResult_t count_abort(ncclComm_t comm)
{
	aborted++;
	has_aborted = true;
	return real->ncclCommAbort(comm);
}

/* NCCL would free nothing for one rank, and the other would finish with wrong
 * data. */
static ncclResult_t end_with_all(void)
{
	if (has_aborted)
		cr_assert_eq(aborted, RANKS, "a rank is aborted alone");
	return real->ncclGroupEnd();
}

static ncclResult_t count_call(const void *send, void *recv, size_t count,
                               ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
	late_calls += aborted > 0;
	return real->ncclAllReduce(send, recv, count, type, op, comm, stream);
}

Test(neighbours, of_a_rank_that_is_aborted_are_aborted_with_it)
{
	struct cohort_comm *c[RANKS];
	struct cohort_group *group;
	int32_t x = 1, y = 2;
	uint64_t t;

	install();
	table.ncclCommAbort = count_abort;
	table.ncclGroupEnd = end_with_all;
	table.ncclAllReduce = count_call;
	group = ranks_ahead(RANKS, NULL, c);
	t = ranks_sum(c[0], &x);
	cohort_comm_fail(c[0], 7, "rank 0 has failed");
	cr_assert_neq(cohort_wait(c[0], t, RANKS_SOON), COHORT_OK);
	cr_assert_eq(aborted, RANKS);
	/* The other comes late. */
	cr_assert_neq(cohort_all_reduce(c[1], &y, &y, 1, COHORT_I32, COHORT_SUM,
	                                cohort_comm_stream(c[1]), NULL),
	              COHORT_OK);
	cr_assert_eq(late_calls, 0);
	cr_assert_eq(y, 2);
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}
