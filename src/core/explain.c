/* SPDX-License-Identifier: Apache-2.0 */

#include "core/explain.h"

#include <string.h>

#include "core/clique.h"

/* How many groups of ranks are told apart. */
#define MAX_SIDES 3

/* What one rank was doing. */
struct doing {
	bool unfinished;
	char text[320];
};

/* The number of the collective with @ticket, 0: @ticket is no collective, or is
 * long past. */
static uint64_t collective_of(const struct cohort_comm *c, uint64_t ticket)
{
	uint64_t number = agree_called(c), n = c->clique->slots;

	for (; number && n; number--, n--)
		if (agree_has(c, number) &&
		    atomic_load(&agree_slot(c, number)->ticket) == ticket)
			return number;
	return 0;
}

/* Find the oldest call that was not done; false: all were done. */
static bool find_unfinished(const struct cohort_comm *c, struct record *r)
{
	uint64_t last = c->tickets.last_then, slots = c->clique->slots;
	uint64_t ticket = last > slots ? last - slots + 1 : 1;

	for (; ticket <= last; ticket++)
		if (!comm_ticket_was_done(c, ticket) &&
		    recorder_read(&c->recorder, ticket, r))
			return true;
	/* A call that a thread is inside of has no ticket yet. */
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

/* Add the ranks that were doing what @first was doing, and put them in
 * @told. */
static void add_side(struct text *t, const struct clique *q,
                     const struct cohort_comm *first, uint64_t *told)
{
	uint64_t side[COHORT_RANK_WORDS] = { 0 };
	struct doing doing, other;
	int i;

	find_doing(first, &doing);
	for (i = 0; i < q->size; i++) {
		if (rank_set_has(told, i))
			continue;
		find_doing(&q->comms[i], &other);
		if (strcmp(other.text, doing.text) != 0)
			continue;
		rank_set_add(told, i);
		rank_set_add(side, q->comms[i].rank);
	}
	text_add(t, " ");
	clique_add_ranks(t, q, side);
	text_add(t, " %s", doing.text);
}

/* The first rank that is not in @told: of those with an unfinished call if
 * there are any.  NULL: all ranks are in it. */
static const struct cohort_comm *find_untold(const struct clique *q,
                                             const uint64_t *told)
{
	const struct cohort_comm *first = NULL;
	struct doing doing;
	int i;

	for (i = 0; i < q->size; i++) {
		if (rank_set_has(told, i))
			continue;
		find_doing(&q->comms[i], &doing);
		if (doing.unfinished)
			return &q->comms[i];
		if (!first)
			first = &q->comms[i];
	}
	return first;
}

/* Add all groups of ranks, beginning with @rank's if that is a rank. */
static void add_sides(struct text *t, const struct clique *q, int rank)
{
	uint64_t told[COHORT_RANK_WORDS] = { 0 };
	const struct cohort_comm *first = clique_rank(q, rank);
	int sides;

	if (!first)
		first = find_untold(q, told);
	if (first && clique_is_child(q))
		text_add(t, "; when \"%s\" ended:", q->name);
	else if (first)
		text_add(t, "; when it ended:");
	for (sides = 0; first && sides < MAX_SIDES; sides++) {
		text_add(t, sides ? ";" : "");
		add_side(t, q, first, told);
		first = find_untold(q, told);
	}
	if (first)
		text_add(t, "; other ranks are left out");
	if (q->world_size > q->size &&
	    cause_look(q->end)->kind != COHORT_VERDICT_PROCESS_EXITED)
		text_add(t,
		         "; %d of %d ranks are of other processes, of which "
		         "nothing is known",
		         q->world_size - q->size, q->world_size);
}

void explain(struct clique *q)
{
	struct cohort_abort *end = q->end;
	const struct cohort_cause *cause = cause_look(end);
	size_t used;

	/* The watchdog has explained what was not done in time; and the cause
	 * of an operation names that operation. */
	if (!cause || cause->status == COHORT_STALLED ||
	    (cause->ticket && cause->kind != COHORT_VERDICT_ABORTED))
		return;
	end->explained = *cause;
	used = strlen(cause->text);
	add_sides(&(struct text){ end->explained.text + used,
	                          sizeof(end->explained.text) - used },
	          q, cause->rank);
	cause_set_explained(end);
}
