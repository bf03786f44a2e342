/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/gave_up.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/clique_tree.h"
#include "watch/crossing.h"
#include "watch/trail.h"
#include "watch/verdict.h"
#include "watch/waits.h"

/* Maximum number of bytes that are cut from a verdict's line to make room for
 * the note that a rank gave up. */
#define NOTE_MOST 80

/* Return true if @status is probably not a value of the program's own, because
 * it is the library's status of @cause, which blames a rank other than @c.
 * Another thread of the rank may have got it from a call. */
static bool is_of_cause(int status, const struct cohort_cause *cause,
                        const struct cohort_comm *c)
{
	return status < 0 && cause->status == status &&
	       cause->world_rank != c->world_rank;
}

bool gave_up_is_answer(const struct cohort_comm *c, int status)
{
	uint64_t error_ns;
	struct record r;

	return status && error_status(&error_ns) == status &&
	       !(recorder_read(&c->recorder, atomic_load(&c->tickets.last),
	                       &r) &&
	         r.submitted_ns > error_ns);
}

/* Data about the rank of .c, collected from its root group, from all
 * communicators that were split from that group, and from communicators of
 * other groups on which this thread calls. */
struct family {
	const struct cohort_comm *c;
	int status;
	/* True if the thread exits, so that .status is only its last error. */
	bool is_exit;

	/* Latest cause that explains .status: it has .status itself, or its
	 * abort did not complete (COHORT_WEDGED), or a rank gave up with
	 * .status because of it.  Its ranks are numbered as in the
	 * clique of .c.  Its time is 0 if no such cause was found. */
	struct cohort_cause cause;
	/* Which rank .cause blames, if its text has the numbers of another
	 * group: "rank 1 of "tp" is rank 3 here".  Otherwise "". */
	char meaning[96];

	/* The rank's communicator in which a wait for the oldest unfinished
	 * operation has timed out, or NULL.  If there are several, the one
	 * whose operation was called last. */
	struct cohort_comm *pending;
	/* Time at which that operation was called. */
	uint64_t since_ns;

	/* Time at which this thread made the rank's last call, or 0. */
	uint64_t last_ns;
};

/* Return true if the thread has made a call after f->cause, and has not chosen
 * to give up with f->status: it exits, or f->status is COHORT_WORKER, which the
 * bindings use for every exception. */
static bool has_recovered(const struct family *f)
{
	return (f->is_exit || f->status == COHORT_WORKER) &&
	       f->last_ns > f->cause.time_ns;
}

/* Return true if @cause says that a rank gave up with @status because of
 * another rank. */
static bool has_witness(const struct cohort_cause *cause, int status)
{
	return status && cause->worker == status &&
	       cause->status != COHORT_WORKER;
}

/* Return the number in @q of rank @world of the root group, or -1. */
static int rank_of_world(const struct clique *q, int world)
{
	int r;

	for (r = 0; r < q->world_size; r++)
		if (world >= 0 && clique_world(q, r) == world)
			return r;
	return -1;
}

/* Return the rank in @q that corresponds to the rank blamed in @from, a
 * communicator of another group, or -1 if there is none.  It is the rank for
 * which the same thread calls or, if no thread has called in @from yet, the
 * rank on the same device. */
static int rank_of_other(const struct clique *q, const struct clique *from,
                         const struct cohort_cause *cause)
{
	const struct cohort_comm *c = clique_rank(from, cause->rank);
	const int tid = c ? comm_thread(c) : 0;
	int i;

	for (i = 0; c && i < q->size; i++)
		if (tid ? comm_thread(&q->comms[i]) == tid
		        : q->comms[i].device == c->device)
			return q->comms[i].rank;
	return -1;
}

/* Remove the note that a cause was inherited from a parent. */
static void cut_inheritance(char *text)
{
	const char *at;

	while (*text == '"' && (at = strstr(text, CLIQUE_ENDED_ABOVE)))
		memmove(text, at + strlen(CLIQUE_ENDED_ABOVE),
		        strlen(at + strlen(CLIQUE_ENDED_ABOVE)) + 1);
}

/* Set f->cause to @cause, which is of @from, with ranks numbered as in the
 * clique of f->c. */
