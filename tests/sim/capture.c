/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of capturing streams into graphs and launching the graphs, on the host
 * platform
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "sim/host.h"
#include "support/native.h"

static const struct platform *p;
static cudaStream_t stream, second; /* two non-blocking streams on device 0 */
static char from[4] = "abc", to[4];

static void open_two(void)
{
	p = native_open_host(2);
	stream = native_stream(p, 0);
	second = native_stream(p, 0);
}

static void close_two(void)
{
	native_must(p->cudaStreamDestroy(stream), "cudaStreamDestroy");
	native_must(p->cudaStreamDestroy(second), "cudaStreamDestroy");
}

TestSuite(capture, .init = open_two, .fini = close_two, .timeout = 20);

static void begin_mode(enum cudaStreamCaptureMode mode)
{
	native_must(host_cudaStreamBeginCapture(stream, mode),
	            "cudaStreamBeginCapture");
}

static void begin(void)
{
	begin_mode(cudaStreamCaptureModeGlobal);
}

static cudaGraph_t end(void)
{
	cudaGraph_t graph = NULL;

	native_must(host_cudaStreamEndCapture(stream, &graph),
	            "cudaStreamEndCapture");
	return graph;
}

/* Expect cudaStreamEndCapture() to return @error. */
static void check_end(cudaError_t error)
{
	cudaGraph_t graph = (cudaGraph_t)&graph;

	cr_assert_eq(host_cudaStreamEndCapture(stream, &graph), error);
	cr_assert_null(graph);
	cr_assert_eq(p->cudaStreamQuery(stream), cudaSuccess);
}

static cudaGraphExec_t instantiate(cudaGraph_t graph)
{
	cudaGraphExec_t exec;

	native_must(host_cudaGraphInstantiate(&exec, graph, 0),
	            "cudaGraphInstantiate");
	native_must(host_cudaGraphDestroy(graph), "cudaGraphDestroy");
	return exec;
}

