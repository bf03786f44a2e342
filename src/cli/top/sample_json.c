/* SPDX-License-Identifier: Apache-2.0 */

/* cohort top: a sample as JSON, see top.h */

#include "cli/top/top.h"

#include "base/json.h"

static void put_last_call(struct json *j, const struct top_rank *r)
{
	if (!*r->call) {
		json_null(j, "last_call");
		return;
	}
	json_open(j, "last_call", '{');
	json_string(j, "call", r->call);
	json_uint(j, "bytes", r->bytes);
	json_string(j, "tag", r->tag);
	json_string(j, "label", r->label);
	json_uint(j, "ago_ns", r->ago_ns);
	json_close(j, '}');
}

static void put_rank(struct json *j, const struct top_rank *r)
{
	json_open(j, NULL, '{');
	json_int(j, "rank", r->rank);
	json_int(j, "device", r->device);
	json_int(j, "pid", r->pid);
	json_string(j, "state", top_state_name(r->state));
	put_last_call(j, r);
	json_uint(j, "collectives", r->collectives);
	json_uint(j, "behind", r->behind);
	json_double(j, "collectives_per_second", r->collectives_rate);
	json_double(j, "bytes_per_second", r->bytes_rate);
	json_uint(j, "in_flight", r->in_flight);
	json_bool(j, "in_flight_is_least", r->is_more);
	json_uint(j, "came_last", r->last);
	json_close(j, '}');
}

static void put_cause(struct json *j, const struct cohort_cause *c)
{
	if (c->status == COHORT_OK) {
		json_null(j, "cause");
		return;
	}
	json_open(j, "cause", '{');
	json_string(j, "kind", cohort_verdict_text(c->kind));
	json_int(j, "rank", c->rank);
	json_string(j, "text", c->text);
	json_close(j, '}');
}

void top_json(FILE *out, const struct top_sample *s, bool has_ended)
{
	struct json json = { .out = out }, *j = &json;
	int i;

	json_open(j, NULL, '{');
	json_string(j, "group", s->group);
	json_int(j, "generation", s->generation);
	json_int(j, "world", s->world);
	json_string(j, "host", s->host);
	json_uint(j, "wall_ns", s->wall_ns);
	json_uint(j, "monotonic_ns", s->time_ns);
	json_bool(j, "ended", has_ended);
	json_string(j, "gone", *s->gone ? s->gone : NULL);
	put_cause(j, &s->cause);
	flight_put_set(j, "missing_ranks", s->missing);
	json_uint(j, "met", s->met);
	json_open(j, "ranks", '[');
	for (i = 0; i < s->n; i++)
		put_rank(j, &s->ranks[i]);
	json_close(j, ']');
	json_close(j, '}');
	fputc('\n', out);
}
