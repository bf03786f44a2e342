/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Work that goes on by itself is taken over by a thread that waits for it: the
 * test compares the processor time of the threads
 */

#include <criterion/criterion.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "platform/platform.h"
#include "support/native.h"
#include "support/place.h"

/* Bytes of one operation, and how many operations are queued. */
#define BYTES ((size_t)16 << 20)
#define TIMES 40

/*
 * Where other processes want the cores, the waiting thread may come too late to
 * get a share.
 */
#define TRIES 50

static const struct platform *p;
static cudaStream_t stream;
static char *memory;
static struct native_gate gate;

static void open_all(void)
{
	place_need_host("threads that relieve each other");
	p = native_open(1);
	stream = native_stream(p, 0);
	memory = malloc(BYTES);
	cr_assert_not_null(memory);
	/* No page is new to the thread that gets there first. */
	memset(memory, 1, BYTES);
}

static void close_all(void)
{
	native_must(p->cudaStreamDestroy(stream), "cudaStreamDestroy");
	free(memory);
}

TestSuite(relief, .init = open_all, .fini = close_all, .timeout = 60);

static double cpu_ms(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/*
 * Queue behind a gate, which the stream's own thread has reached when this
 * returns: that thread therefore has the rest of the work next.
 */
static void queue_behind_gate(void)
{
	int i;

	native_gate_hold(p, &gate, stream);
	for (i = 0; i < TIMES; i++)
		native_must(p->cudaMemsetAsync(memory, 2 + i, BYTES, stream),
		            "cudaMemsetAsync");
	p->flush(0, stream);
	native_gate_reached(&gate);
}

/*
 * The part of the process's time that this thread spends to wait for @stream.
 */
static double share_of_waiter(void)
{
	const double all = cpu_ms(CLOCK_PROCESS_CPUTIME_ID);
	const double mine = cpu_ms(CLOCK_THREAD_CPUTIME_ID);

	native_gate_open(&gate);
	native_must(p->cudaStreamSynchronize(stream), "cudaStreamSynchronize");
	return (cpu_ms(CLOCK_THREAD_CPUTIME_ID) - mine) /
	       (cpu_ms(CLOCK_PROCESS_CPUTIME_ID) - all);
}

Test(relief, comes_from_a_thread_that_waits_for_flushed_work)
{
	double share, most = 0;
	int i;

	for (i = 0; i < TRIES && most <= 0.5; i++) {
		queue_behind_gate();
		share = share_of_waiter();
		if (share > most)
			most = share;
	}
	cr_assert_gt(most, 0.5, "%.2f", most);
	cr_assert_eq(memory[0], 1 + TIMES);
	cr_assert_eq(memory[BYTES - 1], 1 + TIMES);
}

/* A thread that gives up leaves the work unchanged. */
Test(relief, ends_when_that_thread_gives_up)
{
	uint32_t *word;

	native_must(p->cudaMallocHost((void **)&word, sizeof(*word)),
	            "cudaMallocHost");
	*word = 0;
	queue_behind_gate();
	native_must(p->mark(stream, word, 1), "mark");
	p->flush(0, stream);
	native_gate_open(&gate);
	p->progress(0, stream, word, 1, clock_now() + 1000000);
	p->progress(0, stream, word, 1, 0);
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != 1)
		sched_yield();
	cr_assert_eq(memory[BYTES - 1], 1 + TIMES);
	native_must(p->cudaFreeHost(word), "cudaFreeHost");
}
