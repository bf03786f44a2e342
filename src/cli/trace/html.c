/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The writer of the page of cohort trace --html
 *
 * The template, its style, and the parts of its script are in the folder page.
 * All text of a dump is untrusted: it is escaped here in markup, and in the
 * data, which are in trace_json.c, no '<' ends the script element that they
 * stand in.
 */

#include "cli/trace/trace.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/util.h"

/* Defined in page_data.S. */
extern const char page_html[] __attribute__((visibility("hidden")));
extern const char page_css[] __attribute__((visibility("hidden")));
extern const char page_js[] __attribute__((visibility("hidden")));

struct page {
	FILE *out;
	const struct trace_model *model;
	const struct flight *flight;

	/* No dump can know it: only the page's own script runs. */
	char nonce[33];
};

/* ---- text ------------------------------------------------------------- */

/* Write markup of our own. */
static void raw(struct page *p, const char *markup)
{
	fputs(markup, p->out);
}

/* Write a text of the dump. */
static void escape(struct page *p, const char *text)
{
	int n;

	for (; *text; text += n ? n : 1) {
		n = text_character(text);
		if (*text == '\n') /* between the rows of a verdict */
			raw(p, "\n");
		else if (!n || (unsigned char)*text < ' ' || *text == 0x7f)
			raw(p, TEXT_NO_CHARACTER);
		else if (strchr("&<>\"'", *text))
			fprintf(p->out, "&#%d;", *text);
		else
			fwrite(text, 1, (size_t)n, p->out);
	}
}

/* Write markup, in which %s stands for a text, which is escaped, and %d for a
 * number. */
static void put(struct page *p, const char *markup, ...)
	__attribute__((format(printf, 2, 3)));

static void put(struct page *p, const char *markup, ...)
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

/* A number or a set of ranks as text. */
struct words {
	char at[512];
};

static struct words count_of(uint64_t count)
{
	struct words words;

	snprintf(words.at, sizeof(words.at), "%" PRIu64, count);
	return words;
}

static struct words bytes_of(uint64_t bytes)
{
	static const char *const units[] = { "B",   "KiB", "MiB", "GiB",
		                             "TiB", "PiB", "EiB" };
	double value = (double)bytes;
	struct words words;
	int unit = 0;

	for (; value >= 1024; unit++)
		value /= 1024;
	snprintf(words.at, sizeof(words.at), "%.*f %s",
	         unit && value < 100 ? 1 : 0, value, units[unit]);
	return words;
}

static struct words set_of(const uint64_t *set)
{
	struct words words = { "" };

	rank_set_spell(&(struct text){ words.at, sizeof(words.at) }, set);
	return words;
}

/* A cell with a number, by which the script sorts, and its text. */
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

/* Write which collective a call is, if it is one. */
static void put_collective(struct page *p, uint64_t number)
{
	if (number)
		put(p, " <span class=\"aside\">collective %s</span>",
		    count_of(number).at);
}

/* ---- the head --------------------------------------------------------- */

/* Write the verdict, with its rank. */
static void put_kind(struct page *p)
{
	const struct trace_model *m = p->model;

	if (m->verdict && m->culprit >= 0)
		put(p, "rank %d: ", m->culprit);
	put(p, "%s", m->verdict ? m->verdict : "no verdict");
}

static void put_nonce(struct page *p)
{
	raw(p, p->nonce);
}

static void put_style(struct page *p)
{
	raw(p, page_css);
	/* The height of the timeline is known before the script runs. */
	put(p, ":root { --ranks: %d; }\n", p->flight->size);
}

static void put_script(struct page *p)
{
	raw(p, page_js);
}

