/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_SCHEDULER_H
#define SIM_EXEC_SCHEDULER_H

/*
 * What stream.c (which streams there are, and what is queued), scheduler.c (who does it)
 * and worker.c (their own threads) have of each other
 */

#include "sim/exec/stream.h"

/* For its driver: nothing is queued. */
static inline bool stream_is_empty(const struct stream *s)
{
	/* Relaxed: only the driver writes done.  Acquire: what was queued. */
	return atomic_load_explicit(&s->done, memory_order_relaxed) ==
	       atomic_load_explicit(&s->queued, memory_order_acquire);
}

/* Keep a stream that was destroyed for the next to be created, if it is over. */
void stream_park(struct stream *stream);

/* The step of a wait for another stream. */
enum step stream_wait_step(struct stream *stream, struct work *work,
                           const struct drive *drive);

/* Begin with @work, which that may change, and queue it unless that was all.  False, and
 * nothing has happened, if something is queued before it or somebody is at the stream. */
bool drive_first(struct stream *stream, struct work *work);

/* Queue @work without a look at it.  False if there is no room. */
bool stream_put(struct stream *stream, const struct work *work);

/* For who waits for what @stream has left, which is no driver of it: have its own
 * thread do that. */
void stream_urge(struct stream *stream);

/* True if spinning only keeps others from running. */
bool stream_is_crowded(void);

/* Drive @stream as somebody who has changed nothing: it does not matter if another is
 * at it. */
void stream_poll(struct stream *stream, const struct drive *drive);

/* True if somebody else is there to go on. */
bool drive_is_relieved(const struct drive *drive);

/*
 * worker_wake      - have the stream's own thread drive it; false if it has none: out of
 *                    threads
 * worker_has_begun - true if it has one
 * worker_give_up   - what that could not do, and no timer will have it do, need not be
 *                    left to it
 */
bool worker_wake(struct stream *stream);
bool worker_has_begun(struct stream *stream);
void worker_give_up(struct stream *stream);

#endif
