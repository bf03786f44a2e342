/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of joins by unique id, with one thread for each rank, and of refused
 * joins
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/native.h"
#include "support/ranks.h"

TestSuite(join, .timeout = 60);

/* A thread that joins, and its results */
struct joiner {
	const struct cohort_unique_id *id;
	int size;
	int rank;
	int device;
	uint64_t init_ns; /* init deadline, or 0 for the default */
	uint64_t join_ns;
	struct cohort_abort *abort;
	struct cohort_comm *comm;
	int rc;
	char error[512];
	pthread_t thread;
};

static void *join_main(void *arg)
{
	struct joiner *j = arg;
	struct cohort_group_options o;

	cohort_group_options_init(&o);
	o.platform = place_platform();
	o.abort = j->abort;
	if (j->init_ns)
		o.deadlines.init_ns = j->init_ns;
	if (j->join_ns)
		o.deadlines.join_ns = j->join_ns;
	j->rc = cohort_comm_join(j->id, j->size, j->rank, j->device, &o,
	                         &j->comm);
	snprintf(j->error, sizeof(j->error), "%s", cohort_last_error());
	return NULL;
}

static void start(struct joiner *j)
{
	cr_assert_eq(pthread_create(&j->thread, NULL, join_main, j), 0);
}

/* Start @n ranks, in reverse order. Rank r uses device n - 1 - r. */
static void start_all(struct joiner *j, int n,
                      const struct cohort_unique_id *id)
{
	int r;

	place_need(n);
	for (r = n - 1; r >= 0; r--) {
		j[r].id = id;
		j[r].size = n;
		j[r].rank = r;
		j[r].device = n - 1 - r;
		start(&j[r]);
	}
}

static void join_all(struct joiner *j, int n)
{
	int r;

	for (r = 0; r < n; r++) {
		pthread_join(j[r].thread, NULL);
		cr_assert_eq(j[r].rc, COHORT_OK, "rank %d: %s", r, j[r].error);
	}
}

static struct cohort_unique_id new_id(void)
{
	struct cohort_unique_id id;

	place_choose();
	place_need(1);
	ranks_must(cohort_unique_id(COHORT_PLATFORM_AUTO, &id), "unique id");
	return id;
}

Test(join, threads_that_join_form_one_communicator)
{
	const struct cohort_unique_id id = new_id();
	struct joiner j[3] = { { .rc = 0 } };
	uint64_t t[3];
	int32_t x[3];
	int r;

	ranks_launch_ahead();
	start_all(j, 3, &id);
	join_all(j, 3);
	for (r = 0; r < 3; r++) {
		cr_assert_eq(cohort_comm_rank(j[r].comm), r);
		cr_assert_eq(cohort_comm_size(j[r].comm), 3);
		cr_assert_eq(cohort_comm_device(j[r].comm), 2 - r);
		cr_assert_eq(cohort_comm_generation(j[r].comm), 1);
		cr_assert_eq(cohort_comm_origin(j[r].comm), r);
		x[r] = r + 1;
		t[r] = ranks_sum(j[r].comm, &x[r]);
	}
	for (r = 0; r < 3; r++) {
		cr_assert_eq(cohort_wait(j[r].comm, t[r], RANKS_SOON),
		             COHORT_OK);
		cr_assert_eq(x[r], 6);
	}
	for (r = 0; r < 3; r++)
		cr_assert_eq(cohort_comm_close(j[r].comm), COHORT_OK);
}

Test(join, one_rank_can_join_alone)
{
	const struct cohort_unique_id id = new_id();
	struct joiner j = { .id = &id, .size = 1 };
	int32_t x = 7;

	j.device = place_devices() - 1;
	join_main(&j);
	cr_assert_eq(j.rc, COHORT_OK, "%s", j.error);
	cr_assert_eq(ranks_sum_wait(j.comm, &x), COHORT_OK);
	cr_assert_eq(cohort_comm_close(j.comm), COHORT_OK);
}

/*
 * Return whether joins must not overlap. On NVIDIA's NCCL, launching together
 * does not protect a join while another join connects ranks or while a group is
 * aborted (docs/gpu.md).
 */
static bool joins_one_after_the_other(void)
{
	return place_is_nvidia();
}

Test(join, joins_with_different_ids_form_different_communicators)
{
	const struct cohort_unique_id id[2] = { new_id(), new_id() };
	struct joiner a[2] = { { .rc = 0 } }, b[2] = { { .rc = 0 } };

	start_all(a, 2, &id[0]);
	if (joins_one_after_the_other())
		join_all(a, 2);
	start_all(b, 2, &id[1]);
	if (!joins_one_after_the_other())
		join_all(a, 2);
	join_all(b, 2);
	cr_assert_eq(cohort_comm_close(a[0].comm), COHORT_OK);
	cr_assert_eq(cohort_comm_close(a[1].comm), COHORT_OK);
	cr_assert_eq(cohort_comm_size(b[0].comm), 2);
	cr_assert_eq(cohort_comm_close(b[1].comm), COHORT_OK);
	cr_assert_eq(cohort_comm_close(b[0].comm), COHORT_OK);
}

