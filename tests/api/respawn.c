/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of generations: what a respawn keeps and abandons, and when it is
 * refused
 */

#include <cohort/reducer.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/failing.h"
#include "support/ranks.h"
#include "support/spread.h"
#include "support/stuck.h"
#include "support/verdicts.h"

#define MS UINT64_C(1000000)

static struct cohort_group_options o;
static struct cohort_group *group;
static struct cohort_comm *comms[4];
static int32_t values[4];

static void set_up(void)
{
	cohort_group_options_init(&o);
	o.name = "dp";
}

TestSuite(respawn, .init = set_up, .timeout = 60);

static void open_ended(int n)
{
	group = ranks_ahead(n, &o, comms);
	ranks_must(cohort_group_abort(group, "enough"), "abort");
}

static void respawn_without(int lost)
{
	ranks_must(cohort_group_respawn(group, &lost, 1), "respawn");
}

/* Split the new generation into @comms, and check a sum. */
static void check_sum_of_split(void)
{
	int r, n = cohort_group_size(group);

	ranks_must(cohort_group_split(group, comms), "split");
	for (r = 0; r < n; r++) {
		values[r] = 1 << r;
		ranks_sum(comms[r], &values[r]);
	}
	for (r = 0; r < n; r++) {
		cr_assert_eq(cohort_synchronize(comms[r], RANKS_SOON),
		             COHORT_OK);
		cr_assert_eq(values[r], (1 << n) - 1);
	}
}

/* ---- the new generation ----------------------------------------------- */

Test(respawn, respawn_renumbers_the_remaining_ranks)
{
	const int devices[] = { 7, 1, 5, 3 };
	int now[4], r;

	ranks_launch_ahead();
	place_need(8);
	o.platform = place_platform();
	ranks_must(cohort_group_open(devices, 4, &o, &group), "open");
	cr_assert_eq(cohort_group_generation(group), 1);
	ranks_must(cohort_group_abort(group, NULL), "abort");
	respawn_without(1);
	cr_assert_eq(cohort_group_generation(group), 2);
	cr_assert_eq(cohort_group_size(group), 3);
	cr_assert_eq(ranks_cause(group).status, COHORT_OK);
	cohort_group_devices(group, now);
	check_sum_of_split();
	for (r = 0; r < 3; r++) {
		cr_assert_eq(cohort_comm_rank(comms[r]), r);
		cr_assert_eq(cohort_comm_size(comms[r]), 3);
		cr_assert_eq(cohort_comm_generation(comms[r]), 2);
		cr_assert_eq(cohort_comm_origin(comms[r]), r ? r + 1 : 0);
		cr_assert_eq(now[r], devices[r ? r + 1 : 0]);
		cr_assert_eq(cohort_comm_device(comms[r]), now[r]);
	}
	expect_close(group);
}

Test(respawn, respawn_may_keep_all_ranks)
{
	open_ended(2);
	cr_assert_eq(cohort_group_respawn(group, NULL, 0), COHORT_OK);
	cr_assert_eq(cohort_group_size(group), 2);
	check_sum_of_split();
	expect_close(group);
}

Test(respawn, origin_is_the_rank_in_the_first_generation)
{
	open_ended(4);
	respawn_without(1);
	ranks_must(cohort_group_abort(group, NULL), "abort");
	respawn_without(1);
	check_sum_of_split();
	cr_assert_eq(cohort_group_generation(group), 3);
	cr_assert_eq(cohort_comm_origin(comms[0]), 0);
	cr_assert_eq(cohort_comm_origin(comms[1]), 3);
	cr_assert_eq(cohort_comm_device(comms[1]), 3);
	expect_close(group);
}

Test(respawn, each_generation_can_be_split_once)
{
	open_ended(2);
	cr_assert_eq(cohort_group_split(group, comms), COHORT_STATE);
	respawn_without(0);
	cr_assert_eq(cohort_group_split(group, comms), COHORT_OK);
	cr_assert_eq(cohort_group_split(group, comms), COHORT_STATE);
	expect_close(group);
}

