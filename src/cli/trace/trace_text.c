/* SPDX-License-Identifier: Apache-2.0 */

/* Writes the text of cohort trace */

#include "cli/trace/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "cli/common/cli.h"
#include "core/cause.h"

enum {
	COLUMN = 10,     /* column where texts start */
	CALL_WIDTH = 24, /* smallest width of the column of calls */
	CELL_WIDTH = 10, /* width of a rank's column with times */
	MOST_SITES = 12,
};

struct table {
	const struct trace_window *window;
	int call_width;
	/* a rank's cell has a time; otherwise it has one character */
	bool has_times;
};

static void print_line(const char *label, const char *text)
{
	printf("%-*s", COLUMN, label);
	cli_print_wrapped(COLUMN, text);
}

struct trace_text trace_time(uint64_t ns)
{
	struct trace_text t;

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

struct trace_text trace_date(const struct flight *f)
{
	time_t seconds = (time_t)(f->wall_ns / 1000000000);
	struct trace_text date = { "?" };
	struct tm parts;

	if (localtime_r(&seconds, &parts))
		strftime(date.at, sizeof(date.at), "%Y-%m-%d %H:%M:%S %z",
		         &parts);
	return date;
}

struct trace_text trace_words(const struct flight_op *op)
{
	struct trace_text words = { "" };

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

static void print_head(const struct trace *t)
{
	const struct flight *f = &t->flight;
	char line[1024];

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
		print_line("verdict",
		           "none: the group had not ended when the dump was "
		           "written");
		return;
	}
	print_line(is_verdict ? "verdict" : "cause", m->verdict);
	if (is_verdict)
		cli_print_block(stdout, COLUMN, m->text);
	else
		print_line("", m->text);
}

static void print_problems(const struct trace *t)
{
	char line[512] = "no dump of rank ", *plain;
	struct text text = { line + strlen(line), sizeof(line) - strlen(line) };

	if (!rank_set_is_empty(t->missing)) {
		rank_set_format(&text, t->missing);
		print_line("missing", line);
	}
	for (int i = 0; i < t->n_problems; i++) {
		/* Sanitize the text, because it contains the name of a file. */
		plain = cli_need(strdup(t->problems[i]));
		cli_sanitize(plain);
		print_line(i ? "" : "problems", plain);
		free(plain);
	}
	for (int i = 0; i < t->flight.size; i++) {
		if (!t->flight.ranks[i].lost)
			continue;
		snprintf(line, sizeof(line),
		         "rank %d: %" PRIu64
		         " operations before the first one here",
		         t->flight.ranks[i].rank, t->flight.ranks[i].lost);
		print_line("lost", line);
	}
}

/* Return whether @op is a different call than @first. */
static bool differs(const struct flight_op *op, const struct flight_op *first)
{
	return op->r.kind != first->r.kind || op->r.type != first->r.type ||
	       op->r.redop != first->r.redop || op->r.root != first->r.root ||
	       op->r.count != first->r.count || op->r.n != first->r.n ||
	       op->r.is_batch != first->r.is_batch;
}

/* Return the mark of an operation: '#' done, '>' running, '=' queued or inside
 * the call, '!' failed or a different call, '.' not called, '?' not
 * recorded. */
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

/* Print each rank's mark, and how long after the first rank it called. */
static void print_row(const struct table *t, const struct flight *f,
                      uint64_t number)
{
	const bool is_front =
		t->window->is_stalled && number == t->window->front;
	const struct flight_op *first = trace_first(f, number), *op;
	const struct flight_meeting *m = flight_meeting(f, number);
	const struct flight_rank *r = f->ranks;

	printf("%c%-8" PRIu64 " %-*.*s ", is_front ? '>' : ' ', number,
	       t->call_width, t->call_width,
	       first ? trace_words(first).at : "not on record");
	for (; first && r < f->ranks + f->size; r++) {
		op = trace_find(r, number);
		if (t->has_times)
			putchar(' ');
		putchar(letter(r, number, op, first));
		if (t->has_times)
			printf("%*s", CELL_WIDTH - 1,
			       op && m ? trace_time(op->r.submitted_ns -
			                            m->first_ns)
			                         .at
			               : "");
	}
	putchar('\n');
}

static void print_heads(const struct table *t, const struct flight *f)
{
	char name[32];

	printf("\n %-8s %-*s ", "number", t->call_width, "collective");
	for (int r = 0; r < f->size && t->has_times; r++) {
		snprintf(name, sizeof(name), "rank %d", f->ranks[r].rank);
		printf(" %*s", CELL_WIDTH, name);
	}
	if (!t->has_times)
		printf("ranks %d to %d", f->ranks[0].rank,
		       f->ranks[f->size - 1].rank);
	putchar('\n');
}

/* Choose a layout that fits the terminal. Show times if there are few ranks.
 * The call gets the remaining width. */
static struct table lay_out(const struct flight *f,
                            const struct trace_window *w)
{
	enum { NUMBER = 10, RANKS = 18 }; /* room for "ranks 1022 to 1023" */
	const int room = cli_columns(STDOUT_FILENO) - NUMBER - 1;
	const int times = f->size * (CELL_WIDTH + 1);
	struct table t = { .window = w };
	int longest = CALL_WIDTH;

	t.has_times = CALL_WIDTH + times <= room;
	for (uint64_t number = w->first; number <= w->last; number++)
		longest = MAX(
			longest,
			(int)strlen(trace_words(trace_first(f, number)).at));
	t.call_width = room - (t.has_times ? times : MAX(f->size, RANKS));
	t.call_width = MAX(CALL_WIDTH, MIN(t.call_width, longest));
	return t;
}

static void print_window(const struct flight *f, const struct trace_window *w)
{
	const struct table t = lay_out(f, w);

	if (!w->front) {
		printf("\nno collective is on record\n");
		return;
	}
	print_heads(&t, f);
	for (uint64_t number = w->first; number <= w->last; number++)
		print_row(&t, f, number);
	printf(" # done, > running, = queued, . not called, ! different call "
	       "or "
	       "failed,\n ? not on record%s\n",
	       t.has_times ? "; times: after the first rank's call" : "");
}

/* Print a name beside the call, or below it if the line is too short. */
static void print_name(const char *call, const char *what, const char *name,
                       int room)
{
	enum { PUNCTUATION = 9 };
	const bool fits =
		(int)(strlen(call) + strlen(name)) + PUNCTUATION <= room;

	if (*name)
		printf("%s %s \"%s\"", fits ? "," : "\n               ", what,
		       name);
}

static void print_last(const struct trace_model *m)
{
	enum { BEFORE = 33 };
	const int room = cli_columns(STDOUT_FILENO) - BEFORE;
	const struct flight_rank *r = m->flight->ranks;
	const struct trace_call *c;
	struct trace_text call;

	printf("\n %-5s %-8s %-16s last call\n", "rank", "thread", "state");
	for (int i = 0; i < m->flight->size; i++, r++) {
		c = m->ranks[i].newest;
		call = trace_words(c ? c->op : NULL);
		printf(" %-5d %-8d %-16s %.*s", r->rank, r->tid,
		       trace_state(c ? c->op : NULL), room, call.at);
		print_name(call.at, "tag", c ? c->tag : "", room);
		print_name(call.at, "label", c ? c->label : "", room);
		printf("\n");
	}
}

static bool is_unnamed(const struct trace_frame *f)
{
	return !*f->function && *f->path == '/';
}

/* Print the command that names the frames in the file of frame @i, if @i is the
 * first frame in that file. */
static void print_command(const struct trace_stack *s, int i)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
				    "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789/._-+=:,@";
	const struct trace_frame *f = &s->frames[i];
	int k;

