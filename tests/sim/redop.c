/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the handles of ncclRedOpCreatePreMulSum(): which ranks can use them,
 * and for how long
 *
 * differential.c compares the results.
 */

#include <criterion/criterion.h>

#include "support/native.h"

static const struct platform *p;

static void open_platform(void)
{
	p = native_open(NATIVE_RANKS);
}

TestSuite(redop, .init = open_platform, .timeout = 60);

static ncclRedOp_t create(struct native_clique *c, int r, int32_t scalar)
{
	ncclRedOp_t op;

	native_must(p->ncclRedOpCreatePreMulSum(&op, &scalar, ncclInt32,
	                                        ncclScalarHostImmediate,
	                                        c->comm[r]),
	            "ncclRedOpCreatePreMulSum");
	return op;
}

static ncclResult_t reduce(struct native_clique *c, int r, int type,
                           ncclRedOp_t op, size_t count)
{
	return p->ncclAllReduce(c->send[r], c->recv[r], count,
	                        (ncclDataType_t)type, op, c->comm[r],
	                        c->stream[r]);
}

Test(redop, each_rank_has_its_own_premul_scalar)
{
	struct native_clique c;
	ncclRedOp_t op;
	int i, r;

	native_clique_open(&c, p, 3);
	p->ncclGroupStart();
	for (r = 0; r < 3; r++) {
		op = create(&c, r, 10 * r);
		cr_assert_eq(reduce(&c, r, ncclInt32, op, NATIVE_COUNT),
		             ncclSuccess);
	}
	p->ncclGroupEnd();
	for (r = 0; r < 3; r++) {
		p->cudaStreamSynchronize(c.stream[r]);
		for (i = 0; i < NATIVE_COUNT; i++)
			cr_assert_eq(c.recv[r][i], (10 * 2 + 20 * 3) * (i + 1));
	}
	native_clique_destroy(&c);
}

Test(redop, device_scalar_is_read_when_the_operation_runs)
{
	struct native_clique c;
	struct native_gate gate;
	int32_t scalar = 1;
	ncclRedOp_t op;

	native_clique_open(&c, p, 1);
	native_must(p->ncclRedOpCreatePreMulSum(&op, &scalar, ncclInt32,
	                                        ncclScalarDevice, c.comm[0]),
	            "ncclRedOpCreatePreMulSum");
	native_gate_hold(p, &gate, c.stream[0]);
	cr_assert_eq(reduce(&c, 0, ncclInt32, op, 1), ncclSuccess);
	cr_assert_eq(p->ncclRedOpDestroy(op, c.comm[0]), ncclSuccess);
	scalar = 5;
	native_gate_open(&gate);
	p->cudaStreamSynchronize(c.stream[0]);
	cr_assert_eq(c.recv[0][0], 5);
	native_clique_destroy(&c);
}

Test(redop, premul_sum_of_one_rank_runs_at_once_even_in_a_group)
{
	struct native_clique c;

	native_clique_open(&c, p, 1);
	p->ncclGroupStart();
	cr_assert_eq(reduce(&c, 0, ncclInt32, create(&c, 0, 3), 1),
	             ncclSuccess);
	p->cudaStreamSynchronize(c.stream[0]);
	cr_assert_eq(c.recv[0][0], 3);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	native_clique_destroy(&c);
}

Test(redop, premul_sum_of_another_communicator_or_rank_is_invalid)
{
	struct native_clique c, other;
	ncclRedOp_t op;

	native_clique_open(&c, p, 2);
	native_clique_open(&other, p, 2);
	create(&c, 0, 1);
	create(&other, 0, 1);
	op = create(&c, 1, 1);
	cr_assert_eq(reduce(&c, 0, ncclInt32, op, 1), ncclInvalidArgument);
	cr_assert_eq(reduce(&other, 1, ncclInt32, op, 1), ncclInvalidArgument);
	cr_assert_eq(p->ncclRedOpDestroy(op, c.comm[0]), ncclInvalidArgument);
	cr_assert_eq(p->ncclRedOpDestroy(op, c.comm[1]), ncclSuccess);
	native_clique_destroy(&c);
	native_clique_destroy(&other);
}

