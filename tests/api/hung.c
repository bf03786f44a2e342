/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of program threads that hang while their group is closed. The resources
 * of a communicator that such a thread has bound stay allocated until the
 * thread unbinds the communicator or exits.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "support/expect.h"
#include "support/ranks.h"

TestSuite(hung, .timeout = 60);

static struct cohort_group *group;
static struct cohort_comm *comms[2], *children[2];

/*
 * State of rank 1's thread. While that thread hangs, the main thread owns all
 * members except the semaphores. After may_go_on is posted, rank 1's thread
 * owns them.
 */
static struct {
	pthread_t thread;
	sem_t is_away, may_go_on;
	bool exits; /* exit without unbinding */
	bool splits;
	bool is_replaced; /* a respawn has replaced the thread's generation */
	uint64_t ticket;
	void *memory;
	int premul;
} hung;

static void await(sem_t *sem)
{
	while (sem_wait(sem))
		continue;
}

/* Bind rank 1, allocate one object of every kind, and hang. */
static void hang(struct cohort_comm *comm)
{
	const int32_t two = 2;
	int32_t value = 1;

	ranks_must(cohort_comm_bind(comm), "bind");
	if (hung.splits)
		ranks_must(cohort_comm_split(comm, 0, 0, &children[1]),
		           "split");
	ranks_must(cohort_alloc_registered(comm, 64, &hung.memory), "alloc");
	ranks_must(cohort_premul_sum_create(comm, &two, COHORT_I32,
	                                    COHORT_SCALAR_HOST, &hung.premul),
	           "premul_sum_create");
	ranks_must(cohort_pause(comm), "pause");
	hung.ticket = ranks_sum(comm, &value);
	ranks_must(cohort_wait(comm, hung.ticket, RANKS_SOON), "wait");
	sem_post(&hung.is_away);
	await(&hung.may_go_on);
}

/*
 * Check the result of each kind of call after the close. At the end, the thread
 * must be able to unbind the communicator.
 */
