/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the attributes of the host platform's streams, of per-thread default
 * streams, and of rules for host functions, callbacks, events and handles for
 * other processes
 */

#include <criterion/criterion.h>
#include <pthread.h>

#include "sim/cuda/arena.h"
#include "sim/host.h"
#include "sim/strict/census.h"
#include "support/native.h"

static const struct platform *p;
static cudaStream_t stream; /* a non-blocking stream on device 0 */
static struct native_gate gate;

static void open_two(void)
{
	p = native_open_host(2);
	stream = native_stream(p, 0);
}

static void close_two(void)
{
	native_must(p->cudaStreamDestroy(stream), "cudaStreamDestroy");
}

TestSuite(stream_info, .init = open_two, .fini = close_two, .timeout = 20);

static unsigned long long id_of(cudaStream_t s)
{
	unsigned long long id = 0;

	cr_assert_eq(host_cudaStreamGetId(s, &id), cudaSuccess);
	return id;
}

Test(stream_info, streams_have_flags_a_device_and_an_id)
{
	cudaStream_t blocking;
	unsigned int flags = 77;
	int device = -1;

	p->cudaSetDevice(1);
	native_must(p->cudaStreamCreate(&blocking), "cudaStreamCreate");
	p->cudaSetDevice(0);
	cr_assert_eq(host_cudaStreamGetFlags(blocking, &flags), cudaSuccess);
	cr_assert_eq(flags, cudaStreamDefault);
	cr_assert_eq(host_cudaStreamGetDevice(blocking, &device), cudaSuccess);
	cr_assert_eq(device, 1);
	cr_assert_eq(host_cudaStreamGetFlags(stream, &flags), cudaSuccess);
	cr_assert_eq(flags, cudaStreamNonBlocking);
	cr_assert_neq(id_of(stream), id_of(blocking));
	cr_assert_neq(id_of(stream), id_of(NULL));
	cr_assert_eq(id_of(NULL), id_of(cudaStreamLegacy));
	cr_assert_eq(host_cudaStreamGetFlags(stream, NULL),
	             cudaErrorInvalidValue);
	p->cudaStreamDestroy(blocking);
	cr_assert_eq(host_cudaStreamGetFlags(blocking, &flags),
	             cudaErrorInvalidResourceHandle);
}

/* A new stream gets a new id even if it reuses the memory of an old one. */
Test(stream_info, stream_ids_are_not_reused)
{
	cudaStream_t s = native_stream(p, 0);
	unsigned long long id = id_of(s);

	p->cudaStreamDestroy(s);
	s = native_stream(p, 0);
	cr_assert_neq(id_of(s), id);
	p->cudaStreamDestroy(s);
}

Test(stream_info, stream_priorities_are_clamped)
{
	cudaStream_t s;
	int priority = 77, greatest = 0;

	host_cudaDeviceGetStreamPriorityRange(NULL, &greatest);
	cr_assert_eq(host_cudaStreamCreateWithPriority(&s, 0, -100),
	             cudaSuccess);
	cr_assert_eq(host_cudaStreamGetPriority(s, &priority), cudaSuccess);
	cr_assert_eq(priority, greatest);
	p->cudaStreamDestroy(s);
	cr_assert_eq(host_cudaStreamCreateWithPriority(&s, 0, 3), cudaSuccess);
	cr_assert_eq(host_cudaStreamGetPriority(s, &priority), cudaSuccess);
	cr_assert_eq(priority, 0);
	p->cudaStreamDestroy(s);
	cr_assert_eq(host_cudaStreamCreateWithPriority(&s, 2, 0),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaStreamCreateWithPriority(NULL, 0, 0),
	             cudaErrorInvalidValue);
}

/* ---- the per-thread default streams ----------------------------------- */

static void *id_elsewhere(void *arg)
{
	(void)arg;
	return (void *)(uintptr_t)id_of(cudaStreamPerThread);
}

Test(stream_info, every_thread_has_a_default_stream_per_device)
{
	unsigned long long mine = id_of(cudaStreamPerThread);
	const size_t live = stream_live();
	pthread_t thread;
	void *theirs;

	cr_assert_eq(id_of(cudaStreamPerThread), mine);
	pthread_create(&thread, NULL, id_elsewhere, NULL);
	pthread_join(thread, &theirs);
	cr_assert_neq((uintptr_t)theirs, mine);
	cr_assert_eq(stream_live(), live, "the thread's stream ended with it");
	p->cudaSetDevice(1);
	cr_assert_neq(id_of(cudaStreamPerThread), mine);
	cr_assert_eq(p->cudaStreamDestroy(cudaStreamPerThread),
	             cudaErrorInvalidResourceHandle);
}

Test(stream_info, legacy_stream_waits_for_per_thread_streams)
{
	char byte = 0;

	native_gate_hold(p, &gate, cudaStreamPerThread);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, NULL), cudaSuccess);
	native_gate_reached(&gate);
	cr_assert_eq(p->cudaStreamQuery(NULL), cudaErrorNotReady);
	cr_assert_eq(byte, 0);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(NULL), cudaSuccess);
	cr_assert_eq(byte, 1);
}

