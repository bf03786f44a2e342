/* SPDX-License-Identifier: Apache-2.0 */

/* Implements captures (see stream_capture.h) and CUDA's functions for them */

#include "sim/cuda/stream_capture.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/list.h"
#include "base/scoped_lock.h"
#include "sim/cuda/cuda_device.h"
#include "sim/cuda/stream_handle.h"
#include "sim/cuda/sync.h"
#include "sim/host.h"
#include "sim/strict/fault.h"

/* Guards all captures.  Functions whose name ends in _locked are called with
 * the lock held. */
pthread_mutex_t capture_lock = PTHREAD_MUTEX_INITIALIZER;

struct capture {
	/* The following members are constant. */
	unsigned long long id;
	enum cudaStreamCaptureMode mode;
	const void *thread; /* identifies the thread that began the capture */
	struct stream *origin;
	struct graph *graph;

	/* Guarded by capture_lock. */
	bool invalid;
	struct captured *streams;
	struct capture *next; /* next capture in the list of all captures */
};

/* List of all captures, and the last id that was assigned.  Guarded by
 * capture_lock. */
static struct capture *captures;
static unsigned long long numbers;

/* Atomic; number of captures.  Written under capture_lock, and read without the
 * lock so that calls are fast while there is no capture.  Relaxed, because a
 * thread that is unaware of a capture need not be ordered with it. */
static atomic_int active;

/* The calling thread's mode, set by cudaThreadExchangeStreamCaptureMode().  The
 * address of this variable identifies the thread. */
static _Thread_local enum cudaStreamCaptureMode thread_mode =
	cudaStreamCaptureModeGlobal;

bool capture_none(void)
{
	return !load_relaxed(&active);
}

/* ---- streams of a capture --------------------------------------------- */

static struct captured *captured_of_locked(const struct stream *s)
{
	return load_relaxed(&s->captured);
}

bool capture_has(const struct stream *s)
{
	return load_relaxed(&s->captured);
}

static struct captured *add_stream_locked(struct capture *c, struct stream *s)
{
	struct captured *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->capture = c;
	d->stream = s;
	d->lane = c->graph->lanes++;
	list_add(c->streams, d, next);
	store_relaxed(&s->captured, d);
	return d;
}

static void captured_forget_locked(struct captured *d)
{
	list_remove(d->capture->streams, d, next);
	store_relaxed(&d->stream->captured, NULL);
	free(d->after);
	free(d);
}

static bool captured_has_node(const struct captured *d, const struct node *n)
{
	size_t i;

	for (i = 0; i < d->count; i++)
		if (d->after[i] == n)
			return true;
	return false;
}

static bool add_after_locked(struct captured *d, struct node *n)
{
	if (captured_has_node(d, n))
		return true;
	if (!array_grow(&d->after, NULL, d->count, &d->room, sizeof(n)))
		return false;
	d->after[d->count++] = n;
	return true;
}

static bool captured_add_all_locked(struct captured *d,
                                    struct node *const *nodes, size_t n)
{
	bool ok = true;
	size_t i;

	for (i = 0; ok && i < n; i++)
		ok = add_after_locked(d, nodes[i]);
	return ok;
}

/* ---- forbidden calls -------------------------------------------------- */

static cudaError_t capture_fail_locked(struct capture *c, cudaError_t error)
{
	if (c->invalid)
		return cudaErrorStreamCaptureInvalidated;
	c->invalid = true;
	return error;
}

static struct capture *capture_implicit_locked(int device)
{
	struct captured *d;
	struct capture *c;

	for (c = captures; c; c = c->next)
		for (d = c->streams; d; d = d->next)
			if (d->stream->blocking && d->stream->device == device)
				return c;
	return NULL;
}

static cudaError_t check_legacy_locked(const struct stream *s)
{
	struct capture *c =
		s->legacy ? capture_implicit_locked(s->device) : NULL;

	if (!c)
		return cudaSuccess;
	c->invalid = true;
	return cudaErrorStreamCaptureImplicit;
}

cudaError_t capture_permits(const struct stream *s)
{
	struct captured *d;

	if (!s)
		return cudaErrorInvalidResourceHandle;
	if (stream_permits_calls() != cudaSuccess)
		return cudaErrorNotPermitted;
	if (capture_none())
		return cudaSuccess;
	SCOPED_LOCK(&capture_lock);
	d = captured_of_locked(s);
	return d ? capture_fail_locked(d->capture,
	                               cudaErrorStreamCaptureUnsupported)
	         : check_legacy_locked(s);
}

