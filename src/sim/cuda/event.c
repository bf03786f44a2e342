/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Events
 *
 * An event is a position of a stream: it has happened when that position is
 * done.  To wait for an event is to wait for the position that it has at the
 * call, so that recording it again changes nothing for streams that wait
 * already.  As streams, events are never given back to the allocator: work in a
 * stream may still refer to a destroyed one.
 */

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "sim/cuda/capture.h"
#include "sim/cuda/device.h"
#include "sim/cuda/stream_handle.h"
#include "sim/exec/stream.h"
#include "sim/host.h"
#include "sim/strict/census.h"
#include "sim/strict/fault.h"

struct event {
	/* Guarded by lock. */
	pthread_mutex_t lock;
	bool live;
	bool timed;
	int device;            /* whose streams may record it */
	struct stream *stream; /* where it was recorded, or NULL */
	uint64_t position;
	uint64_t version; /* counts the recordings */
	uint64_t time_ns; /* when the last one happened; 0: not yet */

	/* Where it was last recorded if that was in a capture, else id 0. */
	struct capture_point point;

	/* Guarded by table_lock. */
	struct event *next; /* of all */
	struct event *next_free;
};

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by table_lock. */
static struct event *all;
static struct event *unused;

static struct event *event_get(void)
{
	struct event *e;

	pthread_mutex_lock(&table_lock);
	e = unused;
	if (e) {
		unused = e->next_free;
	} else if ((e = calloc(1, sizeof(*e)))) {
		pthread_mutex_init(&e->lock, NULL);
		e->next = all;
		all = e;
	}
	pthread_mutex_unlock(&table_lock);
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

/* Where and when an event was last recorded. */
struct moment {
	bool live;
	bool timed;
	int device;
	struct stream *stream;
	uint64_t position;
	uint64_t time_ns;
	unsigned long long capture; /* its id, or 0 */
};

static struct moment event_moment(cudaEvent_t handle)
{
	struct event *e = (struct event *)handle;
	struct moment m = { .live = false };

	if (!e)
		return m;
	pthread_mutex_lock(&e->lock);
	m = (struct moment){
		.live = e->live,
		.timed = e->timed,
		.device = e->device,
		.stream = e->stream,
		.position = e->position,
		.time_ns = e->time_ns,
		.capture = e->point.id,
	};
	pthread_mutex_unlock(&e->lock);
	return m;
}

/* Called with the event's lock held. */
static void forget_point_locked(struct event *e)
{
	free(e->point.after);
	e->point = (struct capture_point){ .id = 0 };
}

cudaError_t host_cudaEventCreateWithFlags(cudaEvent_t *event,
                                          unsigned int flags)
{
	const unsigned int known = cudaEventBlockingSync |
	                           cudaEventDisableTiming |
	                           cudaEventInterprocess;
	struct event *e;

	if (!event || (flags & ~known) ||
	    ((flags & cudaEventInterprocess) &&
	     !(flags & cudaEventDisableTiming)))
		return device_error(cudaErrorInvalidValue);
	if (fault_sticky(device_current()) != cudaSuccess)
		return device_error(fault_sticky(device_current()));
	e = event_get();
	if (!e)
		return device_error(cudaErrorMemoryAllocation);
	pthread_mutex_lock(&e->lock);
	e->live = true;
	e->timed = !(flags & cudaEventDisableTiming);
	e->device = device_current();
	e->stream = NULL;
	e->time_ns = 0;
	pthread_mutex_unlock(&e->lock);
	*event = (cudaEvent_t)e;
	return cudaSuccess;
}

cudaError_t host_cudaEventCreate(cudaEvent_t *event)
{
	return host_cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t host_cudaEventDestroy(cudaEvent_t event)
{
	struct event *e = (struct event *)event;
	const struct moment m = event_moment(event);

	if (!m.live)
		return device_error(cudaErrorInvalidResourceHandle);
	pthread_mutex_lock(&e->lock);
	e->live = false;
	e->version++; /* a recording that is still queued is void */
	forget_point_locked(e);
	pthread_mutex_unlock(&e->lock);
	pthread_mutex_lock(&table_lock);
	e->next_free = unused;
	unused = e;
	pthread_mutex_unlock(&table_lock);
	return device_error(fault_sticky(m.device));
}

static enum step record_step(struct stream *s, struct work *w,
                             const struct drive *d)
{
	struct event *e = w->record.event;

	(void)s;
	(void)d;
	pthread_mutex_lock(&e->lock);
	if (e->version == w->record.version)
		e->time_ns = clock_now();
	pthread_mutex_unlock(&e->lock);
	return STEP_DONE;
}

/* Begin a recording; returns the work to queue for it. */
static struct work record_begin(struct event *e)
{
	struct work w = { .step = record_step };

	pthread_mutex_lock(&e->lock);
	forget_point_locked(e);
	w.record.event = e;
	w.record.version = ++e->version;
	e->time_ns = 0;
	pthread_mutex_unlock(&e->lock);
	return w;
}

static void record_in(struct event *e, struct stream *s)
{
	const struct work w = record_begin(e);
	uint64_t position;

	stream_push(s, &w, &position);
	pthread_mutex_lock(&e->lock);
	if (e->version == w.record.version) {
		e->stream = s;
		e->position = position;
	}
	pthread_mutex_unlock(&e->lock);
}

/* ---- in a capture ----------------------------------------------------- */

static bool replay_record(const struct work *w, struct stream *s)
{
	if (event_moment((cudaEvent_t)w->record.event).live)
		record_in(w->record.event, s);
	return true;
}

static bool replay_wait(const struct work *w, struct stream *s)
{
	const struct moment m = event_moment((cudaEvent_t)w->record.event);

	if (m.live && m.stream)
		stream_push_wait(s, m.stream, m.position);
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
	if (!point.id) {
		record_in(e, s);
		return cudaSuccess;
	}
	pthread_mutex_lock(&e->lock);
	forget_point_locked(e);
	e->version++; /* a recording that is still queued is not the last one any more */
	e->point = point;
	pthread_mutex_unlock(&e->lock);
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
	if (!m.stream)
		return cudaSuccess;
	stream_help(m.stream, m.position);
	return device_error(stream_is_done(m.stream, m.position)
	                            ? cudaSuccess
	                            : cudaErrorNotReady);
}

cudaError_t host_cudaEventSynchronize(cudaEvent_t event)
{
	struct moment m = event_moment(event);
	cudaError_t error = check_question(&m);

	if (error != cudaSuccess)
		return device_error(error);
	if (m.stream)
		stream_wait(m.stream, m.position);
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
	if (error != cudaSuccess || captured || !m.stream)
		return device_error(error);
	stream_push_wait(s, m.stream, m.position);
	stream_go(s);
	return cudaSuccess;
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

cudaError_t host12_cudaEventElapsedTime_v2(float *ms, cudaEvent_t start,
                                           cudaEvent_t end)
{
	return host_cudaEventElapsedTime(ms, start, end);
}