static void go_on(struct cohort_comm *comm)
{
	struct cohort_stats stats = { .size = sizeof(stats) };
	struct cohort_cause cause;
	int32_t value = 1;

	expect(cohort_barrier(comm, NULL, NULL), COHORT_STALE,
	       hung.is_replaced
	               ? "rank 1: generation 1 was replaced by a respawn"
	               : "rank 1: the group was closed");
	cr_assert_eq(cohort_all_reduce_host(comm, &value, 1, COHORT_I32,
	                                    COHORT_SUM, RANKS_SOON),
	             COHORT_STALE);
	if (hung.splits)
		cr_assert_eq(cohort_barrier(children[1], NULL, NULL),
		             COHORT_STALE);
	cr_assert_eq(cohort_wait(comm, hung.ticket, RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_comm_rank(comm), 1);
	cr_assert_eq(cohort_comm_cause(comm, &cause), COHORT_OK);
	cr_assert_eq(cohort_comm_fail(comm, 1, NULL), COHORT_ALREADY);
	cr_assert_eq(cohort_stats(comm, &stats), COHORT_OK);
	cr_assert_eq(cohort_tag(comm, "late"), COHORT_OK);
	cr_assert_eq(cohort_resume(comm), COHORT_OK);
	cr_assert_eq(cohort_op_destroy(comm, hung.premul), COHORT_OK);
	cr_assert_eq(cohort_free(comm, hung.memory), COHORT_OK, "%s",
	             cohort_last_error());
	cr_assert_eq(cohort_comm_bind(comm), COHORT_ALREADY);
	if (!hung.exits)
		cr_assert_eq(cohort_comm_unbind(comm), COHORT_OK);
}

static void *hung_main(void *comm)
{
	hang(comm);
	go_on(comm);
	return NULL;
}

/* Split a group of two ranks, and return when rank 1's thread hangs. */
static void open_with_one_hung(void)
{
	int32_t value = 1;

	group = ranks_split(2, NULL, comms);
	sem_init(&hung.is_away, 0, 0);
	sem_init(&hung.may_go_on, 0, 0);
	pthread_create(&hung.thread, NULL, hung_main, comms[1]);
	if (hung.splits)
		ranks_must(cohort_comm_split(comms[0], 0, 0, &children[0]),
		           "split");
	cr_assert_eq(ranks_sum_wait(comms[0], &value), COHORT_OK);
	await(&hung.is_away);
}

static void let_go_on(void)
{
	sem_post(&hung.may_go_on);
	pthread_join(hung.thread, NULL);
}

static void close_while_it_hangs(void)
{
	open_with_one_hung();
	cr_assert_eq(cohort_group_abort(group, "rank 1 hangs"), COHORT_OK);
	expect_close(group);
	let_go_on();
}

Test(hung, group_can_be_closed_while_a_bound_thread_hangs)
{
	close_while_it_hangs();
}

Test(hung, hung_thread_may_exit_without_unbinding_after_the_close)
{
	hung.exits = true;
	close_while_it_hangs();
}

Test(hung, child_stays_allocated_while_a_hung_thread_is_bound)
{
	hung.splits = true;
	close_while_it_hangs();
}

static struct cohort_comm *child; /* the child of a rank */

static void *keep_child(void *comm)
{
	struct cohort_cause cause;

	ranks_must(cohort_comm_split(comm, 0, 0, &child), "split");
	ranks_must(cohort_comm_bind(child), "bind");
	sem_post(&hung.is_away);
	await(&hung.may_go_on);
	cr_assert_eq(cohort_barrier(child, NULL, NULL), COHORT_STALE);
	cr_assert_eq(cohort_comm_cause(child, &cause), COHORT_OK);
	cr_assert_eq(cause.status, COHORT_ABORTED);
	cr_assert_eq(cohort_comm_unbind(child), COHORT_OK);
	return NULL;
}

Test(hung, child_keeps_the_cause_of_its_aborted_group_after_close)
{
	int i;

	sem_init(&hung.is_away, 0, 0);
	sem_init(&hung.may_go_on, 0, 0);
	for (i = 0; i < place_times(20); i++) {
		group = ranks_split(1, NULL, comms);
		pthread_create(&hung.thread, NULL, keep_child, comms[0]);
		await(&hung.is_away);
		cohort_group_abort(group, "enough");
		expect_close(group);
		let_go_on();
	}
}

/* After an orderly close, there is no cause that later calls could return. */
Test(hung, calls_of_a_bound_thread_fail_after_an_orderly_close)
{
	open_with_one_hung();
	expect_close(group);
	let_go_on();
}

Test(hung, thread_of_a_former_generation_may_outlive_the_close)
{
	const int lost = 1;
	int32_t value = 1;

	open_with_one_hung();
	cr_assert_eq(cohort_group_abort(group, "rank 1 hangs"), COHORT_OK);
	hung.is_replaced = true;
	cr_assert_eq(cohort_group_respawn(group, &lost, 1), COHORT_OK);
	/*
	 * Threads can still use a communicator of an earlier generation, but
	 * cannot bind it.
	 */
	cr_assert_eq(cohort_barrier(comms[1], NULL, NULL), COHORT_STALE);
	cr_assert_eq(cohort_tag(comms[1], "theirs"), COHORT_OK);
	cr_assert_eq(cohort_comm_bind(comms[1]), COHORT_OWNER);
	cr_assert_eq(cohort_comm_unbind(comms[1]), COHORT_OWNER);
	cr_assert_eq(cohort_group_split(group, comms), COHORT_OK);
	cr_assert_eq(ranks_sum_wait(comms[0], &value), COHORT_OK);
	expect_close(group);
	let_go_on();
}

Test(hung, close_unbinds_communicators_of_the_closing_thread)
{
	group = ranks_split(2, NULL, comms);
	cr_assert_eq(cohort_comm_bind(comms[0]), COHORT_OK);
	cr_assert_eq(cohort_comm_bind(comms[1]), COHORT_OK);
	expect_close(group);
}

static atomic_int
	streams; /* number of streams that were created and not destroyed */
static struct platform table, real;

static cudaError_t make_stream(cudaStream_t *stream, unsigned flags)
{
	atomic_fetch_add(&streams, 1);
	return real.cudaStreamCreateWithFlags(stream, flags);
}

static cudaError_t destroy_stream(cudaStream_t stream)
{
	atomic_fetch_sub(&streams, 1);
	return real.cudaStreamDestroy(stream);
}

static void count_streams(void)
{
	table = real = *place_open(2);
	table.cudaStreamCreateWithFlags = make_stream;
	table.cudaStreamDestroy = destroy_stream;
	platform_override(&table);
}

/* Close both children. Another thread is bound to the first one. */
static void *close_children(void *unused)
{
	(void)unused;
	cr_assert_eq(cohort_comm_close(children[0]), COHORT_OK);
	cr_assert_eq(cohort_comm_close(children[1]), COHORT_OK);
	return NULL;
}

static void *split_second(void *unused)
{
	(void)unused;
	ranks_must(cohort_comm_split(comms[1], 0, 0, &children[1]), "split");
	return NULL;
}

Test(hung, close_frees_children_that_the_closing_thread_has_bound)
{
	struct cohort_abort *handle;
	pthread_t thread;

	count_streams();
	group = ranks_split(2, NULL, comms);
	pthread_create(&thread, NULL, split_second, NULL);
	ranks_must(cohort_comm_split(comms[0], 0, 0, &children[0]), "split");
	pthread_join(thread, NULL);
	cr_assert_eq(cohort_comm_bind(children[0]), COHORT_OK);
	handle = cohort_comm_abort_handle(children[0]);
	cr_assert_eq(cohort_abort_fire(handle, NULL), COHORT_OK);
	cohort_abort_put(handle);
	pthread_create(&thread, NULL, close_children, NULL);
	pthread_join(thread, NULL);
	cr_assert_gt(atomic_load(&streams), 0);
	expect_close(group);
	cr_assert_eq(atomic_load(&streams), 0);
}

/* ---- ranks that have joined ------------------------------------------- */

static struct cohort_unique_id id;

static void join_rank(int rank)
{
	ranks_must(cohort_comm_join(&id, 2, rank, rank, NULL, &comms[rank]),
	           "join");
}

static void *hung_joined(void *unused)
{
	(void)unused;
	join_rank(1);
	hang(comms[1]);
	cr_assert_eq(cohort_barrier(comms[1], NULL, NULL), COHORT_STATE);
	cr_assert_eq(cohort_wait(comms[1], hung.ticket, RANKS_SOON), COHORT_OK);
	cr_assert_eq(cohort_comm_close(comms[1]), COHORT_STATE);
	if (!hung.exits)
		cr_assert_eq(cohort_comm_unbind(comms[1]), COHORT_OK);
	return NULL;
}

static void close_joined_while_one_hangs(void)
{
	struct cohort_abort *handle;
	int32_t value = 1;

	place_need(2);
	ranks_must(cohort_unique_id(COHORT_PLATFORM_AUTO, &id), "unique_id");
	sem_init(&hung.is_away, 0, 0);
	sem_init(&hung.may_go_on, 0, 0);
	pthread_create(&hung.thread, NULL, hung_joined, NULL);
	join_rank(0);
	cr_assert_eq(cohort_comm_bind(comms[0]), COHORT_OK);
	cr_assert_eq(ranks_sum_wait(comms[0], &value), COHORT_OK);
	await(&hung.is_away);
	cr_assert_eq(cohort_comm_close(comms[1]), COHORT_OWNER);
	handle = cohort_comm_abort_handle(comms[0]);
	cr_assert_eq(cohort_abort_fire(handle, "rank 1 hangs"), COHORT_OK);
	cohort_abort_put(handle);
	cr_assert_eq(cohort_comm_close(comms[1]), COHORT_OK);
	cr_assert_eq(cohort_comm_close(comms[0]), COHORT_OK, "%s",
	             cohort_last_error());
	let_go_on();
}

Test(hung, joined_ranks_can_be_closed_while_one_thread_hangs)
{
	close_joined_while_one_hangs();
}

Test(hung, hung_thread_of_a_joined_rank_may_exit_after_the_close)
{
	hung.exits = true;
	close_joined_while_one_hangs();
}

Test(hung, comm_close_unbinds_a_joined_rank)
{
	group = ranks_split(2, NULL, comms);
	cr_assert_eq(cohort_comm_bind(comms[1]), COHORT_OK);
	cr_assert_eq(cohort_comm_close(comms[1]), COHORT_OK);
	cr_assert_eq(cohort_comm_unbind(comms[1]), COHORT_ALREADY);
	expect_close(group);
}
