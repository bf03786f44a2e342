/* SPDX-License-Identifier: Apache-2.0 */

/* cohort trace: reads an entry of a dump, see value.h */

#ifdef HAVE_JSON_C

#include "cli/trace/value.h"

#include <stdio.h>
#include <string.h>

typedef struct json_object object;

static const char *kind_name(int kind)
{
	return op_name((enum op_kind)kind);
}

static const char *state_name(int state)
{
	return flight_state_name((enum flight_state)state);
}

/* The number of a tag, which is added if it is new; 0 for no tag. */
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

/* True if @call names a call with host memory. */
static bool is_from_host(const char *call)
{
	static const char end[] = "_host";
	const size_t n = strlen(call), of = sizeof(end) - 1;

	return n > of && strcmp(call + n - of, end) == 0;
}

/* Read the values that describe the call. */
static void read_call(struct values *v, object *o, struct record *r)
{
	int kind =
		value_name(v, o, "first_call", kind_name, OP_BATCH + 1, "call");
	char call[32];

	value_text(v, o, "call", call, sizeof(call));
	r->is_batch = strcmp(call, "batch") == 0;
	r->from_host = is_from_host(call);
	r->type =
		value_name(v, o, "dtype", type_name, COHORT_F8E5M2 + 1, "type");
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

bool trace_entry(struct values *v, struct flight_rank *r, object *o,
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
	/* Missing from dumps of earlier versions. */
	op->r.finished_at_most =
		json_object_object_get_ex(o, "finished_at_most", NULL) &&
		value_bool(v, o, "finished_at_most");
	op->r.outcome = value_int(v, o, "outcome", INT32_MIN, INT32_MAX, 0);
	op->number = value_uint(v, o, "collective", 0, r->last_enqueued, 0);
	state = value_name(v, o, "state", state_name, FLIGHT_COMPLETED + 1,
	                   "state");
	value_text(v, o, "tag", tag, sizeof(tag));
	value_text(v, o, "label", label, sizeof(label));
	if (v->wrong > wrong)
		return false;
	op->state = (enum flight_state)state;
	op->r.tag = tag_number(r->tags, tag);
	op->r.label = tag_number(r->labels, label);
	return true;
}

#endif
