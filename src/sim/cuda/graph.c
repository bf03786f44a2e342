/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Graphs (see graph.h), and CUDA's functions on them
 */

#include "sim/cuda/graph.h"

#include <stdlib.h>
#include <string.h>

#include "sim/cuda/device.h"
#include "sim/cuda/user_object.h"
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

static bool grow(struct graph *g)
{
	size_t more = g->room ? 2 * g->room : 16;
	struct node **bigger;

	if (g->count < g->room)
		return true;
	bigger = realloc(g->nodes, more * sizeof(struct node *));
	if (!bigger)
		return false;
	g->nodes = bigger;
	g->room = more;
	return true;
}

struct node *graph_add(struct graph *g, const struct node *like,
                       struct node *const *after, size_t after_count)
{
	const size_t bytes = after_count * sizeof(struct node *);
	struct node *n = grow(g) ? malloc(sizeof(*n)) : NULL;

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

/* ---- what is in them -------------------------------------------------- */

/* Store the nodes that are wanted as CUDA does: their number if @nodes is NULL;
 * else as many as there is place for, and NULL behind them. */
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
