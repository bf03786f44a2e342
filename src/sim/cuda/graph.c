/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Graphs and executable graphs
 *
 * An executable graph is a copy with a stream per lane.  A launch queues all of
 * it at once: every lane behind the stream it is launched in and behind the launch
 * before, and the stream behind all lanes.
 */

#include "sim/cuda/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "sim/cuda/capture.h"
#include "sim/cuda/device.h"
#include "sim/cuda/sync.h"
#include "sim/host.h"
#include "sim/strict/fault.h"

struct exec {
	/* Constant. */
	struct graph *graph;
	unsigned long long flags;

	/* Guarded by lock; by lane: its own stream. */
	pthread_mutex_t lock;
	struct stream **streams;
};

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

static struct graph *graph_clone(const struct graph *g)
{
	struct graph *clone = graph_create();
	size_t i;

	for (i = 0; clone && i < g->count; i++)
		if (!clone_node(clone, g->nodes[i])) {
			graph_free(clone);
			return NULL;
		}
	return clone;
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

/* Store those nodes that are wanted as CUDA does: only how many, or as many as
 * there is place for, and NULL behind. */
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

/* ---- executable graphs ------------------------------------------------ */

static void exec_free(struct exec *e)
{
	int i;

	for (i = 0; e->streams && i < e->graph->lanes; i++)
		if (e->streams[i])
			stream_destroy(e->streams[i]);
	free(e->streams);
	if (e->graph)
		graph_free(e->graph);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

/* A stream for each lane, on the device of its work. */
static bool make_streams(struct exec *e)
{
	const struct graph *g = e->graph;
	struct stream **at;
	size_t i;

	e->streams = calloc((size_t)g->lanes + 1, sizeof(struct stream *));
	for (i = 0; e->streams && i < g->count; i++) {
		at = &e->streams[g->nodes[i]->lane];
		if (!*at)
			*at = stream_create(g->nodes[i]->device, false);
		if (!*at)
			return false;
	}
	return e->streams;
}

static struct exec *exec_create(const struct graph *g, unsigned long long flags)
{
	struct exec *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	lock_init(&e->lock);
	e->flags = flags;
	e->graph = graph_clone(g);
	if (e->graph && make_streams(e))
		return e;
	exec_free(e);
	return NULL;
}

cudaError_t host_cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                      unsigned long long flags)
{
	const unsigned long long known =
		cudaGraphInstantiateFlagAutoFreeOnLaunch |
		cudaGraphInstantiateFlagDeviceLaunch |
		cudaGraphInstantiateFlagUseNodePriority;
	const struct graph *g = (const struct graph *)graph;
	struct exec *e;

	if (!exec || !g || g->capturing || (flags & ~known))
		return device_error(cudaErrorInvalidValue);
	if (flags & cudaGraphInstantiateFlagDeviceLaunch)
		return device_error(cudaErrorNotSupported);
	e = exec_create(g, flags);
	if (!e)
		return device_error(cudaErrorMemoryAllocation);
	*exec = (cudaGraphExec_t)e;
	return cudaSuccess;
}

cudaError_t host_cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec,
                                               cudaGraph_t graph,
                                               unsigned long long flags)
{
	return host_cudaGraphInstantiate(exec, graph, flags);
}

cudaError_t host_cudaGraphExecGetFlags(cudaGraphExec_t exec,
                                       unsigned long long *flags)
{
	if (!exec || !flags)
		return device_error(cudaErrorInvalidValue);
	*flags = ((struct exec *)exec)->flags;
	return cudaSuccess;
}

/* Its streams finish what is queued. */
cudaError_t host_cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	if (!exec)
		return device_error(cudaErrorInvalidValue);
	exec_free((struct exec *)exec);
	return cudaSuccess;
}

/* ---- launches --------------------------------------------------------- */

static enum step nothing_step(struct stream *s, struct work *w,
                              const struct drive *d)
{
	(void)s;
	(void)w;
	(void)d;
	return STEP_DONE;
}

/* Where a launch in @s begins: behind all that is before it there. */
static uint64_t enter(struct stream *s)
{
	const struct work w = { .step = nothing_step };
	uint64_t position;

	stream_push(s, &w, &position);
	return position;
}

/* Let @to wait for all that is queued on the lanes. */
static void wait_for_lanes(const struct exec *e, struct stream *to)
{
	int i;

	for (i = 0; i < e->graph->lanes; i++)
		if (e->streams[i])
			stream_push_wait(to, e->streams[i],
			                 e->streams[i]->queued);
}

static bool replay_node(const struct exec *e, struct node *n)
{
	struct stream *s = e->streams[n->lane];
	struct work w = n->work;
	bool ok = true;
	size_t i;

	for (i = 0; i < n->after_count; i++)
		stream_push_wait(s, e->streams[n->after[i]->lane],
		                 n->after[i]->position);
	if (n->kind->replay) {
		ok = n->kind->replay(&n->work, s);
	} else {
		if (n->kind->keep)
			n->kind->keep(&w);
		stream_push(s, &w, NULL);
	}
	n->position = s->queued;
	return ok;
}

/* Called with the lock held. */
static bool replay_locked(struct exec *e, struct stream *s)
{
	const struct graph *g = e->graph;
	const uint64_t start = enter(s);
	bool ok = true;
	size_t i;
	int l;

	for (l = 0; l < g->lanes; l++)
		if (e->streams[l]) {
			wait_for_lanes(e, e->streams[l]);
			stream_push_wait(e->streams[l], s, start);
		}
	for (i = 0; ok && i < g->count; i++)
		ok = replay_node(e, g->nodes[i]);
	wait_for_lanes(e, s);
	stream_go(s);
	return ok;
}

cudaError_t host_cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
	struct exec *e = (struct exec *)exec;
	struct stream *s = stream_find(stream);
	cudaError_t error;
	bool ok;

	if (!e)
		return device_error(cudaErrorInvalidValue);
	error = capture_permits(s);
	if (error == cudaSuccess)
		error = fault_sticky(s->device);
	if (error != cudaSuccess)
		return device_error(error);
	sync_launch(s->device);
	pthread_mutex_lock(&e->lock);
	ok = replay_locked(e, s);
	pthread_mutex_unlock(&e->lock);
	return ok ? cudaSuccess : device_error(cudaErrorMemoryAllocation);
}

/* There is nowhere to upload it to. */
cudaError_t host_cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
	if (!exec)
		return device_error(cudaErrorInvalidValue);
	return device_error(capture_permits(stream_find(stream)));
}