Test(stream_info, per_thread_stream_does_not_block_other_streams)
{
	char byte = 0;

	native_gate_hold(p, &gate, cudaStreamPerThread);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, stream), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	cr_assert_eq(byte, 1);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(cudaStreamPerThread),
	             cudaSuccess);
}

/* ---- host functions --------------------------------------------------- */

static cudaError_t answers[6];

/* Make the calls that are forbidden in a host function. */
static void call_cuda(void *user)
{
	cudaStream_t s;
	void *memory = NULL;
	char byte;

	(void)user;
	answers[0] = p->cudaMalloc(&memory, 8);
	answers[1] = p->cudaMemsetAsync(&byte, 0, 1, stream);
	answers[2] = p->cudaStreamSynchronize(stream);
	answers[3] = p->cudaDeviceSynchronize();
	answers[4] = p->cudaStreamCreate(&s);
	answers[5] = p->cudaLaunchHostFunc(stream, call_cuda, NULL);
}

static void check_refused(void)
{
	int i;

	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	for (i = 0; i < 6; i++)
		cr_assert_eq(answers[i], cudaErrorNotPermitted, "%d", i);
}

Test(stream_info, host_functions_may_not_call_cuda)
{
	cr_assert_eq(p->cudaLaunchHostFunc(stream, call_cuda, NULL),
	             cudaSuccess);
	check_refused();
}

static cudaStream_t seen;

static void callback(cudaStream_t s, cudaError_t status, void *user)
{
	seen = s;
	*(cudaError_t *)user = status;
	call_cuda(NULL);
}

Test(stream_info, stream_callback_gets_its_stream_and_error)
{
	cudaError_t status = cudaErrorUnknown;

	cr_assert_eq(host_cudaStreamAddCallback(stream, callback, &status, 0),
	             cudaSuccess);
	check_refused();
	cr_assert_eq(seen, stream);
	cr_assert_eq(status, cudaSuccess);
	cr_assert_eq(host_cudaStreamAddCallback(stream, callback, &status, 1),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaStreamAddCallback(stream, NULL, NULL, 0),
	             cudaErrorInvalidValue);
}

/* ---- events ----------------------------------------------------------- */

Test(stream_info, event_can_be_recorded_only_on_its_own_device)
{
	cudaStream_t away = native_stream(p, 1);
	cudaEvent_t event;

	native_must(p->cudaEventCreate(&event), "cudaEventCreate");
	cr_assert_eq(p->cudaEventRecord(event, away),
	             cudaErrorInvalidResourceHandle);
	cr_assert_eq(p->cudaStreamWaitEvent(away, event, 0), cudaSuccess);
	cr_assert_eq(p->cudaStreamWaitEvent(away, event, 2),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaEventRecordWithFlags(event, stream, 2),
	             cudaErrorInvalidValue);
	p->cudaEventDestroy(event);
	p->cudaStreamDestroy(away);
}

Test(stream_info, interprocess_event_cannot_have_timing)
{
	cudaEvent_t event;

	cr_assert_eq(p->cudaEventCreateWithFlags(&event, cudaEventInterprocess),
	             cudaErrorInvalidValue);
	cr_assert_eq(p->cudaEventCreateWithFlags(
			     &event,
			     cudaEventInterprocess | cudaEventDisableTiming),
	             cudaSuccess);
	p->cudaEventDestroy(event);
}

/* ---- other processes -------------------------------------------------- */

/*
 * Handles for other processes are supported only if processes share memory.
 * tests/system/programs/ipc.c tests that case.
 */
Test(stream_info, ipc_handles_are_supported_only_in_shared_memory)
{
	const bool is_shared = arena_is_shared();
	cudaIpcMemHandle_t of_memory = { { 0 } };
	void *memory;

	native_must(p->cudaMalloc(&memory, 8), "cudaMalloc");
	cr_assert_eq(host_cudaIpcGetMemHandle(&of_memory, memory),
	             is_shared ? cudaSuccess : cudaErrorNotSupported);
	cr_assert_eq(host_cudaIpcGetMemHandle(&of_memory, &of_memory),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaIpcOpenMemHandle(&memory, of_memory,
	                                       cudaIpcMemLazyEnablePeerAccess),
	             is_shared ? cudaErrorDeviceUninitialized
	                       : cudaErrorNotSupported);
	cr_assert_eq(host_cudaIpcOpenMemHandle(&memory, of_memory, 0),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaIpcCloseMemHandle(memory),
	             is_shared ? cudaErrorInvalidValue : cudaErrorNotSupported);
	p->cudaFree(memory);
}

/* ---- managed memory --------------------------------------------------- */

Test(stream_info, managed_memory_can_only_be_attached_as_a_whole)
{
	void *managed;

	native_must(host_cudaMallocManaged(&managed, 64, cudaMemAttachGlobal),
	            "cudaMallocManaged");
	cr_assert_eq(host_cudaStreamAttachMemAsync(stream, managed, 0,
	                                           cudaMemAttachSingle),
	             cudaSuccess);
	cr_assert_eq(host_cudaStreamAttachMemAsync(stream, managed, 32,
	                                           cudaMemAttachSingle),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaStreamAttachMemAsync(NULL, managed, 0,
	                                           cudaMemAttachSingle),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaStreamAttachMemAsync(stream, managed, 0, 3),
	             cudaErrorInvalidValue);
	p->cudaFree(managed);
}
