/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of native collectives: argument checks, calls that return immediately,
 * and which ranks wait for which
 *
 * differential.c compares the results for all types and operations with a
 * reference.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "platform/platform.h"
#include "sim/nccl/nccl_comm.h"
#include "support/native.h"
#include "support/place.h"

/* ---- argument checks -------------------------------------------------- */

/*
 * Expect a reduce with one wrong argument to be refused, even if the count is
 * 0.
 */
static void expect_invalid(int type, int op, int root)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 2);
	size_t count;

	for (count = 0; count < 2; count++)
		cr_assert_eq(p->ncclReduce(clique.send[0], clique.recv[0],
		                           count, (ncclDataType_t)type,
		                           (ncclRedOp_t)op, root,
		                           clique.comm[0], clique.stream[0]),
		             ncclInvalidArgument, "count %zu", count);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[0]), cudaSuccess);
	native_sum_all(&clique);
	native_clique_destroy(&clique);
}

Test(collective, reduce_with_a_type_below_the_first_is_invalid, .timeout = 60)
{
	expect_invalid(-1, ncclSum, 0);
}

Test(collective, reduce_with_a_type_above_the_last_is_invalid, .timeout = 60)
{
	expect_invalid(ncclNumTypes, ncclSum, 0);
}

Test(collective, reduce_with_an_operation_below_the_first_is_invalid,
     .timeout = 60)
{
	expect_invalid(ncclInt32, -1, 0);
}

Test(collective, reduce_with_an_operation_above_the_last_is_invalid,
     .timeout = 60)
{
	expect_invalid(ncclInt32, ncclNumOps, 0);
}

Test(collective, reduce_with_a_root_below_the_first_is_invalid, .timeout = 60)
{
	expect_invalid(ncclInt32, ncclSum, -1);
}

Test(collective, reduce_with_a_root_above_the_last_is_invalid, .timeout = 60)
{
	expect_invalid(ncclInt32, ncclSum, 2);
}

Test(collective, collective_on_a_null_communicator_is_invalid, .timeout = 60)
{
	const struct platform *p = native_open(2);
	int x = 0;

	cr_assert_eq(p->ncclAllReduce(&x, &x, 1, ncclInt32, ncclSum, NULL,
	                              NULL),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclBroadcast(&x, &x, 1, ncclInt32, 0, NULL, NULL),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclReduce(&x, &x, 1, ncclInt32, ncclSum, 0, NULL,
	                           NULL),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclAllGather(&x, &x, 1, ncclInt32, NULL, NULL),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclReduceScatter(&x, &x, 1, ncclInt32, ncclSum, NULL,
	                                  NULL),
	             ncclInvalidArgument);
}

Test(collective, collective_of_no_elements_is_done_at_once, .timeout = 60)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 2);

	cr_assert_eq(p->ncclAllReduce(NULL, NULL, 0, ncclInt32, ncclSum,
	                              clique.comm[0], clique.stream[0]),
	             ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(clique.stream[0]), cudaSuccess);
	native_sum_all(&clique);
	native_clique_destroy(&clique);
}

/* ---- one rank --------------------------------------------------------- */

Test(collective, all_reduce_of_one_rank_runs_at_once_even_in_a_group,
     .timeout = 60)
{
	const struct platform *p = native_open(2);
	struct native_clique clique;

	native_clique_open(&clique, p, 1);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(clique.stream[0]), cudaSuccess);
	cr_assert_eq(native_wrong(&clique, 0), 0);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	native_clique_destroy(&clique);
}

Test(collective, all_reduce_of_one_rank_keeps_stream_order, .timeout = 60)
{
	const struct platform *p = native_open(2);
	struct native_clique clique;
	struct native_gate gate;

	place_skip_on_nvidia("a sum of one rank copies memory, which waits for "
	                     "the stream if the memory is not a device's");
	native_clique_open(&clique, p, 1);
	native_gate_hold(p, &gate, clique.stream[0]);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	native_gate_reached(&gate);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[0]), cudaErrorNotReady);
	cr_assert_eq(native_touched(&clique, 0), 0);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(clique.stream[0]), cudaSuccess);
	cr_assert_eq(native_wrong(&clique, 0), 0);
	native_clique_destroy(&clique);
}

/* ---- several ranks ---------------------------------------------------- */

