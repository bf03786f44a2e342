/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The poller: a thread that checks streams, in case no other thread drives them
 *
 * Waking a thread costs more than most operations take, and a thread that
 * enqueues an operation usually waits for it soon.  So if the head item of a
 * stream only has to be checked again, no thread is woken: the stream is
 * registered with the poller, which checks it every 1 to 8 ms.  If the head
 * item was left to waiting threads and none waits, the poller wakes the
 * stream's worker.  The poller sleeps while no stream is registered, and ends
 * if none is registered for a long time.
 */

#include "sim/exec/scheduler.h"

#include <time.h>

#include "base/scoped_lock.h"
#include "base/thread.h"

/* Time between checks.  It doubles, up to the maximum, while checks have no
 * effect. */
#define TICK_NS 1000000
#define TICK_MOST_NS 8000000

/* Number of ticks without a registered stream after which the poller sleeps. */
#define IDLE_TICKS 50

/* Atomic; streams that were registered since the last tick, each once.  Any
 * thread pushes to this stack (with release), and the poller empties it (with
 * acquire). */
static struct stream *_Atomic registered;

/* Atomic, seq_cst; true if the poller sleeps or is about to sleep.  Set before
 * a final check of @registered.  So either the poller sees a stream that is
 * being registered, or the thread that registers it sees that the poller is
 * asleep. */
static atomic_bool asleep;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Signaled when a stream is registered.  Uses the monotonic clock. */
static pthread_cond_t wake;

/* Atomic, seq_cst; true if the poller runs and will see streams that are
 * registered from now on.  Written under lock.  Cleared before a final check of
 * @registered.  So either the poller sees a stream that is being registered, or
 * the thread that registers it sees false and starts the poller again. */
static atomic_bool started;

static void sleep_ns(long ns)
{
	const struct timespec t = { .tv_nsec = ns };

	nanosleep(&t, NULL);
}

/* Sleep until a stream is registered.  Return false if none is registered for a
 * long time; the poller must then end. */
static bool sleep_until_registered(void)
{
	const struct timespec end =
		clock_timespec(clock_now() + STREAM_THREAD_IDLE_NS);
	int err = 0;

	SCOPED_LOCK(&lock);
	atomic_store(&asleep, true);
	while (!atomic_load(&registered) && !err)
		err = pthread_cond_timedwait(&wake, &lock, &end);
	atomic_store(&asleep, false);
	if (err)
		atomic_store(&started, false);
	if (atomic_load(&registered))
		atomic_store(&started, true);
	return atomic_load(&started);
}

/* Remove all registered streams from the stack, and record the number of items
 * that each has done. */
static struct stream *take_registered(void)
{
	struct stream *first = atomic_exchange(&registered, NULL), *s;

	for (s = first; s; s = s->next_registered)
		s->noted_done = stream_done(s);
	return first;
}

/* Check a stream.  Return true if items were finished by the check or, unless
 * there are flushed items, since the stream was registered.  Flushed items need
 * no checks, because the worker does them. */
static bool poll_stream(struct stream *s, uint64_t done)
{
	const uint64_t now = stream_done(s);
	const bool has = now != done && !stream_is_flushed(s);

	stream_check_for_poller(s, done);
	return has || stream_done(s) != now;
}

static bool poll_streams(struct stream *first)
{
	struct stream *s, *next;
	bool any = false;
	uint64_t done;

	for (s = first; s; s = next) {
		next = s->next_registered;
		done = s->noted_done;
		/* Clear the flag first: a thread that finds it set relies on a
		 * check that starts afterwards. */
		atomic_store(&s->is_registered, false);
		any = poll_stream(s, done) || any;
	}
	return any;
}

static void *poller_main(void *arg)
{
	struct stream *first;
	long ns = TICK_NS;
	int idle = 0;

	(void)arg;
	stream_count_thread(1);
	for (;;) {
		if (idle == IDLE_TICKS && !sleep_until_registered())
			break;
		first = take_registered();
		idle = first ? 0 : idle + 1;
		sleep_ns(ns);
		if (poll_streams(first) || !first)
			ns = TICK_NS;
		else if (ns < TICK_MOST_NS)
			ns *= 2;
	}
	stream_count_thread(-1);
	return NULL;
}

static void init_wake(void)
{
	clock_cond_init(&wake);
}

static bool start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_t thread;
	bool ok = true;

	pthread_once(&once, init_wake);
	SCOPED_LOCK(&lock);
	if (!atomic_load(&started)) {
		ok = thread_start(&thread, poller_main, NULL, "poller") == 0;
		if (ok)
			pthread_detach(thread);
		atomic_store(&started, ok);
	}
	return ok;
}

static void wake_poller(void)
{
	SCOPED_LOCK(&lock);
	pthread_cond_signal(&wake);
}

bool poller_register(struct stream *s)
{
	struct stream *first;

	if (!atomic_load(&started) && !start())
		return false;
	if (atomic_load(&s->is_registered) ||
	    atomic_exchange(&s->is_registered, true))
		return true;
	first = load_relaxed(&registered);
	do
		s->next_registered = first;
	while (!atomic_compare_exchange_weak(&registered, &first, s));
	if (atomic_load(&asleep))
		wake_poller();
	return atomic_load(&started) || start();
}
