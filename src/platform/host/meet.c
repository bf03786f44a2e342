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
 * The last to arrive cuts the whole round in pieces; then whoever drives any of
 * the ranks' streams claims pieces until there are none.
 *
 *  A. A thread touches the ranks' buffers only between inside++ and inside--,
 *     both under the lock: that of the world in a round, those of both ends in a
 *     transfer.
 *  B. A round ends, and the launches of its ranks are over, only with nobody
 *     inside.  So is a launch that is cut short by an abort.
 *  C. An abort is seen before the next piece is claimed.
 */

#include "base/clock.h"
#include "platform/host/p2p.h"
#include "platform/host/piece.h"
#include "platform/host/strict_calls.h"

/* ---- rounds ----------------------------------------------------------- */

static bool is_broken(const struct world *w)
{
	return atomic_load_explicit(&w->broken, memory_order_relaxed);
}

static void break_locked(struct world *w)
{
	atomic_store_explicit(&w->broken, true, memory_order_relaxed);
}

/* How many of the calls that are left, @most or fewer, are the same. */
static size_t same_calls(const struct launch *a, const struct launch *b,
                         size_t most)
{
	size_t i, n = b->call_count - b->calls_done;

	if (n > most)
		n = most;
	for (i = 0; i < n; i++)
		if (!call_is_same(&a->calls[a->calls_done + i],
		                  &b->calls[b->calls_done + i]))
			break;
	return i;
}

/* Every rank has arrived: begin with what all have to do.  Ranks that did not
 * call the same wait for ever, as on a GPU. */
static void open_locked(struct world *w)
{
	struct launch *first = w->launches[0];
	int r;

	w->span = first->call_count - first->calls_done;
	for (r = 1; r < w->n; r++)
		w->span = same_calls(first, w->launches[r], w->span);
	if (strict_is_on())
		strict_check_round_locked(w, w->span);
	if (!w->span)
		return;
	pieces_cut_locked(w);
	w->open = true;
	for (r = 0; r < w->n; r++)
		stream_invite_all_locked(w->comms[r]->followers);
}

static void end_round_locked(struct world *w)
{
	struct launch *l;
	int r;

	w->open = false;
	for (r = 0; r < w->n; r++) {
		l = w->launches[r];
		l->calls_done += w->span;
		if (l->calls_done == l->call_count)
			w->arrived--;
		launch_end_locked(l);
	}
}

/* Let every rank see what has changed. */
static void kick_all_locked(struct world *w)
{
	int r;

	for (r = 0; r < w->n; r++)
		stream_kick_all_locked(&w->comms[r]->followers);
}

/* Help with the pieces.  Called with the lock held; releases and re-acquires
 * it. */
static void work_locked(struct world *w, const struct drive *d)
{
	size_t n;

	w->inside++;
	pthread_mutex_unlock(&w->lock);
	n = pieces_do(w, d);
	pthread_mutex_lock(&w->lock);
	w->inside--;
	w->finished += n;
	if (w->inside)
		return;
	if (w->finished == w->pieces)
		end_round_locked(w);
	if (is_broken(w))
		kick_all_locked(w); /* who is aborted waits for nobody inside */
}

/* ---- launches --------------------------------------------------------- */

static bool has_calls(const struct launch *l)
{
	return l->calls_done < l->call_count;
}

/* The next launch of the rank has its turn. */
static void finish_locked(struct launch *l)
{
	struct ncclComm *comm = l->comm;

	l->over = true;
	if (l->joined)
		comm->world->launches[comm->rank] = NULL;
	comm->turn++;
	stream_kick_all_locked(&comm->followers);
}

void launch_end_locked(struct launch *l)
{
	if (has_calls(l) || l->transfers_done < l->transfer_count)
		return;
	finish_locked(l);
}

static void join_locked(struct world *w, struct launch *l)
{
	if (strict_is_on())
		strict_check_arrival_locked(l);
	l->joined = true;
	w->launches[l->comm->rank] = l;
	if (l->transfer_count)
		p2p_join_locked(l);
	if (has_calls(l) && ++w->arrived == w->n && !is_broken(w))
		open_locked(w);
	if (strict_is_on() && !is_broken(w))
		strict_check_circle_locked(l);
}

/* What keeps a launch whose turn it is from arriving. */
static bool is_held(struct launch *l)
{
	if (l->fault.kind == COHORT_FAULT_DELAY && !l->due_ns)
		l->due_ns = clock_deadline(l->fault.value);
	return l->fault.kind == COHORT_FAULT_NEVER ||
	       l->fault.kind == COHORT_FAULT_ASYNC ||
	       (l->fault.kind == COHORT_FAULT_DELAY && clock_now() < l->due_ns);
}

/* True if there are pieces of this round that nobody has claimed. */
static bool has_pieces(const struct world *w, const struct launch *l)
{
	return w->open && has_calls(l) && !is_broken(w) &&
	       atomic_load_explicit(&w->next_piece, memory_order_relaxed) <
	               w->pieces;
}

/* Do what can be done of a launch that has arrived.  True if this driver leaves
 * some of that. */
static bool go_on_locked(struct world *w, struct launch *l,
                         const struct drive *d)
{
	bool left = false;

	if (has_pieces(w, l)) {
		if (d->effort != EFFORT_ENQUEUE || w->bytes <= ENQUEUE_BYTES)
			work_locked(w, d);
		left = has_pieces(w, l);
	}
	if (l->transfers_done < l->transfer_count)
		left = p2p_work_locked(l, d) || left;
	return left;
}

/* End a launch whose rank was aborted, unless its buffers may be in use. */
static void cut_locked(struct world *w, struct launch *l)
{
	if (l->joined && (w->inside || l->comm->inside))
		return;
	/* Its part of the round is gone with it. */
	break_locked(w);
	if (l->joined)
		p2p_leave_locked(l);
	finish_locked(l);
}

static void launch_done(struct launch *l)
{
	struct ncclComm *comm = l->comm;

	launch_put(l);
	/* Release: all that was written.  Pairs with the acquire in
	 * comm_sync(), after which the communicator may be freed. */
	atomic_fetch_sub_explicit(&comm->pending, 1, memory_order_release);
}

enum step meet_step(struct stream *s, struct work *work, const struct drive *d)
{
	struct launch *l = work->launch;
	struct ncclComm *comm = l->comm;
	struct world *w = comm->world;
	bool held = false, left = false, over;

	pthread_mutex_lock(&w->lock);
	if (comm->turn == l->round && !comm_is_aborted(comm)) {
		held = !l->joined && is_held(l);
		if (!l->joined && !held)
			join_locked(w, l);
		if (l->joined)
			left = go_on_locked(w, l, d);
	}
	if (!l->over && comm_is_aborted(comm))
		cut_locked(w, l);
	over = l->over;
	if (over || left)
		stream_unfollow_locked(&comm->followers, s);
	else
		stream_follow_locked(&comm->followers, s);
	pthread_mutex_unlock(&w->lock);

	if (over) {
		launch_done(l);
		return STEP_DONE;
	}
	if (held && l->fault.kind == COHORT_FAULT_DELAY)
		return stream_timer(s, l->due_ns, d);
	return left ? STEP_LATER : STEP_BLOCKED;
}

void meet_break(struct world *w)
{
	pthread_mutex_lock(&w->lock);
	break_locked(w);
	kick_all_locked(w);
	pthread_mutex_unlock(&w->lock);
}