	for (k = 0; k < i; k++)
		if (is_unnamed(&s->frames[k]) &&
		    strcmp(s->frames[k].path, f->path) == 0)
			return;
	printf("   addr2line -e ");
	if (f->path[strspn(f->path, plain)])
		cli_put_quoted(stdout, f->path);
	else
		printf("%s", f->path);
	printf(" -f -C");
	for (; k < s->n; k++)
		if (is_unnamed(&s->frames[k]) &&
		    strcmp(s->frames[k].path, f->path) == 0)
			printf(" 0x%" PRIx64, s->frames[k].offset);
	printf("\n");
	if (f->is_other_build)
		printf("     (with the file of build ID %s: this file is of "
		       "another build)\n",
		       *f->build_id ? f->build_id : "\"\"");
}

static void print_frame(const struct trace_frame *f)
{
	if (*f->function)
		printf("   %s\n", f->function);
	else if (*f->path)
		printf("   %s+0x%" PRIx64 "\n", basename(f->path), f->offset);
	else
		printf("   0x%" PRIx64 "\n", f->offset);
}

static void print_stack(const struct trace_stack *s)
{
	if (s->rank >= 0)
		printf("\n stack of rank %d, thread %d \"%s\"", s->rank, s->tid,
		       s->thread);
	else
		printf("\n stack of thread %d \"%s\"", s->tid, s->thread);
	printf("%s%s%s\n", *s->state ? ", " : "", s->state,
	       s->holds_python ? "; it holds Python's interpreter lock" : "");
	if (!s->n)
		printf("   %s\n", s->text);
	for (int i = 0; i < s->n; i++)
		print_frame(&s->frames[i]);
	for (int i = 0; i < s->n; i++)
		if (is_unnamed(&s->frames[i]))
			print_command(s, i);
}

