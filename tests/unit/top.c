/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of cohort top: what it derives from dumps, and how it shows a sample
 */

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/top/top.h"

#define MS UINT64_C(1000000)
#define S UINT64_C(1000000000)

enum { RANKS = 3, OPS = 16 };

/* A dump of a process, made by a test */
struct made {
	struct trace trace;
	struct flight_rank ranks[RANKS];
	struct flight_op ops[RANKS][OPS];
	struct flight_meeting meetings[3 * OPS];
	struct top_dump dump;
};

/* Dumps of a test. Each test runs in its own process and starts with none. */
static struct made pool[2];
static int made_count;

static struct made *make(int first, int size, int pid, uint64_t now_ns)
{
	struct made *m = &pool[made_count++];
	struct flight *f = &m->trace.flight;
	int r;

	strcpy(f->group, "made");
	strcpy(f->host, "there");
	f->generation = 1;
	f->world = RANKS;
	f->size = size;
	f->pid = pid;
	f->now_ns = now_ns;
	f->cause.rank = -1;
	f->ranks = m->ranks;
	f->slots = OPS;
	f->meetings = m->meetings;
	for (r = 0; r < RANKS; r++)
		if (r < first || r >= first + size)
			rank_set_add(m->trace.missing, r);
	for (r = 0; r < size; r++)
		m->ranks[r] = (struct flight_rank){ .rank = first + r,
			                            .device = r,
			                            .tid = 100 + r,
			                            .alive = 1,
			                            .ops = m->ops[r] };
	m->dump.trace = &m->trace;
	m->dump.round = 1;
	return m;
}

static struct flight_op *call(struct made *m, int r, uint64_t time_ns,
                              size_t bytes)
{
	struct flight_rank *rank = &m->ranks[r];
	struct flight_op *op = &rank->ops[rank->n++];

	cr_assert_leq(rank->n, OPS);
	op->r.ticket = ++rank->last_enqueued;
	op->number = op->r.ticket;
	op->r.kind = OP_ALL_REDUCE;
	op->r.bytes = bytes;
	op->r.submitted_ns = time_ns;
	op->state = FLIGHT_COMPLETED;
	return op;
}

static struct top_sample sample, before;

static const struct top_sample *take(struct made *a, struct made *b,
                                     const struct top_sample *earlier)
{
	struct top_dump *dumps[] = { &a->dump, b ? &b->dump : NULL };

	/* Match the ranks' calls, as the reader of dump files does. */
	flight_compute_meetings(&a->trace.flight);
	if (b)
		flight_compute_meetings(&b->trace.flight);
	sample_take(&sample, dumps, b ? 2 : 1, 1, earlier);
	return &sample;
}

Test(top, top_shows_how_far_a_rank_is_behind)
{
	struct made *m = make(0, 3, 7, 10 * S);

	call(m, 0, 9 * S, 4);
	call(m, 0, 9 * S + 1, 4)->state = FLIGHT_STARTED;
	call(m, 1, 9 * S, 4);
	call(m, 2, 8 * S, 4);
	call(m, 2, 9 * S + 2, 4)->state = FLIGHT_STARTED;
	m->ranks[0].inside = true;
	take(m, NULL, NULL);
	cr_assert_eq(sample.n, 3);
	cr_assert_eq(sample.ranks[0].behind, 0);
	cr_assert_eq(sample.ranks[1].behind, 1);
	cr_assert_eq(sample.ranks[0].in_flight, 1);
	cr_assert_eq(sample.ranks[1].in_flight, 0);
	cr_assert_eq(sample.ranks[0].state, TOP_IN_CALL);
	cr_assert_eq(sample.ranks[1].state, TOP_OUTSIDE);
	cr_assert_eq(sample.ranks[1].ago_ns, S);
	cr_assert_eq(sample.ranks[2].state, TOP_BETWEEN);
	cr_assert_eq(sample.met, 1);
	cr_assert_eq(sample.ranks[0].last + sample.ranks[1].last, 1);
}

