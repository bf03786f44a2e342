/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a program adds to a graph by hand, also while streams are captured into it
 */

#include <stdlib.h>

#include "sim/cuda/capture_state.h"
#include "sim/cuda/device.h"
#include "sim/cuda/graph.h"
#include "sim/host.h"

bool graph_has(const struct graph *g, struct node *const *nodes, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (!nodes[i] || nodes[i]->graph != g)
			return false;
	return true;
}

cudaError_t host_cudaGraphAddEventRecordNode(cudaGraphNode_t *node,
                                             cudaGraph_t graph,
                                             const cudaGraphNode_t *after,
                                             size_t count, cudaEvent_t event)
{
	struct node *const *nodes = (struct node *const *)after;
	struct graph *g = (struct graph *)graph;
	struct node like = event_record_node(event), *n = NULL;
	cudaError_t error = cudaErrorInvalidValue;

	if (!node || !g || (count && !after) || !like.kind)
		return device_error(error);
	capture_lock();
	if (graph_has(g, nodes, count)) {
		/* In a lane of its own, where only what comes behind it waits
		 * for it. */
		like.lane = g->lanes;
		n = graph_add(g, &like, nodes, count);
		error = n ? cudaSuccess : cudaErrorMemoryAllocation;
	}
	capture_unlock();
	if (n)
		*node = (cudaGraphNode_t)n;
	return device_error(error);
}

/* Let @to come behind @from, too. */
static cudaError_t depend(struct node *from, struct node *to)
{
	struct node **bigger;
	size_t i;

	for (i = 0; i < to->after_count; i++)
		if (to->after[i] == from)
			return cudaErrorInvalidValue;
	/* Nodes are launched in the order in which they were added. */
	if (from->index >= to->index)
		return cudaErrorNotSupported;
	bigger = realloc(to->after, (to->after_count + 1) * sizeof(*bigger));
	if (!bigger)
		return cudaErrorMemoryAllocation;
	to->after = bigger;
	to->after[to->after_count++] = from;
	return cudaSuccess;
}

cudaError_t host_cudaGraphAddDependencies(cudaGraph_t graph,
                                          const cudaGraphNode_t *from,
                                          const cudaGraphNode_t *to,
                                          const cudaGraphEdgeData *edges,
                                          size_t count)
{
	struct node *const *behind = (struct node *const *)from;
	struct node *const *nodes = (struct node *const *)to;
	struct graph *g = (struct graph *)graph;
	cudaError_t error = cudaSuccess;
	size_t i;

	(void)edges; /* all edges are plain */
	if (!g || (count && (!from || !to)))
		return device_error(cudaErrorInvalidValue);
	capture_lock();
	if (!graph_has(g, behind, count) || !graph_has(g, nodes, count))
		error = cudaErrorInvalidValue;
	for (i = 0; error == cudaSuccess && i < count; i++)
		error = depend(behind[i], nodes[i]);
	capture_unlock();
	return device_error(error);
}

cudaError_t host12_cudaGraphAddDependencies(cudaGraph_t graph,
                                            const cudaGraphNode_t *from,
                                            const cudaGraphNode_t *to,
                                            size_t count)
{
	return host_cudaGraphAddDependencies(graph, from, to, NULL, count);
}
