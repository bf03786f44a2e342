/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests that enqueued work is done even if no thread waits for it or queries it
 */

#include <criterion/criterion.h>
#include <sched.h>
#include <stdlib.h>

#include "platform/platform.h"
#include "support/native.h"
#include "support/place.h"

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

/*
 * One rank first enqueues all of its operations, which make progress while the
 * other rank calls.
 */
Test(unwatched, small_operations_finish_although_no_thread_waits)
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

static float *x[RANKS];

static void make_buffers(size_t count)
{
	int r;

	for (r = 0; r < RANKS; r++) {
		x[r] = calloc(count, sizeof(*x[r]));
		cr_assert_not_null(x[r]);
	}
}

static void free_buffers(void)
{
	int r;

	for (r = 0; r < RANKS; r++)
		free(x[r]);
}

/*
 * Enqueue a sum of @count elements, whose last element becomes 3, and then a
 * mark.
 */
static void queue_sum(int r, size_t count, uint32_t value)
{
	x[r][count - 1] = (float)(r + 1);
	native_must(p->ncclAllReduce(x[r], x[r], count, ncclFloat32, ncclSum,
	                             clique.comm[r], clique.stream[r]),
	            "ncclAllReduce");
	mark(r, value);
}

static void check_sum(size_t count)
{
	int r;

	for (r = 0; r < RANKS; r++)
		cr_assert_eq(x[r][count - 1], 3);
}

/* COUNT is too large for a sum to be done during a call. */
Test(unwatched, large_operations_finish_although_no_thread_waits)
{
	int r;

	make_buffers(COUNT);
	for (r = 0; r < RANKS; r++)
		queue_sum(r, COUNT, 1);
	read_all_until(1);
	check_sum(COUNT);
	free_buffers();
}

/* ---- flushes ---------------------------------------------------------- */

/* Number of elements, just too large to be summed during a call */
#define SOME ((size_t)1 << 16)

/* Either rank may enqueue and flush first. */
Test(unwatched, flushed_operations_finish_although_no_thread_waits)
{
	int i, r;

	make_buffers(SOME);
	for (i = 0; i < TIMES; i++) {
		for (r = 0; r < RANKS; r++) {
			queue_sum((r + i) % RANKS, SOME, (uint32_t)i + 1);
			p->flush((r + i) % RANKS,
			         clique.stream[(r + i) % RANKS]);
		}
		read_all_until((uint32_t)i + 1);
		check_sum(SOME);
	}
	free_buffers();
}

Test(unwatched, flushed_operations_finish_if_one_rank_is_ahead)
{
	int i, r;

	make_buffers(TIMES * SOME);
	for (r = 0; r < RANKS; r++) {
		for (i = 0; i < TIMES; i++) {
			queue_sum(r, SOME, (uint32_t)i + 1);
			x[r] += SOME;
		}
		x[r] -= TIMES * SOME;
		p->flush(r, clique.stream[r]);
	}
	read_all_until(TIMES);
	for (i = 1; i <= TIMES; i++)
		check_sum((size_t)i * SOME);
	free_buffers();
}

/* Return the duration of one operation, in milliseconds. */
static double sum_ms(uint32_t value, bool flushes)
{
	double from = native_now_ms();
	int r;

	for (r = 0; r < RANKS; r++) {
		queue_sum(r, SOME, value);
		if (flushes)
			p->flush(r, clique.stream[r]);
	}
	read_all_until(value);
	return native_now_ms() - from;
}

/*
 * Without a flush, the poller needs two checks, and sleeps at least once
 * between them. On a busy machine, try several times, until no thread has to
 * wait for a core.
 */
Test(unwatched, flushed_operations_do_not_wait_for_the_poller)
{
	double ms, fastest[2] = { 1e9, 1e9 };
	uint32_t i;

	place_need_built_in("a poller");
	make_buffers(SOME);
	for (i = 0;
	     i < 2 * TIMES || (i < 100 * TIMES && 2 * fastest[1] >= fastest[0]);
	     i++) {
		ms = sum_ms(i + 1, i % 2);
		if (ms < fastest[i % 2])
			fastest[i % 2] = ms;
	}
	cr_assert_lt(2 * fastest[1], fastest[0]);
	free_buffers();
}

/* The peer never calls, so only an abort can end the operation. */
Test(unwatched, flushed_operations_can_be_aborted)
{
	make_buffers(COUNT);
	queue_sum(0, COUNT, 1);
	p->flush(0, clique.stream[0]);
	native_clique_abort(&clique);
	native_clique_open(&clique, p, RANKS);
	free_buffers();
}

/*
 * The senders of these receives may never call, so the receives must not occupy
 * the platform's threads.
 */
Test(unwatched, flushed_receives_do_not_block_other_work)
{
	struct native_clique waiting = clique;
	static int32_t in[RANKS];
	int r;

	for (r = 0; r < RANKS; r++) {
		native_must(p->ncclRecv(&in[r], 1, ncclInt32, 1 - r,
		                        waiting.comm[r], waiting.stream[r]),
		            "ncclRecv");
		p->flush(r, waiting.stream[r]);
	}
	native_clique_open(&clique, p, RANKS);
	make_buffers(COUNT);
	for (r = 0; r < RANKS; r++)
		queue_sum(r, COUNT, 1);
	read_all_until(1);
	check_sum(COUNT);
	native_clique_abort(&waiting);
	free_buffers();
}
