/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Which streams there are, and what is queued on them
 *
 * The memory of a stream is never freed: a destroyed stream is kept for the
 * next one to be created, and its positions go on counting.  So a handle, or a
 * position of a stream, may be looked at after the stream was destroyed.  A
 * thread that completes another thread's operation does that all the time.
 *
 * Locks: the table's, then a stream's own.  Step functions acquire the locks of
 * what they work on; none is held while a step function is called.
 */

#include "sim/exec/scheduler.h"

#include <stdlib.h>
#include <string.h>

#include <cohort/sim.h>

#include "base/scoped_lock.h"
#include "base/thread.h"
#include "sim/strict/census.h"

/* ---- all streams ------------------------------------------------------ */

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by table_lock; the list of all only grows. */
static struct stream *all;
static struct stream *unused;
static uint64_t created; /* how many, ever */

/* Atomic; each set once under table_lock (release), read by anyone. */
static struct stream *_Atomic legacy[COHORT_SIM_MAX_DEVICES];

/* Atomic; how many streams of each device its legacy default stream waits for.
 * Acquire and release: a thread that sees none sees what those streams did that
 * there were. */
static atomic_int blocking_streams[COHORT_SIM_MAX_DEVICES];

static void count_blocking(const struct stream *s, int change)
{
	if (s->blocking && !s->legacy)
		atomic_fetch_add_explicit(&blocking_streams[s->device], change,
		                          memory_order_acq_rel);
}

bool stream_has_blocking(int device)
{
	return load_acquire(&blocking_streams[device]);
}

static void stream_init(struct stream *s)
{
	pthread_condattr_t attr;

	lock_init(&s->lock);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->wake, &attr);
	pthread_condattr_destroy(&attr);
}

/* Called with table_lock held. */
static struct stream *stream_create_locked(int device, bool blocking,
                                           bool is_legacy)
{
	struct stream *s = unused;

	if (s) {
		unused = s->next_free;
	} else {
		s = calloc(1, sizeof(*s));
		if (!s)
			return NULL;
		stream_init(s);
		s->next = all;
		all = s;
	}
	pthread_mutex_lock(&s->lock);
	s->device = device;
	s->id = ++created;
	s->blocking = blocking;
	s->legacy = is_legacy;
	memset(s->attributes, 0, sizeof(s->attributes));
	s->parked = false;
	store_relaxed(&s->live, true);
	pthread_mutex_unlock(&s->lock);
	count_blocking(s, 1);
	return s;
}

/* True, and only once, if a stream was destroyed and has nothing left to do. */
static bool stream_is_over(struct stream *s)
{
	SCOPED_LOCK(&s->lock);
	if (s->parked || atomic_load(&s->live) || atomic_load(&s->busy) ||
	    s->done != s->queued)
		return false;
	s->parked = true;
	return true;
}

void stream_park(struct stream *s)
{
	if (!stream_is_over(s))
		return;
	count_blocking(s, -1);
	SCOPED_LOCK(&table_lock);
	s->next_free = unused;
	unused = s;
}

struct stream *stream_legacy(int device)
{
	/* Acquire: the stream's fields.  Pairs with the release below. */
	struct stream *s = load_acquire(&legacy[device]);

	if (s)
		return s;
	SCOPED_LOCK(&table_lock);
	s = load_relaxed(&legacy[device]);
	if (!s)
		s = stream_create_locked(device, true, true);
	store_release(&legacy[device], s);
	return s;
}

struct stream *stream_legacy_if_any(int device)
{
	return load_acquire(&legacy[device]);
}

struct stream *stream_create(int device, bool blocking)
{
	SCOPED_LOCK(&table_lock);
	return stream_create_locked(device, blocking, false);
}

void stream_destroy(struct stream *s)
{
	/* seq_cst: either this thread sees that it is busy, or its driver sees,
	 * once it has let go, that it is not live. */
	atomic_store(&s->live, false);
	stream_park(s);
}

/* The newest stream; the list behind it never changes. */
static struct stream *newest(void)
{
	SCOPED_LOCK(&table_lock);
	return all;
}

struct stream *stream_next_of(struct stream *after, int device,
                              bool only_blocking, uint64_t *position_out)
{
	struct stream *s = after ? after->next : newest();
	bool found = false;

	for (; s; s = s->next) {
		pthread_mutex_lock(&s->lock);
		found = s->device == device && (s->blocking || !only_blocking);
		*position_out = atomic_load(&s->queued);
		pthread_mutex_unlock(&s->lock);
		if (found)
			break;
	}
	return s;
}

struct stream *stream_next(struct stream *after, uint64_t *position_out)
{
	struct stream *s = after ? after->next : newest();

	/* Acquire: what was launched before by the thread that told this one to
	 * wait. */
	if (s)
		*position_out = load_acquire(&s->queued);
	return s;
}

size_t stream_live(void)
{
	struct stream *s;
	size_t n = 0;

	for (s = newest(); s; s = s->next) {
		pthread_mutex_lock(&s->lock);
		n += !s->legacy && load_relaxed(&s->live);
		pthread_mutex_unlock(&s->lock);
	}
	return n;
}

/* ---- what is queued --------------------------------------------------- */

bool stream_is_done(const struct stream *s, uint64_t position)
{
	/* Acquire: the results of the work.  Pairs with the release in
	 * stream_drive(). */
	return load_acquire(&s->done) >= position;
}

bool stream_is_idle(const struct stream *s)
{
	const struct stream *l = NULL;

	if (!stream_is_done(s, load_relaxed(&s->queued)) ||
	    (s->legacy && stream_has_blocking(s->device)))
		return false;
	if (s->blocking && !s->legacy)
		l = stream_legacy_if_any(s->device);
	return !l || stream_is_done(l, atomic_load(&l->queued));
}

bool stream_put(struct stream *s, const struct work *work,
                uint64_t *position_out)
{
	SCOPED_LOCK(&s->lock);
	if (s->queued - s->done == STREAM_SLOTS) {
		*position_out = s->done + 1;
		return false;
	}
	s->ring[s->queued % STREAM_SLOTS] = *work;
	*position_out = s->queued + 1;
	/* seq_cst: then look whether it is noted.  Release for threads that
	 * look at positions without the lock. */
	atomic_store(&s->queued, *position_out);
	return true;
}

/* ---- crowds ----------------------------------------------------------- */

/* Atomic; worlds with more ranks than there are cores, where a spinning thread
 * keeps the one it waits for from running.  Relaxed: a number. */
static atomic_int crowds;

void stream_crowd(int change)
{
	add_relaxed(&crowds, change);
}

bool stream_is_crowded(void)
{
	return load_relaxed(&crowds);
}