Test(respawn, respawn_keeps_the_options)
{
	static struct verdicts reported;
	const struct cohort_verdict *v;
	uint64_t t;

	o.deadlines.join_ns = 20 * MS;
	verdicts_attach(&reported, &o);
	open_ended(3);
	respawn_without(0);
	v = verdicts_next(&reported);
	cr_assert_eq(v->generation, 1);
	cr_assert_str_eq(v->call, "", "it was aborted");
	ranks_must(cohort_group_split(group, comms), "split");
	t = ranks_sum(comms[1], &values[1]);
	cr_assert_eq(cohort_wait(comms[1], t, RANKS_SOON), COHORT_STALLED);
	v = verdicts_next(&reported);
	cr_assert_eq(v->generation, 2);
	cr_assert_eq(v->rank, 0);
	cr_assert_eq(v->stage, COHORT_STAGE_ENDED);
	cr_assert_str_eq(v->call, "all_reduce 1 of \"dp\"");
	expect_text(v->text, " of \"dp\" (generation 2)\n");
	expect_close(group);
}

/* Return an error if rank 1 or 2 of the first generation is in the group. */
static int fail_by_origin(struct cohort_comm *comm, void *unused)
{
	int32_t value = 1;
	int origin = cohort_comm_origin(comm);

	(void)unused;
	if (origin == 1 || origin == 2)
		return origin;
	return ranks_sum_wait(comm, &value);
}

Test(respawn, supervisor_can_respawn_in_a_loop)
{
	struct cohort_cause cause;

	spread_not("the size is that of a process's own ranks");
	group = ranks_open(4, &o);
	while (cohort_group_run(group, fail_by_origin, NULL, &cause))
		respawn_without(cause.rank);
	cr_assert_eq(cohort_group_generation(group), 3);
	cr_assert_eq(cohort_group_size(group), 2);
	expect_close(group);
}

/* ---- earlier generations ----------------------------------------------- */

Test(respawn, tickets_of_former_generations_keep_their_results)
{
	struct cohort_comm *former[2];
	struct cohort_cause cause;
	uint64_t done, cut;
	void *memory;

	group = ranks_ahead(2, &o, former);
	ranks_must(cohort_alloc(former[0], 16, &memory), "alloc");
	done = ranks_sum(former[0], &values[0]);
	ranks_sum(former[1], &values[1]);
	ranks_must(cohort_wait(former[0], done, RANKS_SOON), "wait");
	cut = ranks_sum(former[0], &values[0]);
	ranks_must(cohort_group_abort(group, "enough"), "abort");
	respawn_without(1);
	check_sum_of_split();
	cr_assert_eq(cohort_wait(former[0], done, 0), COHORT_OK);
	cr_assert_eq(cohort_wait(former[0], cut, 0), COHORT_ABORTED);
	expect_ending(cohort_last_error(), "aborted: enough");
	cr_assert_eq(cohort_synchronize(former[0], 0), COHORT_ABORTED);
	cohort_comm_cause(former[0], &cause);
	expect_ending(cause.text, "aborted: enough");
	cr_assert_eq(cohort_comm_generation(former[1]), 1);
	cr_assert_eq(cohort_free(former[0], memory), COHORT_OK);
	expect_close(group);
}

Test(respawn, calls_on_former_communicators_return_stale)
{
	struct cohort_comm *former[2];
	void *native;

	group = ranks_split(2, &o, former);
	ranks_must(cohort_group_abort(group, "enough"), "abort");
	cr_assert_eq(cohort_barrier(former[1], NULL, NULL), COHORT_ABORTED);
	respawn_without(0);
	cr_assert_eq(cohort_barrier(former[1], NULL, NULL), COHORT_STALE);
	expect_ending(cohort_last_error(),
	              "rank 1: generation 1 was replaced by a respawn; use the "
	              "communicators of the new split; the cause: aborted: "
	              "enough");
	cr_assert_eq(cohort_comm_native_enter(former[1], &native),
	             COHORT_STALE);
	cr_assert_eq(cohort_after_stream(former[1], NULL), COHORT_STALE);
	check_sum_of_split();
	expect_close(group);
}

