/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What is said of ranks that wait for each other
 */

#include "watch/cycle.h"
#include "watch/phrase.h"
#include "watch/stall.h"

/* Of ranks that are named in a text. */
#define MAX_NAMED 6

void stall_find_circle(const struct snapshot *s, bool is_transfer,
                       struct circle *circle, struct cohort_verdict *v)
{
	circle->n = cycle_find(s, is_transfer, circle->places);
	if (!circle->n)
		return;
	v->kind = COHORT_VERDICT_CYCLE;
	v->rank = -1;
}

static void add_wait(struct text *t, const struct snapshot *s,
                     const struct circle *circle, int i)
{
	const struct rank_snapshot *a = &s->ranks[circle->places[i]];
	const struct rank_snapshot *b =
		&s->ranks[circle->places[(i + 1) % circle->n]];
	const struct record *call = cycle_call(a, b);

	text_add(t, "; ");
	phrase_name(t, a);
	text_add(t, " waits for rank %d in ", b->rank);
	if (call->ticket)
		record_add(t, call);
	else
		text_add(t, "a call that is not on record any more");
}

void stall_add_circle(struct text *t, const struct snapshot *s,
                      const struct circle *circle)
{
	int i;

	for (i = 0; i < circle->n && i < MAX_NAMED; i++)
		add_wait(t, s, circle, i);
	if (circle->n > MAX_NAMED)
		text_add(t, "; and so on, %d ranks in all", circle->n);
}
