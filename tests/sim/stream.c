/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Streams, events and marks of the host platform
 *
 * A gate, which is a host function that waits for the test, holds back
 * everything that must not happen yet; no test sleeps.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>

#include "platform/platform.h"
#include "support/native.h"

/* Where a host function writes, and what. */
struct note {
	int *next;
	int seen;
};

/* Note the position at which this function ran. */
static void note_order(void *user)
{
	struct note *note = user;

	note->seen = (*note->next)++;
}

static void post(void *user)
{
	sem_post(user);
}

/* ---- set-up of every test --------------------------------------------- */

static const struct platform *p;
static cudaStream_t stream, other; /* on device 0, not blocking */
static cudaStream_t away;          /* on device 1, not blocking */
static cudaStream_t blocking;      /* on device 0 */
static cudaEvent_t event;
static uint32_t *word; /* pinned */
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

TestSuite(stream, .init = open_all, .fini = close_all, .timeout = 10);
TestSuite(legacy, .init = open_all, .fini = close_all, .timeout = 10);
TestSuite(event, .init = open_all, .fini = close_all, .timeout = 10);
TestSuite(mark, .init = open_all, .fini = close_all, .timeout = 10);

/* ---- streams ---------------------------------------------------------- */

Test(stream, work_behind_a_gate_waits_and_the_caller_does_not)
{
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
}

Test(stream, a_host_function_runs_without_a_wait)
{
	sem_t ran;

	sem_init(&ran, 0, 0);
	cr_assert_eq(p->cudaLaunchHostFunc(stream, post, &ran), cudaSuccess);
	sem_wait(&ran);
}

Test(stream, work_behind_a_memset_runs_without_a_wait)
{
	char byte = 0;
	sem_t ran;

	sem_init(&ran, 0, 0);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, stream), cudaSuccess);
	cr_assert_eq(p->cudaLaunchHostFunc(stream, post, &ran), cudaSuccess);
	sem_wait(&ran);
	cr_assert_eq(byte, 1);
}

Test(stream, keeps_the_order_of_its_work)
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

Test(stream, takes_many_pending_operations)
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

/* A full queue holds the caller, as a launch queue does; no work is lost. */
Test(stream, takes_more_work_than_it_holds_while_it_moves)
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

Test(stream, does_not_wait_for_another_stream)
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

Test(stream, finishes_its_work_after_it_is_destroyed)
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

Test(stream, null_outputs_and_flags_are_checked)
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

Test(stream, handles_that_are_no_streams_are_refused)
{
	uint64_t memory[8] = { 0 };

	expect_no_stream((cudaStream_t)memory);
	expect_no_stream((cudaStream_t)((char *)stream + 1));
	expect_no_stream((cudaStream_t)UINT64_C(0xdead0000));
	expect_no_stream((cudaStream_t)3);
}

Test(stream, destroyed_handle_is_refused_although_new_streams_are_created)
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

/* The simulator has room for a limited number of handles at a time, not in all. */
Test(stream, more_handles_than_there_is_room_for_are_created_in_turn)
{
	cudaStream_t own;
	int i;

	for (i = 0; i < 70000; i++) {
		own = native_stream(p, 0);
		cr_assert_eq(p->cudaStreamDestroy(own), cudaSuccess);
	}
}

/* ---- the legacy default stream ---------------------------------------- */

Test(legacy, waits_for_blocking_streams)
{
	char byte = 0;

	native_gate_hold(p, &gate, blocking);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, NULL), cudaSuccess);
	native_gate_reached(&gate);
	cr_assert_eq(p->cudaStreamQuery(NULL), cudaErrorNotReady);
	cr_assert_eq(byte, 0);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(NULL), cudaSuccess);
	cr_assert_eq(byte, 1);
}

Test(legacy, holds_blocking_streams)
{
	char byte = 0;

	native_gate_hold(p, &gate, NULL);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, blocking), cudaSuccess);
	native_gate_reached(&gate);
	cr_assert_eq(p->cudaStreamQuery(blocking), cudaErrorNotReady);
	cr_assert_eq(byte, 0);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(blocking), cudaSuccess);
	cr_assert_eq(byte, 1);
}

Test(legacy, does_not_wait_for_non_blocking_streams)
{
	char byte = 0;

	native_gate_hold(p, &gate, stream);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, NULL), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(NULL), cudaSuccess);
	cr_assert_eq(byte, 1);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
}

