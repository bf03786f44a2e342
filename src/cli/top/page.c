/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort top: a sample as lines of text
 *
 * The texts of a dump are plain already; for a terminal they become ASCII, because a
 * character there may be as wide as two.
 */

#include "cli/top/top.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The least width of the column of calls for which other columns stay. */
#define CALL_LEAST 14

/* ---- numbers ----------------------------------------------------------- */

struct page_number page_count(double value)
{
	static const char units[] = " KMGTPE";
	struct page_number n;
	size_t u = 0;

	/* The rounded value decides, so that 999,960 is 1.0M and not 1000.0K. */
	for (; value >= (u ? 999.95 : 999.5) && units[u + 1]; u++)
		value /= 1000;
	if (!u)
		snprintf(n.at, sizeof(n.at),
		         value > 0 && value < 9.95 ? "%.1f" : "%.0f", value);
	else
		snprintf(n.at, sizeof(n.at), "%.1f%c", value, units[u]);
	return n;
}

/* As page_count(), for a whole number: exact as far as that fits. */
static struct page_number page_whole(uint64_t value)
{
	struct page_number n;

	if (value > 99999)
		return page_count((double)value);
	snprintf(n.at, sizeof(n.at), "%u", (unsigned)value);
	return n;
}

struct page_number page_time(uint64_t ns)
{
	const uint64_t us = ns / 1000, s = ns / 1000000000;
	struct page_number n;

	if (us < 1000)
		snprintf(n.at, sizeof(n.at), "%" PRIu64 "us", us);
	else if (us < 1000000)
		snprintf(n.at, sizeof(n.at), "%" PRIu64 "ms", us / 1000);
	else if (s < 60)
		snprintf(n.at, sizeof(n.at), "%.1fs",
		         (double)(us / 100000) / 10);
	else if (s < 3600)
		snprintf(n.at, sizeof(n.at), "%um%02us", (unsigned)(s / 60),
		         (unsigned)(s % 60));
	else if (s < 360000)
		snprintf(n.at, sizeof(n.at), "%uh%02um", (unsigned)(s / 3600),
		         (unsigned)(s / 60 % 60));
	else
		snprintf(n.at, sizeof(n.at), "%" PRIu64 "h", s / 3600);
	return n;
}

/* ---- lines ------------------------------------------------------------- */

static void make_ascii(char *text)
{
	const unsigned char *from = (const unsigned char *)text;
	int n;

	for (; *from; from += n) {
		n = text_character((const char *)from);
		n = n > 1 ? n : 1;
		*text++ = n == 1 && *from >= ' ' && *from < 0x7f ? (char)*from
		                                                 : '?';
	}
	*text = '\0';
}

