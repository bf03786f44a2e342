/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the host platform's streams, events and marks
 *
 * A gate is a host function that waits for the test. It blocks everything that
 * must not happen yet, so no test sleeps.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>

#include "platform/platform.h"
#include "support/native.h"

/* Argument of a host function that records when it ran */
struct note {
	int *next;
	int seen;
};

/* Store the number of host functions that ran before this one. */
static void note_order(void *user)
{
	struct note *note = user;

	note->seen = (*note->next)++;
}

static void post(void *user)
{
	sem_post(user);
}

/* ---- setup of every test ---------------------------------------------- */

static const struct platform *p;
static cudaStream_t stream, other; /* non-blocking streams on device 0 */
static cudaStream_t away;          /* non-blocking stream on device 1 */
static cudaStream_t blocking;      /* blocking stream on device 0 */
static cudaEvent_t event;
static uint32_t *word; /* a word in pinned memory */
static struct native_gate gate;

static void open_all(void)
{
	void *memory;

	p = native_open(2);
	stream = native_stream(p, 0);
	other = native_stream(p, 0);
	away = native_stream(p, 1);
	native_must(p->cudaStreamCreate(&blocking), "cudaStreamCreate");
	native_must(p->cudaEventCreate(&event), "cudaEventCreate");
	native_must(p->cudaMallocHost(&memory, sizeof(*word)),
	            "cudaMallocHost");
	word = memory;
	*word = 0;
}

static void close_all(void)
{
	const cudaStream_t all[] = { stream, other, away, blocking };
	int i;

	for (i = 0; i < 4; i++)
		native_must(p->cudaStreamDestroy(all[i]), "cudaStreamDestroy");
	native_must(p->cudaEventDestroy(event), "cudaEventDestroy");
	native_must(p->cudaFreeHost(word), "cudaFreeHost");
}

/* Expect that work on @waiting runs only after the gate opens. */
static void expect_gated(cudaStream_t waiting)
{
	char byte = 0;

	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, waiting), cudaSuccess);
	native_gate_reached(&gate);
	cr_assert_eq(p->cudaStreamQuery(waiting), cudaErrorNotReady);
	cr_assert_eq(byte, 0);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(waiting), cudaSuccess);
	cr_assert_eq(byte, 1);
}

TestSuite(stream, .init = open_all, .fini = close_all, .timeout = 10);
TestSuite(legacy, .init = open_all, .fini = close_all, .timeout = 10);
TestSuite(event, .init = open_all, .fini = close_all, .timeout = 10);
TestSuite(mark, .init = open_all, .fini = close_all, .timeout = 10);

/* ---- streams ---------------------------------------------------------- */

Test(stream, host_function_blocks_later_work_but_not_its_caller)
{
	native_gate_hold(p, &gate, stream);
	expect_gated(stream);
	cr_assert_eq(p->cudaStreamQuery(stream), cudaSuccess);
}

Test(stream, host_function_runs_even_if_no_thread_waits)
{
	sem_t ran;

	sem_init(&ran, 0, 0);
	cr_assert_eq(p->cudaLaunchHostFunc(stream, post, &ran), cudaSuccess);
	sem_wait(&ran);
}

Test(stream, work_after_a_memset_runs_although_no_thread_waits)
{
	char byte = 0;
	sem_t ran;

	sem_init(&ran, 0, 0);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, stream), cudaSuccess);
	cr_assert_eq(p->cudaLaunchHostFunc(stream, post, &ran), cudaSuccess);
	sem_wait(&ran);
	cr_assert_eq(byte, 1);
}

Test(stream, stream_keeps_the_order_of_its_work)
{
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
}

Test(stream, stream_takes_many_pending_operations)
{
	static unsigned char bytes[1000];
	int i;

	native_gate_hold(p, &gate, stream);
	for (i = 0; i < 1000; i++)
		cr_assert_eq(p->cudaMemsetAsync(&bytes[i], 1, 1, stream),
		             cudaSuccess);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	for (i = 0; i < 1000; i++)
		cr_assert_eq(bytes[i], 1);
}

static void *open_gate(void *user)
{
	(void)user;
	native_gate_reached(&gate);
	native_gate_open(&gate);
	return NULL;
}

/* A full queue blocks the caller, like a GPU's launch queue. No work is
 * lost. */
