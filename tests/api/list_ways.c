/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the ways to launch lists: the native calls of each way, and its
 * behavior if a call fails or a rank never arrives
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support/expect.h"
#include "support/failing.h"
#include "support/ranks.h"

#define TENSORS 100
#define EACH 1000

static const struct platform *table;
static struct cohort_group_options o;
static struct cohort_group *group;
static struct cohort_comm *c[2];
static float data[2][TENSORS][EACH];
static struct cohort_tensor list[2][TENSORS];

static void fill(void)
{
	int r, i;

	for (r = 0; r < 2; r++)
		for (i = 0; i < TENSORS; i++) {
			data[r][i][0] = (float)(i + r);
			list[r][i] =
				(struct cohort_tensor){ data[r][i], data[r][i],
				                        EACH, COHORT_F32 };
		}
}

static void set_up(void)
{
	table = failing_wrap(place_table());
	platform_override(table);
	cohort_group_options_init(&o);
	fill();
}

TestSuite(list_ways, .init = set_up, .timeout = 60);

static const struct list_limits small_groups = { .group_most = 30,
	                                         .flat_from = SIZE_MAX };
static const struct list_limits packing = { .group_most = SIZE_MAX,
	                                    .flat_below = 100 * sizeof(float),
	                                    .flat_from = 32,
	                                    .flat_most = 1 << 20 };

static void open_all(void)
{
	group = ranks_split(2, &o, c);
}

/* Open the group so that one thread can make the calls of each rank in turn. */
static void open_ahead(void)
{
	group = ranks_ahead(2, &o, c);
}

static int reduce(int rank, size_t n, void *stream, uint64_t *ticket)
{
	return cohort_all_reduce_many(c[rank], list[rank], n, COHORT_SUM,
	                              stream, ticket);
}

/* A rank's call of a list, on a new thread */
struct part {
	pthread_t thread;
	int rank, rc;
	size_t n;
};

static void *reduce_part(void *arg)
{
	struct part *part = arg;
	struct cohort_comm *comm = c[part->rank];
	uint64_t ticket;

	part->rc =
		reduce(part->rank, part->n, cohort_comm_stream(comm), &ticket);
	if (part->rc == COHORT_OK)
		part->rc = cohort_wait(comm, ticket, RANKS_SOON);
	return NULL;
}

/* Call the list on both ranks, each on a new thread. */
static void reduce_both(size_t n)
{
	struct part parts[2];
	int r;

	for (r = 0; r < 2; r++) {
		parts[r] = (struct part){ .rank = r, .n = n };
		pthread_create(&parts[r].thread, NULL, reduce_part, &parts[r]);
	}
	for (r = 0; r < 2; r++) {
		pthread_join(parts[r].thread, NULL);
		cr_assert_eq(parts[r].rc, COHORT_OK, "%s",
		             cohort_status_text(parts[r].rc));
	}
}

/* Call the first @n tensors as a list on both ranks, and check that the other
 * tensors are unchanged. */
static void reduce_all(size_t n)
{
	size_t i;
	int r;

	reduce_both(n);
	for (r = 0; r < 2; r++)
		for (i = 0; i < TENSORS; i++) {
			float is = (float)(i < n ? 2 * i + 1 : i + (size_t)r);

			cr_assert_eq(data[r][i][0], is, "%g, not %g",
			             data[r][i][0], is);
			data[r][i][0] = (float)(i + (size_t)r);
		}
}

/*
 * Check the number of native calls, on both ranks together, that reduce_all()
 * makes for @n tensors.
 */
static void comes_to(size_t n, unsigned long groups, unsigned long reductions,
                     unsigned long copies)
{
	unsigned long before[] = { failing_calls("ncclGroupStart"),
		                   failing_calls("ncclAllReduce"),
		                   failing_calls("cudaMemcpyAsync") };

	reduce_all(n);
	cr_assert_eq(failing_calls("ncclGroupStart") - before[0], 2 * groups);
	cr_assert_eq(failing_calls("ncclAllReduce") - before[1],
	             2 * reductions);
	cr_assert_eq(failing_calls("cudaMemcpyAsync") - before[2], 2 * copies);
}

Test(list_ways, lists_are_launched_in_the_platforms_way_by_default)
{
	open_all();
	if (table->kind == COHORT_PLATFORM_HOST) {
		comes_to(TENSORS, 1, TENSORS, 0);
	} else {
		/* A list of many small tensors is packed; a shorter list is
		 * not. */
		comes_to(TENSORS, 0, 1, 2 * TENSORS);
		comes_to(31, 1, 31, 0);
	}
	expect_close(group);
}

