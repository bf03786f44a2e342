/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Events
 *
 * An event is a position of a stream: it has happened when that position is
 * done.  To wait for an event is to wait for the position that it has at the
 * call, so that recording it again changes nothing for streams that wait
 * already.  As streams, events are never given back to the allocator: work in a
 * stream may still refer to a destroyed one.
 *
 * If other processes may have opened an event, its last recording may be theirs.  Such a
 * recording has a number instead of a position (shared_event.h).
 */

#include <pthread.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/scoped_lock.h"
#include "sim/cuda/arena.h"
#include "sim/cuda/capture.h"
#include "sim/cuda/device.h"
#include "sim/cuda/event_state.h"
#include "sim/cuda/shared_event.h"
#include "sim/cuda/stream_handle.h"
#include "sim/exec/stream.h"
#include "sim/host.h"
#include "sim/strict/census.h"
#include "sim/strict/fault.h"

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by table_lock. */
static struct event *all;
static struct event *unused;

static struct event *event_get(void)
{
	struct event *e;

	SCOPED_LOCK(&table_lock);
	e = unused;
	if (e) {
		unused = e->next_free;
	} else if ((e = calloc(1, sizeof(*e)))) {
		pthread_mutex_init(&e->lock, NULL);
		list_add(all, e, next);
	}
	return e;
}

size_t event_live(void)
{
	struct event *e;
	size_t n = 0;

	pthread_mutex_lock(&table_lock);
	for (e = all; e; e = e->next) {
		pthread_mutex_lock(&e->lock);
		n += e->live;
		pthread_mutex_unlock(&e->lock);
	}
	pthread_mutex_unlock(&table_lock);
	return n;
}

static struct moment event_moment(cudaEvent_t handle)
{
	struct event *e = (struct event *)handle;
	struct moment m = { .live = false };

	if (!e)
		return m;
	SCOPED_LOCK(&e->lock);
	m = (struct moment){
		.live = e->live,
		.timed = e->timed,
		.device = e->device,
		.stream = e->stream,
		.position = e->position,
		.time_ns = e->time_ns,
		.capture = e->point.id,
	};
	return m;
}

/* An event of the current device; @shared is the event's then. */
static cudaError_t create(bool timed, struct shared_event *shared,
                          cudaEvent_t *out)
{
	struct event *e = event_get();

	if (!e)
		return cudaErrorMemoryAllocation;
	pthread_mutex_lock(&e->lock);
	e->live = true;
	e->timed = timed;
	e->device = device_current();
	e->stream = NULL;
	e->time_ns = 0;
	e->shared = shared;
	e->recording = 0;
	pthread_mutex_unlock(&e->lock);
	*out = (cudaEvent_t)e;
	return cudaSuccess;
}

static cudaError_t create_shared(struct shared_event *shared, cudaEvent_t *out)
{
	cudaError_t error;

	if (!shared)
		return cudaErrorMemoryAllocation;
	error = create(false, shared, out);
	if (error != cudaSuccess) {
		shared_event_end(shared);
		shared_event_put(shared);
	}
	return error;
}

cudaError_t host_cudaEventCreateWithFlags(cudaEvent_t *event,
                                          unsigned int flags)
{
	const unsigned int known = cudaEventBlockingSync |
	                           cudaEventDisableTiming |
	                           cudaEventInterprocess;

	if (!event || (flags & ~known) ||
	    ((flags & cudaEventInterprocess) &&
	     !(flags & cudaEventDisableTiming)))
		return device_error(cudaErrorInvalidValue);
	if (fault_sticky(device_current()) != cudaSuccess)
		return device_error(fault_sticky(device_current()));
	if ((flags & cudaEventInterprocess) && arena_is_shared())
		return device_error(
			create_shared(shared_event_create(), event));
	return device_error(
		create(!(flags & cudaEventDisableTiming), NULL, event));
}

