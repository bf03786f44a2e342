/* SPDX-License-Identifier: Apache-2.0 */

/* Implements graphs (see graph.h) and CUDA's functions for them */

#include "sim/cuda/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/scoped_lock.h"
#include "sim/cuda/cuda_device.h"
#include "sim/cuda/stream_capture.h"
#include "sim/host.h"

/* ---- graphs ----------------------------------------------------------- */

struct graph *graph_create(void)
{
	return calloc(1, sizeof(struct graph));
}

static void node_free(struct node *n)
{
	if (n->kind->drop)
		n->kind->drop(&n->work);
	free(n->after);
	free(n);
}

void graph_free(struct graph *g)
{
	size_t i;

	for (i = 0; i < g->count; i++)
		node_free(g->nodes[i]);
	user_objects_drop(g->uses);
	free(g->nodes);
	free(g);
}

struct node *graph_add(struct graph *g, const struct node *like,
                       struct node *const *after, size_t after_count)
{
	const size_t bytes = after_count * sizeof(struct node *);
	struct node *n;

	if (!array_grow(&g->nodes, NULL, g->count, &g->room, sizeof(n)))
		return NULL;
	n = malloc(sizeof(*n));
	if (!n)
		return NULL;
	*n = *like;
	n->graph = g;
	n->index = g->count;
	n->after = malloc(bytes ? bytes : 1);
	n->after_count = after_count;
	if (!n->after) {
		free(n);
		return NULL;
	}
	if (bytes)
		memcpy(n->after, after, bytes);
	if (g->lanes <= n->lane)
		g->lanes = n->lane + 1;
	g->nodes[g->count++] = n;
	return n;
}

static struct node *clone_node(struct graph *g, const struct node *n)
{
	struct node *clone = graph_add(g, n, n->after, n->after_count);
	size_t i;

	if (!clone)
		return NULL;
	if (clone->kind->keep)
		clone->kind->keep(&clone->work);
	for (i = 0; i < clone->after_count; i++)
		clone->after[i] = g->nodes[clone->after[i]->index];
	return clone;
}

struct graph *graph_clone(const struct graph *g)
{
	struct graph *clone = graph_create();
	bool ok = clone && user_objects_copy(&clone->uses, g->uses);
	size_t i;

	for (i = 0; ok && i < g->count; i++)
		ok = clone_node(clone, g->nodes[i]);
	if (ok)
		return clone;
	if (clone)
		graph_free(clone);
	return NULL;
}

cudaError_t host_cudaGraphCreate(cudaGraph_t *graph, unsigned int flags)
{
	struct graph *g;

	if (!graph || flags)
		return device_error(cudaErrorInvalidValue);
	g = graph_create();
	if (!g)
		return device_error(cudaErrorMemoryAllocation);
	*graph = (cudaGraph_t)g;
	return cudaSuccess;
}

cudaError_t host_cudaGraphDestroy(cudaGraph_t graph)
{
	struct graph *g = (struct graph *)graph;

	if (!g || g->capturing)
		return device_error(cudaErrorInvalidValue);
	graph_free(g);
	return cudaSuccess;
}

/* ---- listing nodes ---------------------------------------------------- */

/* List nodes as CUDA does: if @nodes is NULL, store their number; otherwise
 * store up to *@count nodes, and set unused entries to NULL. */
static cudaError_t list_nodes(const struct graph *g, cudaGraphNode_t *nodes,
                              size_t *count, bool only_roots)
{
	size_t i, n = 0;

	if (!g || !count)
		return device_error(cudaErrorInvalidValue);
	for (i = 0; i < g->count; i++) {
		if (only_roots && g->nodes[i]->after_count)
			continue;
		if (nodes && n < *count)
			nodes[n] = (cudaGraphNode_t)g->nodes[i];
		n++;
	}
	for (i = n; nodes && i < *count; i++)
		nodes[i] = NULL;
	if (!nodes || n < *count)
		*count = n;
	return cudaSuccess;
}

cudaError_t host_cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes,
                                   size_t *count)
{
	return list_nodes((struct graph *)graph, nodes, count, false);
}

cudaError_t host_cudaGraphGetRootNodes(cudaGraph_t graph,
                                       cudaGraphNode_t *nodes, size_t *count)
{
	return list_nodes((struct graph *)graph, nodes, count, true);
}

cudaError_t host_cudaGraphNodeGetType(cudaGraphNode_t node,
                                      enum cudaGraphNodeType *type)
{
	if (!node || !type)
		return device_error(cudaErrorInvalidValue);
	*type = (enum cudaGraphNodeType)((struct node *)node)->kind->type;
	return cudaSuccess;
}

/* ---- nodes added by the program, even during a capture into the graph - */

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
	struct node like = event_record_node(event), *n;

	if (!node || !g || (count && !after) || !like.kind)
		return device_error(cudaErrorInvalidValue);
	SCOPED_LOCK(&capture_lock);
	if (!graph_has(g, nodes, count))
		return device_error(cudaErrorInvalidValue);
	/* Use a new lane, so that only dependent nodes wait for the new
	 * node. */
	like.lane = g->lanes;
	n = graph_add(g, &like, nodes, count);
	if (!n)
		return device_error(cudaErrorMemoryAllocation);
	*node = (cudaGraphNode_t)n;
	return cudaSuccess;
}

static cudaError_t depend(struct node *from, struct node *to)
{
	struct node **bigger;
	size_t i;

	for (i = 0; i < to->after_count; i++)
		if (to->after[i] == from)
			return cudaErrorInvalidValue;
	/* Nodes run in the order in which they were added, so a node cannot
	 * depend on a later one. */
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

	(void)edges; /* ignore @edges, because no edge has data */
	if (!g || (count && (!from || !to)))
		return device_error(cudaErrorInvalidValue);
	SCOPED_LOCK(&capture_lock);
	if (!graph_has(g, behind, count) || !graph_has(g, nodes, count))
		error = cudaErrorInvalidValue;
	for (i = 0; error == cudaSuccess && i < count; i++)
		error = depend(behind[i], nodes[i]);
	return device_error(error);
}

cudaError_t host12_cudaGraphAddDependencies(cudaGraph_t graph,
                                            const cudaGraphNode_t *from,
                                            const cudaGraphNode_t *to,
                                            size_t count)
{
	return host_cudaGraphAddDependencies(graph, from, to, NULL, count);
}
