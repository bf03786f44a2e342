/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How the ranks of a world do a launch together
 *
 * A rank arrives when its launch comes to the head of its stream and the
 * communicator's launch before is over.  Its sends and receives then look for
 * their partners (p2p.c).  Its collectives are done in rounds:
 *
 *	        all ranks have arrived           every piece is done
 *	JOINING ----------------------> WORKING ----------------------> (next
 *	   |                               |                             round)
 *	   | a rank was aborted, or        | a rank was aborted
 *	   | the calls differ              v
 *	   +-------------------------> STALLED: no collective starts any more;
 *	                               each rank waits for its own abort
 *
 * A round is as many calls as the launches have in common: ranks may group the
 * same calls differently, and those that have calls left stay for the next one.
 * To arrive is to add one to a counter, which is never reset: the last to arrive
 * is who makes it a multiple of the number of ranks.  That one does a small round
 * by itself, at once.  Of a large one it opens the gate, and whoever drives any of
 * the ranks' streams claims pieces until there are none (piece.c).  The end of a
 * round is one word that all look at; what follows from it for a rank is done by
 * who drives its stream: a thread that waits for it, one that waits in vain for what
 * comes of it, or the poller.
 *
 * Of few ranks, each does its own part of a round of one call, or of a launch that is
 * the same on all: from what the others bring with them if that is one call of some
 * bytes (inline_round.c), and of larger ones its share (split_round.c).
 *
 *  A. A thread touches the buffers of others' ranks, and what their launches say of
 *     them, only while it is counted: in the gate in a round, in the word of its own
 *     rank in a split one, in the claim of a message.
 *  B. A round ends, and the launches of its ranks are over, only when nobody does
 *     anything of it any more: all is finished, or nobody is inside.  So is a launch
 *     that is cut short by an abort.
 *  C. An abort is seen before the next piece is claimed.
 *
 * No lock is taken on the way of a launch without transfers, but for strict mode, which
 * takes the same ways with the world's lock around them.
 */

#include <sched.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "sim/exec/inline_round.h"
#include "sim/exec/piece.h"
#include "sim/exec/round.h"
#include "sim/exec/split_round.h"
#include "sim/nccl/p2p.h"
#include "sim/strict/strict_calls.h"

/* ---- the end of a launch ---------------------------------------------- */

static void kick_followers_locked(struct ncclComm *comm)
{
	if (!atomic_load(&comm->followed))
		return;
	atomic_store(&comm->followed, false);
	stream_kick_all_locked(&comm->followers);
}

void comm_kick_locked(struct ncclComm *comm)
{
	struct stream *at = atomic_load(&comm->at);

	kick_followers_locked(comm);
	if (at)
		stream_kick(at);
}

/* The next launch of the rank has its turn.  By the driver of a stream of @by, which
 * sees it. */
static void finish_locked(struct launch *l, const struct ncclComm *by)
{
	struct ncclComm *comm = l->comm;
	struct stream *at = atomic_load(&comm->at);

	/* Release: what was written. */
	atomic_store_explicit(&l->over, true, memory_order_release);
	/* Before the next one joins elsewhere; who follows looks again. */
	kick_followers_locked(comm);
	if (comm != by && at && !stream_is_watched(at))
		stream_kick(at);
	atomic_fetch_add(&comm->turn, 1);
}

static bool has_calls(const struct launch *l)
{
	return l->calls_done < l->call_count;
}

void launch_end_locked(struct launch *l, const struct ncclComm *by)
{
	if (--l->left)
		return;
	l->comm->joined = NULL;
	finish_locked(l, by);
}

