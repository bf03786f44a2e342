/* SPDX-License-Identifier: Apache-2.0 */

#include "core/launch_lock.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/process.h"
#include "base/scoped_lock.h"
#include "base/status.h"
#include "base/thread.h"
#include "base/util.h"
#include "core/clique.h"

/* One side of the lock.  A thread waits only while another side is occupied or
 * has waiting threads.  A thread that connects ranks also waits while another
 * thread is connecting ranks.  A stay lasts from the time a thread is admitted
 * to a side until it leaves. */
struct side {
	unsigned inside;  /* number of threads on this side */
	unsigned waiting; /* number of threads that wait to enter it */
	/* Number shared by all current stays on this side, and used by no other
	 * side.  Stays with other numbers have expired (rule D). */
	unsigned newest;
	uint64_t entered_ns; /* time at which a thread last entered */
	/* Number of times that waiting threads were admitted.  Written with the
	 * lock held; waiting threads read it without the lock. */
	_Atomic uint64_t admitted;
	/* Value of @admitted when stays last expired (rule D). */
	uint64_t admitted_at_expiry;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The three sides of the lock.  Guarded by lock. */
static struct side sides[] = { { .newest = 1 },
	                       { .newest = 2 },
	                       { .newest = 3 } };

#define SIDES ((int)ARRAY_SIZE(sides))

/* The last number assigned to stays.  Guarded by lock. */
static unsigned numbers = SIDES;

/* The sides, in the order in which they are admitted (rule B). */
static struct side *const launches = &sides[0];
static struct side *const memory = &sides[1];
static struct side *const connections = &sides[2];

_Atomic uint64_t launch_lock_limit_ns = LAUNCH_LOCK_NS;

/* Queue of the cliques whose windows are open or wait to open, oldest first.
 * Guarded by lock. */
static struct clique *turns;

static struct waited_word turns_ended;

/* Number of any stay that has expired (rule D). */
#define EXPIRED UINT_MAX

/* Nesting depth of this thread's memory sections, and the number of its stay in
 * the lock. */
static _Thread_local unsigned depth, stay;

/* Atomic, relaxed, for diagnostics only: see memory_section_thread(). */
static atomic_int section_tid;

/* The side that this thread waits for, or NULL. */
static _Thread_local struct side *awaited;
/* The thread waits until the side's @admitted is greater than this. */
static _Thread_local uint64_t awaited_from;

/* The clique whose window this thread is waiting to open, or NULL. */
static _Thread_local struct clique *opening;

unsigned launch_lock_waiting(void)
{
	const struct clique *q;
	unsigned n;

	SCOPED_LOCK(&lock);
	n = launches->waiting + memory->waiting + connections->waiting;
	for (q = turns; q; q = q->next_turn)
		n += !q->has_turn;
	return n;
}

unsigned launch_lock_sections(void)
{
	SCOPED_LOCK(&lock);
	return memory->inside;
}

/* ---- with the lock held ----------------------------------------------- */

/* Return the side on which threads are inside, or NULL. */
static struct side *occupied_locked(void)
{
	struct side *s = sides;

