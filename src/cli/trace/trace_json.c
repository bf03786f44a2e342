/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Writes the JSON of cohort trace --json, and the data of the page of --html
 *
 * The page's data has tables. Each is a list of its cells, row after row. A row
 * of "ops" is a call; the rows are sorted by rank, then by time. A row of
 * "calls" has the values that several calls share; rows of "ops" refer to it by
 * index. Times are relative: "submitted" to the previous call of the rank, or
 * to "base_ns" for its first call; "started" and "begin" to "submitted";
 * "joined" to "begin"; and "end" to "joined", when all ranks had joined.
 */

#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "cli/common/cli.h"
#include "cli/trace/trace.h"

static void put_spread(struct json *j, const char *key,
                       const struct trace_spread *s)
{
	json_open(j, key, '{');
	json_uint(j, "n", s->n);
	json_uint(j, "p50", s->p50);
	json_uint(j, "p95", s->p95);
	json_uint(j, "max", s->max);
	json_close(j, '}');
}

static void put_ranks(struct json *j, const struct trace_model *m)
{
	const struct flight_rank *r = m->flight->ranks;

	json_open(j, "ranks", '[');
	for (int i = 0; i < m->flight->size; i++, r++) {
		json_open(j, NULL, '{');
		json_int(j, "rank", r->rank);
		json_uint(j, "operations", r->n);
		json_uint(j, "lost", r->lost);
		json_uint(j, "came_last", m->ranks[i].last);
		json_uint(j, "of", m->ranks[i].of);
		put_spread(j, "late_ns", &m->ranks[i].late);
		json_close(j, '}');
	}
	json_close(j, ']');
}

/* Write the sites. If @is_page is true, also write each site's call as text and
 * its total time. */
