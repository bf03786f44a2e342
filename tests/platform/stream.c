/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Streams, events and marks of the host platform
 *
 * What must not have happened yet is held back by a gate, a host function
 * that waits for the test; nothing sleeps.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>

#include "platform/platform.h"
#include "support/native.h"

/* A host function's cell, and what it put there. */
struct note {
	int *next;
	int seen;
};

/* Write down as the how-manieth this ran. */
static void note_order(void *user)
{
	struct note *note = user;

	note->seen = (*note->next)++;
}

static void post(void *user)
{
	sem_post(user);
}

/* ---- streams ---------------------------------------------------------- */

Test(stream, work_behind_a_gate_waits_and_the_caller_does_not, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t stream = native_stream(p, 0);
	struct native_gate gate;
	char byte = 0;

	native_gate_hold(p, &gate, stream);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, stream), cudaSuccess);
	native_gate_reached(&gate);
	cr_assert_eq(p->cudaStreamQuery(stream), cudaErrorNotReady);
	cr_assert_eq(byte, 0);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	cr_assert_eq(byte, 1);
	cr_assert_eq(p->cudaStreamQuery(stream), cudaSuccess);
	cr_assert_eq(p->cudaStreamDestroy(stream), cudaSuccess);
}

Test(stream, host_function_runs_without_being_waited_for, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t stream = native_stream(p, 0);
	sem_t ran;

	sem_init(&ran, 0, 0);
	cr_assert_eq(p->cudaLaunchHostFunc(stream, post, &ran), cudaSuccess);
	sem_wait(&ran);
	cr_assert_eq(p->cudaStreamDestroy(stream), cudaSuccess);
}

Test(stream, work_behind_a_memset_runs_without_being_waited_for, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t stream = native_stream(p, 0);
	char byte = 0;
	sem_t ran;

	sem_init(&ran, 0, 0);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, stream), cudaSuccess);
	cr_assert_eq(p->cudaLaunchHostFunc(stream, post, &ran), cudaSuccess);
	sem_wait(&ran);
	cr_assert_eq(byte, 1);
	cr_assert_eq(p->cudaStreamDestroy(stream), cudaSuccess);
}

Test(stream, keeps_the_order_of_its_work, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t stream = native_stream(p, 0);
	struct note notes[100];
	int next = 0;
	int i;

	for (i = 0; i < 100; i++) {
		notes[i] = (struct note){ &next, -1 };
		cr_assert_eq(p->cudaLaunchHostFunc(stream, note_order,
		                                   &notes[i]),
		             cudaSuccess);
	}
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	for (i = 0; i < 100; i++)
		cr_assert_eq(notes[i].seen, i);
	cr_assert_eq(p->cudaStreamDestroy(stream), cudaSuccess);
}

Test(stream, takes_many_pending_operations, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t stream = native_stream(p, 0);
	static unsigned char bytes[1000];
	struct native_gate gate;
	int i;

	native_gate_hold(p, &gate, stream);
	for (i = 0; i < 1000; i++)
		cr_assert_eq(p->cudaMemsetAsync(&bytes[i], 1, 1, stream),
		             cudaSuccess);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	for (i = 0; i < 1000; i++)
		cr_assert_eq(bytes[i], 1);
	cr_assert_eq(p->cudaStreamDestroy(stream), cudaSuccess);
}

static void *open_gate(void *user)
{
	struct native_gate *gate = user;

	native_gate_reached(gate);
	native_gate_open(gate);
	return NULL;
}

