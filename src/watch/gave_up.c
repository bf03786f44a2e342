/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/gave_up.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "core/clique_tree.h"
#include "watch/cycle.h"
#include "watch/trail.h"
#include "watch/verdict.h"
#include "watch/waits.h"

/* Bytes of a verdict's line that are cut for a note, at most. */
#define NOTE_MOST 80

bool gave_up_is_answer(const struct cohort_comm *c, int status)
{
	uint64_t error_ns;
	struct record r;

	return status && error_status(&error_ns) == status &&
	       !(recorder_read(&c->recorder, atomic_load(&c->tickets.last),
	                       &r) &&
	         r.submitted_ns > error_ns);
}

/* What the rank of .c does in the communicators of its family. */
struct family {
	const struct cohort_comm *c;
	int status;

	/* The latest cause of that status, or of a rank that gave up with it,
	 * as one of the clique of .c; its time is 0 if there is none. */
	struct cohort_cause cause;

	/* The operation that the rank has called last, of those that are not
	 * done: its communicator, NULL if there is none, and when it was
	 * called. */
	struct cohort_comm *pending;
	uint64_t since_ns;
};

/* Return true if @cause blames another rank than one that gave up with
 * @status. */
static bool has_witness(const struct cohort_cause *cause, int status)
{
	return status && cause->worker == status &&
	       cause->status != COHORT_WORKER;
}

/* The rank of @q that has the number @world in the clique that has no parent,
 * or -1. */
static int rank_of_world(const struct clique *q, int world)
{
	const struct cohort_comm *c = clique_rank_of_world(q, world);

	return c ? c->rank : clique_is_child(q) ? -1 : world;
}

/* Have @set, the numbers of ranks in @from, be their numbers in @q; empty if
 * @from is NULL. */
static void translate(uint64_t *set, const struct clique *from,
                      const struct clique *q)
{
	uint64_t to[COHORT_RANK_WORDS] = { 0 };
	int i, rank;

	for (i = 0; from && i < from->size; i++) {
		if (!rank_set_has(set, from->comms[i].rank))
			continue;
		rank = rank_of_world(q, from->comms[i].world_rank);
		if (rank >= 0)
			rank_set_add(to, rank);
	}
	memcpy(set, to, sizeof(to));
}

/* The cause of @from as one of @q. */
static struct cohort_cause cause_in(const struct clique *q,
                                    const struct clique *from,
                                    const struct cohort_cause *cause)
{
	struct cohort_cause out = *cause;

	if (from == q)
		return out;
	out.ticket = out.collective = 0;
	translate(out.joined, from, q);
	translate(out.missing, from, q);
	out.rank = out.world_rank < 0 ? -1 : rank_of_world(q, out.world_rank);
	if (out.rank >= 0)
		rank_set_add(out.missing, out.rank);
	return out;
}

/* @q is NULL if all ranks have closed the clique of @cause. */
static void visit_cause(struct family *f, const struct cohort_cause *cause,
                        const struct clique *q)
{
	if (!cause ||
	    (cause->status != f->status && !has_witness(cause, f->status)) ||
	    f->cause.time_ns >= cause->time_ns)
		return;
	f->cause = cause_in(f->c->clique, q, cause);
}

/* When the oldest operation of @c that is not done was called; 0 if all are
 * done. */
static uint64_t pending_since(const struct cohort_comm *c)
{
	const uint64_t ticket = comm_oldest(c);
	struct record r;

	if (cause_or_closing(c->clique->end) || !ticket ||
	    !recorder_read(&c->recorder, ticket, &r))
		return 0;
	return r.submitted_ns;
}

static void visit_pending(struct family *f, const struct cohort_comm *c)
{
	const uint64_t since_ns = pending_since(c);

	if (since_ns <= f->since_ns)
		return;
	f->since_ns = since_ns;
	f->pending = (struct cohort_comm *)(uintptr_t)c;
}

static void visit_all(const struct clique *first, void *arg)
{
	struct family *f = arg;
	const struct clique *q, *root = clique_tree_root(f->c->clique);
	const struct cohort_comm *c = f->c;

	while (c->above)
		c = c->above;
	if (c->former)
		visit_cause(f, cause_look(c->former), NULL);
	for (q = first; q; q = q->next_entered)
		for (c = q->comms; c < q->comms + q->size; c++) {
			if (c->world_rank != f->c->world_rank ||
			    clique_tree_root(q) != root)
				continue;
			visit_cause(f, clique_cause(q), q);
			visit_pending(f, c);
		}
}

/* True if a wait may end with @status although its operation is not done. */
static bool is_answer_to_wait(int status)
{
	return status == COHORT_TIMED_OUT || status == COHORT_BUSY ||
	       status == COHORT_OWNER || status == COHORT_STALE;
}

