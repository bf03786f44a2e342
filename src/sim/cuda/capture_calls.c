/* SPDX-License-Identifier: Apache-2.0 */

/*
 * CUDA's functions on captures
 */

#include <stdlib.h>

#include "sim/cuda/capture_state.h"
#include "sim/cuda/device.h"
#include "sim/cuda/stream_handle.h"
#include "sim/host.h"

/* ---- the beginning ---------------------------------------------------- */

static bool mode_is_valid(enum cudaStreamCaptureMode mode)
{
	return (int)mode >= cudaStreamCaptureModeGlobal &&
	       (int)mode <= cudaStreamCaptureModeRelaxed;
}

cudaError_t host_cudaStreamBeginCapture(cudaStream_t stream,
                                        enum cudaStreamCaptureMode mode)
{
	struct stream *s = stream_find(stream);
	cudaError_t error = cudaSuccess;

	if (!mode_is_valid(mode))
		return device_error(cudaErrorInvalidValue);
	if (!s)
		return device_error(cudaErrorInvalidResourceHandle);
	if (s->legacy)
		return device_error(cudaErrorStreamCaptureUnsupported);
	capture_lock();
	if (captured_of_locked(s))
		error = cudaErrorIllegalState;
	else if (!capture_create_locked(s, mode))
		error = cudaErrorMemoryAllocation;
	capture_unlock();
	return device_error(error);
}

cudaError_t
host_cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	enum cudaStreamCaptureMode *now = capture_thread_mode(), before = *now;

	if (!mode || !mode_is_valid(*mode))
		return device_error(cudaErrorInvalidValue);
	*now = *mode;
	*mode = before;
	return cudaSuccess;
}

/* ---- the end ---------------------------------------------------------- */

/* Mark the nodes that the next node of @d comes behind, and all that those come
 * behind. */
static void reach_locked(const struct captured *d)
{
	struct graph *g = d->capture->graph;
	struct node *n;
	size_t i, k;

	for (i = 0; i < g->count; i++)
		g->nodes[i]->reached = captured_has_node(d, g->nodes[i]);
	for (i = g->count; i-- > 0;) {
		n = g->nodes[i];
		for (k = 0; n->reached && k < n->after_count; k++)
			n->after[k]->reached = true;
	}
}

/* True if the origin has waited for the work of every stream of the capture.
 * Called with lock held. */
static bool is_joined_locked(const struct capture *c)
{
	const struct captured *d;
	size_t i;

	reach_locked(captured_of_locked(c->origin));
	for (d = c->streams; d; d = d->next)
		for (i = 0; i < d->count; i++)
			if (!d->after[i]->reached && !d->after[i]->added)
				return false;
	return true;
}

/* End the capture on @s: take it out, store it, and return how it ended.
 * Called with lock held. */
static cudaError_t end_locked(struct stream *s, struct capture **out)
{
	struct captured *d = captured_of_locked(s);
	cudaError_t error = cudaSuccess;
	struct capture *c;

	if (!d)
		return cudaErrorIllegalState;
	c = d->capture;
	if (c->origin != s)
		return capture_fail_locked(c, cudaErrorStreamCaptureUnmatched);
	if (c->mode != cudaStreamCaptureModeRelaxed &&
	    c->thread != capture_thread_mode())
		return cudaErrorStreamCaptureWrongThread;
	if (c->invalid)
		error = cudaErrorStreamCaptureInvalidated;
	else if (!is_joined_locked(c))
		error = cudaErrorStreamCaptureUnjoined;
	capture_remove_locked(c);
	*out = c;
	return error;
}

cudaError_t host_cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
	struct stream *s = stream_find(stream);
	struct capture *c = NULL;
	cudaError_t error;

	if (!graph)
		return device_error(cudaErrorInvalidValue);
	if (!s)
		return device_error(cudaErrorInvalidResourceHandle);
	capture_lock();
	error = end_locked(s, &c);
	capture_unlock();
	if (!c)
		return device_error(error);
	c->graph->capturing = false;
	*graph = NULL;
	if (error == cudaSuccess)
		*graph = (cudaGraph_t)c->graph;
	else
		graph_free(c->graph);
	free(c);
	return device_error(error);
}

void capture_leave(struct stream *s)
{
	struct capture *c = NULL;
	struct captured *d;

	if (capture_none())
		return;
	capture_lock();
	d = captured_of_locked(s);
	if (d && d->capture->origin == s) {
		c = d->capture;
		capture_remove_locked(c);
	} else if (d) {
		captured_forget_locked(d);
	}
	capture_unlock();
	if (c) {
		c->graph->capturing = false;
		graph_free(c->graph);
		free(c);
	}
}

/* ---- questions -------------------------------------------------------- */

