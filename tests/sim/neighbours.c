/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of groups of calls with adjacent buffers
 *
 * The buffers are adjacent on all ranks, on some or on none. Each call must
 * reduce its own elements and change nothing else.
 */

#include <criterion/criterion.h>
#include <stdlib.h>

#include "platform/platform.h"
#include "support/native.h"

/* Number of ranks. The calls take different code paths depending on whether
 * there are this many cores. */
#define RANKS 3
#define MOST_CALLS 6
#define UNTOUCHED (-77)

/* A call that every rank makes in the group */
struct shape {
	size_t count;
	ncclDataType_t type; /* a type of four bytes */
	ncclRedOp_t op;
	/* a broadcast from rank 1, not a reduction */
	bool is_broadcast;
};

/*
 * Number of free elements before each call's data, in the send and receive
 * buffers of each rank
 */
struct gaps {
	size_t send[RANKS][MOST_CALLS];
	size_t recv[RANKS][MOST_CALLS];
	size_t first[RANKS]; /* number of calls in the first group */
	/* number of calls in each later group, or 0 if there is only one
	 * group */
	size_t group[RANKS];
};

struct list {
	int ranks;
	bool in_place;
	const struct shape *shapes;
	size_t n;
	const struct gaps *gaps;
	size_t room; /* elements of each buffer */
	int32_t *send[RANKS], *recv[RANKS];
};

/* Return a small number. Sums of these numbers are exact in both types. */
static int number(int rank, size_t call, size_t i)
{
	return (int)((i * 7 + call * 31) % 1000) + rank * 1000;
}

static void put(int32_t *at, ncclDataType_t type, int value)
{
	if (type == ncclFloat32)
		*(float *)at = (float)value;
	else
		*at = value;
}

static int get(const int32_t *at, ncclDataType_t type)
{
	return type == ncclFloat32 ? (int)*(const float *)at : (int)*at;
}

static int expected(const struct list *l, size_t call, size_t i)
{
	const struct shape *s = &l->shapes[call];
	const int first = number(0, call, i),
		  last = number(l->ranks - 1, call, i);

	if (s->is_broadcast)
		return number(1, call, i);
	return s->op == ncclMax ? last : (first + last) * l->ranks / 2;
}

static size_t begin_of(const struct list *l, const size_t gaps[MOST_CALLS],
                       size_t call)
{
	size_t at = gaps[0], k;

	for (k = 0; k < call; k++)
		at += l->shapes[k].count + gaps[k + 1];
	return at;
}

static void make(struct list *l, int r)
{
	size_t i;

	l->send[r] = malloc(l->room * sizeof(int32_t));
	l->recv[r] =
		l->in_place ? l->send[r] : malloc(l->room * sizeof(int32_t));
	cr_assert(l->send[r] && l->recv[r]);
	for (i = 0; i < l->room; i++)
		l->send[r][i] = l->recv[r][i] = UNTOUCHED;
}

static void fill(struct list *l, int r)
{
	size_t k, i, at;

	for (k = 0; k < l->n; k++) {
		at = begin_of(l, l->gaps->send[r], k);
		for (i = 0; i < l->shapes[k].count; i++)
			put(&l->send[r][at + i], l->shapes[k].type,
			    number(r, k, i));
	}
}

static const size_t *recv_gaps(const struct list *l, int r)
{
	return l->in_place ? l->gaps->send[r] : l->gaps->recv[r];
}

static void call(const struct list *l, const struct native_clique *clique,
                 int r)
{
	const size_t group = l->gaps->group[r] ? l->gaps->group[r] : l->n;
	const size_t first = l->gaps->first[r];
	const struct platform *p = clique->p;
	const struct shape *s;
	const int32_t *send;
	int32_t *recv;
	size_t k;

	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	for (k = 0; k < l->n; k++) {
		if (k && k >= first && (k - first) % group == 0) {
			cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
			cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
		}
		s = &l->shapes[k];
		send = &l->send[r][begin_of(l, l->gaps->send[r], k)];
		recv = &l->recv[r][begin_of(l, recv_gaps(l, r), k)];
		cr_assert_eq(s->is_broadcast
		                     ? p->ncclBroadcast(send, recv, s->count,
		                                        s->type, 1,
		                                        clique->comm[r],
		                                        clique->stream[r])
		                     : p->ncclAllReduce(send, recv, s->count,
		                                        s->type, s->op,
		                                        clique->comm[r],
		                                        clique->stream[r]),
		             ncclSuccess);
	}
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
}

/* Check and reset the received elements. All other elements must be
 * unchanged. */
static void check(struct list *l, int r)
{
	const struct shape *s;
	size_t k, i;
	int32_t *at;

	for (k = 0; k < l->n; k++) {
		s = &l->shapes[k];
		at = &l->recv[r][begin_of(l, recv_gaps(l, r), k)];
		for (i = 0; i < s->count; i++) {
			cr_assert_eq(get(&at[i], s->type), expected(l, k, i),
			             "rank %d, call %zu, element %zu: %d, not "
			             "%d",
			             r, k, i, get(&at[i], s->type),
			             expected(l, k, i));
			at[i] = UNTOUCHED;
		}
	}
	for (i = 0; i < l->room; i++)
		cr_assert_eq(l->recv[r][i], UNTOUCHED,
		             "rank %d: element %zu was touched", r, i);
}

