/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of ncclGroupSimulateEnd()
 */

#include <criterion/criterion.h>

#include "support/native.h"

static const struct platform *p;

static void open_platform(void)
{
	p = native_open(NATIVE_RANKS);
}

TestSuite(simulate, .init = open_platform, .timeout = 60);

static ncclSimInfo_t info(void)
{
	return (ncclSimInfo_t){
		.size = sizeof(ncclSimInfo_t),
		.magic = NCCL_SIM_INFO_MAGIC,
		.version = NCCL_CONFIG_VERSION,
		.estimatedTime = NCCL_UNDEF_FLOAT,
	};
}

static float simulated_us(struct native_clique *c, size_t count)
{
	ncclSimInfo_t i = info();
	int r;

	p->ncclGroupStart();
	for (r = 0; r < c->n; r++)
		p->ncclAllReduce(NULL, NULL, count, ncclInt32, ncclSum,
		                 c->comm[r], c->stream[r]);
	cr_assert_eq(p->ncclGroupSimulateEnd(&i), ncclSuccess);
	return i.estimatedTime;
}

Test(simulate, simulated_group_runs_nothing_and_estimates_its_time)
{
	struct native_clique c;
	float small, large;

	native_clique_open(&c, p, 3);
	small = simulated_us(&c, 1);
	large = simulated_us(&c, 1000000000);
	cr_assert_gt(small, 0);
	cr_assert_gt(large, 10 * small);
	cr_assert_eq(p->cudaStreamQuery(c.stream[0]), cudaSuccess);
	native_sum_all(&c);
	native_clique_destroy(&c);
}

Test(simulate, simulated_group_end_checks_the_magic_number)
{
	ncclSimInfo_t good = info(), i;

	cr_expect_eq(p->ncclGroupSimulateEnd(&good), ncclInvalidUsage);
	cr_expect_eq(p->ncclGroupSimulateEnd(NULL), ncclInvalidUsage);
	p->ncclGroupStart();
	cr_expect_eq(p->ncclGroupSimulateEnd(&good), ncclSuccess);
	cr_expect_eq(good.estimatedTime, NCCL_UNDEF_FLOAT);
	p->ncclGroupStart();
	i = info();
	i.magic++;
	cr_expect_eq(p->ncclGroupSimulateEnd(&i), ncclInvalidArgument);
	/* The magic number is checked only if the size includes it. */
	p->ncclGroupStart();
	i = info();
	i.size = 8;
	cr_expect_eq(p->ncclGroupSimulateEnd(&i), ncclInvalidArgument);
	p->ncclGroupStart();
	i.size = 12;
	cr_expect_eq(p->ncclGroupSimulateEnd(&i), ncclSuccess);
	/* In an inner group, ncclGroupSimulateEnd() checks nothing. */
	p->ncclGroupStart();
	p->ncclGroupStart();
	i.magic++;
	cr_expect_eq(p->ncclGroupSimulateEnd(&i), ncclSuccess);
	cr_expect_eq(p->ncclGroupEnd(), ncclSuccess);
	/* Each ncclGroupSimulateEnd() has ended its group, so none is open. */
	cr_expect_eq(p->ncclGroupEnd(), ncclInvalidUsage);
}

Test(simulate, simulated_group_end_that_fails_drops_the_group)
{
	struct native_clique c;
	ncclSimInfo_t i = info();
	int r;

	native_clique_open(&c, p, 2);
	i.magic = 0;
	p->ncclGroupStart();
	for (r = 0; r < 2; r++)
		native_sum(&c, r);
	cr_assert_eq(p->ncclGroupSimulateEnd(&i), ncclInvalidArgument);
	cr_assert_eq(native_touched(&c, 0), 0);
	native_sum_all(&c);
	native_clique_destroy(&c);
}

Test(simulate, ncclGroupSimulateEnd_without_info_runs_the_group)
{
	struct native_clique c;
	int r;

	native_clique_open(&c, p, 2);
	p->ncclGroupStart();
	for (r = 0; r < 2; r++)
		native_sum(&c, r);
	cr_assert_eq(p->ncclGroupSimulateEnd(NULL), ncclSuccess);
	for (r = 0; r < 2; r++) {
		p->cudaStreamSynchronize(c.stream[r]);
		cr_assert_eq(native_wrong(&c, r), 0);
	}
	native_clique_destroy(&c);
}
