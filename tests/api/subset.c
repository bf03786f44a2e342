/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of cohort_comm_subset(), which only the members of the new communicator
 * call
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "support/expect.h"
#include "support/place.h"
#include "support/ranks.h"
#include "support/spread.h"

TestSuite(subset, .timeout = 60);

#define MS UINT64_C(1000000)
#define RANKS 4

SPREAD_SHARED static struct cohort_unique_id ids[2];
SPREAD_SHARED static struct spread_barrier barriers[3];

static struct cohort_cause cause;

static void must_sum(struct cohort_comm *c, int32_t value, int32_t sum)
{
	ranks_must(ranks_sum_wait(c, &value), "sum");
	cr_assert_eq(value, sum, "%d", (int)value);
}

/* Store the ids, on rank 0 of @c, for use by all ranks. */
static void make_ids(struct cohort_comm *c)
{
	int i;

	for (i = 0; i < 2 && cohort_comm_rank(c) == 0; i++)
		ranks_must(cohort_unique_id(cohort_comm_platform(c), &ids[i]),
		           "id");
	spread_wait(&barriers[0], cohort_comm_size(c));
}

static struct cohort_comm *join(struct cohort_comm *c, int id, int a, int b,
                                const char *name)
{
	const int ranks[] = { a, b };
	struct cohort_comm *child = NULL;

	ranks_must(cohort_comm_subset(c, &ids[id], ranks, 2, name, &child),
	           "subset");
	return child;
}

static void stall(int n, cohort_worker_fn worker)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	cohort_group_options_init(&o);
	o.name = "world";
	o.deadlines.join_ns = o.deadlines.exec_ns = 200 * MS;
	group = ranks_open(n, &o);
	cr_assert_neq(cohort_group_run(group, worker, NULL, &cause), COHORT_OK);
	expect_close(group);
}

/* ---- members ------------------------------------------------------------ */

/* Create a communicator of ranks 2 and 0 without a call of ranks 1 and 3. */
static int of_two(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *child;

	(void)user;
	make_ids(c);
	if (rank % 2 == 0) {
		child = join(c, 0, 2, 0, "pair");
		cr_assert_eq(cohort_comm_rank(child), rank ? 0 : 1);
		cr_assert_eq(cohort_comm_size(child), 2);
		cr_assert_eq(cohort_comm_origin(child), rank);
		cr_assert_eq(cohort_comm_device(child), cohort_comm_device(c));
		must_sum(child, rank + 1, 1 + 3);
		ranks_must(cohort_comm_close(child), "close");
	}
	must_sum(c, 1, RANKS);
	return 0;
}

Test(subset, subset_is_called_only_by_its_members)
{
	struct cohort_group *group = ranks_open(RANKS, NULL);

	expect_run_in(group, of_two, NULL);
	expect_close(group);
}

/* A thread that calls cohort_comm_subset() for a rank */
struct helper {
	struct cohort_comm *comm, *child;
	int rc;
	pthread_t thread;
};

static void *help(void *arg)
{
	static const int ranks[] = { 0, 1 };
	struct helper *h = arg;

	h->rc = cohort_comm_subset(h->comm, &ids[0], ranks, 2, NULL, &h->child);
	return NULL;
}

static void start(struct helper *h, struct cohort_comm *c)
{
	h->comm = c;
	cr_assert_eq(pthread_create(&h->thread, NULL, help, h), 0);
}

/* Wait until the helper thread is inside its call on the communicator. */
static void await_held(struct cohort_comm *c)
{
	struct cohort_rank_report all[RANKS];

	do
		ranks_must(cohort_comm_snapshot(c, all, RANKS, sizeof(all[0])),
		           "snapshot");
	while (!all[cohort_comm_rank(c)].inside);
}

Test(subset, communicator_can_be_used_but_not_closed_during_a_subset)
{
	struct cohort_comm *comms[2];
	struct cohort_group *group;
	struct helper h[2] = { { .rc = 0 } };
	int32_t x[2] = { 1, 2 };
	uint64_t tickets[2];
	int r;

	spread_not("one thread makes the calls of both ranks");
	place_need_no_sync("one thread makes the calls of both ranks");
	group = ranks_ahead(2, NULL, comms);
	ranks_must(cohort_unique_id(place_platform(), &ids[0]), "id");
	start(&h[0], comms[0]);
	await_held(comms[0]);
	for (r = 0; r < 2; r++)
		tickets[r] = ranks_sum(comms[r], &x[r]);
	for (r = 0; r < 2; r++)
		ranks_must(cohort_wait(comms[r], tickets[r], RANKS_SOON),
		           "wait");
	cr_assert_eq(x[0], 3);
	cr_assert_eq(cohort_comm_close(comms[0]), COHORT_BUSY);
	cr_assert_eq(cohort_group_close(group), COHORT_STATE);
	start(&h[1], comms[1]);
	for (r = 0; r < 2; r++) {
		pthread_join(h[r].thread, NULL);
		cr_assert_eq(h[r].rc, COHORT_OK);
		cr_assert_eq(cohort_comm_rank(h[r].child), r);
	}
	expect_close(group);
}

