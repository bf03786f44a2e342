/* SPDX-License-Identifier: Apache-2.0 */

#include "dump/flight_json.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/util.h"
#include "dump/flight.h"
#include "watch/symbolizer.h"

#define SCHEMA "2.10"

/* Version of our own keys.  Raised when the meaning of a key changes. */
#define FORMAT 1

static const char *dtype_name(int type)
{
	static const char *const names[] = {
		[COHORT_I8] = "Char",
		[COHORT_U8] = "Byte",
		[COHORT_I32] = "Int",
		[COHORT_U32] = "UInt32",
		[COHORT_I64] = "Long",
		[COHORT_U64] = "UInt64",
		[COHORT_F16] = "Half",
		[COHORT_F32] = "Float",
		[COHORT_F64] = "Double",
		[COHORT_BF16] = "BFloat16",
		[COHORT_F8E4M3] = "Float8_e4m3fn",
		[COHORT_F8E5M2] = "Float8_e5m2",
		[COHORT_BOOL] = "Bool",
		[COHORT_I16] = "Short",
		[COHORT_U16] = "UInt16",
		[COHORT_C64] = "ComplexFloat",
		[COHORT_C128] = "ComplexDouble",
	};

	return type_size(type) ? names[type] : "?";
}

/* Store a name such as "nccl:all_reduce" or "nccl:send 1->2".  Copies are not
 * operations of NCCL, so their name is "cohort:copy". */
static void profiling_name(char *name, size_t size, int rank,
                           const struct record *r)
{
	const char *what = op_name(r->kind);

	if (r->is_batch)
		snprintf(name, size, "nccl:coalesced");
	else if (r->kind == OP_COPY)
		snprintf(name, size, "cohort:copy");
	else if (r->kind == OP_SPLIT)
		snprintf(name, size, "nccl:split");
	else if (r->kind == OP_SEND)
		snprintf(name, size, "nccl:send %d->%d", rank, r->root);
	else if (r->kind == OP_RECV)
		snprintf(name, size, "nccl:recv %d<-%d", rank, r->root);
	else
		snprintf(name, size, "nccl:%s", what);
}

/* Return the total number of elements in all tensors. */
static uint64_t elements(const struct record *r)
{
	size_t bytes = cohort_type_size(r->type);

	if (r->kind == OP_BARRIER)
		return 1;
	return r->n == 1 || !bytes ? r->count : r->bytes / bytes;
}

static void put_size(struct json *j, const char *key, uint64_t count, bool any)
{
	json_open(j, key, '[');
	if (any) {
		json_open(j, NULL, '[');
		json_uint(j, NULL, count);
		json_close(j, ']');
	}
	json_close(j, ']');
}

static void put_type(struct json *j, const char *key, int type, bool any)
{
	json_open(j, key, '[');
	if (any)
		json_string(j, NULL, dtype_name(type));
	json_close(j, ']');
}

static void put_sizes(struct json *j, const struct record *r, int world)
{
	bool any = r->kind != OP_SPLIT && r->kind != OP_BATCH;
	uint64_t count = elements(r), all = count * (uint64_t)world;
	int type = r->kind == OP_BARRIER ? COHORT_I32 : r->type;
	bool gathers = r->kind == OP_ALL_GATHER || r->kind == OP_GATHER;
	bool scatters = r->kind == OP_REDUCE_SCATTER || r->kind == OP_SCATTER;

	if (r->kind == OP_ALL_TO_ALL)
		gathers = scatters = true;
	put_size(j, "input_sizes", scatters ? all : count, any);
	put_type(j, "input_dtypes", type, any);
	put_size(j, "output_sizes", gathers ? all : count, any);
	put_type(j, "output_dtypes", type, any);
}

struct page {
	struct json *json;
	const struct flight *flight;
	const struct flight_rank *rank;
	uint64_t collective; /* number of the last collective so far */
};

/* Write the description of the process group. */
static void put_description(const struct page *p, const char *key)
{
	char text[32];

	snprintf(text, sizeof(text), "generation %d", p->flight->generation);
	json_string(p->json, key, text);
}

static void put_group(const struct page *p)
{
	json_open(p->json, "process_group", '[');
	json_string(p->json, NULL, p->flight->group);
	put_description(p, NULL);
	json_close(p->json, ']');
}

static void put_times(const struct page *p, const struct flight_op *op)
{
	const struct record *r = &op->r;
	const struct flight *f = p->flight;
	/* An operation may be done without a recorded start. */
	uint64_t started_ns = r->started_ns ? r->started_ns : r->finished_ns;

	json_uint(p->json, "time_created_ns", flight_wall(f, r->submitted_ns));
	if (r->started_ns && r->finished_ns && !r->finished_at_most)
		json_fixed(p->json, "duration_ms",
		           r->finished_ns > r->started_ns
		                   ? r->finished_ns - r->started_ns
		                   : 0,
		           6);
	json_uint(p->json, "time_discovered_started_ns",
	          flight_wall(f, started_ns));
	json_uint(p->json, "time_discovered_completed_ns",
	          flight_wall(f, r->finished_ns));
	json_uint(p->json, "timeout_ms", op->timeout_ns / 1000000);
}

