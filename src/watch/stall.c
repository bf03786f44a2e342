/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/stall.h"

#include <string.h>

#include "watch/crossing.h"
#include "watch/symbolizer.h"

/* ---- kinds of verdict (front and transfers) ---------------------------- */

int stall_kind_of_absence(const struct rank_snapshot *r)
{
	if (rank_has_thread(r) && !r->alive)
		return COHORT_VERDICT_THREAD_EXITED;
	if (rank_is_gone(r))
		return COHORT_VERDICT_LEFT;
	if (*r->elsewhere)
		return COHORT_VERDICT_DIFFERENT_CALL;
	if (!r->last.ticket)
		return COHORT_VERDICT_NEVER_CALLED;
	if (r->inside && !r->native)
		return COHORT_VERDICT_DIFFERENT_CALL;
	return COHORT_VERDICT_OUTSIDE;
}

int stall_kind_of_culprit(const struct culprit *x)
{
	if (x->has_called)
		return COHORT_VERDICT_NOT_STARTED;
	if (x->at.rank >= 0)
		return stall_kind_of_absence(&x->at);
	return x->kind ? x->kind : COHORT_VERDICT_REMOTE;
}

/* ---- whom to blame for the front collective ---------------------------- */

/* Return true if the front collective waits for @r: for its call or its
 * completion. */
static bool is_waited_for(const struct snapshot *s,
                          const struct rank_snapshot *r)
{
	return s->all_joined ? !r->done : !r->joined;
}

int stall_kind(const struct snapshot *s, const struct rank_snapshot *r)
{
	if (!r->joined)
		return stall_kind_of_absence(r);
	if (r->in_call || r->meets || (s->starts_are_marked && !r->started))
		return COHORT_VERDICT_NOT_STARTED;
	return COHORT_VERDICT_NOT_FINISHED;
}

/* Find the ranks that the front collective waits for, and the reason.  Once all
 * ranks have called it, blame ranks that have not started rather than ranks
 * that have not finished. */
static void find_missing(const struct snapshot *s, struct cohort_verdict *v)
{
	const struct rank_snapshot *r, *end = s->ranks + s->size;
	int n = 0;

	for (r = s->ranks; r < end; r++) {
		if (r->joined)
			rank_set_add(v->joined, r->rank);
		if (is_waited_for(s, r) &&
		    (!n++ || (s->all_joined &&
		              stall_kind(s, r) == COHORT_VERDICT_NOT_STARTED &&
		              v->kind != COHORT_VERDICT_NOT_STARTED))) {
			v->kind = stall_kind(s, r);
			v->rank = r->rank;
		}
	}
	for (r = s->ranks; r < end; r++)
		if (is_waited_for(s, r) &&
		    (!s->all_joined || stall_kind(s, r) == v->kind))
			rank_set_add(v->missing, r->rank);
	/* If all ranks have started and none is done, no rank is at fault. */
	if (v->kind == COHORT_VERDICT_NOT_FINISHED && n == s->size && n > 1)
		v->rank = -1;
}

bool stall_is_departure(int kind)
{
	return kind == COHORT_VERDICT_LEFT ||
	       kind == COHORT_VERDICT_THREAD_EXITED;
}

bool stall_is_gone(const struct rank_snapshot *r)
{
	return !r->gave_up && stall_is_departure(stall_kind_of_absence(r));
}

const struct rank_snapshot *stall_lock_holder(const struct snapshot *s)
{
	const struct rank_snapshot *r, *holder = NULL;
	int waiters = 0;

	for (r = s->ranks; r < s->ranks + s->size; r++) {
		if (r->joined)
			continue;
		if (r->stack && r->stack->holds_python == 1 && !holder)
			holder = r;
		else if (r->stack && symbolizer_awaits_python(r->stack))
			waiters++;
		else
			return NULL;
	}
	return waiters ? holder : NULL;
}

/* Number of ranks that have called the front collective, and of ranks that have
 * left */
struct tally {
	int joined, left;
};

/* Count the ranks of this process.  Return false if it is known why a rank has
 * not called the front collective: the rank waits for another rank or holds up
 * the others, or its thread has exited. */
