/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort trace: its output, as text and as JSON
 */

#include "cli/trace/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/json.h"
#include "cli/common/cli.h"
#include "core/cause.h"

enum {
	COLUMN = 10,     /* where texts begin */
	CALL_WIDTH = 24, /* width of a call in a table */
	CELL_WIDTH = 10, /* width of a rank's column, if there are few */
	FEW_RANKS = 4,
	MOST_SITES = 12,
};

/* ---- words ------------------------------------------------------------ */

static void print_line(const char *label, const char *text)
{
	printf("%-*s", COLUMN, label);
	cli_print_wrapped(COLUMN, text);
}

struct trace_time trace_time(uint64_t ns)
{
	struct trace_time t;

	if (ns < 1000000)
		snprintf(t.at, sizeof(t.at), "%.1f us", (double)ns / 1e3);
	else if (ns < 1000000000)
		snprintf(t.at, sizeof(t.at), "%.1f ms", (double)ns / 1e6);
	else
		snprintf(t.at, sizeof(t.at), "%.1f s", (double)ns / 1e9);
	return t;
}

struct trace_date trace_date(const struct flight *f)
{
	time_t seconds = (time_t)(f->wall_ns / 1000000000);
	struct trace_date date = { "?" };
	struct tm parts;

	if (localtime_r(&seconds, &parts))
		strftime(date.at, sizeof(date.at), "%Y-%m-%d %H:%M:%S %z",
		         &parts);
	return date;
}

const char *trace_state(const struct flight_op *op)
{
	return !op                                 ? "none"
	       : op->r.outcome == COHORT_TIMED_OUT ? "inside the call"
	       : op->r.outcome < 0                 ? "failed"
	                           : flight_state_name(op->state);
}

/* ---- the head --------------------------------------------------------- */

static void print_head(const struct trace *t)
{
	const struct flight *f = &t->flight;
	char line[512];

	snprintf(line, sizeof(line),
	         "\"%s\", generation %d, %d rank%s; host %s, process %d; "
	         "written at a %s, %s",
	         f->group, f->generation, f->world, f->world == 1 ? "" : "s",
	         f->host, f->pid, f->trigger ? f->trigger : "?",
	         trace_date(f).at);
	print_line("group", line);
}

static void print_verdict(const struct flight *f)
{
	if (f->has_verdict) {
		print_line("verdict", cohort_verdict_text(f->verdict.kind));
		cli_print_block(COLUMN, f->text);
	} else if (f->cause.status != COHORT_OK) {
		print_line("cause", cohort_verdict_text(f->cause.kind));
		print_line("", f->cause.text);
	} else {
		print_line("verdict", "none: the group had not ended");
	}
}

/* A problem has the name of a file in it. */
static void print_problem(const char *label, const char *problem)
{
	char *plain = strdup(problem);

	if (plain)
		cli_plain(plain);
	print_line(label, plain ? plain : "out of memory");
	free(plain);
}

static void print_problems(const struct trace *t)
{
	char line[512] = "no dump of rank ";
	struct text text = { line + strlen(line), sizeof(line) - strlen(line) };
	int i;

	if (!rank_set_is_empty(t->missing)) {
		rank_set_spell(&text, t->missing);
		print_line("missing", line);
	}
	for (i = 0; i < t->n_problems; i++)
		print_problem(i ? "" : "problems", t->problems[i]);
	for (i = 0; i < t->flight.size; i++) {
		if (!t->flight.ranks[i].lost)
			continue;
		snprintf(line, sizeof(line),
		         "rank %d: %" PRIu64
		         " operations before the first here",
		         t->flight.ranks[i].rank, t->flight.ranks[i].lost);
		print_line("lost", line);
	}
}

/* ---- side by side ----------------------------------------------------- */

/* True if @op is another call than @first. */
static bool differs(const struct flight_op *op, const struct flight_op *first)
{
	return op->r.kind != first->r.kind || op->r.type != first->r.type ||
	       op->r.redop != first->r.redop || op->r.root != first->r.root ||
	       op->r.count != first->r.count || op->r.n != first->r.n ||
	       op->r.is_batch != first->r.is_batch;
}

/* The letter of an operation: '#' done, '>' running, '=' queued or in the call,
 * '!' another call or failed, '.' not called, '?' not on record. */
static char letter(const struct flight_rank *r, uint64_t number,
                   const struct flight_op *op, const struct flight_op *first)
{
	if (!op)
		return r->last_enqueued >= number ? '?' : '.';
	if (op->r.outcome < 0 || differs(op, first))
		return '!';
	return op->state == FLIGHT_COMPLETED ? '#'
	       : op->state == FLIGHT_STARTED ? '>'
	                                     : '=';
}