/* The same of a launch without transfers, of which no other thread knows. */
static void finish(struct launch *l)
{
	struct ncclComm *comm = l->comm;

	atomic_fetch_add(&comm->turn, 1);
	atomic_store_explicit(&l->over, true, memory_order_relaxed);
	if (!atomic_load(&comm->followed))
		return;
	pthread_mutex_lock(&comm->world->lock);
	comm_kick_locked(comm);
	pthread_mutex_unlock(&comm->world->lock);
}

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
static bool arrive(struct world *w, struct launch *l)
{
	uint64_t before;

	if (w->seats)
		sit(w, l->comm->rank);
	/* No round is open while this one is not there. */
	l->phase = atomic_load(&w->phase) + PHASE_ROUND;
	if (inline_round_fits(w, l)) {
		launch_set_way(l, WAY_INLINE);
		inline_round_arrive(w, l);
		if (w->is_crowded && slots_are_met(w, l))
			round_kick_others(w, l->comm->rank);
		return false;
	}
	if (split_round_fits(w, l)) {
		launch_set_way(l, WAY_SPLIT);
		split_round_arrive(w, l);
		return false;
	}
	launch_set_way(l, WAY_COUNTED);
	w->places[l->comm->rank] = launch_place(l);
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

/* On @s.  True if the caller owes round_begin(). */
static bool join(struct world *w, struct launch *l, struct stream *s)
{
	struct ncclComm *comm = l->comm;
	/* No round begins any more, and others may be in the last one yet. */
	const bool broken = world_is_broken(w);

	l->joined = true;
	/* Until it has arrived it waits for nothing that comes. */
	l->phase = UINT64_MAX;
	launch_set_way(l, WAY_COUNTED);
	l->left = l->transfer_count + has_calls(l);
	if (!broken)
		comm->joined = l;
	if (atomic_load(&comm->at) != s)
		atomic_store(&comm->at, s);
	if (l->transfer_count)
		p2p_join_locked(l);
	return l->call_count && !broken && arrive(w, l);
}

static bool join_locked(struct world *w, struct launch *l, struct stream *s)
{
	bool last;

	pthread_mutex_lock(&w->lock);
	if (strict_is_on())
		strict_check_arrival_locked(l);
	last = join(w, l, s);
	if (strict_is_on() && !last && !world_is_broken(w))
		strict_check_circle_locked(l);
	pthread_mutex_unlock(&w->lock);
	return last;
}

/* What keeps a launch whose turn it is from arriving. */
static bool is_held(struct launch *l)
{
	if (l->fault.kind == COHORT_FAULT_DELAY && !l->due_ns)
		l->due_ns = clock_deadline(l->fault.value);
	return l->fault.kind == COHORT_FAULT_NEVER ||
	       l->fault.kind == COHORT_FAULT_ASYNC ||
	       l->fault.kind == COHORT_FAULT_DEVICE ||
	       (l->fault.kind == COHORT_FAULT_DELAY && clock_now() < l->due_ns);
}

static bool may_join(struct launch *l)
{
	return atomic_load(&l->comm->turn) == l->round && !is_held(l);
}

/* Let @s be kicked when its first launch may join; false if it may already. */
static bool follow(struct stream *s, struct launch *l)
{
	struct ncclComm *comm = l->comm;

	pthread_mutex_lock(&comm->world->lock);
	stream_follow_locked(&comm->followers, s);
	atomic_store(&comm->followed, true);
	l->follows = !comm_is_aborted(comm) && !may_join(l);
	if (!l->follows)
		stream_unfollow_locked(&comm->followers, s);
	pthread_mutex_unlock(&comm->world->lock);
	return l->follows;
}

static void unfollow(struct stream *s, struct launch *l)
{
	struct ncclComm *comm = l->comm;

	if (!l->follows)
		return;
	l->follows = false;
	pthread_mutex_lock(&comm->world->lock);
	stream_unfollow_locked(&comm->followers, s);
	pthread_mutex_unlock(&comm->world->lock);
}

/* ---- stepping --------------------------------------------------------- */

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
	if (!has_calls(l) && locks)
		launch_end_locked(l, l->comm);
	else if (!has_calls(l))
		finish(l);
	last = has_calls(l) && arrive(w, l);
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
	const int rank = l->comm->rank;
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
	                      all_are_elsewhere(w, l->comm->rank));
}

/* True if the slots of all have come. */
static bool rendezvous_slots(struct world *w, struct launch *l,
                             const struct drive *d)
{
	if (slots_are_met(w, l) || (may_watch(w, l, d) && watch_slots(w, l)))
		return true;
	if (d->effort == EFFORT_HELP && !d->attends && is_urgent(w, l))
		round_kick_others(w, l->comm->rank);
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
		round_kick_all(w);
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
		*left = pieces_are_left(w, l->comm->rank, REACH_ALL) &&
		        !world_is_broken(w) &&
		        (d->effort == EFFORT_ENQUEUE || drive_is_late(d));
	} else if (d->effort == EFFORT_HELP && !d->attends && is_urgent(w, l)) {
		round_kick_others(w, l->comm->rank);
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
		round_kick_others(w, l->comm->rank);
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
		round_open(w, l->comm->rank);
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
	if (launch_way(l) != WAY_WHOLE && !rendezvous_slots(w, l, d))
		return false;
	return !comm_is_aborted(l->comm) && do_slots(w, l, d, left);
}

