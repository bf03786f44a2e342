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
 * A rank arrives by adding one to a counter, which is never reset: the rank that
 * makes it a multiple of the number of ranks is the last to arrive.  It does a
 * small round by itself, at once.  For a large one it opens the gate, and every
 * thread that drives one of the ranks' streams claims pieces until there are none
 * (piece.c).  The end of a round is one word that all look at.  What follows from
 * it for a rank is done by the driver of that rank's stream: a thread that waits
 * for the stream, one that waits in vain for what depends on it, or the poller.
 *
 * Where there are few ranks, each does its own part of a round of one call, or of
 * a launch that is the same on all ranks: a call of some bytes from what the
 * others bring with them (inline_round.c), a larger one or a list by shares
 * (split_round.c).
 *
 *  A.  A thread touches the buffers of other ranks, and reads what their launches
 *     say of them, only while it is counted: in the gate for a round, in the word
 *     of its own rank for a split round, in the claim for a message.
 *  B.  A round ends, and the launches of its ranks are over, only when no thread
 *     works on it any more: all pieces are finished, or no thread is inside.  That
 *     also holds for a launch that an abort cuts short.
 *  C.  An abort is seen before the next piece is claimed.
 *
 * A launch without transfers takes no lock on its way, but in strict mode: there
 * it goes the same ways with the world's lock held.
 */

#include "sim/exec/rendezvous.h"

#include "base/clock.h"
#include "base/scoped_lock.h"
#include "sim/exec/collectives.h"
#include "sim/exec/launch_mismatch.h"
#include "sim/exec/p2p.h"
#include "sim/exec/round.h"
#include "sim/exec/span.h"
#include "sim/strict/strict.h"

/* ---- arriving --------------------------------------------------------- */

/* Join on @s: from now on the rank takes part.  True if the caller has to call
 * round_begin(). */
static bool join(struct world *w, struct launch *l, struct stream *s)
{
	struct member *m = l->member;
	/* Then no round begins any more, and other ranks may still be in the
	 * last one. */
	const bool broken = world_is_broken(w);

	l->joined = true;
	/* Until it has arrived it waits for nothing that comes. */
	l->phase = UINT64_MAX;
	launch_set_way(l, WAY_COUNTED);
	l->left = l->transfer_count + launch_has_calls(l);
	if (!broken)
		m->joined = l;
	if (atomic_load(&m->at) != s)
		atomic_store(&m->at, s);
	if (l->transfer_count && w->span)
		span_post(l);
	else if (l->transfer_count)
		p2p_join_locked(l);
	return l->call_count && !broken && collectives_arrive(w, l);
}

static bool join_locked(struct world *w, struct launch *l, struct stream *s)
{
	bool last;

	SCOPED_LOCK(&w->lock);
	if (strict_is_on() && w->check_arrival)
		w->check_arrival(l);
	last = join(w, l, s);
	if (strict_is_on() && !last && !w->span && !world_is_broken(w))
		mismatch_check_circle_locked(l);
	return last;
}

/* True if a scripted fault keeps a launch whose turn it is from arriving. */
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
	return atomic_load(&l->member->turn) == l->round && !is_held(l);
}

/* Let @s be kicked when its first launch may join; false if it may already. */
static bool follow(struct stream *s, struct launch *l)
{
	struct member *m = l->member;

	SCOPED_LOCK(&m->world->lock);
	stream_follow_locked(&m->followers, s);
	atomic_store(&m->followed, true);
	l->follows = !member_is_aborted(m) && !may_join(l);
	if (!l->follows)
		stream_unfollow_locked(&m->followers, s);
	return l->follows;
}

static void unfollow(struct stream *s, struct launch *l)
{
	struct member *m = l->member;

	if (!l->follows)
		return;
	l->follows = false;
	SCOPED_LOCK(&m->world->lock);
	stream_unfollow_locked(&m->followers, s);
}

/* ---- stepping --------------------------------------------------------- */

/* What was flushed is done on all ranks as soon as it can be, not when the
 * poller looks: the last rank to arrive wakes the other ranks' own threads, and
 * so does the one that ends the last call.  @ended: the last call has ended
 * with this look.  A rank that was told at every look would tell the others in
 * turn. */
static void tell_others(const struct stream *s, struct launch *l, bool left,
                        bool ended)
{
	if (!stream_is_flushed(s) || !(ended || (left && !l->is_told)))
		return;
	l->is_told = true;
	world_kick_others(l->member->world, l->member->rank);
}

/* As tell_others(), for a driver that goes on until nothing is left: to tell
 * the others after that would be too late. */
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
	if (w->span)
		span_abort(l->member);
	/* Its part of the round is gone with it. */
	world_break(w);
	if (l->joined && (w->span ? span_is_touched(w, l) : round_inside(w)))
		return;
	if (l->joined && w->span)
		span_leave(l);
	SCOPED_LOCK(&w->lock);
	if (!launch_is_over(l) &&
	    (!l->joined || w->span || p2p_close_locked(l))) {
		if (l->joined && !w->span)
			p2p_leave_locked(l);
		launch_cut_locked(l);
	}
}

static void arrive_on(struct stream *s, struct launch *l)
{
	struct world *w = l->member->world;
	bool last;

	unfollow(s, l);
	last = strict_is_on() || l->transfer_count ? join_locked(w, l, s)
	                                           : join(w, l, s);
	if (last)
		round_begin(w, l->member->rank);
}

enum step rendezvous_step(struct stream *s, struct work *work,
                          const struct drive *d)
{
	struct launch *l = work->launch;
	struct member *m = l->member;
	struct world *w = m->world;
	bool left = false;

	if (!l->joined && !member_is_aborted(m)) {
		if (!may_join(l) && follow(s, l))
			return l->due_ns ? stream_timer(s, l->due_ns, d)
			                 : STEP_BLOCKED;
		if (!member_is_aborted(m))
			arrive_on(s, l);
	}
	if (l->joined && !launch_is_over(l)) {
		const bool had = launch_has_calls(l);

		call_others(s, l, d);
		left = collectives_do(w, l, d);
		tell_others(s, l, left, had && !launch_has_calls(l));
		if (l->transfer_count)
			left = (w->span ? span_messages(l, d)
			                : p2p_work(l, d)) ||
			       left;
	}
	if (member_is_aborted(m) && !launch_is_over(l))
		cut(w, l);
	if (!launch_is_over(l))
		return left ? STEP_LEFT : STEP_WATCH;
	unfollow(s, l);
	launch_done(l);
	return STEP_DONE;
}
