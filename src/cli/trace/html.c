/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Writes the page of cohort trace --html
 *
 * The folder page/ contains the template, its style and the parts of its
 * script. All text of a dump is untrusted. This file escapes text in markup.
 * trace_json.c writes the data without any '<', which could end the script
 * element.
 */

#include "cli/trace/trace.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/util.h"
#include "cli/common/cli.h"

/* Defined in page_data.S. */
extern const char page_html[] __attribute__((visibility("hidden")));
extern const char page_css[] __attribute__((visibility("hidden")));
extern const char page_js[] __attribute__((visibility("hidden")));

/* The rows of a verdict's text start with labels of this width. */
enum { ROW_LABEL = 7 };

/* A row of the verdict, such as "why it is busy in the program" */
struct row {
	char label[ROW_LABEL + 1];
	/* its label, or the label of the row that it continues */
	char of[ROW_LABEL + 1];
	char *text;
};

struct page {
	FILE *out;
	const struct trace_model *model;
	const struct flight *flight;
	/* The rows of the verdict's text, or NULL if there are none, and the
	 * text of the first row, without the parts that the page shows above
	 * it */
	struct row *rows;
	int n_rows;
	char *headline;
	/* stack of the rank to blame, or NULL */
	const struct trace_stack *stack;

	/* A number that no dump can contain, so that the browser runs only the
	 * page's own script */
	char nonce[33];
};

static void raw(struct page *p, const char *markup)
{
	fputs(markup, p->out);
}

/* Write a text of the dump, escaped. */
static void escape(struct page *p, const char *text)
{
	int n;

	for (; *text; text += n ? n : 1) {
		n = text_character(text);
		if (*text == '\n') /* line feed between the rows of a verdict */
			raw(p, "\n");
		else if (!n || (unsigned char)*text < ' ' || *text == 0x7f)
			raw(p, TEXT_NO_CHARACTER);
		else if (strchr("&<>\"'", *text))
			fprintf(p->out, "&#%d;", *text);
		else
			fwrite(text, 1, (size_t)n, p->out);
	}
}

/* Write markup. In @markup, %s stands for a text, which is escaped, and %d for
 * a number. */
__attribute__((format(printf, 2, 3))) static void put(struct page *p,
                                                      const char *markup, ...)
{
	va_list args;

	va_start(args, markup);
	for (; *markup; markup++) {
		if (*markup != '%')
			putc(*markup, p->out);
		else if (*++markup == 's')
			escape(p, va_arg(args, const char *));
		else
			fprintf(p->out, "%d", va_arg(args, int));
	}
	va_end(args);
}

static struct trace_text count_of(uint64_t count)
{
	struct trace_text words;

	snprintf(words.at, sizeof(words.at), "%" PRIu64, count);
	return words;
}

static struct trace_text bytes_of(uint64_t bytes)
{
	static const char *const units[] = { "B",   "KiB", "MiB", "GiB",
		                             "TiB", "PiB", "EiB" };
	double value = (double)bytes;
	struct trace_text words;
	int unit = 0;

	for (; value >= 1024; unit++)
		value /= 1024;
	snprintf(words.at, sizeof(words.at), "%.*f %s",
	         unit && value < 100 ? 1 : 0, value, units[unit]);
	return words;
}

static struct trace_text set_of(const uint64_t *set)
{
	struct trace_text words = { "" };

	rank_set_format(&(struct text){ words.at, sizeof(words.at) }, set);
	return words;
}

/* Write a cell that shows @number as @text. The script sorts by the number. */
static void put_number(struct page *p, uint64_t number, const char *text)
{
	put(p, "<td data-key=\"%s\">%s</td>", count_of(number).at, text);
}

static void put_time(struct page *p, uint64_t ns)
{
	put_number(p, ns, trace_time(ns).at);
}

static void put_count(struct page *p, uint64_t count)
{
	put_number(p, count, count_of(count).at);
}

/* Write a call: its name, its number if it is a collective, and its
 * arguments. */
static void put_words(struct page *p, const struct flight_op *op)
{
	const char *name = record_name(&op->r);

	put(p, "<span class=\"call\">%s%s%s</span>", name,
	    op->number ? " " : "", op->number ? count_of(op->number).at : "");
	put(p, "<span class=\"aside\">%s</span>",
	    trace_words(op).at + strlen(name));
}

