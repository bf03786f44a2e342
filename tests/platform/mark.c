/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Marks by events, as on a GPU whose driver has no stream memory operations, on
 * top of the host platform's events
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "platform/gpu/gpu.h"
#include "sim/host.h"
#include "support/native.h"
#include "support/ranks.h"

#define DEVICES 2

static const struct platform *host;
static struct platform table;
static uint32_t *words;

static void set_up(void)
{
	void *memory;

	/* On the built-in platform, wherever the other tests run. */
	unsetenv("TEST_DEVICES");
	setenv("COHORT_PLATFORM", "host", 1);
	host = native_open(DEVICES);
	table = *host;
	native_must(gpu_mark_by_events(&table, DEVICES), "marks");
	native_must(table.cudaHostAlloc(&memory, 64 * sizeof(*words),
	                                cudaHostAllocPortable),
	            "cudaHostAlloc");
	words = memory;
	memset(words, 0, 64 * sizeof(*words));
}

TestSuite(event_mark, .init = set_up, .timeout = 60);

static void must_mark(cudaStream_t stream, uint32_t *word, uint32_t value)
{
	native_must(table.mark(stream, word, value), "mark");
}

static uint32_t load(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static void await(const uint32_t *word, uint32_t value)
{
	struct backoff b = BACKOFF;

	while (load(word) != value)
		backoff_wait(&b, UINT64_MAX);
}

Test(event_mark, is_set_behind_the_work)
{
	cudaStream_t stream = native_stream(&table, 0);
	struct native_gate gate;
	char byte = 0;

	native_gate_hold(&table, &gate, stream);
	table.cudaMemsetAsync(&byte, 1, 1, stream);
	must_mark(stream, &words[0], 5);
	native_gate_reached(&gate);
	cr_assert_eq(load(&words[0]), 0);
	native_gate_open(&gate);
	await(&words[0], 5);
	cr_assert_eq(byte, 1);
}

Test(event_mark, is_set_in_order_with_many_others)
{
	cudaStream_t stream = native_stream(&table, 0);
	uint32_t i, round;

	for (round = 1; round <= 20; round++) {
		for (i = 0; i < 64; i++)
			must_mark(stream, &words[i], round);
		await(&words[63], round);
		for (i = 0; i < 64; i++)
			cr_assert_eq(load(&words[i]), round);
	}
}

Test(event_mark, a_held_stream_holds_up_no_other)
{
	cudaStream_t held = native_stream(&table, 0);
	cudaStream_t stream = native_stream(&table, 0);
	struct native_gate gate;

	native_gate_hold(&table, &gate, held);
	must_mark(held, &words[0], 1);
	must_mark(held, &words[1], 1);
	must_mark(stream, &words[2], 1);
	await(&words[2], 1);
	cr_assert_eq(load(&words[0]) + load(&words[1]), 0);
	native_gate_open(&gate);
	await(&words[1], 1);
	cr_assert_eq(load(&words[0]), 1);
}

Test(event_mark, a_stream_waits_for_it)
{
	cudaStream_t first = native_stream(&table, 0);
	cudaStream_t second = native_stream(&table, 0);
	struct native_gate gate;
	char byte = 0;

	native_gate_hold(&table, &gate, first);
	must_mark(first, &words[0], 7);
	cr_assert_eq(table.await_mark(second, &words[0], 6), cudaSuccess);
	table.cudaMemsetAsync(&byte, 1, 1, second);
	native_gate_reached(&gate);
	cr_assert_eq(table.cudaStreamQuery(second), cudaErrorNotReady);
	cr_assert_eq(byte, 0);
	native_gate_open(&gate);
	cr_assert_eq(table.cudaStreamSynchronize(second), cudaSuccess);
	cr_assert_eq(byte, 1);
	/* Once the mark has been set, a stream does not wait for it. */
	await(&words[0], 7);
	cr_assert_eq(table.await_mark(second, &words[0], 7), cudaSuccess);
	cr_assert_eq(table.await_mark(second, &words[0], 8),
	             cudaErrorInvalidValue);
}

static void *free_words(void *memory)
{
	return (void *)(intptr_t)table.cudaFreeHost(memory);
}

/*
 * The words are freed, and AddressSanitizer would report a write to them.
 * Freeing them waits for the device.
 */
Test(event_mark, words_that_were_freed_are_not_set)
{
	cudaStream_t stream = native_stream(&table, 0);
	struct native_gate gate;
	pthread_t thread;
	void *memory, *freed;

	native_must(table.cudaHostAlloc(&memory, sizeof(uint32_t), 0),
	            "cudaHostAlloc");
	native_gate_hold(&table, &gate, stream);
	must_mark(stream, memory, 1);
	must_mark(stream, &words[0], 1);
	pthread_create(&thread, NULL, free_words, memory);
	native_gate_reached(&gate);
	native_gate_open(&gate);
	await(&words[0], 1);
	pthread_join(thread, &freed);
	cr_assert_eq((intptr_t)freed, cudaSuccess);
}

/*
 * While any thread captures a stream, only threads that declare themselves may
 * query.
 */
Test(event_mark, query_breaks_no_capture)
{
	cudaStream_t captured = native_stream(&table, 0);
	cudaStream_t stream = native_stream(&table, 0);
	struct native_gate gate;
	cudaGraph_t graph;

	native_gate_hold(&table, &gate, stream);
	must_mark(stream, &words[0], 1);
	native_must(host_cudaStreamBeginCapture(captured,
	                                        cudaStreamCaptureModeGlobal),
	            "begin");
	native_gate_open(&gate);
	await(&words[0], 1);
	cr_assert_eq(host_cudaStreamEndCapture(captured, &graph), cudaSuccess);
	cr_assert_eq(host_cudaGraphDestroy(graph), cudaSuccess);
}

/* ---- devices in trouble ----------------------------------------------- */

static cudaError_t trouble; /* device 0's answer; 0: it never answers */
static sem_t asked;

static cudaError_t query(cudaEvent_t event)
{
	int device = -1;

	host->cudaGetDevice(&device);
	if (device)
		return host->cudaEventQuery(event);
	sem_post(&asked);
	while (!trouble)
		pause();
	return trouble;
}

static void set_trouble(cudaError_t error)
{
	sem_init(&asked, 0, 0);
	trouble = error;
	table.cudaEventQuery = query;
}

/* Mark on device 0, and see that device 1's mark is set all the same. */
static void other_device_goes_on(void)
{
	cudaStream_t first = native_stream(&table, 0);
	cudaStream_t second = native_stream(&table, 1);

	must_mark(first, &words[0], 1);
	cr_assert(clock_await(&asked, clock_deadline(RANKS_SOON)));
	table.cudaSetDevice(1);
	must_mark(second, &words[1], 1);
	await(&words[1], 1);
	cr_assert_eq(load(&words[0]), 0);
}

Test(event_mark, a_device_that_does_not_answer_holds_up_no_other)
{
	set_trouble(cudaSuccess);
	other_device_goes_on();
}

Test(event_mark, a_device_that_is_lost_sets_nothing)
{
	set_trouble(cudaErrorLaunchFailure);
	other_device_goes_on();
}

/* ---- groups ----------------------------------------------------------- */

Test(event_mark, groups_work_and_end)
{
	struct cohort_comm *comms[DEVICES];
	struct cohort_group *group;
	int32_t a = 1, b = 2;

	platform_override(&table);
	group = ranks_split(DEVICES, NULL, comms);
	ranks_sum(comms[0], &a);
	cr_assert_eq(ranks_sum_wait(comms[1], &b), COHORT_OK);
	cr_assert_eq(b, 3);
	cr_assert_eq(cohort_stream_after(comms[1], 1,
	                                 cohort_comm_stream(comms[1])),
	             COHORT_OK);
	ranks_sum(comms[0], &a); /* the other rank does not call */
	cohort_group_abort(group, NULL);
	cr_assert_eq(cohort_wait(comms[0], 2, RANKS_SOON), COHORT_ABORTED);
	cr_assert_eq(cohort_group_close(group), COHORT_OK, "%s",
	             cohort_last_error());
}
