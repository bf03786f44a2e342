/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Driving streams (see stream_queue.h for which thread does and how far)
 *
 * One thread at a time drives a stream: the one that has set busy.  A thread
 * that finds it set asks for another look, which the driver sees after it has
 * cleared busy; and then tries once more, as the driver may have cleared it
 * before.  So nothing that was changed is missed, and no thread waits.
 */

#include "sim/exec/scheduler.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/scoped_lock.h"
#include "sim/exec/poller.h"

/* ---- kicks: a thread notes the streams whose first work may go on ------ */

static _Thread_local struct stream *kicked_by_us;

void stream_kick(struct stream *s)
{
	/* Acquire and release: if it was set already, the thread that set it
	 * clears it with the exchange in take_kicked() before it drives the
	 * stream, and so sees what we did. */
	if (atomic_exchange_explicit(&s->kicked, true, memory_order_acq_rel))
		return;
	s->next_kicked = kicked_by_us;
	kicked_by_us = s;
}

/* Take a stream that the calling thread has kicked, to drive it; NULL: none is
 * left. */
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

/* A driver that does all that is cheap, and no more. */
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

/* True if there is what a driver drives for. */
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

/* Write a hint that others read all the time only if it changes. */
static void set_hint(atomic_bool *hint, bool value)
{
	if (load_relaxed(hint) != value)
		store_relaxed(hint, value);
}

/* The first work is done: go on to the next. */
static void pop(struct stream *s)
{
	store_relaxed(&s->own_next, false);
	set_hint(&s->is_left, false);
	/* Also releases the work's results: pairs with stream_is_done(). */
	atomic_store(&s->done, s->done + 1);
	if (!atomic_load(&s->followed))
		return;
	SCOPED_LOCK(&s->lock);
	atomic_store(&s->followed, false);
	stream_kick_all_locked(&s->followers);
}

/* Step one piece of work after the other; once there is what @d is for, only
 * what is cheap.  Called with busy set. */
static enum step drive_busy(struct stream *s, const struct drive *d)
{
	const uint64_t before = s->done;
	struct work *w;
	enum step r;

