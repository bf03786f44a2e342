/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/stall.h"

#include <string.h>

#include "watch/adaptive.h"
#include "watch/cycle.h"
#include "watch/describe.h"

/* ---- for the front and transfers --------------------------------------- */

int stall_kind_of_absence(const struct rank_snapshot *r)
{
	if (rank_has_thread(r) && !r->alive)
		return COHORT_VERDICT_THREAD_EXITED;
	if (rank_has_left(r))
		return COHORT_VERDICT_LEFT;
	if (!r->last.ticket)
		return COHORT_VERDICT_NEVER_CALLED;
	if (r->inside && !r->native)
		return COHORT_VERDICT_DIFFERENT_CALL;
	return COHORT_VERDICT_OUTSIDE;
}

void stall_find_cycle(const struct snapshot *s, bool is_transfer,
                      struct cycle *cycle, struct cohort_verdict *v)
{
	cycle_find(s, is_transfer, cycle);
	if (!cycle->n)
		return;
	v->kind = COHORT_VERDICT_CYCLE;
	v->rank = v->world_rank = -1;
}

/* ---- the front: whose fault ------------------------------------------- */

/* True if the front waits for the call of @r, or for its operation. */
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

/* Which ranks the front waits for, and why.  Once all have called it, the ranks
 * that have not started are the ones that the others wait for. */
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
	/* All have started and none is done: that is nobody's fault. */
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
	return stall_is_departure(stall_kind_of_absence(r));
}

/* The number of ranks of this process that have called the front; 0 if the
 * others are gone or wait themselves. */
static int count_joined(const struct snapshot *s)
{
	const struct rank_snapshot *r, *end = s->ranks + s->size;
	int joined = 0;

	if (!s->front || s->waits.link_count || s->crossing.exists)
		return 0;
	for (r = s->ranks; r < end; r++) {
		if (!r->joined && stall_is_gone(r))
			return 0;
		joined += r->joined;
	}
	return joined;
}

/* True if the rank of another process is alive, and waits for nothing. */
static bool is_idle(const struct remote_rank *x)
{
	return !x->joined && !x->waits &&
	       (x->kind == COHORT_VERDICT_NEVER_CALLED ||
	        x->kind == COHORT_VERDICT_OUTSIDE);
}

bool stall_is_minority(const struct snapshot *s, const struct cohort_verdict *v)
{
	const struct remote_rank *x, *end = s->remote + s->remote_count;
	int joined = count_joined(s);

	/* A transfer, which has no number among the collectives, waits for one
	 * rank. */
	if (!v->collective || !joined || v->kind == COHORT_VERDICT_CYCLE ||
	    s->remote_count < s->world - s->size)
		return false;
	for (x = s->remote; x < end; x++) {
		if (!x->joined && !is_idle(x))
			return false;
		joined += x->joined;
	}
	return 2 * joined < s->world;
}

bool stall_may_be_minority(const struct snapshot *s)
{
	const int joined = count_joined(s);

	return joined && s->world > s->size &&
	       2 * (joined + s->others_joined) < s->world;
}

/* Where some of the ranks that the front waits for make no call any more, it is
 * these that are to blame; false: there are none. */
static bool blame_gone(const struct snapshot *s, struct cohort_verdict *v)
{
	const struct rank_snapshot *r, *end = s->ranks + s->size;
	uint64_t gone[COHORT_RANK_WORDS] = { 0 };

	for (r = end; r-- > s->ranks;) {
		if (r->joined || !stall_is_gone(r))
			continue;
		rank_set_add(gone, r->rank);
		v->rank = r->rank;
		v->kind = stall_kind_of_absence(r);
	}
	if (rank_set_is_empty(gone))
		return false;
	memcpy(v->missing, gone, sizeof(gone));
	return true;
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
	if (!s->waits.culprit_count)
		return;
	memcpy(v->missing, s->waits.here, sizeof(v->missing));
	while (r < s->world && !rank_set_has(v->missing, r))
		r++;
	v->rank = r < s->world ? r : -1;
	v->world_rank = x->world;
	v->kind = x->has_called     ? COHORT_VERDICT_NOT_STARTED
	          : x->at.rank >= 0 ? stall_kind_of_absence(&x->at)
	          : x->kind         ? x->kind
	                            : COHORT_VERDICT_REMOTE;
}

static void blame_nobody(struct cohort_verdict *v)
{
	v->rank = v->world_rank = -1;
	memset(v->missing, 0, sizeof(v->missing));
}

/* True if all ranks of this process are inside the first collective's native
 * call: NCCL may connect all ranks there, and so wait for the calls of other
 * processes. */
static bool may_connect_all(const struct snapshot *s)
{
	const struct rank_snapshot *r;

	for (r = s->ranks; r < s->ranks + s->size; r++)
		if (!r->in_call || r->meets)
			return false;
	return s->front == 1;
}

