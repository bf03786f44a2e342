/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How a clique ends: its cause, its states, and what those who wait are told
 */

#include <stdarg.h>
#include <stdio.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "core/clique.h"
#include "core/explain.h"

/* ---- the cause -------------------------------------------------------- */

const struct cohort_cause *clique_cause(const struct clique *q)
{
	return cause_look(q->end);
}

const struct cohort_cause *clique_explained_cause(struct clique *q)
{
	if (!clique_cause(q))
		return NULL;
	clique_record_completions(q);
	return clique_cause(q);
}

int clique_error(struct clique *q)
{
	return cause_error(clique_explained_cause(q));
}

int clique_fire(struct clique *q, const struct cohort_cause *cause,
                const char *format, ...)
{
	struct cohort_cause what = *cause;
	va_list args;

	what.world_rank = clique_world(q, cause->rank);
	va_start(args, format);
	text_vadd(&(struct text){ what.text, sizeof(what.text) }, format, args);
	va_end(args);
	return cause_set(q->end, &what);
}

/* ---- the end ---------------------------------------------------------- */

bool clique_move(struct clique *q, int from, int to)
{
	/* Release: what was done in the old state.  Pairs with the acquire in
	 * clique_update_state(). */
	return atomic_compare_exchange_strong(&q->state, &from, to);
}

/* Noting blocks on nothing, so that this wait is as short. */
static enum clique_state state_once_noted(struct clique *q)
{
	struct backoff b = BACKOFF;
	int state;

	/* Acquire: what was done before the state was reached. */
	while ((state = atomic_load_explicit(
			&q->state, memory_order_acquire)) == CLIQUE_NOTING)
		backoff_wait(&b, UINT64_MAX);
	return (enum clique_state)state;
}

static void note_rank(struct cohort_comm *c)
{
	const uint64_t slots = c->clique->slots;
	uint64_t ticket, slot, k;
	uint32_t word;

	/* seq_cst: not before the move to NOTING, or a waiter could find done
	 * and live what is not in the notes.  The last ticket first: when it
	 * was given out, its slot's former operation was done. */
	c->tickets.last_then = atomic_load(&c->tickets.last);
	c->tickets.was_blocked = atomic_load(&c->thread.waits) >
	                                 atomic_load(&c->thread.waits_ended) ||
	                         atomic_load(&c->lock.held) ||
	                         atomic_load(&c->lock.staging_thread);
	for (k = 0; k < slots && k < c->tickets.last_then; k++) {
		ticket = c->tickets.last_then - k;
		slot = ticket & (slots - 1);
		word = __atomic_load_n(&c->tickets.done[slot],
		                       __ATOMIC_SEQ_CST);
		if ((int32_t)(word - (uint32_t)ticket) >= 0)
			c->tickets.done_then[slot / 64] |= UINT64_C(1)
			                                   << slot % 64;
	}
}

void clique_record_completions(struct clique *q)
{
	int r;

	if (!clique_move(q, CLIQUE_LIVE, CLIQUE_NOTING)) {
		/* No flag may be raised before the notes are complete. */
		state_once_noted(q);
		return;
	}
	for (r = 0; r < q->size; r++)
		note_rank(&q->comms[r]);
	explain(q);
	clique_move(q, CLIQUE_NOTING, CLIQUE_NOTED);
}

static bool abort_is_overdue(const struct clique *q)
{
	const struct cohort_cause *cause = cause_or_closing(q->end);

	return cause && clock_now() - cause->time_ns > q->deadlines.abort_ns;
}

enum clique_state clique_update_state(struct clique *q)
{
	enum clique_state state = state_once_noted(q);

	while (state < CLIQUE_QUIESCED && abort_is_overdue(q)) {
		if (state == CLIQUE_LIVE)
			clique_record_completions(q);
		else if (clique_move(q, state, CLIQUE_WEDGED))
			return CLIQUE_WEDGED;
		state = state_once_noted(q);
	}
	return state;
}

int clique_end_status(const struct clique *q, enum clique_state state)
{
	const struct cohort_cause *cause;

	if (state < CLIQUE_QUIESCED)
		return COHORT_TIMED_OUT;
	/* Loaded after the state: it was set before. */
	cause = clique_cause(q);
	if (!cause)
		return error_set(COHORT_STATE, "the group was closed");
	if (state == CLIQUE_WEDGED)
		return error_set(
			COHORT_WEDGED,
			"the abort did not complete within %llu ms: %s",
			(unsigned long long)(q->deadlines.abort_ns / 1000000),
			cause->text);
	return cause_error(cause);
}

int clique_await_answer(struct clique *q)
{
	struct backoff b = BACKOFF;
	int rc;

	while ((rc = clique_end_status(q, clique_update_state(q))) ==
	       COHORT_TIMED_OUT)
		backoff_wait(&b, UINT64_MAX);
	return rc;
}

enum clique_state clique_await(struct clique *q, enum clique_state state,
                               uint64_t deadline_ns)
{
	struct backoff b = BACKOFF;
	enum clique_state now;

	while ((now = clique_update_state(q)) < state &&
	       clock_now() < deadline_ns)
		backoff_wait(&b, deadline_ns);
	return now;
}

/* ---- communicators of a split that has failed ------------------------- */

/* What q->orphans is once nothing can be left any more. */
static ncclComm_t no_orphans[1];

bool clique_leave_orphans(struct clique *q, ncclComm_t *natives)
{
	ncclComm_t *none = NULL;

	return atomic_compare_exchange_strong(&q->orphans, &none, natives);
}

bool clique_reclaim_orphans(struct clique *q, ncclComm_t *natives)
{
	return atomic_compare_exchange_strong(&q->orphans, &natives, NULL);
}

ncclComm_t *clique_take_orphans(struct clique *q)
{
	ncclComm_t *natives = atomic_exchange(&q->orphans, no_orphans);

	return natives == no_orphans ? NULL : natives;
}