Test(legacy, does_not_hold_non_blocking_streams)
{
	char byte = 0;

	native_gate_hold(p, &gate, NULL);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, stream), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	cr_assert_eq(byte, 1);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(NULL), cudaSuccess);
}

Test(legacy, has_a_handle_of_its_own)
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

Test(legacy, exists_once_per_device)
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

Test(event, is_complete_before_it_was_recorded)
{
	cr_assert_eq(p->cudaEventQuery(event), cudaSuccess);
	cr_assert_eq(p->cudaEventSynchronize(event), cudaSuccess);
}

Test(event, completes_after_the_work_before_it)
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

Test(event, does_not_wait_for_the_work_after_it)
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

Test(event, makes_another_stream_wait)
{
	char byte = 0;

	native_gate_hold(p, &gate, stream);
	cr_assert_eq(p->cudaEventRecord(event, stream), cudaSuccess);
	cr_assert_eq(p->cudaStreamWaitEvent(away, event, 0), cudaSuccess);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, away), cudaSuccess);
	native_gate_reached(&gate);
	cr_assert_eq(p->cudaStreamQuery(away), cudaErrorNotReady);
	cr_assert_eq(byte, 0);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(away), cudaSuccess);
	cr_assert_eq(byte, 1);
}

Test(event, unrecorded_makes_no_stream_wait)
{
	cr_assert_eq(p->cudaStreamWaitEvent(stream, event, 0), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
}

/*
 * The last record before the wait was queued counts: a later record, behind a
 * shut gate, must not hold the waiting stream.
 */
Test(event, wait_means_the_record_at_the_time_of_the_call)
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

Test(event, destroyed_before_it_completes_still_counts)
{
	char byte = 0;

	native_gate_hold(p, &gate, stream);
	cr_assert_eq(p->cudaEventRecord(event, stream), cudaSuccess);
	cr_assert_eq(p->cudaStreamWaitEvent(other, event, 0), cudaSuccess);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, other), cudaSuccess);
	cr_assert_eq(p->cudaStreamQuery(other), cudaErrorNotReady);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(other), cudaSuccess);
	cr_assert_eq(byte, 1);
}

Test(event, measures_the_time_between_two)
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

Test(event, time_needs_events_that_have_it)
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

/* The mark may be set a little later than the stream gets there. */
static void await(const uint32_t *at, uint32_t value)
{
	while (load(at) != value)
		sched_yield();
}

Test(mark, is_written_in_stream_order)
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

Test(mark, works_on_the_legacy_stream)
{
	cr_assert_eq(p->mark(NULL, word, 7), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(NULL), cudaSuccess);
	await(word, 7);
}

Test(mark, awaited_holds_a_stream_until_it_is_written)
{
	char byte = 0;

	native_gate_hold(p, &gate, stream);
	cr_assert_eq(p->mark(stream, word, 3), cudaSuccess);
	cr_assert_eq(p->await_mark(other, word, 3), cudaSuccess);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, other), cudaSuccess);
	native_gate_reached(&gate);
	cr_assert_eq(p->cudaStreamQuery(other), cudaErrorNotReady);
	cr_assert_eq(byte, 0);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(other), cudaSuccess);
	cr_assert_eq(byte, 1);
}

Test(mark, awaited_and_passed_holds_nothing)
{
	cr_assert_eq(p->mark(stream, word, 5), cudaSuccess);
	cr_assert_eq(p->await_mark(stream, word, 3), cudaSuccess);
	cr_assert_eq(p->mark(stream, word, 2), cudaSuccess);
	cr_assert_eq(p->await_mark(stream, word, 0xfffffffe), cudaSuccess,
	             "the counter has wrapped since");
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
}

Test(mark, progress_runs_what_is_ready)
{
	char byte = 0;

	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, stream), cudaSuccess);
	cr_assert_eq(p->mark(stream, word, 1), cudaSuccess);
	while (load(word) != 1)
		p->progress(0, stream, NULL, 0, UINT64_MAX);
	cr_assert_eq(byte, 1);
}

Test(mark, progress_does_not_wait)
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
 * The stream's own thread runs the host functions; another thread does what can
 * be done at once.
 */
Test(stream, runs_host_functions_beside_the_marks_of_another_thread)
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
