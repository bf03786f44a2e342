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
 * If other processes may have opened an event, its last recording may be
 * theirs.  Such a recording has a number instead of a position
 * (shared_event.h).
 */

#include <pthread.h>
#include <stdlib.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/scoped_lock.h"
#include "sim/cuda/arena.h"
#include "sim/cuda/cuda_device.h"
#include "sim/cuda/shared_event.h"
#include "sim/cuda/stream_capture.h"
#include "sim/cuda/stream_handle.h"
#include "sim/exec/stream_queue.h"
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

	/* What other processes see of it, or NULL; and which of its recordings
	 * position is of, 0: none. */
	struct shared_event *shared;
	uint64_t recording;

	/* Where it was last recorded if that was in a capture, else id 0. */
	struct capture_point point;

	/* Guarded by table_lock. */
	struct event *next; /* of all */
	struct event *next_free;
};

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

/* Forget where an event was captured. */
static void forget_point_locked(struct event *e)
{
	free(e->point.after);
	e->point = (struct capture_point){ .id = 0 };
}

/* ---- recording -------------------------------------------------------- */

static enum step record_step(struct stream *s, struct work *w,
                             const struct drive *d)
{
	struct event *e = w->record.event;

	(void)s;
	(void)d;
	SCOPED_LOCK(&e->lock);
	if (e->version == w->record.version)
		e->time_ns = clock_now();
	return STEP_DONE;
}

/* A recording that is being queued. */
struct begun {
	struct work work;
	struct shared_event *shared; /* a use of it, or NULL */
	uint64_t version;
};

/* Begin a recording in @s; false if too many streams have one of the event on
 * its way, which is shared. */
static bool record_begin(struct event *e, const struct stream *s,
                         struct begun *out)
{
	SCOPED_LOCK(&e->lock);
	if (e->shared && !shared_event_record(e->shared, s, &out->work))
		return false;
	forget_point_locked(e);
	out->version = ++e->version;
	out->shared = e->shared ? shared_event_get(e->shared) : NULL;
	if (!e->shared)
		out->work = (struct work){
			.step = record_step,
			.record = { .event = e, .version = e->version },
		};
	e->time_ns = 0;
	return true;
}

/* The recording is queued.  Only then may others wait for it. */
static void record_end(struct event *e, struct stream *s, const struct begun *b,
                       uint64_t position)
{
	pthread_mutex_lock(&e->lock);
	if (e->version == b->version) {
		e->stream = s;
		e->position = position;
		if (b->shared)
			e->recording = b->work.shared.recording;
	}
	if (b->shared)
		shared_event_publish(b->shared, s, b->work.shared.recording);
	pthread_mutex_unlock(&e->lock);
	if (b->shared)
		shared_event_put(b->shared);
}

/* Record @e in @s; false if recordings in too many streams are on their way,
 * and other processes may have opened the event. */
static bool event_record(struct event *e, struct stream *s)
{
	struct begun b;
	uint64_t position;

	if (!record_begin(e, s, &b))
		return false;
	stream_push(s, &b.work, &position);
	record_end(e, s, &b, position);
	return true;
}

/* ---- waiting ---------------------------------------------------------- */

/* A use of what is shared of @e, if the last recording is another process's:
 * stores that.  NULL if it is this one's, or there is none. */
static struct shared_event *elsewhere(struct event *e, uint64_t *recording_out)
{
	SCOPED_LOCK(&e->lock);
	*recording_out = e->shared ? shared_event_last(e->shared) : 0;
	return *recording_out > e->recording ? shared_event_get(e->shared)
	                                     : NULL;
}

/* Let @s wait for the last recording, which is @m unless another process has
 * recorded the event since. */
static void event_wait(struct event *e, const struct moment *m,
                       struct stream *s)
{
	uint64_t recording;
	struct shared_event *shared = elsewhere(e, &recording);
	struct work w;

	if (shared) {
		w = shared_event_wait(shared, recording);
		stream_push(s, &w, NULL);
	} else if (m->stream) {
		stream_push_wait(s, m->stream, m->position);
		stream_go(s);
	}
}

/* Help the stream of the last recording, and say whether it has come there. */
static bool event_has_happened(struct event *e, const struct moment *m)
{
	uint64_t recording;
	struct shared_event *shared = elsewhere(e, &recording);
	bool has;

	if (shared) {
		has = shared_event_has(shared, recording);
		shared_event_put(shared);
		return has;
	}
	if (!m->stream)
		return true;
	stream_help(m->stream, m->position);
	return stream_is_done(m->stream, m->position);
}

/* Wait until the last recording has happened. */
static void event_await(struct event *e, const struct moment *m)
{
	struct backoff b = BACKOFF;
	uint64_t recording;
	struct shared_event *shared = elsewhere(e, &recording);

	if (shared) {
		while (!shared_event_has(shared, recording))
			backoff_wait(&b, UINT64_MAX);
		shared_event_put(shared);
	} else if (m->stream) {
		stream_wait(m->stream, m->position);
	}
}

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

	SCOPED_LOCK(&table_lock);
	for (e = all; e; e = e->next) {
		SCOPED_LOCK(&e->lock);
		n += e->live;
	}
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
	*out = (cudaEvent_t)e;
	SCOPED_LOCK(&e->lock);
	e->live = true;
	e->timed = timed;
	e->device = device_current();
	e->stream = NULL;
	e->time_ns = 0;
	e->shared = shared;
	e->recording = 0;
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
	forget_point_locked(e);
	shared = e->shared;
	e->shared = NULL;
	pthread_mutex_unlock(&e->lock);
	if (shared) {
		shared_event_end(shared);
		shared_event_put(shared);
	}
	SCOPED_LOCK(&table_lock);
	e->next_free = unused;
	unused = e;
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
	forget_point_locked(e);
	/* A recording that is still queued is not the last one any more. */
	e->version++;
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

cudaError_t host_cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle,
                                       cudaEvent_t event)
{
	struct event *e = (struct event *)event;
	const struct moment m = event_moment(event);

	if (!handle)
		return device_error(cudaErrorInvalidValue);
	if (!m.live)
		return device_error(cudaErrorInvalidResourceHandle);
	if (!arena_is_shared())
		return device_error(cudaErrorNotSupported);
	SCOPED_LOCK(&e->lock);
	if (!e->shared || shared_event_is_foreign(e->shared))
		return device_error(cudaErrorInvalidResourceHandle);
	if (!shared_event_give(e->shared, handle))
		return device_error(cudaErrorNotSupported);
	return device_error(fault_sticky(m.device));
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
