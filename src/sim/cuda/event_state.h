/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_EVENT_STATE_H
#define SIM_CUDA_EVENT_STATE_H

/*
 * What event.c and event_record.c share
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "sim/cuda/capture.h"

struct shared_event;
struct stream;

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
void event_forget_point_locked(struct event *event);

/* Record @event in @stream; false if recordings in too many streams are on their way, and
 * other processes may have opened the event. */
bool event_record(struct event *event, struct stream *stream);

/*
 * These mean the last recording, which is @moment unless another process has recorded the
 * event since:
 *
 * event_wait         - let @stream wait for it
 * event_has_happened - help its stream, and say whether it has come there
 * event_await        - wait until it has happened
 */
void event_wait(struct event *event, const struct moment *moment,
                struct stream *stream);
bool event_has_happened(struct event *event, const struct moment *moment);
void event_await(struct event *event, const struct moment *moment);

#endif
