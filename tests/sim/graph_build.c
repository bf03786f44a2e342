/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of user objects and nodes that a program adds to a graph by hand, on
 * the host platform
 */

#include <criterion/criterion.h>
#include <sched.h>
#include <stdatomic.h>

#include "sim/host.h"
#include "support/native.h"

static const struct platform *p;
static cudaStream_t stream;
static atomic_int ended;

static void open_one(void)
{
	p = native_open_host(1);
	stream = native_stream(p, 0);
}

static void close_one(void)
{
	native_must(p->cudaStreamDestroy(stream), "cudaStreamDestroy");
}

TestSuite(user_object, .init = open_one, .fini = close_one, .timeout = 20);
TestSuite(graph_build, .init = open_one, .fini = close_one, .timeout = 20);

static void end(void *user)
{
	cr_assert_eq(user, &ended);
	atomic_fetch_add(&ended, 1);
}

static cudaUserObject_t create(unsigned int uses)
{
	cudaUserObject_t object;

	native_must(host_cudaUserObjectCreate(&object, &ended, end, uses,
	                                      cudaUserObjectNoDestructorSync),
	            "cudaUserObjectCreate");
	return object;
}

Test(user_object, user_object_ends_with_its_last_reference)
{
	cudaUserObject_t object = create(2);

	cr_assert_eq(host_cudaUserObjectRetain(object, 3), cudaSuccess);
	cr_assert_eq(host_cudaUserObjectRelease(object, 4), cudaSuccess);
	cr_assert_eq(host_cudaUserObjectRelease(object, 2),
	             cudaErrorInvalidValue);
	cr_assert_eq(atomic_load(&ended), 0);
	cr_assert_eq(host_cudaUserObjectRelease(object, 1), cudaSuccess);
	cr_assert_eq(atomic_load(&ended), 1);
}

Test(user_object, user_object_functions_check_their_arguments)
{
	cudaUserObject_t object;

	cr_assert_eq(host_cudaUserObjectCreate(&object, NULL, end, 1, 0),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaUserObjectCreate(&object, NULL, NULL, 1, 1),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaUserObjectCreate(&object, NULL, end, 0, 1),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaUserObjectRetain(NULL, 1), cudaErrorInvalidValue);
	cr_assert_eq(host_cudaGraphRetainUserObject(NULL, NULL, 1, 0),
	             cudaErrorInvalidValue);
}

Test(user_object, user_object_of_a_graph_ends_with_the_graph)
{
	cudaUserObject_t object = create(1);
	cudaGraph_t graph;

	native_must(host_cudaGraphCreate(&graph, 0), "cudaGraphCreate");
	cr_assert_eq(host_cudaGraphRetainUserObject(graph, object, 2, 0),
	             cudaSuccess);
	cr_assert_eq(host_cudaGraphRetainUserObject(graph, object, 1,
	                                            cudaGraphUserObjectMove),
	             cudaSuccess);
	cr_assert_eq(host_cudaGraphReleaseUserObject(graph, object, 2),
	             cudaSuccess);
	cr_assert_eq(host_cudaGraphReleaseUserObject(graph, object, 2),
	             cudaErrorInvalidValue);
	cr_assert_eq(atomic_load(&ended), 0);
	cr_assert_eq(host_cudaGraphDestroy(graph), cudaSuccess);
	cr_assert_eq(atomic_load(&ended), 1);
}

static void nothing(void *user)
{
	(void)user;
}

/* Create a graph that has one host function and owns a new user object. */
static cudaGraphExec_t make_graph(void)
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;

	native_must(host_cudaStreamBeginCapture(stream,
	                                        cudaStreamCaptureModeGlobal),
	            "cudaStreamBeginCapture");
	native_must(p->cudaLaunchHostFunc(stream, nothing, NULL),
	            "cudaLaunchHostFunc");
	native_must(host_cudaStreamEndCapture(stream, &graph),
	            "cudaStreamEndCapture");
	native_must(host_cudaGraphRetainUserObject(graph, create(1), 1,
	                                           cudaGraphUserObjectMove),
	            "cudaGraphRetainUserObject");
	native_must(host_cudaGraphInstantiate(&exec, graph, 0),
	            "cudaGraphInstantiate");
	native_must(host_cudaGraphDestroy(graph), "cudaGraphDestroy");
	return exec;
}