Test(respawn, abort_handle_of_a_former_generation_does_nothing)
{
	struct cohort_abort *former, *handle;

	group = ranks_split(2, &o, comms);
	former = cohort_comm_abort_handle(comms[0]);
	cr_assert_eq(cohort_abort_fire(former, NULL), COHORT_OK);
	respawn_without(0);
	cr_assert_eq(cohort_abort_fire(former, NULL), COHORT_ALREADY);
	cr_assert_eq(cohort_abort_fired(former), 1);
	cr_assert_eq(ranks_cause(group).status, COHORT_OK);
	check_sum_of_split();
	handle = cohort_comm_abort_handle(comms[0]);
	cr_assert_eq(cohort_abort_fired(handle), 0);
	cr_assert_eq(cohort_abort_fire(handle, "again"), COHORT_OK);
	expect_ending(ranks_cause(group).text, "aborted: again");
	expect_close(group);
	cohort_abort_put(former);
	cohort_abort_put(handle);
}

static sem_t bound, go_home;

static void *bind_and_exit(void *comm)
{
	ranks_must(cohort_comm_bind(comm), "bind");
	sem_post(&bound);
	while (sem_wait(&go_home))
		continue;
	return NULL;
}

Test(respawn, thread_bound_to_a_former_rank_may_exit)
{
	pthread_t thread;

	sem_init(&bound, 0, 0);
	sem_init(&go_home, 0, 0);
	group = ranks_split(2, &o, comms);
	pthread_create(&thread, NULL, bind_and_exit, comms[1]);
	while (sem_wait(&bound))
		continue;
	ranks_must(cohort_group_abort(group, NULL), "abort");
	respawn_without(0);
	sem_post(&go_home);
	pthread_join(thread, NULL);
	check_sum_of_split();
	expect_close(group);
}

/* ---- refused respawns ------------------------------------------------- */

static void expect_refused(int rc, const int *lost, int n, const char *text)
{
	cr_assert_eq(cohort_group_respawn(group, lost, n), rc);
	cr_assert_str_eq(cohort_last_error(), text);
	cr_assert_eq(cohort_group_generation(group), 1);
}

Test(respawn, respawn_is_refused_while_the_group_lives)
{
	group = ranks_ahead(2, &o, comms);
	expect_refused(COHORT_STATE, NULL, 0,
	               "the group has not ended: there is nothing to respawn");
	ranks_sum(comms[0], &values[0]);
	cr_assert_eq(ranks_sum_wait(comms[1], &values[1]), COHORT_OK);
	expect_close(group);
}

static int respawn_inside(struct cohort_comm *comm, void *unused)
{
	(void)comm;
	(void)unused;
	expect_refused(COHORT_STATE, NULL, 0,
	               "a cohort_group_run() or cohort_group_respawn() is in "
	               "progress");
	return 0;
}

Test(respawn, respawn_is_refused_inside_a_run)
{
	group = ranks_open(2, &o);
	expect_run_in(group, respawn_inside, NULL);
	expect_close(group);
}

Test(respawn, respawn_refuses_an_invalid_list_of_lost_ranks)
{
	const int too_high[] = { 0, 3 }, negative[] = { -1 },
		  twice[] = { 2, 2 };

	open_ended(3);
	expect_refused(
		COHORT_INVALID, NULL, -1,
		"n is -1, not 0 to 2: at least one of the 3 ranks must remain");
	expect_refused(
		COHORT_INVALID, (const int[]){ 0, 1, 2 }, 3,
		"n is 3, not 0 to 2: at least one of the 3 ranks must remain");
	expect_refused(COHORT_INVALID, NULL, 1, "lost_ranks is NULL");
	expect_refused(COHORT_INVALID, too_high, 2,
	               "lost_ranks[1] is 3, not 0 to 2");
	expect_refused(COHORT_INVALID, negative, 1,
	               "lost_ranks[0] is -1, not 0 to 2");
	expect_refused(COHORT_INVALID, twice, 2,
	               "lost_ranks[1] is 2, which is already in the list");
	cr_assert_eq(cohort_group_respawn(NULL, NULL, 0), COHORT_INVALID);
	respawn_without(2);
	check_sum_of_split();
	expect_close(group);
}

/* ---- failures --------------------------------------------------------- */

/* Make @function fail in a respawn. The group must be unchanged, and a second
 * respawn must succeed. */
