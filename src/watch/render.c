/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/render.h"

#include <string.h>

#include "watch/adaptive.h"
#include "watch/crossing.h"
#include "watch/describe.h"
#include "watch/notes.h"
#include "watch/stall.h"
#include "watch/symbolizer.h"

/* Maximum number of further culprits that a verdict's block describes. */
#define MAX_DESCRIBED 3

/* Size of the line about the activity of the culprit's thread, in bytes. */
#define WHY_ROOM 72

/* Size of "rank 1023 (1023 in "GROUP")" in bytes. */
#define WHO_ROOM RANK_NAME_SIZE

/* Maximum number of frames of a stack in a verdict's block. */
#define MAX_FRAMES 8

/* Maximum number of other threads in a verdict's block. */
#define MAX_THREADS 6

/* Size of the text of another thread's stack, in bytes. */
#define THREAD_ROOM 160

/* ---- ranks -------------------------------------------------------------- */

/* Add ranks by their numbers in the root group: "rank 2", or "ranks 0-1, 3". */
static void add_numbers(struct text *t, const uint64_t *set)
{
	rank_set_name(t, set, set, NULL);
}

/* Return a phrase for a rank whose number is not known. */
static const char *unknown(const struct snapshot *s)
{
	return s->unknown ? s->unknown : "another process";
}

/* ---- the culprit -------------------------------------------------------- */

/* Return true if the blamed rank makes no further call in this communicator. */
static bool is_gone(const struct snapshot *s, const struct cohort_verdict *v)
{
	const struct rank_snapshot *r = snapshot_rank(s, v->rank);

	return r && !r->joined && stall_is_gone(r);
}

/* Return the culprit at the end of the waits, or NULL if there is none or the
 * blamed rank is gone. */
static const struct culprit *chained(const struct snapshot *s,
                                     const struct cohort_verdict *v)
{
	return s->waits.culprit_count && !is_gone(s, v) ? s->waits.culprits
	                                                : NULL;
}

/* Return the rank of this process that is to blame, even if it is missing in
 * another communicator.  Return NULL if there is none. */
static const struct rank_snapshot *culprit_of(const struct snapshot *s,
                                              const struct cohort_verdict *v)
{
	const struct culprit *x = chained(s, v);

	if (v->kind == COHORT_VERDICT_ORDER)
		return NULL; /* the order of the calls is at fault */
	if (x && x->at.rank >= 0)
		return &x->at;
	return snapshot_rank(s, v->rank);
}

/* Return the length of a stack's first frame: "train_worker (train.c:372)". */
static int first_frame(const char *stack)
{
	const char *end = strstr(stack, " < ");

	return end ? (int)(end - stack) : (int)strlen(stack);
}

static const char *departure(bool is_closed)
{
	return is_closed ? "its communicator was closed"
	                 : "its worker returned 0";
}

/* Return a phrase for how the ranks in @set have left, or NULL if they have
 * left in different ways. */
static const char *departures(const struct snapshot *s, const uint64_t *set)
{
	const int n = rank_set_count(set);
	const struct remote_rank *x;
	int i, closed = 0;

	for (i = 0; i < s->size; i++)
		closed += rank_set_has(set, s->ranks[i].rank) &&
		          s->ranks[i].closed;
	for (x = s->remote; x < s->remote + s->remote_count; x++)
		closed += rank_set_has(set, x->rank) && x->is_closed;
	return n == 1        ? departure(closed)
	       : !closed     ? "their workers returned 0"
	       : closed == n ? "their communicators were closed"
	                     : NULL;
}

static bool is_it(const char *who)
{
	return strcmp(who, "it") == 0;
}

/* Add what a rank does instead of the call that it has not made.  @who is the
 * subject of the sentence: "it" or "rank 1". */
