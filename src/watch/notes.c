/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/notes.h"

#include "watch/describe.h"
#include "watch/stall.h"

/* Return the first rank that is missing only because the thread that would call
 * for it is waiting in another rank's call, and store that other rank in
 * *@caller.  Return NULL if there is no such rank. */
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

/* A thread that makes the calls of several ranks in turn must not wait in one
 * rank's call, because it can make the next rank's call only after that. */
void notes_add_hint(struct text *t, const struct snapshot *s)
{
	const struct rank_snapshot *caller, *r = find_held(s, &caller);

	if (r)
		text_add(t,
		         "; one thread makes the calls of ranks %d and %d: use "
		         "a group-level call, or COHORT_LAUNCH_AHEAD",
		         snapshot_world(s, caller->rank),
		         snapshot_world(s, r->rank));
}

/* Add the call that a rank of another process has made instead of this
 * process's call. */
static void add_different(struct text *t, const struct snapshot *s)
{
	const struct remote_rank *x = stall_first_different(s);

	if (!x)
		return;
	text_add(t, "\nnote   ");
	describe_number(t, s, x->rank);
	text_add(t, " calls %s", x->call);
}

/* Add the rows that only a group of several processes needs. */
static void add_others(struct text *t, const struct snapshot *s,
                       const struct cohort_verdict *v)
{
	const struct remote_rank *x = snapshot_remote(s, v->rank);
	uint64_t unknown[COHORT_RANK_WORDS];

	if (v->kind == COHORT_VERDICT_REMOTE)
		text_add(t, "\nnote   no rank of this process is missing");
	else if (s->world > s->size && !s->remote_count)
		text_add(t, "\nnote   %d of %d ranks are in other processes",
		         s->world - s->size, s->world);
	if (v->kind == COHORT_VERDICT_DIFFERENT_CALL)
		add_different(t, s);
	if (x && x != stall_remote_process(s, v))
		text_add(t, "\nnote   %s", x->text);
	if (s->remote_count && stall_find_unknown(s, unknown)) {
		text_add(t, "\nnote   nothing is known about ");
		describe_numbers(t, s, unknown);
	}
	if (s->silent)
		text_add(t, "\nnote   no answer from %s", s->silent);
}

static void add_half(struct text *t, const struct snapshot *s, int rank,
                     const struct half *h)
{
	text_add(t, "\nalso   ");
	describe_half(t, s, snapshot_rank(s, rank),
	              (rank == s->transfer.rank) == s->transfer.sends, h);
}

static void add_peer(struct text *t, const struct snapshot *s)
{
	const struct transfer_snapshot *x = &s->transfer;
	const struct remote_rank *other = snapshot_remote(s, x->peer);

	if (x->is_local) {
		/* A peer that has not called was described above. */
		if (!s->waits.link_count && x->met)
			add_half(t, s, x->peer, &x->other);
		return;
	}
	if (other && other->kind != COHORT_VERDICT_PROCESS_STOPPED)
		text_add(t, "\nalso   %s", other->text);
	else if (!other)
		text_add(t, "\nnote   rank %d is in another process%s", x->peer,
		         stall_may_connect(x)
		                 ? ", and the first send or receive between "
		                   "two ranks waits until both have called"
		                 : "");
	if (!other && s->silent)
		text_add(t, "\nnote   no answer from %s", s->silent);
}

static void add_transfer(struct text *t, const struct snapshot *s)
{
	const struct transfer_snapshot *x = &s->transfer;

	text_add(t, "\nwait   ");
	describe_number(t, s, x->rank);
	text_add(t, ", in %s of %zu %s %s ", x->sends ? "send" : "recv",
	         x->count, type_name(x->type), x->sends ? "to" : "from");
	describe_number(t, s, x->peer);
	if (x->met)
		add_half(t, s, x->rank, &x->own);
	add_peer(t, s);
}

/* Name the ranks that wait for Python's interpreter lock, which the blamed rank
 * holds. */
static void add_lock_waiters(struct text *t, const struct snapshot *s,
                             const struct cohort_verdict *v)
{
	const struct rank_snapshot *r, *holder = stall_lock_holder(s);
	uint64_t set[COHORT_RANK_WORDS] = { 0 };

	if (!holder || holder->rank != v->rank)
		return;
	for (r = s->ranks; r < s->ranks + s->size; r++)
		if (!r->joined && r != holder)
			rank_set_add(set, r->rank);
	text_add(t, "\nnote   ");
	describe_numbers(t, s, set);
	text_add(t, rank_set_count(set) == 1 ? " waits" : " wait");
	text_add(t, " for Python's interpreter lock");
}

void notes_add(struct text *t, const struct snapshot *s,
               const struct expiry *due, const struct cohort_verdict *v)
{
	if (due->is_transfer) {
		add_transfer(t, s);
		return;
	}
	add_others(t, s, v);
	add_lock_waiters(t, s, v);
	if (*s->tags)
		text_add(t, "\nnote   %s", s->tags);
}
