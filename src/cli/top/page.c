/* SPDX-License-Identifier: Apache-2.0 */

/*
 * cohort top: formats a sample as lines of text
 *
 * The texts of a dump have no control characters. Other non-ASCII characters
 * are replaced for a terminal, because they may be two columns wide.
 */

#include "cli/top/top.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/util.h"
#include "cli/common/cli.h"

__attribute__((format(printf, 1, 2))) static struct page_number
number(const char *format, ...)
{
	struct page_number n;
	va_list args;

	va_start(args, format);
	vsnprintf(n.at, sizeof(n.at), format, args);
	va_end(args);
	return n;
}

struct page_number page_count(double value)
{
	static const char units[] = " KMGTPE";
	size_t u = 0;

	if (isnan(value))
		return number("-");
	/* Compare the rounded value, so that 999,960 becomes 1.0M and not
	 * 1000.0K. */
	for (; value >= (u ? 999.95 : 999.5) && units[u + 1]; u++)
		value /= 1000;
	if (u)
		return number("%.1f%c", value, units[u]);
	return number(value > 0 && value < 9.95 ? "%.1f" : "%.0f", value);
}

/* Format a whole number, exactly if it fits, otherwise as page_count() does. */
static struct page_number page_whole(uint64_t value)
{
	return value > 99999 ? page_count((double)value)
	                     : number("%" PRIu64, value);
}

struct page_number page_time(uint64_t ns)
{
	const uint64_t us = ns / 1000, s = us / 1000000;

	if (us < 1000)
		return number("%" PRIu64 "us", us);
	if (s < 1)
		return number("%" PRIu64 "ms", us / 1000);
	if (s < 60)
		return number("%.1fs", (double)(us / 100000) / 10);
	if (s < 3600)
		return number("%um%02us", (unsigned)(s / 60),
		              (unsigned)(s % 60));
	if (s < 360000)
		return number("%uh%02um", (unsigned)(s / 3600),
		              (unsigned)(s / 60 % 60));
	return number("%" PRIu64 "h", s / 3600);
}

static void make_ascii(char *text)
{
	const unsigned char *from = (const unsigned char *)text;
	int n;

	for (; *from; from += n) {
		n = text_character((const char *)from);
		n = MAX(n, 1);
		*text++ = n == 1 && *from >= ' ' && *from < 0x7f ? (char)*from
		                                                 : '?';
	}
	*text = '\0';
}

__attribute__((format(printf, 3, 4))) static void
add_line(struct page *p, enum page_look look, const char *format, ...)
{
	struct page_line *line;
	va_list args;

	if (p->n == p->room) {
		p->room = p->room ? 2 * p->room : 32;
		p->lines = cli_need(
			realloc(p->lines, (size_t)p->room * sizeof(*line)));
	}
	line = &p->lines[p->n++];
	line->look = look;
	va_start(args, format);
	vsnprintf(line->text, sizeof(line->text), format, args);
	va_end(args);
	if (p->width)
		make_ascii(line->text);
	if (p->width && strlen(line->text) > (size_t)p->width)
		line->text[p->width] = '\0';
}

static void add_wrapped(struct page *p, const char *text)
{
	const size_t width = p->width ? (size_t)p->width : 79;
	size_t n;

	for (; *text; text += n + strspn(text + n, " ")) {
		n = strlen(text);
		if (n > width) {
			for (n = width; n && text[n] != ' '; n--)
				;
			n = n ? n : width;
		}
		add_line(p, PAGE_PLAIN, "%.*s", (int)n, text);
	}
}

/* Add as many pids of the processes as fit. Return the number of processes. */
static int add_pids(struct text *t, const struct top_sample *s)
{
	int j, n = 0;

	for (int i = 0; i < s->n; i++) {
		for (j = 0; s->ranks[j].pid != s->ranks[i].pid; j++)
			;
		if (j == i)
			text_add(t, "%s%d", n++ ? ", " : "", s->ranks[i].pid);
	}
	return n;
}

static void add_head(struct page *p, const struct top_sample *s)
{
	char pids[40] = "", mark[64] = "";
	const int n = add_pids(&(struct text){ pids, sizeof(pids) }, s);

	if (p->silent_ns)
		snprintf(mark, sizeof(mark), "NO ANSWER FOR %s  ",
		         page_time(p->silent_ns).at);
	else if (p->is_paused)
		snprintf(mark, sizeof(mark), "PAUSED  ");
	add_line(p, p->silent_ns ? PAGE_WARN : PAGE_BOLD,
	         "%s\"%s\" generation %d, %d rank%s; host %s, process%s %s",
	         mark, s->group, s->generation, s->world,
	         s->world == 1 ? "" : "s", s->host, n == 1 ? "" : "es", pids);
}