Test(redop, destroyed_premul_sum_is_invalid)
{
	struct native_clique c;
	ncclRedOp_t op;

	native_clique_open(&c, p, 1);
	op = create(&c, 0, 1);
	cr_assert_eq(p->ncclRedOpDestroy(op, c.comm[0]), ncclSuccess);
	cr_assert_eq(reduce(&c, 0, ncclInt32, op, 1), ncclInvalidArgument);
	cr_assert_eq(reduce(&c, 0, ncclInt32, op, 0), ncclInvalidArgument);
	cr_assert_eq(p->ncclRedOpDestroy(op, c.comm[0]), ncclInvalidArgument);
	native_clique_destroy(&c);
}

Test(redop, premul_sum_of_another_type_is_invalid_unless_count_is_0)
{
	struct native_clique c;
	ncclRedOp_t op;

	native_clique_open(&c, p, 2);
	op = create(&c, 0, 1);
	cr_assert_eq(reduce(&c, 0, ncclUint32, op, 1), ncclInvalidArgument);
	cr_assert_eq(reduce(&c, 0, ncclUint32, op, 0), ncclSuccess);
	native_sum_all(&c);
	native_clique_destroy(&c);
}

Test(redop, many_premul_sums_can_exist_at_a_time)
{
	struct native_clique c;
	ncclRedOp_t op[1000];
	int i;

	native_clique_open(&c, p, 1);
	for (i = 0; i < 1000; i++)
		op[i] = create(&c, 0, i);
	for (i = 0; i < 1000; i++) {
		cr_assert_eq(reduce(&c, 0, ncclInt32, op[i], 1), ncclSuccess);
		p->cudaStreamSynchronize(c.stream[0]);
		cr_assert_eq(c.recv[0][0], i);
		cr_assert_eq(p->ncclRedOpDestroy(op[i], c.comm[0]),
		             ncclSuccess);
	}
	native_clique_destroy(&c);
}

Test(redop, premul_sum_functions_check_their_arguments)
{
	struct native_clique c;
	ncclRedOp_t op;
	int32_t x = 1;

	native_clique_open(&c, p, 1);
	cr_expect_eq(p->ncclRedOpCreatePreMulSum(&op, &x, ncclInt32,
	                                         ncclScalarHostImmediate, NULL),
	             ncclInvalidArgument);
	cr_expect_eq(p->ncclRedOpCreatePreMulSum(&op, &x, ncclNumTypes,
	                                         ncclScalarHostImmediate,
	                                         c.comm[0]),
	             ncclInternalError);
	/* If the scalar is not copied, its type is not checked. */
	cr_expect_eq(p->ncclRedOpCreatePreMulSum(&op, &x, ncclNumTypes,
	                                         ncclScalarDevice, c.comm[0]),
	             ncclSuccess);
	cr_expect_eq(p->ncclRedOpDestroy(op, c.comm[0]), ncclSuccess);
	cr_expect_eq(p->ncclRedOpDestroy(ncclSum, NULL), ncclInvalidArgument);
	cr_expect_eq(p->ncclRedOpDestroy(ncclAvg, c.comm[0]),
	             ncclInvalidArgument);
	cr_expect_eq(p->ncclRedOpDestroy(ncclNumOps, c.comm[0]),
	             ncclInvalidArgument);
	cr_expect_eq(p->ncclRedOpDestroy((ncclRedOp_t)-1, c.comm[0]),
	             ncclInvalidArgument);
	cr_expect_eq(p->ncclRedOpDestroy((ncclRedOp_t)70000, NULL),
	             ncclInvalidArgument);
	native_clique_destroy(&c);
}
