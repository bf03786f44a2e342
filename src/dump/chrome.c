/* SPDX-License-Identifier: Apache-2.0 */

#include "dump/chrome.h"

#include <stdio.h>

/* State of one rank's track while it is written. */
struct track {
	struct json *json;
	const struct flight *flight;
	const struct flight_rank *rank;
	uint64_t busy_until_ns; /* end of the previous operation; 0 if none */
};

/* Write a time in nanoseconds as microseconds, the unit of the format. */
static void put_time(struct json *json, const char *key, uint64_t ns)
{
	json_fixed(json, key, ns, 3);
}

/* Start an event, which the caller closes. */
static void open_event(const struct track *t, const char *name,
                       const char *category, const char *phase,
                       uint64_t time_ns)
{
	json_line(t->json);
	json_open(t->json, NULL, '{');
	json_string(t->json, "name", name);
	json_string(t->json, "cat", category);
	json_string(t->json, "ph", phase);
	put_time(t->json, "ts", time_ns);
	json_int(t->json, "pid", t->flight->pid);
	json_int(t->json, "tid", t->rank->rank);
}

static void put_arguments(const struct track *t, const struct flight_op *op)
{
	char call[128];

	record_add(&(struct text){ call, sizeof(call) }, &op->r);
	json_open(t->json, "args", '{');
	json_string(t->json, "call", call);
	json_uint(t->json, "ticket", op->r.ticket);
	json_uint(t->json, "collective", op->number);
	json_string(t->json, "state", flight_state_name(op->state));
	json_string(t->json, "tag", flight_tag(t->rank, op));
	json_string(t->json, "label", flight_label(t->rank, op));
	json_bool(t->json, "finished_at_most", op->r.finished_at_most);
	json_close(t->json, '}');
}

static void put_slice(const struct track *t, const struct flight_op *op,
                      const char *name, const char *category, uint64_t from_ns,
                      uint64_t to_ns)
{
	open_event(t, name, category, "X", from_ns);
	put_time(t->json, "dur", to_ns - from_ns);
	if (op)
		put_arguments(t, op);
	json_close(t->json, '}');
}

static void put_arrival(const struct track *t, const struct flight_op *op)
{
	open_event(t, record_name(&op->r), "arrival", "i", op->r.submitted_ns);
	json_string(t->json, "s", "t");
	put_arguments(t, op);
	json_close(t->json, '}');
}

/* Write the start or the end of the time spent queued after other
 * operations. */
static void put_queueing(const struct track *t, const struct flight_op *op,
                         const char *phase, uint64_t time_ns)
{
	char id[64];

	snprintf(id, sizeof(id), "%d.%llu", t->rank->rank,
	         (unsigned long long)op->r.ticket);
	open_event(t, record_name(&op->r), "queueing", phase, time_ns);
	json_string(t->json, "id", id);
	json_close(t->json, '}');
}

static void put_execution(struct track *t, const struct flight_op *op,
                          uint64_t end_ns)
{
	struct flight_span s =
		flight_span(t->flight, op, t->busy_until_ns, end_ns);
	char name[64];

	if (t->busy_until_ns && s.begin_ns > t->busy_until_ns)
		put_slice(t, NULL, "gap", "gap", t->busy_until_ns, s.begin_ns);
	if (s.begin_ns > op->r.submitted_ns) {
		put_queueing(t, op, "b", op->r.submitted_ns);
		put_queueing(t, op, "e", s.begin_ns);
	}
	if (s.joined_ns > s.begin_ns)
		put_slice(t, op, record_name(&op->r), "waiting", s.begin_ns,
		          s.joined_ns);
	snprintf(name, sizeof(name), "%s%s", record_name(&op->r),
	         op->r.finished_at_most ? " (or less)" : "");
	if (s.end_ns > s.joined_ns || s.joined_ns == s.begin_ns)
		put_slice(t, op, name,
		          op->r.finished_at_most ? "execution,upper bound"
		                                 : "execution",
		          s.joined_ns, s.end_ns);
	t->busy_until_ns = s.end_ns;
}

/* Write an operation that is not done.  The first such operation on a track
 * lasts until now; the others are queued after it. */
static void put_pending(struct track *t, const struct flight_op *op)
{
	uint64_t now = t->flight->now_ns;

	if (t->busy_until_ns < now) {
		put_execution(t, op, now);
		return;
	}
	put_queueing(t, op, "b", op->r.submitted_ns);
	/* The call may be newer than the flight's timestamp. */
	put_queueing(t, op, "e",
	             now > op->r.submitted_ns ? now : op->r.submitted_ns);
}

static void put_op(struct track *t, const struct flight_op *op)
{
	bool failed = op->r.outcome < 0;

	put_arrival(t, op);
	if (op->r.finished_ns)
		put_execution(t, op, op->r.finished_ns);
	else if (op->state != FLIGHT_COMPLETED && !failed)
		put_pending(t, op);
}

static void put_name(struct json *json, int pid, int tid, const char *what,
                     const char *name)
{
	json_line(json);
	json_open(json, NULL, '{');
	json_string(json, "name", what);
	json_string(json, "ph", "M");
	json_int(json, "pid", pid);
	json_int(json, "tid", tid);
	json_open(json, "args", '{');
	json_string(json, "name", name);
	json_close(json, '}');
	json_close(json, '}');
}

static void put_rank(struct json *json, const struct flight *f,
                     const struct flight_rank *r, size_t most)
{
	struct track t = { .json = json, .flight = f, .rank = r };
	char name[64];
	size_t i;

	snprintf(name, sizeof(name), "rank %d (device %d)", r->rank, r->device);
	put_name(json, f->pid, r->rank, "thread_name", name);
	for (i = r->n > most ? r->n - most : 0; i < r->n; i++)
		put_op(&t, &r->ops[i]);
}

void chrome_write(struct json *json, const struct flight *f, size_t most)
{
	int r;

	json_open(json, NULL, '{');
	json_string(json, "displayTimeUnit", "ns");
	json_open(json, "traceEvents", '[');
	put_name(json, f->pid, 0, "process_name", f->group);
	for (r = 0; r < f->size; r++)
		put_rank(json, f, &f->ranks[r], most);
	json_line(json);
	json_close(json, ']');
	json_close(json, '}');
}
