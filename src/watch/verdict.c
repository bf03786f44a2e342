/* SPDX-License-Identifier: Apache-2.0 */

#include "watch/verdict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watch/describe.h"
#include "watch/render.h"
#include "watch/stall.h"
#include "watch/symbolizer.h"

bool verdict_init(struct verdict *verdict, int size)
{
	*verdict = (struct verdict){
		.ranks = calloc((size_t)size, sizeof(*verdict->ranks)),
		.stacks = calloc(STACK_RANKS, sizeof(*verdict->stacks)),
	};
	return verdict->ranks && verdict->stacks;
}

void verdict_fini(struct verdict *verdict)
{
	free(verdict->ranks);
	free(verdict->stacks);
}

/* ---- verdicts --------------------------------------------------------- */

static struct text verdict_start(const struct snapshot *s, struct verdict *out)
{
	out->v = (struct cohort_verdict){
		.rank = -1,
		.world_rank = -1,
		.generation = s->generation,
		.group = out->group,
		.time_ns = s->now_ns,
		.size = s->size,
		.ranks = out->ranks,
		.rank_size = sizeof(*out->ranks),
		.call = out->call,
		.line = out->line,
		.text = out->text,
	};
	out->call[0] = out->line[0] = out->text[0] = '\0';
	text_add(&(struct text){ out->group, sizeof(out->group) }, "%s",
	         s->group);
	return (struct text){ out->text, sizeof(out->text) };
}

void verdict_report(const struct snapshot *s, const struct rank_snapshot *r,
                    struct cohort_rank_report *out)
{
	struct text t = { out->call, sizeof(out->call) };
	struct text what = { out->text, sizeof(out->text) };

	*out = (struct cohort_rank_report){
		.rank = r->rank,
		.device = r->device,
		.joined = r->joined,
		.started = r->started,
		.done = r->done,
		.alive = r->alive,
		.inside = r->inside,
		.tid = r->tid,
		.bound = r->bound,
		.ticket = r->last.ticket,
		.stack = r->stack ? r->stack->text : "",
	};
	memcpy(out->state, r->state, sizeof(out->state));
	memcpy(out->thread, r->thread, sizeof(out->thread));
	describe_rank(&what, s, r);
	if (!r->last.ticket)
		return;
	if (s->now_ns > r->last.submitted_ns)
		out->age_ns = s->now_ns - r->last.submitted_ns;
	record_add(&t, &r->last);
	memcpy(out->tag, r->tag, sizeof(out->tag));
	memcpy(out->label, r->label, sizeof(out->label));
}

static void report_ranks(const struct snapshot *s, struct verdict *out)
{
	int i;

	for (i = 0; i < s->size; i++)
		verdict_report(s, &s->ranks[i], &out->ranks[i]);
}

/* Return true if no rank is to blame, because ranks wait for each other or
 * their calls differ from each other. */
static bool blames_nobody(const struct cohort_verdict *v)
{
	return v->rank < 0 && v->world_rank < 0 &&
	       (v->kind == COHORT_VERDICT_CYCLE ||
	        v->kind == COHORT_VERDICT_ORDER ||
	        v->kind == COHORT_VERDICT_DIFFERENT_CALL);
}

void verdict_stalled(const struct snapshot *s, const struct expiry *due,
                     struct verdict *out)
{
	struct cohort_verdict *v = &out->v;
	struct text call = { out->call, sizeof(out->call) };

	verdict_start(s, out);
	report_ranks(s, out);
	v->stage = due->what == EXPIRY_SLOW ? COHORT_STAGE_SLOW
	                                    : COHORT_STAGE_EXPIRED;
	v->since_ns = due->since_ns;
	v->deadline_ns = due->deadline_ns;
	if (due->is_transfer)
		stall_transfer(s, v);
	else
		stall_front(s, v);
	render_missed(&call, s, due, v);
	render_stall(s, due, out);
	if (blames_nobody(v))
		memset(v->missing, 0, sizeof(v->missing));
}

/* Copy the verdict's text to its line.  Only verdicts about stalls have a
 * separate line. */
static void copy_line(struct verdict *out)
{
	text_set(out->line, sizeof(out->line), "%s", out->text);
}

void verdict_ended(const struct snapshot *s, const struct cohort_cause *cause,
                   struct verdict *out)
{
	struct cohort_verdict *v = &out->v;

	verdict_start(s, out);
	report_ranks(s, out);
	v->kind = cause->kind;
	v->stage = COHORT_STAGE_ENDED;
	v->rank = cause->rank;
	v->world_rank = cause->world_rank;
	v->collective = cause->collective;
	v->time_ns = cause->time_ns;
	v->since_ns = cause->since_ns;
	v->deadline_ns = cause->deadline_ns;
	memcpy(v->joined, cause->joined, sizeof(v->joined));
	memcpy(v->missing, cause->missing, sizeof(v->missing));
	text_set(out->line, sizeof(out->line), "%s", cause->text);
	text_set(out->text, sizeof(out->text), "%s",
	         *cause->details ? cause->details : cause->text);
}

/* Maximum number of ranks that are described one by one when a clique's end
 * does not complete.  The text must also have room for the reaper, the prober
 * and the callback. */
#define MAX_BLOCKERS 4

static void add_blocker(struct text *t, const struct snapshot *s,
                        const struct rank_snapshot *r)
{
	const bool is_in = r->inside && !r->staged;

	describe_name_of(t, s, r);
	if (r->native) {
		text_add(t, " is using its native communicator");
	} else if (is_in && r->last.ticket &&
	           r->last.outcome == COHORT_TIMED_OUT) {
		text_add(t, " has been inside %s for ", record_name(&r->last));
		describe_age(t, s, r->last.submitted_ns);
	} else {
		text_add(t, is_in ? " is inside a call"
		                  : " has an operation in flight that does "
		                    "not end");
	}
	if (is_in && !r->alive)
		text_add(t, ", and its thread has exited");
	else if (is_in)
		describe_thread(t, r);
}