static void fails_at(const char *function, int nccl, int cuda, int rc)
{
	failing_at(function, 1, nccl, cuda);
	cr_assert_eq(cohort_group_respawn(group, NULL, 0), rc);
	cr_assert_str_eq(failing_fired(), function);
	expect_text(cohort_last_error(), function);
	cr_assert_eq(cohort_group_generation(group), 1);
	cr_assert_eq(ranks_cause(group).status, COHORT_ABORTED);
	cr_assert_eq(cohort_barrier(comms[0], NULL, NULL), COHORT_ABORTED);
}

Test(respawn, failed_respawn_leaves_the_group_unchanged)
{
	const struct platform *real;

	real = place_table();
	platform_override(failing_wrap(real));
	open_ended(3);
	fails_at("ncclCommInitAll", ncclSystemError, 0, COHORT_NCCL);
	fails_at("cudaStreamCreateWithFlags", 0, 999, COHORT_CUDA);
	respawn_without(1);
	check_sum_of_split();
	expect_close(group);
}

Test(respawn, respawn_that_times_out_leaves_the_group_unchanged)
{
	o.deadlines.init_ns = place_patience_ns(2000 * MS);
	stuck_install();
	open_ended(2);
	stuck_at("ncclCommInitAll", -1);
	cr_assert_eq(cohort_group_respawn(group, NULL, 0), COHORT_INIT_TIMEOUT);
	cr_assert_eq(cohort_group_generation(group), 1);
	stuck_await(); /* the native call may get stuck only now */
	stuck_release();
	while (stuck_aborted() < 4) /* aborts of two ranks in two generations */
		sched_yield();
	cr_assert_eq(cohort_group_respawn(group, NULL, 0), COHORT_OK);
	check_sum_of_split();
	expect_close(group);
}

/* ---- generations whose abort hangs --------------------------------------- */

static void *sum_on_rank_1(void *comm)
{
	return (void *)(intptr_t)ranks_sum_wait(comm, &values[3]);
}

Test(respawn, respawn_must_drop_a_rank_that_hangs_in_a_call)
{
	const char *text;
	pthread_t thread;
	uint64_t t;
	void *rc;

	o.deadlines.abort_ns = 400 * MS;
	stuck_install();
	group = ranks_ahead(3, &o, comms);
	stuck_at("ncclAllReduce", 1);
	pthread_create(&thread, NULL, sum_on_rank_1, comms[1]);
	stuck_await();
	t = ranks_sum(comms[0], &values[0]);
	ranks_must(cohort_group_abort(group, NULL), "abort");
	cr_assert_eq(cohort_wait(comms[0], t, RANKS_SOON), COHORT_WEDGED);
	cr_assert_eq(cohort_group_respawn(group, NULL, 0), COHORT_STATE);
	text = cohort_last_error();
	expect_text(text, "could not be ended within 400 ms; "
	                  "rank 1 (thread ");
	cr_assert_null(strstr(text, "rank 0"));
	cr_assert_eq(cohort_group_respawn(group, (const int[]){ 2 }, 1),
	             COHORT_STATE);
	respawn_without(1);
	check_sum_of_split();
	cr_assert_eq(cohort_group_close(group), COHORT_WEDGED);
	expect_text(cohort_last_error(), "rank 1 (");
	expect_text(cohort_last_error(), " has been inside all_reduce for ");
	stuck_release();
	pthread_join(thread, &rc);
	cr_assert_eq((intptr_t)rc, COHORT_WEDGED);
}

Test(respawn, respawn_must_drop_a_rank_whose_abort_hangs)
{
	o.deadlines.abort_ns = 400 * MS;
	stuck_install();
	group = ranks_ahead(3, &o, comms);
	stuck_at("ncclCommAbort", 1);
	ranks_must(cohort_group_abort(group, NULL), "abort");
	stuck_await();
	cr_assert_eq(cohort_group_respawn(group, NULL, 0), COHORT_STATE);
	expect_text(cohort_last_error(),
	            "ncclCommAbort of rank 1 has not returned");
	respawn_without(1);
	check_sum_of_split();
	cr_assert_eq(cohort_group_close(group), COHORT_WEDGED);
	stuck_release();
}

/* ---- memory ----------------------------------------------------------- */

