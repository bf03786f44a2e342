/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of a device that hangs while ranks are created: an open, a respawn, a
 * split or a join must return in time, and everything must be freed
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/ranks.h"
#include "support/stuck.h"

#define MS UINT64_C(1000000)
#define RANKS 3

static struct cohort_group_options o;

static void set_up(void)
{
	place_open(RANKS);
	stuck_install();
	cohort_group_options_init(&o);
	o.platform = place_platform();
	o.name = "dp";
}

TestSuite(stuck_device, .init = set_up, .timeout = 60);

/* Wait until the abandoned calls have freed all their resources. */
static void await_nothing_held(void)
{
	const uint64_t deadline = test_deadline(RANKS_SOON);

	while (stuck_held() && test_now() < deadline)
		test_nap();
	cr_assert_eq(stuck_held(), 0, "%d are left", stuck_held());
}

static int open_group(struct cohort_group **group)
{
	return cohort_group_open(NULL, RANKS, &o, group);
}

/* ---- devices whose legacy default stream hangs -------------------------- */

static sem_t over;

static void hang(void *unused)
{
	(void)unused;
	while (sem_wait(&over))
		continue;
}

static void hang_device(const struct platform *p, int device)
{
	cr_assert_eq(p->cudaSetDevice(device), cudaSuccess);
	cr_assert_eq(p->cudaLaunchHostFunc(NULL, hang, NULL), cudaSuccess);
	cr_assert_eq(p->cudaSetDevice(0), cudaSuccess);
}

static void let_device_go(const struct platform *p, int device)
{
	sem_post(&over);
	cr_assert_eq(p->cudaSetDevice(device), cudaSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(NULL), cudaSuccess);
}

static void *split_rank(void *arg)
{
	struct cohort_comm *comm = arg, *child = NULL;
	int32_t value = 1;

	if (cohort_comm_split(comm, 0, 0, &child) != COHORT_OK)
		return NULL;
	if (ranks_sum_wait(child, &value) != COHORT_OK || value != RANKS)
		return NULL;
	return child;
}

static void split_all(struct cohort_comm *comms[], bool works)
{
	pthread_t threads[RANKS];
	void *child;
	int r;

	for (r = 0; r < RANKS; r++)
		pthread_create(&threads[r], NULL, split_rank, comms[r]);
	for (r = 0; r < RANKS; r++) {
		pthread_join(threads[r], &child);
		cr_assert_eq(child != NULL, works);
	}
}

Test(stuck_device, ranks_can_be_created_while_a_default_stream_hangs)
{
	const struct platform *p = place_table();
	struct cohort_comm *comms[RANKS];
	struct cohort_group *group;

	place_need_no_sync("what is made waits for the work that hangs");
	sem_init(&over, 0, 0);
	hang_device(p, 1);
	ranks_must(open_group(&group), "open");
	cr_assert_eq(cohort_group_abort(group, "again"), COHORT_OK);
	ranks_must(cohort_group_respawn(group, NULL, 0), "respawn");
	ranks_must(cohort_group_split(group, comms), "split");
	split_all(comms, true);
	let_device_go(p, 1);
	ranks_must(cohort_group_close(group), "close");
	await_nothing_held();
}

struct joiner {
	const struct cohort_unique_id *id;
	int rank;
};

static void *join(void *arg)
{
	const struct joiner *j = arg;
	struct cohort_comm *comm;

	ranks_must(cohort_comm_join(j->id, 2, j->rank, j->rank, &o, &comm),
	           "join");
	return comm;
}

Test(stuck_device, ranks_can_join_while_a_default_stream_hangs)
{
	const struct platform *p = place_table();
	struct cohort_unique_id id;
	struct joiner j[2];
	pthread_t threads[2];
	void *comm[2];
	int r;

	place_need_no_sync("what is made waits for the work that hangs");
	sem_init(&over, 0, 0);
	hang_device(p, 1);
	place_choose();
	ranks_must(cohort_unique_id(COHORT_PLATFORM_AUTO, &id), "id");
	for (r = 0; r < 2; r++) {
		j[r] = (struct joiner){ &id, r };
		pthread_create(&threads[r], NULL, join, &j[r]);
	}
	for (r = 0; r < 2; r++)
		pthread_join(threads[r], &comm[r]);
	let_device_go(p, 1);
	for (r = 0; r < 2; r++)
		ranks_must(cohort_comm_close(comm[r]), "close");
	await_nothing_held();
}