static void run(cudaGraphExec_t exec)
{
	cr_assert_eq(host_cudaGraphLaunch(exec, stream), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
}

static size_t nodes_of(cudaGraph_t graph)
{
	size_t n = 77;

	cr_assert_eq(host_cudaGraphGetNodes(graph, NULL, &n), cudaSuccess);
	return n;
}

static cudaEvent_t new_event(void)
{
	cudaEvent_t event;

	native_must(p->cudaEventCreate(&event), "cudaEventCreate");
	return event;
}

static void copy(void)
{
	cr_assert_eq(p->cudaMemcpyAsync(to, from, 4, cudaMemcpyDefault, stream),
	             cudaSuccess);
}

static enum cudaStreamCaptureStatus status_of(cudaStream_t s)
{
	enum cudaStreamCaptureStatus status;

	cr_assert_eq(host_cudaStreamIsCapturing(s, &status), cudaSuccess);
	return status;
}

/* Make stream @b wait for the work of stream @a. */
static void link_streams(cudaStream_t a, cudaStream_t b)
{
	cudaEvent_t event = new_event();

	cr_assert_eq(p->cudaEventRecord(event, a), cudaSuccess);
	cr_assert_eq(p->cudaStreamWaitEvent(b, event, 0), cudaSuccess);
	cr_assert_eq(p->cudaEventDestroy(event), cudaSuccess);
}

/* ---- properties of a capture ------------------------------------------ */

Test(capture, captured_work_runs_only_when_it_is_replayed)
{
	cudaGraphExec_t exec;

	begin();
	copy();
	exec = instantiate(end());
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	cr_assert_eq(to[0], 0);
	run(exec);
	cr_assert_str_eq(to, "abc");
	from[0] = 'x';
	run(exec);
	cr_assert_str_eq(to, "xbc");
	cr_assert_eq(host_cudaGraphExecDestroy(exec), cudaSuccess);
}

static int counted;

static void count(void *user)
{
	(void)user;
	counted++;
}

/* Enqueue copies, 2D copies, memsets, a host function and marks. */
static void queue_all(uint32_t *word)
{
	copy();
	cr_assert_eq(host_cudaMemcpy2DAsync(to, 2, from, 2, 1, 2,
	                                    cudaMemcpyDefault, stream),
	             cudaSuccess);
	cr_assert_eq(p->cudaMemsetAsync(to, 'z', 1, stream), cudaSuccess);
	cr_assert_eq(host_cudaMemset2DAsync(to + 1, 2, 'y', 1, 1, stream),
	             cudaSuccess);
	cr_assert_eq(p->cudaLaunchHostFunc(stream, count, NULL), cudaSuccess);
	cr_assert_eq(p->mark(stream, word, 5), cudaSuccess);
	cr_assert_eq(p->await_mark(stream, word, 5), cudaSuccess);
}

Test(capture, all_kinds_of_work_can_be_captured)
{
	static const int types[] = {
		cudaGraphNodeTypeMemcpy, cudaGraphNodeTypeMemcpy,
		cudaGraphNodeTypeMemset, cudaGraphNodeTypeMemset,
		cudaGraphNodeTypeHost,
	};
	enum cudaGraphNodeType type;
	cudaGraphNode_t nodes[9];
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	uint32_t word = 0;
	size_t i, n = 9;

	begin();
	queue_all(&word);
	graph = end();
	cr_assert_eq(host_cudaGraphGetNodes(graph, nodes, &n), cudaSuccess);
	cr_assert_eq(n, 7);
	cr_assert_null(nodes[8]);
	for (i = 0; i < 5; i++) {
		cr_assert_eq(host_cudaGraphNodeGetType(nodes[i], &type),
		             cudaSuccess);
		cr_assert_eq((int)type, types[i]);
	}
	n = 9;
	cr_assert_eq(host_cudaGraphGetRootNodes(graph, nodes, &n), cudaSuccess);
	cr_assert_eq(n, 1);
	exec = instantiate(graph);
	run(exec);
	run(exec);
	cr_assert_str_eq(to, "zyc");
	cr_assert_eq(counted, 2);
	cr_assert_eq(word, 5);
	cr_assert_eq(host_cudaGraphExecDestroy(exec), cudaSuccess);
}

Test(capture, capture_has_a_status_and_an_id)
{
	enum cudaStreamCaptureStatus status;
	const cudaGraphNode_t *after;
	unsigned long long id = 0, other = 0;
	cudaGraph_t graph = NULL;
	size_t n = 77;

	cr_assert_eq(status_of(stream), cudaStreamCaptureStatusNone);
	begin();
	copy();
	cr_assert_eq(host_cudaStreamGetCaptureInfo(stream, &status, &id, &graph,
	                                           &after, NULL, &n),
	             cudaSuccess);
	cr_assert_eq(status, cudaStreamCaptureStatusActive);
	cr_assert_eq(nodes_of(graph), 1);
	cr_assert_eq(n, 1);
	cr_assert_not_null(after[0]);
	cr_assert_eq(host_cudaStreamGetCaptureInfo(stream, NULL, &id, NULL,
	                                           NULL, NULL, NULL),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaGraphDestroy(graph), cudaErrorInvalidValue,
	             "the graph does not belong to the program yet");
	cr_assert_eq(end(), graph);
	begin();
	cr_assert_eq(host12_cudaStreamGetCaptureInfo(stream, &status, &other),
	             cudaSuccess);
	cr_assert_neq(id, other);
	host_cudaGraphDestroy(end());
	host_cudaGraphDestroy(graph);
}

Test(capture, dependencies_of_a_capture_can_be_changed)
{
	cudaGraph_t graph;
	size_t n = 0;

	cr_assert_eq(host_cudaStreamUpdateCaptureDependencies(stream, NULL,
	                                                      NULL, 0, 1),
	             cudaErrorIllegalState);
	begin();
	copy();
	cr_assert_eq(host_cudaStreamUpdateCaptureDependencies(
			     stream, NULL, NULL, 0,
			     cudaStreamSetCaptureDependencies),
	             cudaSuccess);
	copy();
	graph = end();
	cr_assert_eq(host_cudaGraphGetRootNodes(graph, NULL, &n), cudaSuccess);
	cr_assert_eq(n, 2);
	host_cudaGraphDestroy(graph);
}

Test(capture, capture_cannot_begin_or_end_in_a_wrong_state)
{
	cudaGraph_t graph;

	cr_assert_eq(host_cudaStreamEndCapture(stream, &graph),
	             cudaErrorIllegalState);
	cr_assert_eq(host_cudaStreamEndCapture(stream, NULL),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaStreamBeginCapture(NULL,
	                                         cudaStreamCaptureModeGlobal),
	             cudaErrorStreamCaptureUnsupported);
	cr_assert_eq(host_cudaStreamBeginCapture(stream,
	                                         (enum cudaStreamCaptureMode)3),
	             cudaErrorInvalidValue);
	begin();
	cr_assert_eq(host_cudaStreamBeginCapture(stream,
	                                         cudaStreamCaptureModeGlobal),
	             cudaErrorIllegalState);
	host_cudaGraphDestroy(end());
}

static void *end_elsewhere(void *arg)
{
	cudaGraph_t graph;
	cudaError_t error = host_cudaStreamEndCapture(stream, &graph);

	(void)arg;
	if (error == cudaSuccess)
		host_cudaGraphDestroy(graph);
	return (void *)(intptr_t)error;
}

static cudaError_t by_another_thread(void *(*fn)(void *))
{
	pthread_t thread;
	void *result;

	pthread_create(&thread, NULL, fn, NULL);
	pthread_join(thread, &result);
	return (cudaError_t)(intptr_t)result;
}

Test(capture, capture_ends_only_on_its_own_thread)
{
	begin_mode(cudaStreamCaptureModeThreadLocal);
	cr_assert_eq(by_another_thread(end_elsewhere),
	             cudaErrorStreamCaptureWrongThread);
	host_cudaGraphDestroy(end());
}

Test(capture, relaxed_capture_can_be_ended_by_any_thread)
{
	begin_mode(cudaStreamCaptureModeRelaxed);
	cr_assert_eq(by_another_thread(end_elsewhere), cudaSuccess);
}

/* ---- several streams -------------------------------------------------- */

Test(capture, capture_forks_and_joins_streams_by_events)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	begin();
	copy();
	link_streams(stream, second);
	cr_assert_eq(status_of(second), cudaStreamCaptureStatusActive);
	cr_assert_eq(p->cudaMemsetAsync(to, 'z', 1, second), cudaSuccess);
	link_streams(second, stream);
	cr_assert_eq(p->cudaMemsetAsync(to + 1, 'y', 1, stream), cudaSuccess);
	graph = end();
	cr_assert_eq(nodes_of(graph), 3);
	cr_assert_eq(status_of(second), cudaStreamCaptureStatusNone);
	exec = instantiate(graph);
	run(exec);
	cr_assert_str_eq(to, "zyc");
	host_cudaGraphExecDestroy(exec);
}