bool stall_is_at_fault(const struct remote_rank *x, bool all_joined)
{
	if (!all_joined)
		return !x->joined;
	return x->kind == COHORT_VERDICT_PROCESS_STOPPED ||
	       (x->kind == COHORT_VERDICT_NOT_STARTED && !x->is_behind);
}

/* True if @x is to be blamed rather than the rank of @v: one of a stopped
 * process, whose ranks can do nothing, or else the first. */
static bool is_worse(const struct remote_rank *x,
                     const struct cohort_verdict *v)
{
	const bool is_stopped = x->kind == COHORT_VERDICT_PROCESS_STOPPED;

	if (v->rank >= 0 &&
	    is_stopped != (v->kind == COHORT_VERDICT_PROCESS_STOPPED))
		return is_stopped;
	return v->rank < 0 || x->rank < v->rank;
}

/* The ranks of other processes of which nothing is known.  Returns how many. */
static int find_unknown(const struct snapshot *s, uint64_t *set)
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

/* The ranks of other processes that are at fault, by what they have answered:
 * into v->missing, and the first one as v->rank.  Also notes which have called.
 * If all have, as far as is known, and nothing is known of some, these may be
 * at fault, and what the others wait for. */
static void find_remote_fault(const struct snapshot *s, bool all_known,
                              struct cohort_verdict *v)
{
	const struct remote_rank *x, *end = s->remote + s->remote_count;
	uint64_t waiting[COHORT_RANK_WORDS] = { 0 };
	bool all_joined = true, is_gone = false;

	for (x = s->remote; x < end; x++) {
		all_joined &= x->joined;
		is_gone |= !x->joined && stall_is_departure(x->kind);
		if (x->joined)
			rank_set_add(v->joined, x->rank);
	}
	for (x = s->remote; x < end; x++) {
		if (!stall_is_at_fault(x, all_joined) ||
		    (all_joined && !all_known))
			continue;
		/* As in blame_gone(): those that may still call are not to
		 * blame. */
		if (is_gone && !stall_is_departure(x->kind))
			continue;
		/* The trail leads from it to who is at fault. */
		if (!x->joined && x->waits) {
			rank_set_add(waiting, x->rank);
			continue;
		}
		rank_set_add(v->missing, x->rank);
		if (is_worse(x, v)) {
			v->rank = x->rank;
			v->world_rank = x->world;
			v->kind = x->kind;
		}
	}
	if (rank_set_is_empty(v->missing))
		memcpy(v->missing, waiting, sizeof(waiting));
}

/* The digest of what this process's ranks have called, 0: that is not on
 * record. */
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

static const struct remote_rank *first_different(const struct snapshot *s)
{
	const struct remote_rank *x = s->remote, *end = x + s->remote_count;
	const uint32_t digest = own_digest(s);

	while (x < end && !calls_other(x, digest))
		x++;
	return x < end ? x : NULL;
}

bool stall_has_different(const struct snapshot *s)
{
	return first_different(s);
}

/* Ranks of other processes whose calls differ from this one's, which are
 * compared now at the latest.  The smaller side is at fault. */
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

/* Blame ranks of other processes: those whose answers show a fault, otherwise
 * those that have not answered.  All ranks here have called. */
static void blame_remote(const struct snapshot *s, struct cohort_verdict *v)
{
	const struct cohort_verdict own = *v;
	uint64_t unknown[COHORT_RANK_WORDS];
	const bool all_known = !find_unknown(s, unknown);

	v->kind = COHORT_VERDICT_REMOTE;
	v->rank = -1;
	memset(v->missing, 0, sizeof(v->missing));
	find_remote_fault(s, all_known, v);
	if (find_different(s, v))
		return;
	if (s->waits.link_count)
		return;
	if (v->rank >= 0 && v->kind != COHORT_VERDICT_NOT_STARTED)
		return;
	if (!all_known) {
		memcpy(v->missing, unknown, sizeof(unknown));
		return;
	}
	if (own.kind == COHORT_VERDICT_NOT_STARTED) {
		/* All that are inside the call wait for each other. */
		v->rank = v->rank < 0 ? own.rank : -1;
		rank_set_add_all(v->missing, own.missing);
	} else if (v->rank < 0) {
		find_world(s, v->missing);
	}
	if (v->kind == COHORT_VERDICT_REMOTE)
		v->kind = own.kind;
}

/* Faults that are not of one rank: ranks use two communicators in different
 * orders; or all ranks of this process have come to the front, and those of
 * other processes may not have.  In a crossing a rank is at fault if the
 * majority waits for it. */