/* A full queue holds the caller, as a launch queue does; nothing is lost. */
Test(stream, takes_more_than_it_has_room_for_when_it_moves, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t stream = native_stream(p, 0);
	static unsigned char bytes[20000];
	struct native_gate gate;
	pthread_t opener;
	int i;

	native_gate_hold(p, &gate, stream);
	pthread_create(&opener, NULL, open_gate, &gate);
	for (i = 0; i < 20000; i++)
		cr_assert_eq(p->cudaMemsetAsync(&bytes[i], 1, 1, stream),
		             cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	for (i = 0; i < 20000; i++)
		cr_assert_eq(bytes[i], 1);
	pthread_join(opener, NULL);
	cr_assert_eq(p->cudaStreamDestroy(stream), cudaSuccess);
}

Test(stream, streams_do_not_wait_for_each_other, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t held = native_stream(p, 0);
	cudaStream_t runs = native_stream(p, 0);
	struct native_gate gate;
	char byte = 0;

	native_gate_hold(p, &gate, held);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, runs), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(runs), cudaSuccess);
	cr_assert_eq(byte, 1);
	cr_assert_eq(p->cudaStreamQuery(held), cudaErrorNotReady);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(held), cudaSuccess);
	cr_assert_eq(p->cudaStreamDestroy(held), cudaSuccess);
	cr_assert_eq(p->cudaStreamDestroy(runs), cudaSuccess);
}

Test(stream, destroying_one_with_work_lets_the_work_finish, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t stream = native_stream(p, 0);
	struct native_gate gate;
	sem_t ran;

	sem_init(&ran, 0, 0);
	native_gate_hold(p, &gate, stream);
	cr_assert_eq(p->cudaLaunchHostFunc(stream, post, &ran), cudaSuccess);
	native_gate_reached(&gate);
	cr_assert_eq(p->cudaStreamDestroy(stream), cudaSuccess);
	native_gate_open(&gate);
	sem_wait(&ran);
}

static void *open_in_a_while(void *user)
{
	int i;

	for (i = 0; i < 100; i++)
		sched_yield();
	native_gate_open(user);
	return NULL;
}

Test(stream, device_synchronize_waits_for_every_stream, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t one = native_stream(p, 0);
	cudaStream_t two = native_stream(p, 0);
	struct native_gate gate;
	pthread_t opener;
	char bytes[2] = { 0, 0 };

	native_gate_hold(p, &gate, one);
	cr_assert_eq(p->cudaMemsetAsync(&bytes[0], 1, 1, one), cudaSuccess);
	cr_assert_eq(p->cudaMemsetAsync(&bytes[1], 1, 1, two), cudaSuccess);
	pthread_create(&opener, NULL, open_in_a_while, &gate);
	cr_assert_eq(p->cudaDeviceSynchronize(), cudaSuccess);
	cr_assert_eq(bytes[0], 1);
	cr_assert_eq(bytes[1], 1);
	pthread_join(opener, NULL);
	cr_assert_eq(p->cudaStreamDestroy(one), cudaSuccess);
	cr_assert_eq(p->cudaStreamDestroy(two), cudaSuccess);
}

Test(stream, device_synchronize_is_for_the_current_device, .timeout = 10)
{
	const struct platform *p = native_open(2);
	cudaStream_t other = native_stream(p, 1);
	struct native_gate gate;

	native_gate_hold(p, &gate, other);
	cr_assert_eq(p->cudaDeviceSynchronize(), cudaSuccess);
	cr_assert_eq(p->cudaStreamQuery(other), cudaErrorNotReady);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(other), cudaSuccess);
	cr_assert_eq(p->cudaStreamDestroy(other), cudaSuccess);
}

Test(stream, null_outputs_and_flags_are_checked, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t stream;

	cr_assert_eq(p->cudaStreamCreate(NULL), cudaErrorInvalidValue);
	cr_assert_eq(p->cudaStreamCreateWithFlags(NULL, 0),
	             cudaErrorInvalidValue);
	cr_assert_eq(p->cudaStreamCreateWithFlags(&stream, 0x100),
	             cudaErrorInvalidValue);
	cr_assert_eq(p->cudaLaunchHostFunc(NULL, NULL, NULL),
	             cudaErrorInvalidValue);
}

/* ---- the legacy default stream ---------------------------------------- */

Test(legacy, waits_for_blocking_streams, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t blocking;
	struct native_gate gate;
	char byte = 0;

	cr_assert_eq(p->cudaStreamCreate(&blocking), cudaSuccess);
	native_gate_hold(p, &gate, blocking);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, NULL), cudaSuccess);
	native_gate_reached(&gate);
	cr_assert_eq(p->cudaStreamQuery(NULL), cudaErrorNotReady);
	cr_assert_eq(byte, 0);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(NULL), cudaSuccess);
	cr_assert_eq(byte, 1);
	cr_assert_eq(p->cudaStreamDestroy(blocking), cudaSuccess);
}