static void add_place(struct text *t, const struct rank_snapshot *r,
                      const char *who)
{
	if (rank_is_gone(r))
		text_add(t, "%s has left: %s", who, departure(r->closed));
	else if (*r->elsewhere)
		text_add(t, "%s %s", who, r->elsewhere);
	else if (!r->tid || r->is_new)
		text_add(t, "%s has never called anything%s", who,
		         r->is_new ? " in this communicator" : "");
	else if (rank_has_thread(r) && !r->alive)
		text_add(t,
		         is_it(who) ? "its thread has exited"
		                    : "the thread of %s has exited",
		         who);
	else if (r->native)
		text_add(t, "%s is using its native communicator", who);
	else if (r->staged)
		text_add(t, "%s waits in a call with host memory", who);
	else if (r->inside && r->last.ticket)
		text_add(t, "%s is inside %s", who, record_name(&r->last));
	else if (r->inside)
		text_add(t, "%s is inside another call", who);
	else if (r->waiting && r->last.ticket)
		text_add(t, "%s waits for its %s", who, record_name(&r->last));
	else if (!r->alive)
		text_add(t, "the thread that last used %s has exited", who);
	else
		text_add(t, "%s is busy in the program", who);
}

/* Like add_place(), but in few words: "asleep in futex at train_worker
 * (train.c:372)". */
static void add_brief_place(struct text *t, const struct rank_snapshot *r,
                            const char *who)
{
	char why[WHY_ROOM];
	struct text w = { why, sizeof(why) };

	if (rank_is_gone(r) || !r->tid || (rank_has_thread(r) && !r->alive) ||
	    r->inside || r->waiting || *r->elsewhere || !*r->state) {
		add_place(t, r, who);
		return;
	}
	if (!is_it(who))
		text_add(t, "%s is ", who);
	text_add(&w, "%s", r->state);
	if (r->stack && symbolizer_has_stack(r->stack))
		text_add(&w, " at %.*s", first_frame(r->stack->brief),
		         r->stack->brief);
	text_add(t, "%s", why);
}

/* Return the subject of a sentence about @r: "it", or "rank 1" if several ranks
 * are missing. */
static const char *subject_name(const struct snapshot *s,
                                const struct cohort_verdict *v,
                                const struct rank_snapshot *r,
                                char name[WHO_ROOM])
{
	if (chained(s, v) || rank_set_count(v->missing) < 2)
		return "it";
	describe_number(&(struct text){ name, WHO_ROOM }, s, r->rank);
	return name;
}

/* Add the progress of a rank that has called the front collective. */
static void add_progress(struct text *t, const struct rank_snapshot *r,
                         const char *who)
{
	if (r->meets)
		text_add(t, "%s is about to launch", who);
	else if (r->in_call)
		text_add(t, "%s is inside %s", who,
		         record_native_name(&r->call));
	else
		text_add(t,
		         is_it(who)
		                 ? "its stream is still busy with earlier work"
		                 : "the stream of %s is still busy with "
		                   "earlier work",
		         who);
}

void render_brief(struct text *t, const struct snapshot *s,
                  const struct rank_snapshot *r)
{
	char name[160];
	struct text who = { name, sizeof(name) };

	text_add(&who, "rank %d (", s->is_child ? r->world : r->rank);
	if (*s->host)
		text_add(&who, "host %s, ", s->host);
	text_add(&who, "pid %lld)", (long long)s->pid);
	if (r->joined)
		add_progress(t, r, name);
	else
		add_brief_place(t, r, name);
}

/* ---- the headline ------------------------------------------------------- */

static void add_front(struct text *t, const struct snapshot *s)
{
	const struct record *call = snapshot_front_call(s);

	text_add(t, "%s %llu of \"%s\"",
	         call->ticket ? record_name(call) : "collective",
	         (unsigned long long)s->front, s->group);
}

static void add_transfer(struct text *t, const struct snapshot *s, int rank)
{
	const struct transfer_snapshot *x = &s->transfer;
	const bool is_own = rank == x->rank;
	const bool sends = x->sends == is_own;
	const int peer = is_own ? x->peer : x->rank;

	text_add(t, "%s %llu %s ", sends ? "send" : "recv",
	         (unsigned long long)x->number, sends ? "to" : "from");
	describe_number(t, s, peer);
	if (snapshot_world(s, peer) == peer)
		text_add(t, " of \"%s\"", s->group);
}

