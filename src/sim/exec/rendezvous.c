/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes the ranks of a world carry out their launches together
 *
 * A rank arrives when its launch is at the head of its stream and the
 * communicator's previous launch has ended.  Its sends and receives are then
 * matched with their partners (p2p.c).  Its collectives are done in rounds; a
 * rank arrives at a round by writing a slot (slot.h).  A round is either one
 * call or, if the launches are the same on all ranks, all calls of a launch.  A
 * call of a few bytes works on data that the ranks pass in the slots
 * (inline_round.c); a larger call, or a list of calls, is divided into shares
 * (split_round.c).
 *
 * After its arrival, a rank's launch is continued by the threads that drive its
 * stream: threads that wait for the stream or for something that depends on it,
 * and the poller.  After a rank was aborted, or if the calls differ, no more
 * collectives start, and each rank waits for its own abort.
 *
 *  A.  A thread accesses buffers of other ranks, and reads the other ranks'
 *      launches, only while it is marked as doing so: for a round, in its own
 *      rank's word; for a message, in the claim.
 *  B.  A round and the launches of its ranks end only after the last thread has
 *      stopped working on the round: all pieces are finished, or no thread is
 *      inside.  This also holds for a launch that an abort cuts short.
 *  C.  A thread sees an abort before it claims the next piece.
 *
 * A launch without transfers takes no lock, except in strict mode: there it
 * takes the same steps with the world's lock held.
 */

#include <dirent.h>
#include <sched.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/scoped_lock.h"
#include "sim/exec/inline_round.h"
#include "sim/exec/launch_mismatch.h"
#include "sim/exec/p2p.h"
#include "sim/exec/scheduler.h"
#include "sim/exec/span.h"
#include "sim/exec/split_round.h"
#include "sim/strict/strict.h"

/* ---- arriving at a round ---------------------------------------------- */

static void publish_arrival(struct world *w, int rank)
{
	struct seat *seat = &w->seats[rank];

	store_relaxed(&seat->core, sched_getcpu());
	store_relaxed(&seat->arrivals, load_relaxed(&seat->arrivals) + 1);
}

static void collectives_arrive(struct world *w, struct launch *l)
{
	if (w->span) {
		launch_set_way(l, WAY_SPAN);
		span_arrive(w, l);
		return;
	}
	if (w->seats)
		publish_arrival(w, l->member->rank);
	if (l->call_count > 1 && !l->one_by_one)
		launch_set_way(l, WAY_LIST);
	else
		launch_set_way(l, inline_round_fits(w, l) ? WAY_INLINE
		                                          : WAY_SPLIT);
	if (launch_way(l) == WAY_INLINE)
		inline_round_arrive(w, l);
	else
		split_round_arrive(w, l, launch_way(l) == WAY_SPLIT);
	l->is_last = slots_are_met(w, l);
	if (l->is_last && launch_way(l) == WAY_INLINE && w->is_crowded)
		world_kick_others(w, l->member->rank);
}

/* ---- rounds ----------------------------------------------------------- */

/* Mark the calls of a round that has ended as done.  If the launch has more
 * calls, make it arrive at the next round. */
static void advance(struct world *w, struct launch *l)
{
	const bool locks = strict_is_on() || l->transfer_count;

	if (locks)
		pthread_mutex_lock(&w->lock);
	l->calls_done += launch_way(l) == WAY_LIST ? l->call_count : 1;
	if (launch_has_calls(l))
		collectives_arrive(w, l);
	else if (locks)
		launch_end_locked(l, l->member);
	else
		launch_end_whole(l);
	if (locks)
		pthread_mutex_unlock(&w->lock);
}

/* Arrive again, with one call, because the ranks group their calls
 * differently. */
static void arrive_with_one(struct world *w, struct launch *l)
{
	const bool locks = strict_is_on() || l->transfer_count;

	if (locks)
		pthread_mutex_lock(&w->lock);
	l->one_by_one = true;
	collectives_arrive(w, l);
	if (locks)
		pthread_mutex_unlock(&w->lock);
}