static void add_state(struct page *p, const struct top_sample *s)
{
	size_t states[TOP_SILENT + 1] = { 0 };
	char line[400];
	struct text t = { line, sizeof(line) };
	uint64_t front = 0, idle_ns = UINT64_MAX;
	bool is_idle;

	for (int i = 0; i < s->n; i++) {
		states[s->ranks[i].state]++;
		front = MAX(front, s->ranks[i].collectives);
		if (*s->ranks[i].call && s->ranks[i].ago_ns < idle_ns)
			idle_ns = s->ranks[i].ago_ns;
	}
	is_idle = idle_ns >= TOP_OUTSIDE_NS && idle_ns != UINT64_MAX &&
	          !p->has_ended;
	if (is_idle)
		text_add(&t, "no call for %s", page_time(idle_ns).at);
	else
		text_add(&t, "%s",
		         *s->gone       ? s->gone
		         : p->has_ended ? "closed without a failure"
		                        : "running");
	for (int i = 0; i <= TOP_SILENT; i++)
		if (states[i])
			text_add(&t, ", %zu %s", states[i],
			         top_state_name((enum top_state)i));
	text_add(&t, "; foremost: collective %" PRIu64, front);
	add_line(p, is_idle || *s->gone ? PAGE_WARN : PAGE_PLAIN, "%s", line);
}

static void add_slowest(struct page *p, const struct top_sample *s)
{
	const struct top_rank *last = NULL;

	for (int i = 0; i < s->n; i++)
		if (!last || s->ranks[i].last > last->last)
			last = &s->ranks[i];
	if (last && s->met)
		add_line(p, PAGE_PLAIN,
		         "most often last: rank %d, in %zu of %zu collectives",
		         last->rank, last->last, s->met);
}

static void add_facts(struct page *p, const struct top_sample *s)
{
	char ranks[200] = "";

	add_head(p, s);
	if (s->cause.status == COHORT_OK) {
		add_state(p, s);
	} else {
		add_line(p, PAGE_WARN, "ended: %s",
		         cohort_verdict_text(s->cause.kind));
		add_wrapped(p, s->cause.text);
	}
	add_slowest(p, s);
	if (rank_set_is_empty(s->missing))
		return;
	rank_set_format(&(struct text){ ranks, sizeof(ranks) }, s->missing);
	add_line(p, PAGE_WARN, "no dump of rank %s", ranks);
}

enum { RANK, STATE, BEHIND, AGO, COLLECTIVES, BYTES, LAST, FLIGHT, DEVICE };

/* The columns of the table. A narrow terminal does not show the last
 * columns. */
static const struct column {
	const char *title;
	int width; /* width of the column; negative if aligned to the left */
} columns[] = {
	[RANK] = { "RANK", 4 },          [STATE] = { "STATE", -7 },
	[BEHIND] = { "BEHIND", 6 },      [AGO] = { "AGO", 6 },
	[COLLECTIVES] = { "COLL/S", 6 }, [BYTES] = { "BYTES/S", 7 },
	[LAST] = { "LAST", 4 },          [FLIGHT] = { "FLIGHT", 6 },
	[DEVICE] = { "DEV", 3 },
};

enum { COLUMNS = ARRAY_SIZE(columns) };

/* Width to keep for the last call and its tag. If less would be left, FLIGHT
 * and DEV are not shown. */
#define CALL_ROOM 32

/* Smallest width for the last call. If less would be left, all columns after
 * the first two are not shown. */
#define CALL_LEAST 14

static int columns_in(int width)
{
	int n, used = 0;

	for (n = 0; n < COLUMNS; n++) {
		used += abs(columns[n].width) + 1;
		if (width && n > STATE &&
		    width - used < (n > LAST ? CALL_ROOM : CALL_LEAST))
			break;
	}
	return n;
}

static void add_row(struct page *p, enum page_look look,
                    const struct page_number *cells, const char *call)
{
	const int n = columns_in(p->width);
	char line[sizeof(p->lines->text)];
	struct text t = { line, sizeof(line) };

	for (int i = 0; i < n; i++)
		text_add(&t, "%*s ", columns[i].width,
		         cells ? cells[i].at : columns[i].title);
	add_line(p, look, "%s%s", line, call);
}

static void add_thread(struct text *t, const struct top_rank *r)
{
	if (*r->frame)
		text_add(t, "in %s%s", r->frame, *r->thread ? ", " : "");
	text_add(t, "%s",
	         *r->frame || *r->thread ? r->thread : "in the program");
}