static void add_line(struct page *p, const struct page_form *form,
                     enum page_look look, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Add a line, cut to the width.  Without memory it is left out. */
static void add_line(struct page *p, const struct page_form *form,
                     enum page_look look, const char *format, ...)
{
	struct page_line *line;
	va_list args;
	int room = p->room ? 2 * p->room : 32;

	if (p->n == p->room) {
		line = realloc(p->lines, (size_t)room * sizeof(*line));
		if (!line)
			return;
		p->lines = line;
		p->room = room;
	}
	line = &p->lines[p->n++];
	line->look = look;
	va_start(args, format);
	vsnprintf(line->text, sizeof(line->text), format, args);
	va_end(args);
	if (form->is_terminal)
		make_ascii(line->text);
	if (form->width && strlen(line->text) > (size_t)form->width)
		line->text[form->width] = '\0';
}

/* Add a text in lines, @most at most. */
static void add_wrapped(struct page *p, const struct page_form *form,
                        enum page_look look, const char *text, int most)
{
	const size_t width = form->width ? (size_t)form->width : 79;
	char all[2048];
	const char *at = all;
	size_t n, word;

	snprintf(all, sizeof(all), "%s", text);
	if (form->is_terminal)
		make_ascii(all);
	for (; *at && most > 0; most--) {
		n = strlen(at);
		if (n > width) {
			for (word = width; word && at[word] != ' '; word--)
				;
			n = word ? word : width;
			if (most == 1 && n > 3) {
				add_line(p, form, look, "%.*s...", (int)n - 3,
				         at);
				return;
			}
		}
		add_line(p, form, look, "%.*s", (int)n, at);
		at += n;
		at += strspn(at, " ");
	}
}

/* ---- the head ---------------------------------------------------------- */

/* Returns how many there are. */
static int add_pids(struct text *t, const struct top_sample *s)
{
	int i, j, n = 0;

	for (i = 0; i < s->n; i++) {
		for (j = 0; j < i && s->ranks[j].pid != s->ranks[i].pid; j++)
			;
		if (j < i)
			continue;
		if (n == 4)
			text_add(t, "...");
		else if (n < 4)
			text_add(t, "%s%d", n ? ", " : "", s->ranks[i].pid);
		n++;
	}
	return n;
}

static void add_head(struct page *p, const struct top_sample *s,
                     const struct page_form *form)
{
	char pids[80] = "", mark[64] = "";
	struct text t = { pids, sizeof(pids) };

	const int n = add_pids(&t, s);

	if (form->silent_ns)
		snprintf(mark, sizeof(mark), "NO ANSWER FOR %s  ",
		         page_time(form->silent_ns).at);
	else if (form->is_paused)
		snprintf(mark, sizeof(mark), "PAUSED  ");
	add_line(p, form, form->silent_ns ? PAGE_WARN : PAGE_BOLD,
	         "%s\"%s\" generation %d, %d rank%s; host %s, process%s %s",
	         mark, s->group, s->generation, s->world,
	         s->world == 1 ? "" : "s", s->host, n == 1 ? "" : "es", pids);
}

/* What the ranks do, in a line. */
static void add_state(struct page *p, const struct top_sample *s,
                      const struct page_form *form)
{
	size_t states[TOP_SILENT + 1] = { 0 };
	char line[400];
	struct text t = { line, sizeof(line) };
	uint64_t front = 0, idle_ns = UINT64_MAX;
	bool is_idle;
	int i;

	for (i = 0; i < s->n; i++) {
		states[s->ranks[i].state]++;
		if (s->ranks[i].collectives > front)
			front = s->ranks[i].collectives;
		if (*s->ranks[i].call && s->ranks[i].ago_ns < idle_ns)
			idle_ns = s->ranks[i].ago_ns;
	}
	is_idle = idle_ns >= TOP_OUTSIDE_NS && idle_ns != UINT64_MAX &&
	          !form->has_ended;
	if (is_idle)
		text_add(&t, "no call for %s", page_time(idle_ns).at);
	else
		text_add(&t, "%s",
		         *s->gone          ? s->gone
		         : form->has_ended ? "closed, no cause"
		                           : "running");
	for (i = 0; i <= TOP_SILENT; i++)
		if (states[i])
			text_add(&t, ", %zu %s", states[i],
			         top_state_name((enum top_state)i));
	text_add(&t, "; foremost: collective %" PRIu64, front);
	add_line(p, form, is_idle || *s->gone ? PAGE_WARN : PAGE_PLAIN, "%s",
	         line);
}

static void add_slowest(struct page *p, const struct top_sample *s,
                        const struct page_form *form)
{
	const struct top_rank *last = NULL;
	int i;

	for (i = 0; i < s->n; i++)
		if (!last || s->ranks[i].last > last->last)
			last = &s->ranks[i];
	if (last && s->met)
		add_line(p, form, PAGE_PLAIN,
		         "came last most often: rank %d, to %zu of %zu "
		         "collectives",
		         last->rank, last->last, s->met);
}

static void add_missing(struct page *p, const struct top_sample *s,
                        const struct page_form *form)
{
	char ranks[200] = "";
	struct text t = { ranks, sizeof(ranks) };
	int i;

	for (i = 0; i < COHORT_MAX_RANKS && !rank_set_has(s->missing, i); i++)
		;
	if (i == COHORT_MAX_RANKS)
		return;
	rank_set_spell(&t, s->missing);
	add_line(p, form, PAGE_WARN, "no dump of rank %s", ranks);
}

static void add_facts(struct page *p, const struct top_sample *s,
                      const struct page_form *form)
{
	add_head(p, s, form);
	if (s->cause.status == COHORT_OK) {
		add_state(p, s, form);
	} else {
		add_line(p, form, PAGE_WARN, "ended: %s",
		         cohort_verdict_text(s->cause.kind));
		add_wrapped(p, form, PAGE_PLAIN, s->cause.text,
		            !form->height       ? INT_MAX
		            : form->height > 30 ? 8
		            : form->height > 15 ? 4
		                                : 1);
	}
	add_slowest(p, s, form);
	add_missing(p, s, form);
}

/* ---- the table --------------------------------------------------------- */

enum { RANK, STATE, BEHIND, AGO, COLLECTIVES, BYTES, FLIGHT, LAST, DEVICE };

static const struct column {
	const char *title;
	int width;
	int kept; /* the higher, the longer it stays on a narrow terminal */
} columns[] = {
	[RANK] = { "RANK", 4, 9 },          [STATE] = { "STATE", 7, 8 },
	[BEHIND] = { "BEHIND", 6, 7 },      [AGO] = { "AGO", 6, 6 },
	[COLLECTIVES] = { "COLL/S", 6, 5 }, [BYTES] = { "BYTES/S", 7, 4 },
	[FLIGHT] = { "FLIGHT", 6, 3 },      [LAST] = { "LAST", 4, 2 },
	[DEVICE] = { "DEV", 3, 1 },
};

enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

/* The rank above which a column is shown in this width. */
static int least_kept(const struct page_form *form)
{
	int least = 0, width, i;

	for (; form->width && least < columns[STATE].kept - 1; least++) {
		for (width = i = 0; i < COLUMNS; i++)
			if (columns[i].kept > least)
				width += columns[i].width + 1;
		if (form->width - width >= CALL_LEAST)
			break;
	}
	return least;
}

static struct page_number cell(const struct top_sample *s,
                               const struct top_rank *r, int column)
{
	struct page_number n = { "-" };

	switch (column) {
	case RANK:
		snprintf(n.at, sizeof(n.at), "%d", r->rank);
		break;
	case STATE:
		snprintf(n.at, sizeof(n.at), "%s", top_state_name(r->state));
		break;
	case BEHIND:
		return page_whole(r->behind);
	case AGO:
		return *r->call ? page_time(r->ago_ns) : n;
	case COLLECTIVES:
		return r->has_rates ? page_count(r->collectives_rate) : n;
	case BYTES:
		return r->has_rates ? page_count(r->bytes_rate) : n;
	case FLIGHT:
		snprintf(n.at, sizeof(n.at), "%s%zu", r->is_more ? ">=" : "",
		         r->in_flight);
		break;
	case LAST:
		if (s->met)
			snprintf(n.at, sizeof(n.at), "%.0f%%",
			         100.0 * (double)r->last / (double)s->met);
		break;
	case DEVICE:
		if (r->device >= 0)
			snprintf(n.at, sizeof(n.at), "%d", r->device);
		break;
	}
	return n;
}

static void add_titles(struct page *p, const struct page_form *form, int least)
{
	char line[200], call[] = "LAST CALL";
	struct text t = { line, sizeof(line) };
	int i;

	for (i = 0; i < COLUMNS; i++)
		if (columns[i].kept > least)
			text_add(&t, i == STATE ? "%-*s " : "%*s ",
			         columns[i].width, columns[i].title);
	text_add(&t, "%s", call);
	if (form->is_terminal && form->width)
		add_line(p, form, PAGE_TITLE, "%-*s", form->width, line);
	else
		add_line(p, form, PAGE_TITLE, "%s", line);
}

static void add_rank(struct page *p, const struct top_sample *s,
                     const struct top_rank *r, const struct page_form *form,
                     int least)
{
	char line[sizeof(p->lines->text)];
	struct text t = { line, sizeof(line) };
	const bool is_late = r->behind && r->state != TOP_IN_CALL;
	int i;

	for (i = 0; i < COLUMNS; i++)
		if (columns[i].kept > least)
			text_add(&t, i == STATE ? "%-*s " : "%*s ",
			         columns[i].width, cell(s, r, i).at);
	if (*r->call)
		text_add(&t, "%s %s", r->call, page_whole(r->bytes).at);
	else
		text_add(&t, "-");
	if (*r->tag)
		text_add(&t, " \"%s\"", r->tag);
	if (*r->label)
		text_add(&t, " (%s)", r->label);
	add_line(p, form,
	         is_late || r->state == TOP_GONE ? PAGE_WARN : PAGE_PLAIN, "%s",
	         line);
}

static void add_keys(struct page *p, const struct page_form *form, int shown,
                     int of)
{
	char place[64] = "";

	while (p->n < form->height - 1)
		add_line(p, form, PAGE_PLAIN, "%s", "");
	if (shown < of)
		snprintf(place, sizeof(place), "%d-%d of %d  ",
		         form->scroll + 1, form->scroll + shown, of);
	add_line(p, form, PAGE_BOLD,
	         "%sq quit  space %s  sort: r rank, l last, c rate (%s)%s",
	         place, form->is_paused ? "go on" : "pause",
	         top_sort_name((int)form->sort),
	         shown < of ? "  j k scroll" : "");
}

int page_make(struct page *p, const struct top_sample *s,
              struct page_form *form)
{
	const int least = least_kept(form);
	int room = s->n, i;

	p->n = 0;
	add_facts(p, s, form);
	if (form->height)
		room = form->height - p->n - 1 - form->is_terminal;
	if (room < 0)
		room = 0;
	if (form->scroll > s->n - room)
		form->scroll = s->n - room;
	if (form->scroll < 0)
		form->scroll = 0;
	add_titles(p, form, least);
	for (i = form->scroll; i < s->n && i < form->scroll + room; i++)
		add_rank(p, s, &s->ranks[i], form, least);
	if (form->is_terminal)
		add_keys(p, form, i - form->scroll, s->n);
	/* A tiny terminal keeps the top. */
	if (form->height && p->n > form->height)
		p->n = form->height;
	return i - form->scroll;
}

void page_tell(struct page *p, const struct page_form *form, const char *text)
{
	p->n = 0;
	add_wrapped(p, form, PAGE_PLAIN, text,
	            form->height ? form->height - 1 : INT_MAX);
	if (form->is_terminal)
		add_line(p, form, PAGE_BOLD, "q quit");
}

void page_free(struct page *p)
{
	free(p->lines);
	*p = (struct page){ 0 };
}