Test(stream, stream_takes_more_work_than_its_queue_holds)
{
	static unsigned char bytes[20000];
	pthread_t opener;
	int i;

	native_gate_hold(p, &gate, stream);
	pthread_create(&opener, NULL, open_gate, NULL);
	for (i = 0; i < 20000; i++)
		cr_assert_eq(p->cudaMemsetAsync(&bytes[i], 1, 1, stream),
		             cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	for (i = 0; i < 20000; i++)
		cr_assert_eq(bytes[i], 1);
	pthread_join(opener, NULL);
}

Test(stream, stream_does_not_wait_for_another_stream)
{
	char byte = 0;

	native_gate_hold(p, &gate, stream);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, other), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(other), cudaSuccess);
	cr_assert_eq(byte, 1);
	cr_assert_eq(p->cudaStreamQuery(stream), cudaErrorNotReady);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
}

Test(stream, destroyed_stream_finishes_its_work)
{
	cudaStream_t own = native_stream(p, 0);
	sem_t ran;

	sem_init(&ran, 0, 0);
	native_gate_hold(p, &gate, own);
	cr_assert_eq(p->cudaLaunchHostFunc(own, post, &ran), cudaSuccess);
	native_gate_reached(&gate);
	cr_assert_eq(p->cudaStreamDestroy(own), cudaSuccess);
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

Test(stream, device_synchronize_waits_for_every_stream)
{
	pthread_t opener;
	char bytes[2] = { 0, 0 };

	native_gate_hold(p, &gate, stream);
	cr_assert_eq(p->cudaMemsetAsync(&bytes[0], 1, 1, stream), cudaSuccess);
	cr_assert_eq(p->cudaMemsetAsync(&bytes[1], 1, 1, other), cudaSuccess);
	pthread_create(&opener, NULL, open_in_a_while, &gate);
	cr_assert_eq(p->cudaDeviceSynchronize(), cudaSuccess);
	cr_assert_eq(bytes[0], 1);
	cr_assert_eq(bytes[1], 1);
	pthread_join(opener, NULL);
}

Test(stream, device_synchronize_waits_for_the_current_device_only)
{
	native_gate_hold(p, &gate, away);
	cr_assert_eq(p->cudaDeviceSynchronize(), cudaSuccess);
	cr_assert_eq(p->cudaStreamQuery(away), cudaErrorNotReady);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(away), cudaSuccess);
}

Test(stream, stream_functions_check_outputs_and_flags)
{
	cr_assert_eq(p->cudaStreamCreate(NULL), cudaErrorInvalidValue);
	cr_assert_eq(p->cudaStreamCreateWithFlags(NULL, 0),
	             cudaErrorInvalidValue);
	cr_assert_eq(p->cudaStreamCreateWithFlags(&stream, 0x100),
	             cudaErrorInvalidValue);
	cr_assert_eq(p->cudaLaunchHostFunc(NULL, NULL, NULL),
	             cudaErrorInvalidValue);
}

static void expect_no_stream(cudaStream_t handle)
{
	enum cudaStreamCaptureStatus status;
	char to = 0, from = 0;

	cr_assert_eq(p->cudaStreamQuery(handle),
	             cudaErrorInvalidResourceHandle);
	cr_assert_eq(p->cudaStreamIsCapturing(handle, &status),
	             cudaErrorInvalidResourceHandle);
	cr_assert_eq(p->cudaStreamSynchronize(handle),
	             cudaErrorInvalidResourceHandle);
	cr_assert_eq(p->cudaMemcpyAsync(&to, &from, 1, cudaMemcpyDefault,
	                                handle),
	             cudaErrorInvalidResourceHandle);
	cr_assert_eq(p->cudaEventRecord(event, handle),
	             cudaErrorInvalidResourceHandle);
	cr_assert_eq(p->cudaStreamDestroy(handle),
	             cudaErrorInvalidResourceHandle);
}

Test(stream, handles_that_are_not_streams_are_refused)
{
	uint64_t memory[8] = { 0 };

	expect_no_stream((cudaStream_t)memory);
	expect_no_stream((cudaStream_t)((char *)stream + 1));
	expect_no_stream((cudaStream_t)UINT64_C(0xdead0000));
	expect_no_stream((cudaStream_t)3);
}

Test(stream, handle_of_a_destroyed_stream_stays_invalid)
{
	cudaStream_t old = native_stream(p, 0), now[32];
	int i;

	cr_assert_eq(p->cudaStreamDestroy(old), cudaSuccess);
	expect_no_stream(old);
	for (i = 0; i < 32; i++)
		now[i] = native_stream(p, 0);
	expect_no_stream(old);
	for (i = 0; i < 32; i++)
		cr_assert_eq(p->cudaStreamDestroy(now[i]), cudaSuccess);
	expect_no_stream(old);
}

/* The simulator limits the number of streams at a time, but not their total
 * number. */
