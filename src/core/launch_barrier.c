/* SPDX-License-Identifier: Apache-2.0 */

#include "core/launch_barrier.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "core/clique.h"
#include "core/launch_lock.h"

/*
 * The word: above how many ranks are left to launch the collective that was
 * opened last, whether all is cancelled, and the number of the one that was
 * opened.
 */
#define COUNT_BITS 11
#define LEFT UINT64_C(1)
#define GIVEN_UP (LEFT << COUNT_BITS)
#define NUMBER (GIVEN_UP << 1)

_Static_assert(COHORT_MAX_RANKS < 1 << COUNT_BITS, "all ranks can be counted");

static uint64_t left_of(uint64_t word)
{
	return word / LEFT % (1 << COUNT_BITS);
}

/* True if @number or a later one was opened.  The two numbers are never far
 * apart. */
static bool has_opened(uint64_t word, uint64_t number)
{
	return (int64_t)(word / NUMBER * NUMBER - number * NUMBER) >= 0;
}

static uint64_t load_word(const struct clique *q)
{
	/* Acquire: what the others did before they were counted in. */
	return atomic_load_explicit(&q->opened.word, memory_order_acquire);
}

/* Replace *@word by @with; false: the word was another, which is in *@word
 * now. */
static bool swap(struct clique *q, uint64_t *word, uint64_t with)
{
	return atomic_compare_exchange_weak(&q->opened.word, word, with);
}

/* False if a rank has cancelled it. */
static bool set_opened(struct clique *q, uint64_t number)
{
	const uint64_t with = number * NUMBER | (uint64_t)q->size * LEFT;
	uint64_t word = load_word(q);

	do
		if (word & GIVEN_UP)
			return false;
	while (!swap(q, &word, with));
	backoff_wake(&q->opened);
	return true;
}

/* False if the collective was opened first. */
static bool cancel(struct clique *q, uint64_t number)
{
	uint64_t word = load_word(q);

	do
		if (has_opened(word, number))
			return false;
	while (!swap(q, &word, word | GIVEN_UP));
	return true;
}

/* Constant while any call is under way. */
static void (*pause_before)(void);

void launch_barrier_set_pause(void (*pause)(void))
{
	pause_before = pause;
}

static int open_for_all(struct clique *q, uint64_t number)
{
	int rc = launch_lock_open(q);

	if (rc != COHORT_OK) {
		cancel(q, number);
		return rc;
	}
	if (pause_before)
		pause_before();
	if (set_opened(q, number))
		return COHORT_OK;
	launch_lock_close(q);
	return clique_error(q);
}

/* A rank that waits inside a call returns here at a cause; one that waits in
 * cohort_wait() returns from clique_end_status(). */
static int await_opened(struct clique *q, uint64_t number, uint64_t deadline_ns)
{
	struct backoff b = backoff_among(q->world_size);
	uint64_t word;

	while (word = load_word(q), !has_opened(word, number)) {
		if (clique_cause(q) && cancel(q, number))
			return clique_error(q);
		if (deadline_ns != COHORT_FOREVER && clock_now() >= deadline_ns)
			return COHORT_TIMED_OUT;
		backoff_wait_on(&b, deadline_ns, &q->opened, word);
	}
	return COHORT_OK;
}

/* For the watchdog.  Relaxed: the watchdog looks again. */
static void set_meeting(struct cohort_comm *comms, int n, uint64_t number)
{
	while (n--)
		atomic_store_explicit(&comms[n].agreement.meeting, number,
		                      memory_order_relaxed);
}

int launch_barrier_await(struct cohort_comm *comms, int n, uint64_t number,
                         bool comes_last, uint64_t deadline_ns)
{
	struct clique *q = comms->clique;
	int rc;

	set_meeting(comms, n, number);
	rc = comes_last ? open_for_all(q, number)
	                : await_opened(q, number, deadline_ns);
	if (rc != COHORT_TIMED_OUT)
		set_meeting(comms, n, 0);
	return rc;
}

void launch_barrier_leave(struct clique *q, int n)
{
	/* seq_cst, for backoff_wake(); and the last one closes after all have
	 * launched. */
	const uint64_t word =
		atomic_fetch_sub(&q->opened.word, (uint64_t)n * LEFT);

	if (left_of(word) != (uint64_t)n)
		return;
	backoff_wake(&q->opened);
	launch_lock_close(q);
}

static bool have_launched(uint64_t word, uint64_t number)
{
	return !left_of(word) || has_opened(word, number + 1);
}

void launch_barrier_await_launched(const struct cohort_comm *c,
                                   uint64_t deadline_ns)
{
	struct clique *q = c->clique;
	const uint64_t number = atomic_load_explicit(&c->agreement.collectives,
	                                             memory_order_relaxed);
	struct backoff b = backoff_among(q->world_size);
	uint64_t word;

	while (word = load_word(q),
	       !have_launched(word, number) && !clique_cause(q)) {
		if (deadline_ns != COHORT_FOREVER && clock_now() >= deadline_ns)
			return;
		backoff_wait_on(&b, deadline_ns, &q->opened, word);
	}
}