/* The branches wait for each other by marks, so they must run at the same
 * time. */
Test(capture, branches_of_a_graph_run_at_the_same_time)
{
	static uint32_t words[2];
	cudaGraphExec_t exec;

	begin();
	link_streams(stream, second);
	cr_assert_eq(p->mark(second, &words[0], 1), cudaSuccess);
	cr_assert_eq(p->await_mark(second, &words[1], 1), cudaSuccess);
	cr_assert_eq(p->await_mark(stream, &words[0], 1), cudaSuccess);
	cr_assert_eq(p->mark(stream, &words[1], 1), cudaSuccess);
	link_streams(second, stream);
	exec = instantiate(end());
	run(exec);
	cr_assert_eq(words[1], 1);
	host_cudaGraphExecDestroy(exec);
}

Test(capture, capture_fails_if_a_stream_has_not_joined_at_its_end)
{
	begin();
	link_streams(stream, second);
	cr_assert_eq(p->cudaMemsetAsync(to, 1, 1, second), cudaSuccess);
	check_end(cudaErrorStreamCaptureUnjoined);
	cr_assert_eq(status_of(second), cudaStreamCaptureStatusNone);
}

Test(capture, stream_that_has_joined_a_capture_can_be_destroyed)
{
	cudaStream_t third = native_stream(p, 0);
	cudaGraphExec_t exec;

	begin();
	link_streams(stream, third);
	cr_assert_eq(p->cudaMemsetAsync(to, 1, 1, third), cudaSuccess);
	link_streams(third, stream);
	cr_assert_eq(p->cudaStreamDestroy(third), cudaSuccess);
	exec = instantiate(end());
	run(exec);
	cr_assert_eq(to[0], 1);
	host_cudaGraphExecDestroy(exec);
}

/* If the destruction did not end the capture, no later call could. */
Test(capture, capture_ends_when_its_origin_stream_is_destroyed)
{
	cudaStream_t origin = native_stream(p, 0);
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
	void *memory;

	native_must(host_cudaStreamBeginCapture(origin, mode), "begin");
	cr_assert_eq(p->cudaMemsetAsync(to, 1, 1, origin), cudaSuccess);
	link_streams(origin, second);
	cr_assert_eq(p->cudaStreamDestroy(origin), cudaSuccess);
	cr_assert_eq(status_of(second), cudaStreamCaptureStatusNone);
	/* After the capture has ended, these calls are allowed. */
	cr_assert_eq(p->cudaDeviceSynchronize(), cudaSuccess);
	cr_assert_eq(p->cudaMalloc(&memory, 1), cudaSuccess);
	cr_assert_eq(p->cudaFree(memory), cudaSuccess);
	cr_assert_eq(p->cudaMemsetAsync(to, 2, 1, second), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(second), cudaSuccess);
	cr_assert_eq(to[0], 2);
}

