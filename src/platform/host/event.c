/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Events of the host platform
 *
 * An event is a position of a stream: it has happened when that position is
 * done, and waiting for it is waiting for the position as it is at the call, so
 * that recording the event again changes nothing for those who wait already.
 * As streams, events are never given back to the allocator: work in a stream
 * may still refer to a destroyed one.
 */

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "platform/host/census.h"
#include "platform/host/device.h"
#include "platform/host/host.h"
#include "platform/host/stream.h"

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
	};
	pthread_mutex_unlock(&e->lock);
	return m;
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

	if (!event_moment(event).live)
		return device_error(cudaErrorInvalidResourceHandle);
	pthread_mutex_lock(&e->lock);
	e->live = false;
	e->version++; /* a recording that is still queued is void */
	pthread_mutex_unlock(&e->lock);
	pthread_mutex_lock(&table_lock);
	e->next_free = unused;
	unused = e;
	pthread_mutex_unlock(&table_lock);
	return cudaSuccess;
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

cudaError_t host_cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	struct event *e = (struct event *)event;
	struct stream *s = stream_find(stream);
	struct moment m = event_moment(event);
	struct work w = { .step = record_step };
	uint64_t position;

	if (!s || !m.live || m.device != s->device)
		return device_error(cudaErrorInvalidResourceHandle);
	pthread_mutex_lock(&e->lock);
	w.record.event = e;
	w.record.version = ++e->version;
	e->time_ns = 0;
	pthread_mutex_unlock(&e->lock);
	stream_push(s, &w, &position);
	pthread_mutex_lock(&e->lock);
	if (e->version == w.record.version) {
		e->stream = s;
		e->position = position;
	}
	pthread_mutex_unlock(&e->lock);
	return cudaSuccess;
}

cudaError_t host_cudaEventQuery(cudaEvent_t event)
{
	struct moment m = event_moment(event);

	if (!m.live)
		return device_error(cudaErrorInvalidResourceHandle);
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

	if (!m.live)
		return device_error(cudaErrorInvalidResourceHandle);
	if (m.stream)
		stream_wait(m.stream, m.position);
	return cudaSuccess;
}

cudaError_t host_cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                     unsigned int flags)
{
	struct stream *s = stream_find(stream);
	struct moment m = event_moment(event);

	if (flags)
		return device_error(cudaErrorInvalidValue);
	if (!s || !m.live)
		return device_error(cudaErrorInvalidResourceHandle);
	if (m.stream) {
		stream_push_wait(s, m.stream, m.position);
		stream_go(s);
	}
	return cudaSuccess;
}

cudaError_t host_cudaEventElapsedTime(float *ms, cudaEvent_t start,
                                      cudaEvent_t end)
{
	struct moment a = event_moment(start), b = event_moment(end);

	if (!ms)
		return device_error(cudaErrorInvalidValue);
	if (!a.live || !b.live || !a.timed || !b.timed || !a.stream ||
	    !b.stream)
		return device_error(cudaErrorInvalidResourceHandle);
	if (!a.time_ns || !b.time_ns)
		return device_error(cudaErrorNotReady);
	*ms = (float)((double)(int64_t)(b.time_ns - a.time_ns) / 1e6);
	return cudaSuccess;
}