static void run_on(int ranks, bool in_place, const struct shape *shapes,
                   size_t n, const struct gaps *gaps)
{
	struct list l = { ranks, in_place, shapes, n, gaps, .room = 64 };
	struct native_clique clique;
	size_t k;
	int r;

	for (k = 0; k < n; k++)
		l.room += shapes[k].count + 64;
	native_clique_open(&clique, native_open(RANKS), ranks);
	for (r = 0; r < ranks; r++)
		make(&l, r);
	for (k = 0; k < 3; k++) {
		for (r = 0; r < ranks; r++)
			fill(&l, r);
		for (r = 0; r < ranks; r++)
			call(&l, &clique, (r + (int)k) % ranks);
		for (r = 0; r < ranks; r++)
			cr_assert_eq(clique.p->cudaStreamSynchronize(
					     clique.stream[r]),
			             cudaSuccess);
		for (r = 0; r < ranks; r++)
			check(&l, r);
	}
	native_clique_destroy(&clique);
	for (r = 0; r < ranks; r++) {
		free(l.send[r]);
		if (!in_place)
			free(l.recv[r]);
	}
}

static void run(const struct shape *shapes, size_t n, const struct gaps *gaps)
{
	int ranks;

	for (ranks = 2; ranks <= RANKS; ranks++) {
		run_on(ranks, false, shapes, n, gaps);
		run_on(ranks, true, shapes, n, gaps);
	}
}

static const struct gaps none;

/* Run small calls, and then calls that are executed in pieces, with @gaps
 * between their buffers. */
static void run_sizes(const struct gaps *gaps)
{
	static const struct shape small[] = {
		{ 16, ncclFloat32, ncclSum, false },
		{ 32, ncclFloat32, ncclSum, false },
		{ 16, ncclFloat32, ncclSum, false },
	};
	static const struct shape large[] = {
		{ 4096, ncclFloat32, ncclSum, false },
		{ 16384, ncclFloat32, ncclSum, false },
		{ 16, ncclFloat32, ncclSum, false },
		{ 100000, ncclFloat32, ncclSum, false },
		{ 64, ncclFloat32, ncclSum, false },
	};

	static const struct shape rising[] = {
		{ 64, ncclFloat32, ncclSum, false },
		{ 4096, ncclFloat32, ncclSum, false },
		{ 48, ncclFloat32, ncclSum, false },
		{ 30000, ncclFloat32, ncclSum, false },
	};

	run(small, 3, gaps);
	run(large, 5, gaps);
	run(rising, 4, gaps);
}

Test(neighbours, grouped_calls_reduce_adjacent_buffers, .timeout = 30)
{
	run_sizes(&none);
}

Test(neighbours, calls_are_reduced_if_send_buffers_of_a_rank_have_gaps,
     .timeout = 30)
{
	run_sizes(&(struct gaps){ .send = { { 0 }, { 0, 16 } } });
}

Test(neighbours, calls_are_reduced_if_recv_buffers_of_a_rank_have_gaps,
     .timeout = 30)
{
	run_sizes(&(struct gaps){ .recv = { { 0 }, { 0 }, { 0, 0, 1 } } });
}

Test(neighbours, calls_are_reduced_if_buffers_of_all_ranks_have_gaps,
     .timeout = 30)
{
	static const struct gaps gaps = {
		.send = { { 3, 1, 16 }, { 2, 16, 16 }, { 0, 5, 3 } },
		.recv = { { 0, 16, 1 }, { 0, 3, 7 }, { 16, 16, 16 } },
	};

	run_sizes(&gaps);
}

Test(neighbours, adjacent_buffers_may_be_smaller_than_a_cache_line,
     .timeout = 30)
{
	static const struct shape shapes[] = {
		{ 5, ncclFloat32, ncclSum, false },
		{ 1000, ncclFloat32, ncclSum, false },
		{ 1, ncclFloat32, ncclSum, false },
		{ 17, ncclFloat32, ncclSum, false },
	};

	run(shapes, 4, &none);
}

/* Run calls of @count elements, each adjacent to a call of another kind. */
static void run_kinds(size_t count)
{
	const struct shape shapes[] = {
		{ count, ncclInt32, ncclSum, false },
		{ count, ncclFloat32, ncclSum, false },
		{ count, ncclFloat32, ncclMax, false },
		{ count, ncclInt32, ncclMax, false },
		{ count, ncclInt32, ncclSum, false },
		{ count, ncclInt32, ncclSum, true },
	};

	run(shapes, 6, &none);
}

/* A call of 16 elements is executed as a whole, and a call of 2,000 elements in
 * pieces. */
Test(neighbours, adjacent_calls_may_be_of_different_kinds, .timeout = 30)
{
	run_kinds(16);
	run_kinds(2000);
}

/* Each rank groups the calls differently, even if the buffers are not adjacent
 * on all ranks. */
Test(neighbours, ranks_may_group_adjacent_calls_differently, .timeout = 30)
{
	run_sizes(&(struct gaps){ .group = { 0, 1, 2 } });
	run_sizes(&(struct gaps){ .group = { 2, 0, 1 } });
	run_sizes(&(struct gaps){ .group = { 3, 2, 0 } });
	run_sizes(&(struct gaps){ .send = { { 0, 16 } }, .group = { 0, 2 } });
}

/* All ranks make the same calls in groups of one size. Only the size of the
 * first group differs between ranks. */
Test(neighbours, back_to_back_calls_work_if_first_groups_differ_in_size,
     .timeout = 30)
{
	static const struct shape shapes[] = {
		{ 1000, ncclInt32, ncclSum, false },
		{ 1000, ncclInt32, ncclSum, false },
		{ 1000, ncclInt32, ncclSum, false },
		{ 1000, ncclInt32, ncclSum, false },
		{ 1000, ncclInt32, ncclSum, false },
		{ 1000, ncclInt32, ncclSum, false },
	};

	run(shapes, 6,
	    &(struct gaps){ .first = { 0, 1 }, .group = { 3, 3, 3 } });
	run(shapes, 6,
	    &(struct gaps){ .first = { 2, 0, 1 }, .group = { 3, 3, 3 } });
}