Test(capture, capture_ends_only_on_the_stream_where_it_began)
{
	cudaGraph_t graph;

	begin();
	link_streams(stream, second);
	cr_assert_eq(host_cudaStreamEndCapture(second, &graph),
	             cudaErrorStreamCaptureUnmatched);
	check_end(cudaErrorStreamCaptureInvalidated);
}

Test(capture, capture_cannot_wait_for_work_outside_the_capture)
{
	cudaEvent_t event = new_event();

	native_must(p->cudaEventRecord(event, second), "cudaEventRecord");
	begin();
	cr_assert_eq(p->cudaStreamWaitEvent(stream, event, 0),
	             cudaErrorStreamCaptureIsolation);
	cr_assert_eq(status_of(stream), cudaStreamCaptureStatusInvalidated);
	check_end(cudaErrorStreamCaptureInvalidated);
	p->cudaEventDestroy(event);
}

Test(capture, capture_cannot_merge_with_another_capture)
{
	cudaEvent_t event = new_event();
	cudaGraph_t graph;

	begin();
	native_must(host_cudaStreamBeginCapture(second,
	                                        cudaStreamCaptureModeGlobal),
	            "cudaStreamBeginCapture");
	native_must(p->cudaEventRecord(event, second), "cudaEventRecord");
	cr_assert_eq(p->cudaStreamWaitEvent(stream, event, 0),
	             cudaErrorStreamCaptureMerge);
	check_end(cudaErrorStreamCaptureInvalidated);
	cr_assert_eq(host_cudaStreamEndCapture(second, &graph),
	             cudaErrorStreamCaptureInvalidated);
	p->cudaEventDestroy(event);
}

Test(capture, each_replay_of_a_graph_records_an_external_event)
{
	cudaEvent_t event = new_event();
	cudaGraphExec_t exec;
	struct native_gate gate;

	cr_assert_eq(host_cudaEventRecordWithFlags(event, stream,
	                                           cudaEventRecordExternal),
	             cudaErrorInvalidValue, "outside of a capture");
	begin();
	cr_assert_eq(p->cudaStreamWaitEvent(stream, event,
	                                    cudaEventWaitExternal),
	             cudaSuccess);
	cr_assert_eq(host_cudaEventRecordWithFlags(event, stream,
	                                           cudaEventRecordExternal),
	             cudaSuccess);
	exec = instantiate(end());
	cr_assert_eq(p->cudaEventQuery(event), cudaSuccess);
	native_gate_hold(p, &gate, stream);
	cr_assert_eq(host_cudaGraphLaunch(exec, stream), cudaSuccess);
	cr_assert_eq(p->cudaEventQuery(event), cudaErrorNotReady);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaEventSynchronize(event), cudaSuccess);
	host_cudaGraphExecDestroy(exec);
	p->cudaEventDestroy(event);
}

/* ---- calls that are forbidden during a capture ------------------------ */

Test(capture, capture_forbids_waits_and_queries_of_its_streams)
{
	begin();
	cr_assert_eq(p->cudaStreamQuery(stream),
	             cudaErrorStreamCaptureUnsupported);
	cr_assert_eq(p->cudaStreamSynchronize(stream),
	             cudaErrorStreamCaptureInvalidated);
	cr_assert_eq(p->cudaMemsetAsync(to, 0, 1, stream),
	             cudaErrorStreamCaptureInvalidated);
	check_end(cudaErrorStreamCaptureInvalidated);
}

Test(capture, capture_forbids_waits_for_its_device)
{
	begin_mode(cudaStreamCaptureModeRelaxed);
	p->cudaSetDevice(1);
	cr_assert_eq(p->cudaDeviceSynchronize(), cudaSuccess);
	p->cudaSetDevice(0);
	cr_assert_eq(status_of(stream), cudaStreamCaptureStatusActive);
	cr_assert_eq(p->cudaDeviceSynchronize(),
	             cudaErrorStreamCaptureUnsupported);
	check_end(cudaErrorStreamCaptureInvalidated);
}

Test(capture, capture_forbids_queries_of_its_events)
{
	cudaEvent_t event = new_event();
	float ms;

	begin();
	native_must(p->cudaEventRecord(event, stream), "cudaEventRecord");
	cr_assert_eq(p->cudaEventQuery(event), cudaErrorCapturedEvent);
	check_end(cudaErrorStreamCaptureInvalidated);
	cr_assert_eq(p->cudaEventSynchronize(event), cudaErrorCapturedEvent);
	cr_assert_eq(p->cudaEventElapsedTime(&ms, event, event),
	             cudaErrorCapturedEvent);
	cr_assert_eq(p->cudaStreamWaitEvent(second, event, 0),
	             cudaErrorCapturedEvent, "of a capture that has ended");
	native_must(p->cudaEventRecord(event, stream), "cudaEventRecord");
	cr_assert_eq(p->cudaEventSynchronize(event), cudaSuccess);
	p->cudaEventDestroy(event);
}

