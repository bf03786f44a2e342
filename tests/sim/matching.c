/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests that the k-th collectives of all ranks match, however the ranks group
 * their calls
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

Test(matching, calls_in_a_group_match_single_calls_of_a_peer)
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
	/* Rank 0's group is not done, because its last call is not. */
	cr_assert_eq(p->cudaStreamQuery(c.stream[0]), cudaErrorNotReady);
	sum(&c, 1, &x[1][1]);
	for (r = 0; r < 2; r++) {
		finish(&c, r);
		cr_assert_eq(x[r][0], 3);
		cr_assert_eq(x[r][1], 30);
	}
	native_clique_destroy(&c);
}

Test(matching, groups_of_two_calls_match_groups_of_three)
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

/* Rank 1's count is so small that rank 1 contributes its data during its
 * call. */
Test(matching, collectives_of_different_counts_never_finish)
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

Test(matching, different_collectives_never_finish_even_after_equal_ones)
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

/* ---- random groups ---------------------------------------------------- */

#define CALLS 600
#define MOST 1040

struct ranker {
	struct native_clique *c;
	int rank;
	uint64_t seed; /* seed of the random groups */
	int wrong;
	int32_t value[CALLS][MOST];
};

/*
 * Return the number of elements of call @i. Two of these numbers are limits,
 * and two exceed the limits by one. The limits are the most that a rank
 * contributes during its call, and the most that the last rank reduces during
 * its call.
 */
static size_t count_of(int i)
{
	static const size_t counts[] = { 1, 12, 13, 512, 513, 3, MOST };

	return counts[i % 7];
}

/* Return the block size, in elements, to use if call @i is an all-gather or a
 * reduce-scatter. */
static size_t block_of(const struct ranker *x, int i)
{
	const size_t most = MOST / (size_t)x->c->n, count = count_of(i);

	return count < most ? count : most;
}

/* Make call @i, which is the same on all ranks. */
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
 * Return the expected value of element @k after call @i. Before the call, every
 * element is @i plus the rank.
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

/* Make all calls, in random groups of 0 to 6 calls. */
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

/* Run random groups. If @are_alike, all ranks group their calls in the same
 * way. */
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

Test(matching, two_ranks_match_if_each_makes_its_own_random_groups)
{
	random_groups(2, false);
}

Test(matching, two_ranks_match_if_both_make_the_same_random_groups)
{
	random_groups(2, true);
}

Test(matching, eight_ranks_match_if_each_makes_its_own_random_groups)
{
	random_groups(NATIVE_RANKS, false);
}

Test(matching, eight_ranks_match_if_all_make_the_same_random_groups)
{
	random_groups(NATIVE_RANKS, true);
}
