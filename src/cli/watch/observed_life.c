/* SPDX-License-Identifier: Apache-2.0 */

#include "cli/watch/observed.h"

#include <inttypes.h>

#include "base/util.h"
#include "watch/describe.h"

/* The ranks of a communicator that is being created or ended. */
struct party {
	uint64_t waiting[COHORT_RANK_WORDS]; /* ranks inside the call */
	uint64_t missing[COHORT_RANK_WORDS]; /* ranks that have not called */
	uint64_t since_ns; /* start of the clock; 0 if no rank waits */
	/* Number of ranks with which most ranks have called, if they differ. */
	int ranks;
};

/* Return whether a rank is being created.  A nonblocking call returns before
 * the rank is created, so its rank counts as being created until it has a
 * device or all ranks have called. */
static bool is_opening(const struct shared_rank *e, bool has_all)
{
	const uint32_t state = shared_state_of(e);

	return state == SHARED_OPENING || (state == SHARED_OPEN && !has_all &&
	                                   atomic_load(&e->device) < 0);
}

/* Find the ranks that are inside the call that creates @o or, if @is_end, that
 * ends it, and the ranks that they wait for.  The clock starts at the first
 * call or, if all ranks have called, at the last one. */
static void find_party(const struct watch *w, const struct observed *o,
                       bool is_end, struct party *p)
{
	uint64_t at, first = UINT64_MAX, last = 0;
	const struct shared_rank *e;
	bool has_all = true;

	for (int r = 0; r < o->ranks; r++)
		has_all &= o->entries[r] != 0;
	for (int r = 0; r < o->ranks; r++) {
		e = observed_entry(w, o, r);
		if (!e && !is_end)
			rank_set_add(p->missing, r);
		if (!e)
			continue;
		at = atomic_load(is_end ? &e->closing_ns : &e->opened_ns);
		last = MAX(last, at);
		if ((is_end ? shared_state_of(e) != SHARED_OPEN
		            : !is_opening(e, has_all)) ||
		    started_find(w->started, atomic_load(&e->pid))->has_ended)
			continue;
		rank_set_add(at ? p->waiting : p->missing, r);
		first = at ? MIN(first, at) : first;
	}
	if (!rank_set_is_empty(p->waiting))
		p->since_ns = MAX(rank_set_is_empty(p->missing) ? last : first,
		                  w->resumed_ns);
}

/* Add the entry's rank to @set if it is valid; the program may change it. */
static void add_rank(uint64_t *set, const struct shared_rank *e)
{
	const int rank = atomic_load(&e->rank);

	if (rank >= 0 && rank < COHORT_MAX_RANKS)
		rank_set_add(set, rank);
}

/* Store in @set the ranks that have called with @ranks ranks. */
static void find_callers(const struct watch *w, const struct observed *o,
                         int ranks, uint64_t *set)
{
	const struct shared_rank *e = NULL;

	while ((e = observed_next(w, o, e)))
		if (atomic_load(&e->ranks) == ranks)
			add_rank(set, e);
}

/* As find_party(), if ranks have called with different numbers of ranks: the
 * missing ranks are those whose number differs from that of most ranks.  The
 * clock starts at the last call. */
static void find_uneven(const struct watch *w, const struct observed *o,
                        struct party *p)
{
	const struct shared_rank *e = NULL;
	int all = 0, most = 0, n;
	bool is_waiting = false;

	while ((e = observed_next(w, o, e))) {
		uint64_t set[COHORT_RANK_WORDS] = { 0 };

		all++;
		is_waiting |= is_opening(e, false);
		p->since_ns = MAX(p->since_ns, atomic_load(&e->opened_ns));
		find_callers(w, o, atomic_load(&e->ranks), set);
		n = rank_set_count(set);
		if (n <= most)
			continue;
		most = n;
		p->ranks = atomic_load(&e->ranks);
	}
	while ((e = observed_next(w, o, e)))
		if (2 * most > all && atomic_load(&e->ranks) != p->ranks)
			add_rank(p->missing, e);
	p->since_ns = is_waiting ? MAX(p->since_ns, w->resumed_ns) : 0;
}

/* Return whether a report is due about ranks that have been waiting since
 * @since_ns, which is 0 if no rank waits. */
static bool is_due(struct lateness *l, const struct watch *w,
                   const struct observed *o, uint64_t since_ns)
{
	const uint64_t now = o->now.now_ns;
	unsigned expired = 0;

	if (l->since_ns != since_ns)
		*l = (struct lateness){ .since_ns = since_ns };
	if (since_ns && now > since_ns)
		expired = (unsigned)((now - since_ns) / w->deadline_ns);
	if (expired <= l->expired)
		return false;
	l->expired = expired;
	return true;
}

static void add_ranks(struct text *t, const uint64_t *set, const char *have)
{
	rank_set_name(t, set, set, "");
	text_add(t, " %s %s", rank_set_count(set) == 1 ? "has" : "have", have);
}