#define TIMES 32

/* Number of earlier generations that a group keeps */
#define KEPT 4

SPREAD_SHARED static struct spread_barrier late;

/* Return the size of the process's resident memory. */
static size_t bytes_in_memory(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;

	cr_assert_not_null(file);
	cr_assert_eq(fscanf(file, "%*u %lu", &pages), 1);
	fclose(file);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Make enough calls to fill the rings of every rank. */
static void fill_rings(struct cohort_group *of)
{
	void *buffers[4];
	unsigned i;
	int r;

	for (r = 0; r < 4; r++)
		buffers[r] = &values[r];
	for (i = 0; i < o.recorder_slots; i++)
		ranks_must(cohort_group_all_reduce(
				   of, (const void *const *)buffers, buffers, 1,
				   COHORT_I32, COHORT_SUM, NULL, NULL),
		           "all_reduce");
}

static int split_and_wait(struct cohort_comm *c, void *user)
{
	struct cohort_comm *child;

	(void)user;
	if (cohort_comm_split(c, 0, 0, &child) != COHORT_OK ||
	    cohort_barrier(child, NULL, NULL) != COHORT_OK)
		return 1;
	return cohort_synchronize(child, RANKS_SOON);
}

static void live_and_die(int times)
{
	while (times--) {
		fill_rings(group);
		expect_run_in(group, split_and_wait, NULL);
		cr_assert_eq(cohort_group_abort(group, "again"), COHORT_OK);
		ranks_must(cohort_group_respawn(group, NULL, 0), "respawn");
	}
}

Test(respawn, memory_does_not_grow_with_the_number_of_respawns)
{
	struct cohort_group *first;
	size_t before, whole, kept;

	spread_not("the processes do not abort together");
	if (!mallinfo2().uordblks)
		cr_skip("an allocator that keeps what is freed");
	place_skip_on_nvidia("it allocates in the same heap");
	place_skip_in_qemu("its own memory counts");
	/* strict mode does not reuse freed memory */
	unsetenv("COHORT_HOST_STRICT");
	/* Make malloc() reuse freed memory or return it to the system. */
	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, 1 << 16);
	first = ranks_open(4, &o);
	fill_rings(first);
	before = bytes_in_memory();
	group = ranks_open(4, &o);
	fill_rings(group);
	whole = bytes_in_memory() - before;
	live_and_die(2 * KEPT);
	before = bytes_in_memory();
	live_and_die(TIMES);
	kept = bytes_in_memory() - before;
	cr_assert_lt((ssize_t)kept, (ssize_t)(whole / 2),
	             "%zd bytes in %d generations of %zu", (ssize_t)kept, TIMES,
	             whole);
	expect_close(group);
	expect_close(first);
}

static void respawn_again(int times)
{
	while (times--) {
		cr_assert_eq(cohort_group_abort(group, "again"), COHORT_OK);
		ranks_must(cohort_group_respawn(group, NULL, 0), "respawn");
	}
}

Test(respawn, group_keeps_only_four_former_generations)
{
	struct cohort_comm *of_first[2];
	struct cohort_cause cause;
	uint64_t ticket;
	int r;

	spread_not("the processes do not abort together");
	group = ranks_ahead(2, &o, of_first);
	for (r = 0; r < 2; r++)
		ticket = ranks_sum(of_first[r], &values[r]);
	for (r = 0; r < 2; r++)
		ranks_must(cohort_wait(of_first[r], ticket, RANKS_SOON),
		           "wait");
	respawn_again(KEPT);
	ranks_must(cohort_wait(of_first[0], ticket, 0), "wait");
	cr_assert_not_null(cohort_comm_stream(of_first[0]));
	respawn_again(1);
	cr_assert_eq(cohort_wait(of_first[0], ticket, 0), COHORT_STALE);
	cr_assert_str_eq(
		cohort_last_error(),
		"the communicator's generation was freed, because its group "
		"has been respawned 5 times since: use the communicators of "
		"the current generation");
	cr_assert_eq(cohort_barrier(of_first[1], NULL, NULL), COHORT_STALE);
	cr_assert_eq(cohort_comm_cause(of_first[0], &cause), COHORT_STALE);
	cr_assert_eq(cohort_comm_bind(of_first[0]), COHORT_STALE);
	cr_assert_eq(cohort_comm_close(of_first[0]), COHORT_STALE);
	cr_assert_null(cohort_comm_abort_handle(of_first[0]));
	cr_assert_eq(cohort_comm_rank(of_first[1]), -1);
	cr_assert_null(cohort_comm_stream(of_first[0]));
	check_sum_of_split();
	expect_close(group);
}

