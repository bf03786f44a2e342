/* SPDX-License-Identifier: Apache-2.0 */

/* Which kind of round each call of a launch gets, and going through it */

#include "sim/exec/collectives.h"

#include <sched.h>

#include "base/backoff.h"
#include "sim/exec/inline_round.h"
#include "sim/exec/piece.h"
#include "sim/exec/round.h"
#include "sim/exec/span.h"
#include "sim/exec/split_round.h"
#include "sim/strict/strict.h"

/* ---- arriving --------------------------------------------------------- */

/* Tell the ranks that wait for this one that it has arrived, and on which
 * core. */
static void sit(struct world *w, int rank)
{
	struct seat *seat = &w->seats[rank];

	store_relaxed(&seat->core, sched_getcpu());
	store_relaxed(&seat->arrivals, load_relaxed(&seat->arrivals) + 1);
}

/* True if the ranks that have not arrived are likely to be on other cores: then
 * waiting on this core does not keep them from arriving. */
static bool all_are_elsewhere(const struct world *w, int rank)
{
	const uint64_t mine = load_relaxed(&w->seats[rank].arrivals);
	const int core = sched_getcpu();
	const struct seat *s;

	for (s = w->seats; s < w->seats + w->n; s++)
		if (load_relaxed(&s->core) == core &&
		    load_relaxed(&s->arrivals) < mine)
			return false;
	return true;
}

/* The launch has arrived by both the counter and a slot: find out whether all
 * ranks have the same calls, if all slots have come.  True if so. */
static bool goes_whole(const struct world *w, struct launch *l)
{
	if (launch_way(l) == WAY_LISTED && slots_are_met(w, l))
		launch_set_way(l, split_round_is_list(w, l) ? WAY_WHOLE
		                                            : WAY_COUNTED);
	return launch_way(l) == WAY_WHOLE;
}

bool collectives_arrive(struct world *w, struct launch *l)
{
	uint64_t before;

	if (w->span) {
		launch_set_way(l, WAY_SPAN);
		span_arrive(w, l);
		return false;
	}
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

/* How many calls the round that is over had.  What another thread has written
 * is read only if there may be several. */
static size_t span_of(const struct world *w, const struct launch *l)
{
	const size_t left = l->call_count - l->calls_done;

	if (launch_way(l) == WAY_WHOLE)
		return left;
	return launch_way(l) != WAY_COUNTED || left == 1 ? 1 : w->round.span;
}

/* The round is over, and with it some of the launch's calls.  If calls are left
 * the launch arrives for the next round: true if the caller has to call
 * round_begin(). */
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

/* Each driver does its own rank's share first, and leaves the others to their
 * drivers for a while, so that each core keeps its part of the buffers in its
 * caches.  Where ranks share a core, all of those ranks' shares come first. */
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

/* Look at the phase alone for about a microsecond, or until it changes. */
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

/* How often a waiting driver looks at a split round before it takes pieces from
 * others' shares. */
#define SPLIT_PATIENCE 4

/* True if a driver that has waited in vain should kick the other ranks'
 * streams, whose threads may have queued and not looked.  Where all wait for a
 * core that is done only now and then. */
static bool is_urgent(const struct world *w, struct launch *l)
{
	return !w->is_crowded || ++l->patience % 8 == 0;
}

/* Look at the slots of all ranks alone for a while.  True if all have come. */
static bool watch_slots(const struct world *w, const struct launch *l)
{
	int i;

	for (i = 0; i < 64 && !slots_are_met(w, l); i++)
		cpu_pause();
	return i < 64;
}

/* True if a driver should look again for a while before it does something
 * else. */
static bool may_watch(const struct world *w, const struct launch *l,
                      const struct drive *d)
{
	return d->attends || (w->seats && d->effort == EFFORT_HELP &&
	                      all_are_elsewhere(w, l->member->rank));
}

/* True if the slots of all ranks have come. */
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
	/* Wake the ranks that wait until no thread is inside. */
	if (world_is_broken(w))
		world_kick_all(w);
	return over;
}

/* Do what can be done of a round that one rank opens.  True if it is over. */
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

/* A launch that has arrived by both ways: true if it is known which kind of
 * round it is, as all slots have come or another rank has opened a round. */
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

/* Look for a while until is_settled().  True if it is. */
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

/* The slots of all ranks have come for a round.  True if it is over.  A round
 * for which all have brought the same calls is done even if another rank is
 * aborted meanwhile: that rank may have finished it before. */
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

/* Do what can be done of the round that the launch has arrived for.  True if it
 * is over.  If the ranks have not brought the same calls, one of them opens a
 * round that all do together. */
static bool do_round(struct world *w, struct launch *l, const struct drive *d,
                     bool *left)
{
	*left = false;
	if (launch_way(l) == WAY_SPAN)
		return !member_is_aborted(l->member) && span_do(w, l, d, left);
	if (launch_way(l) == WAY_LISTED && !settle(w, l, d))
		return false;
	if (launch_way(l) == WAY_COUNTED)
		return do_counted(w, l, d, left);
	if (launch_way(l) != WAY_WHOLE && !slots_have_come(w, l, d))
		return false;
	return !member_is_aborted(l->member) && do_slots(w, l, d, left);
}

bool collectives_do(struct world *w, struct launch *l, const struct drive *d)
{
	bool left = false;

	while (launch_has_calls(l) && do_round(w, l, d, &left))
		if (advance(w, l))
			round_begin(w, l->member->rank);
	return left;
}