/* Add the rank's current tag if it is between calls, otherwise the tag of its
 * last call. */
static void add_tag(struct text *t, const struct rank_snapshot *r)
{
	const char *tag = r->joined ? r->tag : r->tag_now;

	if (*tag)
		text_add(t, " (tag \"%s\")", tag);
}

/* Return true if the ranks that have called have different tags from the ranks
 * that have not. */
static bool tags_differ(const struct snapshot *s)
{
	const char *tags[2] = { NULL, NULL };
	const struct rank_snapshot *r;

	for (r = s->ranks; r < s->ranks + s->size; r++)
		if (!tags[r->joined])
			tags[r->joined] = r->joined ? r->tag : r->tag_now;
	return tags[0] && tags[1] && strcmp(tags[0], tags[1]) != 0;
}

static void add_minority(struct text *t, const struct snapshot *s,
                         const struct cohort_verdict *v)
{
	const bool is_one = rank_set_count(v->joined) == 1;
	int i;

	describe_numbers(t, s, v->joined);
	text_add(t, is_one ? " alone waits in " : " alone wait in ");
	add_front(t, s);
	for (i = 0; !s->ranks[i].joined; i++)
		;
	if (tags_differ(s))
		add_tag(t, &s->ranks[i]);
}

static void add_elsewhere(struct text *t, const struct snapshot *s,
                          const struct culprit *x)
{
	const bool has_left = x->at.rank >= 0 && rank_is_gone(&x->at);
	const bool is_process =
		x->at.rank < 0 && (x->kind == COHORT_VERDICT_LEFT ||
	                           x->kind == COHORT_VERDICT_PROCESS_STOPPED);

	if (is_process && *x->text) {
		text_add(t, "%s", x->text);
		return;
	}
	if (x->world >= 0)
		text_add(t, "rank %d", x->world);
	else
		text_add(t, "%s", unknown(s));
	if (has_left)
		text_add(t, " has left: %s", departure(x->at.closed));
	else if (x->kind == COHORT_VERDICT_LEFT)
		text_add(t, " has left");
	else
		text_add(t,
		         x->has_called ? " has not started %s"
		                       : " has not called %s",
		         x->call);
	if (x->rank >= 0 && x->rank != x->world && !has_left)
		text_add(t, ", where it is rank %d", x->rank);
}

static void add_cycle_ranks(struct text *t, const struct snapshot *s)
{
	uint64_t set[COHORT_RANK_WORDS] = { 0 };
	int i;

	for (i = 0; i < s->waits.link_count; i++) {
		rank_set_add_all(set, s->waits.links[i].worlds);
		rank_set_add_all(set, s->waits.links[i].behind);
		if (s->waits.links[i].for_world >= 0)
			rank_set_add(set, s->waits.links[i].for_world);
	}
	add_numbers(t, set);
	/* Another process may have found the cycle and reported only one of its
	 * ranks. */
	text_add(t, rank_set_count(set) == 1
	                    ? " and others wait for each other in a cycle"
	                    : " wait for each other in a cycle");
}

/* Return a phrase for what the ranks in @set have not done in the front
 * collective or the transfer. */
static const char *describe_omission(const struct snapshot *s,
                                     const struct expiry *due,
                                     const struct cohort_verdict *v,
                                     const uint64_t *set)
{
	const struct rank_snapshot *r = snapshot_rank(s, v->rank);
	const struct transfer_snapshot *x = &s->transfer;
	const bool is_one = rank_set_count(set) == 1;
	const bool in_call = due->is_transfer
	                             ? (v->rank == x->rank ? x->own.in_call
	                                                   : x->other.in_call)
	                             : r && r->in_call;

	if (v->kind == COHORT_VERDICT_REMOTE)
		return "of other processes may not have called";
	if (v->kind == COHORT_VERDICT_DIFFERENT_CALL && !due->is_transfer &&
	    snapshot_has_all(s))
		return "called something other than";
	if (v->kind != COHORT_VERDICT_NOT_STARTED)
		return is_one ? "has not called" : "have not called";
	if (in_call && is_one)
		return "has not returned from the native call of";
	return is_one ? "has not started" : "have not started";
}

