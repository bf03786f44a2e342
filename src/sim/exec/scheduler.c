/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Drives streams (see stream_queue.h)
 *
 * One thread at a time drives a stream: the thread that has set its flag
 * "busy".  If another thread finds that busy is already set, it sets the flag
 * "retry", and then tries once more, because the driver might have cleared busy
 * just before.  The driver checks retry after it has cleared busy.  So no
 * change is missed, and no thread waits.
 */

#include "sim/exec/scheduler.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/scoped_lock.h"

/* ---- kicks: the streams that a thread has found runnable --------------- */

static _Thread_local struct stream *kicked_by_us;

void stream_kick(struct stream *s)
{
	/* Acquire and release: if kicked was already set, the thread that set
	 * it clears it in take_kicked() before it drives the stream, and
	 * therefore sees all earlier writes of this thread. */
	if (atomic_exchange_explicit(&s->kicked, true, memory_order_acq_rel))
		return;
	s->next_kicked = kicked_by_us;
	kicked_by_us = s;
}

/* Remove and return a stream that the calling thread has kicked, or NULL if
 * there is none. */
static struct stream *take_kicked(void)
{
	struct stream *s = kicked_by_us;

	if (!s)
		return NULL;
	kicked_by_us = s->next_kicked;
	atomic_exchange_explicit(&s->kicked, false, memory_order_acq_rel);
	return s;
}

