/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of marks around a rank's call, which are words that show when the
 * rank's stream has reached the call and when the call is done
 */

#include <criterion/criterion.h>
#include <string.h>

#include "support/native.h"

static struct native_clique q;
static const struct platform *p;
static struct native_gate gate;
static uint32_t *words; /* start mark and end mark */

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

static void sum(void)
{
	cr_assert_eq(native_sum(&q, 0), ncclSuccess);
}

static void sum_thrice(void)
{
	int i;

	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	for (i = 0; i < 3; i++)
		sum();
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
}

static void sum_after_rank_1(void)
{
	cr_assert_eq(native_sum(&q, 1), ncclSuccess);
	sum();
}

static void sum_nothing(void)
{
	cr_assert_eq(p->ncclAllReduce(NULL, NULL, 0, ncclInt32, ncclSum,
	                              q.comm[0], q.stream[0]),
	             ncclSuccess);
}

/* Launch @call on rank 0, between two marks with @value. */
static void launched(void (*call)(void), uint32_t value)
{
	native_must(p->mark(q.stream[0], &words[0], value), "mark");
	call();
	native_must(p->mark(q.stream[0], &words[1], value), "mark");
}

static void sync_both(void)
{
	cr_assert_eq(p->cudaStreamSynchronize(q.stream[0]), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(q.stream[1]), cudaSuccess);
}

Test(ends, start_and_end_marks_are_set_as_the_stream_reaches_them)
{
	native_gate_hold(p, &gate, q.stream[0]);
	launched(sum, 7);
	native_gate_reached(&gate);
	cr_assert_eq(started(), 0);
	native_gate_open(&gate);
	while (started() != 7)
		p->progress(0, q.stream[0], &words[0], 7, UINT64_MAX);
	cr_assert_eq(done(), 0, "the other rank has not called");
	cr_assert_eq(native_sum(&q, 1), ncclSuccess);
	sync_both();
	cr_assert_eq(done(), 7);
	cr_assert_eq(native_wrong(&q, 0), 0);
}

Test(ends, marks_of_the_last_rank_are_set_during_its_call)
{
	cr_assert_eq(native_sum(&q, 1), ncclSuccess);
	launched(sum, 9);
	cr_assert_eq(started(), 9);
	cr_assert_eq(done(), 9);
	cr_assert_eq(native_wrong(&q, 0), 0);
	sync_both();
}

Test(ends, end_mark_of_a_group_is_set_after_all_its_calls)
{
	int i;

	launched(sum_thrice, 3);
	cr_assert_eq(started(), 3);
	for (i = 0; i < 3; i++) {
		cr_assert_eq(done(), 0);
		cr_assert_eq(native_sum(&q, 1), ncclSuccess);
	}
	sync_both();
	cr_assert_eq(done(), 3);
}

/* NCCL launches nothing for a call with a count of 0. */
Test(ends, marks_of_an_empty_call_are_set)
{
	native_gate_hold(p, &gate, q.stream[0]);
	launched(sum_nothing, 4);
	native_gate_reached(&gate);
	cr_assert_eq(started(), 0, "earlier work is not done");
	native_gate_open(&gate);
	sync_both();
	cr_assert_eq(started(), 4);
	cr_assert_eq(done(), 4);
}

Test(ends, end_mark_is_set_if_the_last_rank_calls_between_the_marks)
{
	launched(sum_after_rank_1, 6);
	cr_assert_eq(done(), 6, "the call was the last of the round");
	sync_both();
}

Test(ends, stream_can_wait_for_the_end_mark_of_a_call)
{
	cudaStream_t other = native_stream(p, 0);

	launched(sum, 8);
	cr_assert_eq(p->await_mark(other, &words[1], 8), cudaSuccess);
	cr_assert_eq(p->cudaStreamQuery(other), cudaErrorNotReady);
	cr_assert_eq(native_sum(&q, 1), ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(other), cudaSuccess);
	cr_assert_eq(native_wrong(&q, 0), 0);
	sync_both();
	cr_assert_eq(p->cudaStreamDestroy(other), cudaSuccess);
}

Test(ends, end_mark_is_set_when_an_abort_ends_the_call)
{
	launched(sum, 2);
	cr_assert_eq(done(), 0);
	cr_assert_eq(p->ncclCommAbort(q.comm[0]), ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(q.stream[0]), cudaSuccess);
	cr_assert_eq(done(), 2);
	cr_assert_eq(p->ncclCommAbort(q.comm[1]), ncclSuccess);
	native_clique_open(&q, p, 2);
}

/* The library does not check whether an entry is NULL. */
Test(table, platform_table_has_every_entry, .timeout = 10)
{
	const struct platform *table = native_open(1);
	const char *from = (const char *)&table->ncclGetVersion;
	const char *ours = (const char *)&table->mark;
	const char *end = (const char *)(table + 1);
	void (*entry)(void);
	const char *at;

	for (at = from; at < end; at += sizeof(entry)) {
		memcpy(&entry, at, sizeof(entry));
		cr_assert(entry, "entry %zu of %zu is NULL",
		          (size_t)(at - from) / sizeof(entry),
		          (size_t)(end - from) / sizeof(entry));
	}
	cr_assert_leq((size_t)(end - ours) / sizeof(entry), 8);
}
