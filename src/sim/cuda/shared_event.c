/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What processes share of an event (see shared_event.h)
 *
 * The words are in memory of the process that has made the event, which goes on
 * using them for other events: another process may still have work queued that
 * stores there.
 */

#include "sim/cuda/shared_event.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "base/scoped_lock.h"
#include "sim/cuda/ipc_place.h"
#include "sim/cuda/memory_table.h"
#include "sim/exec/stream_queue.h"

#define MAGIC UINT64_C(0x43496576656e7431)

/* In how many streams recordings of one event may be on their way. */
#define LANE_BITS 5
#define LANES (1U << LANE_BITS)

/* A recording: its number above its lane. */
#define RECORDING(number, lane) ((number) << LANE_BITS | (lane))
#define NUMBER(recording) ((recording) >> LANE_BITS)
#define LANE(recording) ((recording) & (LANES - 1))

/* One word for each lane, with the number of the last recording that was begun
 * there.  While they differ, the lane is that recording's stream's. */
struct lane {
	/* Atomic; written by the taker of the lane, any process (acquire and
	 * release, with each other: what it finds done was begun before). */
	_Atomic uint64_t begun;

	/* Atomic; written by the lane's recording (release), read by those that
	 * wait and those that look for a lane (acquire). */
	_Atomic uint64_t done;
};

/* What the processes share.  Zeros at first. */
struct words {
	/* Atomic; written by the process whose memory it is: which of its
	 * events has the words, 0: none (release).  Read by those that open it
	 * (acquire). */
	_Atomic uint64_t id;

	/* Atomic; the number of the last recording that was begun, any process.
	 * Relaxed: a counter. */
	_Atomic uint64_t numbers;

	/* Atomic; the last recording, 0: none.  Written by those that record
	 * (release: its lane), read by those that wait or ask (acquire). */
	_Atomic uint64_t last;

	struct lane lanes[LANES];
};

/* What a handle holds.  Each byte counts. */
struct content {
	uint64_t magic;
	struct ipc_place place;
	uint64_t id;
};

_Static_assert(sizeof(struct content) <= sizeof(cudaIpcEventHandle_t),
               "it is a handle's content");

struct shared_event {
	/* Constant. */
	struct words *words;
	struct ipc_map map; /* of a foreign one */
	bool is_foreign;
	pid_t pid; /* that has created or opened it */

	/* Atomic; acquire and release: who gives back the last use sees what
	 * the others did. */
	atomic_int uses;

	/* Caller synchronizes: the last recording in this process and its
	 * stream, NULL: there is none, or another one is being queued. */
	const struct stream *stream;
	uint64_t recording;

	/* Guarded by lock. */
	struct shared_event *next_unused;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by lock: those of this process that no event has, also from before a
 * fork; and the id of the last event. */
static struct shared_event *unused;
static uint64_t last_id;

/* ---- making and giving back ------------------------------------------- */

static bool is_idle(const struct lane *l)
{
	const uint64_t begun = load_acquire(&l->begun);

	return load_acquire(&l->done) >= begun;
}

/* True if no recording is on its way, of a process that lives or has died. */
static bool is_quiet(const struct words *w)
{
	size_t i;

	for (i = 0; i < LANES; i++)
		if (!is_idle(&w->lanes[i]))
			return false;
	return true;
}

/* One that this process has made, and whose words nobody will store in; NULL:
 * there is none. */
static struct shared_event *reuse_locked(pid_t self)
{
	struct shared_event *e;

	list_find(e, unused, next_unused, e->pid == self && is_quiet(e->words));
	list_remove(unused, e, next_unused);
	return e;
}

static struct shared_event *make(pid_t self)
{
	struct shared_event *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->words = memory_share_more(sizeof(*e->words));
	e->pid = self;
	if (e->words)
		return e;
	free(e);
	return NULL;
}

struct shared_event *shared_event_create(void)
{
	const pid_t self = getpid();
	struct shared_event *e;
	uint64_t id;

	pthread_mutex_lock(&lock);
	e = reuse_locked(self);
	id = ++last_id;
	pthread_mutex_unlock(&lock);
	if (!e)
		e = make(self);
	if (!e)
		return NULL;
	e->stream = NULL;
	store_relaxed(&e->uses, 1);
	store_relaxed(&e->words->last, 0);
	store_release(&e->words->id, id);
	return e;
}

struct shared_event *shared_event_get(struct shared_event *e)
{
	/* Relaxed: the caller has a use already, or the lock under which there
	 * is one. */
	add_relaxed(&e->uses, 1);
	return e;
}

void shared_event_put(struct shared_event *e)
{
	if (atomic_fetch_sub_explicit(&e->uses, 1, memory_order_acq_rel) != 1)
		return;
	if (e->is_foreign) {
		ipc_unmap(&e->map);
		free(e);
		return;
	}
	SCOPED_LOCK(&lock);
	e->next_unused = unused;
	unused = e;
}

void shared_event_end(struct shared_event *e)
{
	/* The child of a fork may destroy what its parent goes on using. */
	if (!e->is_foreign && e->pid == getpid())
		store_release(&e->words->id, 0);
}

/* ---- handles ---------------------------------------------------------- */

bool shared_event_is_foreign(const struct shared_event *e)
{
	return e->is_foreign;
}

bool shared_event_give(const struct shared_event *e, cudaIpcEventHandle_t *out)
{
	struct content c = {
		.magic = MAGIC,
		.id = load_relaxed(&e->words->id),
	};

	if (!ipc_place_of(e->words, sizeof(*e->words), &c.place))
		return false;
	memset(out, 0, sizeof(*out));
	memcpy(out, &c, sizeof(c));
	return true;
}

static bool map(struct shared_event *e, const struct content *c)
{
	if (!ipc_map(&c->place, &e->map))
		return false;
	e->words = (struct words *)e->map.start;
	/* Acquire: the words that the event begins with. */
	if (load_acquire(&e->words->id) == c->id)
		return true;
	ipc_unmap(&e->map);
	return false;
}

cudaError_t shared_event_open(const cudaIpcEventHandle_t *handle,
                              struct shared_event **out)
{
	struct shared_event *e;
	struct content c;

