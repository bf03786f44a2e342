/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of calls that one thread makes for all ranks of a group: the device
 * that is current afterwards, memory, and copies
 */

#include <criterion/criterion.h>
#include <string.h>

#include "support/expect.h"
#include "support/failing.h"
#include "support/ranks.h"
#include "support/spread.h"

TestSuite(group_calls, .timeout = 60);

#define RANKS 4

static int32_t value[RANKS];
static const void *send[RANKS];
static void *recv[RANKS];

static void fill(void)
{
	int r;

	for (r = 0; r < RANKS; r++) {
		value[r] = r + 1;
		send[r] = recv[r] = &value[r];
	}
}

static int sum(struct cohort_group *group, void *const streams[],
               uint64_t *ticket)
{
	return cohort_group_all_reduce(group, send, recv, 1, COHORT_I32,
	                               COHORT_SUM, streams, ticket);
}

static int send_out(struct cohort_group *group, uint64_t *ticket)
{
	return cohort_group_broadcast(group, send, recv, 1, COHORT_I32, 1, NULL,
	                              ticket);
}

static void expect_device(int device, const char *after)
{
	int now = -1;

	place_table()->cudaGetDevice(&now);
	cr_assert_eq(now, device, "device %d is %d after %s", device, now,
	             after);
}

/* ---- the current device ----------------------------------------------- */

Test(group_calls, group_level_calls_keep_the_callers_device_current)
{
	const struct platform *p = place_open(RANKS);
	struct cohort_group *group;
	uint64_t ticket;
	int d;

	spread_not("the test makes the calls of all ranks");
	fill();
	for (d = 0; d < place_times(RANKS); d++) {
		cr_assert_eq(p->cudaSetDevice(d), cudaSuccess);
		group = ranks_open(RANKS, NULL);
		expect_device(d, "open");
		cr_assert_eq(sum(group, NULL, &ticket), COHORT_OK);
		expect_device(d, "all_reduce");
		cr_assert_eq(send_out(group, &ticket), COHORT_OK);
		expect_device(d, "broadcast");
		cr_assert_eq(cohort_group_wait(group, ticket, RANKS_SOON),
		             COHORT_OK);
		expect_device(d, "wait");
		cr_assert_eq(cohort_group_abort(group, "on"), COHORT_OK);
		expect_device(d, "abort");
		cr_assert_eq(sum(group, NULL, NULL), COHORT_ABORTED);
		expect_device(d, "a call that is refused");
		cr_assert_eq(cohort_group_respawn(group, (int[]){ 2 }, 1),
		             COHORT_OK);
		expect_device(d, "respawn");
		cr_assert_eq(sum(group, NULL, NULL), COHORT_OK);
		expect_device(d, "all_reduce of fewer");
		expect_close(group);
		expect_device(d, "close");
	}
}

/*
 * Make each native call of @function fail once, except the calls that restore
 * the current device.
 */
static void fail_each(const struct platform *real, int device,
                      const char *function)
{
	struct cohort_group *group;
	struct cohort_cause cause;
	unsigned long n;
	int rc;

	/* Test fewer calls on NVIDIA's NCCL, where an open takes up to a
	 * second. */
	for (n = 1;; n += place_is_nvidia() ? 4 : 1) {
		cr_assert_eq(real->cudaSetDevice(device), cudaSuccess);
		group = ranks_open(RANKS, NULL);
		failing_here(function, n, ncclSystemError,
		             cudaErrorInvalidValue);
		rc = sum(group, NULL, NULL);
		failing_at(NULL, 0, 0, 0);
		if (rc == COHORT_OK)
			break;
		expect_device(device, function);
		/* An error of ncclGroupEnd() does not show which rank is to
		 * blame. */
		if (strcmp(function, "ncclGroupEnd") == 0) {
			cohort_group_cause(group, &cause);
			cr_assert_eq(cause.rank, -1, "%s", cause.text);
		}
		cohort_group_close(group);
	}
	cr_assert_gt(n, 1, "%s is not called", function);
	cohort_group_close(group);
}

