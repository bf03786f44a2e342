/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort trace --html: one page, whose template is page.html
 */

#include "cli/trace/html.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/cause.h"

/* Defined in page_data.S. */
extern const char page_html[] __attribute__((visibility("hidden")));
extern const char page_css[] __attribute__((visibility("hidden")));
extern const char page_js[] __attribute__((visibility("hidden")));

struct page {
	FILE *out;
	const struct trace *trace;
	const struct flight *flight;
	const struct trace_figures *figures;
	char nonce
		[33]; /* no dump can know it: only the page's own script runs */
	bool is_whole; /* there was memory for the data */
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

/* Write a text, escaped. */
static void put(struct page *p, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void put(struct page *p, const char *format, ...)
{
	char text[512 + FLIGHT_TEXT_SIZE];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	escape(p, text);
}

/* A cell with a number, by which the script sorts, and its text. */
static void put_number(struct page *p, uint64_t number, const char *text)
{
	fprintf(p->out, "<td data-key=\"%" PRIu64 "\">", number);
	escape(p, text);
	raw(p, "</td>");
}

static void put_count(struct page *p, uint64_t count)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, count);
	put_number(p, count, text);
}

static void put_time(struct page *p, uint64_t ns)
{
	put_number(p, ns, trace_time(ns).at);
}

static void put_bytes(struct page *p, uint64_t bytes)
{
	static const char *const units[] = { "B",   "KiB", "MiB", "GiB",
		                             "TiB", "PiB", "EiB" };
	double value = (double)bytes;
	char text[32];
	int unit = 0;

	for (; value >= 1024; unit++)
		value /= 1024;
	snprintf(text, sizeof(text), "%.*f %s", unit && value < 100 ? 1 : 0,
	         value, units[unit]);
	put_number(p, bytes, text);
}

static void put_set(struct page *p, const uint64_t *set)
{
	char text[512] = "";

	rank_set_spell(&(struct text){ text, sizeof(text) }, set);
	escape(p, text);
}

/* ---- the head --------------------------------------------------------- */

static bool is_ended(const struct flight *f)
{
	return f->has_verdict || f->cause.status != COHORT_OK;
}

static const char *verdict_text(const struct flight *f)
{
	return !is_ended(f)
	               ? "no verdict"
	               : cohort_verdict_text(f->has_verdict ? f->verdict.kind
	                                                    : f->cause.kind);
}

static int culprit(const struct flight *f)
{
	return f->has_verdict ? f->verdict.rank : f->cause.rank;
}

static void put_nonce(struct page *p)
{
	raw(p, p->nonce);
}

static void put_style(struct page *p)
{
	raw(p, page_css);
	/* The height of the timeline is known before the script runs. */
	fprintf(p->out, ":root { --ranks: %d; }\n", p->flight->size);
}

static void put_script(struct page *p)
{
	raw(p, page_js);
}

static void put_title(struct page *p)
{
	const struct flight *f = p->flight;

	if (is_ended(f) && culprit(f) >= 0)
		put(p, "rank %d: ", culprit(f));
	put(p, "%s", verdict_text(f));
	put(p, ", group \"%s\"", f->group);
}

static void put_head(struct page *p)
{
	const struct flight *f = p->flight;

	raw(p, "<span>group <b>");
	put(p, "%s", f->group);
	raw(p, "</b></span> ");
	fprintf(p->out,
	        "<span>generation %d</span> <span>%d rank%s</span> "
	        "<span>host ",
	        f->generation, f->world, f->world == 1 ? "" : "s");
	put(p, "%s", f->host);
	fprintf(p->out,
	        "</span> <span>process %d</span> <span>written at a %s, "
	        "%s</span>",
	        f->pid, f->trigger ? f->trigger : "?", trace_date(f).at);
}

/* The collective that the trace is about. */
static void put_front(struct page *p)
{
	const struct flight *f = p->flight;
	uint64_t front = p->figures->window.front;
	const struct flight_op *op = NULL;
	char call[160] = "";
	int r;

	for (r = 0; r < f->size && front && !op; r++)
		op = trace_find(&f->ranks[r], front);
	if (op)
		record_add(&(struct text){ call, sizeof(call) }, &op->r);
	put(p, "%s", op ? call : front ? "not on record" : "none on record");
	if (front)
		fprintf(p->out,
		        " <span class=\"aside\">collective %" PRIu64 "</span>",
		        front);
}