Test(user_object, user_object_ends_after_the_last_launch_of_its_graph)
{
	struct native_gate gate;
	cudaGraphExec_t exec = make_graph();

	native_gate_hold(p, &gate, stream);
	native_gate_reached(&gate);
	native_must(host_cudaGraphLaunch(exec, stream), "cudaGraphLaunch");
	native_must(host_cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");
	cr_assert_eq(atomic_load(&ended), 0);
	native_gate_open(&gate);
	while (!atomic_load(&ended))
		sched_yield();
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	cr_assert_eq(atomic_load(&ended), 1);
}

/* ---- nodes ------------------------------------------------------------ */

/* Create a graph of one host function, which waits for @gate, and return its
 * node. */
static cudaGraph_t gated_graph(struct native_gate *gate, cudaGraphNode_t *node)
{
	cudaGraph_t graph;
	size_t count = 1;

	native_must(host_cudaStreamBeginCapture(stream,
	                                        cudaStreamCaptureModeGlobal),
	            "cudaStreamBeginCapture");
	native_gate_hold(p, gate, stream);
	native_must(host_cudaStreamEndCapture(stream, &graph),
	            "cudaStreamEndCapture");
	native_must(host_cudaGraphGetNodes(graph, node, &count),
	            "cudaGraphGetNodes");
	return graph;
}

Test(graph_build, event_record_node_can_depend_on_another_node)
{
	cudaGraphNode_t first, node;
	struct native_gate gate;
	cudaGraph_t graph = gated_graph(&gate, &first);
	cudaGraphExec_t exec;
	cudaEvent_t event;

	native_must(p->cudaEventCreate(&event), "cudaEventCreate");
	cr_assert_eq(host_cudaGraphAddEventRecordNode(&node, graph, NULL, 0,
	                                              event),
	             cudaSuccess);
	cr_assert_eq(host_cudaGraphAddDependencies(graph, &first, &node, NULL,
	                                           1),
	             cudaSuccess);
	native_must(host_cudaGraphInstantiate(&exec, graph, 0),
	            "cudaGraphInstantiate");
	native_must(host_cudaGraphLaunch(exec, stream), "cudaGraphLaunch");
	native_gate_reached(&gate);
	cr_assert_eq(p->cudaEventQuery(event), cudaErrorNotReady);
	native_gate_open(&gate);
	cr_assert_eq(p->cudaEventSynchronize(event), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(stream), cudaSuccess);
	native_must(host_cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");
	native_must(host_cudaGraphDestroy(graph), "cudaGraphDestroy");
	p->cudaEventDestroy(event);
}

Test(graph_build, graph_nodes_can_depend_only_on_earlier_nodes)
{
	cudaGraphNode_t first, node;
	struct native_gate gate;
	cudaGraph_t graph = gated_graph(&gate, &first);
	cudaEvent_t event;

	native_must(p->cudaEventCreate(&event), "cudaEventCreate");
	cr_assert_eq(host_cudaGraphAddEventRecordNode(&node, graph, &first, 1,
	                                              event),
	             cudaSuccess);
	cr_assert_eq(host_cudaGraphAddDependencies(graph, &first, &node, NULL,
	                                           1),
	             cudaErrorInvalidValue);
	cr_assert_eq(host_cudaGraphAddDependencies(graph, &node, &first, NULL,
	                                           1),
	             cudaErrorNotSupported);
	cr_assert_eq(host_cudaGraphAddEventRecordNode(&node, NULL, NULL, 0,
	                                              event),
	             cudaErrorInvalidValue);
	native_must(host_cudaGraphDestroy(graph), "cudaGraphDestroy");
	p->cudaEventDestroy(event);
}
