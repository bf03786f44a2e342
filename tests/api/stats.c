/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Counters, and the callbacks for slow operations and ended groups
 */

#include <criterion/criterion.h>
#include <locale.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#include "base/clock.h"
#include "support/expect.h"
#include "support/ranks.h"
#include "support/stress.h"

TestSuite(stats, .timeout = 60);

#define MS UINT64_C(1000000)

static struct cohort_group_options o;
static struct cohort_comm *comms[2];
static int32_t values[2];

static struct cohort_stats stats_of(int rank)
{
	struct cohort_stats s = { .size = sizeof(s) };

	ranks_must(cohort_stats(comms[rank], &s), "stats");
	return s;
}

static void sum_of_both(void)
{
	ranks_sum(comms[0], &values[0]);
	cr_assert_eq(ranks_sum_wait(comms[1], &values[1]), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_OK);
}

Test(stats, count_a_ranks_calls)
{
	struct cohort_group *group = ranks_ahead(2, NULL, comms);
	struct cohort_stats s;
	int32_t x = 0;
	int i;

	for (i = 0; i < 3; i++)
		sum_of_both();
	ranks_must(cohort_send(comms[0], &x, 1, COHORT_I32, 1, NULL, NULL),
	           "send");
	ranks_must(cohort_recv(comms[1], &x, 1, COHORT_I32, 0, NULL, NULL),
	           "recv");
	cr_assert_eq(cohort_synchronize(comms[1], RANKS_SOON), COHORT_OK);
	s = stats_of(0);
	cr_assert_eq(s.operations, 4);
	cr_assert_eq(s.collectives, 3);
	cr_assert_eq(s.transfers, 1);
	cr_assert_eq(s.bytes, 16);
	cr_assert_eq(s.lost_records, 0);
	cr_assert_eq(s.aborts, 0);
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}

Test(stats, count_lost_records)
{
	struct cohort_group *group;
	int i;

	cohort_group_options_init(&o);
	o.recorder_slots = 16;
	group = ranks_ahead(2, &o, comms);
	for (i = 0; i < 20; i++)
		sum_of_both();
	cr_assert_eq(stats_of(1).lost_records, 4);
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}

Test(stats, count_verdicts_by_their_kind)
{
	struct cohort_group *group;
	struct cohort_stats s;
	uint64_t t;

	cohort_group_options_init(&o);
	o.deadlines.join_ns = 20 * MS;
	group = ranks_ahead(2, &o, comms);
	sum_of_both();
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	do
		s = stats_of(1);
	while (!s.verdicts[COHORT_VERDICT_OUTSIDE]);
	cr_assert_eq(s.aborts, 1);
	cr_assert_geq(stats_of(0).waits, 1);
	cr_assert_eq(s.verdicts[COHORT_VERDICT_OUTSIDE], 1);
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}

Test(stats, serve_older_and_newer_callers)
{
	struct cohort_group *group = ranks_ahead(2, NULL, comms);
	struct {
		struct cohort_stats s;
		uint64_t more;
	} newer = { .s.size = sizeof(newer), .more = 1 };
	struct cohort_stats older = {
		.size = offsetof(struct cohort_stats, bytes), .bytes = 7
	};

	sum_of_both();
	ranks_must(cohort_stats(comms[0], &newer.s), "stats");
	cr_assert_eq(newer.s.bytes, 4);
	cr_assert_eq(newer.more, 0);
	ranks_must(cohort_stats(comms[0], &older), "stats");
	cr_assert_eq(older.operations, 1);
	cr_assert_eq(older.bytes, 7);
	older.size = 0;
	cr_assert_eq(cohort_stats(comms[0], &older), COHORT_INVALID);
	cr_assert_eq(cohort_stats(NULL, &older), COHORT_INVALID);
	cr_assert_eq(cohort_stats(comms[0], NULL), COHORT_INVALID);
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}

/* ---- as text ---------------------------------------------------------- */

static char text[65536];