static void put_rank_or_null(struct json *j, const char *key, bool any,
                             int rank)
{
	if (any)
		json_int(j, key, rank);
	else
		json_null(j, key);
}

static void put_ours(const struct page *p, const struct flight_op *op)
{
	const struct record *r = &op->r;
	struct json *j = p->json;

	json_string(j, "call", record_name(r));
	json_string(j, "first_call", op_name(r->kind));
	json_string(j, "dtype", type_name(r->type));
	json_string(j, "reduce_op",
	            op_has_redop(r->kind) ? redop_name(r->redop) : NULL);
	put_rank_or_null(j, "root",
	                 op_has_root(r->kind) && !op_has_peer(r->kind),
	                 r->root);
	put_rank_or_null(j, "peer", op_has_peer(r->kind), r->root);
	json_uint(j, "tensors", r->n);
	json_uint(j, "digest", r->digest);
	json_uint(j, "count", r->count);
	json_uint(j, "bytes", r->bytes);
	json_uint(j, "collective", op->number);
	json_uint(j, "pair_seq_id", op->pair);
	json_string(j, "tag", flight_tag(p->rank, op));
	json_string(j, "label", flight_label(p->rank, op));
	json_int(j, "outcome", r->outcome);
	json_uint(j, "submitted_ns", r->submitted_ns);
	json_uint(j, "started_ns", r->started_ns);
	json_uint(j, "finished_ns", r->finished_ns);
	json_bool(j, "finished_at_most", r->finished_at_most);
}

static void put_entry(struct page *p, const struct flight_op *op)
{
	const struct record *r = &op->r;
	bool is_p2p = op_has_peer(r->kind) && !r->is_batch;
	struct json *j = p->json;
	char text[48];

	if (op->number)
		p->collective = op->number;
	json_line(j);
	json_open(j, NULL, '{');
	json_uint(j, "record_id", r->ticket);
	json_int(j, "pg_id", 0);
	put_group(p);
	json_string(j, "thread_name",
	            r->tid == p->rank->tid ? p->rank->thread : "");
	snprintf(text, sizeof(text), "%d", r->tid);
	json_string(j, "thread_id", text);
	json_uint(j, "collective_seq_id", p->collective);
	json_uint(j, "p2p_seq_id", is_p2p ? op->transfer : 0);
	json_uint(j, "op_id", r->ticket);
	profiling_name(text, sizeof(text), p->rank->rank, r);
	json_string(j, "profiling_name", text);
	put_sizes(j, r, p->flight->world);
	json_string(j, "state", flight_state_name(op->state));
	put_times(p, op);
	json_bool(j, "retired",
	          op->state == FLIGHT_COMPLETED || p->flight->cause.status);
	json_bool(j, "is_p2p", is_p2p);
	put_ours(p, op);
	json_close(j, '}');
}

static void put_entries(struct page *p, size_t most)
{
	const struct flight_rank *r = p->rank;
	size_t i = r->n > most ? r->n - most : 0;

	json_open(p->json, "entries", '[');
	for (; i < r->n; i++)
		put_entry(p, &r->ops[i]);
	json_line(p->json);
	json_close(p->json, ']');
}

static void put_cause(struct json *j, const struct cohort_cause *c)
{
	if (c->status == COHORT_OK) {
		json_null(j, "cause");
		return;
	}
	json_open(j, "cause", '{');
	json_int(j, "status", c->status);
	json_string(j, "kind", cohort_verdict_text(c->kind));
	json_int(j, "rank", c->rank);
	json_int(j, "nccl", c->nccl);
	json_int(j, "cuda", c->cuda);
	json_uint(j, "ticket", c->ticket);
	json_uint(j, "collective", c->collective);
	json_uint(j, "time_ns", c->time_ns);
	json_string(j, "text", c->text);
	json_close(j, '}');
}

static void put_verdict(struct json *j, const struct flight *f)
{
	const struct cohort_verdict *v = &f->verdict;

	if (!f->has_verdict) {
		json_null(j, "verdict");
		return;
	}
	json_open(j, "verdict", '{');
	json_string(j, "kind", cohort_verdict_text(v->kind));
	json_string(j, "stage",
	            v->stage == COHORT_STAGE_ENDED ? "ended" : "expired");
	json_int(j, "rank", v->rank);
	json_uint(j, "collective", v->collective);
	json_uint(j, "time_ns", v->time_ns);
	json_uint(j, "since_ns", v->since_ns);
	json_uint(j, "deadline_ns", v->deadline_ns);
	flight_put_set(j, "joined", v->joined);
	flight_put_set(j, "missing", v->missing);
	json_string(j, "text", f->text);
	json_close(j, '}');
}