static void split_rows(struct page *p)
{
	const char *at = p->model->verdict ? p->model->text : "", *end;
	struct row *row;
	size_t n;

	if (!cli_starts_with(at, "HANG   "))
		return;
	for (; *at; at = end + (*end == '\n')) {
		end = strchrnul(at, '\n');
		n = MIN((size_t)(end - at), (size_t)ROW_LABEL);
		p->rows = cli_need(realloc(p->rows, (size_t)(p->n_rows + 1) *
		                                            sizeof(*row)));
		row = &p->rows[p->n_rows++];
		snprintf(row->label, sizeof(row->label), "%.*s", (int)n, at);
		row->label[strcspn(row->label, " ")] = '\0';
		memcpy(row->of, *row->label ? row->label : row[-1].of,
		       sizeof(row->of));
		at += n;
		row->text = cli_need(strndup(at, (size_t)(end - at)));
	}
}

static void cut(char *text, const char *end)
{
	if (cli_ends_with(text, end))
		text[strlen(text) - strlen(end)] = '\0';
}

/* Drop the group and the generation from the headline, because the page shows
 * them above it. */
static void cut_headline(struct page *p)
{
	char end[sizeof(p->flight->group) + 32];

	p->headline = p->rows->text;
	snprintf(end, sizeof(end), " (generation %d)", p->flight->generation);
	cut(p->headline, end);
	snprintf(end, sizeof(end), " of \"%s\"", p->flight->group);
	cut(p->headline, end);
}

/* Write the headline of the verdict. If there is none, write the kind of the
 * verdict and the rank to blame. */
static void put_headline(struct page *p)
{
	const struct trace_model *m = p->model;

	if (p->headline)
		put(p, "%s", p->headline);
	else if (m->verdict && m->culprit >= 0)
		put(p, "rank %d: %s", m->culprit, m->verdict);
	else
		put(p, "%s", m->verdict ? m->verdict : "no verdict");
}

static void put_nonce(struct page *p)
{
	raw(p, p->nonce);
}

static void put_style(struct page *p)
{
	raw(p, page_css);
	/* The style contains the number of ranks, so that the height of the
	 * timeline is known before the script runs. */
	put(p, ":root { --ranks: %d; }\n", p->flight->size);
}

static void put_script(struct page *p)
{
	raw(p, page_js);
}

static void put_title(struct page *p)
{
	put_headline(p);
	put(p, ", group \"%s\"", p->flight->group);
}

static void put_head(struct page *p)
{
	const struct flight *f = p->flight;

	put(p,
	    "<span>group <b>%s</b></span> <span>generation %d</span> "
	    "<span>%d rank%s</span> <span>host %s</span> "
	    "<span>process %d</span> <span>written at a %s, %s</span>",
	    f->group, f->generation, f->world, f->world == 1 ? "" : "s",
	    f->host, f->pid, f->trigger ? f->trigger : "?", trace_date(f).at);
}

static void put_fact(struct page *p, const char *name, const char *text)
{
	put(p, "<dt>%s</dt><dd>%s</dd>\n", name, text);
}

static void put_call(struct page *p)
{
	const struct trace_model *m = p->model;
	const uint64_t front = m->window.front;
	const struct flight_op *op = trace_first(p->flight, front);

	put(p, "<dt>%s</dt><dd>",
	    m->verdict             ? "call"
	    : m->window.is_stalled ? "first collective that is not done"
	                           : "last collective");
	if (op)
		put_words(p, op);
	else if (front)
		put(p, "collective %s, not on record", count_of(front).at);
	else
		raw(p, "none on record");
	raw(p, "</dd>\n");
}

/* Return whether the page shows the contents of a row elsewhere: in the
 * headline, the stack or the facts. */
static bool is_elsewhere(const struct page *p, const char *label)
{
	const bool has_sets = !rank_set_is_empty(p->flight->verdict.joined);

	return strcmp(label, "HANG") == 0 ||
	       (p->stack && strcmp(label, "where") == 0) ||
	       (has_sets && strcmp(label, "wait") == 0);
}

static void put_facts(struct page *p)
{
	const struct cohort_verdict *v = &p->flight->verdict;

	raw(p, "<dl>\n");
	if (p->headline)
		put_fact(p, "verdict", p->model->verdict);
	put_call(p);
	if (!rank_set_is_empty(v->joined) || !rank_set_is_empty(v->missing)) {
		put_fact(p, "missing", set_of(v->missing).at);
		put_fact(p, "have called", set_of(v->joined).at);
	}
	for (const struct row *r = p->rows; r < p->rows + p->n_rows; r++)
		if (!is_elsewhere(p, r->of))
			put_fact(p, r->label, r->text);
	raw(p, "</dl>\n");
}