Test(top, top_distinguishes_waiting_ranks_from_missing_ranks)
{
	struct made *m = make(0, 3, 7, 10 * S);

	call(m, 0, 9 * S, 4)->state = FLIGHT_STARTED;
	call(m, 1, 9 * S, 4);
	call(m, 2, 9 * S + 1, 4)->state = FLIGHT_STARTED;
	take(m, NULL, NULL);
	cr_assert_eq(sample.ranks[0].state, TOP_WAITING);
	cr_assert_eq(sample.ranks[1].state, TOP_OUTSIDE);
	cr_assert_eq(sample.ranks[2].state, TOP_BETWEEN);
}

Test(top, rank_whose_process_dumped_first_is_not_shown_as_late)
{
	struct made *a = make(0, 1, 7, 10 * S), *b = make(1, 2, 8, 11 * S);
	uint64_t i;

	call(a, 0, 9 * S, 4);
	for (i = 0; i < 4; i++) {
		call(b, 0, 9 * S + i * S / 2, 4);
		call(b, 1, 9 * S + i * S / 2, 4);
	}
	take(a, b, NULL);
	cr_assert_eq(sample.n, 3);
	/* At 10 s, the time of rank 0's dump, the other ranks had called three
	 * collectives. */
	cr_assert_eq(sample.ranks[0].behind, 2);
	cr_assert_eq(sample.ranks[1].behind, 0);
	cr_assert_eq(sample.ranks[0].pid, 7);
	cr_assert_eq(sample.ranks[2].pid, 8);
}

Test(top, top_rates_cover_the_time_since_the_last_sample)
{
	struct made *m = make(0, 3, 7, 10 * S), *n = make(0, 3, 7, 12 * S);

	call(m, 0, 9 * S, 100);
	before = *take(m, NULL, NULL);
	n->ranks[0].last_enqueued = 1;
	call(n, 0, 11 * S, 500);
	call(n, 0, 11 * S, 1500);
	call(n, 0, 11 * S, 4096)->r.kind = OP_COPY;
	n->ops[0][2].number = 0;
	n->ranks[0].last_enqueued = 3;
	take(n, NULL, &before);
	cr_assert_not(isnan(sample.ranks[0].collectives_rate));
	cr_assert_float_eq(sample.ranks[0].collectives_rate, 1, 1e-9);
	cr_assert_float_eq(sample.ranks[0].bytes_rate, 1000, 1e-9);
	cr_assert_float_eq(sample.ranks[1].collectives_rate, 0, 1e-9);
}

/* The second dump has recorded only 2 of the 20 calls. */
Test(top, top_estimates_the_bytes_of_unrecorded_calls)
{
	struct made *m = make(0, 1, 7, 10 * S), *n = make(0, 1, 7, 11 * S);

	call(m, 0, 9 * S, 100);
	before = *take(m, NULL, NULL);
	n->ranks[0].last_enqueued = 19;
	call(n, 0, 11 * S, 50);
	call(n, 0, 11 * S, 150);
	take(n, NULL, &before);
	cr_assert_float_eq(sample.ranks[0].collectives_rate, 20, 1e-9);
	cr_assert_float_eq(sample.ranks[0].bytes_rate, 2000, 1e-9);
}

Test(top, first_top_sample_has_the_rates_of_recorded_calls)
{
	struct made *m = make(0, 1, 7, 10 * S);

	call(m, 0, 8 * S, 10);
	call(m, 0, 9 * S, 10);
	take(m, NULL, NULL);
	cr_assert_float_eq(sample.ranks[0].collectives_rate, 1, 1e-9);
	cr_assert_float_eq(sample.ranks[0].bytes_rate, 10, 1e-9);
}

Test(top, top_rates_start_anew_in_a_new_generation)
{
	struct made *m = make(0, 1, 7, 10 * S), *n = make(0, 1, 7, 11 * S);

	m->ranks[0].last_enqueued = 1000;
	before = *take(m, NULL, NULL);
	n->trace.flight.generation = 2;
	call(n, 0, 10 * S + 500 * MS, 10);
	take(n, NULL, &before);
	cr_assert_float_eq(sample.ranks[0].collectives_rate, 2, 1e-9);
}