	memcpy(&c, handle, sizeof(c));
	if (c.magic != MAGIC || !c.id ||
	    c.place.bytes != sizeof(struct words) ||
	    c.place.offset % _Alignof(struct words))
		return cudaErrorInvalidResourceHandle;
	/* As CUDA answers where the handle was made. */
	if (c.place.pid == getpid())
		return cudaErrorDeviceUninitialized;
	e = calloc(1, sizeof(*e));
	if (!e)
		return cudaErrorMemoryAllocation;
	if (!map(e, &c)) {
		free(e);
		return cudaErrorInvalidResourceHandle;
	}
	e->is_foreign = true;
	e->pid = getpid();
	store_relaxed(&e->uses, 1);
	*out = e;
	return cudaSuccess;
}

/* ---- recording -------------------------------------------------------- */

/* Begin recording @number in a lane where @begun was the last one; false if
 * another recording has begun there meanwhile. */
static bool take(struct lane *l, uint64_t begun, uint64_t number)
{
	return atomic_compare_exchange_strong_explicit(&l->begun, &begun,
	                                               number,
	                                               memory_order_acq_rel,
	                                               memory_order_relaxed);
}

/* Store a lane in which nothing is on its way, and nothing later than @number
 * was; false if there is none. */
static bool find_lane(struct words *w, uint64_t number, uint64_t *lane_out)
{
	struct lane *l;
	uint64_t begun, i;

	for (i = 0; i < LANES; i++) {
		l = &w->lanes[i];
		begun = load_acquire(&l->begun);
		if (begun < number && is_idle(l) && take(l, begun, number)) {
			*lane_out = i;
			return true;
		}
	}
	return false;
}

static enum step record_step(struct stream *s, struct work *work,
                             const struct drive *d)
{
	struct shared_event *e = work->shared.event;
	const uint64_t recording = work->shared.recording;

	(void)s;
	(void)d;
	/* Release: what the stream did before.  Pairs with
	 * shared_event_has(). */
	store_release(&e->words->lanes[LANE(recording)].done,
	              NUMBER(recording));
	shared_event_put(e);
	return STEP_DONE;
}

bool shared_event_record(struct shared_event *e, const struct stream *s,
                         struct work *out)
{
	struct words *w = e->words;
	const uint64_t number = 1 + add_relaxed(&w->numbers, 1);
	/* The stream's last recording is before this one. */
	const uint64_t before = e->stream == s ? e->recording : 0;
	uint64_t lane = LANE(before);

	if ((!before || !take(&w->lanes[lane], NUMBER(before), number)) &&
	    !find_lane(w, number, &lane))
		return false;
	/* Until the work is queued, nothing is known to come behind it. */
	e->stream = NULL;
	*out = (struct work){
		.step = record_step,
		.shared = { .event = shared_event_get(e),
		            .recording = RECORDING(number, lane) },
	};
	return true;
}

void shared_event_publish(struct shared_event *e, const struct stream *s,
                          uint64_t recording)
{
	_Atomic uint64_t *last = &e->words->last;
	uint64_t now = load_relaxed(last);

	e->stream = s;
	e->recording = recording;
	while (now < recording &&
	       !atomic_compare_exchange_weak_explicit(last, &now, recording,
	                                              memory_order_release,
	                                              memory_order_relaxed))
		;
}

/* ---- waiting ---------------------------------------------------------- */

uint64_t shared_event_last(const struct shared_event *e)
{
	return load_acquire(&e->words->last);
}

bool shared_event_has(const struct shared_event *e, uint64_t recording)
{
	return load_acquire(&e->words->lanes[LANE(recording)].done) >=
	       NUMBER(recording);
}

static enum step wait_step(struct stream *s, struct work *work,
                           const struct drive *d)
{
	struct shared_event *e = work->shared.event;

	(void)s;
	(void)d;
	/* The thread that records may be another process's, and kicks
	 * nobody. */
	if (!shared_event_has(e, work->shared.recording))
		return STEP_WATCH;
	shared_event_put(e);
	return STEP_DONE;
}

struct work shared_event_wait(struct shared_event *e, uint64_t recording)
{
	return (struct work){
		.step = wait_step,
		.shared = { .event = e, .recording = recording },
	};
}