/* True if this driver leaves something and does not come again. */
static bool do_calls(struct world *w, struct launch *l, const struct drive *d)
{
	bool left = false;

	while (has_calls(l) && do_round(w, l, d, &left))
		if (advance(w, l))
			round_begin(w, l->comm->rank);
	return left;
}

/* What goes on by itself does on all ranks as soon as it can, not when the poller looks:
 * let the others' own threads be woken by the one that comes last, and its last call
 * end for all.  @ended: with this look; who were told at every look would tell back. */
static void tell_others(const struct stream *s, struct launch *l, bool left,
                        bool ended)
{
	if (!stream_is_flushed(s) || !(ended || (left && !l->is_told)))
		return;
	l->is_told = true;
	round_kick_others(l->comm->world, l->comm->rank);
}

/* The same by who goes on until nothing is left: after that it would be too late. */
static void call_others(const struct stream *s, struct launch *l,
                        const struct drive *d)
{
	if (d->effort != EFFORT_OWN || l->is_told)
		return;
	tell_others(s, l, true, false);
	stream_settle();
}

/* End a launch whose rank was aborted, unless its buffers may be in use. */
static void cut(struct world *w, struct launch *l)
{
	/* Its part of the round is gone with it. */
	world_break(w);
	if (l->joined && world_inside(w))
		return;
	pthread_mutex_lock(&w->lock);
	if (!launch_is_over(l) && (!l->joined || p2p_close_locked(l))) {
		if (l->joined) {
			p2p_leave_locked(l);
			l->comm->joined = NULL;
		}
		finish_locked(l, l->comm);
	}
	pthread_mutex_unlock(&w->lock);
}

static void launch_done(struct launch *l)
{
	struct ncclComm *comm = l->comm;
	const struct ends ends = l->ends;

	launch_put(l);
	/* Release: all that was written.  Pairs with the acquire in
	 * comm_has_work(), after which the communicator may be freed. */
	atomic_fetch_add_explicit(&comm->ended, 1, memory_order_release);
	/* Who has waited for it finds nothing outstanding any more. */
	if (ends.done)
		mark_set(ends.done, ends.value);
}

static void arrive_on(struct stream *s, struct launch *l)
{
	struct world *w = l->comm->world;
	bool last;

	unfollow(s, l);
	last = strict_is_on() || l->transfer_count ? join_locked(w, l, s)
	                                           : join(w, l, s);
	if (last)
		round_begin(w, l->comm->rank);
}

/* The stream has come to it. */
static void set_started(struct launch *l)
{
	/* Release: what the stream did before. */
	__atomic_store_n(l->ends.started, l->ends.value, __ATOMIC_RELEASE);
	l->ends.started = NULL;
}

enum step rendezvous_step(struct stream *s, struct work *work,
                          const struct drive *d)
{
	struct launch *l = work->launch;
	struct ncclComm *comm = l->comm;
	struct world *w = comm->world;
	bool left = false;

	if (l->ends.started)
		set_started(l);
	if (!l->joined && !comm_is_aborted(comm)) {
		if (!may_join(l) && follow(s, l))
			return l->due_ns ? stream_timer(s, l->due_ns, d)
			                 : STEP_BLOCKED;
		if (!comm_is_aborted(comm))
			arrive_on(s, l);
	}
	if (l->joined && !launch_is_over(l)) {
		const bool had = has_calls(l);

		call_others(s, l, d);
		left = do_calls(w, l, d);
		tell_others(s, l, left, had && !has_calls(l));
		if (l->transfer_count)
			left = p2p_work(l, d) || left;
	}
	if (comm_is_aborted(comm) && !launch_is_over(l))
		cut(w, l);
	if (!launch_is_over(l))
		return left ? STEP_LEFT : STEP_WATCH;
	unfollow(s, l);
	launch_done(l);
	return STEP_DONE;
}

void rendezvous_break(struct world *w)
{
	world_break(w);
	round_kick_all(w);
}
