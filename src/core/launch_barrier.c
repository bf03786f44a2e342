/* SPDX-License-Identifier: Apache-2.0 */

#include "core/launch_barrier.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "core/clique.h"
#include "core/launch_lock.h"

/*
 * The fields of the word, from the low bits up: the number of ranks that have
 * not launched the last opened collective yet; whether a rank has canceled the
 * next collective; and the number of the last opened collective.
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

/* Return true if @number or a later collective was opened.  Truncated numbers
 * suffice, because the compared numbers are never far apart. */
static bool has_opened(uint64_t word, uint64_t number)
{
	return (int64_t)(word / NUMBER * NUMBER - number * NUMBER) >= 0;
}

static uint64_t load_word(const struct clique *q)
{
	/* The acquire shows this rank what other ranks did before they were
	 * counted. */
	return atomic_load_explicit(&q->opened.word, memory_order_acquire);
}

/* Set the word to @with if its value is *@word.  Otherwise return false and
 * load its value into *@word. */
static bool swap(struct clique *q, uint64_t *word, uint64_t with)
{
	return atomic_compare_exchange_weak(&q->opened.word, word, with);
}

/* Open the collective.  Return false if a rank has canceled it. */
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

/* Cancel the collective.  Return false if it was opened first. */
static bool cancel(struct clique *q, uint64_t number)
{
	uint64_t word = load_word(q);

	do
		if (has_opened(word, number))
			return false;
	while (!swap(q, &word, word | GIVEN_UP));
	return true;
}

int launch_barrier_open(struct clique *q, uint64_t number)
{
	if (set_opened(q, number))
		return COHORT_OK;
	launch_lock_close(q);
	return clique_error(q);
}

static int open_for_all(struct clique *q, uint64_t number)
{
	int rc = launch_lock_open(q);

	if (rc == COHORT_OK)
		return launch_barrier_open(q, number);
	cancel(q, number);
	return rc;
}

/* Wait until the collective is opened.  Return COHORT_OK, COHORT_TIMED_OUT, or
 * the status of the clique's cause if this rank cancels the collective. */
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

/* Show the watchdog that these ranks wait for others.  Relaxed, because the
 * watchdog samples the value periodically. */
static void publish_waiting(struct cohort_comm *comms, int n, uint64_t number)
{
	while (n--)
		atomic_store_explicit(&comms[n].agreement.meeting, number,
		                      memory_order_relaxed);
}

int launch_barrier_await(struct cohort_comm *comms, int n, uint64_t number,
                         bool arrives_last, uint64_t deadline_ns)
{
	struct clique *q = comms->clique;
	int rc;

	publish_waiting(comms, n, number);
	rc = arrives_last ? open_for_all(q, number)
	                  : await_opened(q, number, deadline_ns);
	if (rc != COHORT_TIMED_OUT)
		publish_waiting(comms, n, 0);
	return rc;
}

void launch_barrier_leave(struct clique *q, int n)
{
	/* seq_cst, because backoff_wake() needs it, and so that the last rank
	 * closes the window after all ranks have launched. */
	const uint64_t word =
		atomic_fetch_sub(&q->opened.word, (uint64_t)n * LEFT);

	if (left_of(word) != (uint64_t)n)
		return;
	backoff_wake(&q->opened);
	launch_lock_close(q);
}

static bool all_have_launched(uint64_t word, uint64_t number)
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
	       !all_have_launched(word, number) && !clique_cause(q)) {
		if (deadline_ns != COHORT_FOREVER && clock_now() >= deadline_ns)
			return;
		backoff_wait_on(&b, deadline_ns, &q->opened, word);
	}
}
