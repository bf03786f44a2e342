/* SPDX-License-Identifier: Apache-2.0 */

#include "core/launch_lock.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/process.h"
#include "base/status.h"
#include "base/util.h"
#include "core/clique.h"

/* The threads that stay on one side, and those that wait for it.  A thread
 * waits only while another is inside on another side, or while one is inside
 * on this side and another waits for another side; and on the side of
 * connections while any other is inside. */
struct side {
	unsigned inside, waiting;
	unsigned newest;      /* the number that counted stays have */
	uint64_t entered_ns;  /* when a thread came in last */
	_Atomic uint64_t let; /* how often those who waited were let in, all of
	                         them or the one that came first; written under
	                         the lock, read by them without it */
	uint64_t forgot;      /* what let was when stays were last forgotten */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Guarded by lock. */
static struct side sides[] = { { .newest = 1 },
	                       { .newest = 1 },
	                       { .newest = 1 } };

#define SIDES ((int)ARRAY_SIZE(sides))

/* In the order in which they follow each other. */
static struct side *const launches = &sides[0];
static struct side *const memory = &sides[1];
static struct side *const connections = &sides[2];

/* Atomic.  Relaxed: it orders nothing. */
static _Atomic uint64_t limit_ns = LAUNCH_LOCK_LIMIT_NS;

/* Guarded by lock: the cliques whose windows are open or wait to be opened, in
 * the order in which they came. */
static struct clique *turns;

/* How many turns have ended. */
static struct waited_word turns_ended;

/* The number of a stay that does not count. */
#define FORGOTTEN UINT_MAX

/* This thread's memory sections, and the number of its stay. */
static _Thread_local unsigned depth, stay;

/* The side that this thread waits for, until the side's count is above
 * awaited_from; NULL: it does not wait. */
static _Thread_local struct side *awaited;
static _Thread_local uint64_t awaited_from;

/* The clique whose window this thread is waiting to open, or NULL. */
static _Thread_local struct clique *opening;

void launch_lock_set_limit(uint64_t ns)
{
	atomic_store_explicit(&limit_ns, ns, memory_order_relaxed);
}

unsigned launch_lock_waiting(void)
{
	const struct clique *q;
	unsigned n;

	pthread_mutex_lock(&lock);
	n = launches->waiting + memory->waiting + connections->waiting;
	for (q = turns; q; q = q->next_turn)
		n += !q->has_turn;
	pthread_mutex_unlock(&lock);
	return n;
}

unsigned launch_lock_sections(void)
{
	unsigned n;

	pthread_mutex_lock(&lock);
	n = memory->inside;
	pthread_mutex_unlock(&lock);
	return n;
}

/* ---- under the lock --------------------------------------------------- */

/* The side on which threads are inside, NULL: there are none. */
static struct side *occupied_locked(void)
{
	struct side *s = sides;