Test(legacy, holds_blocking_streams, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t blocking;
	struct native_gate gate;
	char byte = 0;

	cr_assert_eq(p->cudaStreamCreate(&blocking), cudaSuccess);
	native_gate_hold(p, &gate, NULL);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, blocking), cudaSuccess);
	native_gate_reached(&gate);
	cr_assert_eq(p->cudaStreamQuery(blocking), cudaErrorNotReady);
	cr_assert_eq(byte, 0);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(blocking), cudaSuccess);
	cr_assert_eq(byte, 1);
	cr_assert_eq(p->cudaStreamDestroy(blocking), cudaSuccess);
}

Test(legacy, does_not_wait_for_non_blocking_streams, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t other = native_stream(p, 0);
	struct native_gate gate;
	char byte = 0;

	native_gate_hold(p, &gate, other);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, NULL), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(NULL), cudaSuccess);
	cr_assert_eq(byte, 1);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(other), cudaSuccess);
	cr_assert_eq(p->cudaStreamDestroy(other), cudaSuccess);
}

Test(legacy, does_not_hold_non_blocking_streams, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t other = native_stream(p, 0);
	struct native_gate gate;
	char byte = 0;

	native_gate_hold(p, &gate, NULL);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, other), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(other), cudaSuccess);
	cr_assert_eq(byte, 1);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(NULL), cudaSuccess);
	cr_assert_eq(p->cudaStreamDestroy(other), cudaSuccess);
}

Test(legacy, has_a_handle_of_its_own, .timeout = 10)
{
	const struct platform *p = native_open(1);
	struct native_gate gate;
	char byte = 0;

	native_gate_hold(p, &gate, cudaStreamLegacy);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, NULL), cudaSuccess);
	native_gate_reached(&gate);
	cr_assert_eq(p->cudaStreamQuery(NULL), cudaErrorNotReady);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(cudaStreamLegacy), cudaSuccess);
	cr_assert_eq(byte, 1);
}

Test(legacy, is_one_per_device, .timeout = 10)
{
	const struct platform *p = native_open(2);
	struct native_gate gate;
	char byte = 0;

	native_gate_hold(p, &gate, NULL);
	cr_assert_eq(p->cudaSetDevice(1), cudaSuccess);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, NULL), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(NULL), cudaSuccess);
	cr_assert_eq(byte, 1);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaSetDevice(0), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(NULL), cudaSuccess);
}

/* ---- events ----------------------------------------------------------- */

Test(event, is_complete_before_it_was_recorded, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaEvent_t event;

	cr_assert_eq(p->cudaEventCreate(&event), cudaSuccess);
	cr_assert_eq(p->cudaEventQuery(event), cudaSuccess);
	cr_assert_eq(p->cudaEventSynchronize(event), cudaSuccess);
	cr_assert_eq(p->cudaEventDestroy(event), cudaSuccess);
}

Test(event, completes_after_the_work_before_it, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t stream = native_stream(p, 0);
	struct native_gate gate;
	cudaEvent_t event;
	char byte = 0;

	cr_assert_eq(p->cudaEventCreateWithFlags(&event,
	                                         cudaEventDisableTiming),
	             cudaSuccess);
	native_gate_hold(p, &gate, stream);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, stream), cudaSuccess);
	cr_assert_eq(p->cudaEventRecord(event, stream), cudaSuccess);
	cr_assert_eq(p->cudaEventQuery(event), cudaErrorNotReady);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaEventSynchronize(event), cudaSuccess);
	cr_assert_eq(byte, 1);
	cr_assert_eq(p->cudaEventQuery(event), cudaSuccess);
	cr_assert_eq(p->cudaEventDestroy(event), cudaSuccess);
	cr_assert_eq(p->cudaStreamDestroy(stream), cudaSuccess);
}