/* Print when a rank came after the first one, and how far it is. */
static void print_cell(const struct flight *f, const struct flight_rank *r,
                       uint64_t number, const struct flight_op *first)
{
	const struct flight_meeting *m = flight_meeting(f, number);
	const struct flight_op *op = trace_find(r, number);
	char mark = letter(r, number, op, first);

	if (f->size > FEW_RANKS)
		putchar(mark);
	else if (op && m)
		printf(" %c%*s", mark, CELL_WIDTH - 1,
		       trace_time(op->r.submitted_ns - m->first_ns).at);
	else
		printf(" %c%*s", mark, CELL_WIDTH - 1, "");
}

static const struct flight_op *first_of(const struct flight *f, uint64_t number)
{
	const struct flight_op *op = NULL;
	int r;

	for (r = 0; r < f->size && !op; r++)
		op = trace_find(&f->ranks[r], number);
	return op;
}

static void print_row(const struct flight *f, uint64_t number, bool is_front)
{
	const struct flight_op *first = first_of(f, number);
	char call[128] = "not on record";
	int r;

	if (first)
		record_add(&(struct text){ call, sizeof(call) }, &first->r);
	printf("%c%-8" PRIu64 " %-*.*s ", is_front ? '>' : ' ', number,
	       CALL_WIDTH, CALL_WIDTH, call);
	for (r = 0; first && r < f->size; r++)
		print_cell(f, &f->ranks[r], number, first);
	putchar('\n');
}

static void print_ranks(const struct flight *f)
{
	char name[32];
	int r;

	printf("\n %-8s %-*s ", "number", CALL_WIDTH, "collective");
	for (r = 0; r < f->size && f->size <= FEW_RANKS; r++) {
		snprintf(name, sizeof(name), "rank %d", f->ranks[r].rank);
		printf(" %*s", CELL_WIDTH, name);
	}
	if (f->size > FEW_RANKS)
		printf("ranks %d to %d", f->ranks[0].rank,
		       f->ranks[f->size - 1].rank);
	putchar('\n');
}

static void print_window(const struct trace *t, const struct trace_window *w)
{
	uint64_t number;

	if (!w->front) {
		printf("\nno collective is on record\n");
		return;
	}
	print_ranks(&t->flight);
	for (number = w->first; number <= w->last; number++)
		print_row(&t->flight, number,
		          w->is_stalled && number == w->front);
	printf(" # done, > running, = queued, . not called, ! another call or "
	       "failed,\n ? not on record%s\n",
	       t->flight.size > FEW_RANKS
	               ? ""
	               : "; times: behind the first rank's call");
}

/* Print a name beside the call, if the line has room for both. */
static void print_name(const char *call, const char *what, const char *name)
{
	if (*name)
		printf("%s %s \"%s\"",
		       strlen(call) + strlen(name) > 38 ? "\n               "
		                                        : ",",
		       what, name);
}

static void print_last(const struct flight *f)
{
	const struct flight_rank *r;
	const struct flight_op *op;
	char call[128];

	printf("\n %-5s %-8s %-16s last call\n", "rank", "thread", "state");
	for (r = f->ranks; r < f->ranks + f->size; r++) {
		op = r->n ? &r->ops[r->n - 1] : NULL;
		call[0] = '\0';
		if (op)
			record_add(&(struct text){ call, sizeof(call) },
			           &op->r);
		printf(" %-5d %-8d %-16s %.46s", r->rank, r->tid,
		       trace_state(op), call);
		print_name(call, "tag", op ? flight_tag(r, op) : "");
		print_name(call, "label", op ? flight_label(r, op) : "");
		printf("\n");
	}
}

/* ---- figures ---------------------------------------------------------- */

static void print_late(const struct trace_figures *figures)
{
	const struct trace_late *l;

	printf("\n %-5s %9s %7s   %s\n", "rank", "came last", "of all",
	       "behind the first: p50, p95, most");
	for (l = figures->late; l < figures->late + figures->n_late; l++) {
		if (l->last)
			printf(" %-5d %9zu %6.1f%%   %s, %s, %s\n", l->rank,
			       l->last, 100.0 * (double)l->last / (double)l->of,
			       trace_time(l->late.p50).at,
			       trace_time(l->late.p95).at,
			       trace_time(l->late.max).at);
		else
			printf(" %-5d %9d %6.1f%%\n", l->rank, 0, 0.0);
	}
}

static void print_spread(const char *name, const struct trace_spread *s)
{
	if (s->n)
		printf("   %-24s %10s %10s %10s\n", name, trace_time(s->p50).at,
		       trace_time(s->p95).at, trace_time(s->max).at);
}

static void print_site(const struct trace_site *s)
{
	char call[128];

	record_add(&(struct text){ call, sizeof(call) }, &s->record);
	printf("\n %s%s%s%s%s%s%s, %zu call%s\n", call,
	       *s->tag ? ", tag \"" : "", s->tag, *s->tag ? "\"" : "",
	       *s->label ? ", label \"" : "", s->label, *s->label ? "\"" : "",
	       s->calls, s->calls == 1 ? "" : "s");
	print_spread("behind others (queueing)", &s->queueing);
	print_spread("for the last rank", &s->waiting);
	print_spread("execution", &s->execution);
	print_spread("idle before the call", &s->between);
	if (s->bounded)
		printf("   without the execution of %zu, whose end nobody "
		       "observed\n",
		       s->bounded);
}

