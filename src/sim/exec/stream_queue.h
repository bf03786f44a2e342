/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_STREAM_QUEUE_H
#define SIM_EXEC_STREAM_QUEUE_H

/*
 * Streams: queues of work that run in order, asynchronously to the caller
 *
 * Work has a step function, which either does the work or says what it waits
 * for; it never blocks.  A thread that needs a stream to go on *drives* it,
 * that is, steps its first work.  The thread that queues work does what is
 * cheap; a thread that waits for the stream does the rest; and the stream's own
 * thread, its worker (stream_worker.c), does what no thread waits for, and what
 * only it may do (host functions, delays).  Work that is blocked is stepped
 * again when what it waits for has happened: the thread that makes it happen
 * *kicks* the stream, and drives the streams it has kicked before it returns
 * (stream_settle()).
 *
 * Guarantees
 *
 *  A.  Work of one stream runs in the order queued, one piece at a time, and
 *     each piece sees what the work before it wrote.
 *  B.  Every stream whose first work can run is being driven, has been kicked
 *     by a thread that will drive it, has woken its own thread, or has been
 *     noted by the poller, which looks about once a millisecond.
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
struct shared_event;
struct stream;
struct work;

/* What a step function answers. */
enum step {
	STEP_DONE,    /* done, go on with the next */
	STEP_BLOCKED, /* waits for something that will kick the stream */
	STEP_LATER,   /* takes more effort than this driver may make */
	/* As STEP_LATER, but is best left to a thread that waits: poller.h. */
	STEP_LEFT,
	/* Waits for something that nobody will kick the stream for. */
	STEP_WATCH,
};

/* How much a driver may do. */
enum effort {
	/* What takes no longer than a call that queues may take. */
	EFFORT_ENQUEUE,
	EFFORT_HELP, /* all but what is for the stream's own thread */
	EFFORT_OWN,  /* all: the driver is the stream's own thread */
};

/* A driver: how much it may do, and what it drives for.  It stops when it has
 * that, and leaves the rest to the stream's own thread. */
struct drive {
	enum effort effort;
	uint64_t position; /* of the stream: until so much is done, */
	/* Or *word - value is not below 0 (NULL: no word), */
	const uint32_t *word;
	uint32_t value;
	/* Or this time, checked now and then, also within work. */
	uint64_t until_ns;
	bool attends; /* looks again at once, but for the last time */
	bool stays;   /* comes again soon, and does what was flushed */
	/* NULL, or set once another thread takes over. */
	const atomic_bool *stop;
};

typedef enum step (*step_fn)(struct stream *stream, struct work *work,
                             const struct drive *drive);

/* A piece of work: its step, and what that works on.  The floors that queue it
 * fill it in; exec itself reads only wait, the marks and launch. */
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
			uint32_t value; /* of elements of so many bytes: */
			unsigned int size;
		} set;
		struct {
			uint32_t *word;
			uint32_t value;
			unsigned int compare; /* for a wait */
		} mark;
		struct {
			uint64_t *word;
			uint64_t value;
			unsigned int compare; /* for a wait */
		} wide_mark;
		struct {
			struct rows *what;
			size_t done;
		} rows;
		struct {
			void (*fn)(void *user);
			void *user;
		} host;
		struct {
			void (*fn)(void); /* of the type that its step knows */
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
		struct {
			struct shared_event *event;
			uint64_t recording;
		} shared;
		struct launch *launch;
	};
};

#define STREAM_SLOTS 1024

/* Room for what the floor above keeps of a stream. */
#define STREAM_ATTRIBUTES 64

/*
 * One stream
 *
 * Its members are parted by who writes them. "The driver" is the thread that
 * has set busy.
 */
struct stream {
	/* Written under lock by the thread that creates the stream, constant
	 * while it is live; read by others under lock. */
	int device;
	uint64_t id;   /* another one each time it is created */
	bool blocking; /* synchronizes with the legacy default stream */
	bool legacy;   /* is the legacy default stream of its device */

	/* Written by the thread that sets is_noted, and from then on by the
	 * poller, which reads them.  is_noted: atomic, seq_cst; the poller will
	 * look. */
	atomic_bool is_noted;
	struct stream *next_noted;
	uint64_t noted_done;