static void set_cause(struct family *f, const struct clique *from,
                      const struct cohort_cause *cause)
{
	const struct clique *q = f->c->clique;
	struct cohort_cause *out = &f->cause;
	const int number = cause->world_rank;

	*out = *cause;
	f->meaning[0] = '\0';
	if (from == q)
		return;
	memset(out->joined, 0, sizeof(out->joined));
	memset(out->missing, 0, sizeof(out->missing));
	cut_inheritance(out->text);
	cut_inheritance(out->details);
	out->ticket = out->collective = 0;
	if (from && clique_tree_root(from) != clique_tree_root(q)) {
		out->rank = rank_of_other(q, from, cause);
		out->world_rank =
			out->rank < 0 ? -1 : clique_world(q, out->rank);
		if (out->world_rank >= 0 && out->world_rank != number)
			text_set(f->meaning, sizeof(f->meaning),
			         "rank %d of \"%.40s\" is rank %d here", number,
			         clique_tree_root(from)->name, out->world_rank);
	} else {
		if (from) {
			clique_translate(q, out->joined, from, cause->joined);
			clique_translate(q, out->missing, from, cause->missing);
		}
		out->rank = rank_of_world(q, number);
	}
	if (out->rank >= 0)
		rank_set_add(out->missing, out->rank);
}

/* Store @cause in f->cause if it fits f->status and is the latest so far.  @q
 * is the clique of @cause, or NULL if all ranks have closed that clique. */
static void visit_cause(struct family *f, const struct cohort_cause *cause,
                        const struct clique *q)
{
	if (!cause ||
	    (cause->status != f->status && f->status != COHORT_WEDGED &&
	     !has_witness(cause, f->status)) ||
	    f->cause.time_ns >= cause->time_ns)
		return;
	set_cause(f, q, cause);
}

/* Return the time at which the oldest unfinished operation of @c was called, or
 * 0 if there is none. */
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

	/* An operation for which no wait has timed out is not why the rank
	 * gives up, even if its peers are late. */
	if (since_ns <= f->since_ns ||
	    atomic_load(&c->thread.timed_out) < comm_oldest(c))
		return;
	f->since_ns = since_ns;
	f->pending = (struct cohort_comm *)(uintptr_t)c;
}

static void visit_last(struct family *f, const struct cohort_comm *c)
{
	struct record r;

	if (recorder_read(&c->recorder, atomic_load(&c->tickets.last), &r) &&
	    r.tid == thread_id() && r.submitted_ns > f->last_ns)
		f->last_ns = r.submitted_ns;
}

/* Return true if @c belongs to the rank: it is the same rank of the family, or
 * this thread makes its calls in another group. */
static bool is_of_rank(const struct cohort_comm *c, const struct family *f)
{
	return clique_tree_root(c->clique) == clique_tree_root(f->c->clique)
	               ? c->world_rank == f->c->world_rank
	               : comm_thread(c) == thread_id();
}

static void visit_all(const struct clique *first, void *arg)
{
	struct family *f = arg;
	const struct clique *q;
	const struct cohort_comm *c = comm_root(f->c);

	if (c->former)
		visit_cause(f, cause_peek(c->former), NULL);
	for (q = first; q; q = q->next_entered)
		for (c = q->comms; c < q->comms + q->size; c++) {
			if (!is_of_rank(c, f))
				continue;
			visit_cause(f, clique_cause(q), q);
			visit_pending(f, c);
			visit_last(f, c);
		}
}

/* Return true if @status says that a wait for f->pending has timed out.  After
 * a timeout, the next call on host memory may return COHORT_BUSY.  If the call
 * was refused for another reason, the rank itself is at fault. */
static bool says_timeout(const struct family *f, int status, bool is_answer)
{
	return f->pending && (status == COHORT_TIMED_OUT ||
	                      (status == COHORT_BUSY && is_answer));
}

struct answers {
	struct trail trail;
	struct remote_rank of[];
};

static void take_full_snapshot(struct snapshot *s, struct clique *q)
{
	snapshot_take(s, q);
	snapshot_threads(s);
	snapshot_take(s, q);
	crossing_take(s, q);
	waits_take(s, q, !s->front);
}