Test(stream, any_number_of_streams_can_be_created_in_turn)
{
	cudaStream_t own;
	int i;

	for (i = 0; i < 70000; i++) {
		own = native_stream(p, 0);
		cr_assert_eq(p->cudaStreamDestroy(own), cudaSuccess);
	}
}

/* ---- the legacy default stream ---------------------------------------- */

Test(legacy, legacy_stream_waits_for_blocking_streams)
{
	native_gate_hold(p, &gate, blocking);
	expect_gated(NULL);
}

Test(legacy, legacy_stream_makes_blocking_streams_wait)
{
	native_gate_hold(p, &gate, NULL);
	expect_gated(blocking);
}

Test(legacy, legacy_stream_does_not_wait_for_non_blocking_streams)
{
	char byte = 0;

	native_gate_hold(p, &gate, stream);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, NULL), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(NULL), cudaSuccess);
	cr_assert_eq(byte, 1);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
}

Test(legacy, legacy_stream_does_not_make_non_blocking_streams_wait)
{
	char byte = 0;

	native_gate_hold(p, &gate, NULL);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, stream), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	cr_assert_eq(byte, 1);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(NULL), cudaSuccess);
}

Test(legacy, legacy_stream_has_its_own_handle)
{
	char byte = 0;

	native_gate_hold(p, &gate, cudaStreamLegacy);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, NULL), cudaSuccess);
	native_gate_reached(&gate);
	cr_assert_eq(p->cudaStreamQuery(NULL), cudaErrorNotReady);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(cudaStreamLegacy), cudaSuccess);
	cr_assert_eq(byte, 1);
}

Test(legacy, legacy_stream_exists_once_per_device)
{
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

Test(event, event_is_complete_before_it_is_recorded)
{
	cr_assert_eq(p->cudaEventQuery(event), cudaSuccess);
	cr_assert_eq(p->cudaEventSynchronize(event), cudaSuccess);
}

Test(event, event_completes_after_the_work_before_it)
{
	char byte = 0;

	native_gate_hold(p, &gate, stream);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, stream), cudaSuccess);
	cr_assert_eq(p->cudaEventRecord(event, stream), cudaSuccess);
	cr_assert_eq(p->cudaEventQuery(event), cudaErrorNotReady);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaEventSynchronize(event), cudaSuccess);
	cr_assert_eq(byte, 1);
	cr_assert_eq(p->cudaEventQuery(event), cudaSuccess);
}

Test(event, event_does_not_wait_for_the_work_after_it)
{
	char byte = 0;

	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, stream), cudaSuccess);
	cr_assert_eq(p->cudaEventRecord(event, stream), cudaSuccess);
	native_gate_hold(p, &gate, stream);
	cr_assert_eq(p->cudaEventSynchronize(event), cudaSuccess);
	cr_assert_eq(byte, 1);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
}

Test(event, event_makes_another_stream_wait)
{
	native_gate_hold(p, &gate, stream);
	cr_assert_eq(p->cudaEventRecord(event, stream), cudaSuccess);
	cr_assert_eq(p->cudaStreamWaitEvent(away, event, 0), cudaSuccess);
	expect_gated(away);
}