static void write_text(struct cohort_group *group)
{
	FILE *file = tmpfile();

	ranks_must(cohort_stats_write(group, fileno(file)), "write");
	rewind(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
}

static void has_line(const char *line)
{
	cr_assert_not_null(strstr(text, line), "\"%s\" is not in %s", line,
	                   text);
}

/* The text is available even while a thread is stuck inside. */
Test(stats, are_text_for_prometheus)
{
	struct cohort_group *group;
	void *native;

	cohort_group_options_init(&o);
	o.name = "d\"p";
	group = ranks_ahead(2, &o, comms);
	sum_of_both();
	ranks_must(cohort_comm_native_enter(comms[1], &native), "enter");
	write_text(group);
	has_line("# TYPE cohort_operations_total counter\n");
	has_line("cohort_operations_total{group=\"d\\\"p\",generation=\"1\","
	         "rank=\"1\",device=\"1\"} 1\n");
	has_line("cohort_bytes_total{group=\"d\\\"p\",generation=\"1\","
	         "rank=\"0\",device=\"0\"} 4\n");
	has_line("cohort_aborts_total{group=\"d\\\"p\",generation=\"1\"} 0\n");
	has_line("cohort_verdicts_total{group=\"d\\\"p\",generation=\"1\","
	         "kind=\"never called\"} 0\n");
	cr_assert_eq(cohort_stats_write(group, -1), COHORT_SYSTEM);
	cr_assert_eq(cohort_stats_write(NULL, 1), COHORT_INVALID);
	ranks_must(cohort_comm_native_leave(comms[1]), "leave");
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}

/*
 * Random bytes as in names: some are characters, some are parts of characters.
 */
static void make_name(char *name, size_t size, uint64_t *seed)
{
	static const unsigned char some[] = { 'a',  '"',  '\\', '\n', 0xc3,
		                              0xa9, 0xe2, 0x82, 0xac, 0xf0,
		                              0x9f, 0x98, 0x80, 0xed, 0xff,
		                              0xc0, 0x7f, 0x01 };
	size_t i, n = 1 + stress_random(seed) % (size - 1);

	for (i = 0; i < n; i++)
		name[i] =
			stress_random(seed) % 3
				? (char)some[stress_random(seed) % sizeof(some)]
				: (char)(1 + stress_random(seed) % 255);
	name[n] = '\0';
}

/* By libc's decoder, which is strict. */
static bool is_utf8(const char *bytes)
{
	mbstate_t state = { 0 };

	return mbsrtowcs(NULL, &bytes, 0, &state) != (size_t)-1;
}

/* The length of a label's value, up to its quote; 0: the quote never comes. */
static size_t label_length(const char *at)
{
	size_t n = 0;

	while (at[n] && at[n] != '"' && at[n] != '\n')
		n += at[n] == '\\' && at[n + 1] ? 2 : 1;
	return at[n] == '"' ? n : 0;
}

static void check_names(const char *name)
{
	static const char label[] = "{group=\"";
	struct cohort_group *group;
	const char *at;
	int lines = 0;

	o.name = name;
	group = ranks_split(1, &o, comms);
	write_text(group);
	cr_assert(is_utf8(text), "%s", text);
	for (at = text; (at = strstr(at, label)); lines++) {
		at += sizeof(label) - 1;
		cr_assert_gt(label_length(at), 0, "%s", text);
		at += label_length(at);
		cr_assert_eq(strncmp(at, "\",generation=\"1\"", 16), 0,
		             "%.200s", at);
	}
	cr_assert_gt(lines, 10);
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}

Test(stats, are_utf8_whatever_the_name_is)
{
	uint64_t seed = 1;
	char name[100];
	int i;

	cr_assert_not_null(setlocale(LC_CTYPE, "C.UTF-8"));
	cohort_group_options_init(&o);
	o.recorder_slots = 16;
	check_names("\xff");
	check_names("half of one: \xe2\x82");
	for (i = 0; i < place_times(100); i++) {
		make_name(name, sizeof(name), &seed);
		check_names(name);
	}
}

/* At 63 bytes, between two characters. */
Test(stats, a_long_name_is_cut_at_a_character)
{
	char name[100], wanted[100];
	struct cohort_group *group;
	int before;

	cohort_group_options_init(&o);
	o.name = name;
	for (before = 59; before < 64; before++) {
		snprintf(name, sizeof(name), "%.*s\xf0\x9f\x98\x80!", before,
		         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		         "aaa"
		         "aaaaaaaaaaaaaaa");
		snprintf(wanted, sizeof(wanted), "{group=\"%.*s\",",
		         before == 59 ? 63 : before, name);
		group = ranks_split(1, &o, comms);
		write_text(group);
		has_line(wanted);
		cr_assert_eq(cohort_group_close(group), COHORT_OK);
	}
}

/* ---- callbacks -------------------------------------------------------- */

static sem_t is_told;
static struct cohort_verdict slow;
static struct cohort_cause ended;
static char slow_text[1024];
static int slow_times;

static int keep_slow(const struct cohort_verdict *v, void *user)
{
	slow = *v;
	snprintf(slow_text, sizeof(slow_text), "%s", v->text);
	slow_times++;
	sem_post(user);
	return 1; /* the result does not matter */
}

static void keep_cause(const struct cohort_cause *cause, void *user)
{
	ended = *cause;
	sem_post(user);
}

static void await_told(void)
{
	cr_assert(clock_await(&is_told, clock_deadline(RANKS_SOON)));
}

Test(stats, a_slow_operation_is_reported_once_and_goes_on)
{
	struct cohort_group *group;

	cohort_group_options_init(&o);
	sem_init(&is_told, 0, 0);
	o.on_slow = keep_slow;
	o.user = &is_told;
	o.slow_ns = 20 * MS;
	o.deadlines.join_ns = COHORT_FOREVER;
	group = ranks_ahead(2, &o, comms);
	ranks_sum(comms[0], &values[0]);
	await_told();
	cr_assert_eq(slow.stage, COHORT_STAGE_SLOW);
	cr_assert_eq(slow.rank, 1);
	cr_assert_eq(slow.deadline_ns, 20 * MS);
	cr_assert_not_null(strstr(slow_text, " (slow after 20 ms)"), "%s",
	                   slow_text);
	cr_assert_eq(ranks_sum_wait(comms[1], &values[1]), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_OK);
	cr_assert_eq(stats_of(0).slow, 1);
	cr_assert_eq(stats_of(0).warnings, 0);
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
	cr_assert_eq(slow_times, 1);
}

Test(stats, an_abort_is_reported_with_its_cause)
{
	struct cohort_group *group;

	cohort_group_options_init(&o);
	sem_init(&is_told, 0, 0);
	o.on_abort = keep_cause;
	o.user = &is_told;
	group = ranks_split(2, &o, comms);
	ranks_must(cohort_group_abort(group, "enough"), "abort");
	await_told();
	cr_assert_eq(ended.status, COHORT_ABORTED);
	expect_ending(ended.text, "aborted: enough");
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
}

Test(stats, an_orderly_end_is_not_reported)
{
	struct cohort_group *group;

	cohort_group_options_init(&o);
	sem_init(&is_told, 0, 0);
	o.on_abort = keep_cause;
	o.user = &is_told;
	group = ranks_ahead(2, &o, comms);
	sum_of_both();
	cr_assert_eq(cohort_group_close(group), COHORT_OK);
	cr_assert_eq(ended.status, COHORT_OK);
}