	while (s < sides + SIDES && !s->inside)
		s++;
	return s < sides + SIDES ? s : NULL;
}

static bool other_side_waits_locked(const struct side *s)
{
	const struct side *other;
	unsigned n = 0;

	for (other = sides; other < sides + SIDES; other++)
		n += other == s ? 0 : other->waiting;
	return n;
}

/* Admit all threads that wait for @s.  If @s is the side of connections, admit
 * only the thread that has waited longest. */
static void admit_locked(struct side *s)
{
	const unsigned n = s == connections ? 1 : s->waiting;

	s->inside += n;
	s->waiting -= n;
	s->entered_ns = clock_now();
	/* The release publishes the work of the threads that have left the
	 * lock. */
	atomic_fetch_add_explicit(&s->admitted, 1, memory_order_release);
}

/* Admit the threads of the next side, because @s is empty. */
static void admit_next_locked(const struct side *s)
{
	struct side *next;
	int i;

	for (i = 1; i <= SIDES; i++) {
		next = &sides[(s - sides + i) % SIDES];
		if (!next->waiting)
			continue;
		admit_locked(next);
		return;
	}
}

/* Enter a side, or count the thread as waiting.  Return true if the thread is
 * inside. */
static bool enter_or_wait_locked(struct side *s)
{
	const struct side *occupied = occupied_locked();

	if (other_side_waits_locked(s) ||
	    (occupied && (occupied != s || s == connections))) {
		s->waiting++;
		return false;
	}
	s->inside++;
	s->entered_ns = clock_now();
	return true;
}

/* End a stay.  Does nothing if it has expired. */
static void leave_locked(unsigned number)
{
	struct side *s;

	for (s = sides; s < sides + SIDES; s++)
		if (number == s->newest && --s->inside == 0)
			admit_next_locked(s);
}

/* Stop waiting for a side, which must not be the side of connections. */
static void stop_waiting_locked(struct side *s)
{
	struct side *occupied = occupied_locked();

	/* Threads that queued on the occupied side, because this thread was
	 * waiting for another side, may be able to enter now. */
	s->waiting--;
	if (occupied && occupied != connections && occupied->waiting &&
	    !other_side_waits_locked(occupied))
		admit_locked(occupied);
}

/* Expire all stays on a side (rule D). */
static void expire_locked(struct side *s)
{
	s->inside = 0;
	s->newest = ++numbers;
	s->admitted_at_expiry =
		atomic_load_explicit(&s->admitted, memory_order_relaxed);
	admit_next_locked(s);
}

/* ---- waiting ---------------------------------------------------------- */

/* If threads wait for side @s, and no thread has entered the side that blocks
 * them within the limit, expire all stays on that side (rule D). */
static void expire_stays(const struct side *s)
{
	const uint64_t limit = atomic_load(&launch_lock_limit_ns);
	struct side *occupied;

	SCOPED_LOCK(&lock);
	occupied = occupied_locked();
	if (s->waiting && occupied && (occupied != s || s == connections) &&
	    clock_now() >= clock_after(occupied->entered_ns, limit))
		expire_locked(occupied);
}

static bool is_admitted(const struct side *s, uint64_t admitted)
{
	return atomic_load_explicit(&s->admitted, memory_order_acquire) >
	       admitted;
}

/* Stop waiting.  Return false if the thread was admitted first. */
static bool stop_waiting(struct side *s, uint64_t admitted)
{
	SCOPED_LOCK(&lock);
	if (is_admitted(s, admitted))
		return false;
	stop_waiting_locked(s);
	return true;
}

/* Wait to be admitted.  Return false if @q gets a cause first. */
static bool await_side(struct side *s, uint64_t admitted,
                       const struct clique *q)
{
	const uint64_t deadline =
		clock_deadline(atomic_load(&launch_lock_limit_ns));
	struct backoff b = BACKOFF;

	while (!is_admitted(s, admitted)) {
		if (q && clique_cause(q) && stop_waiting(s, admitted))
			return false;
		if (clock_now() >= deadline)
			expire_stays(s);
		backoff_wait(&b, UINT64_MAX);
	}
	return true;
}

/* ---- turns ------------------------------------------------------------ */

/* Return true if @q must wait for the turn of @before, which is earlier in the
 * queue. */
static bool must_follow(const struct clique *q, const struct clique *before)
{
	const uint64_t limit = atomic_load(&launch_lock_limit_ns);

	return (q->devices & before->devices) &&
	       (!before->opened_ns ||
	        clock_now() < clock_after(before->opened_ns,
	                                  limit / LAUNCH_LOCK_TURNS));
}

/* Queue @q if it is new, and begin its turn if possible.  Return false if
 * another clique must come first, or if the reaper has ended the turn. */
static bool begin_turn(struct clique *q, bool is_new)
{
	struct clique **at = &turns;
	bool is_first = true;

	SCOPED_LOCK(&lock);
	for (; *at && *at != q; at = &(*at)->next_turn)
		is_first = is_first && !must_follow(q, *at);
	if (is_new && !*at) {
		q->next_turn = NULL;
		*at = q;
	}
	q->has_turn = *at && is_first;
	return q->has_turn;
}

static void end_turn(struct clique *q)
{
	pthread_mutex_lock(&lock);
	list_remove(turns, q, next_turn);
	q->has_turn = false;
	q->opened_ns = 0;
	pthread_mutex_unlock(&lock);
	atomic_fetch_add(&turns_ended.word, 1);
	backoff_wake(&turns_ended);
}

/* ---- threads that exit ------------------------------------------------- */

static unsigned number_of(const struct side *s, uint64_t admitted);

static void end_section(void)
{
	int tid = thread_id();

	atomic_compare_exchange_strong_explicit(&section_tid, &tid, 0,
	                                        memory_order_relaxed,
	                                        memory_order_relaxed);
	launch_lock_end(stay);
}

/* End the wait, the turn and the section of an exiting thread.  The thread may
 * have been canceled in the middle of a wait. */
static void thread_exits(void *unused)
{
	struct side *s = awaited;

	(void)unused;
	if (process_is_forked())
		return; /* in a forked child, the lock may stay held */
	awaited = NULL;
	if (s && !stop_waiting(s, awaited_from))
		launch_lock_end(number_of(s, awaited_from));
	if (opening)
		end_turn(opening);
	opening = NULL;
	if (depth)
		end_section();
	depth = 0;
}

/* Key whose destructor, thread_exits(), makes an exiting thread release the
 * lock.  Created by the first thread that enters the lock or waits for it, and
 * constant from then on.  The value does not matter, but the destructor runs
 * only if it is not NULL. */
static pthread_key_t key;
static bool key_is_made;

static void make_key(void)
{
	key_is_made = pthread_key_create(&key, thread_exits) == 0;
}

/* Have thread_exits() called when this thread exits.  If that fails, the
 * thread's stay on a side expires at the limit (rule D). */
static void end_stays_at_exit(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	static _Thread_local bool is_watched;

	if (is_watched)
		return;
	is_watched = true;
	pthread_once(&once, make_key);
	if (key_is_made)
		pthread_setspecific(key, &is_watched);
}

/* ---- entering ---------------------------------------------------------- */

/* Return the number of this thread's stay, or EXPIRED if the stay has expired.
 * The thread was admitted when the side's counter exceeded @admitted. */
static unsigned number_of(const struct side *s, uint64_t admitted)
{
	SCOPED_LOCK(&lock);
	return admitted < s->admitted_at_expiry ? EXPIRED : s->newest;
}

/* Enter a side.  Return the number of the stay, or 0 if @q gets a cause first.
 * @q may be NULL. */
static unsigned enter_side(struct side *s, const struct clique *q)
{
	unsigned number;
	uint64_t admitted;
	bool inside;

	end_stays_at_exit();
	pthread_mutex_lock(&lock);
	admitted = atomic_load_explicit(&s->admitted, memory_order_relaxed) +
	           (s == connections ? s->waiting : 0);
	number = s->newest;
	inside = enter_or_wait_locked(s);
	pthread_mutex_unlock(&lock);
	if (inside)
		return number;
	awaited_from = admitted;
	awaited = s;
	inside = await_side(s, admitted, q);
	awaited = NULL;
	return inside ? number_of(s, admitted) : 0;
}

/* ---- launch windows --------------------------------------------------- */

/* Wait for the turn of @q.  Return false if @q gets a cause first. */
static bool await_turn(struct clique *q)
{
	/* INT_MAX makes the backoff never spin, because spinning would contend
	 * for the lock. */
	struct backoff b = backoff_among(INT_MAX);
	uint64_t seen = atomic_load(&turns_ended.word);
	bool has_begun = begin_turn(q, true);

	while (!has_begun && !clique_cause(q)) {
		backoff_wait_on(&b, UINT64_MAX, &turns_ended, seen);
		seen = atomic_load(&turns_ended.word);
		has_begun = begin_turn(q, false);
	}
	return has_begun;
}

int launch_lock_open(struct clique *q)
{
	unsigned number;
	bool is_open;

	end_stays_at_exit();
	opening = q;
	number = await_turn(q) ? enter_side(launches, q) : 0;
	opening = NULL;
	pthread_mutex_lock(&lock);
	/* Check for a cause with the lock held.  Either this thread sees the
	 * cause here, or the reaper, which closes windows after a cause, finds
	 * this window open. */
	is_open = number && !clique_cause(q);
	if (is_open) {
		q->window = number;
		q->opened_ns = clock_now();
	} else if (number) {
		leave_locked(number);
	}
	pthread_mutex_unlock(&lock);
	if (!is_open)
		end_turn(q);
	return is_open ? COHORT_OK : clique_error(q);
}

void launch_lock_close(struct clique *q)
{
	pthread_mutex_lock(&lock);
	leave_locked(q->window);
	q->window = 0;
	pthread_mutex_unlock(&lock);
	end_turn(q);
}

/* ---- memory sections and connections ---------------------------------- */

int memory_section_check(const char *name)
{
	if (!depth)
		return COHORT_OK;
	return error_set(
		COHORT_STATE,
		"%s must not be called between cohort_quiet_begin() and "
		"cohort_quiet_end(): it waits until this section ends",
		name);
}

unsigned launch_lock_begin_section(void)
{
	return enter_side(memory, NULL);
}

unsigned launch_lock_begin_connection(void)
{
	return enter_side(connections, NULL);
}

void launch_lock_end(unsigned number)
{
	SCOPED_LOCK(&lock);
	leave_locked(number);
}

int memory_section_enter(struct clique *q)
{
	if (!depth)
		stay = enter_side(memory, q);
	if (!stay)
		return clique_error(q);
	if (!depth++)
		atomic_compare_exchange_strong_explicit(
			&section_tid, &(int){ 0 }, thread_id(),
			memory_order_relaxed, memory_order_relaxed);
	return COHORT_OK;
}

void memory_section_begin(void)
{
	memory_section_enter(NULL);
}

void memory_section_end(void)
{
	if (!--depth)
		end_section();
}

bool memory_section_is_open(void)
{
	return depth;
}

int memory_section_thread(void)
{
	return atomic_load_explicit(&section_tid, memory_order_relaxed);
}