static void put_verdict(struct page *p)
{
	const struct flight *f = p->flight;

	fprintf(p->out, "<h1 class=\"%s\">", is_ended(f) ? "bad" : "none");
	if (is_ended(f) && culprit(f) >= 0)
		fprintf(p->out, "rank %d: ", culprit(f));
	escape(p, verdict_text(f));
	raw(p, "</h1>\n<dl class=\"facts\">\n");
	fprintf(p->out, "<div><dt>%s</dt><dd>",
	        is_ended(f) ? "call"
	        : p->figures->window.is_stalled
	                ? "first collective that is not done"
	                : "last collective");
	put_front(p);
	raw(p, "</dd></div>\n");
	if (!rank_set_is_empty(f->verdict.joined) ||
	    !rank_set_is_empty(f->verdict.missing)) {
		raw(p, "<div><dt>missing</dt><dd>");
		put_set(p, f->verdict.missing);
		raw(p, "</dd></div>\n<div><dt>have called</dt><dd>");
		put_set(p, f->verdict.joined);
		raw(p, "</dd></div>\n");
	}
	raw(p, "</dl>\n<p class=\"cause\">");
	put(p, "%s",
	    f->has_verdict                 ? f->text
	    : f->cause.status != COHORT_OK ? f->cause.text
	                                   : "The group had not ended when the "
	                                     "dump was written.");
	raw(p, "</p>\n");
}

static void put_problems(struct page *p)
{
	const struct trace *t = p->trace;
	const struct flight_rank *r;
	bool is_any = t->n_problems || !rank_set_is_empty(t->missing);
	int i;

	for (r = p->flight->ranks; r < p->flight->ranks + p->flight->size; r++)
		is_any = is_any || r->lost;
	if (!is_any)
		return;
	raw(p, "<section class=\"problems\" aria-label=\"What is missing from "
	       "the dump\">\n<ul>\n");
	if (!rank_set_is_empty(t->missing)) {
		raw(p, "<li>no dump of rank ");
		put_set(p, t->missing);
		raw(p, "</li>\n");
	}
	for (i = 0; i < t->n_problems; i++) {
		raw(p, "<li>");
		escape(p, t->problems[i]);
		raw(p, "</li>\n");
	}
	for (r = p->flight->ranks; r < p->flight->ranks + p->flight->size;
	     r++) {
		if (!r->lost)
			continue;
		raw(p, "<li>The recorder keeps the newest operations: older "
		       "ones are lost, as the table of ranks says</li>\n");
		break;
	}
	raw(p, "</ul>\n</section>\n");
}

/* ---- what the ranks did last ------------------------------------------ */

static const struct flight_op *last_op(const struct flight_rank *r)
{
	return r->n ? &r->ops[r->n - 1] : NULL;
}

/* True if one row may tell of both ranks. */
static bool is_alike(const struct flight *f, const struct flight_rank *a,
                     const struct flight_rank *b)
{
	const struct flight_op *x = last_op(a), *y = last_op(b);

	if ((a->rank == culprit(f)) != (b->rank == culprit(f)) || !x != !y)
		return false;
	return !x || (x->number == y->number && x->state == y->state &&
	              x->r.outcome == y->r.outcome && x->r.kind == y->r.kind &&
	              x->r.count == y->r.count && x->r.type == y->r.type &&
	              x->r.n == y->r.n && x->r.redop == y->r.redop &&
	              x->r.root == y->r.root && x->r.bytes == y->r.bytes &&
	              x->r.is_batch == y->r.is_batch &&
	              x->r.from_host == y->r.from_host &&
	              strcmp(flight_tag(a, x), flight_tag(b, y)) == 0 &&
	              strcmp(flight_label(a, x), flight_label(b, y)) == 0);
}

/* How long before the dump the ranks made their calls. */
struct ago {
	uint64_t least_ns, most_ns;
};

static void put_last_op(struct page *p, const struct flight_rank *r,
                        const struct ago *ago)
{
	const struct flight_op *op = last_op(r);
	char call[160] = "";

	if (op)
		record_add(&(struct text){ call, sizeof(call) }, &op->r);
	raw(p, "<td>");
	escape(p, trace_state(op));
	raw(p, "</td><td>");
	escape(p, call);
	if (op && op->number)
		fprintf(p->out,
		        " <span class=\"aside\">collective %" PRIu64 "</span>",
		        op->number);
	raw(p, "</td><td>");
	if (op)
		put(p, "%s%s%s", flight_tag(r, op),
		    *flight_tag(r, op) && *flight_label(r, op) ? ", " : "",
		    flight_label(r, op));
	raw(p, "</td><td>");
	if (op && p->flight->now_ns) {
		raw(p, trace_time(ago->least_ns).at);
		if (strcmp(trace_time(ago->least_ns).at,
		           trace_time(ago->most_ns).at) != 0)
			fprintf(p->out, " to %s", trace_time(ago->most_ns).at);
	}
	raw(p, "</td></tr>\n");
}