static void put_stack(struct json *j, const struct stack_traces *all,
                      const struct stack_trace *t)
{
	const struct place_module *m;
	int i;

	json_open(j, NULL, '{');
	put_rank_or_null(j, "rank", t->rank >= 0, t->rank);
	json_int(j, "tid", t->tid);
	json_string(j, "thread", t->thread);
	json_string(j, "state", t->state);
	json_bool(j, "holds_interpreter_lock", t->holds_python == 1);
	json_string(j, "text", t->text);
	json_open(j, "frames", '[');
	for (i = 0; i < t->count; i++) {
		m = t->frames[i].module >= 0
		            ? &all->modules[t->frames[i].module]
		            : NULL;
		json_open(j, NULL, '{');
		json_string(j, "path", m ? m->path : NULL);
		json_string(j, "build_id",
		            m && *m->build_id ? m->build_id : NULL);
		json_uint(j, "offset", t->frames[i].offset);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_close(j, '}');
}

static void put_stacks(struct json *j, const struct stack_traces *s)
{
	int i;

	json_open(j, "stacks", '[');
	for (i = 0; s && i < s->n; i++)
		put_stack(j, s, &s->at[i]);
	json_close(j, ']');
	json_int(j, "threads_left_out", s && s->n ? s->left_out : 0);
}

static void put_facts(struct json *j, const struct flight *f)
{
	json_int(j, "format", FORMAT);
	json_string(j, "cohort_version", cohort_version());
	json_string(j, "group", f->group);
	json_int(j, "generation", f->generation);
	json_int(j, "size", f->size);
	json_int(j, "world", f->world);
	json_uint(j, "slots", f->slots);
	json_string(j, "platform", f->platform);
	json_string(j, "host", f->host);
	json_int(j, "pid", f->pid);
	json_uint(j, "serial", f->serial);
	json_string(j, "trigger", f->trigger);
	json_uint(j, "verdict_number", f->verdict_number);
	json_uint(j, "wall_ns", f->wall_ns);
	json_uint(j, "monotonic_ns", f->now_ns);
	put_cause(j, &f->cause);
	put_verdict(j, f);
	put_stacks(j, f->stacks);
}

static void put_rank_facts(struct json *j, const struct flight_rank *r)
{
	json_int(j, "rank", r->rank);
	json_int(j, "device", r->device);
	json_int(j, "tid", r->tid);
	json_string(j, "thread", r->thread);
	json_int(j, "alive", r->alive);
	json_bool(j, "inside", r->inside);
	json_uint(j, "recorded", r->n);
	json_uint(j, "lost", r->lost);
	json_uint(j, "last_enqueued", r->last_enqueued);
}

/* Write the ranks as a string such as "[0, 1, 2]". */
static void put_world(struct json *j, int world)
{
	char list[8 * COHORT_MAX_RANKS];
	struct text t = { list, sizeof(list) };
	int r;

	for (r = 0; r < world; r++)
		text_add(&t, r ? ", %d" : "[%d", r);
	text_add(&t, "]");
	json_string(j, "ranks", list);
}

static void put_versions(struct json *j, const struct flight *f)
{
	char version[VERSION_TEXT_SIZE];

	json_string(j, "version", SCHEMA);
	json_string(j, "comm_lib_version",
	            nccl_version_text(f->nccl_version, version));
}

/* Write a number as a string, as PyTorch does. */
static void put_count(struct json *j, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	json_string(j, key, text);
}

static void put_process_groups(const struct page *p)
{
	struct json *j = p->json;

	json_open(j, "pg_config", '{');
	json_open(j, p->flight->group, '{');
	json_string(j, "name", p->flight->group);
	put_description(p, "desc");
	put_world(j, p->flight->world);
	json_close(j, '}');
	json_close(j, '}');
	json_open(j, "pg_status", '{');
	json_open(j, "0", '{');
	put_count(j, "last_enqueued_collective", p->rank->last_enqueued);
	put_count(j, "last_started_collective", p->rank->last_started);
	put_count(j, "last_completed_collective", p->rank->last_completed);
	json_close(j, '}');
	json_close(j, '}');
}

void flight_json_rank(struct json *j, const struct flight *f,
                      const struct flight_rank *r)
{
	struct page p = { j, f, r, 0 };

	json_open(j, NULL, '{');
	put_versions(j, f);
	put_process_groups(&p);
	json_open(j, "cohort", '{');
	put_facts(j, f);
	put_rank_facts(j, r);
	json_close(j, '}');
	put_entries(&p, SIZE_MAX);
	json_close(j, '}');
}

void flight_json_merged(struct json *j, const struct flight *f, size_t most)
{
	struct page p = { j, f, NULL, 0 };
	const struct flight_rank *r;

	json_open(j, NULL, '{');
	put_versions(j, f);
	json_open(j, "cohort", '{');
	put_facts(j, f);
	json_close(j, '}');
	json_open(j, "ranks", '[');
	for (r = f->ranks; r < f->ranks + f->size; r++) {
		p.rank = r;
		p.collective = 0;
		json_line(j);
		json_open(j, NULL, '{');
		put_rank_facts(j, r);
		put_entries(&p, most);
		json_close(j, '}');
	}
	json_line(j);
	json_close(j, ']');
	json_close(j, '}');
}
