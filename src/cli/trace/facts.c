/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The facts at the head of a dump: its group and process, the cause, the verdict and the
 * stacks
 */

#ifdef HAVE_JSON_C

#include "cli/trace/read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct json_object object;

static const char *trigger_name(int trigger)
{
	static const char *const names[] = { "verdict", "call", "signal",
		                             "fifo" };

	return names[trigger];
}

static int get_verdict(struct values *v, object *o)
{
	return value_name(v, o, "kind", cohort_verdict_text, 256, "verdict");
}

static void get_set(struct values *v, object *o, const char *key, uint64_t *set)
{
	object *list = value_list(v, o, key);
	size_t i, n = list ? json_object_array_length(list) : 0;
	int rank;

	for (i = 0; i < n; i++) {
		rank = value_int_at(v, list, key, i, 0, COHORT_MAX_RANKS - 1,
		                    -1);
		if (rank >= 0)
			rank_set_add(set, rank);
	}
}

static void read_cause(struct values *v, struct flight *f, object *o)
{
	f->cause.status =
		value_int(v, o, "status", INT32_MIN, INT32_MAX, COHORT_SYSTEM);
	f->cause.kind = get_verdict(v, o);
	f->cause.rank = value_rank(v, o, "rank", -1);
	f->cause.collective = value_count(v, o, "collective");
	value_text(v, o, "text", f->cause.text, sizeof(f->cause.text));
}

static void read_verdict(struct values *v, struct flight *f, object *o)
{
	f->has_verdict = true;
	f->verdict.kind = get_verdict(v, o);
	f->verdict.rank = value_rank(v, o, "rank", -1);
	f->verdict.collective = value_count(v, o, "collective");
	get_set(v, o, "joined", f->verdict.joined);
	get_set(v, o, "missing", f->verdict.missing);
	value_lines(v, o, "text", f->text, sizeof(f->text));
}

/* A fact that is unknown is 0 or empty in @f. */
static void read_facts(struct values *v, object *o, struct flight *f)
{
	object *cause = value_maybe(v, o, "cause");
	object *verdict = value_maybe(v, o, "verdict");
	int trigger;

	value_text(v, o, "group", f->group, sizeof(f->group));
	value_text(v, o, "host", f->host, sizeof(f->host));
	f->generation = value_int(v, o, "generation", 1, INT32_MAX, 0);
	f->world = value_int(v, o, "world", 1, COHORT_MAX_RANKS, 0);
	f->pid = value_int(v, o, "pid", 1, INT32_MAX, 0);
	f->serial = (unsigned)value_int(v, o, "serial", 0, INT32_MAX, 0);
	f->verdict_number =
		(unsigned)value_int(v, o, "verdict_number", 0, INT32_MAX, 0);
	f->now_ns = value_count(v, o, "monotonic_ns");
	f->wall_ns = value_count(v, o, "wall_ns");
	trigger = value_name(v, o, "trigger", trigger_name, 4, "trigger");
	f->trigger = trigger < 0 ? NULL : trigger_name(trigger);
	f->cause.rank = -1;
	if (cause)
		read_cause(v, f, cause);
	if (verdict)
		read_verdict(v, f, verdict);
}

/* Take the facts that are unknown in @f from @one. */
static void add_facts(struct flight *f, const struct flight *one)
{
	if (!*f->group)
		memcpy(f->group, one->group, sizeof(f->group));
	if (!f->generation)
		f->generation = one->generation;
	if (!f->world)
		f->world = one->world;
	if (!*f->host)
		memcpy(f->host, one->host, sizeof(f->host));
	if (!f->pid)
		f->pid = one->pid;
	if (!f->now_ns)
		f->now_ns = one->now_ns;
	if (!f->wall_ns)
		f->wall_ns = one->wall_ns;
	if (!f->trigger)
		f->trigger = one->trigger;
	if (f->cause.status == COHORT_OK)
		f->cause = one->cause;
	if (f->has_verdict || !one->has_verdict)
		return;
	f->has_verdict = true;
	f->verdict = one->verdict;
	memcpy(f->text, one->text, sizeof(f->text));
}

static struct source source_of(const struct flight *f)
{
	struct source s = { .verdict = f->verdict_number };
	char mark[DUMP_MARK];

	snprintf(s.process, sizeof(s.process), "%.63s.%d.%u", f->host, f->pid,
	         f->serial);
	snprintf(s.name, sizeof(s.name), "%s%s", s.process,
	         dump_mark(s.verdict, mark));
	return s;
}

