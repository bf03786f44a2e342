/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Worker threads: one for each stream that needs one
 *
 * A worker does items that no thread waits for, and items that only a worker
 * may do.  It is started when it is first needed, sleeps while it has nothing
 * to do, and ends after STREAM_THREAD_IDLE_NS of sleep.
 */

#include "sim/exec/scheduler.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/scoped_lock.h"
#include "base/thread.h"

/* ---- the thread ------------------------------------------------------- */

/* Wait until the worker is needed or its timer expires.  Return false if
 * neither happens for a long time; the stream then has no worker.  Called with
 * the lock held; releases and re-acquires it. */
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

/* Atomic; number of threads that the simulator has started and that have not
 * ended.  Relaxed, because the number orders nothing. */
static atomic_int own_threads;

int stream_own_threads(void)
{
	return load_relaxed(&own_threads);
}

void stream_count_thread(int change)
{
	add_relaxed(&own_threads, change);
}

/* Number of times that a worker checks flushed items before it sleeps.  The
 * checks take about 0.1 ms in all: enough for other ranks' workers to finish
 * their last piece, and no longer than sleeping and waking up would take. */
#define OWN_LOOKS 40

/* Do the work of @s that can be done now.  Keep checking flushed items while
 * other ranks' workers might still be working on the same collective.  Stop if
 * a thread starts to wait for the stream, because that thread then does the
 * work. */
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

/* Main function of a worker.  The stream lives as long as the process. */
static void *worker_main(void *arg)
{
	struct stream *s = arg;
	bool continues;

	stream_count_thread(1);
	for (;;) {
		pthread_mutex_lock(&s->lock);
		continues = worker_sleep_locked(s);
		pthread_mutex_unlock(&s->lock);
		if (!continues)
			break;
		worker_drive(s);
	}
	stream_count_thread(-1);
	return NULL;
}

/* ---- waking the worker ------------------------------------------------ */

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