/* What other processes have answered. */
struct answers {
	struct trail trail;
	struct remote_rank of[];
};

static void look(struct snapshot *s, struct clique *q)
{
	snapshot_take(s, q);
	snapshot_threads(s);
	snapshot_take(s, q);
	crossing_take(s, q);
	waits_take(s, q, !s->front);
}

/* Ask the other processes what their ranks do if no rank of this one is at
 * fault.  Returns memory that is to be freed after the snapshot's use, or
 * NULL. */
static struct answers *ask(struct snapshot *s, const struct clique *q,
                           bool is_transfer)
{
	const struct clique *root = clique_tree_root(q);
	struct trail_questions questions;
	struct answers *a;
	char none[1] = "";
	struct text silent = { none, sizeof(none) };
	enum trail_start start = TRAIL_NONE;
	int n;

	if (q->remote)
		start = trail_start(s, q, is_transfer, &questions);
	if (!start)
		return NULL;
	a = calloc(1, sizeof(*a) + (size_t)root->world_size * sizeof(a->of[0]));
	if (!a)
		return NULL;
	n = trail_follow(&a->trail, q, &questions, a->of, root->world_size,
	                 &silent);
	s->trail = &a->trail;
	if (start == TRAIL_FRONT) {
		s->remote = a->of;
		s->remote_count = n;
	}
	waits_take(s, q, is_transfer);
	return a;
}

/* The verdict on what the rank waits for in f->pending; false if nobody else is
 * to blame. */
static bool judge(const struct family *f, struct cohort_cause *out)
{
	struct clique *q = f->pending->clique;
	struct expiry due = {
		.what = EXPIRY_VERDICT,
		.since_ns = f->since_ns,
	};
	struct verdict verdict = { .ranks = NULL };
	struct answers *answers = NULL;
	struct snapshot s;
	bool is_known = snapshot_init(&s, q) && verdict_init(&verdict, q->size);

	if (is_known) {
		look(&s, q);
		due.is_transfer = !s.front;
		is_known = s.front || s.transfer.number;
	}
	while (is_known) {
		s.trail = NULL;
		s.remote_count = 0;
		free(answers);
		answers = ask(&s, q, due.is_transfer);
		if (!due.is_transfer || !p2p_snapshot_note(&s, q))
			break;
		look(&s, q);
		due.is_transfer = !s.front;
		is_known = s.front || s.transfer.number;
	}
	if (is_known) {
		verdict_stalled(&s, &due, &verdict);
		*out = verdict_cause(&verdict);
		is_known = out->world_rank != f->c->world_rank;
	}
	free(answers);
	verdict_fini(&verdict);
	snapshot_fini(&s);
	return is_known;
}

/* Add @note to the text of @cause.  The line of a verdict is cut to make room
 * for it. */
static void append(struct cohort_cause *cause, const char *note)
{
	const bool is_line = cause->status == COHORT_STALLED;
	const size_t n = strlen("; ") + strlen(note);
	const size_t most = VERDICT_LINE - 1 - (n < NOTE_MOST ? n : NOTE_MOST);

	if (is_line && strlen(cause->text) > most)
		text_cut(cause->text + most);
	text_append(cause->text, is_line ? VERDICT_LINE : sizeof(cause->text),
	            "; %s", note);
}

bool gave_up(struct cohort_comm *c, int status, const char *how,
             struct cohort_cause *out)
{
	char note[CAUSE_MAX_REASON + 128];
	struct family f = { .c = c, .status = status };
	const bool is_answer = gave_up_is_answer(c, status);

	clique_tree_look_at_all(visit_all, &f);
	/* After a rank gave up in a child, its thread may have closed the
	 * child, with another error. */
	if (f.cause.time_ns && (is_answer || has_witness(&f.cause, status)))
		*out = f.cause;
	else if (is_answer && f.pending && is_answer_to_wait(status) &&
	         judge(&f, out))
		*out = cause_in(c->clique, f.pending->clique, out);
	else
		return false;
	out->worker = status;
	text_set(note, sizeof(note), "rank %d gave up first (%s)",
	         c->world_rank, how);
	append(out, note);
	/* Without rows of their own, the details are the text. */
	if (*out->details)
		text_append(out->details, sizeof(out->details), "\nnote   %s",
		            note);
	return true;
}

void gave_up_by_exit(struct cohort_comm *c)
{
	struct cohort_cause cause;
	uint64_t ns;

	if (gave_up(c, error_status(&ns), "its thread exited", &cause))
		cause_set(c->clique->end, &cause);
}