/* ---- native calls that do not return ------------------------------------ */

static const char *const functions[] = {
	"cudaHostAlloc",
	"cudaStreamCreateWithFlags",
	"cudaEventCreateWithFlags",
	"cudaMalloc",
	"cudaMemsetAsync",
	"cudaStreamSynchronize",
};

#define FUNCTIONS_STUCK (sizeof(functions) / sizeof(functions[0]))

static const char *place_text(const char *function)
{
	static char text[128];

	snprintf(text, sizeof(text), "%s on device 2, for rank 2,", function);
	return text;
}

Test(stuck_device, open_times_out_and_names_the_device_call_that_hangs)
{
	struct cohort_group *group;
	size_t i;

	o.deadlines.init_ns = place_patience_ns(2000 * MS);
	for (i = 0; i < FUNCTIONS_STUCK; i++) {
		stuck_at(functions[i], 2);
		expect(open_group(&group), COHORT_INIT_TIMEOUT,
		       place_text(functions[i]));
		stuck_await();
		stuck_release();
		await_nothing_held();
		cr_assert_eq(stuck_opened(), stuck_aborted());
	}
	o.deadlines.init_ns = 0;
	ranks_must(open_group(&group), "open");
	ranks_must(cohort_group_close(group), "close");
	await_nothing_held();
}

Test(stuck_device, respawn_times_out_if_a_device_hangs_and_can_be_repeated)
{
	struct cohort_group *group;

	o.deadlines.init_ns = place_patience_ns(2000 * MS);
	ranks_must(open_group(&group), "open");
	cr_assert_eq(cohort_group_abort(group, "again"), COHORT_OK);
	stuck_at("cudaMalloc", 2);
	expect(cohort_group_respawn(group, NULL, 0), COHORT_INIT_TIMEOUT,
	       place_text("cudaMalloc"));
	stuck_await();
	ranks_must(cohort_group_respawn(group, (int[]){ 2 }, 1), "respawn");
	stuck_release();
	ranks_must(cohort_group_close(group), "close");
	await_nothing_held();
}

Test(stuck_device, split_times_out_if_a_device_hangs_and_its_parent_ends)
{
	struct cohort_comm *comms[RANKS];
	struct cohort_cause cause;
	struct cohort_group *group;

	o.deadlines.init_ns = place_patience_ns(2000 * MS);
	ranks_must(open_group(&group), "open");
	ranks_must(cohort_group_split(group, comms), "split");
	stuck_at("cudaMalloc", 2);
	split_all(comms, false);
	stuck_await();
	cohort_group_cause(group, &cause);
	cr_assert_eq(cause.kind, COHORT_VERDICT_INIT_STUCK, "%s", cause.text);
	cr_assert_eq(cause.status, COHORT_INIT_TIMEOUT);
	cr_assert_eq(cause.rank, 2, "%s", cause.text);
	expect_text(cause.text, place_text("cudaMalloc"));
	ranks_must(cohort_group_close(group), "close");
	stuck_release();
	await_nothing_held();
}

Test(stuck_device, split_on_a_hung_device_ends_with_its_aborted_parent)
{
	struct cohort_comm *comms[RANKS];
	struct cohort_group *group;
	pthread_t threads[RANKS];
	void *child;
	int r;

	ranks_must(open_group(&group), "open");
	ranks_must(cohort_group_split(group, comms), "split");
	stuck_at("cudaMemsetAsync", 1);
	for (r = 0; r < RANKS; r++)
		pthread_create(&threads[r], NULL, split_rank, comms[r]);
	stuck_await();
	cr_assert_eq(cohort_group_abort(group, "enough"), COHORT_OK);
	for (r = 0; r < RANKS; r++) {
		pthread_join(threads[r], &child);
		cr_assert_null(child);
	}
	ranks_must(cohort_group_close(group), "close");
	stuck_release();
	await_nothing_held();
}