Test(join, abort_handle_of_any_joined_rank_ends_all)
{
	const struct cohort_unique_id id = new_id();
	struct joiner j[2] = { { .rc = 0 } };
	struct cohort_abort *handle;
	int32_t x = 1;
	uint64_t t;

	ranks_launch_ahead();
	start_all(j, 2, &id);
	join_all(j, 2);
	t = ranks_sum(j[0].comm, &x);
	handle = cohort_comm_abort_handle(j[1].comm);
	cr_assert_eq(cohort_abort_fire(handle, "enough"), COHORT_OK);
	cr_assert_eq(cohort_wait(j[0].comm, t, RANKS_SOON), COHORT_ABORTED);
	cr_assert_eq(cohort_comm_close(j[0].comm), COHORT_ABORTED);
	cr_assert_eq(cohort_comm_close(j[1].comm), COHORT_OK);
	cr_assert_eq(cohort_abort_fire(handle, "again"), COHORT_ALREADY);
	cohort_abort_put(handle);
}

Test(join, verdict_and_mismatch_name_joined_ranks_by_number)
{
	const struct cohort_unique_id id[2] = { new_id(), new_id() };
	struct joiner j[3] = { { .rc = 0 } }, k[3] = { { .rc = 0 } };
	struct cohort_cause cause;
	int32_t x[3] = { 0 };
	uint64_t t;
	int r;

	ranks_launch_ahead();
	for (r = 0; r < 3; r++)
		j[r].join_ns = 20000000;
	start_all(j, 3, &id[0]);
	join_all(j, 3);
	ranks_must(cohort_pause(j[0].comm), "pause");
	ranks_sum(j[0].comm, &x[0]);
	t = ranks_sum(j[1].comm, &x[1]);
	ranks_must(cohort_resume(j[0].comm), "resume");
	cr_assert_eq(cohort_wait(j[1].comm, t, RANKS_SOON), COHORT_STALLED);
	cohort_comm_cause(j[0].comm, &cause);
	cr_assert_eq(cause.rank, 2, "%s", cause.text);
	cr_assert_eq(cause.missing[0], 4);

	for (r = 0; r < 3 && joins_one_after_the_other(); r++)
		cohort_comm_close(j[r].comm);
	start_all(k, 3, &id[1]);
	join_all(k, 3);
	ranks_sum(k[0].comm, &x[0]);
	ranks_sum(k[2].comm, &x[2]);
	cr_assert_eq(cohort_barrier(k[1].comm, NULL, NULL), COHORT_MISMATCH);
	cohort_comm_cause(k[0].comm, &cause);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	for (r = 0; r < 3; r++) {
		if (!joins_one_after_the_other())
			cohort_comm_close(j[r].comm);
		cohort_comm_close(k[r].comm);
	}
}

static struct cohort_comm *joined;
static sem_t answered;
static int answer;

static int close_it(const struct cohort_verdict *verdict, void *user)
{
	(void)verdict;
	(void)user;
	answer = cohort_comm_close(joined);
	sem_post(&answered);
	return 0;
}

Test(join, on_verdict_may_not_close_its_own_joined_rank)
{
	const struct cohort_unique_id id = new_id();
	struct cohort_group_options o;
	struct cohort_abort *handle;

	cohort_group_options_init(&o);
	o.on_verdict = close_it;
	sem_init(&answered, 0, 0);
	ranks_must(cohort_comm_join(&id, 1, 0, 0, &o, &joined), "join");
	cr_assert_eq(cohort_comm_platform(joined), place_platform());
	cr_assert_eq(cohort_comm_platform(NULL), -1);
	handle = cohort_comm_abort_handle(joined);
	cohort_abort_fire(handle, NULL);
	while (sem_wait(&answered))
		continue;
	cr_assert_eq(answer, COHORT_STATE);
	cr_assert_eq(cohort_comm_close(joined), COHORT_OK);
	cohort_abort_put(handle);
}

/* ---- refusals --------------------------------------------------------- */

static void refused(struct joiner *j, int rc, const char *text)
{
	j->comm = NULL;
	join_main(j);
	cr_assert_eq(j->rc, rc, "%d: %s", j->rc, j->error);
	expect_text(j->error, text);
	cr_assert_null(j->comm);
}

