/* SPDX-License-Identifier: Apache-2.0 */

/* The end of a clique: its cause, its states, and the results for waiting
 * callers */

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "core/clique.h"

const struct cohort_cause *clique_cause(const struct clique *q)
{
	return cause_peek(q->end);
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

bool clique_set_state(struct clique *q, int from, int to)
{
	/* seq_cst, which includes a release: it publishes the stores made in
	 * the old state, and pairs with the acquire in await_noted(). */
	return atomic_compare_exchange_strong(&q->state, &from, to);
}

/* Wait while the clique is NOTING, and return the state.  The wait is short,
 * because taking the snapshot never blocks. */
static enum clique_state await_noted(struct clique *q)
{
	struct backoff b = BACKOFF;
	int state;

	/* The acquire shows this thread everything that was done before the
	 * state was reached. */
	while ((state = atomic_load_explicit(
			&q->state, memory_order_acquire)) == CLIQUE_NOTING)
		backoff_wait(&b, UINT64_MAX);
	return (enum clique_state)state;
}

static void record_rank_completions(struct cohort_comm *c)
{
	const uint64_t slots = c->clique->slots;
	uint64_t ticket, slot, k;
	uint32_t word;

	/* seq_cst, so that these loads come after the move to NOTING. Otherwise
	 * a waiter could see an operation as done while the clique is still
	 * LIVE, and the snapshot could record it as not done.  Load the last
	 * ticket before the words: a ticket is given out only after the
	 * previous operation in its slot is done. */
	c->tickets.last_then = atomic_load(&c->tickets.last);
	c->tickets.was_blocked = atomic_load(&c->thread.waits) >
	                                 atomic_load(&c->thread.waits_ended) ||
	                         atomic_load(&c->thread.helpers) ||
	                         atomic_load(&c->lock.held) ||
	                         atomic_load(&c->lock.holders) ||
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

/* Maximum number of groups of ranks that an explanation describes. */
#define MAX_SIDES 3

struct doing {
	bool unfinished;
	char text[320];
};

/* Return the number of the collective with @ticket.  Return 0 if the operation
 * is not a collective, or if its record was overwritten. */
static uint64_t collective_of(const struct cohort_comm *c, uint64_t ticket)
{
	uint64_t number = agree_called(c), n = c->clique->slots;

	for (; number && n; number--, n--)
		if (agree_has(c, number) &&
		    atomic_load(&agree_slot(c, number)->ticket) == ticket)
			return number;
	return 0;
}

/* Find the oldest call that was not done.  Return false if all calls were
 * done. */
static bool find_unfinished(const struct cohort_comm *c, struct record *r)
{
	uint64_t last = c->tickets.last_then, slots = c->clique->slots;
	uint64_t ticket = last > slots ? last - slots + 1 : 1;

	for (; ticket <= last; ticket++)
		if (!comm_ticket_was_done(c, ticket) &&
		    recorder_read(&c->recorder, ticket, r))
			return true;
	/* The call of a thread that is inside the communicator has no ticket
	 * yet. */
	return atomic_load(&c->lock.held) &&
	       recorder_read(&c->recorder, last + 1, r) &&
	       r->outcome == COHORT_TIMED_OUT;
}

static void add_call(struct text *t, const struct cohort_comm *c,
                     const struct record *r)
{
	uint64_t number = collective_of(c, r->ticket);

	record_add(t, r);
	text_add(t, number ? " (collective %llu)" : " (ticket %llu)",
	         (unsigned long long)(number ? number : r->ticket));
}

static void find_doing(const struct cohort_comm *c, struct doing *out)
{
	struct text t = { out->text, sizeof(out->text) };
	struct record r;

	out->unfinished = find_unfinished(c, &r);
	if (out->unfinished) {
		text_add(&t, "in ");
		add_call(&t, c, &r);
	} else if (recorder_read(&c->recorder, c->tickets.last_then, &r)) {
		text_add(&t, "between calls, after ");
		add_call(&t, c, &r);
	} else {
		text_add(&t, "without a call so far");
	}
}

/* Append all unreported ranks that were doing the same as @first, and what they
 * were doing.  Add them to @reported. */
static void add_side(struct text *t, const struct clique *q,
                     const struct cohort_comm *first, uint64_t *reported)
{
	uint64_t side[COHORT_RANK_WORDS] = { 0 };
	struct doing doing, other;
	int i;

	find_doing(first, &doing);
	for (i = 0; i < q->size; i++) {
		if (rank_set_has(reported, i))
			continue;
		find_doing(&q->comms[i], &other);
		if (strcmp(other.text, doing.text) != 0)
			continue;
		rank_set_add(reported, i);
		rank_set_add(side, q->comms[i].rank);
	}
	text_add(t, " ");
	clique_add_ranks(t, q, side);
	text_add(t, " %s", doing.text);
}

/* Return the first rank that is not in @reported, preferably one with an
 * unfinished call.  Return NULL if all ranks are in @reported. */
static const struct cohort_comm *find_unreported(const struct clique *q,
                                                 const uint64_t *reported)
{
	const struct cohort_comm *first = NULL;
	struct doing doing;
	int i;

	for (i = 0; i < q->size; i++) {
		if (rank_set_has(reported, i))
			continue;
		find_doing(&q->comms[i], &doing);
		if (doing.unfinished)
			return &q->comms[i];
		if (!first)
			first = &q->comms[i];
	}
	return first;
}

#define UNKNOWN "; no information about "

/* Write the words that introduce the description of @q's ranks in a cause's
 * text. */
static void write_heading(const struct clique *q, char *out, size_t size)
{
	struct text t = { out, size };

	if (clique_is_child(q))
		text_add(&t, "; when \"%s\" ended:", q->name);
	else
		text_add(&t, "; when the group ended:");
}

/* Check whether the cause's @text already describes ranks of @q, because it
 * came from another process, which described its own ranks.  If so, remove the
 * final note about ranks without information, and return the number of ranks in
 * the note, or 0 if there is no note.  Return -1 if @text describes no ranks of
 * @q. */
static int cut_unknown(const struct clique *q, char *text)
{
	char heading[sizeof(q->name) + 32] = "";
	char *unknown = strstr(text, UNKNOWN);

	write_heading(q, heading, sizeof(heading));
	if (!strstr(text, heading))
		return -1;
	if (!unknown)
		return 0;
	*unknown = '\0';
	return (int)strtol(unknown + strlen(UNKNOWN), NULL, 10);
}

/* Append what the ranks were doing, one entry for each set of ranks that were
 * doing the same, up to MAX_SIDES entries.  Start with the set of @rank if that
 * rank is in this process.
 * @others: number of ranks that the text does not describe yet, or -1 if it
 *          describes no rank */
static void add_sides(struct text *t, const struct clique *q, int rank,
                      int others)
{
	uint64_t reported[COHORT_RANK_WORDS] = { 0 };
	const struct cohort_comm *first = clique_rank(q, rank);
	const bool is_first = others < 0;
	char heading[sizeof(q->name) + 32] = "";
	int sides;

	if (!first)
		first = find_unreported(q, reported);
	if (first && is_first) {
		write_heading(q, heading, sizeof(heading));
		text_add(t, "%s", heading);
	}
	for (sides = 0; first && sides < MAX_SIDES; sides++) {
		text_add(t, sides || !is_first ? ";" : "");
		add_side(t, q, first, reported);
		first = find_unreported(q, reported);
	}
	if (first)
		text_add(t, "; the other ranks are omitted");
	others = (is_first ? q->world_size : others) - q->size;
	if (others > 0 &&
	    cause_peek(q->end)->kind != COHORT_VERDICT_PROCESS_EXITED)
		text_add(t,
		         UNKNOWN "%d of %d ranks, which are in other processes",
		         others, q->world_size);
}

/*
 * Add to the cause what the ranks were doing when the clique ended, because a
 * signal handler that ends a clique can record only the reason.  Do nothing if
 * the text already names a call.  Called in state NOTING by the thread that
 * takes the snapshot.
 */
static void explain(struct clique *q)
{
	struct cohort_abort *end = q->end;
	const struct cohort_cause *cause = cause_peek(end);
	size_t used;
	int others;

	/* These causes need no explanation: the watchdog describes stalls
	 * itself, and the cause of a failed operation names the operation. */
	if (!cause || cause->status == COHORT_STALLED ||
	    (cause->ticket && cause->kind != COHORT_VERDICT_ABORTED))
		return;
	end->explained = *cause;
	others = cut_unknown(q, end->explained.text);
	used = strlen(end->explained.text);
	add_sides(&(struct text){ end->explained.text + used,
	                          sizeof(end->explained.text) - used },
	          q, cause->rank, others);
	cause_set_explained(end);
}

void clique_record_completions(struct clique *q)
{
	int r;

	if (!clique_set_state(q, CLIQUE_LIVE, CLIQUE_NOTING)) {
		/* No abort flag may be raised before the snapshot is
		 * complete. */
		await_noted(q);
		return;
	}
	for (r = 0; r < q->size; r++)
		record_rank_completions(&q->comms[r]);
	explain(q);
	clique_set_state(q, CLIQUE_NOTING, CLIQUE_NOTED);
}

static bool abort_is_overdue(const struct clique *q)
{
	const struct cohort_cause *cause = cause_or_closing(q->end);

	return cause && clock_now() - cause->time_ns > q->deadlines.abort_ns;
}

enum clique_state clique_update_state(struct clique *q)
{
	enum clique_state state = await_noted(q);

	while (state < CLIQUE_QUIESCED && abort_is_overdue(q)) {
		if (state == CLIQUE_LIVE)
			clique_record_completions(q);
		else if (clique_set_state(q, state, CLIQUE_WEDGED))
			return CLIQUE_WEDGED;
		state = await_noted(q);
	}
	return state;
}

int clique_end_status(const struct clique *q, enum clique_state state)
{
	const struct cohort_cause *cause;

	if (state < CLIQUE_QUIESCED)
		return COHORT_TIMED_OUT;
	/* Load the cause after the state: the cause was set before the state
	 * changed. */
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

int clique_await_end(struct clique *q)
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

/* Value that q->orphans has once the reaper has taken the communicators, so
 * that no more can be stored. */
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