static void add_rank(struct page *p, const struct top_sample *s,
                     const struct top_rank *r)
{
	const bool is_late = r->behind && r->state != TOP_IN_CALL;
	const struct page_number none = { "-" };
	const struct page_number cells[COLUMNS] = {
		[RANK] = number("%d", r->rank),
		[STATE] = number("%s", top_state_name(r->state)),
		[BEHIND] = page_whole(r->behind),
		[AGO] = *r->call ? page_time(r->ago_ns) : none,
		[COLLECTIVES] = page_count(r->collectives_rate),
		[BYTES] = page_count(r->bytes_rate),
		[FLIGHT] =
			number("%s%zu", r->is_more ? ">=" : "", r->in_flight),
		[LAST] = s->met ? number("%.0f%%", 100.0 * (double)r->last /
		                                           (double)s->met)
		                : none,
		[DEVICE] = r->device >= 0 ? number("%d", r->device) : none,
	};
	char call[sizeof(p->lines->text)];
	struct text t = { call, sizeof(call) };

	if (r->state == TOP_OUTSIDE) {
		add_thread(&t, r);
		text_add(&t, "; ");
	}
	if (*r->call)
		text_add(&t, "%s %s", r->call, page_whole(r->bytes).at);
	else
		text_add(&t, "-");
	if (*r->tag)
		text_add(&t, " \"%s\"", r->tag);
	if (*r->label)
		text_add(&t, " (%s)", r->label);
	add_row(p, is_late || r->state == TOP_GONE ? PAGE_WARN : PAGE_PLAIN,
	        cells, call);
}

/* Return the rank that is furthest behind; if none is behind, a rank that is
 * outside the library; or NULL. */
static const struct top_rank *find_late(const struct top_sample *s)
{
	const struct top_rank *r, *late = NULL;

	for (r = s->ranks; r < s->ranks + s->n; r++)
		if ((r->behind || r->state == TOP_OUTSIDE) &&
		    (!late || r->behind > late->behind))
			late = r;
	return late;
}

void page_add_sample(struct page *p, const struct top_sample *s)
{
	char *past = p->past[p->n_past++ % PAGE_PASTS];
	struct text t = { past, sizeof(p->past[0]) };
	const struct top_rank *late = find_late(s);
	time_t seconds = (time_t)(s->wall_ns / 1000000000);
	double collectives = 0, bytes = 0;
	struct tm parts = { .tm_sec = 0 };
	char time[16];

	for (int i = 0; i < s->n; i++) {
		collectives += s->ranks[i].collectives_rate / s->n;
		bytes += s->ranks[i].bytes_rate / s->n;
	}
	localtime_r(&seconds, &parts);
	strftime(time, sizeof(time), "%H:%M:%S", &parts);
	*past = '\0';
	text_add(&t, "%s %6s coll/s %7s bytes/s", time,
	         page_count(collectives).at, page_count(bytes).at);
	if (!late)
		return;
	text_add(&t, "  rank %d: %s", late->rank, top_state_name(late->state));
	if (late->behind)
		text_add(&t, ", %" PRIu64 " behind", late->behind);
	if (late->state == TOP_OUTSIDE) {
		text_add(&t, ", ");
		add_thread(&t, late);
	}
}

/* Fill the empty rows with earlier refreshes, newest first. */
static void add_history(struct page *p)
{
	unsigned n = MIN(p->n_past, (unsigned)PAGE_PASTS), i;
	if (p->height - p->n > 4 && n > 1) {
		add_line(p, PAGE_PLAIN, "%s", "");
		add_line(p, PAGE_BOLD, "HISTORY");
		for (i = 1; i <= n && p->n < p->height - 1; i++)
			add_line(p, PAGE_PLAIN, "%s",
			         p->past[(p->n_past - i) % PAGE_PASTS]);
	}
	while (p->n < p->height - 1)
		add_line(p, PAGE_PLAIN, "%s", "");
}

static void add_keys(struct page *p, int shown, int of)
{
	static const char *const sorts[] = {
		[TOP_BY_RANK] = "rank",
		[TOP_BY_LAST] = "last",
		[TOP_BY_RATE] = "rate",
	};
	char place[64] = "";

	add_history(p);
	if (shown < of)
		snprintf(place, sizeof(place), "%d-%d of %d  ", p->scroll + 1,
		         p->scroll + shown, of);
	add_line(p, PAGE_BOLD,
	         "%sq quit  space %s  sort: r rank, l last, c rate (%s)%s",
	         place, p->is_paused ? "continue" : "pause", sorts[p->sort],
	         shown < of ? "  j k scroll" : "");
}

int page_make(struct page *p, struct top_sample *s)
{
	int room = s->n, i;

	p->n = 0;
	sample_sort(s, p->sort);
	add_facts(p, s);
	if (p->height)
		room = p->height - p->n - 2;
	room = MAX(room, 0);
	p->scroll = MIN(p->scroll, s->n - room);
	p->scroll = MAX(p->scroll, 0);
	add_row(p, PAGE_TITLE, NULL, "LAST CALL");
	for (i = p->scroll; i < s->n && i < p->scroll + room; i++)
		add_rank(p, s, &s->ranks[i]);
	if (p->height)
		add_keys(p, i - p->scroll, s->n);
	/* A tiny terminal shows only the top of the page. */
	if (p->height && p->n > p->height)
		p->n = p->height;
	return i - p->scroll;
}
