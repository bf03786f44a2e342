/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_SCHEDULER_H
#define SIM_EXEC_SCHEDULER_H

/*
 * What the sources of streams have of each other
 *
 * From below: stream_queue.c (which streams there are, and what is queued),
 * scheduler.c (which ones may go on) with stream_worker.c and poller.c (who
 * drives them), stream_submit.c (queueing and waiting).
 */

#include "base/atomics.h"
#include "base/clock.h"
#include "sim/exec/stream_queue.h"

/* ---- stream_queue.c ---- */

/* For its driver: nothing is queued. */
static inline bool stream_is_empty(const struct stream *s)
{
	/* Relaxed: only the driver writes done.  Acquire: what was queued. */
	return load_relaxed(&s->done) == load_acquire(&s->queued);
}

/* True if @device has streams that its legacy default stream waits for; and
 * that one, or NULL if it has never been used. */
bool stream_has_blocking(int device);
struct stream *stream_legacy_if_any(int device);

/* Keep a stream that was destroyed for the next to be created, if it is
 * over. */
void stream_park(struct stream *stream);

/* Queue @work without looking at it.  Stores the position behind it.  False if
 * there is no room: then stores the position behind the first work. */
bool stream_put(struct stream *stream, const struct work *work,
                uint64_t *position_out);

/* True if spinning only keeps others from running. */
bool stream_is_crowded(void);

/* ---- scheduler.c ---- */

/* The step of a wait for another stream. */
enum step stream_wait_step(struct stream *stream, struct work *work,
                           const struct drive *drive);

/* Begin with @work, which that may change, and queue it unless it was done at
 * once.  False: it has to be queued, as something is queued before it, somebody
 * is driving the stream, or there is no room. */
bool drive_first(struct stream *stream, struct work *work);

/* Drive @stream for a thread that has changed nothing: it does not matter if
 * another is driving it. */
void stream_poll(struct stream *stream, const struct drive *drive);

/* True if another thread is there to go on. */
bool drive_is_relieved(const struct drive *drive);

/*
 * stream_hold    - keep everybody from driving @stream; false if somebody is
 * driving it
 * stream_first   - for who drives or holds it: its first work, or NULL
 * stream_release - hold it no more; stream_settle() is still to be called
 */
bool stream_hold(struct stream *stream);
const struct work *stream_first(const struct stream *stream);
void stream_release(struct stream *stream);

/* For the poller: how much is done of @stream; and look at it, or if that is
 * still @done and more than a look is needed, wake its own thread. */
uint64_t stream_done(const struct stream *stream);
void stream_look_after(struct stream *stream, uint64_t done);

/* ---- stream_worker.c ---- */

/*
 * worker_wake      - have the stream's own thread drive it; false if it has
 *                    none, and none can be started
 * worker_has_begun - true if it has one
 * worker_give_up   - what the stream's own thread could not do, and no timer
 *                    will have it do, is not left to it any more
 */
bool worker_wake(struct stream *stream);
bool worker_has_begun(struct stream *stream);
void worker_give_up(struct stream *stream);

/* How many threads of the simulator there are at least; and that the caller is
 * one more (1), or is about to end (-1). */
int stream_own_threads(void);
void stream_count_thread(int change);

/* A thread of the simulator that had nothing to do for so long ends, so that it
 * does not keep alive a process whose own threads have all ended.  It is
 * started again when it is wanted. */
#define STREAM_THREAD_IDLE_NS (NS_PER_S / 2)

#endif