Test(collective, one_thread_can_drive_all_ranks_in_a_group, .timeout = 60)
{
	struct native_clique clique;
	int i;

	native_clique_begin(&clique, 8);
	for (i = 0; i < place_times(50); i++)
		native_sum_all(&clique);
	native_clique_destroy(&clique);
}

struct ranker {
	struct native_clique *clique;
	int rank;
	int wrong;
};

/* Call a collective, wait for it and check the result, many times. */
static void *be_a_rank(void *user)
{
	struct ranker *ranker = user;
	struct native_clique *clique = ranker->clique;
	int r = ranker->rank;
	int i;

	for (i = 0; i < 200; i++) {
		memset(clique->recv[r], 0, sizeof(clique->recv[r]));
		ranker->wrong += native_sum(clique, r) != ncclSuccess;
		clique->p->cudaStreamSynchronize(clique->stream[r]);
		ranker->wrong += native_wrong(clique, r);
	}
	return NULL;
}

Test(collective, threads_that_drive_one_rank_each_need_no_group, .timeout = 60)
{
	struct native_clique clique;
	struct ranker rankers[4];
	pthread_t threads[4];
	int r;

	native_clique_begin(&clique, 4);
	for (r = 0; r < 4; r++) {
		rankers[r] = (struct ranker){ &clique, r, 0 };
		pthread_create(&threads[r], NULL, be_a_rank, &rankers[r]);
	}
	for (r = 0; r < 4; r++) {
		pthread_join(threads[r], NULL);
		cr_assert_eq(rankers[r].wrong, 0);
	}
	native_clique_destroy(&clique);
}

Test(collective, collective_is_not_done_before_the_last_rank_calls,
     .timeout = 60)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 3);
	int r;

	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[0]), cudaErrorNotReady);
	cr_assert_eq(native_sum(&clique, 1), ncclSuccess);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[0]), cudaErrorNotReady);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[1]), cudaErrorNotReady);
	cr_assert_eq(native_touched(&clique, 0), 0);
	cr_assert_eq(native_sum(&clique, 2), ncclSuccess);
	for (r = 0; r < 3; r++) {
		cr_assert_eq(p->cudaStreamSynchronize(clique.stream[r]),
		             cudaSuccess);
		cr_assert_eq(native_wrong(&clique, r), 0);
	}
	native_clique_destroy(&clique);
}

Test(collective, work_on_the_stream_of_one_rank_blocks_every_rank,
     .timeout = 60)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 2);
	struct native_gate gate;

	native_gate_hold(p, &gate, clique.stream[1]);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 1), ncclSuccess);
	native_gate_reached(&gate);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[0]), cudaErrorNotReady);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(clique.stream[0]), cudaSuccess);
	cr_assert_eq(native_wrong(&clique, 0), 0);
	cr_assert_eq(p->cudaStreamSynchronize(clique.stream[1]), cudaSuccess);
	native_clique_destroy(&clique);
}

Test(collective, pending_collective_does_not_block_other_communicators,
     .timeout = 60)
{
	struct native_clique pending;
	const struct platform *p = native_clique_begin(&pending, 2);
	struct native_clique runs;

	native_clique_open(&runs, p, 2);
	cr_assert_eq(native_sum(&pending, 0), ncclSuccess);
	native_sum_all(&runs);
	cr_assert_eq(p->cudaStreamQuery(pending.stream[0]), cudaErrorNotReady);
	cr_assert_eq(native_sum(&pending, 1), ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(pending.stream[0]), cudaSuccess);
	cr_assert_eq(native_wrong(&pending, 0), 0);
	native_clique_destroy(&pending);
	native_clique_destroy(&runs);
}

Test(collective, rank_may_call_many_collectives_ahead_of_its_peer,
     .timeout = 60)
{
	const struct platform *p = native_open(2);
	const int ahead = place_times(500);
	struct native_clique clique;
	int i;

	native_clique_open(&clique, p, 2);
	for (i = 0; i < ahead; i++)
		cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	for (i = 0; i < ahead; i++)
		cr_assert_eq(native_sum(&clique, 1), ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(clique.stream[0]), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(clique.stream[1]), cudaSuccess);
	cr_assert_eq(native_wrong(&clique, 0), 0);
	cr_assert_eq(native_wrong(&clique, 1), 0);
	native_clique_destroy(&clique);
}