/* A row for @r and all ranks behind it that are like it; these are added to @told. */
static void put_last_row(struct page *p, const struct flight_rank *r,
                         uint64_t *told)
{
	const struct flight *f = p->flight;
	uint64_t set[COHORT_RANK_WORDS] = { 0 }, ns;
	struct ago ago = { .least_ns = UINT64_MAX };
	const struct flight_rank *other;

	for (other = r; other < f->ranks + f->size; other++) {
		if (rank_set_has(told, other->rank) || !is_alike(f, r, other))
			continue;
		rank_set_add(told, other->rank);
		rank_set_add(set, other->rank);
		ns = other->n ? last_op(other)->r.submitted_ns : 0;
		ns = f->now_ns > ns ? f->now_ns - ns : 0;
		if (ns < ago.least_ns)
			ago.least_ns = ns;
		if (ns > ago.most_ns)
			ago.most_ns = ns;
	}
	fprintf(p->out, "<tr%s><th scope=\"row\">",
	        r->rank == culprit(f) ? " class=\"culprit\"" : "");
	put_set(p, set);
	raw(p, "</th>");
	put_last_op(p, r, &ago);
}

static void put_last(struct page *p)
{
	const struct flight *f = p->flight;
	uint64_t told[COHORT_RANK_WORDS] = { 0 };
	int r;

	for (r = 0; r < f->size; r++)
		if (!rank_set_has(told, f->ranks[r].rank))
			put_last_row(p, &f->ranks[r], told);
}

/* ---- ranks ------------------------------------------------------------ */

/* What a rank's operations add up to. */
struct sums {
	uint64_t waiting_ns, execution_ns, bytes;
};

static struct sums sum_up(struct html_walk w, const struct flight_rank *r)
{
	struct sums sums = { 0 };
	const struct flight_op *op;
	struct flight_span s;

	for (op = r->ops; op < r->ops + r->n; op++) {
		s = html_next(&w, op);
		/* These follow one another, so no sum overflows. */
		sums.waiting_ns += s.joined_ns - s.begin_ns;
		if (!op->r.finished_at_most)
			sums.execution_ns += s.end_ns - s.joined_ns;
		sums.bytes = op->r.bytes < UINT64_MAX - sums.bytes
		                     ? sums.bytes + op->r.bytes
		                     : UINT64_MAX;
	}
	return sums;
}

static void put_late(struct page *p, const struct trace_late *l)
{
	char share[32];

	put_count(p, l->last);
	if (!l->last) {
		raw(p, "<td data-key=\"0\">0 %</td><td></td><td></td>"
		       "<td></td>");
		return;
	}
	snprintf(share, sizeof(share), "%.1f %%",
	         100.0 * (double)l->last / (double)l->of);
	put_number(p, l->last, share);
	put_time(p, l->late.p50);
	put_time(p, l->late.p95);
	put_time(p, l->late.max);
}

static void put_ranks(struct page *p)
{
	const struct flight *f = p->flight;
	const struct html_walk w = html_walk(f);
	const struct flight_rank *r;
	struct sums s;
	int i;

	for (i = 0; i < f->size; i++) {
		r = &f->ranks[i];
		s = sum_up(w, r);
		fprintf(p->out,
		        "<tr%s><th scope=\"row\" data-key=\"%d\">%d</th>",
		        r->rank == culprit(f) ? " class=\"culprit\"" : "",
		        r->rank, r->rank);
		fprintf(p->out, "<td data-key=\"%d\">%d</td>", r->device,
		        r->device);
		put_count(p, (uint64_t)r->tid);
		put_count(p, r->n);
		put_count(p, r->lost);
		put_bytes(p, s.bytes);
		put_time(p, s.waiting_ns + s.execution_ns);
		put_time(p, s.waiting_ns);
		put_time(p, s.execution_ns);
		put_late(p, &p->figures->late[i]);
		raw(p, "</tr>\n");
	}
}

static void put_data(struct page *p)
{
	p->is_whole = html_data(p->out, p->trace, p->figures);
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

	for (i = 0; i < sizeof(parts) / sizeof(*parts); i++)
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

bool trace_html(FILE *out, const struct trace *t,
                const struct trace_figures *figures)
{
	struct page p = {
		.out = out, .trace = t, .flight = &t->flight, .figures = figures
	};
	const char *at = page_html, *mark;

	if (!set_nonce(&p))
		return false;
	while ((mark = strstr(at, "{{"))) {
		fwrite(at, 1, (size_t)(mark - at), out);
		put_part(&p, mark + 2);
		at = strstr(mark, "}}") + 2;
	}
	raw(&p, at);
	return p.is_whole;
}
