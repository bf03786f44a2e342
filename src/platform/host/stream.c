/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Streams of the host platform (see stream.h for how they run)
 *
 * The memory of a stream is never given back: a destroyed one is kept for the
 * next cudaStreamCreate(), and its positions go on counting.  So a handle, or a
 * position of a stream, may be looked at after the stream was destroyed, which
 * whoever completes somebody else's operation does all the time.
 *
 * Locks: the table's, then a stream's own; step functions acquire those of what
 * they work on.  None is held across a step function.
 */

#include "platform/host/stream.h"

#include <limits.h>
#include <stdlib.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/thread.h"
#include "platform/host/census.h"
#include "platform/host/device.h"
#include "platform/host/host.h"
#include "platform/host/minder.h"
#include "platform/host/strict_calls.h"

/* ---- all streams ------------------------------------------------------ */

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by table_lock; the list of all only grows. */
static struct stream *all;
static struct stream *unused;
static uint64_t created; /* how many, ever */

/* Atomic; each set once under table_lock (release), read by anyone. */
static struct stream *_Atomic legacy[COHORT_SIM_MAX_DEVICES];

/* Atomic; those of a device that its legacy default stream waits for.  Relaxed: who
 * is to see one has been told of it. */
static atomic_int blocking_streams[COHORT_SIM_MAX_DEVICES];

static void count_blocking(const struct stream *s, int change)
{
	if (s->blocking && !s->legacy)
		atomic_fetch_add_explicit(&blocking_streams[s->device], change,
		                          memory_order_relaxed);
}