static bool is_on_device(const struct capture *c, int device)
{
	const struct captured *d;

	list_find(d, c->streams, next, d->stream->device == device);
	return d;
}

/* Return true if @c prevents the calling thread from making potentially unsafe
 * calls. */
static bool prohibits(const struct capture *c)
{
	if (c->thread == &thread_mode)
		return c->mode != cudaStreamCaptureModeRelaxed;
	return c->mode == cudaStreamCaptureModeGlobal &&
	       thread_mode == cudaStreamCaptureModeGlobal;
}

/* Invalidate the captures that prevent a call: captures with a stream on
 * @device or, if @device is -1, captures that prevent potentially unsafe calls.
 * Return an error if there are any. */
static cudaError_t refuse_all(int device)
{
	cudaError_t error = cudaSuccess;
	struct capture *c;

	SCOPED_LOCK(&capture_lock);
	for (c = captures; c; c = c->next)
		if (device >= 0 ? is_on_device(c, device) : prohibits(c)) {
			c->invalid = true;
			error = cudaErrorStreamCaptureUnsupported;
		}
	return error;
}

cudaError_t capture_permits_device_wait(int device)
{
	if (stream_permits_calls() != cudaSuccess)
		return cudaErrorNotPermitted;
	return capture_none() ? cudaSuccess : refuse_all(device);
}

cudaError_t capture_permits_unsafe(void)
{
	if (stream_permits_calls() != cudaSuccess)
		return cudaErrorNotPermitted;
	if (capture_none() || thread_mode == cudaStreamCaptureModeRelaxed)
		return cudaSuccess;
	return refuse_all(-1);
}

/* ---- capturing -------------------------------------------------------- */

static cudaError_t add_node_locked(struct captured *d, const struct work *work,
                                   const struct graph_kind *kind)
{
	const struct node like = {
		.kind = kind,
		.work = *work,
		.device = d->stream->device,
		.lane = d->lane,
	};
	struct capture *c = d->capture;
	struct node *n;

	if (!kind || c->invalid)
		return capture_fail_locked(c,
		                           cudaErrorStreamCaptureUnsupported);
	n = graph_add(c->graph, &like, d->after, d->count);
	if (!n)
		return capture_fail_locked(c, cudaErrorMemoryAllocation);
	d->count = 0;
	if (add_after_locked(d, n))
		return cudaSuccess;
	/* Return success, because the graph already owns the work and the
	 * caller must not free it. */
	c->invalid = true;
	return cudaSuccess;
}

cudaError_t stream_submit(struct stream *s, const struct work *work,
                          const struct graph_kind *kind, uint64_t *position_out)
{
	cudaError_t error = fault_sticky(s->device);
	struct captured *d = NULL;

	if (error == cudaSuccess && !capture_none()) {
		pthread_mutex_lock(&capture_lock);
		d = captured_of_locked(s);
		error = d ? add_node_locked(d, work, kind)
		          : check_legacy_locked(s);
		pthread_mutex_unlock(&capture_lock);
	}
	if (d && position_out)
		*position_out = 0;
	if (!d && error == cudaSuccess) {
		sync_launch(s->device);
		stream_push(s, work, position_out);
	}
	return error;
}

cudaError_t capture_check_together(struct stream *const *streams, size_t n)
{
	cudaError_t error = cudaSuccess;
	struct captured *first, *d;
	size_t i;

	if (capture_none())
		return cudaSuccess;
	SCOPED_LOCK(&capture_lock);
	first = captured_of_locked(streams[0]);
	for (i = 0; i < n && error == cudaSuccess; i++) {
		d = captured_of_locked(streams[i]);
		if (!d != !first || (d && d->capture != first->capture))
			error = cudaErrorStreamCaptureIsolation;
		else if ((d && d->capture->invalid) ||
		         check_legacy_locked(streams[i]) != cudaSuccess)
			error = cudaErrorStreamCaptureInvalidated;
	}
	return error;
}

cudaError_t capture_join(struct stream *to, struct stream *from)
{
	struct captured *a, *b;
	bool ok = true;

	SCOPED_LOCK(&capture_lock);
	a = captured_of_locked(to);
	b = captured_of_locked(from);
	if (a && b)
		ok = captured_add_all_locked(a, b->after, b->count);
	return ok ? cudaSuccess : cudaErrorMemoryAllocation;
}