/* The status of @s; a question changes nothing.  Called with lock held. */
static cudaError_t status_locked(const struct stream *s,
                                 enum cudaStreamCaptureStatus *status)
{
	const struct captured *d = captured_of_locked(s);

	if (s->legacy && capture_implicit_locked(s->device))
		return cudaErrorStreamCaptureImplicit;
	*status = cudaStreamCaptureStatusNone;
	if (d)
		*status = d->capture->invalid
		                  ? cudaStreamCaptureStatusInvalidated
		                  : cudaStreamCaptureStatusActive;
	return cudaSuccess;
}

cudaError_t host_cudaStreamIsCapturing(cudaStream_t stream,
                                       enum cudaStreamCaptureStatus *status)
{
	return host_cudaStreamGetCaptureInfo(stream, status, NULL, NULL, NULL,
	                                     NULL, NULL);
}

/* Store what is asked for of an active capture. */
static void info_locked(const struct captured *d, unsigned long long *id,
                        cudaGraph_t *graph, const cudaGraphNode_t **after,
                        const cudaGraphEdgeData **edges, size_t *count)
{
	if (id)
		*id = d->capture->id;
	if (graph)
		*graph = (cudaGraph_t)d->capture->graph;
	if (after)
		*after = (const cudaGraphNode_t *)d->after;
	if (edges)
		*edges = NULL; /* all edges are plain */
	if (count)
		*count = d->count;
}

cudaError_t host_cudaStreamGetCaptureInfo(cudaStream_t stream,
                                          enum cudaStreamCaptureStatus *status,
                                          unsigned long long *id,
                                          cudaGraph_t *graph,
                                          const cudaGraphNode_t **after,
                                          const cudaGraphEdgeData **edges,
                                          size_t *count)
{
	struct stream *s = stream_find(stream);
	cudaError_t error;

	if (!status || (edges && !after))
		return device_error(cudaErrorInvalidValue);
	if (!s)
		return device_error(cudaErrorInvalidResourceHandle);
	capture_lock();
	error = status_locked(s, status);
	if (error == cudaSuccess && *status == cudaStreamCaptureStatusActive)
		info_locked(captured_of_locked(s), id, graph, after, edges,
		            count);
	capture_unlock();
	return device_error(error);
}

cudaError_t
host12_cudaStreamGetCaptureInfo(cudaStream_t stream,
                                enum cudaStreamCaptureStatus *status,
                                unsigned long long *id)
{
	return host_cudaStreamGetCaptureInfo(stream, status, id, NULL, NULL,
	                                     NULL, NULL);
}

cudaError_t
host12_cudaStreamGetCaptureInfo_v2(cudaStream_t stream,
                                   enum cudaStreamCaptureStatus *status,
                                   unsigned long long *id, cudaGraph_t *graph,
                                   const cudaGraphNode_t **after, size_t *count)
{
	return host_cudaStreamGetCaptureInfo(stream, status, id, graph, after,
	                                     NULL, count);
}

/* Called with lock held. */
static cudaError_t update_locked(struct captured *d, cudaGraphNode_t *nodes,
                                 size_t count, unsigned int flags)
{
	if (!d)
		return cudaErrorIllegalState;
	if (d->capture->invalid)
		return cudaErrorStreamCaptureInvalidated;
	if (!graph_has(d->capture->graph, (struct node *const *)nodes, count))
		return cudaErrorInvalidValue;
	if (flags == cudaStreamSetCaptureDependencies)
		d->count = 0;
	return captured_add_all_locked(d, (struct node *const *)nodes, count)
	               ? cudaSuccess
	               : capture_fail_locked(d->capture,
	                                     cudaErrorMemoryAllocation);
}

/* Nodes that it drops from the set need not be joined: they are in the
 * graph. */
cudaError_t host_cudaStreamUpdateCaptureDependencies(
	cudaStream_t stream, cudaGraphNode_t *nodes,
	const cudaGraphEdgeData *edges, size_t count, unsigned int flags)
{
	struct stream *s = stream_find(stream);
	cudaError_t error;

	(void)edges;
	if (flags > cudaStreamSetCaptureDependencies || (count && !nodes))
		return device_error(cudaErrorInvalidValue);
	if (!s)
		return device_error(cudaErrorInvalidResourceHandle);
	capture_lock();
	error = update_locked(captured_of_locked(s), nodes, count, flags);
	capture_unlock();
	return device_error(error);
}

cudaError_t host12_cudaStreamUpdateCaptureDependencies(cudaStream_t stream,
                                                       cudaGraphNode_t *nodes,
                                                       size_t count,
                                                       unsigned int flags)
{
	return host_cudaStreamUpdateCaptureDependencies(stream, nodes, NULL,
	                                                count, flags);
}