	/* Atomic; written by the driver: its first work was left, as it is more
	 * than a look can do.  Relaxed: readers, any thread, may find it out of
	 * date. */
	atomic_bool is_left;

	/* Atomic; written under the lock of captures: what it is in a capture,
	 * or NULL.  Read without the lock to know whether there is anything,
	 * relaxed. */
	struct captured *_Atomic captured;

	/* Atomic; written by the threads that create and destroy it: false once
	 * it is destroyed. */
	atomic_bool live;

	/* What follows changes all the time, on a cache line of its own. */
	char pad[64];

	/* ---- written by the threads that queue, under lock ---- */

	/* Atomic; how many pieces of work were queued since the stream was
	 * first made.  Release; any thread reads it without the lock
	 * (acquire). */
	_Atomic uint64_t queued;

	/* ---- written by the driver ---- */

	/* Atomic; how many were done.  Release, and acquire where any thread
	 * reads it, so that a thread that sees work done sees its results. */
	_Atomic uint64_t done;

	/* Atomic; its first work waits in a list for a kick, so that polling it
	 * is of no use.  Also written by threads that take it from the list,
	 * under the list's lock.  Relaxed: a hint for pollers; a thread that
	 * kicks also drives. */
	atomic_bool blocked;

	/* ---- written by any thread ---- */

	/* Atomic; set by a thread that kicks, cleared by that thread when it
	 * drives. */
	atomic_bool kicked;
	struct stream *next_kicked; /* owned by the thread that set kicked */

	/* Atomic, seq_cst; some thread is stepping the first work.  A thread
	 * that finds it set sets again and tries once more; the driver looks at
	 * again when it has let go: so one of the two looks. */
	atomic_bool busy;
	atomic_bool again;

	/* Atomic; work up to there was flushed: its own thread does it as soon
	 * as it can be done.  Relaxed: a thread that moves it then asks for a
	 * look. */
	_Atomic uint64_t flushed;

	/* Atomic; a thread that waits for the stream stays, and the stream's
	 * own thread leaves to that one what was flushed.  Relaxed: a hint,
	 * which the poller resets if it is out of date. */
	atomic_bool is_attended;

	/* Atomic; a thread that waits for the stream looks all the time, and
	 * need not be told that something is over.  Relaxed: a hint, as
	 * is_attended. */
	atomic_bool is_watched;

	/* Atomic; when a thread that waits last looked at what was flushed.
	 * Relaxed: a number. */
	_Atomic uint64_t attended_ns;

	/* Atomic; only the stream's own thread can go on.  Relaxed: a thread
	 * that clears it asks for another look. */
	atomic_bool own_next;

	/* ---- guarded by lock ---- */

	pthread_mutex_t lock;
	bool parked;     /* in the list of streams that are not in use */
	bool own_wanted; /* its own thread shall drive */
	bool own_started;
	uint64_t timer_ns;   /* when its own thread shall look again, or 0 */
	pthread_cond_t wake; /* own_wanted is set, or timer_ns has come */
	struct stream *followers; /* streams that wait for done to move */
	/* The floor above keeps its attributes of the stream here, and alone
	 * reads them.  A new stream has zeros. */
	_Alignas(16) unsigned char attributes[STREAM_ATTRIBUTES];

	/* Atomic, seq_cst; there may be followers: set under lock before a
	 * last look at done, read by the driver after it has moved done. */
	atomic_bool followed;

	/* Written by the threads that queue, under lock; the driver reads the
	 * first work, and changes it. */
	struct work ring[STREAM_SLOTS];

	/* Guarded by the lock of the stream, or of the list, that it
	 * follows. */
	bool follows;
	struct stream *next_follower;

	/* Guarded by the lock of the table of streams. */
	struct stream *next;      /* of all */
	struct stream *next_free; /* of those not in use */
};

/* ---- which streams there are (stream_queue.c) ---- */

/* The legacy default stream of @device, or NULL without memory. */
struct stream *stream_legacy(int device);

/* A new stream, or NULL without memory; and destroy it: it goes on until
 * nothing is left to do, and then may be created anew. */