static bool count_ranks(const struct snapshot *s, struct tally *n)
{
	const struct rank_snapshot *r, *end = s->ranks + s->size;

	*n = (struct tally){ 0 };
	if (!s->front || s->waits.link_count || s->crossing.exists ||
	    stall_lock_holder(s))
		return false;
	for (r = s->ranks; r < end; r++) {
		n->joined += r->joined;
		if (r->joined || !stall_is_gone(r))
			continue;
		if (!rank_is_gone(r))
			return false;
		n->left++;
	}
	return true;
}

/* Return true if a rank of another process is alive and waits for no rank. */
static bool is_idle(const struct remote_rank *x)
{
	return !x->joined && !x->waits &&
	       (x->kind == COHORT_VERDICT_NEVER_CALLED ||
	        x->kind == COHORT_VERDICT_OUTSIDE);
}

/* Return true if less than half of all ranks wait in the front collective, and
 * no rank has left or more than half have: a majority may be right to leave.
 */
static bool is_minority(const struct snapshot *s, const struct tally *n)
{
	return n->joined && 2 * n->joined < s->world &&
	       (!n->left || 2 * n->left > s->world);
}

bool stall_is_minority(const struct snapshot *s, const struct cohort_verdict *v)
{
	const struct remote_rank *x, *end = s->remote + s->remote_count;
	struct tally n;

	/* A transfer has no collective, and waits for one rank only. */
	if (!v->collective || v->kind == COHORT_VERDICT_CYCLE ||
	    !count_ranks(s, &n) || s->remote_count < s->world - s->size)
		return false;
	for (x = s->remote; x < end; x++) {
		if (x->joined)
			n.joined++;
		else if (x->kind == COHORT_VERDICT_LEFT)
			n.left++;
		else if (!is_idle(x))
			return false;
	}
	return is_minority(s, &n);
}

/* Return true if a rank of another process makes no further call, for a reason
 * of its own. */
static bool is_gone_far(const struct remote_rank *x)
{
	return !x->joined && !x->waits && stall_is_departure(x->kind);
}

static void blame_far(struct cohort_verdict *v, const struct remote_rank *x)
{
	v->rank = x->rank;
	v->world_rank = x->world;
	v->kind = x->kind;
}

/* If some of the ranks that the front collective waits for make no further
 * call, blame only these and return true. */
static bool blame_gone(const struct snapshot *s, struct cohort_verdict *v)
{
	const struct rank_snapshot *r, *end = s->ranks + s->size;
	const struct remote_rank *x = s->remote + s->remote_count;
	uint64_t gone[COHORT_RANK_WORDS] = { 0 };

	while (x > s->remote) {
		x--;
		if (!is_gone_far(x))
			continue;
		rank_set_add(gone, x->rank);
		blame_far(v, x);
	}
	for (r = end; r-- > s->ranks;) {
		if (r->joined || !stall_is_gone(r))
			continue;
		rank_set_add(gone, r->rank);
		v->rank = r->rank;
		v->world_rank = -1; /* stall_front() finds it */
		v->kind = stall_kind_of_absence(r);
	}
	if (rank_set_is_empty(gone))
		return false;
	memcpy(v->missing, gone, sizeof(gone));
	return true;
}

static bool blame_lock_holder(const struct snapshot *s,
                              struct cohort_verdict *v)
{
	const struct rank_snapshot *r = stall_lock_holder(s);

	if (!r)
		return false;
	v->rank = r->rank;
	v->kind = stall_kind_of_absence(r);
	memset(v->missing, 0, sizeof(v->missing));
	rank_set_add(v->missing, r->rank);
	return true;
}

static void blame_nobody(struct cohort_verdict *v)
{
	v->rank = v->world_rank = -1;
	memset(v->missing, 0, sizeof(v->missing));
}

