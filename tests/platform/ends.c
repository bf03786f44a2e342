/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Words that a launch of the host platform sets as it begins and as it ends
 */

#include <criterion/criterion.h>

#include "support/native.h"

static struct native_clique q;
static const struct platform *p;
static struct native_gate gate;
static uint32_t *words; /* started, done */

static void open_two(void)
{
	p = native_open_host(2);
	native_clique_open(&q, p, 2);
	native_fill(&q);
	native_must(p->cudaHostAlloc((void **)&words, 2 * sizeof(*words),
	                             cudaHostAllocPortable),
	            "cudaHostAlloc");
	words[0] = words[1] = 0;
}

static void close_two(void)
{
	native_clique_destroy(&q);
	native_must(p->cudaFreeHost(words), "cudaFreeHost");
}

TestSuite(ends, .init = open_two, .fini = close_two, .timeout = 10);

static uint32_t started(void)
{
	return __atomic_load_n(&words[0], __ATOMIC_ACQUIRE);
}

static uint32_t done(void)
{
	return __atomic_load_n(&words[1], __ATOMIC_ACQUIRE);
}

static void ahead(uint32_t value)
{
	p->ends_ahead(q.stream[0], &words[0], &words[1], value);
}

static void sync_both(void)
{
	cr_assert_eq(p->cudaStreamSynchronize(q.stream[0]), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(q.stream[1]), cudaSuccess);
}

Test(ends, are_set_as_the_stream_comes_to_each)
{
	native_gate_hold(p, &gate, q.stream[0]);
	ahead(7);
	cr_assert_eq(native_sum(&q, 0), ncclSuccess);
	cr_assert_eq(p->ends_behind(), cudaSuccess);
	native_gate_reached(&gate);
	cr_assert_eq(started(), 0);
	native_gate_open(&gate);
	while (started() != 7)
		p->progress(0, q.stream[0], &words[0], 7, UINT64_MAX);
	cr_assert_eq(done(), 0, "the other rank has not come");
	cr_assert_eq(native_sum(&q, 1), ncclSuccess);
	sync_both();
	cr_assert_eq(done(), 7);
	cr_assert_eq(native_wrong(&q, 0), 0);
}

Test(ends, of_the_last_to_come_are_set_by_its_call)
{
	cr_assert_eq(native_sum(&q, 1), ncclSuccess);
	ahead(9);
	cr_assert_eq(native_sum(&q, 0), ncclSuccess);
	cr_assert_eq(started(), 9);
	cr_assert_eq(done(), 9);
	cr_assert_eq(native_wrong(&q, 0), 0);
	cr_assert_eq(p->ends_behind(), cudaSuccess);
	sync_both();
}

Test(ends, of_a_group_are_those_of_all_its_calls)
{
	int i;

	ahead(3);
	p->ncclGroupStart();
	for (i = 0; i < 3; i++)
		cr_assert_eq(native_sum(&q, 0), ncclSuccess);
	cr_assert_eq(started(), 0);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	cr_assert_eq(p->ends_behind(), cudaSuccess);
	cr_assert_eq(started(), 3);
	for (i = 0; i < 3; i++) {
		cr_assert_eq(done(), 0);
		cr_assert_eq(native_sum(&q, 1), ncclSuccess);
	}
	sync_both();
	cr_assert_eq(done(), 3);
}

/* Nothing is launched for it. */
Test(ends, of_nothing_are_marked)
{
	native_gate_hold(p, &gate, q.stream[0]);
	ahead(4);
	cr_assert_eq(p->ncclAllReduce(NULL, NULL, 0, ncclInt32, ncclSum,
	                              q.comm[0], q.stream[0]),
	             ncclSuccess);
	cr_assert_eq(p->ends_behind(), cudaSuccess);
	native_gate_reached(&gate);
	cr_assert_eq(started(), 0, "what is before it is not done");
	native_gate_open(&gate);
	sync_both();
	cr_assert_eq(started(), 4);
	cr_assert_eq(done(), 4);
}

/* Of a call that has failed: the next one is another's. */
Test(ends, that_are_taken_back_are_not_set)
{
	ahead(5);
	cr_assert_eq(p->ncclAllReduce(q.send[0], q.recv[0], 1, ncclInt32,
	                              (ncclRedOp_t)99, q.comm[0], q.stream[0]),
	             ncclInvalidArgument);
	p->ends_ahead(q.stream[0], NULL, NULL, 0);
	cr_assert_eq(p->ends_behind(), cudaSuccess);
	native_sum_all(&q);
	cr_assert_eq(started(), 0);
	cr_assert_eq(done(), 0);
}

Test(ends, are_of_the_stream_alone)
{
	ahead(6);
	cr_assert_eq(native_sum(&q, 1), ncclSuccess);
	cr_assert_eq(native_sum(&q, 0), ncclSuccess);
	cr_assert_eq(done(), 6, "its own launch has set it");
	cr_assert_eq(p->ends_behind(), cudaSuccess);
	sync_both();
}

/* Who waits for the word on a stream goes on, as behind a mark. */
Test(ends, are_awaited_as_marks_are)
{
	cudaStream_t other = native_stream(p, 0);

	ahead(8);
	cr_assert_eq(native_sum(&q, 0), ncclSuccess);
	cr_assert_eq(p->ends_behind(), cudaSuccess);
	cr_assert_eq(p->await_mark(other, &words[1], 8), cudaSuccess);
	cr_assert_eq(p->cudaStreamQuery(other), cudaErrorNotReady);
	cr_assert_eq(native_sum(&q, 1), ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(other), cudaSuccess);
	cr_assert_eq(native_wrong(&q, 0), 0);
	sync_both();
	cr_assert_eq(p->cudaStreamDestroy(other), cudaSuccess);
}

/* The stream comes to a launch of a rank that was aborted, too. */
Test(ends, are_set_when_an_abort_ends_it)
{
	ahead(2);
	cr_assert_eq(native_sum(&q, 0), ncclSuccess);
	cr_assert_eq(p->ends_behind(), cudaSuccess);
	cr_assert_eq(done(), 0);
	cr_assert_eq(p->ncclCommAbort(q.comm[0]), ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(q.stream[0]), cudaSuccess);
	cr_assert_eq(done(), 2);
	cr_assert_eq(p->ncclCommAbort(q.comm[1]), ncclSuccess);
	native_clique_open(&q, p, 2);
}