static void add_operation(struct text *t, const struct snapshot *s,
                          const struct expiry *due, int rank)
{
	if (due->is_transfer)
		add_transfer(t, s, rank);
	else
		add_front(t, s);
}

void render_missed(struct text *t, const struct snapshot *s,
                   const struct expiry *due, const struct cohort_verdict *v)
{
	if (s->waits.culprit_count)
		text_add(t, "%s", s->waits.culprits->call);
	else
		add_operation(t, s, due, v->rank);
}

/* Add the blamed ranks, and what they have not done in the front collective or
 * the transfer. */
static void add_blamed(struct text *t, const struct snapshot *s,
                       const struct expiry *due, const struct cohort_verdict *v)
{
	uint64_t set[COHORT_RANK_WORDS] = { 0 };
	const struct rank_snapshot *r = s->ranks;
	const char *how;

	if (v->kind == COHORT_VERDICT_LEFT && rank_set_is_empty(v->missing)) {
		while (r < s->ranks + s->size - 1 && !r->gave_up)
			r++;
		describe_number(t, s, r->rank);
		text_add(t, " %s", r->elsewhere);
		return;
	}
	if (v->kind == COHORT_VERDICT_NOT_FINISHED ||
	    rank_set_is_empty(v->missing)) {
		add_operation(t, s, due, s->transfer.rank);
		text_add(t, s->starts_are_marked
		                    ? " has started and has not finished on "
		                    : " has not finished on ");
		describe_numbers(t, s, v->missing);
		return;
	}
	/* Both ends of a transfer may be missing, but only one is to blame. */
	if (due->is_transfer && v->rank >= 0)
		rank_set_add(set, v->rank);
	else
		memcpy(set, v->missing, sizeof(set));
	describe_numbers(t, s, set);
	if (v->kind == COHORT_VERDICT_LEFT) {
		how = departures(s, set);
		text_add(t,
		         rank_set_count(set) == 1 ? " has left" : " have left");
		if (how)
			text_add(t, ": %s", how);
		return;
	}
	text_add(t, " %s ", describe_omission(s, due, v, set));
	add_operation(t, s, due, v->rank >= 0 ? v->rank : s->transfer.peer);
}

static void add_order(struct text *t, const struct snapshot *s,
                      const struct cohort_verdict *v)
{
	const struct crossing *x = &s->crossing;
	uint64_t set[COHORT_RANK_WORDS] = { 0 };
	const bool is_one = rank_set_count(v->missing) == 1;

	text_add(t, ": ");
	if (v->rank >= 0) {
		describe_numbers(t, s, v->missing);
	} else if (x->exists && !*x->ended) {
		rank_set_add(set, x->first.rank);
		rank_set_add(set, x->second.rank);
		describe_numbers(t, s, set);
	} else {
		text_add(t, "ranks");
	}
	text_add(t, v->rank >= 0 && is_one ? " uses " : " use ");
	if (*x->group && strcmp(s->group, x->group) == 0)
		text_add(t, "two communicators named \"%s\"", s->group);
	else if (*x->group)
		text_add(t, "\"%s\" and \"%s\"", s->group, x->group);
	else
		text_add(t, "two communicators");
	text_add(t, v->rank >= 0 ? " in a different order from most ranks"
	                         : " in different orders");
}

static void add_headline(struct text *t, const struct snapshot *s,
                         const struct expiry *due,
                         const struct cohort_verdict *v)
{
	if (v->kind == COHORT_VERDICT_CYCLE)
		add_cycle_ranks(t, s);
	else if (v->kind == COHORT_VERDICT_ORDER) {
		add_front(t, s);
		add_order(t, s, v);
	} else if (stall_remote_process(s, v))
		text_add(t, "%s", stall_remote_process(s, v)->text);
	else if (stall_is_minority(s, v))
		add_minority(t, s, v);
	else if (chained(s, v))
		add_elsewhere(t, s, chained(s, v));
	else
		add_blamed(t, s, due, v);
}

