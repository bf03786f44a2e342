/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of snapshots, which a supervisor can take at any time to learn what the
 * ranks are doing
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/expect.h"
#include "support/ranks.h"
#include "support/spread.h"

#define RANKS 3
#define SIZE sizeof(struct cohort_rank_report)

static struct cohort_group *group;
static struct cohort_comm *comms[RANKS];
static struct cohort_rank_report reports[RANKS + 1];
static int32_t values[RANKS];

TestSuite(snapshot, .timeout = 60);

static void open_ranks(void)
{
	group = ranks_split(RANKS, NULL, comms);
}

static void take_snapshot(void)
{
	ranks_must(cohort_group_snapshot(group, reports, RANKS, SIZE),
	           "snapshot");
}

/* Check that the text of @rank contains @text. */
static void says(int rank, const char *text)
{
	expect_text(reports[rank].text, text);
}

Test(snapshot, snapshot_says_that_no_rank_has_called)
{
	int r;

	open_ranks();
	take_snapshot();
	for (r = 0; r < RANKS; r++) {
		cr_assert_eq(reports[r].rank, r);
		cr_assert_eq(reports[r].device, cohort_comm_device(comms[r]));
		cr_assert_eq(reports[r].joined, 0);
		cr_assert_eq(reports[r].tid, 0);
		cr_assert_eq(reports[r].ticket, 0);
		cr_assert_str_eq(reports[r].stack, "");
		says(r, " has never called anything");
	}
	expect_close(group);
}

static sem_t is_bound, may_go;

static void *bind_and_wait(void *tid)
{
	pthread_setname_np(pthread_self(), "worker/1");
	*(int *)tid = gettid();
	ranks_must(cohort_comm_bind(comms[1]), "bind");
	ranks_must(cohort_tag(comms[1], "step 7"), "tag");
	ranks_sum(comms[1], &values[1]);
	sem_post(&is_bound);
	while (sem_wait(&may_go))
		continue;
	ranks_must(cohort_comm_unbind(comms[1]), "unbind");
	return NULL;
}

