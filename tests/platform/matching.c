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

Test(matching, two_calls_in_a_group_here_and_alone_there)
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
	/* The group is not done before its last call. */
	cr_assert_eq(p->cudaStreamQuery(c.stream[0]), cudaErrorNotReady);
	sum(&c, 1, &x[1][1]);
	for (r = 0; r < 2; r++) {
		finish(&c, r);
		cr_assert_eq(x[r][0], 3);
		cr_assert_eq(x[r][1], 30);
	}
	native_clique_destroy(&c);
}

Test(matching, groups_of_two_here_and_of_three_there)
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

/* One of them could bring its data with it. */
Test(matching, counts_that_differ_wait_for_ever)
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

Test(matching, calls_that_differ_wait_for_ever_behind_those_that_do_not)
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
	int wrong;
	int32_t value[CALLS][MOST];
};

/* What a rank brings with it, and one more than that; the last to arrive does at
 * once, and one more; and more. */
static size_t count_of(int i)
{
	static const size_t counts[] = { 1, 12, 13, 512, 513, 3, MOST };

	return counts[i % 7];
}

/* The i-th call; the same of all ranks. */
static void call(struct ranker *x, int i)
{
	struct native_clique *c = x->c;
	const size_t count = count_of(i);
	int32_t *v = x->value[i];

	if (i % 3 == 0)
		p->ncclAllReduce(v, v, count, ncclInt32, ncclSum,
		                 c->comm[x->rank], c->stream[x->rank]);
	else if (i % 3 == 1)
		p->ncclBcast(v, count, ncclInt32, i % c->n, c->comm[x->rank],
		             c->stream[x->rank]);
	else
		p->ncclReduce(v, v, count, ncclInt32, ncclMax, i % c->n,
		              c->comm[x->rank], c->stream[x->rank]);
}

/* Every element begins as the call's number and the rank. */
static int32_t expected(const struct ranker *x, int i)
{
	const int n = x->c->n;

	if (i % 3 == 0)
		return n * i + n * (n - 1) / 2;
	if (i % 3 == 1)
		return i + i % n;
	return x->rank == i % n ? i + n - 1 : i + x->rank;
}

static int wrong_of(const struct ranker *x, int i)
{
	int k, wrong = 0;

	for (k = 0; k < MOST; k++)
		wrong += x->value[i][k] !=
		         (k < (int)count_of(i) ? expected(x, i) : i + x->rank);
	return wrong;
}

/* In groups of 0 to 6 calls, at random, and each rank otherwise. */
static void *call_in_groups(void *user)
{
	struct ranker *x = user;
	uint64_t seed = (uint64_t)x->rank;
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

static void random_groups(int n)
{
	static struct ranker x[NATIVE_RANKS];
	struct native_clique c;
	pthread_t threads[NATIVE_RANKS];
	int r;

	native_clique_open(&c, p, n);
	for (r = 0; r < n; r++) {
		x[r].c = &c;
		x[r].rank = r;
		pthread_create(&threads[r], NULL, call_in_groups, &x[r]);
	}
	for (r = 0; r < n; r++) {
		pthread_join(threads[r], NULL);
		cr_expect_eq(x[r].wrong, 0, "rank %d: %d wrong", r, x[r].wrong);
	}
	native_clique_destroy(&c);
}

Test(matching, random_groups_of_two_threads)
{
	random_groups(2);
}

Test(matching, random_groups_of_eight_threads)
{
	random_groups(NATIVE_RANKS);
}
