/* SPDX-License-Identifier: Apache-2.0 */

/* Opening, working on and closing a round (see round.h) */

#include "sim/exec/round.h"

#include "base/util.h"
#include "sim/exec/launch_mismatch.h"
#include "sim/exec/piece.h"
#include "sim/exec/split_round.h"
#include "sim/strict/strict.h"

/* ---- the gate --------------------------------------------------------- */

/* What the gate of a world adds up: threads inside, pieces finished of the
 * round that is open, whether it is, and whether a rank was aborted. */
#define INSIDE UINT64_C(1)
#define FINISHED (UINT64_C(1) << 16)
#define OPEN (UINT64_C(1) << 62)

static uint64_t inside(uint64_t gate)
{
	return gate % FINISHED;
}

static uint64_t finished(uint64_t gate)
{
	return gate % OPEN / FINISHED;
}

int round_inside(const struct world *w)
{
	return (int)inside(atomic_load(&w->gate)) + split_round_inside(w);
}

/* Add @what unless all is broken, or if asked unless nothing is open. */
static bool gate_add(struct world *w, uint64_t what, bool if_open)
{
	uint64_t gate = atomic_load(&w->gate);

	do
		if ((gate & GATE_BROKEN) || (if_open && !(gate & OPEN)))
			return false;
	while (!atomic_compare_exchange_weak(&w->gate, &gate, gate + what));
	return true;
}

bool round_enter(struct world *w)
{
	return gate_add(w, INSIDE, true);
}

/* ---- the round ----------------------------------------------------------- */

/* End the round.  Called by the only thread inside, which drives the stream of
 * @rank.  The others see it where they wait, unless they wait for a core. */
static void end_round(struct world *w, int rank)
{
	atomic_store(&w->phase,
	             (atomic_load(&w->phase) | PHASE_OPEN) + PHASE_OPEN);
	if (w->is_crowded)
		world_kick_others(w, rank);
}

void round_leave(struct world *w, int rank, size_t n)
{
	uint64_t gate = atomic_load(&w->gate), next;
	bool ends;

	do {
		next = gate + n * FINISHED;
		ends = inside(gate) == 1 && (gate & OPEN) &&
		       finished(next) == w->pieces;
		if (ends)
			next -= OPEN + w->pieces * FINISHED;
		else
			next -= INSIDE;
	} while (!atomic_compare_exchange_weak(&w->gate, &gate, next));
	if (ends) {
		end_round(w, rank);
		next = atomic_fetch_sub(&w->gate, INSIDE) - INSIDE;
	}
	if ((next & GATE_BROKEN) && !inside(next))
		world_kick_all(w);
}

/* True if two calls are the same; most are told by a word. */
static bool is_same(const struct launch *a, size_t i, const struct launch *b,
                    size_t k)
{
	const uint64_t what = a->places[i].what;

	return what == b->places[k].what &&
	       (what != MANY_CALLS || call_is_same(&a->calls[i], &b->calls[k]));
}

/* How many of the calls that are left, @most or fewer, are the same. */
static size_t same_calls(const struct launch *a, const struct launch *b,
                         size_t most)
{
	size_t i, n = b->call_count - b->calls_done;

	n = MIN(n, most);
	for (i = 0; i < n; i++)
		if (!is_same(a, a->calls_done + i, b, b->calls_done + i))
			break;
	return i;
}

/* True if all ranks have brought one and the same call. */
static bool is_single(const struct world *w)
{
	const uint64_t what = w->places->what;
	int r;

	for (r = 1; r < w->n; r++)
		if (w->places[r].what != what)
			return false;
	return what != MANY_CALLS;
}

/* How many calls all ranks have in common, however they group them.  Stores
 * whether those are whole launches with the same runs. */
static size_t common_span(const struct world *w, bool *joined_out)
{
	const struct launch *first = w->members[0]->joined, *l;
	size_t span = first->call_count - first->calls_done;
	int r;

	*joined_out = true;
	for (r = 1; r < w->n; r++) {
		l = w->members[r]->joined;
		*joined_out &=
			launch_is_same(first, l) && first->runs == l->runs;
		if (!launch_is_same(first, l))
			span = same_calls(first, l, span);
	}
	return span;
}

/* Every rank has arrived: find out what the round is.  False if they did not
 * call the same: then they wait for ever, as on a GPU. */
static bool find_round(struct world *w)
{
	struct round *o = &w->round;

	o->is_single = is_single(w);
	o->span = 1;
	o->is_joined = false;
	if (!o->is_single)
		o->span = common_span(w, &o->is_joined);
	if (strict_is_on()) {
		pthread_mutex_lock(&w->lock);
		mismatch_check_round_locked(w, o->span);
		pthread_mutex_unlock(&w->lock);
	}
	return o->span;
}

void round_begin(struct world *w, int rank)
{
	if (!gate_add(w, INSIDE, false))
		return;
	if (find_round(w)) {
		pieces_cut(w, rank);
		if (w->round.bytes > pieces_at_once(w)) {
			if (gate_add(w, OPEN, false))
				atomic_fetch_or(&w->phase, PHASE_OPEN);
		} else if (pieces_do_all(w, rank)) {
			end_round(w, rank);
		}
	}
	round_leave(w, rank, 0);
}

void round_open(struct world *w, int rank)
{
	int r;

	for (r = 0; r < w->n; r++)
		w->places[r].what = MANY_CALLS;
	round_begin(w, rank);
}