cudaError_t host_cudaEventCreate(cudaEvent_t *event)
{
	return host_cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t host_cudaEventDestroy(cudaEvent_t event)
{
	struct event *e = (struct event *)event;
	const struct moment m = event_moment(event);
	struct shared_event *shared;

	if (!m.live)
		return device_error(cudaErrorInvalidResourceHandle);
	pthread_mutex_lock(&e->lock);
	e->live = false;
	e->version++; /* a recording that is still queued is void */
	event_forget_point_locked(e);
	shared = e->shared;
	e->shared = NULL;
	pthread_mutex_unlock(&e->lock);
	if (shared) {
		shared_event_end(shared);
		shared_event_put(shared);
	}
	pthread_mutex_lock(&table_lock);
	list_add(unused, e, next_free);
	pthread_mutex_unlock(&table_lock);
	return device_error(fault_sticky(m.device));
}

/* ---- in a capture ----------------------------------------------------- */

static bool replay_record(const struct work *w, struct stream *s)
{
	return !event_moment((cudaEvent_t)w->record.event).live ||
	       event_record(w->record.event, s);
}

static bool replay_wait(const struct work *w, struct stream *s)
{
	const struct moment m = event_moment((cudaEvent_t)w->record.event);

	if (m.live)
		event_wait(w->record.event, &m, s);
	return true;
}

static const struct graph_kind record_kind = {
	.type = cudaGraphNodeTypeEventRecord,
	.replay = replay_record,
};

struct node event_record_node(cudaEvent_t event)
{
	struct event *e = (struct event *)event;
	const struct moment m = event_moment(event);

	return (struct node){
		.kind = m.live ? &record_kind : NULL,
		.work = { .record = { .event = e } },
		.device = m.device,
		.added = true,
	};
}

static const struct graph_kind wait_kind = {
	.type = cudaGraphNodeTypeWaitEvent,
	.replay = replay_wait,
};

/* A record or wait that happens when the graph runs. */
static cudaError_t capture_external(struct event *e, struct stream *s,
                                    const struct graph_kind *kind)
{
	const struct work w = { .record = { .event = e } };

	if (!capture_has(s))
		return device_error(cudaErrorInvalidValue);
	return device_error(stream_submit(s, &w, kind, NULL));
}

/* ---- the calls -------------------------------------------------------- */

cudaError_t host_cudaEventRecordWithFlags(cudaEvent_t event,
                                          cudaStream_t stream,
                                          unsigned int flags)
{
	struct event *e = (struct event *)event;
	struct stream *s = stream_find(stream);
	struct moment m = event_moment(event);
	struct capture_point point;
	cudaError_t error;

	if (flags & ~(unsigned int)cudaEventRecordExternal)
		return device_error(cudaErrorInvalidValue);
	if (!s || !m.live || m.device != s->device)
		return device_error(cudaErrorInvalidResourceHandle);
	if (fault_sticky(s->device) != cudaSuccess)
		return device_error(fault_sticky(s->device));
	if (flags)
		return capture_external(e, s, &record_kind);
	error = capture_point(s, &point);
	if (error != cudaSuccess)
		return device_error(error);
	if (!point.id)
		return device_error(event_record(e, s)
		                            ? cudaSuccess
		                            : cudaErrorMemoryAllocation);
	SCOPED_LOCK(&e->lock);
	event_forget_point_locked(e);
	e->version++; /* a recording that is still queued is not the last one any more */
	e->point = point;
	return cudaSuccess;
}

cudaError_t host_cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	return host_cudaEventRecordWithFlags(event, stream,
	                                     cudaEventRecordDefault);
}

/* The error that keeps the calling thread from asking about an event;
 * cudaSuccess if nothing does. */
static cudaError_t check_question(const struct moment *m)
{
	if (!m->live)
		return cudaErrorInvalidResourceHandle;
	if (fault_of_device(m->device) != cudaSuccess)
		return fault_of_device(m->device);
	if (!m->capture)
		return capture_permits_unsafe();
	capture_invalidate(m->capture);
	return cudaErrorCapturedEvent;
}