	while (!stream_is_empty(s)) {
		w = &s->ring[s->done % STREAM_SLOTS];
		if (d != &cheap && (has_come(d, s->done) ||
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

/* Have the poller look at @s or, if it cannot be started, the stream's own
 * thread. */
static void note(struct stream *s, bool is_left, const struct drive *d)
{
	set_hint(&s->is_left, is_left);
	if (poller_note(s))
		return;
	if (d->effort == EFFORT_OWN)
		stream_timer(s, clock_now() + OWN_LOOK_NS, d);
	else
		worker_wake(s);
}

/* True if all that can be done is for the stream's own thread, which will
 * come. */
static bool is_left_to_own(const struct stream *s, const struct drive *d)
{
	return d->effort != EFFORT_OWN && load_relaxed(&s->own_next);
}

/* Stop driving @s.  Wake its worker if @wanted, or if the worker found the
 * stream busy and gave up. */
static void let_go(struct stream *s, bool wanted, const struct drive *d)
{
	atomic_store(&s->busy, false);
	if ((wanted || is_left_to_own(s, d)) && !worker_wake(s))
		note(s, true, d);
	if (!atomic_load(&s->live))
		stream_park(s);
}

/* True if what a driver has left is for the stream's own thread, and no thread
 * that waits stays to do it. */
static bool is_for_own(const struct stream *s, const struct drive *d)
{
	return d->effort != EFFORT_OWN && stream_is_flushed(s) &&
	       !load_relaxed(&s->is_attended);
}

/* A look at the first work has answered @r: see that some thread goes on, and
 * let go. */
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
	let_go(s, r == STEP_LATER, d);
	if (r == STEP_LEFT && is_for_own(s, d) && worker_wake(s))
		return;
	if (r == STEP_LEFT || r == STEP_WATCH)
		note(s, r == STEP_LEFT, d);
}

/* Look at the first work.  False if another thread is at it, or will be. */
static bool try_drive(struct stream *s, const struct drive *d)
{
	if (is_left_to_own(s, d) || atomic_exchange(&s->busy, true))
		return false;
	/* The exchange sees what was changed. */
	if (atomic_load(&s->again))
		atomic_exchange(&s->again, false);
	end_drive(s, d, drive_busy(s, d));
	return true;
}

uint64_t stream_done(const struct stream *s)
{
	return atomic_load(&s->done);
}

/* Look again for as long as another thread asks for it meanwhile.  That may be
 * the one that takes over. */
static void drive_while_asked(struct stream *s, const struct drive *d)
{
	while (atomic_load(&s->again) &&
	       try_drive(s, drive_is_relieved(d) ? &cheap : d))
		;
}

void stream_drive(struct stream *s, const struct drive *d)
{
	if (!try_drive(s, d))
		atomic_store(&s->again, true);
	drive_while_asked(s, d);
}

void stream_go(struct stream *s)
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

void stream_go_by_itself(struct stream *s)
{
	store_relaxed(&s->flushed, atomic_load(&s->queued));
	/* A thread that stays sets it again. */
	set_hint(&s->is_attended, false);
	/* A thread runs on the cores of the thread that has started it: it
	 * shall be the rank's, not whichever comes last. */
	if (!worker_has_begun(s))
		worker_wake(s);
	stream_go(s);
}

/* For a thread that waits for what @s has left to threads that wait, and does
 * not drive it: have the stream's own thread do that. */
static void stream_urge(struct stream *s)
{
	if (load_relaxed(&s->is_left) && !atomic_load(&s->busy))
		worker_wake(s);
}

void stream_look_after(struct stream *s, uint64_t done)
{
	/* For work that no thread can be started for. */
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

/* How often a waiting thread looks before it comes again. */
#define ATTEND_LOOKS 8

/* Look for a while.  True if there is what the driver drives for. */
static bool watch(struct stream *s, const struct drive *d)
{
	bool has = false;
	int i;

	set_hint(&s->is_watched, true);
	for (i = 0; i < ATTEND_LOOKS && !has; i++) {
		stream_poll(s, d);
		has = has_come(d, s->done);
		if (!has)
			cpu_pause();
	}
	set_hint(&s->is_watched, false);
	/* While a stream is watched other threads do not kick it: look at what
	 * is left. */
	if (has && stream_done(s) != atomic_load(&s->queued))
		stream_go(s);
	return has;
}

/* Drive for a thread that waits: a few looks, and then one as if it did not
 * come again. */
static void attend(struct stream *s, struct drive *d)
{
	d->attends = !stream_is_crowded();
	if (d->attends && watch(s, d))
		return;
	d->attends = false;
	stream_drive(s, d);
	stream_settle();
}

/* If a waiting thread was away for longer than this between two looks it naps,
 * and what was flushed does not wait for it. */
#define STAYS_NS 250000

/* As attend(), where work was flushed that the stream's own thread may be at.
 * The waiting thread is awake, and keeps the own thread from its core: it takes
 * over. */
static void attend_flushed(struct stream *s, struct drive *d)
{
	const uint64_t last = load_relaxed(&s->attended_ns);

	d->stays = clock_now() - last < STAYS_NS;
	if (d->stays)
		set_hint(&s->is_attended, true);
	attend(s, d);
	if (drive_is_over(d, s->done))
		stream_leave(s);
	store_relaxed(&s->attended_ns, clock_now());
}

void stream_attend(struct stream *s, const struct drive *drive)
{
	struct drive d = *drive;

	if (stream_is_flushed(s))
		attend_flushed(s, &d);
	else
		attend(s, &d);
}

void stream_leave(struct stream *s)
{
	if (!load_relaxed(&s->is_attended))
		return;
	set_hint(&s->is_attended, false);
	stream_urge(s);
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
	/* A thread that waits for s may do the work of both streams, but not
	 * all of it. */
	if (d->effort == EFFORT_HELP)
		stream_urge(on);
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
	let_go(s, false, &cheap);
	drive_while_asked(s, &cheap);
}
