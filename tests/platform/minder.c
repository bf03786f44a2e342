/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What is queued is done though nobody ever looks: the program only reads memory
 */

#include <criterion/criterion.h>
#include <sched.h>
#include <stdlib.h>

#include "platform/platform.h"
#include "support/native.h"

#define RANKS 2
#define COUNT ((size_t)1 << 20)
#define TIMES 20

static const struct platform *p;
static struct native_clique clique;
static uint32_t *words;

static void open_all(void)
{
	p = native_open(RANKS);
	native_clique_open(&clique, p, RANKS);
	native_must(p->cudaMallocHost((void **)&words, RANKS * sizeof(*words)),
	            "cudaMallocHost");
	words[0] = words[1] = 0;
}

static void close_all(void)
{
	p->cudaFreeHost(words);
	native_clique_destroy(&clique);
}

TestSuite(unwatched, .init = open_all, .fini = close_all, .timeout = 60);

static void read_until(const uint32_t *word, uint32_t value)
{
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value)
		sched_yield();
}

static void mark(int r, uint32_t value)
{
	native_must(p->mark(clique.stream[r], &words[r], value), "mark");
}

static void read_all_until(uint32_t value)
{
	int r;

	for (r = 0; r < RANKS; r++)
		read_until(&words[r], value);
}

/* One rank queues all of its own first: what it has behind the first of them goes
 * on with what the other one does. */
Test(unwatched, small_operations_of_ranks_one_behind_the_other)
{
	int r, i;

	for (r = 0; r < RANKS; r++) {
		for (i = 0; i < TIMES; i++) {
			native_must(native_sum(&clique, r), "ncclAllReduce");
			mark(r, (uint32_t)i + 1);
		}
	}
	read_all_until(TIMES);
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(native_wrong(&clique, r), 0);
}

/* Larger than a call does on its way. */
Test(unwatched, a_large_operation)
{
	float *x[RANKS];
	int r;

	for (r = 0; r < RANKS; r++) {
		x[r] = calloc(COUNT, sizeof(*x[r]));
		cr_assert_not_null(x[r]);
		x[r][COUNT - 1] = (float)(r + 1);
	}
	for (r = 0; r < RANKS; r++) {
		native_must(p->ncclAllReduce(x[r], x[r], COUNT, ncclFloat32,
		                             ncclSum, clique.comm[r],
		                             clique.stream[r]),
		            "ncclAllReduce");
		mark(r, 1);
	}
	read_all_until(1);
	for (r = 0; r < RANKS; r++) {
		cr_assert_eq(x[r][COUNT - 1], 3);
		free(x[r]);
	}
}