Test(snapshot, snapshot_names_ranks_that_have_called_and_their_threads,
     .init = ranks_launch_ahead)
{
	pthread_t thread;
	char text[128];
	int tid;

	sem_init(&is_bound, 0, 0);
	sem_init(&may_go, 0, 0);
	open_ranks();
	ranks_sum(comms[0], &values[0]);
	pthread_create(&thread, NULL, bind_and_wait, &tid);
	while (sem_wait(&is_bound))
		continue;
	take_snapshot();
	cr_assert_eq(reports[0].joined, 1);
	cr_assert_eq(reports[0].bound, 0);
	cr_assert_eq(reports[0].tid, gettid());
	cr_assert_eq(reports[0].ticket, 1);
	cr_assert_str_eq(reports[0].call, "all_reduce of 1 int32, sum");
	says(0, "rank 0 (device 0, last seen in thread ");
	cr_assert_eq(reports[1].joined, 1);
	cr_assert_eq(reports[1].bound, 1);
	cr_assert_eq(reports[1].alive, 1);
	cr_assert_str_eq(reports[1].tag, "step 7");
	snprintf(text, sizeof(text),
	         "rank 1 (thread %d \"worker/1\", device 1)", tid);
	says(1, text);
	cr_assert_eq(reports[2].joined, 0);
	ranks_sum(comms[2], &values[2]);
	cr_assert_eq(cohort_synchronize(comms[0], RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[1], RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_synchronize(comms[2], RANKS_SOON), COHORT_OK);
	take_snapshot();
	cr_assert_eq(reports[1].joined, 0);
	says(1, "\", device 1) is alive, busy in the program; its last call, "
	        "all_reduce of 1 int32, sum (ticket 1, tag \"step 7\"), was ");
	sem_post(&may_go);
	pthread_join(thread, NULL);
	expect_close(group);
}

static void *sum_on_rank_1(void *unused)
{
	ranks_sum_wait(comms[1], &values[1]);
	return unused;
}

/* Take a snapshot while a rank is stuck in its native call, and another one
 * after the group has a cause. */
Test(snapshot, snapshot_works_during_a_hang_and_after_a_cause,
     .init = ranks_launch_ahead)
{
	pthread_t thread;

	open_ranks();
	ranks_fault(1, 0, COHORT_FAULT_STUCK, 0);
	pthread_create(&thread, NULL, sum_on_rank_1, NULL);
	do {
		sched_yield();
		take_snapshot();
	} while (!reports[1].inside || !reports[1].joined);
	says(1, "\", device 1) has been inside ncclAllReduce for ");
	cr_assert_eq(reports[1].alive, 1);
	ranks_must(cohort_group_abort(group, "enough"), "abort");
	take_snapshot();
	pthread_join(thread, NULL);
	take_snapshot();
	cr_assert_eq(reports[1].inside, 0);
	cr_assert_str_eq(reports[1].call, "all_reduce of 1 int32, sum");
	expect_close(group);
}

Test(snapshot, snapshot_shows_the_current_generation)
{
	const int lost = 1;
	int r;

	open_ranks();
	ranks_must(cohort_group_abort(group, "enough"), "abort");
	ranks_must(cohort_group_respawn(group, &lost, 1), "respawn");
	take_snapshot();
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(reports[r].rank, r < 2 ? r : -1);
	cr_assert_eq(reports[1].device, 2);
	cr_assert_str_eq(reports[2].stack, "");
	expect_close(group);
}

/* Have rank 0 take a snapshot of a child communicator of ranks 0 and 2. */
static int look_at_child(struct cohort_comm *comm, void *unused)
{
	const int rank = cohort_comm_rank(comm);
	struct cohort_comm *child;

	(void)unused;
	ranks_must(cohort_comm_split(comm, rank % 2, rank, &child), "split");
	if (rank == 2)
		ranks_must(cohort_comm_snapshot(child, reports, RANKS, SIZE),
		           "snapshot");
	return 0;
}

Test(snapshot, snapshot_of_a_child_shows_only_its_ranks)
{
	spread_not("snapshots are of a process's own ranks");
	group = ranks_open(RANKS, NULL);
	expect_run_in(group, look_at_child, NULL);
	cr_assert_eq(reports[0].rank, 0);
	cr_assert_eq(reports[1].rank, 1);
	cr_assert_eq(reports[1].device, 2);
	says(1, "rank 2 (1 in \"cohort.0\", device 2, last seen in thread ");
	cr_assert_eq(reports[2].rank, -1);
	expect_close(group);
}

/* Callers of other versions pass shorter or longer reports. */
Test(snapshot, snapshot_fills_no_more_than_the_callers_size)
{
	static struct {
		struct cohort_rank_report report;
		uint64_t more[2];
	} longer[RANKS];
	const size_t least = offsetof(struct cohort_rank_report, reserved);
	static _Alignas(8) char shorter[RANKS * SIZE];
	const struct cohort_rank_report *second = (void *)(shorter + least);
	int r;

	open_ranks();
	memset(longer, 0x55, sizeof(longer));
	ranks_must(cohort_group_snapshot(group, &longer[0].report, RANKS,
	                                 sizeof(longer[0])),
	           "longer");
	for (r = 0; r < RANKS; r++) {
		cr_assert_eq(longer[r].report.rank, r);
		cr_assert_eq(longer[r].more[0] | longer[r].more[1], 0);
	}
	memset(shorter, 0x55, sizeof(shorter));
	ranks_must(cohort_group_snapshot(group, (void *)shorter, RANKS, least),
	           "shorter");
	cr_assert_eq(second->rank, 1);
	cr_assert_eq(shorter[RANKS * least], 0x55);
	expect_close(group);
}

Test(snapshot, snapshot_names_the_invalid_argument)
{
	struct cohort_rank_report before;

	open_ranks();
	memset(&reports[0], 0x55, SIZE);
	before = reports[0];
	expect(cohort_group_snapshot(NULL, reports, RANKS, SIZE),
	       COHORT_INVALID, "group is NULL");
	expect(cohort_comm_snapshot(NULL, reports, RANKS, SIZE), COHORT_INVALID,
	       "comm is NULL");
	expect(cohort_group_snapshot(group, NULL, RANKS, SIZE), COHORT_INVALID,
	       "ranks is NULL");
	expect(cohort_group_snapshot(group, reports, RANKS - 1, SIZE),
	       COHORT_INVALID, "room is 2, less than the 3 ranks");
	expect(cohort_comm_snapshot(comms[0], reports, -1, SIZE),
	       COHORT_INVALID, "room is -1, less than the 3 ranks");
	expect(cohort_group_snapshot(group, reports, RANKS, 0), COHORT_INVALID,
	       "rank_size is 0, not sizeof(struct cohort_rank_report)");
	expect(cohort_group_snapshot(group, reports, RANKS, SIZE + 4),
	       COHORT_INVALID, "rank_size is ");
	expect(cohort_group_snapshot(group, reports, RANKS, 1 << 20),
	       COHORT_INVALID, "rank_size is 1048576");
	cr_assert_eq(memcmp(&before, &reports[0], SIZE), 0);
	expect_close(group);
}