Test(top, top_marks_ranks_whose_dump_is_missing_in_this_round)
{
	struct made *a = make(0, 1, 7, 10 * S), *b = make(1, 2, 8, 11 * S);

	a->dump.round = 0;
	take(a, b, NULL);
	cr_assert_eq(sample.ranks[0].state, TOP_SILENT);
	cr_assert_eq(sample.ranks[1].state, TOP_OUTSIDE);
}

Test(top, top_lists_the_ranks_without_a_dump)
{
	struct made *m = make(0, 2, 7, 10 * S);

	take(m, NULL, NULL);
	cr_assert_eq(sample.missing[0], UINT64_C(1) << 2);
}

Test(top, top_sorts_ranks_by_the_chosen_key)
{
	struct made *m = make(0, 3, 7, 10 * S);

	call(m, 0, 9 * S, 4);
	call(m, 1, 2 * S, 4);
	call(m, 2, 5 * S, 4);
	call(m, 2, 5 * S, 4);
	call(m, 2, 5 * S, 4);
	take(m, NULL, NULL);
	sample_sort(&sample, TOP_BY_LAST);
	cr_assert_eq(sample.ranks[0].rank, 1);
	cr_assert_eq(sample.ranks[1].rank, 2);
	sample_sort(&sample, TOP_BY_RATE);
	cr_assert_eq(sample.ranks[0].rank, 1);
	cr_assert_eq(sample.ranks[1].rank, 2);
	sample_sort(&sample, TOP_BY_RANK);
	cr_assert_eq(sample.ranks[0].rank, 0);
}

/* ---- pages -------------------------------------------------------------- */

static void expect_count(double value, const char *text)
{
	cr_assert_str_eq(page_count(value).at, text, "%g is \"%s\"", value,
	                 page_count(value).at);
}

static void expect_time(uint64_t ns, const char *text)
{
	cr_assert_str_eq(page_time(ns).at, text);
	cr_assert_leq(strlen(text), 6);
}

Test(top, top_writes_numbers_in_six_columns)
{
	expect_count(0, "0");
	expect_count(0.04, "0.0");
	expect_count(9.9, "9.9");
	expect_count(9.96, "10");
	expect_count(999.4, "999");
	expect_count(999.6, "1.0K");
	expect_count(999949, "999.9K");
	expect_count(999960, "1.0M");
	expect_count(1.5e9, "1.5G");
	expect_count(1e30, "1000000000000.0E");
	expect_time(0, "0us");
	expect_time(999999, "999us");
	expect_time(999 * MS + 999999, "999ms");
	expect_time(59 * S + 999 * MS, "59.9s");
	expect_time(61 * S, "1m01s");
	expect_time(3600 * S, "1h00m");
	expect_time(359999 * S, "99h59m");
	expect_time(360000 * S, "100h");
}

static struct page page;

static void expect_fits(void)
{
	int i;

	cr_assert_leq(page.n, page.height);
	for (i = 0; i < page.n; i++)
		cr_assert_leq(strlen(page.lines[i].text), (size_t)page.width,
		              "%d columns, line %d: \"%s\"", page.width, i,
		              page.lines[i].text);
}

/* Return the line that begins with @text, or NULL if there is none. */
static const char *find_line(const char *text)
{
	int i;

	for (i = 0; i < page.n; i++)
		if (strncmp(page.lines[i].text, text, strlen(text)) == 0)
			return page.lines[i].text;
	return NULL;
}

Test(top, top_fits_a_terminal_of_any_size)
{
	struct made *m = make(0, 3, 7, 10 * S);

	call(m, 1, 9 * S, 123456789);
	m->trace.flight.cause =
		(struct cohort_cause){ .status = COHORT_TIMED_OUT, .rank = 1 };
	memset(m->trace.flight.cause.text, 'x',
	       sizeof(m->trace.flight.cause.text) - 1);
	take(m, NULL, NULL);
	for (page.width = 1; page.width < 140; page.width++)
		for (page.height = 1; page.height < 40; page.height++) {
			page_make(&page, &sample);
			expect_fits();
		}
}