/* ---- ends --------------------------------------------------------------- */

Test(subset, subset_that_waits_ends_with_its_communicator)
{
	struct cohort_comm *comms[2];
	struct cohort_abort *abort;
	struct cohort_group *group;
	struct helper h = { .rc = 0 };

	spread_not("one thread makes the calls of both ranks");
	group = ranks_split(2, NULL, comms);
	ranks_must(cohort_unique_id(place_platform(), &ids[0]), "id");
	start(&h, comms[0]);
	await_held(comms[0]);
	abort = cohort_comm_abort_handle(comms[1]);
	cr_assert_not_null(abort);
	ranks_must(cohort_abort_fire(abort, "test"), "abort");
	cohort_abort_put(abort);
	pthread_join(h.thread, NULL);
	cr_assert_eq(h.rc, COHORT_ABORTED);
	cr_assert_null(h.child);
	expect_close(group);
}

/* Rank 2 waits for rank 0, which calls only after rank 2 has given up. */
static int in_vain(struct cohort_comm *c, void *user)
{
	static const int ranks[] = { 2, 0 };
	struct cohort_comm *child;
	int rc;

	(void)user;
	make_ids(c);
	if (cohort_comm_rank(c) == 2) {
		rc = cohort_comm_subset(c, &ids[0], ranks, 2, NULL, &child);
		expect(rc, COHORT_INIT_TIMEOUT,
		       "rank 0 has not called comm_subset for \"world.subset\" "
		       "within 2000 ms; rank 2 waits");
	}
	spread_wait(&barriers[1], cohort_comm_size(c));
	if (cohort_comm_rank(c) == 0) {
		rc = cohort_comm_subset(c, &ids[0], ranks, 2, NULL, &child);
		expect(rc, COHORT_INIT_TIMEOUT,
		       "rank 0 is too late: rank 0 has not called comm_subset "
		       "for \"world.subset\" within 2000 ms; rank 2 waits");
	}
	must_sum(c, 1, 3);
	return 0;
}

Test(subset, subset_names_a_missing_member_and_its_parent_continues)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	spread_not("the message says that rank 0 may be in another process");
	cohort_group_options_init(&o);
	o.name = "world";
	o.deadlines.init_ns = 2000 * MS;
	group = ranks_open(3, &o);
	expect_run_in(group, in_vain, NULL);
	expect_close(group);
}

/* Ranks 0 and 1 wait for rank 2 in a subset, and return the timeout. Rank 2
 * hangs or, if @user is not NULL, waits for ranks 0 and 1 in a sum. */
static int give_up(struct cohort_comm *c, void *user)
{
	static const int ranks[] = { 0, 1, 2 };
	struct cohort_comm *child;
	int32_t x = 1;

	make_ids(c);
	if (cohort_comm_rank(c) < 2)
		return cohort_comm_subset(c, &ids[0], ranks, 3, NULL, &child);
	if (user)
		return ranks_sum_wait(c, &x);
	while (cohort_comm_cause(c, &cause) == COHORT_OK &&
	       cause.status == COHORT_OK)
		sched_yield();
	return 0;
}

static void expect_blame(void *user, int rank, const char *activity)
{
	struct cohort_group_options o;
	struct cohort_group *group;
	int lost[3];

	spread_not("the message says what rank 2 of this process does");
	cohort_group_options_init(&o);
	o.deadlines.init_ns = 2000 * MS;
	group = ranks_open(3, &o);
	cause = expect_end_of_run(group, give_up, user, COHORT_INIT_TIMEOUT);
	cr_assert_eq(cause.rank, rank, "%s", cause.text);
	cr_assert_eq(cause.missing[0], rank < 0 ? 0 : UINT64_C(1) << rank);
	cr_assert_eq(cohort_group_lost(group, lost, 3), rank >= 0);
	expect_text(cause.text, "rank 2 has not called ");
	expect_text(cause.text, activity);
	expect_close(group);
}

Test(subset, rank_that_returns_the_timeout_of_a_subset_is_not_blamed)
{
	expect_blame(NULL, 2, "busy in the program");
}

Test(subset, ranks_that_wait_for_each_other_in_a_subset_are_not_blamed)
{
	expect_blame(&ids, -1, "waits in all_reduce 1 of group ");
}

/* Rank 0 waits for rank 2, whose worker returns. If @user is NULL, rank 2 first
 * closes its communicator. */
