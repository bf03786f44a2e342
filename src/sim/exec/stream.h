/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIM_EXEC_STREAM_H
#define SIM_EXEC_STREAM_H

/*
 * Streams: queues of work that run in order, asynchronously to the caller
 *
 * A piece of work is a step function that either does it, or says what it
 * waits for; it never blocks.  Whoever needs a stream to go on *drives* it: the
 * thread that queued the work does what is cheap, a thread that waits for the
 * stream does the rest, and the stream's own thread does what nobody waits for
 * and what only it may do (host functions, delays).  Work that is blocked is
 * stepped again when what it waits for has happened: whoever makes it happen
 * *kicks* the stream, and drives the streams it has kicked before it returns
 * (stream_settle()).
 *
 * Guarantees
 *
 *  A. Work of one stream runs in the order queued, one at a time, and each sees
 *     what the work before it wrote.
 *  B. Every stream whose first work can run is being driven, has been kicked by
 *     a thread that will drive it, has woken its own thread, or has been noted by
 *     the poller, who looks every millisecond or so.
 *  C. A step function runs with no lock held.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "platform/platform.h"

struct captured;
struct event;
struct launch;
struct rows;
struct stream;
struct work;

/* What a step function answers. */
enum step {
	STEP_DONE,    /* done, go on with the next */
	STEP_BLOCKED, /* waits for something that will kick the stream */
	STEP_LATER,   /* takes more effort than this driver may make */
	STEP_LEFT,  /* the same, but is best left to who waits: see poller.h */
	STEP_WATCH, /* waits for something that only who looks again will see */
};

/* How far a driver may go. */
enum effort {
	EFFORT_ENQUEUE, /* what takes no longer than a call may take */
	EFFORT_HELP,    /* all but what is for the stream's own thread */
	EFFORT_OWN,     /* all: the stream's own thread */
};

/* A driver: how far it goes, and what it drives for.  It stops when that is
 * reached, and leaves the rest to the stream's own thread. */
struct drive {
	enum effort effort;
	uint64_t position;    /* of the stream */
	const uint32_t *word; /* NULL, or *word - value not below 0 */
	uint32_t value;
	uint64_t until_ns; /* checked now and then, also within work */
	bool attends;      /* looks again at once, but for the last time */
	bool stays;        /* comes again soon, and does what was flushed */
	const atomic_bool *stop; /* NULL, or set if somebody else stays */
};