static bool are_named(const struct trace_stack *s)
{
	int i = 0;

	while (i < s->n && *s->frames[i].function)
		i++;
	return i == s->n;
}

/* Write the stack. If this machine has the files of all frames, write all
 * frames. Otherwise write only the frames in the verdict's text. */
static void put_stack(struct page *p)
{
	const struct trace_stack *s = p->stack;

	put(p, "<div>\n<h2>Stack of thread %d &quot;%s&quot;, %s</h2>\n<ol>\n",
	    s->tid, s->thread, s->state);
	for (int i = 0; i < s->n && are_named(s); i++)
		put(p, "<li>%s</li>\n", s->frames[i].function);
	for (const struct row *r = p->rows; r < p->rows + p->n_rows; r++)
		if (!are_named(s) && strcmp(r->of, "where") == 0)
			put(p, "<li>%s</li>\n", r->text);
	raw(p, "</ol>\n</div>\n");
}

static void put_verdict(struct page *p)
{
	const struct trace_model *m = p->model;

	put(p, "<h1 class=\"%s\">", m->verdict ? "bad" : "none");
	put_headline(p);
	raw(p, "</h1>\n");
	for (const struct row *r = p->rows; r < p->rows + p->n_rows; r++)
		if (p->stack && strcmp(r->label, "where") == 0)
			put(p, "<p class=\"place\">at %s</p>\n", r->text);
	raw(p, "<div class=\"facts\">\n");
	put_facts(p);
	if (p->stack)
		put_stack(p);
	raw(p, "</div>\n");
	if (!p->headline)
		put(p, "<p class=\"cause\">%s</p>\n",
		    m->verdict ? m->text
		               : "The group had not ended when the dump was "
		                 "written.");
}

static void put_problems(struct page *p)
{
	const struct trace *t = p->model->trace;
	bool is_lost = false;

	for (int i = 0; i < p->flight->size; i++)
		is_lost = is_lost || p->flight->ranks[i].lost;
	if (!is_lost && !t->n_problems && rank_set_is_empty(t->missing))
		return;
	put(p, "<section class=\"problems\" aria-label=\"What is missing from "
	       "the dump\">\n<ul>\n");
	if (!rank_set_is_empty(t->missing))
		put(p, "<li>no dump of rank %s</li>\n", set_of(t->missing).at);
	for (int i = 0; i < t->n_problems; i++)
		put(p, "<li>%s</li>\n", t->problems[i]);
	if (is_lost)
		put(p, "<li>The recorder keeps the newest operations: older "
		       "ones are lost, as the table of ranks says</li>\n");
	put(p, "</ul>\n</section>\n");
}

/* Return whether two ranks can share a row of the table of last calls. */
static bool is_alike(const struct trace_model *m, int a, int b)
{
	const struct trace_call *x = m->ranks[a].newest;
	const struct trace_call *y = m->ranks[b].newest;

	if ((m->flight->ranks[a].rank == m->culprit) !=
	    (m->flight->ranks[b].rank == m->culprit))
		return false;
	return !x || !y ? x == y
	                : x->kind == y->kind && x->op->number == y->op->number;
}

/* Start the row of a rank. Highlight the rank to blame. */
static void open_row(struct page *p, int rank)
{
	raw(p, rank == p->model->culprit ? "<tr class=\"culprit\">" : "<tr>");
}

/* Write the cells for a rank's newest call. @ago is the time from the call to
 * the dump. */
static void put_newest(struct page *p, const struct trace_call *c,
                       const char *ago)
{
	const struct flight_op *op = c ? c->op : NULL;

	put(p, "<td>%s</td><td>", trace_state(op));
	if (op)
		put_words(p, op);
	put(p, "</td><td>");
	if (c)
		put(p, "%s%s%s", c->tag, *c->tag && *c->label ? ", " : "",
		    c->label);
	put(p, "</td><td class=\"ago\">%s</td></tr>\n",
	    op && p->flight->now_ns ? ago : "");
}

/* Write one row for rank @i and all later ranks whose rows would be equal. Add
 * these ranks to @done. */