	while (s < sides + SIDES && !s->inside)
		s++;
	return s < sides + SIDES ? s : NULL;
}

/* True if threads wait for another side than @s. */
static bool others_wait_locked(const struct side *s)
{
	const struct side *other;
	unsigned n = 0;

	for (other = sides; other < sides + SIDES; other++)
		n += other == s ? 0 : other->waiting;
	return n;
}

/* Let in those who wait for @s, or the one that came first where each stays
 * alone. */
static void let_in_locked(struct side *s)
{
	const unsigned n = s == connections ? 1 : s->waiting;

	s->inside += n;
	s->waiting -= n;
	s->entered_ns = clock_now();
	/* Release: what those who have left did. */
	atomic_fetch_add_explicit(&s->let, 1, memory_order_release);
}

/* Nobody stays on @s any more: let in those who wait for the next side. */
static void go_on_locked(const struct side *s)
{
	struct side *next;
	int i;

	for (i = 1; i <= SIDES; i++) {
		next = &sides[(s - sides + i) % SIDES];
		if (!next->waiting)
			continue;
		let_in_locked(next);
		return;
	}
}

/* True if a newcomer is inside at once. */
static bool come_locked(struct side *s)
{
	const struct side *occupied = occupied_locked();

	if (others_wait_locked(s) ||
	    (occupied && (occupied != s || s == connections))) {
		s->waiting++;
		return false;
	}
	s->inside++;
	s->entered_ns = clock_now();
	return true;
}

static void leave_locked(struct side *s, unsigned number)
{
	if (number == s->newest && --s->inside == 0)
		go_on_locked(s);
}

/* A thread that waits gives up; no thread that is to connect does. */
static void give_up_locked(struct side *s)
{
	struct side *occupied = occupied_locked();

	/* Those on the side that is occupied came after this thread, and wait
	 * for nobody now. */
	s->waiting--;
	if (occupied && occupied != connections && occupied->waiting &&
	    !others_wait_locked(occupied))
		let_in_locked(occupied);
}

/* Forget the stays of a side: from now on they do not count. */
static void forget_locked(struct side *s)
{
	s->inside = 0;
	s->newest++;
	s->forgot = atomic_load_explicit(&s->let, memory_order_relaxed);
	go_on_locked(s);
}

/* ---- waiting ---------------------------------------------------------- */

/* Forget the stays that have kept side @s out for too long. */
static void look_at_limit(const struct side *s)
{
	const uint64_t limit =
		atomic_load_explicit(&limit_ns, memory_order_relaxed);
	struct side *occupied;

	pthread_mutex_lock(&lock);
	occupied = occupied_locked();
	if (s->waiting && occupied && (occupied != s || s == connections) &&
	    clock_now() >= clock_after(occupied->entered_ns, limit))
		forget_locked(occupied);
	pthread_mutex_unlock(&lock);
}

static bool is_let_in(const struct side *s, uint64_t let)
{
	return atomic_load_explicit(&s->let, memory_order_acquire) > let;
}

/* Stop waiting; false if it was let in meanwhile. */
static bool give_up(struct side *s, uint64_t let)
{
	bool gave_up;

	pthread_mutex_lock(&lock);
	gave_up = !is_let_in(s, let);
	if (gave_up)
		give_up_locked(s);
	pthread_mutex_unlock(&lock);
	return gave_up;
}

/* Wait to be let in; false if @q has a cause before. */
static bool await_side(struct side *s, uint64_t let, const struct clique *q)
{
	const uint64_t deadline = clock_deadline(
		atomic_load_explicit(&limit_ns, memory_order_relaxed));
	struct backoff b = BACKOFF;

	while (!is_let_in(s, let)) {
		if (q && clique_cause(q) && give_up(s, let))
			return false;
		if (clock_now() >= deadline)
			look_at_limit(s);
		backoff_wait(&b, UINT64_MAX);
	}
	return true;
}

/* ---- turns ------------------------------------------------------------ */

/* Whether @q waits for the end of the turn of @before, which came first. */
static bool must_follow(const struct clique *q, const struct clique *before)
{
	const uint64_t limit =
		atomic_load_explicit(&limit_ns, memory_order_relaxed);

	return (q->devices & before->devices) &&
	       (!before->opened_ns ||
	        clock_now() < clock_after(before->opened_ns,
	                                  limit / LAUNCH_LOCK_TURNS));
}

/* False: others come first, or the reaper has ended the turn. */
static bool begin_turn(struct clique *q, bool is_new)
{
	struct clique **at = &turns;
	bool is_first = true;

	pthread_mutex_lock(&lock);
	for (; *at && *at != q; at = &(*at)->next_turn)
		is_first = is_first && !must_follow(q, *at);
	if (is_new && !*at) {
		q->next_turn = NULL;
		*at = q;
	}
	q->has_turn = *at && is_first;
	is_first = q->has_turn;
	pthread_mutex_unlock(&lock);
	return is_first;
}

/* Does nothing if there is none. */
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

static unsigned number_of(const struct side *s, uint64_t let);

/* The thread exits, perhaps by cancellation, in a wait or inside a section: end
 * both. */
static void thread_exits(void *unused)
{
	struct side *s = awaited;

	(void)unused;
	if (process_is_forked())
		return; /* the lock may be held by a thread that is not here */
	awaited = NULL;
	if (s && !give_up(s, awaited_from)) {
		const unsigned number = number_of(s, awaited_from);

		pthread_mutex_lock(&lock);
		leave_locked(s, number);
		pthread_mutex_unlock(&lock);
	}
	if (opening)
		end_turn(opening);
	opening = NULL;
	if (depth)
		launch_lock_give(stay);
	depth = 0;
}

/* Constant after the first wait or section; its value in a thread is only there
 * so that the destructor runs. */
static pthread_key_t key;
static bool key_is_made;

static void make_key(void)
{
	key_is_made = pthread_key_create(&key, thread_exits) == 0;
}

/* Where that fails, the limit ends what the thread began. */
static void watch_this_thread(void)
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

/* The number of a stay that began with a wait for the side's count to be above
 * @let. */
static unsigned number_of(const struct side *s, uint64_t let)
{
	unsigned number;

	pthread_mutex_lock(&lock);
	number = let < s->forgot ? FORGOTTEN : s->newest;
	pthread_mutex_unlock(&lock);
	return number;
}

/* Enter a side: returns the number of the stay, or 0 if @q has a cause.  NULL:
 * no cause ends the wait. */
static unsigned enter(struct side *s, const struct clique *q)
{
	unsigned number;
	uint64_t let;
	bool inside;

	watch_this_thread();
	pthread_mutex_lock(&lock);
	let = atomic_load_explicit(&s->let, memory_order_relaxed) +
	      (s == connections ? s->waiting : 0);
	number = s->newest;
	inside = come_locked(s);
	pthread_mutex_unlock(&lock);
	if (inside)
		return number;
	awaited_from = let;
	awaited = s;
	inside = await_side(s, let, q);
	awaited = NULL;
	return inside ? number_of(s, let) : 0;
}

/* ---- launches --------------------------------------------------------- */

/* False if @q has a cause. */
static bool await_turn(struct clique *q)
{
	/* Enough threads that it does not spin on the lock. */
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

	watch_this_thread();
	opening = q;
	number = await_turn(q) ? enter(launches, q) : 0;
	opening = NULL;
	pthread_mutex_lock(&lock);
	/* Under the lock: either a cause is seen here, or the reaper, which
	 * closes after it, finds the window open. */
	is_open = number && !clique_cause(q);
	if (is_open) {
		q->window = number;
		q->opened_ns = clock_now();
	} else if (number) {
		leave_locked(launches, number);
	}
	pthread_mutex_unlock(&lock);
	if (!is_open)
		end_turn(q);
	return is_open ? COHORT_OK : clique_error(q);
}

void launch_lock_close(struct clique *q)
{
	pthread_mutex_lock(&lock);
	if (q->window)
		leave_locked(launches, q->window);
	q->window = 0;
	pthread_mutex_unlock(&lock);
	end_turn(q);
}

/* ---- memory ----------------------------------------------------------- */

int memory_section_check(const char *name)
{
	if (!depth)
		return COHORT_OK;
	return error_set(COHORT_STATE,
	                 "%s: called between cohort_quiet_begin() and "
	                 "cohort_quiet_end(), for which it would wait",
	                 name);
}

unsigned launch_lock_take(void)
{
	return enter(memory, NULL);
}

static void give(struct side *s, unsigned taken)
{
	pthread_mutex_lock(&lock);
	if (taken)
		leave_locked(s, taken);
	pthread_mutex_unlock(&lock);
}

void launch_lock_give(unsigned taken)
{
	give(memory, taken);
}

unsigned launch_lock_take_alone(void)
{
	return enter(connections, NULL);
}

void launch_lock_give_alone(unsigned taken)
{
	give(connections, taken);
}

int memory_section_enter(struct clique *q)
{
	if (!depth)
		stay = enter(memory, q);
	if (!stay)
		return clique_error(q);
	depth++;
	return COHORT_OK;
}

void memory_section_begin(void)
{
	memory_section_enter(NULL);
}

void memory_section_end(void)
{
	if (!--depth)
		launch_lock_give(stay);
}

bool memory_section_is_open(void)
{
	return depth;
}
