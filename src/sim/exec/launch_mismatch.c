/* SPDX-License-Identifier: Apache-2.0 */

/* Naming ranks whose calls do not fit together (see launch_mismatch.h) */

#include "sim/exec/launch_mismatch.h"

#include "sim/exec/slot.h"
#include "sim/exec/split_round.h"

/* ---- ranks that do not fit together ----------------------------------- */

static const struct call *next_call(const struct world *w, int rank,
                                    size_t same)
{
	const struct launch *l = w->members[rank]->joined;
	size_t i = l->calls_done + same;

	return i < l->call_count ? &l->calls[i] : NULL;
}

void mismatch_check_round_locked(const struct world *w, size_t same)
{
	const struct call *first = NULL, *c;
	const struct member *of = NULL;
	char text[CALL_WORDS], other[CALL_WORDS];
	int r;

	for (r = 0; r < w->n; r++) {
		c = next_call(w, r, same);
		if (!c || member_is_struck(w->members[r]))
			continue;
		if (!first) {
			first = c;
			of = w->members[r];
		}
		if (call_is_same(first, c))
			continue;
		member_die(call_function(c->kind), w->members[r],
		           "calls %s where rank %d, device %d calls %s",
		           call_words(c, text), of->rank, of->device,
		           call_words(first, other));
	}
}

void mismatch_check_message_locked(const struct transfer *send)
{
	const struct transfer *recv = send->partner;
	const struct call c = transfer_call(send), d = transfer_call(recv);
	const struct member *to = recv->launch->member;
	char text[CALL_WORDS], other[CALL_WORDS];

	if (member_is_struck(send->launch->member) || member_is_struck(to) ||
	    (send->count == recv->count && send->type == recv->type))
		return;
	member_die("ncclSend", send->launch->member,
	           "%s meets %s of rank %d, device %d", call_words(&c, text),
	           call_words(&d, other), to->rank, to->device);
}

/* How many collectives the round has for which all slots of @l have come; 0 if
 * the ranks' calls are not the same, so that a rank opens a round. */
static size_t lined_up(const struct world *w, const struct launch *l)
{
	if (split_round_is_list(w, l))
		return l->call_count;
	return slots_are_one(w, l) ? 1 : 0;
}

size_t mismatch_calls_met(const struct launch *l)
{
	const struct world *w = l->member->world;
	size_t n = 0;

	if (l->calls_done == l->call_count || !l->joined)
		return l->calls_done;
	if (launch_way(l) != WAY_COUNTED)
		n = slots_are_met(w, l) ? lined_up(w, l) : 0;
	if (!n && atomic_load(&w->phase) >= l->phase)
		n = l->call_count - l->calls_done == 1 ? 1 : w->round.span;
	return l->calls_done + n;
}

/* True if @l cannot end before the launch @other of another rank, which has
 * arrived too, has come to its own end: stores for which call. */
static bool waits_for(const struct launch *l, const struct launch *other,
                      struct call *why)
{
	size_t i;

	for (i = 0; i < l->transfer_count; i++)
		if (l->transfers[i].peer == other->member->rank &&
		    !l->transfers[i].partner) {
			*why = transfer_call(&l->transfers[i]);
			return true;
		}
	if (mismatch_calls_met(l) == l->call_count ||
	    mismatch_calls_met(other) < other->call_count)
		return false;
	*why = l->calls[mismatch_calls_met(l)];
	return true;
}

/* True if @from waits for @to, perhaps by way of launches of ranks that are not
 * in @asked yet: stores for which call. */
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
		member_die(call_function(why.kind), l->member,
		           "%s waits in a circle: rank %d, device %d is in %s",
		           call_words(&why, text), next->member->rank,
		           next->member->device, call_words(&its, other));
	}
}
