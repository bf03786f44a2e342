/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Events that other processes may open, in the process that has created them; what
 * the others do with them is in tests/system/programs/ipc_event.c
 */

#include <criterion/criterion.h>
#include <string.h>

#include "sim/cuda/arena.h"
#include "sim/host.h"
#include "sim/strict/census.h"
#include "support/native.h"

#define SHARED (cudaEventInterprocess | cudaEventDisableTiming)
#define MOST 32 /* streams in which an event's recordings are on their way */

static const struct platform *p;
static cudaStream_t stream, streams[MOST + 1];
static cudaEvent_t event;
static struct native_gate gate;
static size_t live;

static void open_one(void)
{
	p = native_open_host(1);
	live = event_live();
	stream = native_stream(p, 0);
	native_must(p->cudaEventCreateWithFlags(&event, SHARED),
	            "cudaEventCreateWithFlags");
}

static void close_one(void)
{
	native_must(p->cudaEventDestroy(event), "cudaEventDestroy");
	native_must(p->cudaStreamDestroy(stream), "cudaStreamDestroy");
	cr_assert_eq(event_live(), live);
}

TestSuite(shared_event, .init = open_one, .fini = close_one, .timeout = 20);

static void need_shared_memory(void)
{
	if (!arena_is_shared())
		cr_skip_test("no other process can open an event");
}

Test(shared_event, has_a_handle_if_it_was_created_so)
{
	cudaIpcEventHandle_t handle;
	cudaEvent_t plain;

	need_shared_memory();
	native_must(p->cudaEventCreateWithFlags(&plain, cudaEventDisableTiming),
	            "cudaEventCreateWithFlags");
	cr_assert_eq(host_cudaIpcGetEventHandle(&handle, plain),
	             cudaErrorInvalidResourceHandle);
	cr_assert_eq(host_cudaIpcGetEventHandle(&handle, NULL),
	             cudaErrorInvalidResourceHandle);
	cr_assert_eq(host_cudaIpcGetEventHandle(&handle, event), cudaSuccess);
	native_must(p->cudaEventDestroy(plain), "cudaEventDestroy");
}

Test(shared_event, is_not_opened_where_it_was_created)
{
	cudaIpcEventHandle_t handle;
	cudaEvent_t other;

	need_shared_memory();
	cr_assert_eq(host_cudaIpcGetEventHandle(&handle, event), cudaSuccess);
	cr_assert_eq(host_cudaIpcOpenEventHandle(&other, handle),
	             cudaErrorDeviceUninitialized);
	memset(&handle, 0, sizeof(handle));
	cr_assert_eq(host_cudaIpcOpenEventHandle(&other, handle),
	             cudaErrorInvalidResourceHandle);
}

/* The words of the first one are not the second one's yet. */
Test(shared_event, is_not_recorded_by_what_its_predecessor_has_queued)
{
	native_gate_hold(p, &gate, stream);
	native_must(p->cudaEventRecord(event, stream), "cudaEventRecord");
	native_must(p->cudaEventDestroy(event), "cudaEventDestroy");
	native_must(p->cudaEventCreateWithFlags(&event, SHARED),
	            "cudaEventCreateWithFlags");
	cr_assert_eq(p->cudaEventQuery(event), cudaSuccess);
	native_must(p->cudaEventRecord(event, stream), "cudaEventRecord");
	cr_assert_eq(p->cudaEventQuery(event), cudaErrorNotReady);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaEventSynchronize(event), cudaSuccess);
}

Test(shared_event, gives_its_words_to_the_next_one)
{
	cudaIpcEventHandle_t before, after;

	need_shared_memory();
	native_must(p->cudaEventRecord(event, stream), "cudaEventRecord");
	native_must(p->cudaEventSynchronize(event), "cudaEventSynchronize");
	host_cudaIpcGetEventHandle(&before, event);
	native_must(p->cudaEventDestroy(event), "cudaEventDestroy");
	native_must(p->cudaEventCreateWithFlags(&event, SHARED),
	            "cudaEventCreateWithFlags");
	host_cudaIpcGetEventHandle(&after, event);
	/* The last of the content is the event's own number. */
	cr_assert_eq(memcmp(&before, &after, 48), 0);
	cr_assert_neq(memcmp(&before, &after, sizeof(before)), 0);
}

Test(shared_event, is_recorded_in_many_streams_at_a_time_but_not_in_any_number)
{
	size_t i;

	need_shared_memory();
	native_gate_hold(p, &gate, stream);
	for (i = 0; i <= MOST; i++)
		streams[i] = native_stream(p, 0);
	for (i = 0; i < MOST; i++) {
		native_must(p->cudaEventRecord(event, stream),
		            "cudaEventRecord");
		native_must(p->cudaStreamWaitEvent(streams[i], event, 0),
		            "cudaStreamWaitEvent");
	}
	for (i = 0; i < MOST - 1; i++)
		native_must(p->cudaEventRecord(event, streams[i]),
		            "cudaEventRecord");
	cr_assert_eq(p->cudaEventRecord(event, streams[MOST - 1]),
	             cudaErrorMemoryAllocation);
	native_must(p->cudaEventRecord(event, streams[MOST - 2]),
	            "cudaEventRecord");
	native_gate_open(&gate);
	for (i = 0; i <= MOST; i++)
		native_must(p->cudaStreamSynchronize(streams[i]),
		            "cudaStreamSynchronize");
	cr_assert_eq(p->cudaEventRecord(event, streams[MOST]), cudaSuccess);
	cr_assert_eq(p->cudaEventSynchronize(event), cudaSuccess);
	for (i = 0; i <= MOST; i++)
		native_must(p->cudaStreamDestroy(streams[i]),
		            "cudaStreamDestroy");
}

Test(shared_event, is_recorded_and_waited_for_by_graphs)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	native_must(host_cudaStreamBeginCapture(stream,
	                                        cudaStreamCaptureModeRelaxed),
	            "cudaStreamBeginCapture");
	native_must(host_cudaEventRecordWithFlags(event, stream,
	                                          cudaEventRecordExternal),
	            "cudaEventRecordWithFlags");
	native_must(p->cudaStreamWaitEvent(stream, event,
	                                   cudaEventWaitExternal),
	            "cudaStreamWaitEvent");
	native_must(host_cudaStreamEndCapture(stream, &graph),
	            "cudaStreamEndCapture");
	native_must(host_cudaGraphInstantiate(&exec, graph, 0),
	            "cudaGraphInstantiate");
	native_gate_hold(p, &gate, stream);
	native_must(host_cudaGraphLaunch(exec, stream), "cudaGraphLaunch");
	cr_assert_eq(p->cudaEventQuery(event), cudaErrorNotReady);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaEventSynchronize(event), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	native_must(host_cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");
	native_must(host_cudaGraphDestroy(graph), "cudaGraphDestroy");
}
