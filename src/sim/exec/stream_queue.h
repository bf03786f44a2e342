/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_STREAM_QUEUE_H
#define SIM_EXEC_STREAM_QUEUE_H

/*
 * Streams: queues of work that run in order, asynchronously to the caller
 *
 * Each work item has a step function.  A step never blocks: it either completes
 * the item or returns what the item waits for.  A thread that needs a stream to
 * make progress *drives* it: it *steps* the item at the head of the queue, that
 * is, it calls the item's step function.  The thread that enqueues an item
 * drives the stream if the item is cheap.  A thread that waits for the stream
 * does all other items.  The stream's worker thread (stream_worker.c) does
 * items that no thread waits for, and items that only a worker may do (host
 * functions, delays).  A blocked item is stepped again after the event that it
 * waits for: the thread that causes the event *kicks* the stream, and before it
 * returns drives all streams that it has kicked (stream_settle()).
 *
 * Guarantees
 *
 *  A.  Items of a stream run in the order queued, one at a time, and each sees
 *      what the items before it wrote.
 *  B.  A stream whose head item can run is being driven, or was kicked by a
 *      thread that will drive it, or its worker was woken, or it is registered
 *      with the poller, which checks it every 1 to 8 ms.
 *  C.  A step function is called with no lock held.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"

struct captured;
struct event;
struct launch;
struct rows;
struct stream;
struct work;

/* Result of a step function. */
enum step {
	STEP_DONE,    /* done; continue with the next item */
	STEP_BLOCKED, /* waits for an event that will kick the stream */
	/* needs more work than the driving thread may do (enum effort) */
	STEP_LATER,
	/* Like STEP_LATER, but leaves the item to a thread that waits for the
	 * stream, not to the worker (poller.c). */
	STEP_LEFT,
	/* Waits for an event that kicks no stream, so the poller must step the
	 * item again. */
	STEP_WATCH,
};

/* The amount of work that a driver may do. */
enum effort {
	/* Only items that are short enough for a call that enqueues work. */
	EFFORT_ENQUEUE,
	EFFORT_HELP, /* all items except those reserved for the worker */
	EFFORT_OWN,  /* all items, because the driver is the worker */
};

/* Limits of a driver: how much work it may do, and when it stops.  Once one of
 * the conditions below is true, it does only cheap items, and leaves the rest
 * to other threads. */
struct drive {
	enum effort effort;
	uint64_t position; /* stop once this many items are done */
	/* Stop once *word has reached value, compared modulo 2^32.  NULL if
	 * there is no word to watch. */
	const uint32_t *word;
	uint32_t value;
	/* Stop at this time, which is also checked within long items. */
	uint64_t until_ns;
	/* True while the driver polls, which means that it will step the stream
	 * again immediately. */
	bool attends;
	/* True if the thread will drive the stream again soon, and therefore
	 * does flushed items itself. */
	bool stays;
	/* Points to a flag that is set once another thread takes over.  NULL if
	 * no thread can take over. */
	const atomic_bool *stop;
};

typedef enum step (*step_fn)(struct stream *stream, struct work *work,
                             const struct drive *drive);

/* A work item: its step function, and the function's arguments.  The layer that
 * enqueues an item fills it in; the code in this folder reads only the members
 * wait, mark and launch. */
struct work {
	step_fn step;
	union {
		struct {
			void *dst;
			const void *src;
			size_t bytes;
		} copy;
		struct {
			void *memory;
			size_t bytes;
			uint32_t value;    /* value of each element */
			unsigned int size; /* bytes in an element */
		} set;
		struct {
			void *word;
			uint64_t value;
			unsigned int bits;    /* size of the word: 32 or 64 */
			unsigned int compare; /* for waits, an enum compare */
		} mark;
		struct {
			struct rows *what;
			size_t done;
		} rows;
		struct {
			void (*fn)(void *user);
			void *user;
		} host;
		struct {
			/* The step function casts it to the function's real
			 * type. */
			void (*fn)(void);
			void *user;
			void *handle;
		} callback;
		struct {
			struct stream *on;
			uint64_t position;
		} wait;
		struct {
			struct event *event;
			uint64_t version;
		} record;
		struct launch *launch;
	};
};

#define STREAM_SLOTS 1024

/*
 * One stream
 *
 * Members are grouped by the threads that write them.  "The driver" is the
 * thread that has set busy.
 */
struct stream {
	/* Written under lock by the thread that creates the stream, then
	 * constant while the stream is live.  Other threads read them under
	 * lock. */
	int device;
	int priority;  /* 0 unless set; has no effect */
	uint64_t id;   /* A new number each time the stream is created. */
	bool blocking; /* synchronizes with the legacy default stream */
	bool legacy;   /* the legacy default stream of its device */

