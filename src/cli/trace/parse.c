/* SPDX-License-Identifier: Apache-2.0 */

/* Reads the objects of a dump: the facts and stacks in its head, the heads of
 * ranks, and the entries */

#ifdef HAVE_JSON_C

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"
#include "cli/trace/value.h"

typedef struct json_object object;

static object *object_or_null(struct values *v, object *o, const char *key)
{
	return value_is_null(o, key) ? NULL
	                             : value_of(v, o, key, json_type_object);
}

/* Read a text into the array @to, without line feeds. */
#define TEXT(v, o, key, to) value_text(v, o, key, to, sizeof(to), false)

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

void parse_facts(struct values *v, object *o, struct flight *f)
{
	object *cause = object_or_null(v, o, "cause");
	object *verdict = object_or_null(v, o, "verdict");
	int trigger;

	*f = (struct flight){ .size = 0 };
	TEXT(v, o, "group", f->group);
	TEXT(v, o, "host", f->host);
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
	if (cause) {
		f->cause.status = value_int(v, cause, "status", INT32_MIN,
		                            INT32_MAX, COHORT_SYSTEM);
		f->cause.kind = get_verdict(v, cause);
		f->cause.rank = value_rank(v, cause, "rank", -1);
		f->cause.collective = value_count(v, cause, "collective");
		TEXT(v, cause, "text", f->cause.text);
	}
	if (!verdict)
		return;
	f->has_verdict = true;
	f->verdict.kind = get_verdict(v, verdict);
	f->verdict.rank = value_rank(v, verdict, "rank", -1);
	f->verdict.collective = value_count(v, verdict, "collective");
	value_ranks(v, verdict, "joined", f->verdict.joined);
	value_ranks(v, verdict, "missing", f->verdict.missing);
	value_text(v, verdict, "text", f->text, sizeof(f->text), true);
}

static void read_text(struct values *v, object *o, const char *key, char *to,
                      size_t size)
{
	*to = '\0';
	if (!value_is_null(o, key))
		value_text(v, o, key, to, size, false);
}

static void read_frames(struct values *v, object *o, struct trace_stack *s)
{
	object *list = value_of(v, o, "frames", json_type_array), *one;
	struct trace_frame *f;
	size_t i = 0;

	s->frames = cli_need(calloc(STACK_FRAMES, sizeof(*s->frames)));
	while (s->n < STACK_FRAMES &&
	       (one = value_next(v, list, "frames", &i))) {
		f = &s->frames[s->n++];
		read_text(v, one, "path", f->path, sizeof(f->path));
		read_text(v, one, "build_id", f->build_id, sizeof(f->build_id));
		f->offset = value_count(v, one, "offset");
	}
}

static void read_stack(struct values *v, object *o, struct trace_stack *s)
{
	s->rank = -1;
	if (!value_is_null(o, "rank"))
		s->rank = value_rank(v, o, "rank", 0);
	s->tid = value_int(v, o, "tid", 1, INT32_MAX, 0);
	TEXT(v, o, "thread", s->thread);
	TEXT(v, o, "state", s->state);
	s->holds_python = value_bool(v, o, "holds_interpreter_lock");
	TEXT(v, o, "text", s->text);
	read_frames(v, o, s);
}

void parse_stacks(struct values *v, object *o, const char *process,
                  struct trace_stacks *stacks)
{
	object *list = NULL, *one;
	struct trace_stack *s;
	size_t i = 0;

	/* Dumps of older versions have no stacks. */
	if (json_object_object_get_ex(o, "stacks", NULL))
		list = value_of(v, o, "stacks", json_type_array);
	stacks->at = cli_need(calloc(STACKS, sizeof(*stacks->at)));
	while (stacks->n < STACKS &&
	       (one = value_next(v, list, "stacks", &i))) {
		s = &stacks->at[stacks->n++];
		read_stack(v, one, s);
		snprintf(s->process, sizeof(s->process), "%s", process);
	}
}