Test(capture, capture_of_a_blocking_stream_forbids_the_legacy_stream)
{
	enum cudaStreamCaptureStatus status;
	cudaStream_t blocking;
	cudaGraph_t graph;

	native_must(p->cudaStreamCreate(&blocking), "cudaStreamCreate");
	native_must(host_cudaStreamBeginCapture(blocking,
	                                        cudaStreamCaptureModeRelaxed),
	            "cudaStreamBeginCapture");
	cr_assert_eq(host_cudaStreamIsCapturing(NULL, &status),
	             cudaErrorStreamCaptureImplicit);
	cr_assert_eq(status_of(blocking), cudaStreamCaptureStatusActive);
	cr_assert_eq(p->cudaMemset(to, 0, 1), cudaErrorStreamCaptureImplicit);
	cr_assert_eq(host_cudaStreamEndCapture(blocking, &graph),
	             cudaErrorStreamCaptureInvalidated);
	cr_assert_eq(p->cudaStreamDestroy(blocking), cudaSuccess);
	begin();
	cr_assert_eq(p->cudaMemsetAsync(to, 0, 1, NULL), cudaSuccess,
	             "the captured stream is non-blocking");
	host_cudaGraphDestroy(end());
}

/* Allocate memory, which is a potentially unsafe call. If @arg is not NULL,
 * first set the thread's capture mode to *@arg. */
static void *allocate(void *arg)
{
	enum cudaStreamCaptureMode mode;
	cudaError_t error;
	void *memory;

	if (arg) {
		mode = *(enum cudaStreamCaptureMode *)arg;
		host_cudaThreadExchangeStreamCaptureMode(&mode);
	}
	error = p->cudaMalloc(&memory, 8);
	if (error == cudaSuccess)
		p->cudaFree(memory);
	return (void *)(intptr_t)error;
}

static cudaError_t allocate_in(enum cudaStreamCaptureMode mode)
{
	pthread_t thread;
	void *result;

	pthread_create(&thread, NULL, allocate, &mode);
	pthread_join(thread, &result);
	return (cudaError_t)(intptr_t)result;
}

static void end_any(void)
{
	cudaGraph_t graph = NULL;

	if (host_cudaStreamEndCapture(stream, &graph) == cudaSuccess)
		host_cudaGraphDestroy(graph);
}

/*
 * Make an unsafe call while this thread captures in @mode. It must return @here
 * on this thread, @global on a thread in global mode, and @local on a thread in
 * thread-local mode. On a thread in relaxed mode it must succeed.
 */
static void check_unsafe(enum cudaStreamCaptureMode mode, cudaError_t here,
                         cudaError_t global, cudaError_t local)
{
	begin_mode(mode);
	cr_assert_eq((cudaError_t)(intptr_t)allocate(NULL), here);
	end_any();
	begin_mode(mode);
	cr_assert_eq(allocate_in(cudaStreamCaptureModeGlobal), global);
	end_any();
	begin_mode(mode);
	cr_assert_eq(allocate_in(cudaStreamCaptureModeThreadLocal), local);
	end_any();
	begin_mode(mode);
	cr_assert_eq(allocate_in(cudaStreamCaptureModeRelaxed), cudaSuccess);
	end_any();
}

Test(capture, global_capture_forbids_unsafe_calls_on_all_threads)
{
	check_unsafe(cudaStreamCaptureModeGlobal,
	             cudaErrorStreamCaptureUnsupported,
	             cudaErrorStreamCaptureUnsupported, cudaSuccess);
}

Test(capture, thread_local_capture_forbids_unsafe_calls_on_its_thread)
{
	check_unsafe(cudaStreamCaptureModeThreadLocal,
	             cudaErrorStreamCaptureUnsupported, cudaSuccess,
	             cudaSuccess);
}

Test(capture, relaxed_capture_forbids_no_unsafe_calls)
{
	check_unsafe(cudaStreamCaptureModeRelaxed, cudaSuccess, cudaSuccess,
	             cudaSuccess);
}

Test(capture, thread_in_relaxed_mode_may_make_unsafe_calls)
{
	enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;

	begin();
	cr_assert_eq(host_cudaThreadExchangeStreamCaptureMode(&mode),
	             cudaSuccess);
	cr_assert_eq(mode, cudaStreamCaptureModeGlobal);
	cr_assert_eq((cudaError_t)(intptr_t)allocate(NULL), cudaSuccess);
	cr_assert_eq(host_cudaThreadExchangeStreamCaptureMode(&mode),
	             cudaSuccess);
	cr_assert_eq(mode, cudaStreamCaptureModeRelaxed);
	host_cudaGraphDestroy(end());
	mode = (enum cudaStreamCaptureMode)3;
	cr_assert_eq(host_cudaThreadExchangeStreamCaptureMode(&mode),
	             cudaErrorInvalidValue);
}