/* ---- events ----------------------------------------------------------- */

cudaError_t capture_point(struct stream *s, struct capture_point *out)
{
	struct captured *d;
	size_t bytes;

	*out = (struct capture_point){ .id = 0 };
	if (stream_permits_calls() != cudaSuccess)
		return cudaErrorNotPermitted;
	if (capture_none())
		return cudaSuccess;
	SCOPED_LOCK(&capture_lock);
	d = captured_of_locked(s);
	if (!d)
		return check_legacy_locked(s);
	if (d->capture->invalid)
		return cudaErrorStreamCaptureInvalidated;
	bytes = d->count * sizeof(struct node *);
	out->after = malloc(bytes ? bytes : 1);
	if (!out->after)
		return capture_fail_locked(d->capture,
		                           cudaErrorMemoryAllocation);
	if (bytes)
		memcpy(out->after, d->after, bytes);
	out->count = d->count;
	out->id = d->capture->id;
	return cudaSuccess;
}

static struct capture *find_locked(unsigned long long id)
{
	struct capture *c;

	list_find(c, captures, next, c->id == id);
	return c;
}

static cudaError_t follow_locked(struct capture *c, struct stream *s,
                                 const struct capture_point *p)
{
	struct captured *d = captured_of_locked(s);

	if (c->invalid)
		return cudaErrorStreamCaptureInvalidated;
	if (s->legacy)
		return capture_fail_locked(c, cudaErrorStreamCaptureImplicit);
	if (!d)
		d = add_stream_locked(c, s);
	if (!d || !captured_add_all_locked(d, p->after, p->count))
		return capture_fail_locked(c, cudaErrorMemoryAllocation);
	return cudaSuccess;
}

static cudaError_t wait_locked(struct stream *s, const struct capture_point *p)
{
	struct captured *d = captured_of_locked(s);
	struct capture *c = find_locked(p->id);

	if (!p->id)
		return capture_fail_locked(d->capture,
		                           cudaErrorStreamCaptureIsolation);
	if (!c)
		return cudaErrorCapturedEvent;
	if (d && d->capture != c) {
		c->invalid = true;
		return capture_fail_locked(d->capture,
		                           cudaErrorStreamCaptureMerge);
	}
	return follow_locked(c, s, p);
}

cudaError_t capture_wait(struct stream *s, const struct capture_point *p,
                         bool *handled)
{
	*handled = p->id;
	if (stream_permits_calls() != cudaSuccess)
		return cudaErrorNotPermitted;
	if (!p->id && capture_none())
		return cudaSuccess;
	SCOPED_LOCK(&capture_lock);
	*handled = p->id || captured_of_locked(s);
	return *handled ? wait_locked(s, p) : check_legacy_locked(s);
}

void capture_invalidate(unsigned long long id)
{
	struct capture *c;

	SCOPED_LOCK(&capture_lock);
	c = find_locked(id);
	if (c)
		c->invalid = true;
}

/* ---- creating and removing captures ----------------------------------- */

static struct capture *capture_create_locked(struct stream *s,
                                             enum cudaStreamCaptureMode mode)
{
	struct capture *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->graph = graph_create();
	if (!c->graph || !add_stream_locked(c, s)) {
		if (c->graph)
			graph_free(c->graph);
		free(c);
		return NULL;
	}
	c->graph->capturing = true;
	c->id = ++numbers;
	c->mode = mode;
	c->thread = &thread_mode;
	c->origin = s;
	list_add(captures, c, next);
	add_relaxed(&active, 1);
	return c;
}

static void capture_remove_locked(struct capture *c)
{
	list_remove(captures, c, next);
	while (c->streams)
		captured_forget_locked(c->streams);
	sub_relaxed(&active, 1);
}

/* ---- beginning a capture ---------------------------------------------- */

static bool mode_is_valid(enum cudaStreamCaptureMode mode)
{
	return (int)mode >= cudaStreamCaptureModeGlobal &&
	       (int)mode <= cudaStreamCaptureModeRelaxed;
}

cudaError_t host_cudaStreamBeginCapture(cudaStream_t stream,
                                        enum cudaStreamCaptureMode mode)
{
	struct stream *s = stream_find(stream);