Test(event, does_not_wait_for_the_work_after_it, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t stream = native_stream(p, 0);
	struct native_gate gate;
	cudaEvent_t event;
	char byte = 0;

	cr_assert_eq(p->cudaEventCreate(&event), cudaSuccess);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, stream), cudaSuccess);
	cr_assert_eq(p->cudaEventRecord(event, stream), cudaSuccess);
	native_gate_hold(p, &gate, stream);
	cr_assert_eq(p->cudaEventSynchronize(event), cudaSuccess);
	cr_assert_eq(byte, 1);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	cr_assert_eq(p->cudaEventDestroy(event), cudaSuccess);
	cr_assert_eq(p->cudaStreamDestroy(stream), cudaSuccess);
}

Test(event, makes_another_stream_wait, .timeout = 10)
{
	const struct platform *p = native_open(2);
	cudaStream_t first = native_stream(p, 0);
	cudaStream_t second = native_stream(p, 1);
	struct native_gate gate;
	cudaEvent_t event;
	char byte = 0;

	cr_assert_eq(p->cudaEventCreate(&event), cudaSuccess);
	native_gate_hold(p, &gate, first);
	cr_assert_eq(p->cudaEventRecord(event, first), cudaSuccess);
	cr_assert_eq(p->cudaStreamWaitEvent(second, event, 0), cudaSuccess);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, second), cudaSuccess);
	native_gate_reached(&gate);
	cr_assert_eq(p->cudaStreamQuery(second), cudaErrorNotReady);
	cr_assert_eq(byte, 0);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(second), cudaSuccess);
	cr_assert_eq(byte, 1);
	cr_assert_eq(p->cudaEventDestroy(event), cudaSuccess);
	cr_assert_eq(p->cudaStreamDestroy(first), cudaSuccess);
	cr_assert_eq(p->cudaStreamDestroy(second), cudaSuccess);
}

Test(event, unrecorded_makes_nobody_wait, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t stream = native_stream(p, 0);
	cudaEvent_t event;

	cr_assert_eq(p->cudaEventCreate(&event), cudaSuccess);
	cr_assert_eq(p->cudaStreamWaitEvent(stream, event, 0), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	cr_assert_eq(p->cudaEventDestroy(event), cudaSuccess);
	cr_assert_eq(p->cudaStreamDestroy(stream), cudaSuccess);
}

/* The record that counts is the last one before the wait was queued: a later
 * one, behind a shut gate, must not hold the waiting stream. */
Test(event, wait_means_the_record_at_the_time_of_the_call, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t records = native_stream(p, 0);
	cudaStream_t waits = native_stream(p, 0);
	struct native_gate first;
	struct native_gate second;
	cudaEvent_t event;

	cr_assert_eq(p->cudaEventCreate(&event), cudaSuccess);
	native_gate_hold(p, &first, records);
	cr_assert_eq(p->cudaEventRecord(event, records), cudaSuccess);
	cr_assert_eq(p->cudaStreamWaitEvent(waits, event, 0), cudaSuccess);
	native_gate_hold(p, &second, records);
	cr_assert_eq(p->cudaEventRecord(event, records), cudaSuccess);
	native_gate_open(&first);
	cr_assert_eq(p->cudaStreamSynchronize(waits), cudaSuccess);
	native_gate_reached(&second);
	cr_assert_eq(p->cudaEventQuery(event), cudaErrorNotReady);
	native_gate_open(&second);
	cr_assert_eq(p->cudaEventSynchronize(event), cudaSuccess);
	cr_assert_eq(p->cudaEventDestroy(event), cudaSuccess);
	cr_assert_eq(p->cudaStreamDestroy(records), cudaSuccess);
	cr_assert_eq(p->cudaStreamDestroy(waits), cudaSuccess);
}

Test(event, destroyed_before_it_completes_still_counts, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t first = native_stream(p, 0);
	cudaStream_t second = native_stream(p, 0);
	struct native_gate gate;
	cudaEvent_t event;
	char byte = 0;

	cr_assert_eq(p->cudaEventCreate(&event), cudaSuccess);
	native_gate_hold(p, &gate, first);
	cr_assert_eq(p->cudaEventRecord(event, first), cudaSuccess);
	cr_assert_eq(p->cudaStreamWaitEvent(second, event, 0), cudaSuccess);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, second), cudaSuccess);
	cr_assert_eq(p->cudaEventDestroy(event), cudaSuccess);
	cr_assert_eq(p->cudaStreamQuery(second), cudaErrorNotReady);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(second), cudaSuccess);
	cr_assert_eq(byte, 1);
	cr_assert_eq(p->cudaStreamDestroy(first), cudaSuccess);
	cr_assert_eq(p->cudaStreamDestroy(second), cudaSuccess);
}