static cudaEvent_t watched;

static void *watch(void *arg)
{
	(void)arg;
	return (void *)(intptr_t)p->cudaEventQuery(watched);
}

/* If another thread, such as a watchdog, queries an event, it invalidates a
 * capture in global mode. */
Test(capture, unsafe_call_invalidates_a_capture)
{
	void *memory;

	watched = new_event();
	native_must(p->cudaMalloc(&memory, 8), "cudaMalloc");
	begin();
	cr_assert_eq(by_another_thread(watch),
	             cudaErrorStreamCaptureUnsupported);
	check_end(cudaErrorStreamCaptureInvalidated);
	begin();
	cr_assert_eq(p->cudaFree(memory), cudaErrorStreamCaptureUnsupported);
	check_end(cudaErrorStreamCaptureInvalidated);
	begin();
	cr_assert_eq(p->cudaMemcpy(to, from, 1, cudaMemcpyDefault),
	             cudaErrorStreamCaptureUnsupported);
	check_end(cudaErrorStreamCaptureInvalidated);
	p->cudaFree(memory);
	p->cudaEventDestroy(watched);
}

Test(capture, cudaStreamGetDevice_invalidates_a_capture)
{
	int device = 77;

	begin();
	cr_assert_eq(p->cudaStreamGetDevice(stream, &device),
	             cudaErrorStreamCaptureUnsupported);
	cr_assert_eq(device, 77);
	check_end(cudaErrorStreamCaptureInvalidated);
	cr_assert_eq(p->cudaStreamGetDevice(stream, &device), cudaSuccess);
	cr_assert_eq(device, 0);
}

static void callback(cudaStream_t s, cudaError_t status, void *user)
{
	(void)s;
	(void)status;
	(void)user;
}

Test(capture, call_without_a_graph_node_cannot_be_captured)
{
	void *memory;

	begin();
	cr_assert_eq(host_cudaStreamAddCallback(stream, callback, NULL, 0),
	             cudaErrorStreamCaptureUnsupported);
	check_end(cudaErrorStreamCaptureInvalidated);
	begin();
	cr_assert_eq(host_cudaMallocAsync(&memory, 8, stream),
	             cudaErrorStreamCaptureUnsupported);
	check_end(cudaErrorStreamCaptureInvalidated);
}

/* ---- graphs ----------------------------------------------------------- */

TestSuite(graph, .init = open_two, .fini = close_two, .timeout = 20);

Test(graph, graph_functions_check_their_arguments)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	unsigned long long flags;

	cr_assert_eq(host_cudaGraphCreate(NULL, 0), cudaErrorInvalidValue);
	cr_assert_eq(host_cudaGraphCreate(&graph, 1), cudaErrorInvalidValue);
	cr_assert_eq(host_cudaGraphDestroy(NULL), cudaErrorInvalidValue);
	cr_assert_eq(host_cudaGraphCreate(&graph, 0), cudaSuccess);
	cr_assert_eq(nodes_of(graph), 0);
	cr_assert_eq(host_cudaGraphInstantiate(&exec, NULL, 0),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaGraphInstantiate(&exec, graph, 0x100),
	             cudaErrorInvalidValue);
	cr_assert_eq(
		host_cudaGraphInstantiate(&exec, graph,
	                                  cudaGraphInstantiateFlagDeviceLaunch),
		cudaErrorNotSupported);
	cr_assert_eq(host_cudaGraphInstantiateWithFlags(
			     &exec, graph,
			     cudaGraphInstantiateFlagUseNodePriority),
	             cudaSuccess);
	cr_assert_eq(host_cudaGraphExecGetFlags(exec, &flags), cudaSuccess);
	cr_assert_eq(flags, cudaGraphInstantiateFlagUseNodePriority);
	cr_assert_eq(host_cudaGraphUpload(exec, stream), cudaSuccess);
	run(exec);
	cr_assert_eq(host_cudaGraphLaunch(NULL, stream), cudaErrorInvalidValue);
	cr_assert_eq(host_cudaGraphExecDestroy(NULL), cudaErrorInvalidValue);
	cr_assert_eq(host_cudaGraphExecDestroy(exec), cudaSuccess);
	cr_assert_eq(host_cudaGraphDestroy(graph), cudaSuccess);
}