/* ---- the waiters -------------------------------------------------------- */

/* Store in @set the ranks that wait: they have called and are not at fault. */
static void find_waiters(const struct cohort_verdict *v, uint64_t *set)
{
	int i;

	for (i = 0; i < COHORT_RANK_WORDS; i++)
		set[i] = v->joined[i] & ~v->missing[i];
}

static void add_links(struct text *t, const struct snapshot *s,
                      const struct cohort_verdict *v, const char *before)
{
	const struct wait_link *x = s->waits.links;
	int i;

	/* Omit links that do not lead to the blamed rank. */
	if (is_gone(s, v) &&
	    (s->waits.is_cycle || s->waits.culprits[0].world != v->world_rank))
		return;
	for (i = 0; i < s->waits.link_count; i++, x++) {
		text_add(t, "%s", before);
		add_numbers(t, x->worlds);
		text_add(t,
		         rank_set_count(x->worlds) == 1 ? " waits" : " wait");
		text_add(t, " in %s %s ", x->call,
		         x->way == WAITS_FOR    ? "for"
		         : x->way == WAITS_FROM ? "from"
		                                : "to");
		if (x->for_world >= 0)
			text_add(t, "rank %d", x->for_world);
		else
			text_add(t, "%s", unknown(s));
	}
}

/* If a minority has called and waits, add what the other ranks do instead of
 * the call. */
static void add_others(struct text *t, const struct snapshot *s)
{
	const struct remote_rank *x, *end = s->remote + s->remote_count;
	uint64_t left[COHORT_RANK_WORDS] = { 0 };
	uint64_t rest[COHORT_RANK_WORDS] = { 0 };
	const struct rank_snapshot *first = NULL;
	bool has_called = false, is_one;
	int i;

	for (i = 0; i < s->size; i++) {
		if (s->ranks[i].joined)
			continue;
		rank_set_add(rank_is_gone(&s->ranks[i]) ? left : rest,
		             s->ranks[i].rank);
		if (!first)
			first = &s->ranks[i];
	}
	for (x = s->remote; x < end; x++) {
		if (x->joined)
			continue;
		rank_set_add(x->kind == COHORT_VERDICT_LEFT ? left : rest,
		             x->rank);
		has_called |= x->kind == COHORT_VERDICT_OUTSIDE;
	}
	if (first)
		has_called = first->last.ticket;
	if (!rank_set_is_empty(left)) {
		describe_numbers(t, s, left);
		text_add(t, rank_set_count(left) == 1 ? " has left"
		                                      : " have left");
		text_add(t, rank_set_is_empty(rest) ? "" : ", ");
	}
	if (!rank_set_is_empty(rest)) {
		describe_numbers(t, s, rest);
		is_one = rank_set_count(rest) == 1;
		if (has_called)
			text_add(t, is_one ? " is between calls"
			                   : " are between calls");
		else
			text_add(t, is_one ? " has made no call so far"
			                   : " have made no call so far");
	}
	if (first && tags_differ(s))
		add_tag(t, first);
	else if (*s->tags)
		text_add(t, "; %s", s->tags);
}

/* ---- the line ----------------------------------------------------------- */

static void add_times(struct text *t, const struct snapshot *s,
                      const struct expiry *due)
{
	text_add(t, " (");
	describe_age(t, s, due->since_ns);
	if (due->deadline_ns) {
		text_add(t, due->what == EXPIRY_SLOW ? ", slow after "
		            : due->is_adapted        ? ", observed limit "
		                                     : ", limit ");
		describe_time(t, due->deadline_ns);
	}
	text_add(t, ")");
}

static void add_section(struct text *t, const struct snapshot *s)
{
	text_add(t, "a quiet section of thread %d holds them back",
	         s->section_tid);
}