static void check_calls(struct world *w)
{
	if (!strict_is_on())
		return;
	pthread_mutex_lock(&w->lock);
	mismatch_check_round_locked(w);
	pthread_mutex_unlock(&w->lock);
}

/* Return true if a waiting thread should kick the other ranks' streams, because
 * their work might be enqueued but not started.  If there are more ranks than
 * cores, return true only in every eighth check. */
static bool is_urgent(const struct world *w, struct launch *l)
{
	return !w->is_crowded || ++l->patience % 8 == 0;
}

static bool watch_slots(const struct world *w, const struct launch *l)
{
	int i;

	for (i = 0; i < 64 && !slots_are_met(w, l); i++)
		cpu_pause();
	return i < 64;
}

/* Return true if the slots of all ranks have arrived.  If some have not, this
 * may kick the other ranks' streams. */
static bool slots_have_arrived(struct world *w, struct launch *l,
                               const struct drive *d)
{
	if (slots_are_met(w, l) ||
	    (world_may_watch(w, l->member->rank, d) && watch_slots(w, l)))
		return true;
	if (d->effort == EFFORT_HELP && !d->attends && is_urgent(w, l))
		world_kick_others(w, l->member->rank);
	return false;
}

/* Do the work that this thread can do now in a round for which all slots have
 * arrived.  Return true if the round has ended.  If all ranks have the same
 * calls, the round continues even if another rank is aborted, because that rank
 * might already have finished the round.  If the calls differ, the ranks wait
 * forever, as on a GPU. */
static bool do_slots(struct world *w, struct launch *l, const struct drive *d,
                     bool *left)
{
	switch (slots_compare(w, l)) {
	case SLOTS_SAME:
		if (launch_way(l) != WAY_INLINE)
			return split_round_do(w, l, d, left);
		inline_round_do(w, l);
		return true;
	case SLOTS_GROUPED:
		if (!world_is_broken(w))
			arrive_with_one(w, l);
		break;
	case SLOTS_DIFFER:
		check_calls(w);
		break;
	}
	return false;
}

/* Do the work that this thread can do now in the round at which the launch has
 * arrived.  Return true if the round has ended. */
static bool do_round(struct world *w, struct launch *l, const struct drive *d,
                     bool *left)
{
	const uint64_t number = l->slot;
	bool over;

	*left = false;
	if (launch_way(l) == WAY_NONE || member_is_aborted(l->member))
		return false;
	if (launch_way(l) == WAY_SPAN)
		return span_do(w, l, d, left);
	over = split_round_is_over(w, l) ||
	       (slots_have_arrived(w, l, d) && do_slots(w, l, d, left));
	return over || (l->slot != number && do_round(w, l, d, left));
}

/* Advance the launch's collectives as far as possible without waiting.  Return
 * true if this thread leaves work that another thread could do now. */
static bool collectives_do(struct world *w, struct launch *l,
                           const struct drive *d)
{
	bool left = false;

	while (launch_has_calls(l) && do_round(w, l, d, &left))
		advance(w, l);
	return left;
}

/* ---- joining ---------------------------------------------------------- */

/* Join the world's work with launch @l, which runs on stream @s: match its
 * transfers, and arrive at its first collective. */
static void join(struct world *w, struct launch *l, struct stream *s)
{
	struct member *m = l->member;
	/* No more rounds start in a broken world, but other ranks might still
	 * be in the last round. */
	const bool broken = world_is_broken(w);

	l->joined = true;
	launch_set_way(l, WAY_NONE);
	l->left = l->transfer_count + launch_has_calls(l);
	if (strict_is_on() && !broken)
		m->joined = l;
	if (atomic_load(&m->at) != s)
		atomic_store(&m->at, s);
	if (l->transfer_count && w->span)
		span_post(l);
	else if (l->transfer_count)
		p2p_join_locked(l);
	if (l->call_count && !broken)
		collectives_arrive(w, l);
}