static int left_alone(struct cohort_comm *c, void *user)
{
	static const int ranks[] = { 0, 2 };
	struct cohort_comm *child;

	make_ids(c);
	if (cohort_comm_rank(c) == 2 && !user)
		ranks_must(cohort_comm_close(c), "close");
	if (cohort_comm_rank(c) != 0)
		return 0;
	return cohort_comm_subset(c, &ids[0], ranks, 2, NULL, &child);
}

/* Check that rank 0 stops waiting for rank 2 before the init deadline, which is
 * longer than the test's timeout. */
static void expect_left(void *user, const char *how)
{
	struct cohort_group_options o;
	struct cohort_group *group;
	int rc;

	cohort_group_options_init(&o);
	o.deadlines.init_ns = 600000 * MS;
	group = ranks_open(3, &o);
	rc = cohort_group_run(group, left_alone, user, &cause);
	expect_close(group);
	if (spread_first(3) > 0)
		return;
	cr_assert_eq(rc, COHORT_INIT_TIMEOUT, "%s", cause.text);
	cr_assert_eq(cause.rank, 2, "%s", cause.text);
	cr_assert_eq(cause.kind, COHORT_VERDICT_LEFT);
	expect_text(cause.text, how);
	expect_text(cause.text, "; rank 0 waits in comm_subset for ");
}

Test(subset, subset_ends_at_once_if_a_member_has_closed)
{
	expect_left(NULL, spread_processes() > 1
	                          ? "has closed the "
	                          : ") has left with cohort_comm_close()");
}

Test(subset, subset_ends_at_once_if_a_members_worker_has_returned)
{
	spread_not("the worker may run again in the other process");
	expect_left(&ids, ") has left: its worker returned 0");
}

/* Rank 2 waits for rank 0, which calls only after rank 2 has given up and
 * closed its communicator. */
static int too_late(struct cohort_comm *c, void *user)
{
	static const int ranks[] = { 2, 0 };
	struct cohort_comm *child;

	(void)user;
	make_ids(c);
	if (cohort_comm_rank(c) == 2) {
		expect(cohort_comm_subset(c, &ids[0], ranks, 2, NULL, &child),
		       COHORT_INIT_TIMEOUT, "rank 0 has not called ");
		ranks_must(cohort_comm_close(c), "close");
	}
	spread_wait(&barriers[1], 3);
	if (cohort_comm_rank(c) == 0)
		expect(cohort_comm_subset(c, &ids[0], ranks, 2, NULL, &child),
		       COHORT_INIT_TIMEOUT, "rank 0 is too late: ");
	return 0;
}

Test(subset, late_member_is_told_so_even_if_another_has_left)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	spread_not("an ended subset is known only in its process");
	cohort_group_options_init(&o);
	o.deadlines.init_ns = 2000 * MS;
	group = ranks_open(3, &o);
	expect_run_in(group, too_late, NULL);
	expect_close(group);
}

/* Close rank 2's communicator. Then make a subset on rank 0 and, after that has
 * failed, on rank 1. */
static int third(struct cohort_comm *c, void *user)
{
	static const int ranks[] = { 0, 1, 2 };
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *child;

	(void)user;
	make_ids(c);
	if (rank == 2)
		ranks_must(cohort_comm_close(c), "close");
	if (rank == 1)
		spread_wait(&barriers[1], 2);
	if (rank < 2)
		expect(cohort_comm_subset(c, &ids[0], ranks, 3, NULL, &child),
		       COHORT_INIT_TIMEOUT, "has left with");
	if (rank == 0)
		spread_wait(&barriers[1], 2);
	return 0;
}

Test(subset, late_member_does_not_wait_for_one_that_has_left)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	spread_not("an ended subset is known only in its process");
	cohort_group_options_init(&o);
	o.deadlines.init_ns = 600000 * MS;
	group = ranks_open(3, &o);
	expect_run_in(group, third, NULL);
	expect_close(group);
}

/* Join ranks 0 to 2 by an id, close rank 1's communicator, and make a subset of
 * the others. */
static void *join_and_part(void *arg)
{
	const int rank = (int)(intptr_t)arg;
	struct cohort_comm *c, *child;

	ranks_must(cohort_comm_join(&ids[0], 3, rank, rank, NULL, &c), "join");
	if (rank != 1) {
		child = join(c, 1, 0, 2, NULL);
		must_sum(child, 1, 2);
		ranks_must(cohort_comm_close(child), "close of the subset");
	}
	ranks_must(cohort_comm_close(c), "close");
	return NULL;
}

Test(subset, ranks_that_have_joined_by_an_id_can_make_a_subset)
{
	pthread_t threads[3];
	int r;

	place_need(3);
	for (r = 0; r < 2 && spread_first(3) == 0; r++)
		ranks_must(cohort_unique_id(place_platform(), &ids[r]), "id");
	spread_wait(&barriers[0], spread_processes());
	for (r = spread_first(3); r < spread_end(3); r++)
		pthread_create(&threads[r], NULL, join_and_part,
		               (void *)(intptr_t)r);
	for (r = spread_first(3); r < spread_end(3); r++)
		pthread_join(threads[r], NULL);
}