static void print_sites(const struct trace_figures *figures)
{
	size_t i;

	if (figures->n_sites)
		printf("\n %-26s %10s %10s %10s\n", "time of a call", "p50",
		       "p95", "most");
	for (i = 0; i < figures->n_sites && i < MOST_SITES; i++)
		print_site(&figures->sites[i]);
	if (figures->n_sites > MOST_SITES)
		printf("\n and %zu more kinds of calls, which took less: "
		       "--json\n",
		       figures->n_sites - MOST_SITES);
}

void trace_print(const struct trace *t, const struct trace_figures *figures)
{
	print_head(t);
	print_verdict(&t->flight);
	print_problems(t);
	print_window(t, &figures->window);
	print_last(&t->flight);
	trace_stacks_print(t);
	if (t->flight.size > 1)
		print_late(figures);
	print_sites(figures);
}

/* ---- JSON ------------------------------------------------------------- */

static void put_verdict(struct json *j, const struct flight *f)
{
	if (!f->has_verdict && f->cause.status == COHORT_OK) {
		json_null(j, "verdict");
		return;
	}
	json_open(j, "verdict", '{');
	json_string(j, "kind",
	            cohort_verdict_text(f->has_verdict ? f->verdict.kind
	                                               : f->cause.kind));
	json_int(j, "rank", f->has_verdict ? f->verdict.rank : f->cause.rank);
	flight_put_set(j, "joined", f->verdict.joined);
	flight_put_set(j, "missing", f->verdict.missing);
	json_string(j, "text", f->has_verdict ? f->text : f->cause.text);
	json_close(j, '}');
}

static void put_row(struct json *j, const struct flight *f, uint64_t number)
{
	const struct flight_meeting *m = flight_meeting(f, number);
	const struct flight_op *op;
	int r;

	json_open(j, NULL, '{');
	json_uint(j, "collective", number);
	json_open(j, "ranks", '[');
	for (r = 0; r < f->size; r++) {
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

static void put_rank(struct json *j, const struct flight_rank *r,
                     const struct trace_late *late)
{
	json_open(j, NULL, '{');
	json_int(j, "rank", r->rank);
	json_uint(j, "operations", r->n);
	json_uint(j, "lost", r->lost);
	json_uint(j, "came_last", late->last);
	json_uint(j, "of", late->of);
	put_spread(j, "late_ns", &late->late);
	json_close(j, '}');
}

static void put_site(struct json *j, const struct trace_site *s)
{
	json_open(j, NULL, '{');
	json_string(j, "call", s->call);
	json_string(j, "dtype", type_name(s->record.type));
	json_uint(j, "count", s->record.count);
	json_uint(j, "tensors", s->record.n);
	json_string(j, "tag", s->tag);
	json_string(j, "label", s->label);
	json_uint(j, "calls", s->calls);
	json_uint(j, "finished_at_most", s->bounded);
	put_spread(j, "queueing_ns", &s->queueing);
	put_spread(j, "waiting_ns", &s->waiting);
	put_spread(j, "execution_ns", &s->execution);
	put_spread(j, "between_ns", &s->between);
	json_close(j, '}');
}

static void put_window(struct json *j, const struct trace *t,
                       const struct trace_window *w)
{
	uint64_t number;

	json_uint(j, "stalled_at", w->is_stalled ? w->front : 0);
	json_open(j, "window", '[');
	for (number = w->first; number && number <= w->last; number++)
		put_row(j, &t->flight, number);
	json_close(j, ']');
}

void trace_json(struct json *j, const struct trace *t,
                const struct trace_figures *figures)
{
	const struct flight *f = &t->flight;
	size_t i;
	int r;

	json_open(j, NULL, '{');
	json_string(j, "group", f->group);
	json_int(j, "generation", f->generation);
	json_int(j, "world", f->world);
	put_verdict(j, f);
	flight_put_set(j, "missing_ranks", t->missing);
	json_open(j, "problems", '[');
	for (r = 0; r < t->n_problems; r++)
		json_string(j, NULL, t->problems[r]);
	json_close(j, ']');
	put_window(j, t, &figures->window);
	trace_stacks_json(j, t);
	json_open(j, "ranks", '[');
	for (r = 0; r < f->size; r++)
		put_rank(j, &f->ranks[r], &figures->late[r]);
	json_close(j, ']');
	json_open(j, "sites", '[');
	for (i = 0; i < figures->n_sites; i++)
		put_site(j, &figures->sites[i]);
	json_close(j, ']');
	json_close(j, '}');
}