Test(join, comm_join_names_the_invalid_argument_and_its_value)
{
	const struct cohort_unique_id id = new_id(), none = { { 1 } };
	struct cohort_comm *comm;
	struct joiner j = { .id = &id, .size = 2 };

	j.size = 0;
	refused(&j, COHORT_INVALID, "nranks is 0");
	j.size = COHORT_MAX_RANKS + 1;
	refused(&j, COHORT_INVALID, "nranks is 1025");
	j.size = 2;
	j.rank = 2;
	refused(&j, COHORT_INVALID, "rank is 2, not 0 to 1");
	j.rank = -1;
	refused(&j, COHORT_INVALID, "rank is -1");
	j.rank = 0;
	j.device = 1000;
	refused(&j, COHORT_INVALID, "device is 1000");
	j.device = 0;
	j.id = &none;
	refused(&j, COHORT_INVALID, "id was not made by cohort_unique_id()");
	cr_assert_eq(cohort_comm_join(NULL, 1, 0, 0, NULL, &comm),
	             COHORT_INVALID);
	cr_assert_eq(cohort_comm_join(&id, 1, 0, 0, NULL, NULL),
	             COHORT_INVALID);
	cr_assert_eq(cohort_unique_id(COHORT_PLATFORM_AUTO, NULL),
	             COHORT_INVALID);
}

Test(join, host_platform_joins_only_ranks_of_one_process)
{
	struct cohort_unique_id id = new_id();
	struct joiner j = { .id = &id, .size = 2 };

	place_need_one_process("joins of one process alone");
	/* Make the id look like one from an earlier process with the same
	 * pid. */
	id.bytes[16] ^= 1;
	refused(&j, COHORT_UNSUPPORTED, "ranks of one process");
}

/* Start two threads that join as the same rank. One of them must be refused. */
static struct joiner *start_twins(struct joiner *twins)
{
	struct joiner *second;

	start(&twins[0]);
	start(&twins[1]);
	/* Find the refused thread. The other one waits for rank 1. */
	while (pthread_tryjoin_np(twins[0].thread, NULL))
		if (!pthread_tryjoin_np(twins[1].thread, NULL))
			break;
	second = twins[0].rc == COHORT_INVALID ? &twins[0] : &twins[1];
	cr_assert_eq(second->rc, COHORT_INVALID, "%s", second->error);
	expect_text(second->error, "rank is 0, but that rank has");
	return second == twins ? twins + 1 : twins;
}

Test(join, comm_join_refuses_ranks_that_do_not_match)
{
	const struct cohort_unique_id id = new_id();
	struct joiner twins[2], other = { .id = &id, .size = 2, .rank = 1 };
	struct joiner *first;

	place_need(2);
	twins[0] = twins[1] = (struct joiner){ .id = &id, .size = 2 };
	first = start_twins(twins);

	other.size = 3;
	refused(&other, COHORT_INVALID, "nranks is 3, but other");
	other.size = 2;
	refused(&other, COHORT_INVALID,
	        "device is 0, which rank 0 has already: each rank needs its "
	        "own");
	other.device = 1;
	join_main(&other);
	cr_assert_eq(other.rc, COHORT_OK, "%s", other.error);
	pthread_join(first->thread, NULL);
	cr_assert_eq(first->rc, COHORT_OK, "%s", first->error);
	cohort_comm_close(first->comm);
	cohort_comm_close(other.comm);
}

Test(join, abort_handle_ends_a_join_whose_peers_never_arrive)
{
	const struct cohort_unique_id id = new_id();
	struct joiner j = { .id = &id,
		            .size = 2,
		            .abort = cohort_abort_create() };

	place_need_world(2);
	start(&j);
	while (!native_find_thread("/init"))
		test_nap();
	cr_assert_eq(cohort_abort_fire(j.abort, "enough"), COHORT_OK);
	pthread_join(j.thread, NULL);
	cr_assert_eq(j.rc, COHORT_ABORTED, "%s", j.error);
	cr_assert_str_eq(j.error, "aborted: enough");
	cohort_abort_put(j.abort);
}

Test(join, shared_abort_handle_ends_the_joined_ranks)
{
	const struct cohort_unique_id id = new_id();
	struct joiner j[2] = { { .abort = cohort_abort_create() } };
	struct cohort_cause cause;
	int r;

	j[1].abort = j[0].abort;
	start_all(j, 2, &id);
	join_all(j, 2);
	cr_assert_eq(cohort_abort_fired(j[0].abort), 0);
	cr_assert_eq(cohort_abort_fire(j[0].abort, "enough"), COHORT_OK);
	for (r = 0; r < 2; r++) {
		cr_assert_eq(cohort_comm_cause(j[r].comm, &cause), COHORT_OK);
		cr_assert_eq(cause.status, COHORT_ABORTED);
		cohort_comm_close(j[r].comm);
	}
	cohort_abort_put(j[0].abort);
}

Test(join, join_times_out_without_its_peer_which_is_then_too_late)
{
	const struct cohort_unique_id id = new_id();
	struct joiner j = { .id = &id, .size = 2, .init_ns = 10000000 };

	place_need(2);
	refused(&j, COHORT_INIT_TIMEOUT, "ncclCommInitRank of rank 0 of 2");
	expect_text(j.error, "; rank 0 has joined; rank 1 has not");
	j.rank = 1;
	j.device = 1;
	j.init_ns = RANKS_SOON;
	refused(&j, COHORT_INIT_TIMEOUT, "rank 1 is too late: ");
}