/* Launch the graph of a copy on a stream that is blocked by a gate. */
static cudaGraphExec_t launch_held(struct native_gate *gate)
{
	cudaGraphExec_t exec;

	begin();
	copy();
	exec = instantiate(end());
	native_gate_hold(p, gate, stream);
	cr_assert_eq(host_cudaGraphLaunch(exec, stream), cudaSuccess);
	return exec;
}

Test(graph, graph_launch_is_in_stream_order)
{
	struct native_gate gate;
	cudaGraphExec_t exec = launch_held(&gate);

	cr_assert_eq(p->cudaMemsetAsync(to, 'z', 1, stream), cudaSuccess);
	native_gate_reached(&gate);
	cr_assert_eq(to[0], 0);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	cr_assert_str_eq(to, "zbc");
	host_cudaGraphExecDestroy(exec);
}

/* The second launch waits even if the first one is on another stream. */
Test(graph, graph_launch_waits_for_its_earlier_launch)
{
	struct native_gate gate;
	cudaGraphExec_t exec = launch_held(&gate);

	cr_assert_eq(host_cudaGraphLaunch(exec, second), cudaSuccess);
	native_gate_reached(&gate);
	cr_assert_eq(p->cudaStreamQuery(second), cudaErrorNotReady);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(second), cudaSuccess);
	host_cudaGraphExecDestroy(exec);
}

Test(graph, graph_launch_finishes_although_its_graph_is_destroyed)
{
	struct native_gate gate;
	cudaGraphExec_t exec;

	begin();
	cr_assert_eq(host_cudaMemcpy2DAsync(to, 2, from, 2, 2, 2,
	                                    cudaMemcpyDefault, stream),
	             cudaSuccess);
	exec = instantiate(end());
	native_gate_hold(p, &gate, stream);
	cr_assert_eq(host_cudaGraphLaunch(exec, stream), cudaSuccess);
	cr_assert_eq(host_cudaGraphExecDestroy(exec), cudaSuccess);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	cr_assert_str_eq(to, "abc");
}

Test(graph, graph_may_have_more_nodes_than_a_stream_holds)
{
	cudaGraphExec_t exec;
	int i;

	counted = 0;
	begin();
	for (i = 0; i < 3000; i++)
		native_must(p->cudaLaunchHostFunc(stream, count, NULL),
		            "cudaLaunchHostFunc");
	exec = instantiate(end());
	run(exec);
	cr_assert_eq(counted, 3000);
	host_cudaGraphExecDestroy(exec);
}

/* ---- communicators ---------------------------------------------------- */

static struct native_clique clique;

static void open_clique(void)
{
	p = native_open_host(2);
	native_clique_open(&clique, p, 2);
	stream = clique.stream[0];
	second = clique.stream[1];
}

static void close_clique(void)
{
	native_clique_destroy(&clique);
}

TestSuite(graph_of_ranks, .init = open_clique, .fini = close_clique,
          .timeout = 20);

/* Capture the sums of both ranks, on streams that belong to one capture. */
static cudaGraphExec_t capture_sums(void)
{
	int r;

	begin();
	link_streams(stream, second);
	native_must(p->ncclGroupStart(), "ncclGroupStart");
	for (r = 0; r < 2; r++)
		native_must(native_sum(&clique, r), "ncclAllReduce");
	native_must(p->ncclGroupEnd(), "ncclGroupEnd");
	cr_assert_eq(p->cudaSetDevice(1), cudaSuccess);
	link_streams(second, stream);
	cr_assert_eq(p->cudaSetDevice(0), cudaSuccess);
	return instantiate(end());
}

static void check_sums(void)
{
	cr_assert_eq(native_wrong(&clique, 0), 0);
	cr_assert_eq(native_wrong(&clique, 1), 0);
}

Test(graph_of_ranks, captured_collectives_can_be_replayed)
{
	cudaGraphExec_t exec = capture_sums();
	int i;

	cr_assert_eq(native_touched(&clique, 0), 0);
	for (i = 0; i < 3; i++) {
		native_fill(&clique);
		run(exec);
		check_sums();
	}
	native_sum_all(&clique);
	cr_assert_eq(host_cudaGraphExecDestroy(exec), cudaSuccess);
}

static cudaGraphExec_t of_rank[2];

static void *launch_rank(void *arg)
{
	const int r = *(const int *)arg;

	native_must(p->cudaSetDevice(r), "cudaSetDevice");
	native_must(host_cudaGraphLaunch(of_rank[r], clique.stream[r]),
	            "cudaGraphLaunch");
	native_must(p->cudaStreamSynchronize(clique.stream[r]),
	            "cudaStreamSynchronize");
	return NULL;
}

