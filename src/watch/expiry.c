/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/expiry.h"

#include "base/clock.h"
#include "base/util.h"

static uint64_t saturating_multiply(uint64_t a, uint64_t b)
{
	return b && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

/* Return true if a clock is running for @r: @r has called and waits for other
 * ranks' calls, or all ranks have called and @r is not done. */
static bool has_clock(const struct snapshot *s, const struct rank_snapshot *r)
{
	return snapshot_has_all(s) ? !r->done : r->joined;
}

static uint64_t last_arrival(const struct snapshot *s)
{
	uint64_t last = s->others_ns;
	int i;

	for (i = 0; i < s->size; i++)
		last = MAX(last, s->ranks[i].arrived_ns);
	return last;
}

static struct expiry clock_of(const struct snapshot *s, uint64_t began_ns,
                              uint64_t allowed_ns)
{
	uint64_t since = stops_shift(&s->stops, began_ns);

	return (struct expiry){
		.next_ns = clock_after(
			since, saturating_multiply(allowed_ns, 1 + s->expired)),
		.since_ns = since,
		.deadline_ns = allowed_ns,
		.lost_ns = since - began_ns,
	};
}

/* Return the clock of the adaptive limit if that limit is smaller than the
 * configured one.  The clock starts at the sample that first saw the front
 * collective, because the exact start is not known. */
static struct expiry adapted_clock(const struct snapshot *s, uint64_t began_ns,
                                   uint64_t allowed_ns)
{
	const struct adapted *a = &s->adapted;
	uint64_t ns = s->all_joined ? a->limits.exec_ns : a->limits.join_ns;
	struct expiry due = { .next_ns = UINT64_MAX };

	if (!ns || ns >= allowed_ns)
		return due;
	due = clock_of(s, MAX(began_ns, a->since_ns), ns);
	due.is_adapted = true;
	due.most_ns = allowed_ns;
	return due;
}

/* Return the time since which the ranks have been waiting for the front
 * collective. */
static uint64_t front_began(const struct snapshot *s)
{
	uint64_t began = UINT64_MAX;
	int i;

	for (i = 0; i < s->size; i++)
		if (s->ranks[i].joined && s->ranks[i].arrived_ns < began)
			began = s->ranks[i].arrived_ns;
	return MAX(MAX(began, s->resumed_ns), s->moved_ns);
}

/* Return true if a thread of the rank waits for an operation that the rank has
 * called.  A thread that calls a split waits inside the call. */
static bool is_waiting(const struct rank_snapshot *r)
{
	return r->waiting || r->helped || r->meets || r->staged ||
	       (r->in_call && r->call.kind == OP_SPLIT);
}

/* Return true if a rank waits for a front collective that cannot finish,
 * because another rank has left without calling it, and this was not reported
 * yet. */
static bool waits_for_departed(const struct snapshot *s)
{
	bool has_left = s->others_left, waits = false;
	int i;

	for (i = 0; i < s->size && !s->expired; i++) {
		has_left |= !s->ranks[i].joined && rank_has_left(&s->ranks[i]);
		waits |= s->ranks[i].joined && is_waiting(&s->ranks[i]);
	}
	return has_left && waits;
}

/* Return an expired clock without a limit, for a wait that cannot end. */
static struct expiry expired_clock(const struct snapshot *s, uint64_t began_ns)
{
	return (struct expiry){ .next_ns = s->now_ns, .since_ns = began_ns };
}

/* Return the first clock of the front collective to expire.  Its next_ns is
 * UINT64_MAX if no clock expires. */
static struct expiry first_clock(const struct snapshot *s)
{
	struct expiry clock, first = { .next_ns = UINT64_MAX };
	uint64_t began, allowed, last = last_arrival(s);
	const bool has_all = snapshot_has_all(s);
	int i;

	if (waits_for_departed(s))
		return expired_clock(s, front_began(s));
	for (i = 0; i < s->size; i++) {
		if (!has_clock(s, &s->ranks[i]))
			continue;
		began = has_all ? last : s->ranks[i].arrived_ns;
		began = MAX(MAX(began, s->resumed_ns), s->moved_ns);
		allowed = has_all ? s->ranks[i].limits.exec_ns
		                  : s->ranks[i].limits.join_ns;
		clock = clock_of(s, began, allowed);
		if (clock.next_ns < first.next_ns)
			first = clock;
		/* If only ranks of other processes have not called, the
		 * adaptive execution limit applies, from the last call on,
		 * because the observed times include waits for other
		 * processes. */
		if (s->others_miss)
			began = MAX(began, last);
		clock = adapted_clock(s, began, allowed);
		if (clock.next_ns < first.next_ns)
			first = clock;
	}
	return first;
}

/* Return true if a rank waits for a send or receive of a peer that will make no
 * further call.  A send or receive that the peer has made by a native call or
 * in a graph is not detected. */
static bool transfer_waits_for_departed(const struct snapshot *s)
{
	const struct transfer_snapshot *x = &s->transfer;
	const struct rank_snapshot *own = snapshot_rank(s, x->rank);
	const struct rank_snapshot *peer = snapshot_rank(s, x->peer);

	return !x->met && peer && rank_has_left(peer) && !x->expired &&
	       is_waiting(own) && !own->is_uncompared && !peer->is_uncompared;
}

static struct expiry transfer_clock(const struct snapshot *s)
{
	const struct transfer_snapshot *x = &s->transfer;
	struct expiry in_vain = expired_clock(s, x->since_ns);

	in_vain.is_transfer = true;
	if (transfer_waits_for_departed(s))
		return in_vain;
	return (struct expiry){
		.is_transfer = true,
		.next_ns = clock_after(x->since_ns,
		                       saturating_multiply(x->allowed_ns,
		                                           1 + x->expired)),
		.since_ns = x->since_ns,
		.deadline_ns = x->allowed_ns,
		.lost_ns = x->lost_ns,
	};
}

/* Return the clock @due, and make a verdict due if it has expired. */
static struct expiry due_of(const struct snapshot *s, struct expiry due)
{
	if (due.next_ns != UINT64_MAX && s->now_ns >= due.next_ns)
		due.what = EXPIRY_VERDICT;
	return due;
}

/* Return the more severe of the two reports; on a tie, the older.  Set its
 * next_ns to the earlier of their two times. */
static struct expiry more_severe(struct expiry a, struct expiry b)
{
	struct expiry due = b.what > a.what || (b.what && b.what == a.what &&
	                                        b.since_ns < a.since_ns)
	                            ? b
	                            : a;

	due.next_ns = MIN(a.next_ns, b.next_ns);
	return due;
}

/* Return the report that is due for an operation that began to wait at
 * @began_ns.  The operation is slow if it is not done s->slow_ns later. */
static struct expiry slow_of(const struct snapshot *s, uint64_t began_ns,
                             uint64_t lost_ns)
{
	struct expiry due = {
		.next_ns = clock_after(began_ns, s->slow_ns),
		.since_ns = began_ns,
		.deadline_ns = s->slow_ns,
		.lost_ns = lost_ns,
	};

	if (s->now_ns >= due.next_ns)
		due.what = EXPIRY_SLOW;
	return due;
}

/* Add the reports that are due for slow operations.  Each operation is reported
 * once. */
static struct expiry add_slow(const struct snapshot *s, struct expiry due)
{
	uint64_t began = front_began(s), since = stops_shift(&s->stops, began);
	struct expiry slow;

	if (s->front && !s->slow)
		due = more_severe(due, slow_of(s, since, since - began));
	if (s->transfer.number && !s->transfer.slow) {
		slow = slow_of(s, s->transfer.since_ns, s->transfer.lost_ns);
		slow.is_transfer = true;
		due = more_severe(due, slow);
	}
	return due;
}

struct expiry expiry_next(const struct snapshot *s)
{
	struct expiry due = { .next_ns = UINT64_MAX };

	if (s->paused)
		return due;
	if (s->front)
		due = due_of(s, first_clock(s));
	if (s->transfer.number)
		due = more_severe(due, due_of(s, transfer_clock(s)));
	return s->slow_ns ? add_slow(s, due) : due;
}