Test(top, top_keeps_important_columns_on_a_narrow_terminal)
{
	struct made *m = make(0, 3, 7, 10 * S);

	page = (struct page){ .width = 79, .height = 24 };
	take(m, NULL, NULL);
	page_make(&page, &sample);
	cr_assert_not_null(find_line("RANK STATE   BEHIND    AGO COLL/S "
	                             "BYTES/S LAST LAST CALL"));
	page.width = 90;
	page_make(&page, &sample);
	cr_assert_not_null(find_line(
		"RANK STATE   BEHIND    AGO COLL/S BYTES/S LAST FLIGHT DEV "
		"LAST CALL"));
	page.width = 36;
	page_make(&page, &sample);
	cr_assert_not_null(find_line("RANK STATE   BEHIND LAST CALL"));
}

Test(top, top_shows_the_tag_at_80_columns)
{
	struct made *m = make(0, 3, 7, 10 * S);

	page = (struct page){ .width = 79, .height = 24 };
	call(m, 0, 9 * S + 500 * MS, 4096)->r.tag = 1;
	m->ranks[0].tags[0].number = 1;
	strcpy(m->ranks[0].tags[0].text, "step 12");
	take(m, NULL, NULL);
	page_make(&page, &sample);
	cr_assert(strstr(find_line("   0 "), "all_reduce 4096 \"step 12\""));
}

Test(top, top_shows_the_function_of_a_rank_that_does_not_call)
{
	struct made *m = make(0, 3, 7, 10 * S);

	page = (struct page){ .width = 139, .height = 24 };
	call(m, 0, 8 * S, 4);
	take(m, NULL, NULL);
	strcpy(sample.ranks[0].frame, "load (data.c:7)");
	strcpy(sample.ranks[0].thread, "asleep in read");
	page_make(&page, &sample);
	cr_assert(strstr(find_line("   0 "),
	                 "in load (data.c:7), asleep in read; all_reduce 4"));
}

Test(top, top_fills_empty_rows_with_a_history)
{
	struct made *m = make(0, 3, 7, 10 * S);
	int i;

	page = (struct page){ .width = 139, .height = 16 };
	call(m, 0, 8 * S, 4);
	call(m, 2, 8 * S, 4);
	take(m, NULL, NULL);
	for (i = 0; i < PAGE_PASTS + 3; i++) {
		sample.wall_ns = (uint64_t)i * S;
		page_add_sample(&page, &sample);
	}
	page_make(&page, &sample);
	expect_fits();
	for (i = 0; strcmp(page.lines[i].text, "HISTORY") != 0;)
		cr_assert_lt(++i, page.n);
	/* 103 seconds were recorded; the first line shows the newest. */
	cr_assert(strstr(page.lines[i + 1].text, ":01:42 "));
	cr_assert(strstr(page.lines[i + 1].text,
	                 " bytes/s  rank 1: outside, 1 behind, in the "
	                 "program"));
	cr_assert(strstr(page.lines[i + 2].text, ":01:41 "));
	page.height = 10;
	page_make(&page, &sample);
	cr_assert_null(find_line("HISTORY"));
}

Test(top, top_shows_the_ranks_that_were_scrolled_to)
{
	struct made *m = make(0, 3, 7, 10 * S);

	page = (struct page){ .width = 79, .height = 6, .scroll = 1 };
	take(m, NULL, NULL);
	cr_assert_eq(page_make(&page, &sample), 2);
	cr_assert_null(find_line("   0 "));
	cr_assert_not_null(find_line("   1 "));
	cr_assert_not_null(find_line("   2 "));
	cr_assert_not_null(find_line("2-3 of 3  q quit"));
	page.scroll = 99;
	cr_assert_eq(page_make(&page, &sample), 2);
	cr_assert_not_null(find_line("   2 "));
}

Test(top, top_sends_only_printable_ascii_to_a_terminal)
{
	struct made *m = make(0, 3, 7, 10 * S);
	const char *at;
	int i;

	page = (struct page){ .width = 79, .height = 24 };
	strcpy(m->trace.flight.group, "gr\xc3\xbc\x1b[2J\xff");
	take(m, NULL, NULL);
	page_make(&page, &sample);
	cr_assert_not_null(find_line("\"gr??[2J?\" generation 1"));
	for (i = 0; i < page.n; i++)
		for (at = page.lines[i].text; *at; at++)
			cr_assert(*at >= ' ' && *at < 0x7f);
}