Test(list_ways, list_can_be_launched_in_one_native_group)
{
	o.many = COHORT_MANY_GROUP;
	open_all();
	comes_to(TENSORS, 1, TENSORS, 0);
	expect_close(group);
}

Test(list_ways, list_can_be_launched_in_native_groups_of_limited_size)
{
	failing_limit_lists(&small_groups);
	open_all();
	comes_to(TENSORS, 4, TENSORS, 0);
	comes_to(90, 3, 90, 0);
	comes_to(30, 1, 30, 0);
	expect_close(group);
}

Test(list_ways, list_can_be_packed_by_type)
{
	int i;

	o.many = COHORT_MANY_FLAT;
	open_all();
	comes_to(TENSORS, 0, 1, 2 * TENSORS);
	for (i = 0; i < 10; i++) {
		list[0][i].type = list[1][i].type = COHORT_U32;
		list[0][i + 50].count = list[1][i + 50].count = 0;
	}
	/*
	 * Leave out the first 10 tensors. Their data are still small floats, so
	 * sums would be wrong if the bits are added as integers.
	 */
	for (i = 0; i < 10; i++)
		list[0][i].count = list[1][i].count = 0;
	reduce_both(TENSORS);
	cr_assert_eq(data[0][49][0], 99);
	cr_assert_eq(data[0][50][0], 50);
	expect_close(group);
}

Test(list_ways, list_packing_includes_only_tensors_below_a_size)
{
	int r, i;

	failing_limit_lists(&packing);
	open_all();
	for (r = 0; r < 2; r++)
		for (i = 0; i < 40; i++)
			list[r][i].count = 99;
	comes_to(TENSORS, 1, TENSORS - 40 + 1, 80);
	/* Leave too few small tensors for packing. */
	for (r = 0; r < 2; r++)
		for (i = 10; i < 40; i++)
			list[r][i].count = EACH;
	comes_to(TENSORS, 1, TENSORS, 0);
	expect_close(group);
}

/* Lists are called on two streams in turn. Both streams use one buffer, which
 * grows. */
Test(list_ways, lists_can_be_packed_on_any_stream)
{
	unsigned long before;
	cudaStream_t other[2];
	int i, r;

	place_need_no_sync("one thread packs the lists of both ranks, and the "
	                   "memory of one waits for the other's launch");
	o.many = COHORT_MANY_FLAT;
	open_ahead();
	for (r = 0; r < 2; r++) {
		cr_assert_eq(table->cudaSetDevice(cohort_comm_device(c[r])),
		             cudaSuccess);
		cr_assert_eq(table->cudaStreamCreateWithFlags(
				     &other[r], cudaStreamNonBlocking),
		             cudaSuccess);
	}
	before = failing_calls("cudaMalloc");
	for (i = 0; i < 20; i++)
		for (r = 0; r < 2; r++)
			cr_assert_eq(reduce(r, 10 + (size_t)i * 3,
			                    i % 2 ? other[r]
			                          : cohort_comm_stream(c[r]),
			                    NULL),
			             COHORT_OK, "%s", cohort_last_error());
	for (r = 0; r < 2; r++)
		cr_assert_eq(cohort_synchronize(c[r], RANKS_SOON), COHORT_OK);
	cr_assert_eq(failing_calls("cudaMalloc") - before, 2);
	/* Both ranks must have equal sums. */
	for (i = 0; i < TENSORS; i++)
		cr_assert(i >= 67 || data[0][i][0] == data[1][i][0]);
	for (r = 0; r < 2; r++)
		table->cudaStreamDestroy(other[r]);
	expect_close(group);
}

Test(list_ways, list_in_place_on_one_rank_launches_nothing)
{
	static const int ways[] = { COHORT_MANY_AUTO, COHORT_MANY_FLAT };
	unsigned long before;
	float *out = data[1][0];
	size_t i;

	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		o.many = ways[i];
		group = ranks_split(1, &o, c);
		before = failing_calls("ncclAllReduce");
		cr_assert_eq(reduce(0, TENSORS, NULL, NULL), COHORT_OK);
		cr_assert_eq(failing_calls("ncclAllReduce"), before);
		list[0][7].recv = out;
		cr_assert_eq(reduce(0, TENSORS, NULL, NULL), COHORT_OK);
		cr_assert_eq(failing_calls("ncclAllReduce"), before + 1);
		cr_assert_eq(cohort_synchronize(c[0], RANKS_SOON), COHORT_OK);
		cr_assert_eq(*out, 7);
		fill();
		expect_close(group);
	}
}

Test(list_ways, open_refuses_an_unknown_way_to_launch_lists)
{
	o.many = 3;
	expect(cohort_group_open(NULL, 2, &o, &group), COHORT_INVALID,
	       "many is 3");
}

