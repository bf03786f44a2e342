/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Attributes of the host platform's streams, the per-thread default streams,
 * and the rules for host functions, callbacks, events and handles of other
 * processes
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "sim/cuda/arena.h"
#include "sim/host.h"
#include "sim/strict/census.h"
#include "support/native.h"

static const struct platform *p;
static cudaStream_t stream; /* on device 0, not blocking */
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

/* Even if a new stream gets the memory of an old one. */
Test(stream_info, ids_are_not_reused)
{
	cudaStream_t s = native_stream(p, 0);
	unsigned long long id = id_of(s);

	p->cudaStreamDestroy(s);
	s = native_stream(p, 0);
	cr_assert_neq(id_of(s), id);
	p->cudaStreamDestroy(s);
}

Test(stream_info, priorities_are_clamped)
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

Test(stream_info, attributes_are_kept_and_copied)
{
	cudaStreamAttrValue value;
	cudaStream_t other = native_stream(p, 0);

	memset(&value, 0, sizeof(value));
	value.syncPolicy = cudaSyncPolicyYield;
	cr_assert_eq(host_cudaStreamSetAttribute(
			     stream, cudaLaunchAttributeSynchronizationPolicy,
			     &value),
	             cudaSuccess);
	cr_assert_eq(host_cudaStreamCopyAttributes(other, stream), cudaSuccess);
	memset(&value, 0, sizeof(value));
	cr_assert_eq(host_cudaStreamGetAttribute(
			     other, cudaLaunchAttributeSynchronizationPolicy,
			     &value),
	             cudaSuccess);
	cr_assert_eq(value.syncPolicy, cudaSyncPolicyYield);
	cr_assert_eq(host_cudaStreamGetAttribute(
			     other, cudaLaunchAttributeIgnore, &value),
	             cudaErrorInvalidValue);
	p->cudaStreamDestroy(other);
}

/* ---- the per-thread default streams ----------------------------------- */

static void *id_elsewhere(void *arg)
{
	(void)arg;
	return (void *)(uintptr_t)id_of(cudaStreamPerThread);
}

Test(stream_info, every_thread_has_a_stream_per_device)
{
	unsigned long long mine = id_of(cudaStreamPerThread);
	const size_t live = stream_live();
	pthread_t thread;
	void *theirs;

	cr_assert_eq(id_of(cudaStreamPerThread), mine);
	pthread_create(&thread, NULL, id_elsewhere, NULL);
	pthread_join(thread, &theirs);
	cr_assert_neq((uintptr_t)theirs, mine);
	cr_assert_eq(stream_live(), live, "its stream ended with it");
	p->cudaSetDevice(1);
	cr_assert_neq(id_of(cudaStreamPerThread), mine);
	cr_assert_eq(p->cudaStreamDestroy(cudaStreamPerThread),
	             cudaErrorInvalidResourceHandle);
}

/* Like any blocking stream, and only on its device. */
Test(stream_info, the_legacy_stream_waits_for_threads)
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

Test(stream_info, a_threads_stream_does_not_hold_others)
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

/* None of these calls is allowed here. */
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

Test(stream_info, callbacks_get_their_stream_and_its_error)
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

Test(stream_info, events_are_for_streams_of_their_device)
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

Test(stream_info, events_for_other_processes_have_no_time)
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

/* Where memory is that of this process alone.  For where it is not see shared_event.c and
 * tests/system/programs/ipc.c. */
Test(stream_info, handles_for_other_processes_are_not_supported)
{
	const bool is_shared = arena_is_shared();
	cudaIpcEventHandle_t of_event = { { 0 } };
	cudaIpcMemHandle_t of_memory = { { 0 } };
	cudaEvent_t event;
	void *memory;

	native_must(p->cudaMalloc(&memory, 8), "cudaMalloc");
	native_must(p->cudaEventCreate(&event), "cudaEventCreate");
	cr_assert_eq(host_cudaIpcGetMemHandle(&of_memory, memory),
	             is_shared ? cudaSuccess : cudaErrorNotSupported);
	cr_assert_eq(host_cudaIpcGetMemHandle(&of_memory, &of_memory),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaIpcGetEventHandle(&of_event, event),
	             is_shared ? cudaErrorInvalidResourceHandle
	                       : cudaErrorNotSupported);
	cr_assert_eq(host_cudaIpcGetEventHandle(NULL, event),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaIpcOpenMemHandle(&memory, of_memory,
	                                       cudaIpcMemLazyEnablePeerAccess),
	             is_shared ? cudaErrorDeviceUninitialized
	                       : cudaErrorNotSupported);
	cr_assert_eq(host_cudaIpcOpenMemHandle(&memory, of_memory, 0),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaIpcOpenEventHandle(&event, of_event),
	             is_shared ? cudaErrorInvalidResourceHandle
	                       : cudaErrorNotSupported);
	cr_assert_eq(host_cudaIpcCloseMemHandle(memory),
	             is_shared ? cudaErrorInvalidValue : cudaErrorNotSupported);
	p->cudaEventDestroy(event);
	p->cudaFree(memory);
}

/* ---- managed memory --------------------------------------------------- */

Test(stream_info, managed_memory_is_attached_as_a_whole)
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
