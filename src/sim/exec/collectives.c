/* SPDX-License-Identifier: Apache-2.0 */

#include "sim/exec/collectives.h"

#include <sched.h>

#include "base/backoff.h"
#include "sim/exec/inline_round.h"
#include "sim/exec/piece.h"
#include "sim/exec/round.h"
#include "sim/exec/split_round.h"
#include "sim/strict/strict.h"

/* ---- arriving --------------------------------------------------------- */

/* Tell those who wait for the rank that it has come, and where it was. */
static void sit(struct world *w, int rank)
{
	struct seat *seat = &w->seats[rank];

	atomic_store_explicit(&seat->core, sched_getcpu(),
	                      memory_order_relaxed);
	atomic_store_explicit(
		&seat->arrivals,
		atomic_load_explicit(&seat->arrivals, memory_order_relaxed) + 1,
		memory_order_relaxed);
}

/* True if those who are missing are likely to be on other cores: then it does not
 * keep them from coming to wait for them on this one. */
static bool all_are_elsewhere(const struct world *w, int rank)
{
	const uint64_t mine = atomic_load_explicit(&w->seats[rank].arrivals,
	                                           memory_order_relaxed);
	const int core = sched_getcpu();
	const struct seat *s;

	for (s = w->seats; s < w->seats + w->n; s++)
		if (atomic_load_explicit(&s->core, memory_order_relaxed) ==
		            core &&
		    atomic_load_explicit(&s->arrivals, memory_order_relaxed) <
		            mine)
			return false;
	return true;
}

/* Of who has come by both: whether all have the same, as far as that is known yet. */
static bool goes_whole(const struct world *w, struct launch *l)
{
	if (launch_way(l) == WAY_LISTED && slots_are_met(w, l))
		launch_set_way(l, split_round_is_list(w, l) ? WAY_WHOLE
		                                            : WAY_COUNTED);
	return launch_way(l) == WAY_WHOLE;
}

/* For the round of the next call, or calls.  True if that was the last to arrive, who
 * owes round_begin(). */
bool collectives_arrive(struct world *w, struct launch *l)
{
	uint64_t before;

	if (w->seats)
		sit(w, l->member->rank);
	/* No round is open while this one is not there. */
	l->phase = atomic_load(&w->phase) + PHASE_ROUND;
	if (inline_round_fits(w, l)) {
		launch_set_way(l, WAY_INLINE);
		inline_round_arrive(w, l);
		if (w->is_crowded && slots_are_met(w, l))
			world_kick_others(w, l->member->rank);
		return false;
	}
	if (split_round_fits(w, l)) {
		launch_set_way(l, WAY_SPLIT);
		split_round_arrive(w, l);
		return false;
	}
	launch_set_way(l, WAY_COUNTED);
	w->places[l->member->rank] = launch_place(l);
	if (split_round_fits_list(w, l)) {
		launch_set_way(l, WAY_LISTED);
		split_round_arrive(w, l);
	} else {
		slot_skip(l);
	}
	/* Acquire and release: what each rank brings, for the last one. */
	before =
		atomic_fetch_add_explicit(&w->arrived, 1, memory_order_acq_rel);
	return (before + 1) % (uint64_t)w->n == 0 && !goes_whole(w, l);
}

/* ---- rounds ----------------------------------------------------------- */

/* The calls of the round that is over; without a look at what another thread has
 * written if there can only be one. */
static size_t span_of(const struct world *w, const struct launch *l)
{
	const size_t left = l->call_count - l->calls_done;

	if (launch_way(l) == WAY_WHOLE)
		return left;
	return launch_way(l) != WAY_COUNTED || left == 1 ? 1 : w->round.span;
}

/* The round is over: some of the calls of a launch are done.  With calls left it
 * arrives for the next: true if the caller owes round_begin(). */
static bool advance(struct world *w, struct launch *l)
{
	const bool locks = strict_is_on() || l->transfer_count;
	bool last;

	if (locks)
		pthread_mutex_lock(&w->lock);
	l->calls_done += span_of(w, l);
	if (!launch_has_calls(l) && locks)
		launch_end_locked(l, l->member);
	else if (!launch_has_calls(l))
		launch_end_whole(l);
	last = launch_has_calls(l) && collectives_arrive(w, l);
	if (locks)
		pthread_mutex_unlock(&w->lock);
	return last;
}

/* Each rank's own share first.  Those who wait leave the others' to them for a
 * while, as then each core has its own part of the buffers in its caches: where ranks
 * share a core, all of theirs. */
static enum reach reach_of(const struct world *w, struct launch *l,
                           const struct drive *d)
{
	if (d->effort == EFFORT_OWN ||
	    ++l->patience > (w->seats ? PATIENCE_CROWDED : PATIENCE))
		return REACH_ALL;
	return w->seats ? REACH_NEAR : REACH_OWN;
}

static void work(struct world *w, struct launch *l, const struct drive *d)
{
	const int rank = l->member->rank;
	const enum reach reach = reach_of(w, l, d);

	if (pieces_are_left(w, rank, reach) && round_enter(w))
		round_leave(w, rank, pieces_do(w, rank, reach, d));
}

/* Look at nothing but the phase for about a microsecond, or until it changes. */
static void watch_phase(const struct world *w, uint64_t over)
{
	uint64_t phase;
	int i;

	for (i = 0; i < 64; i++) {
		phase = atomic_load(&w->phase);
		if (phase >= over || (phase & PHASE_OPEN))
			return;
		cpu_pause();
	}
}

