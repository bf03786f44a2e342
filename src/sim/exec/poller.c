/* SPDX-License-Identifier: Apache-2.0 */

/* The thread that looks at streams nobody waits for (see poller.h) */

#include "sim/exec/poller.h"

#include <time.h>

#include "base/scoped_lock.h"
#include "base/thread.h"
#include "sim/exec/scheduler.h"

/* Between looks; longer while nothing comes of them. */
#define TICK_NS 1000000
#define TICK_MOST_NS 8000000

/* Looks in vain before it sleeps. */
#define IDLE_TICKS 50

/* Atomic; streams that were noted since the last tick, each once: a stack to
 * which all push (release) and of which the poller takes all (acquire). */
static struct stream *_Atomic noted;

/* Atomic, seq_cst; the poller sleeps, or is about to.  Set before a last look
 * at what is noted, so that either the poller sees a stream that is being
 * noted, or the thread that notes it sees this. */
static atomic_bool asleep;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Signalled when a stream is noted.  Waits by the monotonic clock. */
static pthread_cond_t wake;

/* Atomic; written under lock.  The poller runs, and will see what is noted from
 * now on.  Seq_cst: cleared before a last look at what is noted, so that either
 * the poller sees a stream that is being noted, or the thread that notes it
 * sees this and starts the poller again. */
static atomic_bool started;

static void tick(long ns)
{
	const struct timespec t = { .tv_nsec = ns };

	nanosleep(&t, NULL);
}

/* Sleep until a stream is noted.  False, and the poller counts as ended, if
 * none is for long. */
static bool sleep_until_noted(void)
{
	const struct timespec end =
		clock_timespec(clock_now() + STREAM_THREAD_IDLE_NS);
	int err = 0;

	SCOPED_LOCK(&lock);
	atomic_store(&asleep, true);
	while (!atomic_load(&noted) && !err)
		err = pthread_cond_timedwait(&wake, &lock, &end);
	atomic_store(&asleep, false);
	if (err)
		atomic_store(&started, false);
	if (atomic_load(&noted))
		atomic_store(&started, true);
	return atomic_load(&started);
}

/* Those that were noted, as they are now. */
static struct stream *take_noted(void)
{
	struct stream *first = atomic_exchange(&noted, NULL), *s;

	for (s = first; s; s = s->next_noted)
		s->noted_done = stream_done(s);
	return first;
}

/* Look at a stream.  True if it has gone on, perhaps because of such looks: not
 * if its work was flushed, which needs none. */
static bool poll_stream(struct stream *s, uint64_t done)
{
	const uint64_t now = stream_done(s);
	const bool has = now != done && !stream_is_flushed(s);

	stream_look_after(s, done);
	return has || stream_done(s) != now;
}

/* True if any of them has gone on. */
static bool poll_streams(struct stream *first)
{
	struct stream *s, *next;
	bool any = false;
	uint64_t done;

	for (s = first; s; s = next) {
		next = s->next_noted;
		done = s->noted_done;
		/* A thread that notes it while it is noted relies on a look
		 * from now on. */
		atomic_store(&s->is_noted, false);
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
		if (idle == IDLE_TICKS && !sleep_until_noted())
			break;
		first = take_noted();
		idle = first ? 0 : idle + 1;
		tick(ns);
		if (poll_streams(first) || !first)
			ns = TICK_NS;
		else if (ns < TICK_MOST_NS)
			ns *= 2;
	}
	stream_count_thread(-1);
	return NULL;
}

static void make_wake(void)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&wake, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

static bool start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_t thread;
	bool ok = true;

	pthread_once(&once, make_wake);
	SCOPED_LOCK(&lock);
	if (!atomic_load(&started)) {
		ok = thread_start(&thread, poller_main, NULL, "poller") == 0;
		if (ok)
			pthread_detach(thread);
		atomic_store(&started, ok);
	}
	return ok;
}

static void rouse(void)
{
	SCOPED_LOCK(&lock);
	pthread_cond_signal(&wake);
}

bool poller_note(struct stream *s)
{
	struct stream *first;

	if (!atomic_load(&started) && !start())
		return false;
	if (atomic_load(&s->is_noted) || atomic_exchange(&s->is_noted, true))
		return true;
	first = load_relaxed(&noted);
	do
		s->next_noted = first;
	while (!atomic_compare_exchange_weak(&noted, &first, s));
	if (atomic_load(&asleep))
		rouse();
	return atomic_load(&started) || start();
}
