/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The streams' own threads: for what no thread waits for, and what only they
 * may do
 *
 * One is started when it is wanted, sleeps while it is not, and ends if that
 * lasts.
 */

#include "sim/exec/scheduler.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/scoped_lock.h"
#include "base/thread.h"

/* ---- the thread ------------------------------------------------------- */

/* Wait until the stream's own thread is wanted or its timer has come.  False,
 * and the stream has no thread of its own any more, if neither happens for
 * long.  Called with the lock held; releases and re-acquires it. */
static bool worker_sleep_locked(struct stream *s)
{
	const uint64_t idle_ns = clock_now() + STREAM_THREAD_IDLE_NS;
	struct timespec t;

	while (!s->own_wanted) {
		if (clock_now() >= (s->timer_ns ? s->timer_ns : idle_ns))
			break;
		t = clock_timespec(s->timer_ns ? s->timer_ns : idle_ns);
		pthread_cond_timedwait(&s->wake, &s->lock, &t);
	}
	s->own_started = s->own_wanted || s->timer_ns;
	s->own_wanted = false;
	s->timer_ns = 0;
	return s->own_started;
}

/* Atomic; how many threads have begun.  Relaxed: a number. */
static atomic_int own_threads;

int stream_own_threads(void)
{
	return load_relaxed(&own_threads);
}

void stream_count_thread(int change)
{
	add_relaxed(&own_threads, change);
}

/* How often a stream's own thread looks at what was flushed, in some 0.1 ms: as
 * long as the other ranks' threads may be kept from their last piece.  To sleep
 * and be woken takes as long. */
#define OWN_LOOKS 40

/* Do what can be done of @s.  What was flushed is looked at for as long as the
 * other ranks' own threads, which are at it, too, may take to come so far.  It
 * is left to a thread that comes to wait for it. */
static void worker_drive(struct stream *s)
{
	const bool flushed = stream_is_flushed(s);
	struct drive d = {
		.effort = EFFORT_OWN,
		.position = UINT64_MAX,
		.until_ns = UINT64_MAX,
		.attends = flushed && !stream_is_crowded(),
		.stop = flushed ? &s->is_attended : NULL,
	};
	int i;

	stream_drive(s, &d);
	stream_settle();
	for (i = 0; d.attends && i < OWN_LOOKS && !drive_is_relieved(&d) &&
	            stream_is_flushed(s);
	     i++) {
		cpu_pause();
		stream_poll(s, &d);
	}
}

/* The stream's own thread.  The stream lives as long as the process. */
static void *worker_main(void *arg)
{
	struct stream *s = arg;
	bool goes_on;

	stream_count_thread(1);
	for (;;) {
		pthread_mutex_lock(&s->lock);
		goes_on = worker_sleep_locked(s);
		pthread_mutex_unlock(&s->lock);
		if (!goes_on)
			break;
		worker_drive(s);
	}
	stream_count_thread(-1);
	return NULL;
}

/* ---- for drivers ------------------------------------------------------ */

bool worker_wake(struct stream *s)
{
	pthread_t thread;
	bool start;
	int device;

	pthread_mutex_lock(&s->lock);
	device = s->device;
	start = !s->own_started;
	s->own_wanted = true;
	s->own_started = true;
	pthread_cond_signal(&s->wake);
	pthread_mutex_unlock(&s->lock);
	if (!start)
		return true;
	if (thread_start(&thread, worker_main, s, "stream:%d", device) == 0) {
		pthread_detach(thread);
		return true;
	}
	pthread_mutex_lock(&s->lock);
	s->own_started = false;
	pthread_mutex_unlock(&s->lock);
	store_relaxed(&s->own_next, false);
	return false;
}

bool worker_has_begun(struct stream *s)
{
	SCOPED_LOCK(&s->lock);
	return s->own_started;
}

void worker_give_up(struct stream *s)
{
	SCOPED_LOCK(&s->lock);
	if (!s->timer_ns)
		store_relaxed(&s->own_next, false);
}

enum step stream_timer(struct stream *s, uint64_t when_ns,
                       const struct drive *d)
{
	SCOPED_LOCK(&s->lock);
	s->timer_ns = when_ns;
	return d->effort == EFFORT_OWN ? STEP_BLOCKED : STEP_LATER;
}