static bool has_blocking(int device)
{
	return atomic_load_explicit(&blocking_streams[device],
	                            memory_order_relaxed);
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

/* Keep a stream that was destroyed for the next to be created, if it is over. */
static void stream_park(struct stream *s)
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

struct stream *stream_find(cudaStream_t handle)
{
	struct stream *s = (struct stream *)handle;

	if (!handle || handle == cudaStreamLegacy)
		return stream_legacy(device_current());
	if (handle == cudaStreamPerThread)
		return stream_of_thread(device_current());
	return atomic_load_explicit(&s->live, memory_order_relaxed) ? s : NULL;
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
                              bool only_blocking)
{
	struct stream *s = after ? after->next : newest();
	bool found = false;

	for (; s; s = s->next) {
		pthread_mutex_lock(&s->lock);
		found = s->device == device && (s->blocking || !only_blocking);
		pthread_mutex_unlock(&s->lock);
		if (found)
			break;
	}
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

/* ---- driving ---------------------------------------------------------- */

static _Thread_local struct stream *kicked_by_us;

void stream_kick(struct stream *s)
{
	/* Acquire and release: if it was set already, whoever set it clears it
	 * with the exchange in stream_settle() before driving, and so sees
	 * what we did. */
	if (atomic_exchange_explicit(&s->kicked, true, memory_order_acq_rel))
		return;
	s->next_kicked = kicked_by_us;
	kicked_by_us = s;
}

/* What takes no effort, and all of it. */
static const struct drive cheap = {
	.effort = EFFORT_ENQUEUE,
	.position = UINT64_MAX,
	.until_ns = UINT64_MAX,
};

void stream_settle(void)
{
	struct stream *s;

	while ((s = kicked_by_us)) {
		kicked_by_us = s->next_kicked;
		atomic_exchange_explicit(&s->kicked, false,
		                         memory_order_acq_rel);
		atomic_store_explicit(&s->own_next, false,
		                      memory_order_relaxed);
		stream_drive(s, &cheap);
	}
}

static void set_blocked(struct stream *s, bool blocked)
{
	atomic_store_explicit(&s->blocked, blocked, memory_order_relaxed);
}

void stream_kick_all_locked(struct stream **list)
{
	struct stream *s;

	while ((s = *list)) {
		*list = s->next_follower;
		s->follows = false;
		set_blocked(s, false);
		stream_kick(s);
	}
}

void stream_follow_locked(struct stream **list, struct stream *s)
{
	set_blocked(s, true);
	if (s->follows)
		return;
	s->follows = true;
	s->next_follower = *list;
	*list = s;
}

void stream_unfollow_locked(struct stream **list, struct stream *s)
{
	set_blocked(s, false);
	if (!s->follows)
		return;
	while (*list != s)
		list = &(*list)->next_follower;
	*list = s->next_follower;
	s->follows = false;
}

static void *own_main(void *arg);

/* Have the stream's own thread drive it. */
static void wake_own(struct stream *s)
{
	pthread_t thread;
	bool start;

	pthread_mutex_lock(&s->lock);
	start = !s->own_started;
	s->own_wanted = true;
	s->own_started = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	if (!start)
		return;
	if (thread_start(&thread, own_main, s, "stream:%d", s->device) == 0) {
		pthread_detach(thread);
		return;
	}
	/* Out of threads: try again the next time somebody drives it. */
	pthread_mutex_lock(&s->lock);
	s->own_started = false;
	pthread_mutex_unlock(&s->lock);
	atomic_store_explicit(&s->own_next, false, memory_order_relaxed);
}

bool drive_is_late(const struct drive *d)
{
	return d->until_ns != UINT64_MAX && clock_now() >= d->until_ns;
}

/* True if there is what a driver came for. */
static bool has_come(const struct drive *d, uint64_t done)
{
	return done >= d->position ||
	       (d->word &&
	        (int32_t)(__atomic_load_n(d->word, __ATOMIC_ACQUIRE) -
	                  d->value) >= 0);
}

static bool drive_is_over(const struct drive *d, uint64_t done)
{
	return has_come(d, done) || drive_is_late(d);
}

static bool is_empty(const struct stream *s)
{
	/* Relaxed: only the driver writes done.  Acquire: what was queued. */
	return atomic_load_explicit(&s->done, memory_order_relaxed) ==
	       atomic_load_explicit(&s->queued, memory_order_acquire);
}

/* The first work is done. */
static void pop(struct stream *s)
{
	atomic_store_explicit(&s->own_next, false, memory_order_relaxed);
	/* The work's results go with it: pairs with stream_is_done(). */
	atomic_store(&s->done, s->done + 1);
	if (!atomic_load(&s->followed))
		return;
	pthread_mutex_lock(&s->lock);
	atomic_store(&s->followed, false);
	stream_kick_all_locked(&s->followers);
	pthread_mutex_unlock(&s->lock);
}

/* Do one work after the other, once there is what @d is for only what is cheap.
 * Called with busy set. */
static enum step drive_busy(struct stream *s, const struct drive *d)
{
	struct work *w;
	enum step r;

	while (!is_empty(s)) {
		w = &s->ring[s->done % STREAM_SLOTS];
		r = w->step(s, w, d);
		if (r != STEP_DONE)
			return r;
		pop(s);
		if (d != &cheap && drive_is_over(d, s->done))
			d = &cheap;
	}
	return STEP_DONE;
}

/* What its own thread could not do, and no timer will have it do, need not be left
 * to it. */
static void give_up_own(struct stream *s)
{
	pthread_mutex_lock(&s->lock);
	if (!s->timer_ns)
		atomic_store_explicit(&s->own_next, false,
		                      memory_order_relaxed);
	pthread_mutex_unlock(&s->lock);
}

#define OWN_LOOK_NS 1000000

/* Have the minder look at @s, or without one its own thread. */
static void note(struct stream *s, bool is_left, const struct drive *d)
{
	if (atomic_load_explicit(&s->is_left, memory_order_relaxed) != is_left)
		atomic_store_explicit(&s->is_left, is_left,
		                      memory_order_relaxed);
	if (minder_note(s))
		return;
	if (d->effort == EFFORT_OWN)
		stream_timer(s, clock_now() + OWN_LOOK_NS, d);
	else
		wake_own(s);
}

/* True if all that can be done is for the stream's own thread, which comes. */
static bool is_left_to_own(const struct stream *s, const struct drive *d)
{
	return d->effort != EFFORT_OWN &&
	       atomic_load_explicit(&s->own_next, memory_order_relaxed);
}

/* Look at the first work.  False if somebody else is at it, or will be. */
static bool look(struct stream *s, const struct drive *d)
{
	enum step r;

	if (is_left_to_own(s, d) || atomic_exchange(&s->busy, true))
		return false;
	if (atomic_load(&s->again))
		atomic_exchange(&s->again, false); /* sees what was changed */
	r = drive_busy(s, d);
	if (r == STEP_LATER && d->effort == EFFORT_HELP &&
	    !drive_is_over(d, s->done))
		atomic_store_explicit(&s->own_next, true, memory_order_relaxed);
	if (r != STEP_DONE && d->effort == EFFORT_OWN)
		give_up_own(s);
	atomic_store(&s->busy, false);
	if (r == STEP_LEFT || r == STEP_WATCH)
		note(s, r == STEP_LEFT, d);
	if (r == STEP_LATER)
		wake_own(s);
	if (!atomic_load(&s->live))
		stream_park(s);
	return true;
}

uint64_t stream_done(const struct stream *s)
{
	return atomic_load(&s->done);
}

/* Look for as long as somebody has asked for it meanwhile. */
static void look_again(struct stream *s, const struct drive *d)
{
	while (atomic_load(&s->again) && look(s, d))
		;
}

void stream_drive(struct stream *s, const struct drive *d)
{
	atomic_store(&s->again, true);
	look_again(s, d);
}

void stream_look_after(struct stream *s, uint64_t done)
{
	if (atomic_load(&s->queued) == atomic_load(&s->done))
		return;
	if (atomic_load_explicit(&s->is_left, memory_order_relaxed) &&
	    atomic_load(&s->done) == done && !atomic_load(&s->busy))
		wake_own(s);
	else
		stream_drive(s, &cheap);
	stream_settle();
}

/* The same of somebody who has changed nothing: it does not matter if another is
 * at it. */
static void poll(struct stream *s, const struct drive *d)
{
	if (atomic_load_explicit(&s->blocked, memory_order_relaxed) ||
	    atomic_load_explicit(&s->busy, memory_order_relaxed))
		return;
	if (look(s, d))
		look_again(s, d);
	stream_settle();
}

void stream_help(struct stream *s, uint64_t position)
{
	const struct drive d = {
		.effort = EFFORT_HELP,
		.position = position,
		.until_ns = UINT64_MAX,
	};

	poll(s, &d);
}

/* Atomic; worlds with more ranks than there are cores, where a spinning thread
 * keeps the one it waits for from running.  Relaxed: a number. */
static atomic_int crowds;

void stream_crowd(int change)
{
	atomic_fetch_add_explicit(&crowds, change, memory_order_relaxed);
}

static bool is_crowded(void)
{
	return atomic_load_explicit(&crowds, memory_order_relaxed);
}

/* How often who waits looks before it comes again. */
#define ATTEND_LOOKS 8

void stream_attend(struct stream *s, const struct drive *drive)
{
	struct drive d = *drive;
	int i;

	d.attends = !is_crowded();
	for (i = 0; d.attends && i < ATTEND_LOOKS; i++) {
		poll(s, &d);
		if (has_come(&d, s->done))
			return;
		cpu_pause();
	}
	d.attends = false;
	stream_drive(s, &d);
	stream_settle();
}

enum step stream_timer(struct stream *s, uint64_t when_ns,
                       const struct drive *d)
{
	pthread_mutex_lock(&s->lock);
	s->timer_ns = when_ns;
	pthread_mutex_unlock(&s->lock);
	return d->effort == EFFORT_OWN ? STEP_BLOCKED : STEP_LATER;
}

/* Wait until the own thread is wanted or its timer has come.  Called with the
 * lock held; releases and re-acquires it. */
static void own_sleep_locked(struct stream *s)
{
	struct timespec t;

	while (!s->own_wanted) {
		if (!s->timer_ns) {
			pthread_cond_wait(&s->wake, &s->lock);
			continue;
		}
		if (clock_now() >= s->timer_ns)
			break;
		t.tv_sec = (time_t)(s->timer_ns / NS_PER_S);
		t.tv_nsec = (long)(s->timer_ns % NS_PER_S);
		pthread_cond_timedwait(&s->wake, &s->lock, &t);
	}
	s->own_wanted = false;
	s->timer_ns = 0;
}

/* Atomic; those that have begun.  Relaxed: a number. */
static atomic_int own_threads;

int stream_own_threads(void)
{
	return atomic_load_explicit(&own_threads, memory_order_relaxed);
}

void stream_count_thread(void)
{
	atomic_fetch_add_explicit(&own_threads, 1, memory_order_relaxed);
}

/* The stream's own thread; lives as long as the process, as the stream does. */
static void *own_main(void *arg)
{
	static const struct drive own = {
		.effort = EFFORT_OWN,
		.position = UINT64_MAX,
		.until_ns = UINT64_MAX,
	};
	struct stream *s = arg;

	stream_count_thread();
	for (;;) {
		pthread_mutex_lock(&s->lock);
		own_sleep_locked(s);
		pthread_mutex_unlock(&s->lock);
		stream_drive(s, &own);
		stream_settle();
	}
	return NULL;
}

/* ---- queueing --------------------------------------------------------- */

/* Wait a little for what @s has first. */
static void wait_a_little(struct stream *s, struct backoff *b)
{
	if (strict_is_on() && b->started_ns)
		strict_check_wait(s, b->started_ns);
	backoff_wait(b, UINT64_MAX);
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
	s->ring[s->queued % STREAM_SLOTS] = *work;
	position = s->queued + 1;
	/* Release: pairs with the acquire of those who look at positions
	 * without the lock. */
	atomic_store_explicit(&s->queued, position, memory_order_release);
	pthread_mutex_unlock(&s->lock);
	return position;
}

static enum step wait_step(struct stream *s, struct work *w,
                           const struct drive *d)
{
	struct stream *on = w->wait.on;
	bool done;

	(void)d;
	pthread_mutex_lock(&on->lock);
	stream_follow_locked(&on->followers, s);
	atomic_store(&on->followed, true);
	done = atomic_load(&on->done) >= w->wait.position;
	if (done)
		stream_unfollow_locked(&on->followers, s);
	pthread_mutex_unlock(&on->lock);
	if (done)
		return STEP_DONE;
	stream_kick(on); /* whoever waits for s may do the work of both */
	return STEP_BLOCKED;
}

void stream_push_wait(struct stream *s, struct stream *on, uint64_t position)
{
	struct work w = {
		.step = wait_step,
		.wait = { .on = on, .position = position },
	};

	if (s != on && !stream_is_done(on, position))
		push(s, &w);
}

/* The legacy default stream waits for every blocking stream of its device. */
static void order_legacy(struct stream *s)
{
	struct stream *other = NULL;

	if (!has_blocking(s->device))
		return;
	while ((other = stream_next_of(other, s->device, true)))
		stream_push_wait(s, other, other->queued);
}

/* A blocking stream waits for the legacy default stream of its device. */
static void order_blocking(struct stream *s)
{
	struct stream *l =
		atomic_load_explicit(&legacy[s->device], memory_order_acquire);

	if (l)
		stream_push_wait(s, l, l->queued);
}

void stream_go(struct stream *s)
{
	stream_drive(s, &cheap);
	stream_settle();
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

/* True if nothing has to be waited for before what is queued on @s. */
static bool is_idle(const struct stream *s)
{
	struct stream *l;

	if (!is_empty(s) || (s->legacy && has_blocking(s->device)))
		return false;
	l = s->legacy || !s->blocking
	            ? NULL
	            : atomic_load_explicit(&legacy[s->device],
	                                   memory_order_acquire);
	return !l || stream_is_done(l, atomic_load(&l->queued));
}

bool stream_do_now(struct stream *s, const struct work *work)
{
	struct work w = *work;
	bool done;

	if (!is_idle(s) || atomic_exchange(&s->busy, true))
		return false;
	done = is_empty(s) && w.step(s, &w, &cheap) == STEP_DONE;
	atomic_store(&s->busy, false);
	look_again(s, &cheap);
	stream_settle();
	return done;
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
	struct backoff b = backoff_among(is_crowded() ? INT_MAX : 1);

	while (!stream_is_done(s, position)) {
		stream_attend(s, &d);
		if (!stream_is_done(s, position))
			wait_a_little(s, &b);
	}
}

void stream_first_launch(struct stream *s,
                         void (*look_at)(const struct launch *))
{
	struct stream *next = NULL;
	const struct work *first;
	int i;

	/* Not for ever: streams may wait for each other. */
	for (i = 0; s && i < 100; i++, s = next) {
		next = NULL;
		if (atomic_exchange(&s->busy, true))
			return;
		first = &s->ring[s->done % STREAM_SLOTS];
		if (!is_empty(s) && first->step == meet_step)
			look_at(first->launch);
		else if (!is_empty(s) && first->step == wait_step)
			next = first->wait.on;
		atomic_store(&s->busy, false);
		/* Whoever came meanwhile, its own thread too. */
		if (is_left_to_own(s, &cheap))
			wake_own(s);
		look_again(s, &cheap);
	}
	stream_settle();
}