/* ---- failures --------------------------------------------------------- */

/* If the buffer cannot be allocated, no native call is made. */
Test(list_ways, list_is_refused_without_memory_for_packing)
{
	uint64_t ticket = 77;

	o.many = COHORT_MANY_FLAT;
	open_all();
	failing_at("cudaMalloc", 1, 0, cudaErrorMemoryAllocation);
	expect(reduce(0, TENSORS, NULL, &ticket), COHORT_NO_MEMORY,
	       "cudaMalloc");
	cr_assert_eq(ticket, 77);
	failing_at("cudaEventCreateWithFlags", 1, 0, cudaErrorInvalidValue);
	expect(reduce(1, TENSORS, NULL, &ticket), COHORT_CUDA,
	       "cudaEventCreateWithFlags");
	comes_to(TENSORS, 0, 1, 2 * TENSORS);
	expect_close(group);
}

/*
 * Make the @n-th call of @function fail. The failure must end the group, with a
 * cause that names the native call.
 */
static void ends_all(const char *function, unsigned long n, const char *says)
{
	struct cohort_cause cause;

	fill();
	open_ahead();
	if (o.many == COHORT_MANY_FLAT)
		reduce_all(TENSORS);
	cr_assert_eq(reduce(0, TENSORS, cohort_comm_stream(c[0]), NULL),
	             COHORT_OK);
	failing_at(function, n, ncclInternalError, cudaErrorInvalidValue);
	cr_assert_lt(reduce(1, TENSORS, cohort_comm_stream(c[1]), NULL), 0);
	cr_assert_not_null(failing_fired());
	cohort_group_cause(group, &cause);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	expect_text(cause.text, says);
	expect_text(cause.text, "all_reduce");
	/*
	 * After this wait, all lists are done or cut short, so no rank accesses
	 * the buffers.
	 */
	cr_assert_neq(cohort_synchronize(c[0], RANKS_SOON), COHORT_TIMED_OUT);
	memset(data, 0, sizeof(data));
	expect_close(group);
}

Test(list_ways, failed_native_group_of_a_list_ends_the_group)
{
	failing_limit_lists(&small_groups);
	ends_all("ncclAllReduce", 50, "ncclAllReduce");
	ends_all("ncclGroupStart", 2, "ncclGroupStart");
	ends_all("ncclGroupEnd", 3, "ncclGroupEnd");
}

Test(list_ways, failed_packed_list_ends_the_group)
{
	place_need_no_sync("one thread packs the lists of both ranks, and the "
	                   "copies of one wait for the other's launch");
	o.many = COHORT_MANY_FLAT;
	ends_all("ncclAllReduce", 1, "ncclAllReduce");
	ends_all("cudaMemcpyAsync", 50, "cudaMemcpyAsync");
	ends_all("cudaMemcpyAsync", 150, "cudaMemcpyAsync");
	ends_all("cudaStreamWaitEvent", 1, "cudaStreamWaitEvent");
	ends_all("cudaEventRecord", 1, "cudaEventRecord");
}

/*
 * One rank never arrives. After the other rank's wait has returned, the program
 * may free the tensors, so later copies from the packed buffer must not write
 * to them.
 */
Test(list_ways, packed_list_does_not_touch_its_tensors_after_an_abort)
{
	static const int ways[] = { COHORT_MANY_GROUP, COHORT_MANY_FLAT };
	size_t i, k;

	for (k = 0; k < sizeof(ways) / sizeof(ways[0]); k++) {
		struct cohort_tensor *mine =
			calloc(TENSORS, sizeof(struct cohort_tensor));
		uint64_t ticket;

		o.many = ways[k];
		open_ahead();
		for (i = 0; i < TENSORS; i++)
			mine[i] = (struct cohort_tensor){
				calloc(EACH, sizeof(float)),
				calloc(EACH, sizeof(float)), EACH, COHORT_F32
			};
		cr_assert_eq(cohort_all_reduce_many(
				     c[0], mine, TENSORS, COHORT_SUM,
				     cohort_comm_stream(c[0]), &ticket),
		             COHORT_OK);
		cr_assert_eq(cohort_wait(c[0], ticket, 0), COHORT_TIMED_OUT);
		cr_assert_eq(cohort_group_abort(group, "enough"), COHORT_OK);
		cr_assert_eq(cohort_wait(c[0], ticket, RANKS_SOON),
		             COHORT_ABORTED);
		for (i = 0; i < TENSORS; i++) {
			free(mine[i].recv);
			free((void *)(uintptr_t)mine[i].send);
		}
		free(mine);
		expect_close(group);
	}
}