	/* Registration with the poller.  Written by the thread that sets
	 * is_registered, then owned by the poller.  While is_registered
	 * (atomic, seq_cst) is true, the poller will check the stream. */
	atomic_bool is_registered;
	struct stream *next_registered;
	uint64_t noted_done;

	/* Atomic; written by the driver; true if the head item was left undone
	 * because it is too much work for the poller.  Relaxed, because an
	 * outdated value does no harm. */
	atomic_bool is_left;

	/* Atomic; the stream's state in a capture, or NULL if it is in none.
	 * Written under the lock of captures.  Relaxed loads without this lock
	 * may only test it for NULL. */
	struct captured *_Atomic captured;

	/* Atomic; true from the stream's creation until it is destroyed.
	 * Written by the threads that create and destroy the stream. */
	atomic_bool live;

	/* Keep the members below, which change often, on a cache line of their
	 * own. */
	char pad[64];

	/* ---- written by the threads that enqueue, under lock ---- */

	/* Atomic; number of items queued since the stream's memory was
	 * allocated.  Stored with release; any thread may load it without the
	 * lock (acquire). */
	_Atomic uint64_t queued;

	/* ---- written by the driver ---- */

	/* Atomic; number of items done.  Stored with release and loaded with
	 * acquire, so that a thread that sees an item done also sees its
	 * results. */
	_Atomic uint64_t done;

	/* Atomic; true if the stream is in a list of streams that an event will
	 * kick, so that polling it is useless.  Written by the driver and,
	 * under the list's lock, by a thread that removes the stream from the
	 * list.  Relaxed, because it is only a hint to pollers: a thread that
	 * kicks a stream also drives it. */
	atomic_bool blocked;

	/* ---- written by any thread ---- */

	/* Atomic; set by the thread that kicks the stream, and cleared by the
	 * same thread before it drives the stream. */
	atomic_bool kicked;
	struct stream *next_kicked; /* owned by the thread that set kicked */

	/* Atomic, seq_cst; busy is true while a thread steps the head item.  If
	 * another thread finds that busy is already set, it sets retry, and
	 * then tries once more.  The driver checks retry after it has cleared
	 * busy, so one of the two threads steps the item. */
	atomic_bool busy;
	atomic_bool retry;

	/* Atomic; number of flushed items, which the worker does as soon as
	 * they can run.  Relaxed, because a thread that increases it then
	 * drives the stream. */
	_Atomic uint64_t flushed;

	/* Atomic; true if a waiting thread keeps polling the stream, so that
	 * the worker leaves the flushed items to that thread.  Relaxed, because
	 * it is only a hint, which the poller resets if it is outdated. */
	atomic_bool is_attended;

	/* Atomic; true while a waiting thread is polling the stream and needs
	 * no kick.  Relaxed, because it is only a hint. */
	atomic_bool is_watched;

	/* Atomic; time at which a waiting thread last checked the flushed
	 * items.  Relaxed, because it orders nothing. */
	_Atomic uint64_t attended_ns;

	/* Atomic; true if only the worker can do the head item.  Relaxed,
	 * because a thread that clears it then checks the stream again. */
	atomic_bool own_next;

	/* ---- guarded by lock ---- */

	pthread_mutex_t lock;
	bool parked;     /* the stream is in the list of unused streams */
	bool own_wanted; /* True if the worker should drive the stream. */
	bool own_started;
	/* time at which the worker steps again, or 0 */
	uint64_t timer_ns;
	pthread_cond_t wake; /* signaled after own_wanted is set */
	/* Streams that wait until the member done reaches a position. */
	struct stream *followers;

	/* Atomic, seq_cst; false only if the list of followers is empty.  Set
	 * under lock before a follower checks the member done for the last
	 * time, and read by the driver after it has advanced done. */
	atomic_bool followed;

	/* Written under lock by the threads that enqueue.  The driver reads and
	 * changes the head item. */
	struct work ring[STREAM_SLOTS];

	/* True if the stream is in a list of followers, because it waits.
	 * Guarded by the lock of the list. */
	bool follows;
	struct stream *next_follower;

	/* Guarded by the lock of the table of streams. */
	struct stream *next;      /* next stream in the list of all streams */
	struct stream *next_free; /* next in the list of unused streams */
};

/* ---- creating and listing streams (stream_queue.c) ---- */

/* Return the legacy default stream of @device, or NULL if out of memory. */
struct stream *stream_legacy(int device);

/* Create a stream.  Returns NULL if out of memory. */
struct stream *stream_create(int device, bool blocking);

/* Destroy @stream.  Its queued work still runs, and its memory is reused
 * later. */
void stream_destroy(struct stream *stream);