static void set_blocked(struct stream *s, bool blocked)
{
	store_relaxed(&s->blocked, blocked);
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

/* ---- driving ---------------------------------------------------------- */

/* Limits of a driver that does only cheap work. */
static const struct drive cheap = {
	.effort = EFFORT_ENQUEUE,
	.position = UINT64_MAX,
	.until_ns = UINT64_MAX,
};

void stream_settle(void)
{
	struct stream *s;

	while ((s = take_kicked())) {
		store_relaxed(&s->own_next, false);
		stream_drive(s, &cheap);
	}
}

bool drive_is_relieved(const struct drive *d)
{
	return d->stop && load_relaxed(d->stop);
}

bool drive_is_late(const struct drive *d)
{
	return drive_is_relieved(d) ||
	       (d->until_ns != UINT64_MAX && clock_now() >= d->until_ns);
}

/* Return true if the position or the word value that @d waits for has been
 * reached. */
static bool condition_is_met(const struct drive *d, uint64_t done)
{
	return done >= d->position ||
	       (d->word &&
	        (int32_t)(__atomic_load_n(d->word, __ATOMIC_ACQUIRE) -
	                  d->value) >= 0);
}

static bool drive_is_over(const struct drive *d, uint64_t done)
{
	return condition_is_met(d, done) || drive_is_late(d);
}

/* Store @value only if it differs, because a store would slow down the threads
 * that constantly read the hint. */
static void set_hint(atomic_bool *hint, bool value)
{
	if (load_relaxed(hint) != value)
		store_relaxed(hint, value);
}

static void pop(struct stream *s)
{
	store_relaxed(&s->own_next, false);
	set_hint(&s->is_left, false);
	/* The store also releases the work's results.  It pairs with
	 * stream_is_done(). */
	atomic_store(&s->done, s->done + 1);
	if (!atomic_load(&s->followed))
		return;
	SCOPED_LOCK(&s->lock);
	atomic_store(&s->followed, false);
	stream_kick_all_locked(&s->followers);
}

/* Step the items of @s one after the other.  Once the condition that @d waits
 * for is true or its time limit has passed, do only cheap items.  Called with
 * busy set. */
static enum step drive_busy(struct stream *s, const struct drive *d)
{
	const uint64_t before = s->done;
	struct work *w;
	enum step r;

	while (!stream_is_empty(s)) {
		w = &s->ring[s->done % STREAM_SLOTS];
		if (d != &cheap && (condition_is_met(d, s->done) ||
		                    (s->done != before && drive_is_late(d))))
			d = &cheap;
		r = w->step(s, w, d);
		if (r != STEP_DONE)
			return r;
		pop(s);
	}
	return STEP_DONE;
}

#define OWN_LOOK_NS 1000000

/* Register @s with the poller or, if the poller cannot be started, wake the
 * worker. */
static void register_or_wake(struct stream *s, bool is_left,
                             const struct drive *d)
{
	set_hint(&s->is_left, is_left);
	if (poller_register(s))
		return;
	if (d->effort == EFFORT_OWN)
		stream_timer(s, clock_now() + OWN_LOOK_NS, d);
	else
		worker_wake(s);
}

/* Return true if only the worker can continue with @s, and the worker will do
 * so. */
static bool is_left_to_own(const struct stream *s, const struct drive *d)
{
	return d->effort != EFFORT_OWN && load_relaxed(&s->own_next);
}

/* Stop driving @s.  Wake the worker if @wanted, or if only the worker can
 * continue, because it might have found the stream busy and gone back to
 * sleep. */
static void stop_driving(struct stream *s, bool wanted, const struct drive *d)
{
	atomic_store(&s->busy, false);
	if ((wanted || is_left_to_own(s, d)) && !worker_wake(s))
		register_or_wake(s, true, d);
	if (!atomic_load(&s->live))
		stream_park(s);
}

/* Return true if the worker must do the work that this driver leaves, because
 * no waiting thread stays to do it. */
static bool is_left_to_worker(const struct stream *s, const struct drive *d)
{
	return d->effort != EFFORT_OWN && stream_is_flushed(s) &&
	       !load_relaxed(&s->is_attended);
}

/* Stop driving @s after a step returned @r, and make sure that some thread will
 * continue. */
static void end_drive(struct stream *s, const struct drive *d, enum step r)
{
	if (r == STEP_LATER && d->effort == EFFORT_HELP &&
	    !drive_is_over(d, s->done))
		store_relaxed(&s->own_next, true);
	if (r != STEP_DONE && d->effort == EFFORT_OWN)
		worker_give_up(s);
	if (d->effort == EFFORT_HELP)
		set_hint(&s->is_attended, d->stays && stream_is_flushed(s) &&
		                                  !drive_is_over(d, s->done));
	stop_driving(s, r == STEP_LATER, d);
	if (r == STEP_LEFT && is_left_to_worker(s, d) && worker_wake(s))
		return;
	if (r == STEP_LEFT || r == STEP_WATCH)
		register_or_wake(s, r == STEP_LEFT, d);
}

/* Drive @s once.  Return false if another thread is driving it or will drive
 * it. */
static bool try_drive(struct stream *s, const struct drive *d)
{
	if (is_left_to_own(s, d) || atomic_exchange(&s->busy, true))
		return false;
	/* If retry was set, the exchange also acquires the changes of the
	 * thread that set it. */
	if (atomic_load(&s->retry))
		atomic_exchange(&s->retry, false);
	end_drive(s, d, drive_busy(s, d));
	return true;
}

uint64_t stream_done(const struct stream *s)
{
	return atomic_load(&s->done);
}

/* Drive @s again while other threads request it.  If another thread has taken
 * over, do only cheap work. */
static void drive_while_asked(struct stream *s, const struct drive *d)
{
	while (atomic_load(&s->retry) &&
	       try_drive(s, drive_is_relieved(d) ? &cheap : d))
		;
}

void stream_drive(struct stream *s, const struct drive *d)
{
	if (!try_drive(s, d))
		atomic_store(&s->retry, true);
	drive_while_asked(s, d);
}

void stream_drive_cheap(struct stream *s)
{
	stream_drive(s, &cheap);
	stream_settle();
}

bool drive_first(struct stream *s, struct work *w)
{
	uint64_t position;
	enum step r;
	bool is_queued;

	if (atomic_exchange(&s->busy, true))
		return false;
	if (!stream_is_empty(s)) {
		end_drive(s, &cheap, STEP_DONE);
		drive_while_asked(s, &cheap);
		stream_settle();
		return false;
	}
	r = w->step(s, w, &cheap);
	is_queued = r == STEP_DONE || stream_put(s, w, &position);
	end_drive(s, &cheap, is_queued ? r : STEP_DONE);
	drive_while_asked(s, &cheap);
	stream_settle();
	return is_queued;
}

bool stream_is_flushed(const struct stream *s)
{
	return load_relaxed(&s->done) < load_relaxed(&s->flushed);
}

void stream_flush_to_worker(struct stream *s)
{
	store_relaxed(&s->flushed, atomic_load(&s->queued));
	/* A waiting thread that continues to poll will set the flag again. */
	set_hint(&s->is_attended, false);
	/* A new thread inherits the CPU affinity of the thread that starts it.
	 * So start the worker here, in the rank's own thread, not in the thread
	 * of the rank that happens to arrive last. */
	if (!worker_has_begun(s))
		worker_wake(s);
	stream_drive_cheap(s);
}

/* Wake the worker to do the items of @s that were left to waiting threads.
 * Called by a thread that waits but does not drive @s. */
static void wake_worker_for(struct stream *s)
{
	if (load_relaxed(&s->is_left) && !atomic_load(&s->busy))
		worker_wake(s);
}

void stream_check_for_poller(struct stream *s, uint64_t done)
{
	/* Limits of this thread if the worker cannot be started. */
	const struct drive all = {
		.effort = EFFORT_HELP,
		.position = UINT64_MAX,
		.until_ns = clock_now() + OWN_LOOK_NS,
	};

	if (atomic_load(&s->queued) == atomic_load(&s->done))
		return;
	if (!load_relaxed(&s->is_left) || atomic_load(&s->done) != done ||
	    atomic_load(&s->busy)) {
		stream_drive(s, &cheap);
	} else {
		set_hint(&s->is_attended, false);
		if (!worker_wake(s))
			stream_drive(s, &all);
	}
	stream_settle();
}

void stream_poll(struct stream *s, const struct drive *d)
{
	if (load_relaxed(&s->blocked) || load_relaxed(&s->busy))
		return;
	if (try_drive(s, d))
		drive_while_asked(s, d);
	stream_settle();
}

void stream_help(struct stream *s, uint64_t position)
{
	const struct drive d = {
		.effort = EFFORT_HELP,
		.position = position,
		.until_ns = UINT64_MAX,
	};

	stream_poll(s, &d);
}

/* Number of times that a waiting thread polls before stream_poll_for_waiter()
 * returns. */
#define ATTEND_LOOKS 8

/* Poll @s for a while.  Return true if the condition that @d waits for is
 * true. */
static bool watch(struct stream *s, const struct drive *d)
{
	bool has = false;
	int i;

	set_hint(&s->is_watched, true);
	for (i = 0; i < ATTEND_LOOKS && !has; i++) {
		stream_poll(s, d);
		has = condition_is_met(d, s->done);
		if (!has)
			cpu_pause();
	}
	set_hint(&s->is_watched, false);
	/* Other threads do not kick a stream while it is watched, so check the
	 * items that are left. */
	if (has && stream_done(s) != atomic_load(&s->queued))
		stream_drive_cheap(s);
	return has;
}

/* Drive @s for a waiting thread: poll for a while, then step it once more
 * without polling. */
static void poll_then_step(struct stream *s, struct drive *d)
{
	d->attends = !stream_is_crowded();
	if (d->attends && watch(s, d))
		return;
	d->attends = false;
	stream_drive(s, d);
	stream_settle();
}

/* Pause between two polls, in nanoseconds, after which a waiting thread counts
 * as asleep, so that flushed items are left to the worker. */
#define STAYS_NS 250000

/* Call poll_then_step() for a stream with flushed items, which the worker might
 * be doing.  A waiting thread that is awake would compete with the worker for a
 * core, so it takes over the items. */
static void drive_flushed(struct stream *s, struct drive *d)
{
	const uint64_t last = load_relaxed(&s->attended_ns);

	d->stays = clock_now() - last < STAYS_NS;
	if (d->stays)
		set_hint(&s->is_attended, true);
	poll_then_step(s, d);
	if (drive_is_over(d, s->done))
		stream_leave(s);
	store_relaxed(&s->attended_ns, clock_now());
}

void stream_poll_for_waiter(struct stream *s, const struct drive *drive)
{
	struct drive d = *drive;

	if (stream_is_flushed(s))
		drive_flushed(s, &d);
	else
		poll_then_step(s, &d);
}

void stream_leave(struct stream *s)
{
	if (!load_relaxed(&s->is_attended))
		return;
	set_hint(&s->is_attended, false);
	wake_worker_for(s);
}

/* ---- streams that wait for others ------------------------------------- */

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
	/* The calling thread waits for @s and therefore for @on, but it drives
	 * only @s.  So the worker of @on must do the items of @on that were
	 * left to waiting threads. */
	if (d->effort == EFFORT_HELP)
		wake_worker_for(on);
	stream_kick(on);
	return STEP_BLOCKED;
}

bool stream_hold(struct stream *s)
{
	return !atomic_exchange(&s->busy, true);
}

const struct work *stream_first(const struct stream *s)
{
	return stream_is_empty(s) ? NULL : &s->ring[s->done % STREAM_SLOTS];
}

void stream_release(struct stream *s)
{
	stop_driving(s, false, &cheap);
	drive_while_asked(s, &cheap);
}
