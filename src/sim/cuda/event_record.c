/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Recording events, and waiting for them
 */

#include "sim/cuda/event_state.h"

#include <stdlib.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/scoped_lock.h"
#include "sim/cuda/shared_event.h"
#include "sim/exec/stream.h"

void event_forget_point_locked(struct event *e)
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

/* Begin a recording in @s; false if too many streams have one of the event on its way,
 * which is shared. */
static bool record_begin(struct event *e, const struct stream *s,
                         struct begun *out)
{
	bool ok = true;

	SCOPED_LOCK(&e->lock);
	if (e->shared)
		ok = shared_event_record(e->shared, s, &out->work);
	else
		out->work = (struct work){
			.step = record_step,
			.record = { .event = e, .version = e->version + 1 },
		};
	if (ok) {
		event_forget_point_locked(e);
		out->version = ++e->version;
		out->shared = e->shared ? shared_event_get(e->shared) : NULL;
		e->time_ns = 0;
	}
	return ok;
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

bool event_record(struct event *e, struct stream *s)
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

/* A use of what is shared of @e, if the last recording is another process's: stores
 * that.  NULL if it is this one's, or there is none. */
static struct shared_event *elsewhere(struct event *e, uint64_t *recording_out)
{
	struct shared_event *shared = NULL;
	uint64_t last;

	SCOPED_LOCK(&e->lock);
	last = e->shared ? shared_event_last(e->shared) : 0;
	if (last > e->recording) {
		shared = shared_event_get(e->shared);
		*recording_out = last;
	}
	return shared;
}

void event_wait(struct event *e, const struct moment *m, struct stream *s)
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

bool event_has_happened(struct event *e, const struct moment *m)
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

void event_await(struct event *e, const struct moment *m)
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
