/* SPDX-License-Identifier: Apache-2.0 */

#include "guard/verdict.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "guard/phrase.h"

/* Of ranks that are described at length in a text. */
#define MAX_DESCRIBED 3

bool verdict_init(struct verdict *verdict, int size)
{
	*verdict = (struct verdict){
		.ranks = calloc((size_t)size, sizeof(*verdict->ranks)),
	};
	return verdict->ranks;
}

void verdict_fini(struct verdict *verdict)
{
	free(verdict->ranks);
}

const char *cohort_verdict_text(int kind)
{
	switch (kind) {
#define VERDICT_CASE(name, value, text)                                        \
	case value:                                                            \
		return text;
		COHORT_VERDICT_LIST(VERDICT_CASE)
#undef VERDICT_CASE
	}
	return "a verdict that this version of cohort does not know";
}

/* ---- time ------------------------------------------------------------- */

static uint64_t saturating_add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t saturating_multiply(uint64_t a, uint64_t b)
{
	return b && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

static uint64_t latest(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* True if the front waits for @r: for its call, or for its operation. */
static bool is_waited_for(const struct snapshot *s,
                          const struct rank_snapshot *r)
{
	return s->all_joined ? !r->done : !r->joined;
}

/* True if @r has a clock that runs: it waits for the others to call, or all have
 * called and it is not done. */
static bool has_clock(const struct snapshot *s, const struct rank_snapshot *r)
{
	return s->all_joined ? !r->done : r->joined;
}

static uint64_t last_arrival(const struct snapshot *s)
{
	uint64_t last = 0;
	int i;

	for (i = 0; i < s->size; i++)
		last = latest(last, s->ranks[i].arrived_ns);
	return last;
}

/* Of all clocks the one that runs out first, at next_ns: never, if none does. */
static struct due first_clock(const struct snapshot *s)
{
	struct due due = { .what = DUE_NOTHING, .next_ns = UINT64_MAX };
	uint64_t arrived, allowed, since, end, last = last_arrival(s);
	int i;

	for (i = 0; i < s->size; i++) {
		if (!has_clock(s, &s->ranks[i]))
			continue;
		arrived = s->all_joined ? last : s->ranks[i].arrived_ns;
		allowed = s->all_joined ? s->ranks[i].limits.exec_ns
		                        : s->ranks[i].limits.join_ns;
		since = latest(latest(arrived, s->resumed_ns), s->moved_ns);
		end = saturating_add(
			since, saturating_multiply(allowed, 1 + s->expired));
		if (end >= due.next_ns)
			continue;
		due.next_ns = end;
		due.since_ns = since;
		due.deadline_ns = allowed;
	}
	return due;
}

static struct due transfer_clock(const struct snapshot *s)
{
	const struct transfer_snapshot *x = &s->transfer;

	return (struct due){
		.is_transfer = true,
		.next_ns = saturating_add(x->since_ns,
		                          saturating_multiply(x->allowed_ns,
		                                              1 + x->expired)),
		.since_ns = x->since_ns,
		.deadline_ns = x->allowed_ns,
	};
}

/* What is to be said of a clock, of which that has been said. */
static struct due due_of(const struct snapshot *s, struct due due, bool warned,
                         unsigned expired)
{
	uint64_t warning;

	if (due.next_ns == UINT64_MAX)
		return due;
	if (s->now_ns >= due.next_ns) {
		due.what = DUE_VERDICT;
		return due;
	}
	if (warned || expired || s->warn_percent >= 100)
		return due;
	warning = due.since_ns + due.deadline_ns / 100 * s->warn_percent;
	if (s->now_ns >= warning)
		due.what = DUE_WARNING;
	else
		due.next_ns = warning;
	return due;
}

/* The graver one, of two like it the one that began first; looking again when any of
 * them wants that. */
static struct due graver(struct due a, struct due b)
{
	struct due due = b.what > a.what || (b.what && b.what == a.what &&
	                                     b.since_ns < a.since_ns)
	                         ? b
	                         : a;

	due.next_ns = a.next_ns < b.next_ns ? a.next_ns : b.next_ns;
	return due;
}

struct due verdict_due(const struct snapshot *s)
{
	struct due due = { .next_ns = UINT64_MAX };

	if (s->paused)
		return due;
	if (s->front)
		due = due_of(s, first_clock(s), s->warned, s->expired);
	if (s->transfer.number)
		due = graver(due,
		             due_of(s, transfer_clock(s), s->transfer.warned,
		                    s->transfer.expired));
	return due;
}

/* ---- texts ------------------------------------------------------------ */

/* What a rank that has called the front is doing about it. */
static void add_progress(struct text *t, const struct snapshot *s,
                         const struct rank_snapshot *r)
{
	if (r->in_call) {
		text_add(t, " has been inside %s for ",
		         record_native_name(&r->call));
		phrase_age(t, s, r->arrived_ns);
	} else if (r->done) {
		text_add(t, " is done");
	} else if (!s->starts_are_marked) {
		text_add(t, " has queued its operation, which is not done");
	} else if (r->started) {
		text_add(t, " has started, and not finished");
	} else {
		text_add(t, " has not started: its stream is still busy with "
		            "what was queued before");
	}
}

static void add_rank(struct text *t, const struct snapshot *s,
                     const struct rank_snapshot *r)
{
	phrase_name(t, r);
	if (r->joined)
		add_progress(t, s, r);
	else
		phrase_absence(t, s, r);
}

/* The ranks in @set, the first few at length. */
static void add_ranks(struct text *t, const struct snapshot *s,
                      const uint64_t *set)
{
	int i, n = 0;

	for (i = 0; i < s->size; i++) {
		if (!rank_set_has(set, s->ranks[i].rank) ||
		    n++ >= MAX_DESCRIBED)
			continue;
		text_add(t, "; ");
		add_rank(t, s, &s->ranks[i]);
	}
	if (n > MAX_DESCRIBED)
		text_add(t, "; and %d more", n - MAX_DESCRIBED);
}

/* ---- verdicts --------------------------------------------------------- */

static struct text verdict_start(const struct snapshot *s, struct verdict *out)
{
	out->v = (struct cohort_verdict){
		.rank = -1,
		.generation = s->generation,
		.group = out->group,
		.time_ns = s->now_ns,
		.size = s->size,
		.ranks = out->ranks,
		.text = out->text,
	};
	text_add(&(struct text){ out->group, sizeof(out->group) }, "%s",
	         s->group);
	return (struct text){ out->text, sizeof(out->text) };
}

static void report_rank(const struct snapshot *s, const struct rank_snapshot *r,
                        struct cohort_rank_report *out)
{
	struct text t = { out->call, sizeof(out->call) };

	*out = (struct cohort_rank_report){
		.rank = r->rank,
		.device = r->device,
		.joined = r->joined,
		.started = r->started,
		.done = r->done,
		.alive = r->alive,
		.inside = r->inside,
		.tid = r->tid,
		.ticket = r->last.ticket,
	};
	memcpy(out->thread, r->thread, sizeof(out->thread));
	if (!r->last.ticket)
		return;
	out->age_ns = s->now_ns - r->last.submitted_ns;
	record_add(&t, &r->last);
}

static void report_ranks(const struct snapshot *s, struct verdict *out)
{
	int i;

	for (i = 0; i < s->size; i++)
		report_rank(s, &s->ranks[i], &out->ranks[i]);
}

/* What keeps a rank from calling. */
static int kind_of_absence(const struct rank_snapshot *r)
{
	if (r->tid && !r->alive)
		return COHORT_VERDICT_THREAD_EXITED;
	if (r->closed || !r->last.ticket)
		return COHORT_VERDICT_NEVER_CALLED;
	if (r->inside && !r->native)
		return COHORT_VERDICT_DIFFERENT_CALL;
	return COHORT_VERDICT_OUTSIDE;
}

static int kind_of(const struct snapshot *s, const struct rank_snapshot *r)
{
	if (!r->joined)
		return kind_of_absence(r);
	if (r->in_call || (s->starts_are_marked && !r->started))
		return COHORT_VERDICT_NOT_STARTED;
	return COHORT_VERDICT_NOT_FINISHED;
}

/* Whom the front waits for, and why: of those that all have called, those that
 * have not started are what the others wait for. */
static void find_missing(const struct snapshot *s, struct cohort_verdict *v)
{
	const struct rank_snapshot *r, *end = s->ranks + s->size;
	int n = 0;

	for (r = s->ranks; r < end; r++) {
		if (r->joined)
			rank_set_add(v->joined, r->rank);
		if (is_waited_for(s, r) &&
		    (!n++ || (s->all_joined &&
		              kind_of(s, r) == COHORT_VERDICT_NOT_STARTED &&
		              v->kind != COHORT_VERDICT_NOT_STARTED))) {
			v->kind = kind_of(s, r);
			v->rank = r->rank;
		}
	}
	for (r = s->ranks; r < end; r++)
		if (is_waited_for(s, r) &&
		    (!s->all_joined || kind_of(s, r) == v->kind))
			rank_set_add(v->missing, r->rank);
	/* All have started, none is done: that is nobody's fault. */
	if (v->kind == COHORT_VERDICT_NOT_FINISHED && n == s->size && n > 1)
		v->rank = -1;
}

/* The call that does not go on, by the first rank that has made it. */
static void add_front(struct text *t, const struct snapshot *s)
{
	int i;

	for (i = 0; i < s->size; i++)
		if (s->ranks[i].joined && s->ranks[i].call.ticket)
			break;
	if (i < s->size)
		record_add(t, &s->ranks[i].call);
	else
		text_add(t, "a call that is not on record any more");
	text_add(t, " (collective %llu, group \"%s\", generation %d)",
	         (unsigned long long)s->front, s->group, s->generation);
}

/* ---- transfers -------------------------------------------------------- */

static const struct rank_snapshot *rank_of(const struct snapshot *s, int rank)
{
	int i;

	for (i = 0; i < s->size; i++)
		if (s->ranks[i].rank == rank)
			return &s->ranks[i];
	return NULL;
}

static int kind_of_half(const struct snapshot *s, const struct half *h)
{
	return h->in_call || (s->starts_are_marked && !h->started)
	               ? COHORT_VERDICT_NOT_STARTED
	               : COHORT_VERDICT_NOT_FINISHED;
}

/* Whom a transfer waits for, and why. */
static void blame(const struct snapshot *s, struct cohort_verdict *v)
{
	const struct transfer_snapshot *x = &s->transfer;

	rank_set_add(v->joined, x->rank);
	if (!x->met) {
		v->kind = kind_of_absence(rank_of(s, x->peer));
		v->rank = x->peer;
		rank_set_add(v->missing, x->peer);
		return;
	}
	if (x->is_local)
		rank_set_add(v->joined, x->peer);
	v->kind = kind_of_half(s, &x->own);
	rank_set_add(v->missing, x->rank);
	if (v->kind == COHORT_VERDICT_NOT_STARTED)
		v->rank = x->rank;
	if (!x->is_local || x->other.done)
		return;
	rank_set_add(v->missing, x->peer);
	/* Of one that runs it is nobody's fault; the other half may keep it from
	 * that. */
	if (v->kind == COHORT_VERDICT_NOT_FINISHED)
		v->kind = kind_of_half(s, &x->other);
	if (v->kind == COHORT_VERDICT_NOT_STARTED && v->rank < 0)
		v->rank = x->peer;
}

static void add_half(struct text *t, const struct snapshot *s, int rank,
                     const struct half *h)
{
	text_add(t, "; ");
	phrase_name(t, rank_of(s, rank));
	if (h->in_call)
		text_add(t, " is inside the native call");
	else if (h->done)
		text_add(t, " is done");
	else if (!s->starts_are_marked)
		text_add(t, " has queued it");
	else if (h->started)
		text_add(t, " has started, and not finished");
	else
		text_add(t, " has not started: its stream is still busy with "
		            "what was queued before");
}

static void add_peer(struct text *t, const struct snapshot *s)
{
	const struct transfer_snapshot *x = &s->transfer;

	if (!x->is_local) {
		text_add(t, "; rank %d is of another process", x->peer);
	} else if (x->met) {
		add_half(t, s, x->peer, &x->other);
	} else {
		text_add(t, "; ");
		phrase_name(t, rank_of(s, x->peer));
		text_add(t,
		         " has not called its %s:", x->sends ? "recv" : "send");
		phrase_absence(t, s, rank_of(s, x->peer));
	}
}

static void stalled_transfer(const struct snapshot *s, const struct due *due,
                             struct verdict *out, struct text *t)
{
	const struct transfer_snapshot *x = &s->transfer;
	struct cohort_verdict *v = &out->v;

	blame(s, v);
	text_add(t,
	         "%s of %zu %s by rank %d %s rank %d (number %llu, group "
	         "\"%s\", generation %d): %s; waited for ",
	         x->sends ? "send" : "recv", x->count, type_name(x->type),
	         x->rank, x->sends ? "to" : "from", x->peer,
	         (unsigned long long)x->number, s->group, s->generation,
	         cohort_verdict_text(v->kind));
	phrase_age(t, s, due->since_ns);
	text_add(t, ", allowed are ");
	phrase_time(t, due->deadline_ns);
	if (x->met)
		add_half(t, s, x->rank, &x->own);
	add_peer(t, s);
}

/* ---- what has happened ------------------------------------------------ */

static void stalled_front(const struct snapshot *s, const struct due *due,
                          struct verdict *out, struct text *t)
{
	struct cohort_verdict *v = &out->v;

	find_missing(s, v);
	v->collective = s->front;
	add_front(t, s);
	text_add(t, ": %s; waited for ", cohort_verdict_text(v->kind));
	phrase_age(t, s, due->since_ns);
	text_add(t, ", allowed are ");
	phrase_time(t, due->deadline_ns);
	text_add(t, "; joined: ");
	phrase_set(t, v->joined);
	text_add(t, s->all_joined ? "; it waits for: " : "; missing: ");
	phrase_set(t, v->missing);
	add_ranks(t, s, v->missing);
	if (s->world > s->size)
		text_add(t, "; %d of %d ranks are of other processes",
		         s->world - s->size, s->world);
}

void verdict_stalled(const struct snapshot *s, const struct due *due,
                     struct verdict *out)
{
	struct text t = verdict_start(s, out);
	struct cohort_verdict *v = &out->v;

	report_ranks(s, out);
	v->stage = due->what == DUE_WARNING ? COHORT_STAGE_WARNING
	                                    : COHORT_STAGE_EXPIRED;
	v->since_ns = due->since_ns;
	v->deadline_ns = due->deadline_ns;
	if (due->is_transfer)
		stalled_transfer(s, due, out, &t);
	else
		stalled_front(s, due, out, &t);
	if (s->probing >= 0) {
		text_add(&t, "; %s of rank %d has not returned for ", s->asking,
		         s->probing);
		phrase_age(&t, s, s->probing_since_ns);
	}
}

void verdict_ended(const struct snapshot *s, const struct cohort_cause *cause,
                   struct verdict *out)
{
	struct text t = verdict_start(s, out);
	struct cohort_verdict *v = &out->v;

	report_ranks(s, out);
	v->kind = cause->kind;
	v->stage = COHORT_STAGE_ENDED;
	v->rank = cause->rank;
	v->collective = cause->collective;
	v->time_ns = cause->time_ns;
	v->since_ns = cause->since_ns;
	v->deadline_ns = cause->deadline_ns;
	memcpy(v->joined, cause->joined, sizeof(v->joined));
	memcpy(v->missing, cause->missing, sizeof(v->missing));
	text_add(&t, "%s", cause->text);
}

/* What keeps one rank from being quiet. */
static void add_blocker(struct text *t, const struct snapshot *s,
                        const struct rank_snapshot *r)
{
	phrase_name(t, r);
	if (r->native) {
		text_add(t, " is inside its native communicator");
	} else if (r->inside && r->last.ticket &&
	           r->last.outcome == COHORT_TIMED_OUT) {
		text_add(t, " has been inside %s for ", record_name(&r->last));
		phrase_age(t, s, r->last.submitted_ns);
	} else {
		text_add(t, r->inside ? " is inside a call"
		                      : " has an operation in flight that "
		                        "does not end");
	}
	if (r->inside && !r->alive)
		text_add(t, ", and its thread has exited");
}

void verdict_wedged(const struct snapshot *s, struct verdict *out)
{
	struct text t = verdict_start(s, out);
	struct cohort_verdict *v = &out->v;
	int i;

	report_ranks(s, out);
	v->kind = COHORT_VERDICT_WEDGED;
	v->stage = COHORT_STAGE_ENDED;
	v->deadline_ns = s->abort_ns;
	text_add(&t, "group \"%s\", generation %d could not be ended within ",
	         s->group, s->generation);
	phrase_time(&t, s->abort_ns);
	for (i = 0; i < s->size; i++) {
		if (s->ranks[i].idle)
			continue;
		if (v->rank < 0)
			v->rank = s->ranks[i].rank;
		rank_set_add(v->missing, s->ranks[i].rank);
		text_add(&t, "; ");
		add_blocker(&t, s, &s->ranks[i]);
	}
	if (s->reaping)
		text_add(&t, "; the reaper is inside %s", s->reaping);
	if (s->reaping && s->reaping_rank >= 0)
		text_add(&t, " of rank %d", s->reaping_rank);
	if (s->probing >= 0)
		text_add(&t, "; the prober is inside %s of rank %d", s->asking,
		         s->probing);
	if (s->telling_since_ns) {
		text_add(&t, "; on_verdict has not returned for ");
		phrase_age(&t, s, s->telling_since_ns);
	}
}

void verdict_prober(const struct snapshot *s, struct verdict *out)
{
	struct text t = verdict_start(s, out);

	report_ranks(s, out);
	out->v.kind = COHORT_VERDICT_PROBER_STUCK;
	out->v.stage = COHORT_STAGE_WARNING;
	out->v.rank = s->probing;
	out->v.since_ns = s->probing_since_ns;
	out->v.deadline_ns = s->abort_ns;
	text_add(&t,
	         "the prober of group \"%s\" has been inside %s of rank %d "
	         "for ",
	         s->group, s->asking, s->probing);
	phrase_age(&t, s, s->probing_since_ns);
}

struct cohort_cause verdict_cause(const struct verdict *verdict)
{
	const struct cohort_verdict *v = &verdict->v;
	struct cohort_cause cause = {
		.status = COHORT_STALLED,
		.kind = v->kind,
		.rank = v->rank,
		.collective = v->collective,
		.since_ns = v->since_ns,
		.deadline_ns = v->deadline_ns,
	};

	memcpy(cause.joined, v->joined, sizeof(cause.joined));
	memcpy(cause.missing, v->missing, sizeof(cause.missing));
	memcpy(cause.text, verdict->text, sizeof(cause.text));
	return cause;
}

void verdict_copy(struct verdict *to, const struct verdict *from)
{
	memcpy(to->ranks, from->ranks,
	       (size_t)from->v.size * sizeof(*to->ranks));
	memcpy(to->group, from->group, sizeof(to->group));
	memcpy(to->text, from->text, sizeof(to->text));
	to->v = from->v;
	to->v.group = to->group;
	to->v.ranks = to->ranks;
	to->v.text = to->text;
}