Test(collective, broadcast_ignores_send_buffers_of_other_ranks, .timeout = 60)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 3);
	int r;

	for (r = 0; r < 3; r++)
		cr_assert_eq(p->ncclBroadcast(r == 1 ? clique.send[1] : NULL,
		                              clique.recv[r], NATIVE_COUNT,
		                              ncclInt32, 1, clique.comm[r],
		                              clique.stream[r]),
		             ncclSuccess);
	for (r = 0; r < 3; r++) {
		cr_assert_eq(p->cudaStreamSynchronize(clique.stream[r]),
		             cudaSuccess);
		cr_assert_arr_eq(clique.recv[r], clique.send[1],
		                 sizeof(clique.send[1]));
	}
	native_clique_destroy(&clique);
}

Test(collective, reduce_writes_on_the_root_only, .timeout = 60)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 3);
	int r;

	for (r = 0; r < 3; r++)
		cr_assert_eq(p->ncclReduce(clique.send[r],
		                           r == 0 ? NULL : clique.recv[r],
		                           NATIVE_COUNT, ncclInt32, ncclSum, 2,
		                           clique.comm[r], clique.stream[r]),
		             ncclSuccess);
	for (r = 0; r < 3; r++)
		cr_assert_eq(p->cudaStreamSynchronize(clique.stream[r]),
		             cudaSuccess);
	cr_assert_eq(native_wrong(&clique, 2), 0);
	cr_assert_eq(native_touched(&clique, 1), 0);
	native_clique_destroy(&clique);
}

/*
 * In consecutive gathers with equal counts, the root's own block can be at
 * different places.
 */
Test(collective, gather_can_alternate_between_in_and_out_of_place,
     .timeout = 60)
{
	enum { COUNT = 4096 };
	const struct platform *p = native_open(2);
	static int32_t own[COUNT], other[COUNT], all[2 * COUNT];
	struct native_clique clique;
	int i;

	native_clique_open(&clique, p, 2);
	for (i = 0; i < 4; i++) {
		const int32_t *mine = i % 2 ? own : all;

		all[COUNT - 1] = 10 + i;
		own[COUNT - 1] = 20 + i;
		other[COUNT - 1] = 30 + i;
		native_must(p->ncclGroupStart(), "ncclGroupStart");
		native_must(p->ncclGather(mine, all, COUNT, ncclInt32, 0,
		                          clique.comm[0], clique.stream[0]),
		            "ncclGather");
		native_must(p->ncclGather(other, NULL, COUNT, ncclInt32, 0,
		                          clique.comm[1], clique.stream[1]),
		            "ncclGather");
		native_must(p->ncclGroupEnd(), "ncclGroupEnd");
		native_must(p->cudaStreamSynchronize(clique.stream[0]),
		            "cudaStreamSynchronize");
		cr_assert_eq(all[COUNT - 1], (i % 2 ? 20 : 10) + i);
		cr_assert_eq(all[2 * COUNT - 1], 30 + i);
	}
	native_clique_destroy(&clique);
}

/* ---- round numbers that wrap ------------------------------------------ */

/*
 * A word holds only the low bits of a round number, which repeat after 2^40
 * rounds.
 */
Test(collective, collectives_work_when_round_numbers_wrap, .timeout = 60)
{
	const struct platform *p = native_open(2);
	static float x[2][4096];
	struct native_clique c;
	int r, i;

	place_need_built_in("access to internal state");
	native_clique_open(&c, p, 2);
	for (r = 0; r < 2; r++)
		c.comm[r]->member.slots = (UINT64_C(1) << 40) - 3;
	for (i = 0; i < 6; i++) {
		x[0][4095] = 1, x[1][4095] = 2;
		for (r = 0; r < 2; r++)
			native_must(p->ncclAllReduce(x[r], x[r], 4096,
			                             ncclFloat32, ncclSum,
			                             c.comm[r], c.stream[r]),
			            "ncclAllReduce");
		for (r = 0; r < 2; r++)
			native_must(p->cudaStreamSynchronize(c.stream[r]),
			            "cudaStreamSynchronize");
		cr_assert_eq(x[0][4095], 3);
		cr_assert_eq(x[1][4095], 3);
	}
	native_clique_destroy(&c);
}