Test(event, measures_the_time_between_two, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t stream = native_stream(p, 0);
	struct native_gate gate;
	cudaEvent_t start;
	cudaEvent_t end;
	double before;
	double after;
	float ms = -1;

	cr_assert_eq(p->cudaEventCreate(&start), cudaSuccess);
	cr_assert_eq(p->cudaEventCreate(&end), cudaSuccess);
	before = native_now_ms();
	cr_assert_eq(p->cudaEventRecord(start, stream), cudaSuccess);
	cr_assert_eq(p->cudaEventSynchronize(start), cudaSuccess);
	native_gate_hold(p, &gate, stream);
	cr_assert_eq(p->cudaEventRecord(end, stream), cudaSuccess);
	cr_assert_eq(p->cudaEventElapsedTime(&ms, start, end),
	             cudaErrorNotReady);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaEventSynchronize(end), cudaSuccess);
	after = native_now_ms();
	cr_assert_eq(p->cudaEventElapsedTime(&ms, start, end), cudaSuccess);
	cr_assert_geq(ms, 0.0f);
	cr_assert_leq((double)ms, after - before + 0.01);
	cr_assert_eq(p->cudaEventDestroy(start), cudaSuccess);
	cr_assert_eq(p->cudaEventDestroy(end), cudaSuccess);
	cr_assert_eq(p->cudaStreamDestroy(stream), cudaSuccess);
}

Test(event, time_needs_events_that_have_it, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t stream = native_stream(p, 0);
	cudaEvent_t timed;
	cudaEvent_t plain;
	float ms;

	cr_assert_eq(p->cudaEventCreate(&timed), cudaSuccess);
	cr_assert_eq(p->cudaEventCreateWithFlags(&plain,
	                                         cudaEventDisableTiming),
	             cudaSuccess);
	cr_assert_eq(p->cudaEventElapsedTime(&ms, timed, timed),
	             cudaErrorInvalidResourceHandle, "never recorded");
	cr_assert_eq(p->cudaEventRecord(timed, stream), cudaSuccess);
	cr_assert_eq(p->cudaEventRecord(plain, stream), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	cr_assert_eq(p->cudaEventElapsedTime(&ms, timed, plain),
	             cudaErrorInvalidResourceHandle);
	cr_assert_eq(p->cudaEventDestroy(timed), cudaSuccess);
	cr_assert_eq(p->cudaEventDestroy(plain), cudaSuccess);
	cr_assert_eq(p->cudaStreamDestroy(stream), cudaSuccess);
}

/* ---- marks ------------------------------------------------------------ */

static uint32_t *new_word(const struct platform *p)
{
	void *memory;

	native_must(p->cudaHostAlloc(&memory, sizeof(uint32_t),
	                             cudaHostAllocMapped),
	            "cudaHostAlloc");
	*(uint32_t *)memory = 0;
	return memory;
}

static uint32_t load(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* It may be set a little later than the stream gets there. */
static void await(const uint32_t *word, uint32_t value)
{
	while (load(word) != value)
		sched_yield();
}

Test(mark, is_written_in_stream_order, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t stream = native_stream(p, 0);
	uint32_t *word = new_word(p);
	struct native_gate gate;

	native_gate_hold(p, &gate, stream);
	cr_assert_eq(p->mark(stream, word, 41), cudaSuccess);
	cr_assert_eq(p->mark(stream, word, 42), cudaSuccess);
	native_gate_reached(&gate);
	cr_assert_eq(load(word), 0);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	await(word, 42);
	cr_assert_eq(p->cudaStreamDestroy(stream), cudaSuccess);
	cr_assert_eq(p->cudaFreeHost(word), cudaSuccess);
}

Test(mark, works_on_the_legacy_stream, .timeout = 10)
{
	const struct platform *p = native_open(1);
	uint32_t *word = new_word(p);

	cr_assert_eq(p->mark(NULL, word, 7), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(NULL), cudaSuccess);
	await(word, 7);
	cr_assert_eq(p->cudaFreeHost(word), cudaSuccess);
}

Test(mark, awaited_holds_a_stream_until_it_is_written, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t marks = native_stream(p, 0);
	cudaStream_t awaits = native_stream(p, 0);
	uint32_t *word = new_word(p);
	struct native_gate gate;
	char byte = 0;

	native_gate_hold(p, &gate, marks);
	cr_assert_eq(p->mark(marks, word, 3), cudaSuccess);
	cr_assert_eq(p->await_mark(awaits, word, 3), cudaSuccess);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, awaits), cudaSuccess);
	native_gate_reached(&gate);
	cr_assert_eq(p->cudaStreamQuery(awaits), cudaErrorNotReady);
	cr_assert_eq(byte, 0);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(awaits), cudaSuccess);
	cr_assert_eq(byte, 1);
	cr_assert_eq(p->cudaStreamDestroy(marks), cudaSuccess);
	cr_assert_eq(p->cudaStreamDestroy(awaits), cudaSuccess);
	cr_assert_eq(p->cudaFreeHost(word), cudaSuccess);
}