Test(graph_of_ranks, each_rank_may_have_its_own_graph)
{
	static const int ranks[2] = { 0, 1 };
	cudaGraph_t graph;
	pthread_t thread[2];
	int r;

	for (r = 0; r < 2; r++) {
		p->cudaSetDevice(r);
		native_must(host_cudaStreamBeginCapture(
				    clique.stream[r],
				    cudaStreamCaptureModeThreadLocal),
		            "cudaStreamBeginCapture");
		native_must(native_sum(&clique, r), "ncclAllReduce");
		native_must(host_cudaStreamEndCapture(clique.stream[r], &graph),
		            "cudaStreamEndCapture");
		of_rank[r] = instantiate(graph);
	}
	p->cudaSetDevice(0);
	for (r = 0; r < 2; r++)
		pthread_create(&thread[r], NULL, launch_rank,
		               (void *)(uintptr_t)&ranks[r]);
	for (r = 0; r < 2; r++) {
		pthread_join(thread[r], NULL);
		host_cudaGraphExecDestroy(of_rank[r]);
	}
	check_sums();
}

Test(graph_of_ranks, captured_messages_can_be_replayed)
{
	cudaGraphExec_t exec;
	int i;

	begin();
	link_streams(stream, second);
	native_must(p->ncclGroupStart(), "ncclGroupStart");
	native_must(p->ncclSend(clique.send[0], NATIVE_COUNT, ncclInt32, 1,
	                        clique.comm[0], stream),
	            "ncclSend");
	native_must(p->ncclRecv(clique.recv[1], NATIVE_COUNT, ncclInt32, 0,
	                        clique.comm[1], second),
	            "ncclRecv");
	native_must(p->ncclGroupEnd(), "ncclGroupEnd");
	p->cudaSetDevice(1);
	link_streams(second, stream);
	p->cudaSetDevice(0);
	exec = instantiate(end());
	for (i = 0; i < 2; i++) {
		native_fill(&clique);
		run(exec);
		cr_assert_arr_eq(clique.recv[1], clique.send[0],
		                 sizeof(clique.send[0]));
	}
	host_cudaGraphExecDestroy(exec);
}

Test(graph_of_ranks, nccl_group_is_captured_as_a_whole_or_not_at_all)
{
	cudaStream_t other = native_stream(p, 0);

	begin();
	native_must(p->ncclGroupStart(), "ncclGroupStart");
	native_must(native_sum(&clique, 0), "ncclAllReduce");
	cr_assert_eq(p->ncclAllReduce(clique.send[0], clique.recv[0], 1,
	                              ncclInt32, ncclSum, clique.comm[0],
	                              other),
	             ncclInvalidUsage);
	cr_assert_eq(p->ncclGroupEnd(), ncclInvalidUsage);
	end_any();
	p->cudaStreamDestroy(other);
}

Test(graph_of_ranks, invalid_capture_refuses_a_collective)
{
	begin();
	p->cudaStreamQuery(stream);
	cr_assert_eq(native_sum(&clique, 0), ncclUnhandledCudaError);
	end_any();
}

static void *destroy_graph(void *exec)
{
	native_await_sleep((pid_t)(intptr_t)getpid());
	host_cudaGraphExecDestroy((cudaGraphExec_t)exec);
	return NULL;
}

Test(graph_of_ranks, graph_keeps_its_communicators_alive)
{
	pthread_t thread;

	pthread_create(&thread, NULL, destroy_graph, capture_sums());
	native_clique_destroy(&clique);
	pthread_join(thread, NULL);
	native_clique_open(&clique, p, 2);
}

static atomic_bool opened; /* set before the gate is opened */

static void *launch_and_destroy(void *exec)
{
	/* static, because the stream may use it after this function has
	 * returned */
	static struct native_gate gate;
	int i;

	native_await_sleep((pid_t)(intptr_t)getpid());
	native_gate_hold(p, &gate, stream);
	native_gate_reached(&gate);
	native_must(host_cudaGraphLaunch((cudaGraphExec_t)exec, stream),
	            "cudaGraphLaunch");
	host_cudaGraphExecDestroy((cudaGraphExec_t)exec);
	for (i = 0; i < 100000; i++)
		sched_yield();
	atomic_store(&opened, true);
	native_gate_open(&gate);
	return NULL;
}

Test(graph_of_ranks, finalize_waits_for_a_launch_of_a_destroyed_graph)
{
	pthread_t thread;

	pthread_create(&thread, NULL, launch_and_destroy, capture_sums());
	cr_assert_eq(p->ncclCommFinalize(clique.comm[0]), ncclSuccess);
	cr_assert(atomic_load(&opened));
	cr_assert_eq(native_wrong(&clique, 0), 0);
	pthread_join(thread, NULL);
}