/*
 * stream_next_of - return the stream of @device that follows @after
 * @after:         NULL to start with the first stream
 * @only_blocking: skip streams that do not synchronize with the legacy default
 *                 stream
 * @position_out:  set to the position after the last item queued
 *
 * Returns NULL after the last stream.  Device and position are read under one
 * lock, because a destroyed stream might be reused for another device.
 */
struct stream *stream_next_of(struct stream *after, int device,
                              bool only_blocking, uint64_t *position_out);

/* Like stream_next_of(), but return the next stream of any device and kind. */
struct stream *stream_next(struct stream *after, uint64_t *position_out);

/* Return true if an item that is queued now could run immediately.  The acquire
 * makes the results of all earlier work visible to the caller. */
bool stream_is_idle(const struct stream *stream);

/* Return true if the first @position items are done.  The acquire makes their
 * results visible to the caller. */
bool stream_is_done(const struct stream *stream, uint64_t position);

/* Add @change to the number of worlds with more ranks than the machine has
 * cores. */
void stream_crowd(int change);

/* ---- enqueueing and waiting (stream_submit.c) ---- */

/*
 * Enqueue @work on @stream, and do it immediately if it is cheap and can run.
 * Blocks only while the stream is full.  If @position_out is not NULL, it is
 * set to the position to pass to stream_is_done() or stream_wait().
 */
void stream_push(struct stream *stream, const struct work *work,
                 uint64_t *position_out);

/* Enqueue @work as stream_push() does, but bypass the queue if the work can be
 * done immediately.  The first step of @work must not wait for a kick. */
void stream_push_begun(struct stream *stream, struct work *work);

/* Make @stream wait until the first @position items of @on are done.  The
 * caller must call stream_drive_cheap() afterwards. */
void stream_push_wait(struct stream *stream, struct stream *on,
                      uint64_t position);

/* Wait until the first @position items of @stream are done, and help to do
 * them. */
void stream_wait(struct stream *stream, uint64_t position);

/* Wait for all work now queued on the streams of @device.  If @only_blocking,
 * skip streams that do not synchronize with the legacy default stream. */
void stream_wait_device(int device, bool only_blocking);

/* ---- kicks (scheduler.c) ---- */

/* Add @stream to a list of streams that are kicked when the condition they wait
 * for might be true.  Called by step functions, while they hold the lock that
 * guards both the list and the condition. */
void stream_follow_locked(struct stream **list, struct stream *stream);

/* Remove @stream from @list.  A step function must call this once its stream no
 * longer waits. */
void stream_unfollow_locked(struct stream **list, struct stream *stream);

/* Empty @list and kick all streams that were in it. */
void stream_kick_all_locked(struct stream **list);

/* Mark @stream as runnable.  The caller must call stream_settle() once it holds
 * no lock.  Takes no lock. */
void stream_kick(struct stream *stream);

/* Return true if a kick would only disturb a waiting thread that is polling the
 * stream anyway. */
static inline bool stream_is_watched(const struct stream *stream)
{
	return load_relaxed(&stream->is_watched);
}

/* ---- driving (scheduler.c); the caller must hold no lock ---- */

/* Do all work of @stream that @drive allows and that need not wait. */
void stream_drive(struct stream *stream, const struct drive *drive);

/* Return true if the driver's time limit has passed or another thread has taken
 * over. */
bool drive_is_late(const struct drive *drive);

/* Do the cheap work of @stream, and then of all streams that were kicked by
 * that work. */
void stream_drive_cheap(struct stream *stream);

/* Do the cheap work of all streams that the calling thread has kicked. */
void stream_settle(void);

/* Do as much as is possible now of the first @position items of @stream.  The
 * caller then checks whether they are done. */
void stream_help(struct stream *stream, uint64_t position);

/* Poll @stream for a few microseconds, or until @drive says to stop.  A waiting
 * thread calls this until the condition it waits for is true.  A thread that
 * stops waiting earlier must call stream_leave() and then drive with
 * EFFORT_ENQUEUE. */
void stream_poll_for_waiter(struct stream *stream, const struct drive *drive);

/* Return the flushed work of @stream to the worker.  Called by a thread that
 * stops waiting. */
void stream_leave(struct stream *stream);

/* Flush @stream: the worker does the queued work as soon as it can run, unless
 * a waiting thread does the work.  May make a system call. */
void stream_flush_to_worker(struct stream *stream);

/* Return true if the head item was flushed. */
bool stream_is_flushed(const struct stream *stream);

/* Make the worker step the item again at @when_ns (stream_worker.c).  The
 * calling step function must return the result. */
enum step stream_timer(struct stream *stream, uint64_t when_ns,
                       const struct drive *drive);

#endif