struct flight_rank parse_rank(struct values *v, object *o)
{
	return (struct flight_rank){
		.device = value_int(v, o, "device", -1, INT32_MAX, -1),
		.inside = value_bool(v, o, "inside"),
		.tid = value_int(v, o, "tid", 0, INT32_MAX, 0),
		.alive = value_int(v, o, "alive", -1, 1, -1),
		.lost = value_count(v, o, "lost"),
		.last_enqueued = value_uint(v, o, "last_enqueued", 0,
		                            VALUE_MOST, VALUE_MOST),
	};
}

static const char *kind_name(int kind)
{
	return op_name((enum op_kind)kind);
}

static const char *state_name(int state)
{
	return flight_state_name((enum flight_state)state);
}

/* Return the number of the tag @text, which is added if it is new, or 0 if the
 * tag is empty or there is no room. */
static unsigned tag_number(struct flight_tag *tags, const char *text)
{
	unsigned i;

	if (!*text)
		return 0;
	for (i = 0; i < TAG_SLOTS && tags[i].number; i++)
		if (strcmp(tags[i].text, text) == 0)
			return i + 1;
	if (i == TAG_SLOTS)
		return 0;
	tags[i].number = i + 1;
	snprintf(tags[i].text, sizeof(tags[i].text), "%s", text);
	return i + 1;
}

static void read_call(struct values *v, object *o, struct record *r)
{
	int kind =
		value_name(v, o, "first_call", kind_name, OP_BATCH + 1, "call");
	char call[32];

	TEXT(v, o, "call", call);
	r->is_batch = strcmp(call, "batch") == 0;
	r->from_host = cli_ends_with(call, "_host");
	r->type = value_name(v, o, "dtype", type_name, COHORT_C128 + 1, "type");
	r->n = value_count(v, o, "tensors");
	r->count = value_count(v, o, "count");
	r->bytes = value_count(v, o, "bytes");
	if (kind < 0)
		return;
	r->kind = (enum op_kind)kind;
	if (op_has_redop(r->kind))
		r->redop = value_name(v, o, "reduce_op", redop_name,
		                      REDOP_PREMUL_SUM + 1, "reduction");
	if (op_has_peer(r->kind))
		r->root = value_rank(v, o, "peer", 0);
	else if (op_has_root(r->kind))
		r->root = value_rank(v, o, "root", 0);
}

bool parse_entry(struct values *v, struct flight_rank *r, object *o,
                 struct flight_op *op)
{
	size_t wrong = v->wrong;
	char tag[TAG_SIZE], label[TAG_SIZE];
	int state;

	*op = (struct flight_op){ .r = { .ticket = 0 } };
	read_call(v, o, &op->r);
	op->r.ticket = value_uint(v, o, "record_id", 1, VALUE_MOST, 0);
	op->r.submitted_ns = value_uint(v, o, "submitted_ns", 1, VALUE_MOST, 0);
	op->r.started_ns = value_count(v, o, "started_ns");
	op->r.finished_ns = value_count(v, o, "finished_ns");
	/* Dumps of older versions do not have this value. */
	op->r.finished_at_most =
		json_object_object_get_ex(o, "finished_at_most", NULL) &&
		value_bool(v, o, "finished_at_most");
	op->r.outcome = value_int(v, o, "outcome", INT32_MIN, INT32_MAX, 0);
	op->number = value_uint(v, o, "collective", 0, r->last_enqueued, 0);
	state = value_name(v, o, "state", state_name, FLIGHT_COMPLETED + 1,
	                   "state");
	TEXT(v, o, "tag", tag);
	TEXT(v, o, "label", label);
	if (v->wrong > wrong)
		return false;
	op->state = (enum flight_state)state;
	op->r.tag = tag_number(r->tags, tag);
	op->r.label = tag_number(r->labels, label);
	return true;
}

#endif
