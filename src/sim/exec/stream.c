/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Streams of the host platform: those there are, and what is queued (scheduler.c: who
 * does it)
 *
 * The memory of a stream is never given back: a destroyed one is kept for the
 * next cudaStreamCreate(), and its positions go on counting.  So a handle, or a
 * position of a stream, may be looked at after the stream was destroyed, which
 * whoever completes somebody else's operation does all the time.
 *
 * Locks: the table's, then a stream's own; step functions acquire those of what
 * they work on.  None is held across a step function.
 */

#include "sim/exec/scheduler.h"

#include <limits.h>
#include <stdlib.h>

#include "base/backoff.h"
#include "base/thread.h"
#include "sim/host.h"
#include "sim/strict/census.h"
#include "sim/strict/strict_calls.h"

/* ---- all streams ------------------------------------------------------ */

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by table_lock; the list of all only grows. */
static struct stream *all;
static struct stream *unused;
static uint64_t created; /* how many, ever */

/* Atomic; each set once under table_lock (release), read by anyone. */
static struct stream *_Atomic legacy[COHORT_SIM_MAX_DEVICES];

/* Atomic; those of a device that its legacy default stream waits for.  Acquire and
 * release: who sees none sees what those did that there were. */
static atomic_int blocking_streams[COHORT_SIM_MAX_DEVICES];

static void count_blocking(const struct stream *s, int change)
{
	if (s->blocking && !s->legacy)
		atomic_fetch_add_explicit(&blocking_streams[s->device], change,
		                          memory_order_acq_rel);
}

