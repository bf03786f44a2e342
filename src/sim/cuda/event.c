/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Implements events
 *
 * Recording an event stores a position in a stream, and the event is complete
 * when the stream reaches that position.  A wait uses the position at the time
 * of the call, so streams that already wait are not affected if the event is
 * recorded again.
 *
 * The memory of an event is never freed, because queued work can refer to a
 * destroyed event.
 */

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/scoped_lock.h"
#include "sim/cuda/cuda_device.h"
#include "sim/cuda/stream_capture.h"
#include "sim/cuda/stream_handle.h"
#include "sim/exec/stream_queue.h"
#include "sim/host.h"
#include "sim/strict/census.h"
#include "sim/strict/fault.h"

/* State of an event, and its last recording. */
struct moment {
	bool live;
	bool timed;
	/* the event's device; only its streams may record the event */
	int device;
	struct stream *stream; /* stream of the last recording, or NULL */
	uint64_t position;
	/* time at which the stream reached the last recording, or 0 */
	uint64_t time_ns;
	/* Id of the capture that recorded the event, or 0.  Set only in copies
	 * (event_moment()). */
	unsigned long long capture;
};

struct event {
	/* The following members are guarded by lock. */
	pthread_mutex_t lock;
	struct moment now;
	uint64_t version; /* number of recordings so far */

	/* Position of the last recording in a capture.  The id is 0 if the
	 * recording was not captured. */
	struct capture_point point;

	/* Guarded by table_lock. */
	struct event *next; /* next event in the list of all events */
	struct event *next_free;
};

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
		e->now.time_ns = clock_now();
	return STEP_DONE;
}

static void event_record(struct event *e, struct stream *s)
{
	struct work w = { .step = record_step, .record = { .event = e } };
	uint64_t position;

	pthread_mutex_lock(&e->lock);
	forget_point_locked(e);
	w.record.version = ++e->version;
	e->now.time_ns = 0;
	pthread_mutex_unlock(&e->lock);
	stream_push(s, &w, &position);
	SCOPED_LOCK(&e->lock);
	/* Other threads may wait for the recording only once it is queued. */
	if (e->version == w.record.version) {
		e->now.stream = s;
		e->now.position = position;
	}
}

/* ---- waiting ---------------------------------------------------------- */

static void event_wait(const struct moment *m, struct stream *s)
{
	if (!m->stream)
		return;
	stream_push_wait(s, m->stream, m->position);
	stream_drive_cheap(s);
}

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

/* List of all events, and list of the events that can be reused.  Guarded by
 * table_lock. */
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
		n += e->now.live;
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
	m = e->now;
	m.capture = e->point.id;
	return m;
}

static cudaError_t create(bool timed, cudaEvent_t *out)
{
	struct event *e = event_get();

	if (!e)
		return cudaErrorMemoryAllocation;
	*out = (cudaEvent_t)e;
	SCOPED_LOCK(&e->lock);
	e->now = (struct moment){
		.live = true,
		.timed = timed,
		.device = device_current(),
	};
	return cudaSuccess;
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
	return device_error(create(!(flags & cudaEventDisableTiming), event));
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
	e->now.live = false;
	e->version++; /* invalidate a queued recording */
	forget_point_locked(e);
	pthread_mutex_unlock(&e->lock);
	SCOPED_LOCK(&table_lock);
	e->next_free = unused;
	unused = e;
	return device_error(fault_sticky(m.device));
}

/* ---- events in graphs ------------------------------------------------- */

static bool replay_record(const struct work *w, struct stream *s)
{
	if (event_moment((cudaEvent_t)w->record.event).live)
		event_record(w->record.event, s);
	return true;
}

static bool replay_wait(const struct work *w, struct stream *s)
{
	const struct moment m = event_moment((cudaEvent_t)w->record.event);

	if (m.live)
		event_wait(&m, s);
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

static cudaError_t capture_external(struct event *e, struct stream *s,
                                    const struct graph_kind *kind)
{
	const struct work w = { .record = { .event = e } };

	if (!capture_has(s))
		return device_error(cudaErrorInvalidValue);
	return device_error(stream_submit(s, &w, kind, NULL));
}

/* ---- recording, querying and waiting ---------------------------------- */

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
		event_record(e, s);
		return cudaSuccess;
	}
	SCOPED_LOCK(&e->lock);
	forget_point_locked(e);
	/* Invalidate a recording that is still queued. */
	e->version++;
	e->point = point;
	return cudaSuccess;
}

cudaError_t host_cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	return host_cudaEventRecordWithFlags(event, stream,
	                                     cudaEventRecordDefault);
}

/* Return the error that prevents the calling thread from querying an event, or
 * cudaSuccess. */
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
	/* Do the work that this thread can do now. */
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
	if (error == cudaSuccess && !captured)
		event_wait(&m, s);
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
