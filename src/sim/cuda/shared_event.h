/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_CUDA_SHARED_EVENT_H
#define SIM_CUDA_SHARED_EVENT_H

/*
 * What processes share of an event
 *
 * Positions of streams mean nothing to another process, so a recording has a
 * number there, one more for each recording of the event, and a lane: a word in
 * which the stream stores the number when it gets there.  The recordings of one
 * lane happen in the order of their numbers, as those of one stream do, so
 * whoever waits for one waits until the word has come so far.  Recordings whose
 * order nobody knows are in different lanes: a later one that happens first
 * lets no one go on.
 *
 * Numbers are never used again, not even for another event.  So a recording or
 * a wait that is still queued when its event is destroyed, in whatever process,
 * does no harm to the event that has the words next.
 *
 * A process that dies leaves its recordings unfinished, as on a GPU.
 */

#include <stdbool.h>
#include <stdint.h>

#include "platform/cuda_abi.h"

struct shared_event;
struct stream;
struct work;

/* A new event, with one use, or NULL without memory. */
struct shared_event *shared_event_create(void);

/* Open the event of another process, with one use: shared_event_put() gives it
 * back, in each process for itself.  An error as cudaIpcOpenEventHandle() has
 * it. */
cudaError_t shared_event_open(const cudaIpcEventHandle_t *handle,
                              struct shared_event **out);

/* Store a handle; false if no process can open it. */
bool shared_event_give(const struct shared_event *event,
                       cudaIpcEventHandle_t *out);

/* True if this process has opened it. */
bool shared_event_is_foreign(const struct shared_event *event);

/* One more use of it; and one less.  Any thread. */
struct shared_event *shared_event_get(struct shared_event *event);
void shared_event_put(struct shared_event *event);

/* From now on no process can open it, if it is this process's own. */
void shared_event_end(struct shared_event *event);

/*
 * Recording: begin, queue the work on @stream, then publish
 *
 * shared_event_record  - store the work, which has a use of its own; false if
 *                        recordings in too many streams have not happened yet
 * shared_event_publish - what is queued is the last recording, unless a later
 *                        one is
 *
 * The caller synchronizes them, for each use that was created or opened.
 */
bool shared_event_record(struct shared_event *event,
                         const struct stream *stream, struct work *out);
void shared_event_publish(struct shared_event *event,
                          const struct stream *stream, uint64_t recording);

/* The last recording, 0: there is none.  A later one is greater. */
uint64_t shared_event_last(const struct shared_event *event);

/* True if a recording has happened (acquire: what was queued before it). */
bool shared_event_has(const struct shared_event *event, uint64_t recording);

/* Work that waits for a recording, and takes over a use. */
struct work shared_event_wait(struct shared_event *event, uint64_t recording);

#endif