typedef enum step (*step_fn)(struct stream *stream, struct work *work,
                             const struct drive *drive);

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
			int value;
		} set;
		struct {
			uint32_t *word;
			uint32_t value;
			unsigned int compare; /* for a wait */
		} mark;
		struct {
			struct rows *what;
			size_t done;
		} rows;
		struct {
			cudaHostFn_t fn;
			void *user;
		} host;
		struct {
			cudaStreamCallback_t fn;
			void *user;
			cudaStream_t handle;
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

/* What cudaStreamSetAttribute() sets. */
struct stream_attributes {
	struct cudaAccessPolicyWindow accessPolicyWindow;
	enum cudaSynchronizationPolicy syncPolicy;
	cudaLaunchMemSyncDomainMap memSyncDomainMap;
	cudaLaunchMemSyncDomain memSyncDomain;
	int priority;
};

struct stream {
	/* Constant while live; read by others under lock. */
	int device;
	uint64_t id;   /* another one each time it is created */
	bool blocking; /* synchronizes with the legacy default stream */
	bool legacy;   /* is the legacy default stream of its device */

	/* Atomic, seq_cst; the poller will look.  The rest is the poller's, and
	 * before that of who notes it. */
	atomic_bool is_noted;
	struct stream *next_noted;
	uint64_t noted_done;

	/* Atomic; its first work was left, more than a look can do.  Relaxed: it
	 * may be out of date. */
	atomic_bool is_left;

	/* Atomic; what it is in a capture, or NULL.  Written under the lock of
	 * captures; read without to know whether there is anything, relaxed. */
	struct captured *_Atomic captured;

	/* Atomic; false once destroyed.  Relaxed: only tells misuse. */
	atomic_bool live;

	/* What follows changes all the time, on a cache line of its own. */
	char pad[64];

	/* Positions: how many were queued and done since the stream was first
	 * made.  Written under lock, read by anyone; release and acquire, so
	 * that whoever sees work done sees its results. */
	_Atomic uint64_t queued;
	_Atomic uint64_t done;

	/* Atomic; its first work waits in a list for a kick, so that polling it
	 * is of no use.  Written under the lock of that list, read by pollers;
	 * relaxed: a hint, whoever kicks also drives. */
	atomic_bool blocked;

	/* Atomic; set by who kicks, cleared by who then drives. */
	atomic_bool kicked;
	struct stream *next_kicked; /* owned by who set kicked */

	/* Atomic, seq_cst; somebody is stepping the first work.  Who finds it so
	 * asks for another look and tries again, the driver looks for that when
	 * it has let go: so one of both looks. */
	atomic_bool busy;
	atomic_bool again;

	/* Atomic; work up to there is for its own thread as soon as it can be
	 * done.  Relaxed: who moves it then asks for a look. */
	_Atomic uint64_t flushed;

	/* Atomic; somebody stays who waits for it, and its own thread leaves what
	 * was flushed to that one.  Relaxed: a hint, to which the poller puts an
	 * end if it is out of date. */
	atomic_bool is_attended;

	/* Atomic; somebody who waits for it looks all the time, and so need not be told
	 * that something is over.  Relaxed: a hint, as above. */
	atomic_bool is_watched;

	/* Atomic; when somebody who waits last looked at what was flushed.  Relaxed:
	 * a number. */
	_Atomic uint64_t attended_ns;

	/* Atomic; only its own thread can go on.  Relaxed: whoever clears it
	 * asks for another look. */
	atomic_bool own_next;

	/* Guarded by lock. */
	pthread_mutex_t lock;
	bool parked;     /* in the list of those not in use */
	bool own_wanted; /* its own thread shall drive */
	bool own_started;
	uint64_t timer_ns;   /* when its own thread shall look again, or 0 */
	pthread_cond_t wake; /* own_wanted, or timer_ns has come */
	struct stream *followers; /* streams that wait for done to move */
	struct stream_attributes attributes;

	/* Atomic, seq_cst; there may be followers: set under lock before a
	 * last look at done, read after done was moved. */
	atomic_bool followed;

	/* Written under lock where queued is, read by the driver. */
	struct work ring[STREAM_SLOTS];

	/* Guarded by the lock of the stream, or of the list, it follows. */
	bool follows;
	struct stream *next_follower;

	/* Guarded by the table's lock. */
	struct stream *next;      /* of all */
	struct stream *next_free; /* of those not in use */
};

/* The legacy default stream of @device, or NULL without memory. */
struct stream *stream_legacy(int device);

/* A new stream, or NULL without memory; and give it back: it goes on until it
 * has nothing left to do. */
struct stream *stream_create(int device, bool blocking);
void stream_destroy(struct stream *stream);

/* The next stream of @device after @after (NULL: the first), or NULL; if asked
 * only those that synchronize with the legacy default stream.  Stores the position
 * behind what is queued on it: at once, as one that was destroyed may be another
 * device's next time it is looked at. */
struct stream *stream_next_of(struct stream *after, int device,
                              bool only_blocking, uint64_t *position_out);

/* As above, for the streams of all devices. */
struct stream *stream_next(struct stream *after, uint64_t *position_out);

/* Wait for all that is queued on the streams of @device now; if asked only those
 * that synchronize with the legacy default stream. */
void stream_wait_device(int device, bool only_blocking);

/*
 * Queue work at the end of @stream and do what is cheap.  Blocks only while
 * the stream is full.  Stores the position behind it: it is done when
 * stream_is_done() says so of that.
 */
void stream_push(struct stream *stream, const struct work *work,
                 uint64_t *position_out);

/* The same of work whose step would not have to be kicked, which so is not queued at
 * all if it can be done at once. */
void stream_push_begun(struct stream *stream, struct work *work);

/* True if nothing is left to do before what would be queued now (acquire: what it
 * did). */
bool stream_is_idle(const struct stream *stream);

/* Do what is cheap of @stream, after queueing with stream_push_wait(). */
void stream_go(struct stream *stream);

/* True if the first @position pieces of work are done (acquire). */
bool stream_is_done(const struct stream *stream, uint64_t position);

/* Help @stream until @position is done. */
void stream_wait(struct stream *stream, uint64_t position);

/* Queue on @stream a wait for @position of @on. */
void stream_push_wait(struct stream *stream, struct stream *on,
                      uint64_t position);

/* Do what can be done of @stream now.  No lock may be held. */
void stream_drive(struct stream *stream, const struct drive *drive);

/* True if the time of a driver is over, or another takes over. */
bool drive_is_late(const struct drive *drive);

/*
 * Lists of streams whose first work waits for the same thing, for step
 * functions: called with the lock held that guards the list and what is waited
 * for.  A step function that goes on must leave the list it was in.
 */
void stream_follow_locked(struct stream **list, struct stream *stream);
void stream_unfollow_locked(struct stream **list, struct stream *stream);
void stream_kick_all_locked(struct stream **list);

/* Note that the first work of @stream may go on.  Takes no lock. */
void stream_kick(struct stream *stream);

/* True if that would only be in the way of who looks already. */
static inline bool stream_is_watched(const struct stream *stream)
{
	return atomic_load_explicit(&stream->is_watched, memory_order_relaxed);
}

/* For who asks for @position of @stream: do what can be done for that now, if
 * anything can.  No lock may be held. */
void stream_help(struct stream *stream, uint64_t position);

/* For who waits: the same for a few microseconds or until there is what @drive is
 * for.  Such a thread comes again until it has that, or drives without much effort
 * before it gives up. */
void stream_attend(struct stream *stream, const struct drive *drive);

/* Of who waits and gives up: what was flushed is its own thread's again. */
void stream_leave(struct stream *stream);

/* Have its own thread do what is queued on @stream, unless who waits does, as soon as
 * it can be done: may make a system call.  And whether its first work is such. */
void stream_go_by_itself(struct stream *stream);
bool stream_is_flushed(const struct stream *stream);

/* So many more worlds have more ranks than there are cores. */
void stream_crowd(int change);

/* Drive the streams that this thread has kicked, without much effort.  No lock
 * may be held. */
void stream_settle(void);

/* From a step function: step again at @when_ns on the stream's own thread. */
enum step stream_timer(struct stream *stream, uint64_t when_ns,
                       const struct drive *drive);

#endif