void stall_blame_culprits(const struct snapshot *s, struct cohort_verdict *v)
{
	const struct culprit *x = s->waits.culprits;
	int r = 0;

	if (s->waits.is_cycle) {
		v->kind = COHORT_VERDICT_CYCLE;
		v->rank = v->world_rank = -1;
		return;
	}
	if (!s->waits.culprit_count) {
		/* The rank has left after a communicator ended through no
		 * rank's fault. */
		if (snapshot_rank(s, v->rank) &&
		    snapshot_rank(s, v->rank)->gave_up)
			blame_nobody(v);
		return;
	}
	/* The order of most ranks decides, see blame_odd(). */
	if (stall_kind_of_culprit(x) == COHORT_VERDICT_ORDER) {
		if (v->kind != COHORT_VERDICT_ORDER)
			blame_nobody(v);
		v->kind = COHORT_VERDICT_ORDER;
		return;
	}
	memcpy(v->missing, s->waits.here, sizeof(v->missing));
	while (r < s->world && !rank_set_has(v->missing, r))
		r++;
	v->rank = r < s->world ? r : -1;
	/* The culprits are not sorted by rank. */
	v->world_rank = v->rank >= 0 ? snapshot_world(s, v->rank) : -1;
	if (v->world_rank < 0)
		v->world_rank = x->world;
	v->kind = stall_kind_of_culprit(x);
}

/* Return true if no rank of this process has started.  All of them may wait for
 * other processes: in a split, in the native call of the first collective, in
 * which NCCL connects all ranks, or before a launch. */
static bool none_has_started(const struct snapshot *s,
                             const struct cohort_verdict *v)
{
	return v->kind == COHORT_VERDICT_NOT_STARTED &&
	       rank_set_count(v->missing) == s->size;
}

bool stall_is_at_fault(const struct remote_rank *x, bool all_joined)
{
	if (!all_joined)
		return !x->joined;
	return x->kind == COHORT_VERDICT_PROCESS_STOPPED ||
	       (x->kind == COHORT_VERDICT_NOT_STARTED && !x->is_behind);
}

/* Return true if @x is to be blamed rather than the rank of @v.  A rank of a
 * stopped process, which can do nothing, comes first; among other ranks, the
 * lowest number comes first. */
static bool is_worse(const struct remote_rank *x,
                     const struct cohort_verdict *v)
{
	const bool is_stopped = x->kind == COHORT_VERDICT_PROCESS_STOPPED;

	if (v->rank >= 0 &&
	    is_stopped != (v->kind == COHORT_VERDICT_PROCESS_STOPPED))
		return is_stopped;
	return v->rank < 0 || x->rank < v->rank;
}

int stall_find_unknown(const struct snapshot *s, uint64_t *set)
{
	int r, n = 0;

	memset(set, 0, COHORT_RANK_WORDS * sizeof(*set));
	for (r = 0; r < s->world; r++)
		if (!snapshot_rank(s, r) && !snapshot_remote(s, r)) {
			rank_set_add(set, r);
			n++;
		}
	return n;
}

static void find_world(const struct snapshot *s, uint64_t *set)
{
	int r;

	for (r = 0; r < s->world; r++)
		rank_set_add(set, r);
}

/* If most ranks call in the two communicators of the crossing in the same
 * order, blame the other ranks and return true. */
static bool blame_odd(const struct snapshot *s, struct cohort_verdict *v)
{
	const uint64_t *odd = crossing_odd(&s->crossing);

	v->kind = COHORT_VERDICT_ORDER;
	v->rank = odd ? rank_set_next(odd, -1) : -1;
	if (v->rank >= 0)
		memcpy(v->missing, odd, sizeof(v->missing));
	return v->rank >= 0;
}

/* Blame ranks of other processes by their replies.  Store all ranks at fault in
 * v->missing, and the first of them in v->rank.  Store ranks that have called
 * in v->joined.  If all ranks that have replied have called, but some have not
 * replied, blame no rank, because a rank without a reply may be at fault. */
static void find_remote_fault(const struct snapshot *s, bool all_known,
                              struct cohort_verdict *v)
{
	const struct remote_rank *x, *end = s->remote + s->remote_count;
	uint64_t waiting[COHORT_RANK_WORDS] = { 0 };
	bool all_joined = true, is_gone = false, is_stopped = false;
	bool is_crossing = false;