Test(mark, awaited_and_passed_holds_nothing, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t stream = native_stream(p, 0);
	uint32_t *word = new_word(p);

	cr_assert_eq(p->mark(stream, word, 5), cudaSuccess);
	cr_assert_eq(p->await_mark(stream, word, 3), cudaSuccess);
	cr_assert_eq(p->mark(stream, word, 2), cudaSuccess);
	cr_assert_eq(p->await_mark(stream, word, 0xfffffffe), cudaSuccess,
	             "the counter has wrapped since");
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	cr_assert_eq(p->cudaStreamDestroy(stream), cudaSuccess);
	cr_assert_eq(p->cudaFreeHost(word), cudaSuccess);
}

Test(mark, progress_runs_what_is_ready, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t stream = native_stream(p, 0);
	uint32_t *word = new_word(p);
	char byte = 0;

	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, stream), cudaSuccess);
	cr_assert_eq(p->mark(stream, word, 1), cudaSuccess);
	while (load(word) != 1)
		p->progress(stream, NULL, 0, UINT64_MAX);
	cr_assert_eq(byte, 1);
	cr_assert_eq(p->cudaStreamDestroy(stream), cudaSuccess);
	cr_assert_eq(p->cudaFreeHost(word), cudaSuccess);
}

Test(mark, progress_does_not_wait, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t stream = native_stream(p, 0);
	uint32_t *word = new_word(p);
	struct native_gate gate;

	native_gate_hold(p, &gate, stream);
	cr_assert_eq(p->mark(stream, word, 1), cudaSuccess);
	p->progress(stream, NULL, 0, UINT64_MAX);
	native_gate_reached(&gate);
	p->progress(stream, NULL, 0, UINT64_MAX);
	cr_assert_eq(load(word), 0);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	cr_assert_eq(p->cudaStreamDestroy(stream), cudaSuccess);
	cr_assert_eq(p->cudaFreeHost(word), cudaSuccess);
}

Test(mark, progress_of_a_destroyed_stream_is_harmless, .timeout = 10)
{
	const struct platform *p = native_open(1);
	cudaStream_t stream = native_stream(p, 0);

	cr_assert_eq(p->cudaStreamDestroy(stream), cudaSuccess);
	p->progress(stream, NULL, 0, UINT64_MAX);
	p->progress(NULL, NULL, 0, UINT64_MAX);
}