struct stream *stream_create(int device, bool blocking);
void stream_destroy(struct stream *stream);

/* The next stream of @device after @after (NULL: the first), or NULL; with
 * @only_blocking only those that synchronize with the legacy default stream.
 * Stores the position behind what is queued on it: in the same look, as a
 * stream that was destroyed may be another device's at the next one. */
struct stream *stream_next_of(struct stream *after, int device,
                              bool only_blocking, uint64_t *position_out);

/* The next stream of any device, as stream_next_of(). */
struct stream *stream_next(struct stream *after, uint64_t *position_out);

/* True if nothing is left to do before what would be queued now (acquire: what
 * that work did). */
bool stream_is_idle(const struct stream *stream);

/* True if the first @position pieces of work are done (acquire). */
bool stream_is_done(const struct stream *stream, uint64_t position);

/* Count @change more worlds that have more ranks than there are cores. */
void stream_crowd(int change);

/* ---- queueing and waiting (stream_submit.c) ---- */

/*
 * Queue work at the end of @stream and do what is cheap.  Blocks only while
 * the stream is full.  Stores the position behind the work: it is done when
 * stream_is_done() says so of that position.
 */
void stream_push(struct stream *stream, const struct work *work,
                 uint64_t *position_out);

/* As stream_push(), for work whose first step does not wait for a kick: if it
 * can be done at once it is not queued at all. */
void stream_push_begun(struct stream *stream, struct work *work);

/* Queue on @stream a wait for @position of @on.  stream_go() is still to be
 * called. */
void stream_push_wait(struct stream *stream, struct stream *on,
                      uint64_t position);

/* Help @stream until @position is done. */
void stream_wait(struct stream *stream, uint64_t position);

/* Wait for all that is queued on the streams of @device now; with
 * @only_blocking only on those that synchronize with the legacy default
 * stream. */
void stream_wait_device(int device, bool only_blocking);

/* ---- kicks (scheduler.c) ---- */

/*
 * Lists of streams whose first work waits for one thing, for step functions:
 * called with the lock held that guards the list and what is waited for.  A
 * step function that goes on must take its stream from the list that it put it
 * in.
 */
void stream_follow_locked(struct stream **list, struct stream *stream);
void stream_unfollow_locked(struct stream **list, struct stream *stream);
void stream_kick_all_locked(struct stream **list);

/* Note that the first work of @stream may go on.  Takes no lock. */
void stream_kick(struct stream *stream);

/* True if a kick would only be in the way of a thread that looks already. */
static inline bool stream_is_watched(const struct stream *stream)
{
	return load_relaxed(&stream->is_watched);
}

/* ---- driving (scheduler.c); no lock may be held ---- */

/* Do what @drive may do of @stream now. */
void stream_drive(struct stream *stream, const struct drive *drive);

/* True if the time of a driver is over, or another thread takes over. */
bool drive_is_late(const struct drive *drive);

/* Do what is cheap of @stream, and drive the streams that this has kicked. */
void stream_go(struct stream *stream);

/* Drive the streams that this thread has kicked, as far as it is cheap. */
void stream_settle(void);

/* For a thread that asks for @position of @stream: do what can be done for that
 * now, if anything can. */
void stream_help(struct stream *stream, uint64_t position);

/* For a thread that waits: as stream_help(), for a few microseconds or until
 * there is what @drive is for.  The thread comes again until it has that, or
 * calls stream_leave() and drives with EFFORT_ENQUEUE before it gives up. */
void stream_attend(struct stream *stream, const struct drive *drive);

/* For a thread that gives up waiting: what was flushed is the stream's own
 * thread's again. */
void stream_leave(struct stream *stream);

/* Flush @stream: have its own thread do what is queued on it as soon as it can
 * be done, unless a thread that waits does; may make a system call.  And true
 * if its first work was flushed. */
void stream_go_by_itself(struct stream *stream);
bool stream_is_flushed(const struct stream *stream);

/* From a step function: step again at @when_ns on the stream's own thread
 * (stream_worker.c). */
enum step stream_timer(struct stream *stream, uint64_t when_ns,
                       const struct drive *drive);

#endif