static void add_line_why(struct text *t, const struct snapshot *s,
                         const struct cohort_verdict *v)
{
	const struct rank_snapshot *r = culprit_of(s, v);
	const struct remote_rank *x = snapshot_remote(s, v->rank);
	char name[WHO_ROOM];

	if (v->kind == COHORT_VERDICT_LEFT ||
	    v->kind == COHORT_VERDICT_PROCESS_STOPPED)
		return;
	if (r && (!r->joined || chained(s, v))) {
		text_add(t, ": ");
		add_brief_place(t, r, subject_name(s, v, r, name));
	} else if (r && v->kind == COHORT_VERDICT_NOT_STARTED) {
		text_add(t, ": ");
		add_progress(t, r, subject_name(s, v, r, name));
	} else if (stall_is_held_back(s)) {
		text_add(t, ": ");
		add_section(t, s);
	} else if (x && *x->text) {
		text_add(t, ": %s", remote_words(x));
	} else if (chained(s, v) && *chained(s, v)->text) {
		text_add(t, ": %s", chained(s, v)->text);
	}
}

static void add_line_wait(struct text *t, const struct snapshot *s,
                          const struct expiry *due,
                          const struct cohort_verdict *v)
{
	const struct rank_snapshot *r = culprit_of(s, v);
	uint64_t waiters[COHORT_RANK_WORDS];

	if (stall_is_minority(s, v)) {
		text_add(t, "; ");
		add_others(t, s);
		return;
	}
	find_waiters(v, waiters);
	if (v->kind == COHORT_VERDICT_CYCLE || rank_set_is_empty(waiters) ||
	    (due->is_transfer && s->waits.link_count)) {
		add_links(t, s, v, "; ");
		return;
	}
	text_add(t, "; ");
	describe_numbers(t, s, waiters);
	text_add(t, rank_set_count(waiters) == 1 ? " waits" : " wait");
	if (v->kind == COHORT_VERDICT_LEFT)
		text_add(t, rank_set_count(v->missing) > 1 && !chained(s, v)
		                    ? " for them"
		                    : " for it");
	if (v->kind == COHORT_VERDICT_LEFT ||
	    v->kind == COHORT_VERDICT_PROCESS_STOPPED) {
		text_add(t, " in ");
		add_operation(t, s, due, s->transfer.rank);
	}
	add_links(t, s, v, "; ");
	if (r && !r->joined && *r->awaits)
		text_add(t, "; it needs %s", r->awaits);
	if (!due->is_transfer)
		notes_add_hint(t, s);
}

static void write_line(const struct snapshot *s, const struct expiry *due,
                       struct verdict *out)
{
	struct text t = { out->line, sizeof(out->line) };

	add_headline(&t, s, due, &out->v);
	add_times(&t, s, due);
	add_line_why(&t, s, &out->v);
	add_line_wait(&t, s, due, &out->v);
}

/* ---- the block ---------------------------------------------------------- */

static void start_row(struct text *t, const char *label)
{
	text_add(t, "\n%-7s", label);
}

static void add_block_why(struct text *t, const struct snapshot *s,
                          const struct cohort_verdict *v)
{
	const struct rank_snapshot *r = culprit_of(s, v);
	char name[WHO_ROOM];

	if (!r && stall_is_held_back(s)) {
		start_row(t, "why");
		add_section(t, s);
	}
	if (!r || (r->joined && !chained(s, v) &&
	           v->kind != COHORT_VERDICT_NOT_STARTED))
		return;
	start_row(t, "why");
	if (r->joined && !chained(s, v))
		add_progress(t, r, subject_name(s, v, r, name));
	else
		add_place(t, r, subject_name(s, v, r, name));
	if (!r->tid || (rank_is_gone(r) && !r->inside && !r->pid))
		return;
	text_add(t,
	         rank_has_thread(r) ? ": thread %d"
	                            : "; last seen in thread %d",
	         r->tid);
	if (*r->thread)
		text_add(t, " \"%s\"", r->thread);
	if (r->pid)
		text_add(t, " (process %lld)", (long long)r->pid);
	if (*r->state)
		text_add(t, rank_has_thread(r) ? " is %s" : ", which is %s",
		         r->state);
	else if (!rank_has_thread(r) && r->alive == 0)
		text_add(t, ", which has exited");
	if (r->stack && r->stack->holds_python == 1)
		text_add(t, "; it holds Python's interpreter lock");
}