	for (x = s->remote; x < end; x++) {
		is_stopped |= x->kind == COHORT_VERDICT_PROCESS_STOPPED;
		all_joined &= x->joined;
		is_gone |= is_gone_far(x);
		if (x->joined)
			rank_set_add(v->joined, x->rank);
	}
	for (x = s->remote; x < end; x++) {
		if (!stall_is_at_fault(x, all_joined) ||
		    (all_joined && !all_known))
			continue;
		/* If all ranks have called, a stopped process explains why the
		 * other ranks do not start. */
		if (all_joined && is_stopped &&
		    x->kind != COHORT_VERDICT_PROCESS_STOPPED)
			continue;
		/* As in blame_gone(), if some ranks make no further call, blame
		 * only these. */
		if (is_gone && !is_gone_far(x))
			continue;
		/* A rank that waits is not at fault; its trail leads to the
		 * rank that is. */
		if (!x->joined && x->waits) {
			rank_set_add(waiting, x->rank);
			continue;
		}
		if (x->kind == COHORT_VERDICT_ORDER) {
			is_crossing = true;
			continue;
		}
		rank_set_add(v->missing, x->rank);
		if (is_worse(x, v))
			blame_far(v, x);
	}
	if (rank_set_is_empty(v->missing) && is_crossing)
		blame_odd(s, v);
	else if (rank_set_is_empty(v->missing))
		memcpy(v->missing, waiting, sizeof(waiting));
}

/* Return the digest of the calls of this process's ranks, or 0 if unknown. */
static uint32_t own_digest(const struct snapshot *s)
{
	int i = 0;

	while (i < s->size && !s->ranks[i].call.ticket)
		i++;
	return i < s->size ? s->ranks[i].call.digest : 0;
}

static bool calls_other(const struct remote_rank *x, uint32_t digest)
{
	return digest && x->word && (uint32_t)x->word != digest;
}

const struct remote_rank *stall_first_different(const struct snapshot *s)
{
	const struct remote_rank *x = s->remote, *end = x + s->remote_count;
	const uint32_t digest = own_digest(s);

	while (x < end && !calls_other(x, digest))
		x++;
	return x < end ? x : NULL;
}

/* If ranks of other processes have made a different call than this process,
 * make this the verdict and return true.  Blame the first of these ranks if
 * they are a minority, and no rank otherwise. */
static bool find_different(const struct snapshot *s, struct cohort_verdict *v)
{
	const struct remote_rank *x, *end = s->remote + s->remote_count;
	const uint32_t digest = own_digest(s);
	uint64_t set[COHORT_RANK_WORDS] = { 0 };
	int others = 0, all = s->size, first = -1;

	for (x = s->remote; x < end; x++) {
		all += x->word != 0;
		if (!calls_other(x, digest))
			continue;
		rank_set_add(set, x->rank);
		others++;
		if (first < 0 || x->rank < first)
			first = x->rank;
	}
	if (!others)
		return false;
	v->kind = COHORT_VERDICT_DIFFERENT_CALL;
	v->rank = 2 * others < all ? first : -1;
	memcpy(v->missing, set, sizeof(set));
	return true;
}

/* Blame ranks of other processes, because all ranks of this process have
 * called.  Blame ranks whose replies show a fault; if there are none, blame
 * ranks without a reply. */
static void blame_remote(const struct snapshot *s, struct cohort_verdict *v)
{
	const struct cohort_verdict own = *v;
	uint64_t unknown[COHORT_RANK_WORDS];
	const bool all_known = !stall_find_unknown(s, unknown);

	v->kind = COHORT_VERDICT_REMOTE;
	v->rank = -1;
	memset(v->missing, 0, sizeof(v->missing));
	find_remote_fault(s, all_known, v);
	if (find_different(s, v))
		return;
	if (s->waits.link_count || v->kind == COHORT_VERDICT_ORDER)
		return;
	if (v->rank >= 0 && v->kind != COHORT_VERDICT_NOT_STARTED)
		return;
	if (!all_known) {
		memcpy(v->missing, unknown, sizeof(unknown));
		return;
	}
	if (own.kind == COHORT_VERDICT_NOT_STARTED) {
		/* All ranks that are inside the call wait for each other. */
		v->rank = v->rank < 0 ? own.rank : -1;
		rank_set_add_all(v->missing, own.missing);
	} else if (v->rank < 0) {
		find_world(s, v->missing);
	}
	if (v->kind == COHORT_VERDICT_REMOTE)
		v->kind = own.kind;
}

