/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements executable graphs
 *
 * An executable graph is a copy of a graph with one stream per lane.  A launch
 * queues the whole graph.  Every lane waits for the launching stream and for
 * the previous launch.  The launching stream then waits for all lanes.
 */

#include <stdlib.h>

#include "base/scoped_lock.h"
#include "base/thread.h"
#include "sim/cuda/cuda_device.h"
#include "sim/cuda/graph.h"
#include "sim/cuda/stream_capture.h"
#include "sim/cuda/stream_handle.h"
#include "sim/cuda/sync.h"
#include "sim/host.h"
#include "sim/strict/fault.h"

struct exec {
	/* The following members are constant. */
	struct graph *graph;
	unsigned long long flags;

	/* The stream of each lane.  Guarded by lock. */
	pthread_mutex_t lock;
	struct stream **streams;
};

/* ---- executable graphs ------------------------------------------------ */

static void wait_for_lanes(const struct exec *e, struct stream *to)
{
	int i;

	for (i = 0; i < e->graph->lanes; i++)
		if (e->streams[i])
			stream_push_wait(to, e->streams[i],
			                 e->streams[i]->queued);
}

/* Release the references to user objects.  Runs on the stream's worker thread,
 * because no other thread may call functions of the program. */
static enum step drop_uses_step(struct stream *s, struct work *w,
                                const struct drive *d)
{
	(void)s;
	if (d->effort != EFFORT_OWN)
		return STEP_LATER;
	stream_settle();
	user_objects_drop(w->host.user);
	return STEP_DONE;
}

static void drop_uses_later(struct exec *e)
{
	const struct work w = {
		.step = drop_uses_step,
		.host = { .user = e->graph->uses },
	};
	struct stream *s = NULL;
	int i;

	for (i = 0; e->streams && !s && i < e->graph->lanes; i++)
		s = e->streams[i];
	if (!s || !e->graph->uses)
		return;
	wait_for_lanes(e, s);
	stream_push(s, &w, NULL);
	stream_drive_cheap(s);
	e->graph->uses = NULL;
}

static void exec_free(struct exec *e)
{
	int i;

	if (e->graph)
		drop_uses_later(e);
	for (i = 0; e->streams && i < e->graph->lanes; i++)
		if (e->streams[i])
			stream_destroy(e->streams[i]);
	free(e->streams);
	if (e->graph)
		graph_free(e->graph);
	pthread_mutex_destroy(&e->lock);
	free(e);
}

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

/* Destroy an executable graph.  Its streams still finish the queued work. */
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

/* Return a position in @s that follows all work queued so far.  A launch of a
 * graph starts at this position. */
static uint64_t order_after_queued(struct stream *s)
{
	const struct work w = { .step = nothing_step };
	uint64_t position;

	stream_push(s, &w, &position);
	return position;
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

static bool replay_locked(struct exec *e, struct stream *s)
{
	const struct graph *g = e->graph;
	const uint64_t start = order_after_queued(s);
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
	stream_drive_cheap(s);
	return ok;
}

cudaError_t host_cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
	struct exec *e = (struct exec *)exec;
	struct stream *s = stream_find(stream);
	cudaError_t error;

	if (!e)
		return device_error(cudaErrorInvalidValue);
	error = capture_permits(s);
	if (error == cudaSuccess)
		error = fault_sticky(s->device);
	if (error != cudaSuccess)
		return device_error(error);
	sync_launch(s->device);
	SCOPED_LOCK(&e->lock);
	return device_error(replay_locked(e, s) ? cudaSuccess
	                                        : cudaErrorMemoryAllocation);
}

/* Do nothing, because there is no device memory to upload to. */
cudaError_t host_cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream)
{
	if (!exec)
		return device_error(cudaErrorInvalidValue);
	return device_error(capture_permits(stream_find(stream)));
}
