/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of large calls on buffers from malloc(), which other processes cannot
 * map
 *
 * Such a call is executed in parts if ranks are in several processes or
 * COHORT_HOST_SHARED is 1. The tests use these buffers on all ranks or on some.
 * The other ranks use device memory.
 */

#include <criterion/criterion.h>
#include <stdlib.h>

#include "support/native.h"
#include "support/place.h"

#define RANKS 3
/* Number of elements: several parts, the last of which is not full */
#define COUNT ((size_t)300 * 1024 + 7)

enum kind { ALL_REDUCE, REDUCE, BROADCAST };

/* The buffers of a call. Rank r's buffers are private if bit r is set. */
struct shape {
	enum kind kind;
	bool in_place;
	unsigned private;
};

struct buffers {
	struct native_clique c;
	struct shape shape;
	int32_t *send[RANKS], *recv[RANKS];
};

static int32_t *allocate(const struct buffers *b, int r)
{
	const struct platform *p = b->c.p;
	void *memory = malloc(COUNT * sizeof(int32_t));

	if (b->shape.private & 1U << r)
		return memory;
	free(memory);
	native_must(p->cudaSetDevice(r), "cudaSetDevice");
	native_must(p->cudaMalloc(&memory, COUNT * sizeof(int32_t)),
	            "cudaMalloc");
	return memory;
}

static void open_buffers(struct buffers *b, struct shape shape)
{
	size_t i;
	int r;

	b->shape = shape;
	native_clique_open(&b->c, native_open(RANKS), RANKS);
	for (r = 0; r < RANKS; r++) {
		b->send[r] = allocate(b, r);
		b->recv[r] = shape.in_place ? b->send[r] : allocate(b, r);
		for (i = 0; i < COUNT; i++) {
			b->recv[r][i] = -1;
			b->send[r][i] = (int32_t)i + r;
		}
	}
}

static void free_buffer(const struct buffers *b, int r, int32_t *buffer)
{
	if (b->shape.private & 1U << r)
		free(buffer);
	else
		native_must(b->c.p->cudaFree(buffer), "cudaFree");
}

static void free_buffers(const struct buffers *b)
{
	int r;

	for (r = 0; r < RANKS; r++) {
		if (!b->shape.in_place)
			free_buffer(b, r, b->recv[r]);
		free_buffer(b, r, b->send[r]);
	}
}

/* Make the call of rank @r on @count elements. The root is rank 1. */
static void make_call(struct buffers *b, int r, size_t count)
{
	const struct platform *p = b->c.p;
	const ncclComm_t comm = b->c.comm[r];
	const cudaStream_t stream = b->c.stream[r];

	switch (b->shape.kind) {
	case ALL_REDUCE:
		native_must(p->ncclAllReduce(b->send[r], b->recv[r], count,
		                             ncclInt32, ncclSum, comm, stream),
		            "ncclAllReduce");
		break;
	case REDUCE:
		native_must(p->ncclReduce(b->send[r], b->recv[r], count,
		                          ncclInt32, ncclSum, 1, comm, stream),
		            "ncclReduce");
		break;
	case BROADCAST:
		native_must(p->ncclBroadcast(b->send[r], b->recv[r], count,
		                             ncclInt32, 1, comm, stream),
		            "ncclBroadcast");
		break;
	}
}

static int32_t expected(const struct shape *s, int r, size_t i)
{
	if (s->kind == BROADCAST)
		return (int32_t)i + 1;
	if (s->kind == ALL_REDUCE || r == 1)
		return RANKS * (int32_t)i + 3;
	return s->in_place ? (int32_t)i + r : -1;
}

static void check_results(const struct buffers *b)
{
	size_t i;
	int r;

	for (r = 0; r < RANKS; r++)
		for (i = 0; i < COUNT; i++)
			cr_assert_eq(b->recv[r][i], expected(&b->shape, r, i),
			             "element %zu of rank %d is %d", i, r,
			             b->recv[r][i]);
}

static void check_call(struct shape shape)
{
	struct buffers b;
	int r;

	open_buffers(&b, shape);
	native_must(b.c.p->ncclGroupStart(), "ncclGroupStart");
	for (r = 0; r < RANKS; r++)
		make_call(&b, r, COUNT);
	native_must(b.c.p->ncclGroupEnd(), "ncclGroupEnd");
	for (r = 0; r < RANKS; r++)
		native_must(b.c.p->cudaStreamSynchronize(b.c.stream[r]),
		            "cudaStreamSynchronize");
	check_results(&b);
	native_clique_destroy(&b.c);
	free_buffers(&b);
}

static void check_kind(enum kind kind)
{
	unsigned private;

	for (private = 0; private < 1U << RANKS; private ++) {
		check_call((struct shape){ kind, false, private });
		check_call((struct shape){ kind, true, private });
	}
}

TestSuite(private_buffers, .timeout = 60);

Test(private_buffers, all_reduce_is_correct_whichever_buffers_are_private)
{
	check_kind(ALL_REDUCE);
}

Test(private_buffers, reduce_is_correct_whichever_buffers_are_private)
{
	check_kind(REDUCE);
}

Test(private_buffers, broadcast_is_correct_whichever_buffers_are_private)
{
	check_kind(BROADCAST);
}

/* Query every stream for a while, which also makes it progress. Return true if
 * one of them is done. */
static bool is_any_done(const struct buffers *b)
{
	int i, r;

	for (i = 0; i < 1000; i++)
		for (r = 0; r < RANKS; r++)
			if (b->c.p->cudaStreamQuery(b->c.stream[r]) ==
			    cudaSuccess)
				return true;
	return false;
}

/* The counts differ, but the first parts of the calls have equal counts. */
Test(private_buffers, private_buffers_are_unchanged_if_counts_differ)
{
	const struct shape shape = { ALL_REDUCE, false, 7 };
	struct buffers b;
	size_t i;
	int r;

	place_need_our_nccl("what calls that differ do");
	open_buffers(&b, shape);
	for (r = 0; r < RANKS; r++)
		make_call(&b, r, COUNT - (size_t)r);
	cr_assert(!is_any_done(&b));
	native_clique_abort(&b.c);
	for (r = 0; r < RANKS; r++)
		for (i = 0; i < COUNT; i++)
			cr_assert_eq(b.recv[r][i], -1);
	free_buffers(&b);
}

/* After the abort, no part of the call may change a buffer. */
Test(private_buffers, private_buffers_are_not_written_after_an_abort)
{
	const struct shape shape = { ALL_REDUCE, true, 7 };
	struct buffers b;
	size_t i;
	int r;

	open_buffers(&b, shape);
	for (r = 0; r < RANKS; r++)
		make_call(&b, r, COUNT);
	native_clique_abort(&b.c);
	for (r = 0; r < RANKS; r++)
		for (i = 0; i < COUNT; i++)
			b.recv[r][i] = -2;
	for (r = 0; r < RANKS; r++)
		for (i = 0; i < COUNT; i++)
			cr_assert_eq(b.recv[r][i], -2);
	free_buffers(&b);
}