static void join_locked(struct world *w, struct launch *l, struct stream *s)
{
	SCOPED_LOCK(&w->lock);
	if (strict_is_on() && w->check_arrival)
		w->check_arrival(l);
	join(w, l, s);
	if (strict_is_on() && !w->span && !world_is_broken(w))
		mismatch_check_circle_locked(l);
}

/* Return true if a scripted fault keeps a launch from arriving although it is
 * the launch's turn. */
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

/* Register @s to be kicked when its launch may join.  Return false if the
 * launch may join now. */
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

/* Kick the streams of the other ranks, so that all ranks do flushed work
 * immediately, not at the next check by the poller.  Do this only when work is
 * first left for other ranks (@left) and when the last call has ended (@ended):
 * if every step kicked, ranks would kick each other endlessly. */
static void kick_others(const struct stream *s, struct launch *l, bool left,
                        bool ended)
{
	if (!stream_is_flushed(s) || !(ended || (left && !l->others_kicked)))
		return;
	l->others_kicked = true;
	world_kick_others(l->member->world, l->member->rank);
}

/* Call kick_others() before the work, if this thread is a worker.  A worker
 * continues until nothing is left, so a later kick would be too late. */
static void call_others(const struct stream *s, struct launch *l,
                        const struct drive *d)
{
	if (d->effort != EFFORT_OWN || l->others_kicked)
		return;
	kick_others(s, l, true, false);
	stream_settle();
}

/* End a launch whose rank was aborted, unless other threads might be using its
 * buffers. */
static void cut(struct world *w, struct launch *l)
{
	if (w->span)
		span_abort(l->member);
	/* The round cannot finish without this rank's part. */
	world_break(w);
	if (l->joined &&
	    (w->span ? span_is_touched(w, l) : split_round_inside(w)))
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

	unfollow(s, l);
	if (strict_is_on() || l->transfer_count)
		join_locked(w, l, s);
	else
		join(w, l, s);
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
		kick_others(s, l, left, had && !launch_has_calls(l));
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

/* ---- a thread that waits for its own call ------------------------------- */

/* Waits of up to this many nanoseconds are not checked, because the other rank
 * might only be slow. */
#define SOON_NS UINT64_C(5000000)

/* Return true if all other threads of the process were started by the
 * simulator.  Such threads count themselves only after they appear in
 * /proc/self/task, so a thread that is just starting makes the result false. */
static bool is_only_thread(void)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *entry;
	int n = 0;

	if (!tasks)
		return false;
	while ((entry = readdir(tasks)))
		n += entry->d_name[0] != '.';
	closedir(tasks);
	return n - stream_own_threads() == 1;
}

/* End the program if @l needs a call of a rank that has queued nothing. */
static void check_wait(const struct launch *l)
{
	struct world *w = l->member->world;
	const struct member *other;
	char text[CALL_WORDS];
	struct call why;
	int r;

	SCOPED_LOCK(&w->lock);
	if (!l->joined || launch_is_over(l) || w->span || world_is_broken(w))
		return;
	for (r = 0; r < w->n; r++) {
		other = w->members[r];
		if (other == l->member || other->rounds != other->turn ||
		    member_is_struck(other) ||
		    !mismatch_needs(l, r, true, &why))
			continue;
		member_abort_program(
			call_function(why.kind), l->member,
			"the only thread waits for %s outside a group, but "
			"rank %d, device %d has queued nothing",
			call_words(&why, text), other->rank, other->device);
	}
}

void rendezvous_check_wait(struct stream *s, uint64_t since_ns)
{
	struct stream *next;
	const struct work *first;
	int i;

	if (clock_now() - since_ns <= SOON_NS || !is_only_thread())
		return;
	/* The loop is bounded, because streams can wait for each other in a
	 * cycle. */
	for (i = 0; s && i < 100 && stream_hold(s); i++, s = next) {
		next = NULL;
		first = stream_first(s);
		if (first && first->step == rendezvous_step)
			check_wait(first->launch);
		else if (first && first->step == stream_wait_step)
			next = first->wait.on;
		stream_release(s);
	}
	stream_settle();
}
