/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests that a thread that waits for work takes it over from the platform's own
 * thread
 *
 * The tests compare the processor times of the threads.
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

/* Size of one operation, in bytes */
#define BYTES ((size_t)16 << 20)
#define TIMES 40

/*
 * Largest number of tries. If other processes use the cores, the waiting thread
 * may be too late to get a share of the work.
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
	/* Touch all pages now, because the first access to a page takes
	 * longer. */
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
 * Enqueue work after a gate. When this returns, the stream's own thread has
 * reached the gate and would do the work next.
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
 * Return this thread's share of the process's processor time while it waits for
 * @stream.
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

Test(relief, thread_that_waits_takes_over_flushed_work)
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

Test(relief, work_is_finished_if_the_waiting_thread_gives_up)
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