Test(event, unrecorded_event_makes_no_stream_wait)
{
	cr_assert_eq(p->cudaStreamWaitEvent(stream, event, 0), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
}

/*
 * cudaStreamWaitEvent() waits for the last record before the call. A later
 * record, which a gate blocks, must not block the waiting stream.
 */
Test(event, event_wait_is_for_the_record_at_the_time_of_the_call)
{
	struct native_gate first;
	struct native_gate second;

	native_gate_hold(p, &first, stream);
	cr_assert_eq(p->cudaEventRecord(event, stream), cudaSuccess);
	cr_assert_eq(p->cudaStreamWaitEvent(other, event, 0), cudaSuccess);
	native_gate_hold(p, &second, stream);
	cr_assert_eq(p->cudaEventRecord(event, stream), cudaSuccess);
	native_gate_open(&first);
	cr_assert_eq(p->cudaStreamSynchronize(other), cudaSuccess);
	native_gate_reached(&second);
	cr_assert_eq(p->cudaEventQuery(event), cudaErrorNotReady);
	native_gate_open(&second);
	cr_assert_eq(p->cudaEventSynchronize(event), cudaSuccess);
}

Test(event, stream_still_waits_for_an_event_that_was_destroyed)
{
	cudaEvent_t ended;

	cr_assert_eq(p->cudaEventCreate(&ended), cudaSuccess);
	native_gate_hold(p, &gate, stream);
	cr_assert_eq(p->cudaEventRecord(ended, stream), cudaSuccess);
	cr_assert_eq(p->cudaStreamWaitEvent(other, ended, 0), cudaSuccess);
	cr_assert_eq(p->cudaEventDestroy(ended), cudaSuccess);
	expect_gated(other);
}

Test(event, events_measure_the_time_between_them)
{
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
}

Test(event, elapsed_time_needs_recorded_events_with_timing)
{
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
}

/* ---- marks ------------------------------------------------------------ */

static uint32_t load(const uint32_t *at)
{
	return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}

/* Wait for a mark, which may be set slightly after the stream has reached
 * it. */
static void await(const uint32_t *at, uint32_t value)
{
	while (load(at) != value)
		sched_yield();
}

Test(mark, mark_is_written_in_stream_order)
{
	native_gate_hold(p, &gate, stream);
	cr_assert_eq(p->mark(stream, word, 41), cudaSuccess);
	cr_assert_eq(p->mark(stream, word, 42), cudaSuccess);
	native_gate_reached(&gate);
	cr_assert_eq(load(word), 0);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	await(word, 42);
}

Test(mark, mark_works_on_the_legacy_stream)
{
	cr_assert_eq(p->mark(NULL, word, 7), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(NULL), cudaSuccess);
	await(word, 7);
}

Test(mark, awaited_mark_blocks_a_stream_until_it_is_written)
{
	native_gate_hold(p, &gate, stream);
	cr_assert_eq(p->mark(stream, word, 3), cudaSuccess);
	cr_assert_eq(p->await_mark(other, word, 3), cudaSuccess);
	expect_gated(other);
}

Test(mark, awaited_mark_that_is_already_set_blocks_no_stream)
{
	cr_assert_eq(p->mark(stream, word, 5), cudaSuccess);
	cr_assert_eq(p->await_mark(stream, word, 3), cudaSuccess);
	cr_assert_eq(p->mark(stream, word, 2), cudaSuccess);
	cr_assert_eq(p->await_mark(stream, word, 0xfffffffe), cudaSuccess,
	             "the counter has wrapped since");
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
}

Test(mark, progress_runs_work_that_is_ready)
{
	char byte = 0;

	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, stream), cudaSuccess);
	cr_assert_eq(p->mark(stream, word, 1), cudaSuccess);
	while (load(word) != 1)
		p->progress(0, stream, NULL, 0, UINT64_MAX);
	cr_assert_eq(byte, 1);
}

Test(mark, progress_does_not_wait_for_a_stream)
{
	native_gate_hold(p, &gate, stream);
	cr_assert_eq(p->mark(stream, word, 1), cudaSuccess);
	p->progress(0, stream, NULL, 0, UINT64_MAX);
	native_gate_reached(&gate);
	p->progress(0, stream, NULL, 0, UINT64_MAX);
	cr_assert_eq(load(word), 0);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
}

Test(mark, progress_of_a_destroyed_stream_is_harmless)
{
	cudaStream_t own = native_stream(p, 0);

	cr_assert_eq(p->cudaStreamDestroy(own), cudaSuccess);
	p->progress(0, own, NULL, 0, UINT64_MAX);
	p->progress(0, NULL, NULL, 0, UINT64_MAX);
}

Test(mark, flush_of_a_destroyed_stream_is_harmless)
{
	cudaStream_t own = native_stream(p, 0);

	cr_assert_eq(p->cudaStreamDestroy(own), cudaSuccess);
	p->flush(0, own);
	p->flush(0, NULL);
}

/* ---- two threads on one stream ---------------------------------------- */

#define BESIDE 3000

static void *mark_all_the_time(void *user)
{
	atomic_bool *over = user;
	uint32_t value = 0;

	while (!atomic_load(over))
		native_must(p->mark(stream, word, ++value), "mark");
	return NULL;
}

static void add_one(void *user)
{
	atomic_fetch_add((atomic_int *)user, 1);
}

/*
 * The stream's own thread runs the host functions, while another thread does
 * the work that need not wait.
 */
Test(stream, host_functions_run_while_another_thread_sets_marks)
{
	atomic_bool over = false;
	atomic_int count = 0;
	pthread_t thread;
	int i;

	pthread_create(&thread, NULL, mark_all_the_time, &over);
	for (i = 0; i < BESIDE; i++) {
		native_must(p->cudaLaunchHostFunc(stream, add_one, &count),
		            "cudaLaunchHostFunc");
		native_must(p->cudaStreamSynchronize(stream),
		            "cudaStreamSynchronize");
	}
	atomic_store(&over, true);
	pthread_join(thread, NULL);
	cr_assert_eq(atomic_load(&count), BESIDE);
}