static void put_last_row(struct page *p, int i, uint64_t *done)
{
	const struct flight *f = p->flight;
	uint64_t set[COHORT_RANK_WORDS] = { 0 }, ns;
	uint64_t least_ns = UINT64_MAX, most_ns = 0;
	const struct trace_call *c;
	struct trace_text ago;

	for (int k = i; k < f->size; k++) {
		if (rank_set_has(done, f->ranks[k].rank) ||
		    !is_alike(p->model, i, k))
			continue;
		rank_set_add(done, f->ranks[k].rank);
		rank_set_add(set, f->ranks[k].rank);
		c = p->model->ranks[k].newest;
		ns = c ? c->op->r.submitted_ns : 0;
		ns = f->now_ns > ns ? f->now_ns - ns : 0;
		least_ns = MIN(ns, least_ns);
		most_ns = MAX(ns, most_ns);
	}
	open_row(p, f->ranks[i].rank);
	put(p, "<th scope=\"row\">%s</th>", set_of(set).at);
	ago = trace_time(least_ns);
	if (strcmp(ago.at, trace_time(most_ns).at) != 0)
		text_append(ago.at, sizeof(ago.at), " to %s",
		            trace_time(most_ns).at);
	put_newest(p, p->model->ranks[i].newest, ago.at);
}

static void put_last(struct page *p)
{
	uint64_t done[COHORT_RANK_WORDS] = { 0 };

	for (int i = 0; i < p->flight->size; i++)
		if (!rank_set_has(done, p->flight->ranks[i].rank))
			put_last_row(p, i, done);
}

static void put_rank(struct page *p, const struct flight_rank *r,
                     const struct trace_rank *sums)
{
	char share[32];

	open_row(p, r->rank);
	put(p,
	    "<th scope=\"row\" data-key=\"%d\">%d</th>"
	    "<td data-key=\"%d\">%d</td>",
	    r->rank, r->rank, r->device, r->device);
	put_count(p, (uint64_t)r->tid);
	put_count(p, r->n);
	put_count(p, r->lost);
	put_number(p, sums->bytes, bytes_of(sums->bytes).at);
	put_time(p, sums->waiting_ns + sums->execution_ns);
	put_time(p, sums->waiting_ns);
	put_time(p, sums->execution_ns);
	put_count(p, sums->last);
	snprintf(share, sizeof(share), "%.*f %%", sums->last != 0,
	         trace_share(sums));
	put_number(p, sums->last, share);
	if (sums->last) {
		put_time(p, sums->late.p50);
		put_time(p, sums->late.p95);
		put_time(p, sums->late.max);
	} else {
		raw(p, "<td></td><td></td><td></td>");
	}
	raw(p, "</tr>\n");
}

static void put_ranks(struct page *p)
{
	for (int i = 0; i < p->flight->size; i++)
		put_rank(p, &p->flight->ranks[i], &p->model->ranks[i]);
}

static void put_data(struct page *p)
{
	trace_page_data(p->out, p->model);
}

/* The parts of the page, which replace {{name}} in the template */
static const struct part {
	const char *name;
	void (*put)(struct page *page);
} parts[] = {
	{ "nonce", put_nonce },     { "style", put_style },
	{ "title", put_title },     { "head", put_head },
	{ "verdict", put_verdict }, { "problems", put_problems },
	{ "last", put_last },       { "ranks", put_ranks },
	{ "data", put_data },       { "script", put_script },
};

static bool set_nonce(struct page *p)
{
	unsigned char bytes[sizeof(p->nonce) / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return false;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(p->nonce + 2 * i, 3, "%02x", bytes[i]);
	return true;
}

/* Return the stack of the rank that is to blame, or NULL. */
static const struct trace_stack *stack_of(const struct trace_model *m)
{
	const struct trace_stack *s = m->trace->stacks.at;

	for (; s < m->trace->stacks.at + m->trace->stacks.n; s++)
		if (s->rank >= 0 && s->rank == m->culprit && s->n)
			return s;
	return NULL;
}

bool trace_html(FILE *out, const struct trace_model *m)
{
	struct page p = { .out = out, .model = m, .flight = m->flight };
	const char *at = page_html, *mark;
	size_t n;

	if (!set_nonce(&p))
		return false;
	split_rows(&p);
	if (p.rows) {
		cut_headline(&p);
		p.stack = stack_of(m);
	}
	while ((mark = strstr(at, "{{"))) {
		fwrite(at, 1, (size_t)(mark - at), out);
		mark += strlen("{{");
		n = strcspn(mark, "}");
		for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
			if (strlen(parts[i].name) == n &&
			    memcmp(parts[i].name, mark, n) == 0)
				parts[i].put(&p);
		at = mark + n + strlen("}}");
	}
	raw(&p, at);
	while (p.n_rows)
		free(p.rows[--p.n_rows].text);
	free(p.rows);
	return true;
}
