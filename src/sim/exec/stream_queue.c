/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The table of streams, and the queue of each stream
 *
 * The memory of a stream is never freed: a destroyed stream is reused by the
 * next one to be created, and its positions continue to count up.  So a thread
 * may still read a stream, or compare a position, after the stream was
 * destroyed.  Threads that complete operations of other threads depend on this
 * guarantee.
 *
 * Lock order: the table's lock, then a stream's lock.  A step function is
 * called with no lock held; it acquires the locks that it needs.
 */

#include "sim/exec/scheduler.h"

#include <stdlib.h>

#include <cohort/sim.h>

#include "base/scoped_lock.h"
#include "base/thread.h"
#include "sim/strict/census.h"

/* ---- all streams ------------------------------------------------------ */

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

/* First stream in the list of all streams, which only grows.  Guarded by
 * table_lock. */
static struct stream *all;
static struct stream *unused;
static uint64_t created; /* number of streams ever created */

/* Atomic; each entry is set once, with release, under table_lock.  Any thread
 * may read it. */
static struct stream *_Atomic legacy[COHORT_SIM_MAX_DEVICES];

/* Atomic; for each device, number of streams that its legacy default stream
 * waits for.  Acquire and release: a thread that reads 0 sees everything that
 * these streams did before they were destroyed. */
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
		lock_init(&s->lock);
		clock_cond_init(&s->wake);
		s->next = all;
		all = s;
	}
	pthread_mutex_lock(&s->lock);
	s->device = device;
	s->id = ++created;
	s->blocking = blocking;
	s->legacy = is_legacy;
	s->priority = 0;
	s->parked = false;
	store_relaxed(&s->live, true);
	pthread_mutex_unlock(&s->lock);
	count_blocking(s, 1);
	return s;
}

/* Mark a stream as parked if it was destroyed and has no work left.  Return
 * true only if this call has marked it. */
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
	/* The acquire makes the stream's members visible.  It pairs with the
	 * release below. */
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
	/* seq_cst: either this thread sees that the stream is busy, or the
	 * thread that drives the stream sees, after it has cleared busy, that
	 * the stream is not live. */
	atomic_store(&s->live, false);
	stream_park(s);
}

/* Return the newest stream.  Its successors never change, because streams are
 * only added in front. */
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

	/* The acquire makes all work visible that other threads queued before
	 * they requested this wait. */
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

/* ---- the queue of a stream -------------------------------------------- */

bool stream_is_done(const struct stream *s, uint64_t position)
{
	/* The acquire makes the results of the work visible.  It pairs with the
	 * release in pop(). */
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
	/* seq_cst, because the caller then checks whether the stream is
	 * registered with the poller.  The store is also a release, for threads
	 * that read positions without the lock. */
	atomic_store(&s->queued, *position_out);
	return true;
}

/* ---- more ranks than cores -------------------------------------------- */

/* Atomic; number of worlds with more ranks than cores.  In such a world, a
 * thread that spins can occupy the core on which the thread it waits for has to
 * run.  Relaxed, because the number orders nothing. */
static atomic_int crowds;

void stream_crowd(int change)
{
	add_relaxed(&crowds, change);
}

bool stream_is_crowded(void)
{
	return load_relaxed(&crowds);
}