/* Ask the other processes what their ranks do, if no rank of this process is at
 * fault.  Return the replies, or NULL.  The caller frees them after the last
 * use of the snapshot. */
static struct answers *ask_processes(struct snapshot *s, const struct clique *q,
                                     bool is_transfer)
{
	const struct clique *root = clique_tree_root(q);
	struct trail_questions questions;
	struct answers *a;
	struct text silent = TEXT_NONE;
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
	crossing_take(s, q);
	waits_take(s, q, is_transfer);
	return a;
}

/* Store in @out the verdict on the operation that the rank waits for in
 * f->pending.  Return false if no other rank is to blame. */
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
		take_full_snapshot(&s, q);
		due.is_transfer = !s.front;
		is_known = s.front || s.transfer.number;
	}
	while (is_known) {
		s.trail = NULL;
		s.remote_count = 0;
		free(answers);
		answers = ask_processes(&s, q, due.is_transfer);
		if (!due.is_transfer || !p2p_snapshot_store_reply(&s, q))
			break;
		take_full_snapshot(&s, q);
		due.is_transfer = !s.front;
		is_known = s.front || s.transfer.number;
	}
	if (is_known) {
		verdict_stalled(&s, &due, &verdict);
		*out = verdict_cause(&verdict);
		is_known = out->world_rank != f->pending->world_rank;
	}
	free(answers);
	verdict_fini(&verdict);
	snapshot_fini(&s);
	return is_known;
}

/* Store in @out why a call of cohort_comm_subset() for @c has timed out.
 * Return false if no other rank is to blame. */
static bool judge_subset(const struct cohort_comm *c, struct cohort_cause *out)
{
	const int kind = atomic_load(&c->subset.kind);
	const int world = atomic_load(&c->subset.culprit);

	if (!kind || world == c->world_rank)
		return false;
	*out = (struct cohort_cause){
		.status = COHORT_INIT_TIMEOUT,
		.kind = kind,
		.rank = world < 0 ? -1 : rank_of_world(c->clique, world),
		.world_rank = world,
		.time_ns = clock_now(),
	};
	if (out->rank >= 0)
		rank_set_add(out->missing, out->rank);
	text_set(out->text, sizeof(out->text), "%s", cohort_last_error());
	return true;
}

/* Append @note to the text of @cause.  If the text is a verdict's line and
 * leaves no room for the note, cut the line first. */
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

/* Do what gave_up() does. */
static bool explain(struct family *f, const char *how, struct cohort_cause *out)
{
	char note[CAUSE_MAX_REASON + 256];
	const struct cohort_comm *c = f->c;
	const int status = f->status;
	const bool is_answer = gave_up_is_answer(c, status);

	clique_tree_call_all(visit_all, f);
	/* If a rank gave up in a split communicator, its thread may then have
	 * closed that communicator and returned another error. */
	if (!f->cause.time_ns || has_recovered(f) ||
	    !(is_answer || is_of_cause(status, &f->cause, c) ||
	      has_witness(&f->cause, status))) {
		f->meaning[0] = '\0';
		if (says_timeout(f, status, is_answer) && judge(f, out))
			set_cause(f, f->pending->clique, out);
		else if (is_answer && status == COHORT_INIT_TIMEOUT &&
		         judge_subset(c, out))
			f->cause = *out;
		else
			return false;
	}
	*out = f->cause;
	out->worker = status;
	text_set(note, sizeof(note), "%s%srank %d gave up first (%s)",
	         f->meaning, *f->meaning ? "; " : "", c->world_rank, how);
	append(out, note);
	/* If there are no details, the text is shown instead, and append() has
	 * added the note to it. */
	if (*out->details)
		text_append(out->details, sizeof(out->details), "\nnote   %s",
		            note);
	return true;
}

bool gave_up(struct cohort_comm *c, int status, const char *how,
             struct cohort_cause *out)
{
	struct family f = { .c = c, .status = status };

	return explain(&f, how, out);
}

void gave_up_by_exit(struct cohort_comm *c)
{
	struct cohort_cause cause;
	uint64_t ns;
	struct family f = {
		.c = c,
		.status = error_status(&ns),
		.is_exit = true,
	};

	if (explain(&f, "its thread exited", &cause))
		cause_set(c->clique->end, &cause);
}
