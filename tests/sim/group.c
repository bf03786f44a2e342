/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of groups of native calls: nesting, errors inside a group, and the
 * state of each thread
 */

#include <criterion/criterion.h>
#include <pthread.h>

#include "platform/platform.h"
#include "support/native.h"
#include "support/place.h"

/* Make a call that fails, because it has no communicator. */
static ncclResult_t fail(const struct platform *p)
{
	return p->ncclAllReduce(NULL, NULL, 1, ncclInt32, ncclSum, NULL, NULL);
}

Test(group, ncclGroupEnd_without_a_start_is_invalid_usage, .timeout = 60)
{
	const struct platform *p = native_open(2);

	cr_assert_eq(p->ncclGroupEnd(), ncclInvalidUsage);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclInvalidUsage);
}

Test(group, nested_native_group_starts_nothing_before_the_outer_end,
     .timeout = 60)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 2);
	int r;

	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	for (r = 0; r < 2; r++)
		cr_assert_eq(native_sum(&clique, r), ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	for (r = 0; r < 2; r++) {
		cr_assert_eq(p->cudaStreamSynchronize(clique.stream[r]),
		             cudaSuccess);
		cr_assert_eq(native_touched(&clique, r), 0);
	}
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	for (r = 0; r < 2; r++) {
		cr_assert_eq(p->cudaStreamSynchronize(clique.stream[r]),
		             cudaSuccess);
		cr_assert_eq(native_wrong(&clique, r), 0);
	}
	native_clique_destroy(&clique);
}

Test(group, error_in_nested_native_groups_is_returned_by_the_outer_end,
     .timeout = 60)
{
	const struct platform *p = native_open(2);

	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(fail(p), ncclInvalidArgument);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclInvalidArgument);
}

Test(group, error_in_a_native_group_drops_all_its_operations, .timeout = 60)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 2);
	int r;

	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(fail(p), ncclInvalidArgument);
	cr_assert_eq(native_sum(&clique, 1), ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclInvalidArgument);
	for (r = 0; r < 2; r++) {
		cr_assert_eq(p->cudaStreamSynchronize(clique.stream[r]),
		             cudaSuccess);
		cr_assert_eq(native_touched(&clique, r), 0);
	}
	native_clique_destroy(&clique);
}

Test(group, native_group_works_after_one_that_failed, .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct native_clique clique;

	native_clique_open(&clique, p, 3);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(fail(p), ncclInvalidArgument);
	cr_assert_eq(p->ncclGroupEnd(), ncclInvalidArgument);
	native_sum_all(&clique);
	cr_assert_eq(p->ncclGroupEnd(), ncclInvalidUsage);
	native_clique_destroy(&clique);
}

Test(group, error_outside_a_native_group_does_not_affect_the_next,
     .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct native_clique clique;

	native_clique_open(&clique, p, 2);
	cr_assert_eq(fail(p), ncclInvalidArgument);
	native_sum_all(&clique);
	native_clique_destroy(&clique);
}

static void *end_only(void *user)
{
	const struct platform *p = user;

	return (void *)(intptr_t)p->ncclGroupEnd();
}

Test(group, native_group_belongs_to_the_thread_that_started_it, .timeout = 60)
{
	const struct platform *p = native_open(2);
	pthread_t thread;
	void *result;

	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	pthread_create(&thread, NULL, end_only, (void *)(uintptr_t)p);
	pthread_join(thread, &result);
	cr_assert_eq((intptr_t)result, ncclInvalidUsage);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
}

Test(group, native_group_can_hold_several_operations_of_a_rank, .timeout = 60)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 2);
	int32_t second[2] = { -1, -1 };
	int r;

	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	for (r = 0; r < 2; r++) {
		cr_assert_eq(native_sum(&clique, r), ncclSuccess);
		cr_assert_eq(p->ncclAllReduce(clique.send[r], &second[r], 1,
		                              ncclInt32, ncclMax,
		                              clique.comm[r], clique.stream[r]),
		             ncclSuccess);
	}
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	for (r = 0; r < 2; r++) {
		cr_assert_eq(p->cudaStreamSynchronize(clique.stream[r]),
		             cudaSuccess);
		cr_assert_eq(native_wrong(&clique, r), 0);
		cr_assert_eq(second[r], 2);
	}
	native_clique_destroy(&clique);
}

/* Enqueue a sum of rank @r on its stream and a minimum on @other, in one
 * group. */
static void sum_and_min(struct native_clique *clique, int r, cudaStream_t other,
                        int32_t *min)
{
	const struct platform *p = clique->p;

	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(native_sum(clique, r), ncclSuccess);
	cr_assert_eq(p->ncclAllReduce(clique->send[r], min, 1, ncclInt32,
	                              ncclMin, clique->comm[r], other),
	             ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
}

/*
 * Later work on either of the two streams must see the operation's result, even
 * if the group ran on the other stream.
 */
Test(group, native_group_can_use_several_streams_of_a_communicator,
     .timeout = 60)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 2);
	cudaStream_t other[2];
	int32_t second[2] = { -1, -1 };
	int r;

	for (r = 0; r < 2; r++)
		other[r] = native_stream(p, r);
	sum_and_min(&clique, 0, other[0], &second[0]);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[0]), cudaErrorNotReady);
	cr_assert_eq(p->cudaStreamQuery(other[0]), cudaErrorNotReady);
	sum_and_min(&clique, 1, other[1], &second[1]);
	for (r = 0; r < 2; r++) {
		cr_assert_eq(p->cudaStreamSynchronize(clique.stream[r]),
		             cudaSuccess);
		cr_assert_eq(native_wrong(&clique, r), 0);
		cr_assert_eq(second[r], 1);
		cr_assert_eq(p->cudaStreamSynchronize(other[r]), cudaSuccess);
		cr_assert_eq(p->cudaStreamDestroy(other[r]), cudaSuccess);
	}
	native_clique_destroy(&clique);
}