bool source_is_better(const struct source *a, const struct source *b)
{
	/* 0 less 1 is the greatest number. */
	return a->verdict - 1 < b->verdict - 1;
}

/* ---- stacks ----------------------------------------------------------- */

/* Read a text or null into @to. */
static void read_text(struct values *v, object *o, const char *key, char *to,
                      size_t size)
{
	object *value;

	*to = '\0';
	if (!json_object_object_get_ex(o, key, &value) || value)
		value_text(v, o, key, to, size);
}

static void read_frames(struct values *v, object *o, struct trace_stack *s)
{
	object *list = value_list(v, o, "frames"), *one;
	size_t n = list ? json_object_array_length(list) : 0, i;
	struct trace_frame *f;

	if (n > STACK_FRAMES)
		n = STACK_FRAMES;
	s->frames = trace_need(calloc(n + 1, sizeof(*s->frames)));
	for (i = 0; i < n; i++) {
		one = value_object_at(v, list, "frames", i);
		if (!one)
			continue;
		f = &s->frames[s->n++];
		read_text(v, one, "path", f->path, sizeof(f->path));
		read_text(v, one, "build_id", f->build_id, sizeof(f->build_id));
		f->offset = value_count(v, one, "offset");
	}
}

static void read_stack(struct values *v, object *o, struct trace_stack *s)
{
	object *rank;

	s->rank = -1;
	if (!json_object_object_get_ex(o, "rank", &rank) || rank)
		s->rank = value_rank(v, o, "rank", 0);
	s->tid = value_int(v, o, "tid", 1, INT32_MAX, 0);
	value_text(v, o, "thread", s->thread, sizeof(s->thread));
	value_text(v, o, "state", s->state, sizeof(s->state));
	s->holds_python = value_bool(v, o, "holds_interpreter_lock");
	value_text(v, o, "text", s->text, sizeof(s->text));
	read_frames(v, o, s);
}

static void meet_stacks(struct reader *r, object *facts)
{
	struct values *v = &r->values;
	object *list = NULL, *one;
	size_t n, i;

	trace_stacks_free(&r->stacks);
	/* Dumps of earlier versions have none. */
	if (json_object_object_get_ex(facts, "stacks", NULL))
		list = value_list(v, facts, "stacks");
	n = list ? json_object_array_length(list) : 0;
	if (n > STACKS)
		n = STACKS;
	r->stacks.at = trace_need(calloc(n + 1, sizeof(*r->stacks.at)));
	for (i = 0; i < n; i++) {
		one = value_object_at(v, list, "stacks", i);
		if (one)
			read_stack(v, one, &r->stacks.at[r->stacks.n++]);
	}
}

static void take_stacks(struct reader *r)
{
	struct trace_stacks *to = &r->trace->stacks;
	struct trace_stack *s;
	int i;

	for (s = r->stacks.at; s < r->stacks.at + r->stacks.n; s++) {
		memcpy(s->process, r->source.process, sizeof(s->process));
		for (i = 0; i < to->n; i++)
			if (to->at[i].tid == s->tid &&
			    strcmp(to->at[i].process, s->process) == 0)
				break;
		if (i < to->n) {
			free(s->frames);
			continue; /* each file of a dump has the same */
		}
		to->at = trace_need(
			realloc(to->at, ((size_t)to->n + 1) * sizeof(*s)));
		to->at[to->n++] = *s;
	}
	r->stacks.n = 0;
}

bool reader_meet_facts(struct reader *r, object *o)
{
	struct flight *f = &r->trace->flight, *one = &r->one;

	*one = (struct flight){ .size = 0 };
	read_facts(&r->values, o, one);
	meet_stacks(r, o);
	r->source = source_of(one);
	if ((!*one->group || !*f->group || strcmp(one->group, f->group) == 0) &&
	    (!one->generation || !f->generation ||
	     one->generation == f->generation))
		return true;
	reader_problem(r, "is from group \"%s\", generation %d: left out",
	               one->group, one->generation);
	return false;
}

void reader_take_facts(struct reader *r)
{
	struct flight *f = &r->trace->flight, former = *f;

	take_stacks(r);
	if (!*r->facts.name || source_is_better(&r->source, &r->facts)) {
		r->facts = r->source;
		*f = r->one;
		add_facts(f, &former);
	} else {
		add_facts(f, &r->one);
	}
}

#endif