static void put_sites(struct json *j, const struct trace_model *m, bool is_page)
{
	static const char *const keys[TRACE_TIMES] = {
		"queueing_ns", "waiting_ns", "execution_ns", "between_ns"
	};
	const struct trace_site *s;

	json_open(j, "sites", '[');
	for (s = m->sites; s < m->sites + m->n_sites; s++) {
		json_open(j, NULL, '{');
		json_string(j, "call", record_name(&s->op->r));
		json_string(j, "dtype", type_name(s->op->r.type));
		json_uint(j, "count", s->op->r.count);
		json_uint(j, "tensors", s->op->r.n);
		json_string(j, "tag", s->tag);
		json_string(j, "label", s->label);
		json_uint(j, "calls", s->calls);
		json_uint(j, "finished_at_most", s->bounded);
		for (int t = 0; t < TRACE_TIMES; t++)
			put_spread(j, keys[t], &s->times[t]);
		if (is_page) {
			json_string(j, "text", trace_words(s->op).at);
			json_uint(j, "total_ns", s->total_ns);
		}
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void put_verdict(struct json *j, const struct trace_model *m)
{
	if (!m->verdict) {
		json_null(j, "verdict");
		return;
	}
	json_open(j, "verdict", '{');
	json_string(j, "kind", m->verdict);
	json_int(j, "rank", m->culprit);
	flight_put_set(j, "joined", m->flight->verdict.joined);
	flight_put_set(j, "missing", m->flight->verdict.missing);
	json_string(j, "text", m->text);
	json_close(j, '}');
}

static void put_row(struct json *j, const struct flight *f, uint64_t number)
{
	const struct flight_meeting *m = flight_meeting(f, number);
	const struct flight_op *op;

	json_open(j, NULL, '{');
	json_uint(j, "collective", number);
	json_open(j, "ranks", '[');
	for (int r = 0; r < f->size; r++) {
		op = trace_find(&f->ranks[r], number);
		if (!op || !m)
			continue;
		json_open(j, NULL, '{');
		json_int(j, "rank", f->ranks[r].rank);
		json_string(j, "call", record_name(&op->r));
		json_string(j, "state", flight_state_name(op->state));
		json_uint(j, "behind_ns", op->r.submitted_ns - m->first_ns);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_close(j, '}');
}

static void put_stack(struct json *j, const struct trace_stack *s)
{
	json_open(j, NULL, '{');
	if (s->rank >= 0)
		json_int(j, "rank", s->rank);
	else
		json_null(j, "rank");
	json_int(j, "tid", s->tid);
	json_string(j, "thread", s->thread);
	json_string(j, "state", s->state);
	json_bool(j, "holds_interpreter_lock", s->holds_python);
	json_string(j, "text", s->text);
	json_open(j, "frames", '[');
	for (const struct trace_frame *f = s->frames; f < s->frames + s->n;
	     f++) {
		json_open(j, NULL, '{');
		json_string(j, "function", *f->function ? f->function : NULL);
		json_string(j, "path", *f->path ? f->path : NULL);
		json_string(j, "build_id", *f->build_id ? f->build_id : NULL);
		json_uint(j, "offset", f->offset);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_close(j, '}');
}

void trace_json(FILE *out, const struct trace_model *m)
{
	const struct trace_window *w = &m->window;
	const struct trace *t = m->trace;
	struct json json = { .out = out }, *j = &json;

	json_open(j, NULL, '{');
	json_string(j, "group", t->flight.group);
	json_int(j, "generation", t->flight.generation);
	json_int(j, "world", t->flight.world);
	put_verdict(j, m);
	flight_put_set(j, "missing_ranks", t->missing);
	json_open(j, "problems", '[');
	for (int i = 0; i < t->n_problems; i++)
		json_string(j, NULL, t->problems[i]);
	json_close(j, ']');
	json_uint(j, "stalled_at", w->is_stalled ? w->front : 0);
	json_open(j, "window", '[');
	for (uint64_t number = w->first; number && number <= w->last; number++)
		put_row(j, &t->flight, number);
	json_close(j, ']');
	json_open(j, "stacks", '[');
	for (int i = 0; i < t->stacks.n; i++)
		put_stack(j, &t->stacks.at[i]);
	json_close(j, ']');
	put_ranks(j, m);
	put_sites(j, m, false);
	json_close(j, '}');
	putc('\n', out);
}

static void put_kinds(struct json *j, const struct trace_model *m)
{
	const struct trace_call *c;

	json_open(j, "calls", '[');
	for (size_t i = 0; i < m->n_kinds; i++) {
		c = m->kinds[i];
		json_string(j, NULL, record_name(&c->op->r));
		json_string(j, NULL, trace_words(c->op).at);
		json_uint(j, NULL, c->op->r.bytes);
		json_string(j, NULL, c->tag);
		json_string(j, NULL, c->label);
		json_string(j, NULL, trace_state(c->op));
		json_int(j, NULL, c->op->state == FLIGHT_COMPLETED);
	}
	json_close(j, ']');
}

static void put_calls(struct json *j, const struct trace_model *m)
{
	const struct trace_call *c = m->calls;
	uint64_t before, called, started;

	json_open(j, "ops", '[');
	for (int r = 0; r < m->flight->size; r++) {
		before = m->base_ns;
		for (size_t i = 0; i < m->flight->ranks[r].n; i++, c++) {
			called = c->op->r.submitted_ns;
			started = c->op->r.started_ns;
			started = started ? started - called : UINT64_MAX;
			json_uint(j, NULL, c->kind);
			json_uint(j, NULL, c->op->number);
			json_int(j, NULL, (int64_t)(called - before));
			json_int(j, NULL, (int64_t)started);
			json_uint(j, NULL, c->drawn.begin_ns - called);
			json_uint(j, NULL,
			          c->drawn.joined_ns - c->drawn.begin_ns);
			json_uint(j, NULL,
			          c->drawn.end_ns - c->drawn.joined_ns);
			json_int(j, NULL, c->op->r.finished_at_most);
			before = called;
		}
	}
	json_close(j, ']');
}

/* Write the collectives, starting with number "lowest". Each has the number of
 * ranks that have called it, the index of the last of these ranks, the time of
 * the first call, and the time from the first to the last call. */
static void put_meetings(struct json *j, const struct trace_model *m)
{
	const struct flight *f = m->flight;
	const struct flight_meeting *one;

	json_uint(j, "lowest", f->lowest);
	json_open(j, "collectives", '[');
	for (one = f->meetings; one < f->meetings + f->meetings_count; one++) {
		json_int(j, NULL, one->joined);
		json_int(j, NULL, one->last);
		json_uint(j, NULL,
		          one->joined ? one->first_ns - m->base_ns : 0);
		json_uint(j, NULL, one->last_ns - one->first_ns);
	}
	json_close(j, ']');
}

static void put_data(struct json *j, const struct trace_model *m)
{
	const struct trace_window *w = &m->window;
	char base[24];

	snprintf(base, sizeof(base), "%llu", (unsigned long long)m->base_ns);
	json_open(j, NULL, '{');
	json_int(j, "format", 2);
	/* Write a text, because numbers in the script are exact only up to
	 * 2^53. */
	json_string(j, "base_ns", base);
	json_uint(j, "now", m->now_ns - m->base_ns);
	json_uint(j, "front", w->is_stalled ? w->front : 0);
	json_uint(j, "first", w->first);
	json_int(j, "culprit", m->culprit);
	flight_put_set(j, "missing", m->flight->verdict.missing);
	put_ranks(j, m);
	put_meetings(j, m);
	put_kinds(j, m);
	put_sites(j, m, true);
	put_calls(j, m);
	json_close(j, '}');
}

void trace_page_data(FILE *out, const struct trace_model *m)
{
	char *text = NULL, *at, *mark;
	size_t n = 0;
	FILE *memory = cli_need(open_memstream(&text, &n));

	put_data(&(struct json){ .out = memory }, m);
	cli_need(fclose(memory) ? NULL : text);
	/* In JSON, '<' can only be in a string, where it may be escaped. */
	for (at = text; (mark = strchr(at, '<')); at = mark + 1) {
		fwrite(at, 1, (size_t)(mark - at), out);
		fputs("\\u003c", out);
	}
	fputs(at, out);
	free(text);
}
