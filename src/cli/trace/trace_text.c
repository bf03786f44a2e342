/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The writer of text
 */

#include "cli/trace/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

double trace_share(const struct trace_rank *r)
{
	return r->of ? 100.0 * (double)r->last / (double)r->of : 0;
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

struct trace_words trace_words(const struct flight_op *op)
{
	struct trace_words words = { "" };

	if (op)
		record_add(&(struct text){ words.at, sizeof(words.at) },
		           &op->r);
	return words;
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

static void print_verdict(const struct trace_model *m)
{
	const bool is_verdict = m->flight->has_verdict;

	if (!m->verdict) {
		print_line("verdict", "none: the group had not ended");
		return;
	}
	print_line(is_verdict ? "verdict" : "cause", m->verdict);
	if (is_verdict)
		cli_print_block(COLUMN, m->text);
	else
		print_line("", m->text);
}

/* A problem has the name of a file in it. */
static void print_problem(const char *label, const char *problem)
{
	char *plain = trace_need(strdup(problem));

	cli_plain(plain);
	print_line(label, plain);
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

static void print_row(const struct flight *f, uint64_t number, bool is_front)
{
	const struct flight_op *first = trace_first(f, number);
	int r;

	printf("%c%-8" PRIu64 " %-*.*s ", is_front ? '>' : ' ', number,
	       CALL_WIDTH, CALL_WIDTH,
	       first ? trace_words(first).at : "not on record");
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

static void print_last(const struct trace_model *m)
{
	const struct flight_rank *r = m->flight->ranks;
	const struct trace_call *c;
	struct trace_words call;
	int i;

	printf("\n %-5s %-8s %-16s last call\n", "rank", "thread", "state");
	for (i = 0; i < m->flight->size; i++, r++) {
		c = m->ranks[i].newest;
		call = trace_words(c ? c->op : NULL);
		printf(" %-5d %-8d %-16s %.46s", r->rank, r->tid,
		       trace_state(c ? c->op : NULL), call.at);
		print_name(call.at, "tag", c ? c->tag : "");
		print_name(call.at, "label", c ? c->label : "");
		printf("\n");
	}
}

/* ---- stacks ----------------------------------------------------------- */

/* Print a path as one word of a shell. */
static void print_path(const char *path)
{
	const char *plain = "abcdefghijklmnopqrstuvwxyz"
			    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:,@";

	if (path[strspn(path, plain)])
		cli_put_quoted(stdout, path);
	else
		printf("%s", path);
}

static bool is_unnamed(const struct trace_frame *f)
{
	return !*f->function && *f->path == '/';
}

/* Print the command that names the frames in the same file as frame @i, if that
 * is the first of them. */
static void print_command(const struct trace_stack *s, int i)
{
	const struct trace_frame *f = &s->frames[i];
	int k;

	for (k = 0; k < i; k++)
		if (is_unnamed(&s->frames[k]) &&
		    strcmp(s->frames[k].path, f->path) == 0)
			return;
	printf("   addr2line -e ");
	print_path(f->path);
	printf(" -f -C");
	for (; k < s->n; k++)
		if (is_unnamed(&s->frames[k]) &&
		    strcmp(s->frames[k].path, f->path) == 0)
			printf(" 0x%" PRIx64, s->frames[k].offset);
	printf("\n");
	if (f->is_other_build)
		printf("     (with the file of build ID %s: this one is "
		       "another)\n",
		       *f->build_id ? f->build_id : "\"\"");
}

static void print_frame(const struct trace_frame *f)
{
	const char *slash = strrchr(f->path, '/');

	if (*f->function)
		printf("   %s\n", f->function);
	else if (*f->path)
		printf("   %s+0x%" PRIx64 "\n", slash ? slash + 1 : f->path,
		       f->offset);
	else
		printf("   0x%" PRIx64 "\n", f->offset);
}

static void print_stack(const struct trace_stack *s)
{
	int i;

	if (s->rank >= 0)
		printf("\n stack of rank %d, thread %d \"%s\"", s->rank, s->tid,
		       s->thread);
	else
		printf("\n stack of thread %d \"%s\"", s->tid, s->thread);
	printf("%s%s%s\n", *s->state ? ", " : "", s->state,
	       s->holds_python ? "; it holds Python's interpreter lock" : "");
	if (!s->n)
		printf("   %s\n", s->text);
	for (i = 0; i < s->n; i++)
		print_frame(&s->frames[i]);
	for (i = 0; i < s->n; i++)
		if (is_unnamed(&s->frames[i]))
			print_command(s, i);
}

/* ---- figures ---------------------------------------------------------- */

static void print_late(const struct trace_model *m)
{
	const struct trace_rank *r = m->ranks;
	int i;

	printf("\n %-5s %9s %7s   %s\n", "rank", "came last", "of all",
	       "behind the first: p50, p95, most");
	for (i = 0; i < m->flight->size; i++, r++) {
		printf(" %-5d %9zu %6.1f%%", m->flight->ranks[i].rank, r->last,
		       trace_share(r));
		if (r->last)
			printf("   %s, %s, %s", trace_time(r->late.p50).at,
			       trace_time(r->late.p95).at,
			       trace_time(r->late.max).at);
		printf("\n");
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
	static const char *const names[TRACE_TIMES] = {
		"behind others (queueing)", "for the last rank", "execution",
		"idle before the call"
	};
	int t;

	printf("\n %s%s%s%s%s%s%s, %zu call%s\n", trace_words(s->op).at,
	       *s->tag ? ", tag \"" : "", s->tag, *s->tag ? "\"" : "",
	       *s->label ? ", label \"" : "", s->label, *s->label ? "\"" : "",
	       s->calls, s->calls == 1 ? "" : "s");
	for (t = 0; t < TRACE_TIMES; t++)
		print_spread(names[t], &s->times[t]);
	if (s->bounded)
		printf("   without the execution of %zu, whose end nobody "
		       "observed\n",
		       s->bounded);
}

static void print_sites(const struct trace_model *m)
{
	size_t i;

	if (m->n_sites)
		printf("\n %-26s %10s %10s %10s\n", "time of a call", "p50",
		       "p95", "most");
	for (i = 0; i < m->n_sites && i < MOST_SITES; i++)
		print_site(&m->sites[i]);
	if (m->n_sites > MOST_SITES)
		printf("\n and %zu more kinds of calls, which took less: "
		       "--json\n",
		       m->n_sites - MOST_SITES);
}

void trace_print(const struct trace_model *m)
{
	const struct trace *t = m->trace;
	int i;

	print_head(t);
	print_verdict(m);
	print_problems(t);
	print_window(t, &m->window);
	print_last(m);
	for (i = 0; i < t->stacks.n; i++)
		print_stack(&t->stacks.at[i]);
	if (m->flight->size > 1)
		print_late(m);
	print_sites(m);
}