static void print_late(const struct trace_model *m)
{
	const struct trace_rank *r = m->ranks;

	printf("\n %-5s %9s %7s   %s\n", "rank", "came last", "of all",
	       "behind the first: p50, p95, max");
	for (int i = 0; i < m->flight->size; i++, r++) {
		printf(" %-5d %9zu %6.1f%%", m->flight->ranks[i].rank, r->last,
		       trace_share(r));
		if (r->last)
			printf("   %s, %s, %s", trace_time(r->late.p50).at,
			       trace_time(r->late.p95).at,
			       trace_time(r->late.max).at);
		printf("\n");
	}
}

static void print_site(const struct trace_site *s)
{
	static const char *const names[TRACE_TIMES] = {
		"queued behind others", "waiting for the last rank",
		"execution", "idle before the call"
	};

	printf("\n %s%s%s%s%s%s%s, %zu call%s\n", trace_words(s->op).at,
	       *s->tag ? ", tag \"" : "", s->tag, *s->tag ? "\"" : "",
	       *s->label ? ", label \"" : "", s->label, *s->label ? "\"" : "",
	       s->calls, s->calls == 1 ? "" : "s");
	for (int t = 0; t < TRACE_TIMES; t++)
		if (s->times[t].n)
			printf("   %-25s %10s %10s %10s\n", names[t],
			       trace_time(s->times[t].p50).at,
			       trace_time(s->times[t].p95).at,
			       trace_time(s->times[t].max).at);
	if (s->bounded)
		printf("   execution leaves out %zu call%s whose end was not "
		       "observed\n",
		       s->bounded, s->bounded == 1 ? "" : "s");
}

static void print_sites(const struct trace_model *m)
{
	if (m->n_sites)
		printf("\n %-27s %10s %10s %10s\n", "time of a call", "p50",
		       "p95", "max");
	for (size_t i = 0; i < m->n_sites && i < MOST_SITES; i++)
		print_site(&m->sites[i]);
	if (m->n_sites > MOST_SITES)
		printf("\n and %zu more kinds of calls, which took less time: "
		       "see --json\n",
		       m->n_sites - MOST_SITES);
}

void trace_print(const struct trace_model *m)
{
	const struct trace *t = m->trace;

	print_head(t);
	print_verdict(m);
	print_problems(t);
	print_window(m->flight, &m->window);
	print_last(m);
	for (int i = 0; i < t->stacks.n; i++)
		print_stack(&t->stacks.at[i]);
	if (m->flight->size > 1)
		print_late(m);
	print_sites(m);
}