Test(respawn, generation_whose_memory_is_in_use_is_kept)
{
	const struct cohort_parameter parameter = { .count = 8,
		                                    .type = COHORT_F32 };
	struct cohort_reducer *reducer;
	struct cohort_comm *of_first[2];
	void *memory, *registered, *registration;

	spread_not("the processes do not abort together");
	group = ranks_ahead(2, &o, of_first);
	ranks_must(cohort_alloc(of_first[0], 64, &memory), "alloc");
	respawn_again(KEPT + 2);
	ranks_must(cohort_free(of_first[0], memory), "free");
	respawn_again(1);
	cr_assert_eq(cohort_comm_rank(of_first[0]), -1);

	ranks_must(cohort_group_split(group, of_first), "split");
	ranks_must(cohort_alloc_registered(of_first[1], 64, &registered),
	           "alloc_registered");
	ranks_must(cohort_reducer_create(of_first[0], &parameter, 1, NULL,
	                                 &reducer),
	           "reducer");
	respawn_again(KEPT + 2);
	ranks_must(cohort_free(of_first[1], registered), "free");
	respawn_again(1);
	ranks_must(cohort_reducer_free(reducer), "reducer_free");
	cr_assert_eq(cohort_comm_rank(of_first[0]), 0);
	respawn_again(1);
	cr_assert_eq(cohort_comm_rank(of_first[0]), -1);

	ranks_must(cohort_group_split(group, of_first), "split");
	ranks_must(cohort_register(of_first[0], values, sizeof(values),
	                           &registration),
	           "register");
	respawn_again(KEPT + 2);
	ranks_must(cohort_deregister(of_first[0], registration), "deregister");
	respawn_again(1);
	cr_assert_eq(cohort_comm_rank(of_first[0]), -1);
	expect_close(group);
}

/* Communicators of the last 2 * KEPT generations. The group keeps only the
 * newer half. */
static struct cohort_comm *_Atomic known[2 * KEPT];
static atomic_bool is_over;

static void *call_all_known(void *unused)
{
	struct cohort_rank_report ranks[2];
	struct cohort_abort *handle;
	struct cohort_stats stats;
	struct cohort_cause cause;
	struct cohort_comm *c;
	unsigned i;

	(void)unused;
	for (i = 0; !atomic_load(&is_over); i++) {
		c = atomic_load(&known[i % (2 * KEPT)]);
		if (!c)
			continue;
		cohort_comm_snapshot(c, ranks, 2, sizeof(ranks[0]));
		cohort_stats(c, &stats);
		cohort_comm_cause(c, &cause);
		cohort_comm_fail(c, 7, "too late");
		cohort_synchronize(c, 0);
		cohort_comm_size(c);
		handle = cohort_comm_abort_handle(c);
		cohort_abort_put(handle);
	}
	return NULL;
}

Test(respawn, former_communicator_is_not_freed_during_a_call)
{
	/* With NVIDIA's NCCL, a respawn takes a third of a second. */
	const int times = place_is_nvidia() ? 3 * KEPT : 200;
	struct cohort_comm *now[2];
	pthread_t threads[2];
	int i;

	spread_not("the processes do not abort together");
	ranks_must(cohort_group_open(NULL, 2, &o, &group), "open");
	for (i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, call_all_known, NULL);
	for (i = 0; i < times; i++) {
		ranks_must(cohort_group_split(group, now), "split");
		atomic_store(&known[i % (2 * KEPT)], now[i % 2]);
		/* No effect if the other thread has already aborted. */
		cohort_group_abort(group, "again");
		ranks_must(cohort_group_respawn(group, NULL, 0), "respawn");
	}
	atomic_store(&is_over, true);
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	expect_close(group);
}