static void put_title(struct page *p)
{
	put_kind(p);
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

static void put_verdict(struct page *p)
{
	const struct flight *f = p->flight;
	const struct trace_model *m = p->model;
	const uint64_t front = m->window.front;
	const struct flight_op *op = trace_first(f, front);

	put(p, "<h1 class=\"%s\">", m->verdict ? "bad" : "none");
	put_kind(p);
	put(p, "</h1>\n<dl class=\"facts\">\n<div><dt>%s</dt><dd>%s",
	    m->verdict             ? "call"
	    : m->window.is_stalled ? "first collective that is not done"
	                           : "last collective",
	    op      ? trace_words(op).at
	    : front ? "not on record"
	            : "none on record");
	put_collective(p, front);
	put(p, "</dd></div>\n");
	if (!rank_set_is_empty(f->verdict.joined) ||
	    !rank_set_is_empty(f->verdict.missing))
		put(p,
		    "<div><dt>missing</dt><dd>%s</dd></div>\n"
		    "<div><dt>have called</dt><dd>%s</dd></div>\n",
		    set_of(f->verdict.missing).at,
		    set_of(f->verdict.joined).at);
	put(p, "</dl>\n<p class=\"cause\">%s</p>\n",
	    m->verdict ? m->text
	               : "The group had not ended when the dump was written.");
}

static void put_problems(struct page *p)
{
	const struct trace *t = p->model->trace;
	bool is_lost = false;
	int i;

	for (i = 0; i < p->flight->size; i++)
		is_lost = is_lost || p->flight->ranks[i].lost;
	if (!is_lost && !t->n_problems && rank_set_is_empty(t->missing))
		return;
	put(p, "<section class=\"problems\" aria-label=\"What is missing from "
	       "the dump\">\n<ul>\n");
	if (!rank_set_is_empty(t->missing))
		put(p, "<li>no dump of rank %s</li>\n", set_of(t->missing).at);
	for (i = 0; i < t->n_problems; i++)
		put(p, "<li>%s</li>\n", t->problems[i]);
	if (is_lost)
		put(p, "<li>The recorder keeps the newest operations: older "
		       "ones are lost, as the table of ranks says</li>\n");
	put(p, "</ul>\n</section>\n");
}

/* ---- what the ranks did last ------------------------------------------ */

/* True if both ranks can share a row. */
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

/* Open the row of a rank; that of the culprit stands out. */
static void open_row(struct page *p, int rank)
{
	raw(p, rank == p->model->culprit ? "<tr class=\"culprit\">" : "<tr>");
}

/* Write the cells about a call, and how long before the dump it was made. */
static void put_newest(struct page *p, const struct trace_call *c,
                       const char *ago)
{
	const struct flight_op *op = c ? c->op : NULL;

	put(p, "<td>%s</td><td>%s", trace_state(op), trace_words(op).at);
	put_collective(p, op ? op->number : 0);
	put(p, "</td><td>");
	if (c)
		put(p, "%s%s%s", c->tag, *c->tag && *c->label ? ", " : "",
		    c->label);
	put(p, "</td><td>%s</td></tr>\n", op && p->flight->now_ns ? ago : "");
}

/* A row for rank @i and all ranks behind it that are like it; these are added
 * to @told. */
static void put_last_row(struct page *p, int i, uint64_t *told)
{
	const struct flight *f = p->flight;
	uint64_t set[COHORT_RANK_WORDS] = { 0 }, ns;
	uint64_t least_ns = UINT64_MAX, most_ns = 0;
	const struct trace_call *c;
	char ago[64];
	int k;

	for (k = i; k < f->size; k++) {
		if (rank_set_has(told, f->ranks[k].rank) ||
		    !is_alike(p->model, i, k))
			continue;
		rank_set_add(told, f->ranks[k].rank);
		rank_set_add(set, f->ranks[k].rank);
		c = p->model->ranks[k].newest;
		ns = c ? c->op->r.submitted_ns : 0;
		ns = f->now_ns > ns ? f->now_ns - ns : 0;
		least_ns = MIN(ns, least_ns);
		most_ns = MAX(ns, most_ns);
	}
	open_row(p, f->ranks[i].rank);
	put(p, "<th scope=\"row\">%s</th>", set_of(set).at);
	snprintf(ago, sizeof(ago), "%s to %s", trace_time(least_ns).at,
	         trace_time(most_ns).at);
	if (strcmp(trace_time(least_ns).at, trace_time(most_ns).at) == 0)
		*strstr(ago, " to ") = '\0';
	put_newest(p, p->model->ranks[i].newest, ago);
}

static void put_last(struct page *p)
{
	uint64_t told[COHORT_RANK_WORDS] = { 0 };
	int i;

	for (i = 0; i < p->flight->size; i++)
		if (!rank_set_has(told, p->flight->ranks[i].rank))
			put_last_row(p, i, told);
}

/* ---- ranks ------------------------------------------------------------ */

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
	int i;

	for (i = 0; i < p->flight->size; i++)
		put_rank(p, &p->flight->ranks[i], &p->model->ranks[i]);
}

static void put_data(struct page *p)
{
	trace_page_data(p->out, p->model);
}

/* ---- the template ----------------------------------------------------- */

/* What the template's {{name}} stands for. */
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

/* Write the part that @text names up to "}}". */
static void put_part(struct page *p, const char *text)
{
	size_t i, n = strcspn(text, "}");

	for (i = 0; i < ARRAY_SIZE(parts); i++)
		if (strlen(parts[i].name) == n &&
		    memcmp(parts[i].name, text, n) == 0)
			parts[i].put(p);
}

static bool set_nonce(struct page *p)
{
	unsigned char bytes[sizeof(p->nonce) / 2];
	size_t i;

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return false;
	for (i = 0; i < sizeof(bytes); i++)
		snprintf(p->nonce + 2 * i, 3, "%02x", bytes[i]);
	return true;
}

bool trace_html(FILE *out, const struct trace_model *m)
{
	struct page p = { .out = out, .model = m, .flight = m->flight };
	const char *at = page_html, *mark;

	if (!set_nonce(&p))
		return false;
	while ((mark = strstr(at, "{{"))) {
		fwrite(at, 1, (size_t)(mark - at), out);
		put_part(&p, mark + 2);
		at = strstr(mark, "}}") + 2;
	}
	raw(&p, at);
	return true;
}
