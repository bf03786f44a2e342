/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The k-th collective of every rank is the same operation, however the ranks
 * group their calls
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "support/native.h"
#include "support/stress.h"

static const struct platform *p;

static void open_platform(void)
{
	p = native_open(NATIVE_RANKS);
}

TestSuite(matching, .init = open_platform, .timeout = 60);

/* Sum one number in place. */
static void sum(struct native_clique *c, int r, int32_t *value)
{
	cr_assert_eq(p->ncclAllReduce(value, value, 1, ncclInt32, ncclSum,
	                              c->comm[r], c->stream[r]),
	             ncclSuccess);
}

static void finish(const struct native_clique *c, int r)
{
	cr_assert_eq(p->cudaStreamSynchronize(c->stream[r]), cudaSuccess);
}

Test(matching, pairs_calls_in_a_group_here_with_single_calls_there)
{
	struct native_clique c;
	int32_t x[2][2] = { { 1, 10 }, { 2, 20 } };
	int r;

	native_clique_open(&c, p, 2);
	p->ncclGroupStart();
	sum(&c, 0, &x[0][0]);
	sum(&c, 0, &x[0][1]);
	p->ncclGroupEnd();
	sum(&c, 1, &x[1][0]);
	finish(&c, 1);
	cr_assert_eq(x[1][0], 3);
	/* The group is not done before its last call is. */
	cr_assert_eq(p->cudaStreamQuery(c.stream[0]), cudaErrorNotReady);
	sum(&c, 1, &x[1][1]);
	for (r = 0; r < 2; r++) {
		finish(&c, r);
		cr_assert_eq(x[r][0], 3);
		cr_assert_eq(x[r][1], 30);
	}
	native_clique_destroy(&c);
}

Test(matching, pairs_groups_of_two_here_with_groups_of_three_there)
{
	struct native_clique c;
	int32_t x[2][12];
	int i, r;

	native_clique_open(&c, p, 2);
	for (r = 0; r < 2; r++)
		for (i = 0; i < 12; i++) {
			if (i % (2 + r) == 0)
				p->ncclGroupStart();
			x[r][i] = (r + 1) * (i + 1);
			sum(&c, r, &x[r][i]);
			if (i % (2 + r) == 1 + r)
				cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
		}
	for (r = 0; r < 2; r++) {
		finish(&c, r);
		for (i = 0; i < 12; i++)
			cr_assert_eq(x[r][i], 3 * (i + 1));
	}
	native_clique_destroy(&c);
}

/* One of the ranks could contribute its data at the call. */
Test(matching, makes_different_counts_wait_for_ever)
{
	struct native_clique c;
	int32_t x[2][13] = { { 1 }, { 2 } };
	int r;

	native_clique_open(&c, p, 2);
	for (r = 0; r < 2; r++)
		p->ncclAllReduce(x[r], x[r], r ? 12 : 13, ncclInt32, ncclSum,
		                 c.comm[r], c.stream[r]);
	for (r = 0; r < 2; r++)
		cr_assert_eq(p->cudaStreamQuery(c.stream[r]),
		             cudaErrorNotReady);
	native_clique_abort(&c);
	for (r = 0; r < 2; r++)
		cr_assert_eq(x[r][0], r + 1);
}

Test(matching, makes_different_calls_wait_for_ever_behind_equal_ones)
{
	struct native_clique c;
	int32_t x[2][2] = { { 1, 10 }, { 2, 20 } };
	int r;

	native_clique_open(&c, p, 2);
	for (r = 0; r < 2; r++) {
		p->ncclGroupStart();
		sum(&c, r, &x[r][0]);
		p->ncclAllReduce(&x[r][1], &x[r][1], 1, ncclInt32,
		                 r ? ncclSum : ncclMax, c.comm[r], c.stream[r]);
		p->ncclGroupEnd();
	}
	for (r = 0; r < 2; r++)
		cr_assert_eq(p->cudaStreamQuery(c.stream[r]),
		             cudaErrorNotReady);
	native_clique_abort(&c);
	for (r = 0; r < 2; r++) {
		cr_assert_eq(x[r][0], 3);
		cr_assert_eq(x[r][1], (r + 1) * 10);
	}
}

/* ---- at random -------------------------------------------------------- */

#define CALLS 600
#define MOST 1040

struct ranker {
	struct native_clique *c;
	int rank;
	uint64_t seed; /* for the groups */
	int wrong;
	int32_t value[CALLS][MOST];
};

