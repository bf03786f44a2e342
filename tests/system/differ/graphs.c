/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Scenes of captures and graphs. Both sides use the same CUDA, so the scenes
 * compare how NCCL uses CUDA.
 */

#include <stdlib.h>

#include "differ.h"

/* number of destroyed user objects, read when none is in use */
static int ended;

static void end_object(void *user)
{
	(void)user;
	__atomic_add_fetch(&ended, 1, __ATOMIC_RELAXED);
}

static void sum(struct actor *a, cudaStream_t stream)
{
	CALL(a, ncclAllReduce(a->send, a->recv, FLOATS, ncclFloat, ncclSum,
	                      a->comm, stream));
}

/*
 * Instantiate the captured graph, and launch it twice. The results are wrong
 * unless each launch sums.
 */
static void launch(struct actor *a, cudaGraph_t graph)
{
	cudaGraphExec_t exec;
	int i;

	CALL(a, cudaGraphInstantiate(&exec, graph, 0));
	CALL(a, cudaGraphDestroy(graph));
	for (i = 0; i < 2; i++) {
		CALL(a, cudaGraphLaunch(exec, a->stream));
		digest(a);
	}
	CALL(a, cudaGraphExecDestroy(exec));
}

static void begin(struct actor *a)
{
	CALL(a, cudaStreamBeginCapture(a->stream,
	                               cudaStreamCaptureModeThreadLocal));
}

static cudaGraph_t end(struct actor *a)
{
	cudaGraph_t graph = NULL;

	CALL(a, cudaStreamEndCapture(a->stream, &graph));
	return graph;
}

static void capture_part(struct actor *a)
{
	begin(a);
	sum(a, a->stream);
	CALL(a, cudaMemcpyAsync(a->send, a->recv, FLOATS * sizeof(float),
	                        cudaMemcpyDeviceToDevice, a->stream));
	launch(a, end(a));
}

static void capture(struct stage *g)
{
	connect_all(g);
	each(g, capture_part);
	destroy_all(g);
}

/*
 * Let a second stream join the capture, and destroy the stream before the
 * capture ends.
 */
