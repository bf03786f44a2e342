/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of several groups on the same devices at the same time
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>

#include "support/clock.h"
#include "support/expect.h"
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

Test(neighbours, groups_on_the_same_devices_work_side_by_side)
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
		expect_close(groups[i]);
}

Test(neighbours, groups_on_the_same_devices_end_independently)
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
	expect_close(second);
	expect_close(first);
}

/* ---- the order of frees ----------------------------------------------- */

static const struct platform *real;
static struct platform table;

/* this thread is a reaper that has aborted its group */
static _Thread_local bool has_aborted;
/* makes the next reaper wait when it aborts */
static atomic_bool is_held;
static atomic_bool is_waiting;
static atomic_bool may_go; /* lets the waiting reaper continue */
static atomic_int freed;   /* number of reapers that have started to free */

static ncclResult_t comm_abort(ncclComm_t comm)
{
	has_aborted = true;
	if (atomic_exchange(&is_held, false)) {
		is_waiting = true;
		while (!may_go)
			test_nap();
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
	while (!*what)
		test_nap();
}

/*
 * The first group is about to set its abort flags. The second group has set its
 * flags, and no thread is inside it. Calls of the second group must return, but
 * its memory must not be freed before the first group has set its flags.
 */
Test(neighbours, aborted_group_is_freed_after_its_neighbors_abort_flags_rise)
{
	struct cohort_group_options o;
	struct cohort_comm *a[RANKS], *b[RANKS];
	struct cohort_group *first, *second;
	int32_t y = 2;
	uint64_t hung;
	int i;

	install();
	/* Use long deadlines, because opening and closing the groups below can
	 * take long. */
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
	 * Open and close other groups, which gives the second group enough time
	 * to free its memory by mistake.
	 */
	for (i = 0; i < 5; i++)
		expect_close(ranks_open(RANKS, NULL));
	cr_assert_eq(freed, 0);
	may_go = true;
	expect_close(second);
	expect_close(first);
	cr_assert_eq(freed, 2);
}

Test(neighbours, group_whose_abort_hangs_does_not_block_its_neighbors)
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
	expect_close(second);
	may_go = true;
}

/* ---- a neighbour's kernel delays the end ------------------------------- */

static atomic_bool neighbour_is_done;
static atomic_int destroyed; /* number of groups whose memory was freed */
static _Thread_local bool has_destroyed;

static ncclResult_t note_destroy(ncclComm_t comm)
{
	has_destroyed = true;
	return real->ncclCommDestroy(comm);
}

/* Wait for the neighbor's kernel, as cudaFree() waits for all kernels of its
 * device. */
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

Test(neighbours, close_does_not_wait_for_kernels_of_a_neighbor)
{
	struct cohort_comm *a[RANKS], *b[RANKS];
	struct cohort_group *first, *second;
	struct cohort_group_options o;
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
	expect_close(first);
	cr_assert_eq(destroyed, 0);
	t = ranks_sum(b[1], &y);
	cr_assert_eq(cohort_wait(b[1], t, RANKS_SOON), COHORT_OK);
	cr_assert_eq(y, 3);
	neighbour_is_done = true;
	while (!destroyed)
		test_nap();
	expect_close(second);
}

/* ---- aborting all ranks together --------------------------------------- */

static atomic_int aborted, late_calls;

static ncclResult_t count_abort(ncclComm_t comm)
{
	aborted++;
	has_aborted = true;
	return real->ncclCommAbort(comm);
}

/*
 * Check that both ranks are aborted in one native group. If one rank were
 * aborted alone, NCCL would free nothing, and the other rank would finish with
 * wrong data.
 */
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

Test(neighbours, all_ranks_of_a_group_are_aborted_together)
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
	/* Rank 1 calls after the abort, and must get an error. */
	cr_assert_neq(cohort_all_reduce(c[1], &y, &y, 1, COHORT_I32, COHORT_SUM,
	                                cohort_comm_stream(c[1]), NULL),
	              COHORT_OK);
	cr_assert_eq(late_calls, 0);
	cr_assert_eq(y, 2);
	expect_close(group);
}
