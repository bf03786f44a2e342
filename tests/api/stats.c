/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of counters, and of the callbacks for slow operations and for ends of
 * groups
 */

#include <criterion/criterion.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/ranks.h"

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

Test(stats, stats_count_a_ranks_calls)
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
	expect_close(group);
}

Test(stats, stats_count_lost_records)
{
	struct cohort_group *group;
	int i;

	cohort_group_options_init(&o);
	o.recorder_slots = 16;
	group = ranks_ahead(2, &o, comms);
	for (i = 0; i < 20; i++)
		sum_of_both();
	cr_assert_eq(stats_of(1).lost_records, 4);
	expect_close(group);
}

Test(stats, stats_count_verdicts_by_kind)
{
	const struct cohort_deadlines soon = { .join_ns = 20 * MS };
	struct cohort_group *group = ranks_ahead(2, NULL, comms);
	struct cohort_stats s;
	uint64_t t;

	sum_of_both();
	ranks_must(cohort_deadline_push(comms[0], &soon), "push");
	t = ranks_sum(comms[0], &values[0]);
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_STALLED);
	do
		s = stats_of(1);
	while (!s.verdicts[COHORT_VERDICT_OUTSIDE]);
	cr_assert_eq(s.aborts, 1);
	cr_assert_geq(stats_of(0).waits, 1);
	cr_assert_eq(s.verdicts[COHORT_VERDICT_OUTSIDE], 1);
	expect_close(group);
}

Test(stats, stats_fill_no_more_than_the_callers_size)
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
	expect_close(group);
}

/* ---- the name of a group ---------------------------------------------- */

static sem_t is_told;

static void await_told(void)
{
	cr_assert(test_await(&is_told, RANKS_SOON));
}

static char group_name[100];

static int keep_name(const struct cohort_verdict *v, void *user)
{
	snprintf(group_name, sizeof(group_name), "%s", v->group);
	sem_post(user);
	return 0;
}

/* A name must be truncated between two characters, to 63 bytes or less. */
Test(stats, long_group_name_is_cut_between_characters)
{
	char name[100], wanted[100];
	struct cohort_group *group;
	int before;

	cohort_group_options_init(&o);
	sem_init(&is_told, 0, 0);
	o.name = name;
	o.on_verdict = keep_name;
	o.user = &is_told;
	for (before = 59; before < 64; before++) {
		snprintf(name, sizeof(name), "%.*s\xf0\x9f\x98\x80!", before,
		         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		         "aaa"
		         "aaaaaaaaaaaaaaa");
		snprintf(wanted, sizeof(wanted), "%.*s",
		         before == 59 ? 63 : before, name);
		group = ranks_split(1, &o, comms);
		cr_assert_eq(cohort_group_abort(group, NULL), COHORT_OK);
		await_told();
		cr_assert_str_eq(group_name, wanted);
		expect_close(group);
	}
}

/* ---- callbacks -------------------------------------------------------- */

static struct cohort_verdict slow;
static char slow_text[1024];
static int slow_times;

static int keep_slow(const struct cohort_verdict *v, void *user)
{
	slow = *v;
	snprintf(slow_text, sizeof(slow_text), "%s", v->text);
	slow_times++;
	sem_post(user);
	return 1; /* the result of the callback is ignored */
}

Test(stats, slow_operation_is_reported_once_and_continues)
{
	struct cohort_group *group;

	cohort_group_options_init(&o);
	sem_init(&is_told, 0, 0);
	o.on_verdict = keep_slow;
	o.user = &is_told;
	o.slow_ns = 20 * MS;
	o.deadlines.join_ns = COHORT_FOREVER;
	group = ranks_ahead(2, &o, comms);
	ranks_sum(comms[0], &values[0]);
	await_told();
	cr_assert_eq(slow.stage, COHORT_STAGE_SLOW);
	cr_assert_eq(slow.rank, 1);
	cr_assert_eq(slow.deadline_ns, 20 * MS);
	expect_text(slow_text, " (slow after 20 ms)");
	cr_assert_eq(ranks_sum_wait(comms[1], &values[1]), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_OK);
	cr_assert_eq(stats_of(0).slow, 1);
	expect_close(group);
	cr_assert_eq(slow_times, 1);
}