static bool has_blocking(int device)
{
	return atomic_load_explicit(&blocking_streams[device],
	                            memory_order_acquire);
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

/* A stream that nobody uses.  Called with table_lock held. */
static struct stream *stream_get_locked(void)
{
	struct stream *s = unused;

	if (s) {
		unused = s->next_free;
		return s;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	stream_init(s);
	s->next = all;
	all = s;
	return s;
}

/* Called with table_lock held. */
static struct stream *stream_create_locked(int device, bool blocking,
                                           bool is_legacy)
{
	struct stream *s = stream_get_locked();

	if (!s)
		return NULL;
	pthread_mutex_lock(&s->lock);
	s->device = device;
	s->id = ++created;
	s->blocking = blocking;
	s->legacy = is_legacy;
	s->attributes = (struct stream_attributes){
		.syncPolicy = cudaSyncPolicyAuto,
		.memSyncDomainMap = { .remote = 1 },
	};
	s->parked = false;
	atomic_store_explicit(&s->live, true, memory_order_relaxed);
	pthread_mutex_unlock(&s->lock);
	count_blocking(s, 1);
	return s;
}

/* True once for a stream that was destroyed and has nothing left to do. */
static bool stream_is_over(struct stream *s)
{
	bool over;

	pthread_mutex_lock(&s->lock);
	over = !s->parked && !atomic_load(&s->live) && !atomic_load(&s->busy) &&
	       s->done == s->queued;
	if (over)
		s->parked = true;
	pthread_mutex_unlock(&s->lock);
	return over;
}

void stream_park(struct stream *s)
{
	if (!stream_is_over(s))
		return;
	count_blocking(s, -1);
	pthread_mutex_lock(&table_lock);
	s->next_free = unused;
	unused = s;
	pthread_mutex_unlock(&table_lock);
}

struct stream *stream_legacy(int device)
{
	/* Acquire: the stream's fields.  Pairs with the release below. */
	struct stream *s =
		atomic_load_explicit(&legacy[device], memory_order_acquire);

	if (s)
		return s;
	pthread_mutex_lock(&table_lock);
	s = atomic_load_explicit(&legacy[device], memory_order_relaxed);
	if (!s)
		s = stream_create_locked(device, true, true);
	atomic_store_explicit(&legacy[device], s, memory_order_release);
	pthread_mutex_unlock(&table_lock);
	return s;
}

struct stream *stream_create(int device, bool blocking)
{
	struct stream *s;

	pthread_mutex_lock(&table_lock);
	s = stream_create_locked(device, blocking, false);
	pthread_mutex_unlock(&table_lock);
	return s;
}

void stream_destroy(struct stream *s)
{
	/* seq_cst: either we see that it is busy, or its driver, once it has let
	 * go, that it is not live. */
	atomic_store(&s->live, false);
	stream_park(s);
}

/* The newest stream; the list behind it never changes. */
static struct stream *newest(void)
{
	struct stream *s;

	pthread_mutex_lock(&table_lock);
	s = all;
	pthread_mutex_unlock(&table_lock);
	return s;
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

	/* Acquire: what was launched before by whoever told us. */
	if (s)
		*position_out =
			atomic_load_explicit(&s->queued, memory_order_acquire);
	return s;
}

size_t stream_live(void)
{
	struct stream *s;
	size_t n = 0;

	for (s = newest(); s; s = s->next) {
		pthread_mutex_lock(&s->lock);
		n += !s->legacy &&
		     atomic_load_explicit(&s->live, memory_order_relaxed);
		pthread_mutex_unlock(&s->lock);
	}
	return n;
}

/* ---- queueing --------------------------------------------------------- */

/* Wait a little for what @s has first. */
static void wait_a_little(struct stream *s, struct backoff *b)
{
	if (strict_is_on() && b->started_ns)
		strict_check_wait(s, b->started_ns);
	backoff_wait(b, UINT64_MAX);
}

/* Behind the rest; for which there is room.  Returns the position behind it. */
static uint64_t put_locked(struct stream *s, const struct work *work)
{
	const uint64_t position = s->queued + 1;

	s->ring[s->queued % STREAM_SLOTS] = *work;
	/* seq_cst: then look whether it is noted.  Release for those who look at
	 * positions without the lock. */
	atomic_store(&s->queued, position);
	return position;
}

static uint64_t push(struct stream *s, const struct work *work)
{
	struct backoff b = BACKOFF;
	uint64_t position;

	pthread_mutex_lock(&s->lock);
	while (s->queued - s->done == STREAM_SLOTS) {
		position = s->done + 1;
		pthread_mutex_unlock(&s->lock);
		stream_help(s, position);
		wait_a_little(s, &b);
		pthread_mutex_lock(&s->lock);
	}
	position = put_locked(s, work);
	pthread_mutex_unlock(&s->lock);
	return position;
}

enum step stream_wait_step(struct stream *s, struct work *w,
                           const struct drive *d)
{
	struct stream *on = w->wait.on;
	bool done;

	pthread_mutex_lock(&on->lock);
	stream_follow_locked(&on->followers, s);
	atomic_store(&on->followed, true);
	done = atomic_load(&on->done) >= w->wait.position;
	if (done)
		stream_unfollow_locked(&on->followers, s);
	pthread_mutex_unlock(&on->lock);
	if (done)
		return STEP_DONE;
	/* Whoever waits for s may do the work of both, but not all of it. */
	if (d->effort == EFFORT_HELP)
		stream_urge(on);
	stream_kick(on);
	return STEP_BLOCKED;
}

void stream_push_wait(struct stream *s, struct stream *on, uint64_t position)
{
	struct work w = {
		.step = stream_wait_step,
		.wait = { .on = on, .position = position },
	};

	if (s != on && !stream_is_done(on, position))
		push(s, &w);
}

/* The legacy default stream waits for every blocking stream of its device. */
static void order_legacy(struct stream *s)
{
	struct stream *other = NULL;
	uint64_t position;

	if (!has_blocking(s->device))
		return;
	while ((other = stream_next_of(other, s->device, true, &position)))
		stream_push_wait(s, other, position);
}

/* A blocking stream waits for the legacy default stream of its device. */
static void order_blocking(struct stream *s)
{
	struct stream *l =
		atomic_load_explicit(&legacy[s->device], memory_order_acquire);

	if (l)
		stream_push_wait(s, l, l->queued);
}

void stream_push(struct stream *s, const struct work *work,
                 uint64_t *position_out)
{
	uint64_t position;

	if (s->legacy)
		order_legacy(s);
	else if (s->blocking)
		order_blocking(s);
	position = push(s, work);
	if (position_out)
		*position_out = position;
	/* Behind what only waits to be looked at, that will do. */
	if (position - stream_done(s) == 1 || !atomic_load(&s->is_noted))
		stream_go(s);
}

bool stream_is_idle(const struct stream *s)
{
	const struct stream *l = NULL;

	if (!stream_is_done(s, atomic_load_explicit(&s->queued,
	                                            memory_order_relaxed)) ||
	    (s->legacy && has_blocking(s->device)))
		return false;
	if (s->blocking && !s->legacy)
		l = atomic_load_explicit(&legacy[s->device],
		                         memory_order_acquire);
	return !l || stream_is_done(l, atomic_load(&l->queued));
}

bool stream_put(struct stream *s, const struct work *work)
{
	bool has_room;

	pthread_mutex_lock(&s->lock);
	has_room = s->queued - s->done < STREAM_SLOTS;
	if (has_room)
		put_locked(s, work);
	pthread_mutex_unlock(&s->lock);
	return has_room;
}

void stream_push_begun(struct stream *s, struct work *work)
{
	if (!stream_is_idle(s) || !drive_first(s, work))
		stream_push(s, work, NULL);
}

bool stream_is_done(const struct stream *s, uint64_t position)
{
	/* Acquire: the results of the work.  Pairs with the release in
	 * stream_drive(). */
	return atomic_load_explicit(&s->done, memory_order_acquire) >= position;
}

void stream_wait(struct stream *s, uint64_t position)
{
	const struct drive d = {
		.effort = EFFORT_HELP,
		.position = position,
		.until_ns = UINT64_MAX,
	};
	struct backoff b = backoff_among(stream_is_crowded() ? INT_MAX : 1);

	while (!stream_is_done(s, position)) {
		stream_attend(s, &d);
		if (!stream_is_done(s, position))
			wait_a_little(s, &b);
	}
	stream_leave(s);
}

void stream_wait_device(int device, bool only_blocking)
{
	struct stream *s = NULL;
	uint64_t position;

	while ((s = stream_next_of(s, device, only_blocking, &position)))
		stream_wait(s, position);
}