/* Find faults that no single rank shows.  If ranks use two communicators in
 * different orders, blame the rank that differs from the majority.  If all
 * ranks of this process have reached the front collective, blame the ranks of
 * other processes that have not. */
static void find_others(const struct snapshot *s, struct cohort_verdict *v)
{
	const struct rank_snapshot *r;
	int waited_for = 0;

	for (r = s->ranks; r < s->ranks + s->size; r++)
		waited_for += is_waited_for(s, r);
	if (s->crossing.exists) {
		blame_odd(s, v);
	} else if (s->others_miss || (s->world > s->size && s->all_joined &&
	                              (v->kind == COHORT_VERDICT_NOT_FINISHED ||
	                               none_has_started(s, v)) &&
	                              waited_for == s->size)) {
		blame_remote(s, v);
	}
}

bool stall_is_remote(const struct snapshot *s, bool is_transfer)
{
	struct cohort_verdict v = { .rank = -1 };

	if (is_transfer)
		return !s->transfer.is_local;
	find_missing(s, &v);
	find_others(s, &v);
	return v.kind == COHORT_VERDICT_REMOTE;
}

void stall_suspects(const struct snapshot *s, const struct cohort_verdict *v,
                    uint64_t *set)
{
	int i;

	memcpy(set, v->missing, sizeof(v->missing));
	for (i = 0; i < s->size && rank_set_is_empty(v->missing); i++)
		if (!s->ranks[i].joined)
			rank_set_add(set, s->ranks[i].rank);
}

const struct remote_rank *stall_remote_process(const struct snapshot *s,
                                               const struct cohort_verdict *v)
{
	const struct remote_rank *x = snapshot_remote(s, v->rank);

	return x && x->is_process && x->kind == v->kind ? x : NULL;
}

/* ---- the front collective ----------------------------------------------- */

/* If ranks wait in a cycle, and some use this communicator and another one in a
 * different order from most ranks, blame these and return true. */
static bool blame_order(const struct snapshot *s, struct cohort_verdict *v)
{
	struct cohort_verdict odd = *v;

	if (!s->waits.is_cycle || !s->all_joined || !blame_odd(s, &odd))
		return false;
	*v = odd;
	return true;
}

bool stall_is_held_back(const struct snapshot *s)
{
	const struct rank_snapshot *r = s->ranks, *end = r + s->size;

	if (!s->section_tid || !s->all_joined)
		return false;
	while (r < end && r->meets && r->tid != s->section_tid)
		r++;
	return r == end;
}

/* Ranks of this process have not called.  Add the ranks of other processes that
 * have called, and those that have not; a stopped process comes first. */
static void add_others(const struct snapshot *s, struct cohort_verdict *v)
{
	const struct remote_rank *x, *end = s->remote + s->remote_count;

	for (x = s->remote; x < end; x++) {
		if (x->joined)
			rank_set_add(v->joined, x->rank);
		if (x->joined || x->waits || x->kind == COHORT_VERDICT_ORDER)
			continue;
		rank_set_add(v->missing, x->rank);
		if (x->kind == COHORT_VERDICT_PROCESS_STOPPED && is_worse(x, v))
			blame_far(v, x);
	}
}

void stall_front(const struct snapshot *s, struct cohort_verdict *v)
{
	bool is_found = s->crossing.exists;

	v->collective = s->front;
	find_missing(s, v);
	find_others(s, v);
	if (!is_found && !s->all_joined)
		add_others(s, v);
	if (stall_is_minority(s, v))
		blame_nobody(v);
	else if (!s->all_joined || is_found)
		is_found |= blame_gone(s, v) ||
		            (!is_found && blame_lock_holder(s, v));
	if (!is_found && !blame_order(s, v))
		stall_blame_culprits(s, v);
	if (v->rank >= 0 && v->world_rank < 0)
		v->world_rank = snapshot_world(s, v->rank);
	if (stall_is_held_back(s))
		v->rank = v->world_rank = -1;
}