static void joined_stream_part(struct actor *a)
{
	cudaEvent_t fork, back;
	cudaStream_t other;

	CALL(a, cudaStreamCreate(&other));
	CALL(a, cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
	CALL(a, cudaEventCreateWithFlags(&back, cudaEventDisableTiming));
	begin(a);
	CALL(a, cudaEventRecord(fork, a->stream));
	CALL(a, cudaStreamWaitEvent(other, fork, 0));
	sum(a, other);
	CALL(a, cudaEventRecord(back, other));
	CALL(a, cudaStreamWaitEvent(a->stream, back, 0));
	CALL(a, cudaStreamDestroy(other));
	launch(a, end(a));
	CALL(a, cudaEventDestroy(fork));
	CALL(a, cudaEventDestroy(back));
}

static void joined_stream(struct stage *g)
{
	connect_all(g);
	each(g, joined_stream_part);
	destroy_all(g);
}

/* Destroy a stream that joined the capture and was not joined back. */
static void unjoined_stream_part(struct actor *a)
{
	cudaGraph_t graph = NULL;
	cudaEvent_t fork;
	cudaStream_t other;

	cudaStreamCreate(&other);
	cudaEventCreateWithFlags(&fork, cudaEventDisableTiming);
	begin(a);
	CALL(a, cudaEventRecord(fork, a->stream));
	CALL(a, cudaStreamWaitEvent(other, fork, 0));
	CALL(a, cudaMemsetAsync(a->recv, 0, 4, other));
	CALL(a, cudaStreamDestroy(other));
	CALL(a, cudaStreamEndCapture(a->stream, &graph));
	CALL(a, cudaGetLastError());
}

static void unjoined_stream(struct stage *g)
{
	each(g, unjoined_stream_part);
}

/* Use a captured stream and an uncaptured stream in one group. */
static void half_captured_part(struct actor *a)
{
	cudaStream_t other;

	cudaStreamCreate(&other);
	begin(a);
	CALL(a, ncclGroupStart());
	sum(a, a->stream);
	sum(a, other);
	CALL(a, ncclGroupEnd());
}

static void half_captured(struct stage *g)
{
	connect_all(g);
	each(g, half_captured_part);
}

/*
 * Check that a user object exists until its graph and the executable graph are
 * destroyed.
 */
static void user_object_part(struct actor *a)
{
	cudaUserObject_t object;
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	CALL(a, cudaGraphCreate(&graph, 0));
	CALL(a, cudaUserObjectCreate(&object, NULL, end_object, 1,
	                             cudaUserObjectNoDestructorSync));
	CALL(a, cudaGraphRetainUserObject(graph, object, 1,
	                                  cudaGraphUserObjectMove));
	CALL(a, cudaGraphInstantiate(&exec, graph, 0));
	CALL(a, cudaGraphDestroy(graph));
	note(a, " ended=%d", __atomic_load_n(&ended, __ATOMIC_RELAXED));
	CALL(a, cudaGraphExecDestroy(exec));
	note(a, " ended=%d", __atomic_load_n(&ended, __ATOMIC_RELAXED));
}

static void user_object(struct stage *g)
{
	each(g, user_object_part);
}

/* Record an event in a graph, after the graph's only call. */
static void event_node_part(struct actor *a)
{
	enum cudaStreamCaptureStatus status;
	const cudaGraphNode_t *after;
	cudaGraphNode_t node, last;
	cudaEvent_t event;
	cudaGraph_t graph;
	size_t count;

	cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
	begin(a);
	CALL(a, cudaMemsetAsync(a->recv, 1, FLOATS, a->stream));
	CALL(a, cudaStreamGetCaptureInfo(a->stream, &status, NULL, &graph,
	                                 &after, NULL, &count));
	note(a, " status=%d count=%zu", (int)status, count);
	last = after[0];
	CALL(a, cudaGraphAddEventRecordNode(&node, graph, &last, 1, event));
	CALL(a, cudaGraphAddDependencies(graph, &last, &node, NULL, 1));
	CALL(a, cudaStreamUpdateCaptureDependencies(
			a->stream, &node, NULL, 1,
			cudaStreamAddCaptureDependencies));
	CALL(a, cudaMemsetAsync(a->recv, 2, FLOATS / 2, a->stream));
	launch(a, end(a));
	CALL(a, cudaEventQuery(event));
}

static void event_node(struct stage *g)
{
	each(g, event_node_part);
}

/* Destroy the communicator while its graph still exists. */
static void *drop_graph(void *user)
{
	return user;
}

static void graph_and_finalize_part(struct actor *a)
{
	cudaGraph_t graph;

	begin(a);
	sum(a, a->stream);
	graph = end(a);
	drop_graph(graph);
	CALL(a, ncclCommFinalize(a->comm));
}

static void graph_and_finalize(struct stage *g)
{
	connect_all(g);
	each(g, graph_and_finalize_part);
}

/* Make a call that must not be captured, which invalidates the capture. */
static void wait_in_capture_part(struct actor *a)
{
	begin(a);
	sum(a, a->stream);
	CALL(a, cudaStreamSynchronize(a->stream));
	sum(a, a->stream);
	end(a);
	CALL(a, cudaGetLastError());
}

static void wait_in_capture(struct stage *g)
{
	connect_all(g);
	each(g, wait_in_capture_part);
}

const struct scene graph_scenes[] = {
	{ "capture_of_1", 1, SECONDS, capture },
	{ "capture_of_2", 2, SECONDS, capture },
	{ "joined_stream", 2, SECONDS, joined_stream },
	{ "unjoined_stream", 1, SECONDS, unjoined_stream },
	{ "half_captured", 2, HANGS, half_captured },
	{ "user_object", 1, SECONDS, user_object },
	{ "event_node", 1, SECONDS, event_node },
	{ "graph_and_finalize", 2, HANGS, graph_and_finalize },
	{ "wait_in_capture", 1, HANGS, wait_in_capture },
	{ .name = NULL },
};