/*
 * The most elements that a rank contributes at its call, and one more; the most
 * that the last rank reduces at its call, and one more; and more than that.
 */
static size_t count_of(int i)
{
	static const size_t counts[] = { 1, 12, 13, 512, 513, 3, MOST };

	return counts[i % 7];
}

/* For a collective of blocks: the elements of each block. */
static size_t block_of(const struct ranker *x, int i)
{
	const size_t most = MOST / (size_t)x->c->n, count = count_of(i);

	return count < most ? count : most;
}

/* The i-th call, which all ranks make alike. */
static void call(struct ranker *x, int i)
{
	struct native_clique *c = x->c;
	const size_t count = count_of(i), block = block_of(x, i);
	const ncclComm_t comm = c->comm[x->rank];
	const cudaStream_t stream = c->stream[x->rank];
	int32_t *v = x->value[i], *own = v + (size_t)x->rank * block;

	if (i % 5 == 0)
		p->ncclAllReduce(v, v, count, ncclInt32, ncclSum, comm, stream);
	else if (i % 5 == 1)
		p->ncclBcast(v, count, ncclInt32, i % c->n, comm, stream);
	else if (i % 5 == 2)
		p->ncclReduce(v, v, count, ncclInt32, ncclMax, i % c->n, comm,
		              stream);
	else if (i % 5 == 3)
		p->ncclAllGather(own, v, block, ncclInt32, comm, stream);
	else
		p->ncclReduceScatter(v, own, block, ncclInt32, ncclSum, comm,
		                     stream);
}

/*
 * Every element begins as the call's number and the rank: what the @k-th must
 * be afterwards.
 */
static int32_t expected(const struct ranker *x, int i, int k)
{
	const int n = x->c->n, block = k / (int)block_of(x, i);
	const int32_t before = i + x->rank, sum = n * i + n * (n - 1) / 2;

	if (i % 5 < 3 && k >= (int)count_of(i))
		return before;
	switch (i % 5) {
	case 0:
		return sum;
	case 1:
		return i + i % n;
	case 2:
		return x->rank == i % n ? i + n - 1 : before;
	case 3:
		return block < n ? i + block : before;
	default:
		return block == x->rank ? sum : before;
	}
}

static int wrong_of(const struct ranker *x, int i)
{
	int k, wrong = 0;

	for (k = 0; k < MOST; k++)
		wrong += x->value[i][k] != expected(x, i, k);
	return wrong;
}

/* Make the calls in random groups of 0 to 6. */
static void *call_in_groups(void *user)
{
	struct ranker *x = user;
	uint64_t seed = x->seed;
	int i, k, left = 0;

	p->ncclGroupStart();
	for (i = 0; i < CALLS; i++) {
		for (k = 0; k < MOST; k++)
			x->value[i][k] = i + x->rank;
		while (left == 0) {
			p->ncclGroupEnd();
			left = (int)(stress_random(&seed) % 7);
			p->ncclGroupStart();
		}
		call(x, i);
		left--;
	}
	x->wrong += p->ncclGroupEnd() != ncclSuccess;
	p->cudaStreamSynchronize(x->c->stream[x->rank]);
	for (i = 0; i < CALLS; i++)
		x->wrong += wrong_of(x, i);
	return NULL;
}

/* All ranks group their calls alike, or each rank in its own way. */
static void random_groups(int n, bool are_alike)
{
	static struct ranker x[NATIVE_RANKS];
	struct native_clique c;
	pthread_t threads[NATIVE_RANKS];
	int r;

	native_clique_open(&c, p, n);
	for (r = 0; r < n; r++) {
		x[r].c = &c;
		x[r].rank = r;
		x[r].seed = are_alike ? 0 : (uint64_t)r;
		pthread_create(&threads[r], NULL, call_in_groups, &x[r]);
	}
	for (r = 0; r < n; r++) {
		pthread_join(threads[r], NULL);
		cr_expect_eq(x[r].wrong, 0, "rank %d: %d wrong", r, x[r].wrong);
	}
	native_clique_destroy(&c);
}

Test(matching, holds_for_random_groups_of_two_threads)
{
	random_groups(2, false);
}

Test(matching, holds_for_random_groups_that_two_threads_make_alike)
{
	random_groups(2, true);
}

Test(matching, holds_for_random_groups_of_eight_threads)
{
	random_groups(NATIVE_RANKS, false);
}

Test(matching, holds_for_random_groups_that_eight_threads_make_alike)
{
	random_groups(NATIVE_RANKS, true);
}