static void find_others(const struct snapshot *s, struct cohort_verdict *v)
{
	const struct rank_snapshot *r;
	int waited_for = 0;

	for (r = s->ranks; r < s->ranks + s->size; r++)
		waited_for += is_waited_for(s, r);
	if (s->crossing.exists) {
		v->kind = COHORT_VERDICT_ORDER;
		v->rank = -1;
		if (2 * (s->size - waited_for + s->others_joined) > s->world &&
		    !*s->crossing.ended && !s->crossing.second.here_ns)
			v->rank = s->crossing.second.rank;
	} else if (s->others_miss || (s->world > s->size && s->all_joined &&
	                              (v->kind == COHORT_VERDICT_NOT_FINISHED ||
	                               may_connect_all(s)) &&
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

/* ---- rows of the block ------------------------------------------------- */

/* The start of a row: see render.h. */
#define ROW "\nnote   "

/* The first rank that is missing only because the thread that would call for it
 * waits in the call of another rank, which is *@caller; NULL: there is no such
 * rank. */
static const struct rank_snapshot *
find_held(const struct snapshot *s, const struct rank_snapshot **caller)
{
	const struct rank_snapshot *r, *end = s->ranks + s->size;
	int tid;

	for (r = s->ranks; r < end; r++) {
		tid = r->tid ? r->tid : s->split_tid;
		for (*caller = s->ranks; *caller < end && !r->joined; ++*caller)
			if ((*caller)->meets && (*caller)->inside &&
			    (*caller)->tid == tid)
				return r;
	}
	return NULL;
}

/* A thread that calls for several ranks in turn cannot wait in one call for the
 * next. */
void stall_add_hint(struct text *t, const struct snapshot *s)
{
	const struct rank_snapshot *caller, *r = find_held(s, &caller);

	if (r)
		text_add(t,
		         "; one thread calls for ranks %d and %d: that needs a "
		         "group-level call, or options.launch ahead",
		         snapshot_world(s, caller->rank),
		         snapshot_world(s, r->rank));
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

/* What another process's rank has called instead. */
static void add_different(struct text *t, const struct snapshot *s)
{
	const struct remote_rank *x = first_different(s);

	if (!x)
		return;
	text_add(t, ROW);
	describe_number(t, s, x->rank);
	text_add(t, " calls %s", x->call);
}

const struct remote_rank *stall_remote_process(const struct snapshot *s,
                                               const struct cohort_verdict *v)
{
	const struct remote_rank *x = snapshot_remote(s, v->rank);

	return x && x->is_process && x->kind == v->kind ? x : NULL;
}

/* What a group that spans several processes needs to have said. */
static void add_others(struct text *t, const struct snapshot *s,
                       const struct cohort_verdict *v)
{
	const struct remote_rank *x = snapshot_remote(s, v->rank);
	uint64_t unknown[COHORT_RANK_WORDS];

	if (v->kind == COHORT_VERDICT_REMOTE)
		text_add(t, ROW "no rank of this process is missing");
	else if (s->world > s->size && !s->remote_count)
		text_add(t, ROW "%d of %d ranks are of other processes",
		         s->world - s->size, s->world);
	if (v->kind == COHORT_VERDICT_DIFFERENT_CALL)
		add_different(t, s);
	if (x && x != stall_remote_process(s, v))
		text_add(t, ROW "%s", x->text);
	if (s->remote_count && find_unknown(s, unknown)) {
		text_add(t, ROW "nothing is known of ");
		describe_numbers(t, s, unknown);
	}
	if (s->silent)
		text_add(t, ROW "no answer from %s", s->silent);
}

void stall_add_notes(struct text *t, const struct snapshot *s,
                     const struct expiry *due, const struct cohort_verdict *v)
{
	if (due->is_transfer) {
		stall_add_transfer(t, s);
		return;
	}
	add_others(t, s, v);
	if (*s->tags)
		text_add(t, ROW "%s", s->tags);
}

/* ---- the front ---------------------------------------------------------- */

/* True if ranks use this communicator and another in different orders, of which
 * those of other processes are the minority: these are at fault. */
static bool blame_order(const struct snapshot *s, struct cohort_verdict *v)
{
	if (!s->waits.is_crossing || !s->all_joined ||
	    2 * rank_set_count(v->missing) >= s->world)
		return false;
	v->kind = COHORT_VERDICT_ORDER;
	v->rank = rank_set_next(v->missing, -1);
	return true;
}

void stall_front(const struct snapshot *s, struct cohort_verdict *v)
{
	bool is_found = s->crossing.exists;

	v->collective = s->front;
	find_missing(s, v);
	find_others(s, v);
	if (stall_is_minority(s, v))
		blame_nobody(v);
	else if (!is_found && !s->all_joined)
		is_found = blame_gone(s, v);
	if (!is_found && !blame_order(s, v))
		stall_blame_culprits(s, v);
	if (v->rank >= 0 && v->world_rank < 0)
		v->world_rank = snapshot_world(s, v->rank);
}