/* Check that no rank starts while one of rank 0's two streams is blocked. */
static void hold_one_stream(int held)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 2);
	struct native_gate gate;
	cudaStream_t other[2];
	int32_t second[2] = { -1, -1 };
	int r;

	for (r = 0; r < 2; r++)
		other[r] = native_stream(p, r);
	native_gate_hold(p, &gate, held == 0 ? clique.stream[0] : other[0]);
	for (r = 0; r < 2; r++)
		sum_and_min(&clique, r, other[r], &second[r]);
	native_gate_reached(&gate);
	for (r = 0; r < 2; r++) {
		cr_assert_eq(p->cudaStreamQuery(clique.stream[r]),
		             cudaErrorNotReady);
		cr_assert_eq(p->cudaStreamQuery(other[r]), cudaErrorNotReady);
		cr_assert_eq(native_touched(&clique, r), 0);
		cr_assert_eq(second[r], -1);
	}
	native_gate_open(&gate);
	for (r = 0; r < 2; r++) {
		cr_assert_eq(p->cudaStreamSynchronize(other[r]), cudaSuccess);
		cr_assert_eq(p->cudaStreamSynchronize(clique.stream[r]),
		             cudaSuccess);
		cr_assert_eq(p->cudaStreamDestroy(other[r]), cudaSuccess);
		cr_assert_eq(native_wrong(&clique, r), 0);
		cr_assert_eq(second[r], 1);
	}
	native_clique_destroy(&clique);
}

Test(group, native_group_waits_for_earlier_work_on_its_first_stream,
     .timeout = 60)
{
	hold_one_stream(0);
}

Test(group, native_group_waits_for_earlier_work_on_its_last_stream,
     .timeout = 60)
{
	hold_one_stream(1);
}

/*
 * If one rank's launch is refused because its stream is of another device,
 * nothing of the group is launched.
 */
Test(group, native_group_refuses_a_stream_of_another_device, .timeout = 60)
{
	const struct platform *p = native_open(2);
	struct native_clique clique;
	int r;

	place_skip_on_nvidia("it launches what it can of such a group");
	native_clique_open(&clique, p, 2);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	for (r = 0; r < 2; r++)
		cr_assert_eq(p->ncclAllReduce(clique.send[r], clique.recv[r],
		                              NATIVE_COUNT, ncclInt32, ncclSum,
		                              clique.comm[r], clique.stream[0]),
		             ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclUnhandledCudaError);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[0]), cudaSuccess);
	cr_assert_eq(native_touched(&clique, 0), 0);
	native_sum_all(&clique);
	native_clique_destroy(&clique);
}

/*
 * The handle cudaStreamPerThread stands for a different stream on each device.
 */
Test(group, native_group_can_use_each_devices_per_thread_stream, .timeout = 60)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 2);
	int r;

	cr_assert_eq(p->cudaSetDevice(0), cudaSuccess);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	for (r = 0; r < 2; r++)
		cr_assert_eq(p->ncclAllReduce(clique.send[r], clique.recv[r],
		                              NATIVE_COUNT, ncclInt32, ncclSum,
		                              clique.comm[r],
		                              cudaStreamPerThread),
		             ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	for (r = 0; r < 2; r++) {
		cr_assert_eq(p->cudaSetDevice(r), cudaSuccess);
		cr_assert_eq(p->cudaStreamSynchronize(cudaStreamPerThread),
		             cudaSuccess);
		cr_assert_eq(native_wrong(&clique, r), 0);
	}
	native_clique_destroy(&clique);
}

Test(group, native_group_can_hold_operations_of_two_communicators,
     .timeout = 60)
{
	struct native_clique one;
	const struct platform *p = native_clique_begin(&one, 2);
	struct native_clique two;
	int r;

	native_clique_open(&two, p, 2);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	for (r = 0; r < 2; r++) {
		cr_assert_eq(native_sum(&one, r), ncclSuccess);
		cr_assert_eq(native_sum(&two, 1 - r), ncclSuccess);
	}
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	for (r = 0; r < 2; r++) {
		cr_assert_eq(p->cudaStreamSynchronize(one.stream[r]),
		             cudaSuccess);
		cr_assert_eq(p->cudaStreamSynchronize(two.stream[r]),
		             cudaSuccess);
		cr_assert_eq(native_wrong(&one, r), 0);
		cr_assert_eq(native_wrong(&two, r), 0);
	}
	native_clique_destroy(&one);
	native_clique_destroy(&two);
}

Test(group, native_group_restores_the_current_device, .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct native_clique clique;
	int device = -1;

	native_clique_open(&clique, p, 3);
	cr_assert_eq(p->cudaSetDevice(2), cudaSuccess);
	native_sum_all(&clique);
	cr_assert_eq(p->cudaGetDevice(&device), cudaSuccess);
	cr_assert_eq(device, 2);
	native_clique_destroy(&clique);
}