	if (!mode_is_valid(mode))
		return device_error(cudaErrorInvalidValue);
	if (!s)
		return device_error(cudaErrorInvalidResourceHandle);
	if (s->legacy)
		return device_error(cudaErrorStreamCaptureUnsupported);
	SCOPED_LOCK(&capture_lock);
	if (captured_of_locked(s))
		return device_error(cudaErrorIllegalState);
	return device_error(capture_create_locked(s, mode)
	                            ? cudaSuccess
	                            : cudaErrorMemoryAllocation);
}

cudaError_t
host_cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	enum cudaStreamCaptureMode before = thread_mode;

	if (!mode || !mode_is_valid(*mode))
		return device_error(cudaErrorInvalidValue);
	thread_mode = *mode;
	*mode = before;
	return cudaSuccess;
}

/* ---- ending a capture ------------------------------------------------- */

/* Mark all nodes that the next node of @d will depend on, directly or
 * indirectly. */
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

/* Return true if the stream on which the capture began has waited for all other
 * streams of the capture. */
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
	    c->thread != &thread_mode)
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
	pthread_mutex_lock(&capture_lock);
	error = end_locked(s, &c);
	pthread_mutex_unlock(&capture_lock);
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
	pthread_mutex_lock(&capture_lock);
	d = captured_of_locked(s);
	if (d && d->capture->origin == s) {
		c = d->capture;
		capture_remove_locked(c);
	} else if (d) {
		captured_forget_locked(d);
	}
	pthread_mutex_unlock(&capture_lock);
	if (c) {
		c->graph->capturing = false;
		graph_free(c->graph);
		free(c);
	}
}

/* ---- queries ---------------------------------------------------------- */

cudaError_t host_cudaStreamIsCapturing(cudaStream_t stream,
                                       enum cudaStreamCaptureStatus *status)
{
	return host_cudaStreamGetCaptureInfo(stream, status, NULL, NULL, NULL,
	                                     NULL, NULL);
}

/* This query does not invalidate the capture. */
cudaError_t host_cudaStreamGetCaptureInfo(cudaStream_t stream,
                                          enum cudaStreamCaptureStatus *status,
                                          unsigned long long *id,
                                          cudaGraph_t *graph,
                                          const cudaGraphNode_t **after,
                                          const cudaGraphEdgeData **edges,
                                          size_t *count)
{
	struct stream *s = stream_find(stream);
	const struct captured *d;

	if (!status || (edges && !after))
		return device_error(cudaErrorInvalidValue);
	if (!s)
		return device_error(cudaErrorInvalidResourceHandle);
	SCOPED_LOCK(&capture_lock);
	if (s->legacy && capture_implicit_locked(s->device))
		return device_error(cudaErrorStreamCaptureImplicit);
	d = captured_of_locked(s);
	*status = !d                    ? cudaStreamCaptureStatusNone
	          : d->capture->invalid ? cudaStreamCaptureStatusInvalidated
	                                : cudaStreamCaptureStatusActive;
	if (*status != cudaStreamCaptureStatusActive)
		return cudaSuccess;
	if (id)
		*id = d->capture->id;
	if (graph)
		*graph = (cudaGraph_t)d->capture->graph;
	if (after)
		*after = (const cudaGraphNode_t *)d->after;
	if (edges)
		*edges = NULL; /* no edge has data */
	if (count)
		*count = d->count;
	return cudaSuccess;
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

/* Nodes that the program removes from the stream's dependencies stay in the
 * graph and need not be joined. */
cudaError_t host_cudaStreamUpdateCaptureDependencies(
	cudaStream_t stream, cudaGraphNode_t *nodes,
	const cudaGraphEdgeData *edges, size_t count, unsigned int flags)
{
	struct stream *s = stream_find(stream);

	(void)edges;
	if (flags > cudaStreamSetCaptureDependencies || (count && !nodes))
		return device_error(cudaErrorInvalidValue);
	if (!s)
		return device_error(cudaErrorInvalidResourceHandle);
	SCOPED_LOCK(&capture_lock);
	return device_error(
		update_locked(captured_of_locked(s), nodes, count, flags));
}

cudaError_t host12_cudaStreamUpdateCaptureDependencies(cudaStream_t stream,
                                                       cudaGraphNode_t *nodes,
                                                       size_t count,
                                                       unsigned int flags)
{
	return host_cudaStreamUpdateCaptureDependencies(stream, nodes, NULL,
	                                                count, flags);
}