/* Looks of who waits in a split round before it takes from others' shares. */
#define SPLIT_PATIENCE 4

/* True if who has waited in vain should see to the other ranks' streams, which may
 * have queued and not looked: not every time where all wait for a core. */
static bool is_urgent(const struct world *w, struct launch *l)
{
	return !w->is_crowded || ++l->patience % 8 == 0;
}

/* The same for the slots of all. */
static bool watch_slots(const struct world *w, const struct launch *l)
{
	int i;

	for (i = 0; i < 64 && !slots_are_met(w, l); i++)
		cpu_pause();
	return i < 64;
}

/* True if who drives should look for a while before it does something else. */
static bool may_watch(const struct world *w, const struct launch *l,
                      const struct drive *d)
{
	return d->attends || (w->seats && d->effort == EFFORT_HELP &&
	                      all_are_elsewhere(w, l->member->rank));
}

/* True if the slots of all have come. */
static bool slots_have_come(struct world *w, struct launch *l,
                            const struct drive *d)
{
	if (slots_are_met(w, l) || (may_watch(w, l, d) && watch_slots(w, l)))
		return true;
	if (d->effort == EFFORT_HELP && !d->attends && is_urgent(w, l))
		world_kick_others(w, l->member->rank);
	return false;
}

/* True if the round is over. */
static bool do_split(struct world *w, struct launch *l, const struct drive *d,
                     bool *left)
{
	const bool steals =
		d->effort == EFFORT_OWN ||
		(d->effort == EFFORT_HELP && ++l->patience > SPLIT_PATIENCE);
	bool over;

	if (world_is_broken(w))
		return split_round_is_over(w, l);
	over = split_round_do(w, l, steals, d, left);
	if (world_is_broken(w)) /* those who wait for nobody to be inside */
		world_kick_all(w);
	return over;
}

/* The same of a round that one rank opens. */
static bool do_counted(struct world *w, struct launch *l, const struct drive *d,
                       bool *left)
{
	if (atomic_load(&w->phase) < l->phase && may_watch(w, l, d))
		watch_phase(w, l->phase);
	if (atomic_load(&w->phase) >= l->phase)
		return true;
	if (atomic_load(&w->phase) & PHASE_OPEN) {
		if (d->effort != EFFORT_ENQUEUE)
			work(w, l, d);
		*left = pieces_are_left(w, l->member->rank, REACH_ALL) &&
		        !world_is_broken(w) &&
		        (d->effort == EFFORT_ENQUEUE || drive_is_late(d));
	} else if (d->effort == EFFORT_HELP && !d->attends && is_urgent(w, l)) {
		world_kick_others(w, l->member->rank);
	}
	return atomic_load(&w->phase) >= l->phase;
}

/* Of who has come by both: true if it is known which round it is, as all slots have
 * come, or another has opened one. */
static bool is_settled(struct world *w, struct launch *l)
{
	uint64_t phase;

	if (goes_whole(w, l))
		return true;
	phase = atomic_load(&w->phase);
	if (phase >= l->phase || (phase & PHASE_OPEN))
		launch_set_way(l, WAY_COUNTED);
	return launch_way(l) == WAY_COUNTED;
}

/* The same, perhaps after a while. */
static bool settle(struct world *w, struct launch *l, const struct drive *d)
{
	int i;

	for (i = 0; i < 64 && !is_settled(w, l) && may_watch(w, l, d); i++)
		cpu_pause();
	if (launch_way(l) == WAY_LISTED && d->effort == EFFORT_HELP &&
	    !d->attends && is_urgent(w, l))
		world_kick_others(w, l->member->rank);
	return launch_way(l) != WAY_LISTED;
}

/* True if a round is over for which all have come with slots.  If they have brought the
 * same, it is done also if another rank is aborted then: that one may have been through
 * with it. */
static bool do_slots(struct world *w, struct launch *l, const struct drive *d,
                     bool *left)
{
	slot_fetch_next(w, l);
	if (launch_way(l) == WAY_WHOLE || split_round_is_list(w, l)) {
		launch_set_way(l, WAY_WHOLE);
		return do_split(w, l, d, left);
	}
	if (slots_are_one(w, l)) {
		if (launch_way(l) == WAY_SPLIT)
			return do_split(w, l, d, left);
		inline_round_do(w, l);
		return true;
	}
	if (world_is_broken(w))
		return false;
	launch_set_way(l, WAY_COUNTED);
	if (slot_opens(w, l))
		round_open(w, l->member->rank);
	return do_counted(w, l, d, left);
}

/* Do what can be done of the round that the launch has arrived for.  True if it is
 * over.  One for which the ranks have not brought the same becomes one that is done
 * together. */
static bool do_round(struct world *w, struct launch *l, const struct drive *d,
                     bool *left)
{
	*left = false;
	if (launch_way(l) == WAY_LISTED && !settle(w, l, d))
		return false;
	if (launch_way(l) == WAY_COUNTED)
		return do_counted(w, l, d, left);
	if (launch_way(l) != WAY_WHOLE && !slots_have_come(w, l, d))
		return false;
	return !member_is_aborted(l->member) && do_slots(w, l, d, left);
}

/* True if this driver leaves something and does not come again. */
bool collectives_do(struct world *w, struct launch *l, const struct drive *d)
{
	bool left = false;

	while (launch_has_calls(l) && do_round(w, l, d, &left))
		if (advance(w, l))
			round_begin(w, l->member->rank);
	return left;
}
