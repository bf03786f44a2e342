/* SPDX-License-Identifier: Apache-2.0 */

/* Reports ranks whose calls do not match (see launch_mismatch.h) */

#include "sim/exec/launch_mismatch.h"

#include "sim/exec/slot.h"

/* ---- calls that do not match ------------------------------------------ */

void mismatch_check_call(const struct member *m, const struct call *c,
                         const struct member *of, const struct call *first)
{
	char text[CALL_WORDS], other[CALL_WORDS];

	if (!call_is_same(first, c))
		member_abort_program(
			call_function(c->kind), m,
			"calls %s where rank %d, device %d calls %s",
			call_words(c, text), of->rank, of->device,
			call_words(first, other));
}

void mismatch_check_round_locked(const struct world *w)
{
	const struct call *first = NULL, *c;
	const struct member *of = NULL;
	int r;

	for (r = 0; r < w->n; r++) {
		if (!w->members[r]->joined || member_is_struck(w->members[r]))
			continue;
		c = slot_call(w->members[r]->joined);
		if (!first) {
			first = c;
			of = w->members[r];
		}
		mismatch_check_call(w->members[r], c, of, first);
	}
}

void mismatch_check_message(const struct member *from, const struct call *send,
                            const struct member *to, const struct call *recv)
{
	char text[CALL_WORDS], other[CALL_WORDS];

	if (send->count != recv->count || send->type != recv->type)
		member_abort_program(
			"ncclSend", from,
			"%s does not match %s of rank %d, device %d",
			call_words(send, text), call_words(recv, other),
			to->rank, to->device);
}

/* Return the number of collectives of a launch for which all ranks have
 * arrived, even if no thread has noticed this yet.  The launch must have
 * joined. */
static size_t calls_met(const struct launch *l)
{
	const struct world *w = l->member->world;

	if (l->calls_done == l->call_count || launch_way(l) == WAY_NONE ||
	    !slots_are_met(w, l) || slots_compare(w, l) != SLOTS_SAME)
		return l->calls_done;
	return launch_way(l) == WAY_LIST ? l->call_count : l->calls_done + 1;
}

bool mismatch_needs(const struct launch *l, int rank, bool in_calls,
                    struct call *why)
{
	size_t i;

	for (i = 0; i < l->transfer_count; i++)
		if (l->transfers[i].peer == rank && !l->transfers[i].partner) {
			*why = transfer_call(&l->transfers[i]);
			return true;
		}
	if (!in_calls || calls_met(l) == l->call_count)
		return false;
	*why = l->calls[calls_met(l)];
	return true;
}

/* Return true if @l cannot end before @other does.  @other is a launch of
 * another rank, and both have joined.  Store the waiting call of @l in
 * *@why. */
static bool waits_for(const struct launch *l, const struct launch *other,
                      struct call *why)
{
	return mismatch_needs(l, other->member->rank,
	                      calls_met(other) == other->call_count, why);
}

/* Return true if @from waits for @to, directly or through launches of ranks
 * that are not yet marked in @asked.  Store the waiting call of @from. */
static bool reaches(const struct world *w, const struct launch *from,
                    const struct launch *to, bool asked[], struct call *why)
{
	const struct launch *next;
	struct call its;
	int r;

	asked[from->member->rank] = true;
	if (waits_for(from, to, why))
		return true;
	for (r = 0; r < w->n; r++) {
		next = w->members[r]->joined;
		if (next && !asked[r] && waits_for(from, next, why) &&
		    reaches(w, next, to, asked, &its))
			return true;
	}
	return false;
}

void mismatch_check_circle_locked(const struct launch *l)
{
	const struct world *w = l->member->world;
	const struct launch *next;
	char text[CALL_WORDS], other[CALL_WORDS];
	struct call why, its;
	int r;

	for (r = 0; r < w->n; r++) {
		bool asked[HOST_MAX_RANKS] = { false };

		next = w->members[r]->joined;
		if (!next || next == l || member_is_struck(w->members[r]) ||
		    !waits_for(l, next, &why) ||
		    !reaches(w, next, l, asked, &its))
			continue;
		member_abort_program(
			call_function(why.kind), l->member,
			"%s waits in a cycle: rank %d, device %d is in %s",
			call_words(&why, text), next->member->rank,
			next->member->device, call_words(&its, other));
	}
}