/* Add the ranks that have called with @ranks ranks, if there are any. */
static void add_callers(struct text *t, const struct watch *w,
                        const struct observed *o, int ranks, const char *end)
{
	uint64_t set[COHORT_RANK_WORDS] = { 0 };

	find_callers(w, o, ranks, set);
	if (rank_set_is_empty(set))
		return;
	text_add(t, " ");
	rank_set_name(t, set, set, "");
	text_add(t, " %s it with nranks %d%s",
	         rank_set_count(set) == 1 ? "calls" : "call", ranks, end);
}

/* Add with which number of ranks each rank has called, that of most ranks
 * last. */
static void add_sizes(struct text *t, const struct watch *w,
                      const struct observed *o, const struct party *p)
{
	text_add(t, "ncclCommInitRank of \"%s\" differs:", o->name);
	for (int n = 1; n <= COHORT_MAX_RANKS; n++)
		if (n != p->ranks)
			add_callers(t, w, o, n, ";");
	add_callers(t, w, o, p->ranks, "");
}

static void add_headline(struct text *t, const struct watch *w,
                         const struct observed *o, bool is_end,
                         const struct party *p)
{
	const bool has_missing = !rank_set_is_empty(p->missing);

	if (p->ranks) {
		add_sizes(t, w, o, p);
		return;
	}
	if (has_missing && !is_end) {
		add_ranks(t, p->missing,
		          "not called ncclCommInitRank on this machine for");
		text_add(t, " \"%s\"; ", o->name);
		rank_set_name(t, p->waiting, p->waiting, "");
		text_add(t,
		         rank_set_count(p->waiting) == 1 ? " waits" : " wait");
		return;
	}
	add_ranks(t, p->waiting, "not returned from the call that");
	text_add(t, " %s \"%s\"", is_end ? "ends" : "creates", o->name);
	if (has_missing) {
		text_add(t, "; ");
		add_ranks(t, p->missing, "not called it");
	}
}

/* Add a row for each rank that cannot make the call, or has failed.  Return the
 * first of these ranks, or -1. */
static int add_reasons(struct text *t, struct watch *w,
                       const struct observed *o)
{
	struct remote_rank halted;
	int rank = -1;

	for (const struct rank_snapshot *r = o->now.ranks;
	     r < o->now.ranks + o->now.size; r++) {
		if (observed_is_halted(w, o, r, false, &halted))
			text_add(t, "\nwhy    %s", halted.text);
		else if (r->closed && r->device < 0)
			text_add(t,
			         "\nwhy    process %" PRId64
			         " (rank %d) has failed to create it",
			         r->pid, r->rank);
		else
			continue;
		rank = rank < 0 ? r->rank : rank;
	}
	return rank;
}

static void make_verdict(struct watch *w, struct observed *o, bool is_end,
                         const struct party *p)
{
	struct cohort_cause cause = {
		.kind = p->ranks ? COHORT_VERDICT_DIFFERENT_CALL
		        : is_end ? COHORT_VERDICT_CLOSE_STUCK
		                 : COHORT_VERDICT_INIT_STUCK,
		.world_rank = -1,
	};
	struct text t = { cause.text, sizeof(cause.text) };

	text_add(&t, "HANG   ");
	add_headline(&t, w, o, is_end, p);
	cause.rank = add_reasons(&t, w, o);
	if (cause.rank < 0)
		cause.rank = rank_set_next(p->missing, -1);
	text_add(&t, "\nsince  ");
	describe_age(&t, &o->now, p->since_ns);
	text_add(&t, " (limit ");
	describe_time(&t, w->deadline_ns);
	text_add(&t, ")");
	verdict_ended(&o->now, &cause, &o->verdict);
}

bool observed_creation(struct watch *w, struct observed *o, bool *is_late)
{
	struct party p = { .since_ns = 0 };
	struct remote_rank halted;
	bool is_awaited = false;

	*is_late = false;
	if (o->parent)
		return false;
	if (o->is_uneven)
		find_uneven(w, o, &p);
	else
		find_party(w, o, false, &p);
	for (int i = 0; i < o->now.size && p.since_ns; i++)
		is_awaited |= observed_is_halted(w, o, &o->now.ranks[i], true,
		                                 &halted);
	*is_late = is_due(&o->creation, w, o, p.since_ns);
	if (p.since_ns)
		*is_late |= observed_end_is_due(o, is_awaited);
	if (*is_late)
		make_verdict(w, o, false, &p);
	return p.since_ns;
}

bool observed_end(struct watch *w, struct observed *o)
{
	struct party p = { .since_ns = 0 };

	find_party(w, o, true, &p);
	/* A collective or transfer that is not done is a better explanation. */
	if (o->now.front || o->now.transfer.number ||
	    !is_due(&o->end, w, o, p.since_ns))
		return false;
	make_verdict(w, o, true, &p);
	return true;
}