/* Make calls on a bound communicator after the group no longer keeps its
 * generation. */
static void *call_late(void *arg)
{
	struct cohort_comm *c = arg;
	int rc;

	ranks_must(cohort_comm_bind(c), "bind");
	spread_wait(&late, 2);
	/* wait until the group no longer keeps this generation */
	spread_wait(&late, 2);
	rc = cohort_barrier(c, NULL, NULL);
	if (rc == COHORT_STALE)
		rc = cohort_comm_unbind(c);
	return (void *)(intptr_t)rc;
}

Test(respawn, thread_bound_to_a_freed_rank_may_call_and_exit)
{
	struct cohort_comm *of_first[2];
	pthread_t thread;
	void *rc;

	spread_not("the processes do not abort together");
	group = ranks_ahead(2, &o, of_first);
	pthread_create(&thread, NULL, call_late, of_first[1]);
	spread_wait(&late, 2);
	respawn_again(KEPT + 1);
	spread_wait(&late, 2);
	pthread_join(thread, &rc);
	cr_assert_eq((intptr_t)rc, COHORT_STALE);
	check_sum_of_split();
	expect_close(group);
}

/* ---- threads ---------------------------------------------------------- */

#define PF_EXITING 4U /* from Linux's include/linux/sched.h */

/* Return whether the thread @task was joined but is still in /proc. */
static bool is_exiting(const char *task)
{
	char path[64], line[512];
	unsigned int flags = PF_EXITING;
	const char *rest;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%.16s/stat", task);
	file = fopen(path, "re");
	if (!file)
		return true;
	rest = fgets(line, sizeof(line), file) ? strrchr(line, ')') : NULL;
	if (rest)
		sscanf(rest, ") %*c %*d %*d %*d %*d %*d %u", &flags);
	fclose(file);
	return flags & PF_EXITING;
}

/* Count the threads once. While threads exit, readdir() may skip others. */
static int list_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *entry;
	int n = 0;

	cr_assert_not_null(tasks);
	while ((entry = readdir(tasks)))
		n += entry->d_name[0] != '.' && !is_exiting(entry->d_name);
	closedir(tasks);
	return n;
}

static int count_threads(void)
{
	int before, n = list_threads();

	do {
		before = n;
		n = list_threads();
	} while (n != before);
	return n;
}

/* Wait until the process has @n threads. /proc may still list a thread that was
 * just joined. */
static void has_threads(int n)
{
	uint64_t deadline = test_deadline(RANKS_SOON);
	int found = count_threads();

	while (found != n && test_now() < deadline) {
		sched_yield();
		found = count_threads();
	}
	cr_assert_eq(found, n, "%d threads, not %d", found, n);
}

static int split_and_fail(struct cohort_comm *c, void *user)
{
	struct cohort_comm *child;

	(void)user;
	if (cohort_comm_split(c, 0, 0, &child) != COHORT_OK)
		return 1;
	return cohort_comm_rank(c) == 1 ? 2 : cohort_synchronize(c, 0);
}

Test(respawn, respawns_splits_and_groups_add_no_threads)
{
	struct cohort_group *others[3];
	int with_all, i, none;

	place_skip_on_nvidia("it starts threads for each communicator");
	place_skip_in_qemu("threads end a while after they were joined");
	ranks_must(cohort_group_open(NULL, 2, &o, &group), "open");
	ranks_must(cohort_group_close(group), "close");
	/* threads of the host platform, which are permanent */
	none = count_threads();
	ranks_must(cohort_group_open(NULL, 2, &o, &group), "open");
	for (i = 0; i < 3; i++)
		ranks_must(cohort_group_open(NULL, 2, &o, &others[i]), "open");
	/* the watchdog, the prober and two workers */
	has_threads(none + 4);
	with_all = count_threads();
	for (i = 0; i < 20; i++) {
		expect_end_of_run(group, split_and_fail, NULL, COHORT_WORKER);
		cr_assert_eq(cohort_group_respawn(group, NULL, 0), COHORT_OK,
		             "%s", cohort_last_error());
	}
	has_threads(with_all);
	for (i = 0; i < 3; i++)
		ranks_must(cohort_group_close(others[i]), "close");
	expect_close(group);
	has_threads(none);
}
