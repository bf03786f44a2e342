/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_SCHEDULER_H
#define SIM_EXEC_SCHEDULER_H

/*
 * Internal functions of streams
 *
 * Each source file calls functions of the files before it in this list:
 * stream_queue.c (the table of streams, and their queues), scheduler.c (which
 * streams can run) with stream_worker.c and poller.c (threads that drive them),
 * stream_submit.c (enqueueing and waiting).
 */

#include "base/atomics.h"
#include "base/clock.h"
#include "sim/exec/stream_queue.h"

/* ---- stream_queue.c ---- */

/* Return true if the queue is empty.  Only for the thread that drives the
 * stream. */
static inline bool stream_is_empty(const struct stream *s)
{
	/* The load of done is relaxed, because only the calling thread writes
	 * it.  The load of queued acquires the queued work. */
	return load_relaxed(&s->done) == load_acquire(&s->queued);
}

/* Return true if @device has streams that its legacy default stream waits
 * for. */
bool stream_has_blocking(int device);

/* Return the legacy default stream of @device, or NULL if it has never been
 * used. */
struct stream *stream_legacy_if_any(int device);

/* Move @stream to the list of unused streams if it was destroyed and has no
 * work left. */
void stream_park(struct stream *stream);

/* Enqueue @work without calling its step function, and store the position after
 * it.  If the queue is full, return false and store the position after the head
 * item. */
bool stream_put(struct stream *stream, const struct work *work,
                uint64_t *position_out);

/* Return true if spinning would keep other threads from running, because there
 * are more ranks than cores. */
bool stream_is_crowded(void);

/* ---- scheduler.c ---- */

/* Step function: wait until another stream has reached a position. */
enum step stream_wait_step(struct stream *stream, struct work *work,
                           const struct drive *drive);

/* Step @work directly, and enqueue it only if that step does not complete it.
 * Returns false if the caller must enqueue it, because other items are queued,
 * the queue is full, or another thread drives the stream.  May change @work. */
bool drive_first(struct stream *stream, struct work *work);

/* Drive @stream if no other thread does.  The caller must not have changed
 * anything that the stream might wait for, because a thread that is already
 * driving the stream would not notice the change. */
void stream_poll(struct stream *stream, const struct drive *drive);

/* Return true if another thread has taken over from this driver. */
bool drive_is_relieved(const struct drive *drive);

/* Keep other threads from driving @stream.  Returns false if another thread is
 * driving it. */
bool stream_hold(struct stream *stream);

/* Return the head item of @stream, or NULL.  Only for the thread that drives or
 * holds the stream. */
const struct work *stream_first(const struct stream *stream);

/* Undo stream_hold().  The caller must then call stream_settle(). */
void stream_release(struct stream *stream);

uint64_t stream_done(const struct stream *stream);

/* Check @stream for the poller.  If the number of finished items is still @done
 * and the head item is too much work for the poller, wake the worker. */
void stream_check_for_poller(struct stream *stream, uint64_t done);

/* ---- stream_worker.c ---- */

/* Make the worker drive @stream.  Returns false if the stream has no worker and
 * none can be started. */
bool worker_wake(struct stream *stream);

bool worker_has_begun(struct stream *stream);

/* Allow other threads to continue work that the worker was unable to do, unless
 * a timer is set for the worker. */
void worker_give_up(struct stream *stream);

/* Return the number of threads that the simulator has started.  A thread that
 * is just starting might not be counted yet. */
int stream_own_threads(void);

/* Add @change to the number of the simulator's threads.  A thread calls it with
 * 1 when it starts, and with -1 when it is about to end. */
void stream_count_thread(int change);

/* Time without work after which a thread of the simulator ends, so that it does
 * not keep a process alive after the process's own threads have ended.  The
 * thread is started again when it is needed. */
#define STREAM_THREAD_IDLE_NS (NS_PER_S / 2)

/* Register @stream with the poller (poller.c).  Returns false if the poller
 * cannot be started. */
bool poller_register(struct stream *stream);

#endif