/* ---- verdicts ----------------------------------------------------------- */

/* Rank 3 hangs. Rank 0 waits for rank 3 in a subset, and ranks 1 and 2 wait for
 * both in a sum. */
static int waiting(struct cohort_comm *c, void *user)
{
	static const int ranks[] = { 0, 3 };
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *child;
	int32_t x = 1;

	(void)user;
	make_ids(c);
	if (rank == 0)
		return cohort_comm_subset(c, &ids[0], ranks, 2, NULL, &child);
	if (rank == 3) {
		while (cohort_comm_cause(c, &cause) == COHORT_OK &&
		       cause.status == COHORT_OK)
			sched_yield();
		return 0;
	}
	return ranks_sum_wait(c, &x);
}

Test(subset, rank_that_waits_in_a_subset_is_not_blamed)
{
	spread_not("the worker of rank 3 polls");
	stall(RANKS, waiting);
	cr_assert_eq(cause.rank, 3, "%s", cause.text);
	expect_text(cause.details, "rank 0 waits in comm_subset of group "
	                           "\"world\" for rank 3");
}

static struct cohort_cause ended;

/* Rank 0 waits for rank 1 in subset "a", and rank 1 waits in subset "b" for
 * rank 2, which makes no call. "a" ends after "b". */
static int chain(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);
	struct cohort_comm *a = NULL, *b = NULL;
	int32_t x = 1;

	(void)user;
	make_ids(c);
	if (rank < 2)
		a = join(c, 0, 0, 1, "a");
	if (rank > 0)
		b = join(c, 1, 1, 2, "b");
	if (rank == 0)
		spread_wait(&barriers[1], 2);
	if (rank == 1) {
		ranks_sum(b, &x);
		spread_wait(&barriers[1], 2);
		cr_assert_eq(cohort_synchronize(b, RANKS_SOON), COHORT_STALLED);
	}
	if (rank == 0) {
		cr_assert_eq(ranks_sum_wait(a, &x), COHORT_STALLED);
		ranks_must(cohort_comm_cause(a, &ended), "cause");
	}
	spread_wait(&barriers[2], 3);
	return 1;
}

Test(subset, verdict_blames_a_rank_that_an_ended_subset_waited_for)
{
	spread_not("the test reads the cause of rank 0");
	place_need_no_sync("ranks call in communicators by turns");
	ranks_launch_ahead();
	stall(3, chain);
	cr_assert_eq(ended.world_rank, 2, "%s", ended.text);
	expect_text(ended.text, "rank 2 ");
	expect_text(ended.text, "has not called all_reduce 1 of \"b\"");
}

/* ---- wrong arguments ---------------------------------------------------- */

static void expect_refused(struct cohort_comm *c,
                           const struct cohort_unique_id *id, const int *ranks,
                           int n, const char *error)
{
	struct cohort_comm *child;

	expect(cohort_comm_subset(c, id, ranks, n, NULL, &child),
	       COHORT_INVALID, error);
}

Test(subset, subset_names_the_invalid_argument)
{
	static const int own[] = { 0 }, both[] = { 0, 1 }, twice[] = { 0, 0 },
			 far[] = { 0, 2 }, other[] = { 1 };
	static const struct cohort_unique_id no_id;
	struct cohort_comm *comms[2];
	struct cohort_group *group;

	spread_not("one thread makes the calls of both ranks");
	group = ranks_split(2, NULL, comms);
	ranks_must(cohort_unique_id(place_platform(), &ids[0]), "id");
	expect_refused(NULL, &ids[0], own, 1, "comm is NULL");
	expect_refused(comms[0], NULL, own, 1, "comm_subset: id is NULL");
	expect_refused(comms[0], &ids[0], NULL, 1, "ranks is NULL");
	expect_refused(comms[0], &ids[0], own, 0, "n is 0, not 1 to 2");
	expect_refused(comms[0], &ids[0], both, 3, "n is 3, not 1 to 2");
	expect_refused(comms[0], &ids[0], twice, 2,
	               "ranks[1] is 0, which is already in the list");
	expect_refused(comms[0], &ids[0], far, 2, "ranks[1] is 2, not 0 to 1");
	expect_refused(comms[0], &ids[0], other, 1,
	               "ranks does not contain 0, the calling rank");
	expect_refused(comms[0], &no_id, own, 1,
	               "id was not made by cohort_unique_id()");
	cr_assert_eq(cohort_unique_id(77, &ids[0]), COHORT_INVALID);
	expect_close(group);
}