Test(group_calls, failed_group_level_calls_keep_the_device_current)
{
	static const char *const functions[] = {
		"cudaSetDevice", "ncclGroupStart",       "ncclAllReduce",
		"ncclGroupEnd",  "cuStreamWriteValue32",
	};
	const struct platform *real = place_open(RANKS);
	size_t i;
	int d;

	spread_not("the test makes the calls of all ranks");
	fill();
	platform_override(failing_wrap(real));
	for (i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		for (d = 0; d < place_times(RANKS); d++)
			fail_each(real, d, functions[i]);
}

/* ---- memory and copies ------------------------------------------------ */

#define COUNT 100

static int32_t in[RANKS][COUNT], out[RANKS][COUNT];

/* Arguments of the copies from and to the devices, one for each rank */
static const void *from[RANKS];
static void *to[RANKS];

static void fill_plain(void)
{
	int r, i;

	for (r = 0; r < RANKS; r++) {
		for (i = 0; i < COUNT; i++)
			in[r][i] = i + r;
		from[r] = in[r];
		to[r] = out[r];
	}
}

static int copy_in(struct cohort_group *group, void *memory[],
                   void *const streams[])
{
	return cohort_group_copy(group, memory, from, sizeof(in[0]), streams,
	                         NULL);
}

static int copy_out(struct cohort_group *group, void *memory[], int n,
                    void *const streams[])
{
	const void *device[RANKS];
	uint64_t ticket;
	int r, rc;

	for (r = 0; r < n; r++)
		device[r] = memory[r];
	rc = cohort_group_copy(group, to, device, sizeof(out[0]), streams,
	                       &ticket);
	return rc == COHORT_OK ? cohort_group_wait(group, ticket, RANKS_SOON)
	                       : rc;
}

static int sum_memory(struct cohort_group *group, void *memory[], int n,
                      void *const streams[])
{
	const void *device[RANKS];
	int r;

	for (r = 0; r < n; r++)
		device[r] = memory[r];
	return cohort_group_all_reduce(group, device, memory, COUNT, COHORT_I32,
	                               COHORT_SUM, streams, NULL);
}

static void expect_sums(int n)
{
	int r, i;

	for (r = 0; r < n; r++)
		for (i = 0; i < COUNT; i++)
			cr_assert_eq(out[r][i], n * i + n * (n - 1) / 2,
			             "rank %d: %d at %d", r, out[r][i], i);
}

static void expect_round_trip(struct cohort_group *group, void *memory[], int n,
                              void *const streams[])
{
	memset(out, 0, sizeof(out));
	ranks_must(copy_in(group, memory, streams), "copy in");
	ranks_must(sum_memory(group, memory, n, streams), "all_reduce");
	ranks_must(copy_out(group, memory, n, streams), "copy out");
	expect_sums(n);
}

Test(group_calls, group_copy_moves_data_to_all_ranks_and_back)
{
	void *memory[RANKS], *none[RANKS] = { NULL }, *own[RANKS];
	const struct platform *p = place_open(RANKS);
	struct cohort_group *group = ranks_open(RANKS, NULL);
	struct cudaPointerAttributes a;
	int r;

	spread_not("the test makes the calls of all ranks");
	fill_plain();
	ranks_must(cohort_group_alloc(group, sizeof(in[0]), memory), "alloc");
	for (r = 0; r < RANKS; r++) {
		cr_assert_eq(p->cudaPointerGetAttributes(&a, memory[r]),
		             cudaSuccess);
		cr_assert_eq(a.device, r);
		own[r] = cohort_group_stream(group, r);
		cr_assert_not_null(own[r]);
	}
	cr_assert_null(cohort_group_stream(group, RANKS));
	cr_assert_null(cohort_group_stream(group, -1));
	cr_assert_null(cohort_group_stream(NULL, 0));
	expect_round_trip(group, memory, RANKS, NULL);
	expect_round_trip(group, memory, RANKS, own);
	expect_round_trip(group, memory, RANKS, none);
	ranks_must(cohort_group_free(group, memory), "free");
	for (r = 0; r < RANKS; r++)
		cr_assert_null(memory[r]);
	ranks_must(cohort_group_free(group, memory), "free of nothing");
	expect_close(group);
}

Test(group_calls, group_memory_calls_name_the_invalid_argument)
{
	void *memory[2] = { &in[0], &in[1] };
	struct cohort_group *group = ranks_open(2, NULL);
	struct cohort_comm *comms[2];

	spread_not("the test makes the calls of all ranks");
	fill_plain();
	expect(cohort_group_alloc(group, 0, memory), COHORT_INVALID,
	       "bytes is 0");
	expect(cohort_group_alloc(group, 1, NULL), COHORT_INVALID,
	       "memory is NULL");
	expect(cohort_group_alloc(NULL, 1, memory), COHORT_INVALID,
	       "group is NULL");
	expect(cohort_group_free(group, NULL), COHORT_INVALID,
	       "memory is NULL");
	expect(cohort_group_free(NULL, memory), COHORT_INVALID,
	       "group is NULL");
	expect(cohort_group_copy(group, NULL, from, 1, NULL, NULL),
	       COHORT_INVALID, "dst is NULL");
	expect(cohort_group_copy(group, memory, NULL, 1, NULL, NULL),
	       COHORT_INVALID, "src is NULL");
	from[1] = NULL;
	expect(cohort_group_copy(group, memory, from, 5, NULL, NULL),
	       COHORT_INVALID, "copy: src[1] is NULL, but bytes is 5");
	cr_assert_eq(memory[1], &in[1]);
	ranks_must(cohort_group_split(group, comms), "split");
	from[1] = in[1];
	expect(cohort_group_copy(group, memory, from, 1, NULL, NULL),
	       COHORT_STATE, "was split");
	expect_close(group);
}

Test(group_calls, group_alloc_allocates_on_all_ranks_or_none)
{
	static char before[1];
	void *memory[RANKS] = { before, before, before, before };
	struct cohort_group *group;
	int r;

	spread_not("the test makes the calls of all ranks");
	platform_override(failing_wrap(place_open(RANKS)));
	group = ranks_open(RANKS, NULL);
	failing_at("cudaMalloc", 3, 0, cudaErrorMemoryAllocation);
	expect(cohort_group_alloc(group, 100, memory), COHORT_NO_MEMORY,
	       "cudaMalloc");
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(memory[r], before);
	cr_assert_eq(failing_calls("cudaFree"), 2);
	ranks_must(cohort_group_alloc(group, 100, memory), "alloc");
	failing_at("cudaFree", 2, 0, cudaErrorInvalidValue);
	expect(cohort_group_free(group, memory), COHORT_CUDA, "cudaFree");
	cr_assert_null(memory[0]);
	cr_assert_not_null(memory[1]);
	ranks_must(cohort_group_free(group, memory), "the rest");
	expect_close(group);
}

static int free_own(struct cohort_comm *comm, void *user)
{
	void **memory = user;
	int r = cohort_comm_rank(comm);
	int rc = cohort_free(comm, memory[r]);

	if (rc == COHORT_OK)
		memory[r] = NULL;
	return rc;
}

Test(group_calls, group_memory_outlives_a_split_an_abort_and_a_respawn)
{
	void *first[RANKS], *second[RANKS], *lost[RANKS] = { NULL };
	struct cohort_group *group = ranks_open(RANKS, NULL);

	spread_not("the test makes the calls of all ranks");
	fill_plain();
	ranks_must(cohort_group_alloc(group, sizeof(in[0]), first), "alloc");
	ranks_must(cohort_group_alloc(group, sizeof(in[0]), second), "alloc");
	ranks_must(copy_in(group, first, NULL), "copy in");
	ranks_must(cohort_group_run(group, free_own, second, NULL), "run");
	cr_assert_null(second[RANKS - 1]);
	cr_assert_eq(cohort_group_abort(group, "on"), COHORT_OK);
	ranks_must(cohort_group_respawn(group, (int[]){ 1 }, 1), "respawn");
	/* The respawn has renumbered the remaining ranks. */
	lost[0] = first[1];
	first[1] = first[2];
	first[2] = first[3];
	expect_round_trip(group, first, RANKS - 1, NULL);
	ranks_must(cohort_group_free(group, first), "free");
	ranks_must(cohort_group_free(group, lost), "free what is lost");
	expect_close(group);
}

Test(group_calls, group_copy_that_copies_nothing_leaves_the_group_unchanged)
{
	void *memory[RANKS];
	struct cohort_group *group;

	spread_not("the test makes the calls of all ranks");
	fill_plain();
	platform_override(failing_wrap(place_open(RANKS)));
	group = ranks_open(RANKS, NULL);
	ranks_must(cohort_group_alloc(group, sizeof(in[0]), memory), "alloc");
	failing_at("cudaMemcpyAsync", 1, 0, cudaErrorInvalidValue);
	expect(copy_in(group, memory, NULL), COHORT_CUDA, "cudaMemcpyAsync");
	expect_round_trip(group, memory, RANKS, NULL);
	ranks_must(cohort_group_free(group, memory), "free");
	expect_close(group);
}

Test(group_calls, group_copy_that_fails_on_a_later_rank_ends_the_group)
{
	const struct platform *real = place_open(RANKS);
	struct cohort_cause cause;
	struct cohort_group *group;
	void *memory[RANKS];
	int d;

	spread_not("the test makes the calls of all ranks");
	fill_plain();
	platform_override(failing_wrap(real));
	for (d = 0; d < RANKS; d++) {
		cr_assert_eq(real->cudaSetDevice(d), cudaSuccess);
		group = ranks_open(RANKS, NULL);
		ranks_must(cohort_group_alloc(group, sizeof(in[0]), memory),
		           "alloc");
		expect_device(d, "alloc");
		failing_at("cudaMemcpyAsync", 2, 0, cudaErrorInvalidValue);
		expect(copy_in(group, memory, NULL), COHORT_CUDA,
		       "rank 1, copy, ticket 1: cudaMemcpyAsync");
		expect_device(d, "copy");
		cohort_group_cause(group, &cause);
		cr_assert_eq(cause.rank, 1, "%s", cause.text);
		cr_assert_eq(cause.cuda, cudaErrorInvalidValue);
		ranks_must(cohort_group_free(group, memory), "free");
		expect_device(d, "free");
		expect_close(group);
	}
}