static void add_where(struct text *t, const struct rank_snapshot *r)
{
	const char *at, *label = "where";
	int n, i;

	if (!r || !r->stack)
		return;
	if (!symbolizer_has_stack(r->stack)) {
		start_row(t, label);
		text_add(t, "%s", r->stack->text);
		return;
	}
	for (i = 0, at = r->stack->brief; *at && i < MAX_FRAMES; i++) {
		n = first_frame(at);
		start_row(t, label);
		text_add(t, "%.*s", n, at);
		at += n;
		if (*at)
			at += strlen(" < ");
		label = "";
	}
}

static void add_since(struct text *t, const struct snapshot *s,
                      const struct expiry *due, const struct rank_snapshot *r)
{
	start_row(t, "since");
	describe_age(t, s, due->since_ns);
	if (due->deadline_ns) {
		text_add(t, due->what == EXPIRY_SLOW ? " (slow after "
		                                     : " (limit ");
		describe_time(t, due->deadline_ns);
		adaptive_add(t, s, due);
		text_add(t, ")");
	}
	if (r && !r->joined && r->last.ticket) {
		text_add(t, "; its last call was ");
		record_add(t, &r->last);
		text_add(t, ", ");
		describe_age(t, s, r->last.submitted_ns);
		text_add(t, " ago");
		if (*r->tag)
			text_add(t, ", tag \"%s\"", r->tag);
		if (*r->label)
			text_add(t, ", label \"%s\"", r->label);
	}
	if (r && *r->tag_now && strcmp(r->tag_now, r->tag) != 0)
		text_add(t, "; tag now \"%s\"", r->tag_now);
	if (r && *r->awaits) {
		start_row(t, "needs");
		text_add(t, "%s", r->awaits);
	}
}

static bool is_different(const struct rank_snapshot *r,
                         const struct record *call)
{
	return r->call.ticket && call->ticket && r->call.digest != call->digest;
}

/* Store in @same the waiters whose call does not differ from @call. */
static void find_same(const struct snapshot *s, const uint64_t *waiters,
                      const struct record *call, uint64_t *same)
{
	const struct rank_snapshot *x;
	int r;

	memset(same, 0, COHORT_RANK_WORDS * sizeof(*same));
	for (r = 0; r < s->world; r++) {
		x = snapshot_rank(s, r);
		if (rank_set_has(waiters, r) && !(x && is_different(x, call)))
			rank_set_add(same, r);
	}
}

/* Add the waiters whose call differs from @call, the subject of the verdict. */
static void add_different(struct text *t, const struct snapshot *s,
                          const uint64_t *waiters, const struct record *call)
{
	const struct rank_snapshot *r;

	for (r = s->ranks; r < s->ranks + s->size; r++) {
		if (!rank_set_has(waiters, r->rank) || !is_different(r, call))
			continue;
		start_row(t, "wait");
		describe_number(t, s, r->rank);
		text_add(t, ", in another call: ");
		describe_call(t, &r->call);
	}
}