cudaError_t host_cudaEventQuery(cudaEvent_t event)
{
	struct moment m = event_moment(event);
	cudaError_t error = check_question(&m);

	if (error != cudaSuccess)
		return device_error(error);
	return device_error(event_has_happened((struct event *)event, &m)
	                            ? cudaSuccess
	                            : cudaErrorNotReady);
}

cudaError_t host_cudaEventSynchronize(cudaEvent_t event)
{
	struct moment m = event_moment(event);
	cudaError_t error = check_question(&m);

	if (error != cudaSuccess)
		return device_error(error);
	event_await((struct event *)event, &m);
	return device_error(fault_of_device(m.device));
}

cudaError_t host_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                     unsigned int flags)
{
	struct event *e = (struct event *)event;
	struct stream *s = stream_find(stream);
	struct moment m = event_moment(event);
	cudaError_t error;
	bool captured;

	if (flags & ~(unsigned int)cudaEventWaitExternal)
		return device_error(cudaErrorInvalidValue);
	if (!s || !m.live)
		return device_error(cudaErrorInvalidResourceHandle);
	if (fault_sticky(s->device) != cudaSuccess)
		return device_error(fault_sticky(s->device));
	if (flags)
		return capture_external(e, s, &wait_kind);
	pthread_mutex_lock(&e->lock);
	error = capture_wait(s, &e->point, &captured);
	pthread_mutex_unlock(&e->lock);
	if (error == cudaSuccess && !captured)
		event_wait(e, &m, s);
	return device_error(error);
}

cudaError_t host_cudaEventElapsedTime(float *ms, cudaEvent_t start,
                                      cudaEvent_t end)
{
	struct moment a = event_moment(start), b = event_moment(end);

	if (!ms)
		return device_error(cudaErrorInvalidValue);
	if (a.capture || b.capture)
		return device_error(cudaErrorCapturedEvent);
	if (a.live && fault_sticky(a.device) != cudaSuccess)
		return device_error(fault_sticky(a.device));
	if (!a.live || !b.live || !a.timed || !b.timed || !a.stream ||
	    !b.stream)
		return device_error(cudaErrorInvalidResourceHandle);
	if (!a.time_ns || !b.time_ns)
		return device_error(cudaErrorNotReady);
	*ms = (float)((double)(int64_t)(b.time_ns - a.time_ns) / 1e6);
	return cudaSuccess;
}

/* ---- for other processes ---------------------------------------------- */

static cudaError_t give_handle(struct event *e, cudaIpcEventHandle_t *handle)
{
	cudaError_t error = cudaErrorInvalidResourceHandle;

	SCOPED_LOCK(&e->lock);
	if (e->shared && !shared_event_is_foreign(e->shared))
		error = shared_event_give(e->shared, handle)
		                ? cudaSuccess
		                : cudaErrorNotSupported;
	return error;
}

cudaError_t host_cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle,
                                       cudaEvent_t event)
{
	const struct moment m = event_moment(event);
	cudaError_t error;

	if (!handle)
		return device_error(cudaErrorInvalidValue);
	if (!m.live)
		return device_error(cudaErrorInvalidResourceHandle);
	if (!arena_is_shared())
		return device_error(cudaErrorNotSupported);
	error = give_handle((struct event *)event, handle);
	return device_error(error == cudaSuccess ? fault_sticky(m.device)
	                                         : error);
}

cudaError_t host_cudaIpcOpenEventHandle(cudaEvent_t *event,
                                        cudaIpcEventHandle_t handle)
{
	struct shared_event *shared;
	cudaError_t error;

	if (!event)
		return device_error(cudaErrorInvalidValue);
	if (!arena_is_shared())
		return device_error(cudaErrorNotSupported);
	error = fault_sticky(device_current());
	if (error == cudaSuccess)
		error = shared_event_open(&handle, &shared);
	if (error == cudaSuccess)
		error = create_shared(shared, event);
	return device_error(error);
}