/* Return a rank whose CUDA graphs may delay the end: NCCL does not end a
 * communicator while graphs with its calls exist.  Return NULL if there is
 * none, or if something else delays the end. */
static const struct rank_snapshot *graph_holder(const struct snapshot *s)
{
	int i;

	for (i = 0; s->reaping && i < s->size; i++)
		if (!s->ranks[i].idle)
			return NULL;
	for (i = 0; s->reaping && i < s->size; i++)
		if (s->ranks[i].captured)
			return &s->ranks[i];
	return NULL;
}

static int kind_of_wedge(const struct snapshot *s)
{
	if (graph_holder(s))
		return COHORT_VERDICT_GRAPH_ALIVE;
	return s->closing ? COHORT_VERDICT_CLOSE_STUCK : COHORT_VERDICT_WEDGED;
}

static void add_graph_holder(struct text *t, const struct snapshot *s,
                             const struct rank_snapshot *r)
{
	text_add(t, "; ");
	describe_name_of(t, s, r);
	text_add(t,
	         " has captured %llu call%s into CUDA graphs: destroy these "
	         "graphs first",
	         (unsigned long long)r->captured, r->captured == 1 ? "" : "s");
}

void verdict_wedged(const struct snapshot *s, struct verdict *out)
{
	struct text t = verdict_start(s, out);
	struct cohort_verdict *v = &out->v;
	struct rank_snapshot r;
	int i, n = 0;

	report_ranks(s, out);
	v->kind = kind_of_wedge(s);
	v->stage = COHORT_STAGE_ENDED;
	v->deadline_ns = s->abort_ns;
	text_add(&t, "group \"%s\" (generation %d) could not be ended within ",
	         s->group, s->generation);
	describe_time(&t, s->abort_ns);
	for (i = 0; i < s->size; i++) {
		r = s->ranks[i];
		if (r.idle)
			continue;
		if (v->rank < 0)
			v->rank = r.rank;
		else
			r.stack = NULL; /* there is room for one stack only */
		rank_set_add(v->missing, r.rank);
		if (++n > MAX_BLOCKERS)
			continue;
		text_add(&t, "; ");
		add_blocker(&t, s, &r);
	}
	if (n > MAX_BLOCKERS)
		text_add(&t, "; and %d more ranks", n - MAX_BLOCKERS);
	if (graph_holder(s)) {
		v->rank = graph_holder(s)->rank;
		add_graph_holder(&t, s, graph_holder(s));
	}
	if (s->reaping)
		text_add(&t, "; %s", s->reaping);
	if (s->reaping && s->reaping_rank >= 0) {
		text_add(&t, " of ");
		describe_number(&t, s, s->reaping_rank);
	}
	if (s->reaping)
		text_add(&t, " has not returned");
	if (s->probing >= 0) {
		text_add(&t, "; %s of ", s->asking);
		describe_number(&t, s, s->probing);
		text_add(&t, " has not returned");
	}
	if (s->callback_since_ns) {
		text_add(&t, "; on_verdict has not returned for ");
		describe_age(&t, s, s->callback_since_ns);
	}
	copy_line(out);
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
	text_add(&t, "group \"%s\": %s of ", s->group, s->asking);
	describe_number(&t, s, s->probing);
	text_add(&t, " has not returned for ");
	describe_age(&t, s, s->probing_since_ns);
	copy_line(out);
}

struct cohort_cause verdict_cause(const struct verdict *verdict)
{
	const struct cohort_verdict *v = &verdict->v;
	struct cohort_cause cause = {
		.status = COHORT_STALLED,
		.kind = v->kind,
		.rank = v->rank,
		.world_rank = v->world_rank,
		.collective = v->collective,
		.since_ns = v->since_ns,
		.deadline_ns = v->deadline_ns,
	};

	memcpy(cause.joined, v->joined, sizeof(cause.joined));
	memcpy(cause.missing, v->missing, sizeof(cause.missing));
	text_set(cause.text, sizeof(cause.text), "%s", verdict->line);
	memcpy(cause.details, verdict->text, sizeof(cause.details));
	return cause;
}

/* Copy the texts of stacks that the reports point to. */
static void copy_stacks(struct verdict *to, const struct verdict *from)
{
	int i, n = 0;

	for (i = 0; i < from->v.size; i++) {
		if (!*from->ranks[i].stack || n == STACK_RANKS) {
			to->ranks[i].stack = "";
			continue;
		}
		snprintf(to->stacks[n].text, sizeof(to->stacks[n].text), "%s",
		         from->ranks[i].stack);
		to->ranks[i].stack = to->stacks[n++].text;
	}
}

void verdict_copy(struct verdict *to, const struct verdict *from)
{
	memcpy(to->ranks, from->ranks,
	       (size_t)from->v.size * sizeof(*to->ranks));
	copy_stacks(to, from);
	memcpy(to->group, from->group, sizeof(to->group));
	memcpy(to->call, from->call, sizeof(to->call));
	memcpy(to->line, from->line, sizeof(to->line));
	memcpy(to->text, from->text, sizeof(to->text));
	to->v = from->v;
	to->v.call = to->call;
	to->v.line = to->line;
	to->v.group = to->group;
	to->v.ranks = to->ranks;
	to->v.text = to->text;
}