static void add_block_wait(struct text *t, const struct snapshot *s,
                           const struct expiry *due,
                           const struct cohort_verdict *v)
{
	const struct record *call = snapshot_front_call(s);
	uint64_t waiters[COHORT_RANK_WORDS], same[COHORT_RANK_WORDS];
	int i;

	if (stall_is_minority(s, v)) {
		start_row(t, "others");
		add_others(t, s);
	}
	add_links(t, s, v, "\nwait   ");
	find_waiters(v, waiters);
	if (due->is_transfer)
		return;
	start_row(t, rank_set_is_empty(waiters) ? "call" : "wait");
	if (!rank_set_is_empty(waiters)) {
		find_same(s, waiters, call, same);
		describe_numbers(t, s, same);
		text_add(t, ", in ");
	}
	describe_call(t, call);
	for (i = 0; i < s->size; i++)
		if (rank_set_has(waiters, s->ranks[i].rank))
			break;
	if (i < s->size && *s->ranks[i].tag)
		text_add(t, ", tag \"%s\"", s->ranks[i].tag);
	else if (i < s->size && *s->ranks[i].label)
		text_add(t, ", \"%s\"", s->ranks[i].label);
	add_different(t, s, waiters, call);
}

/* Add up to MAX_DESCRIBED other ranks that are to blame. */
static void add_more(struct text *t, const struct snapshot *s,
                     const struct cohort_verdict *v)
{
	const bool is_minority = stall_is_minority(s, v);
	struct rank_snapshot r;
	int i, n = 0;

	for (i = 0; i < s->size && n < MAX_DESCRIBED; i++) {
		r = s->ranks[i];
		if (is_minority ? r.joined
		                : !rank_set_has(v->missing, r.rank) ||
		                          r.rank == v->rank)
			continue;
		r.stack = NULL;
		start_row(t, "also");
		describe_rank(t, s, &r);
		n++;
	}
}

static void add_note(struct text *t, const char *what)
{
	start_row(t, "note");
	text_add(t, "%s", what);
}

static void add_notes(struct text *t, const struct snapshot *s,
                      const struct expiry *due, const struct cohort_verdict *v)
{
	if (v->rank < 0 && v->world_rank < 0)
		add_note(t, "no single rank can be blamed");
	if (due->lost_ns) {
		add_note(t, "not counted: ");
		describe_time(t, due->lost_ns);
		text_add(t, " in which this process did not run");
	}
	if (s->probing >= 0) {
		start_row(t, "note");
		text_add(t, "%s of ", s->asking);
		describe_number(t, s, s->probing);
		text_add(t, " has not returned for ");
		describe_age(t, s, s->probing_since_ns);
	}
	notes_add(t, s, due, v);
}

static bool is_thread_of_rank(const struct snapshot *s, int tid)
{
	int i = 0;

	while (i < s->size && s->ranks[i].tid != tid)
		i++;
	return i < s->size;
}

/* Add threads that belong to no rank, because one of them may hold a resource
 * that a rank waits for. */
static void add_other_threads(struct text *t, const struct snapshot *s)
{
	const struct stack_trace *x = s->traces->at;
	int n = 0;

	for (; x < s->traces->at + s->traces->n && n < MAX_THREADS; x++) {
		if (x->rank >= 0 || !x->count || is_thread_of_rank(s, x->tid))
			continue;
		start_row(t, "thread");
		text_add(t, "%d \"%s\" is %s: ", x->tid, x->thread, x->state);
		symbolizer_add(t, x->text, THREAD_ROOM);
		n++;
	}
}

static void write_block(const struct snapshot *s, const struct expiry *due,
                        struct verdict *out)
{
	struct text t = { out->text, sizeof(out->text) };
	const struct cohort_verdict *v = &out->v;
	const struct rank_snapshot *r = culprit_of(s, v);

	text_add(&t, due->what == EXPIRY_SLOW ? "SLOW   " : "HANG   ");
	add_headline(&t, s, due, v);
	if (s->generation)
		text_add(&t, " (generation %d)", s->generation);
	add_block_why(&t, s, v);
	add_where(&t, r);
	add_since(&t, s, due, r);
	if (s->crossing.exists)
		crossing_add(&t, s);
	add_block_wait(&t, s, due, v);
	if (!s->crossing.exists && !due->is_transfer)
		add_more(&t, s, v);
	add_notes(&t, s, due, v);
	if (s->traces)
		add_other_threads(&t, s);
}

void render_stall(const struct snapshot *s, const struct expiry *due,
                  struct verdict *out)
{
	write_line(s, due, out);
	write_block(s, due, out);
}
