/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of strict mode, which ends a program that violates NCCL's rules with a
 * message about the violation
 *
 * Each violation is made in a forked child, which is the only user of the
 * platform.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cohort/sim.h>

#include "sim/host.h"
#include "support/doomed.h"
#include "support/native.h"
#include "support/place.h"
#include "support/ranks.h"

/* ---- graphs ----------------------------------------------------------- */

static void act_with_a_graph(struct native_clique *clique)
{
	cudaGraph_t graph;

	native_must(host_cudaStreamBeginCapture(clique->stream[1],
	                                        cudaStreamCaptureModeRelaxed),
	            "cudaStreamBeginCapture");
	native_must(native_sum(clique, 1), "ncclAllReduce");
	native_must(host_cudaStreamEndCapture(clique->stream[1], &graph),
	            "cudaStreamEndCapture");
	native_clique_destroy(clique);
}

Test(strict, strict_mode_reports_a_graph_that_outlives_its_communicator,
     .timeout = 10)
{
	doomed_expect(
		act_with_a_graph,
		"ncclCommDestroy: rank 1, device 1, communicator 0: freed "
		"while a graph uses it; NCCL would wait for the graph");
}

/* ---- communicators released twice -------------------------------------- */

static void abort_twice(struct native_clique *c)
{
	c->p->ncclGroupStart();
	c->p->ncclCommAbort(c->comm[0]);
	c->p->ncclCommAbort(c->comm[0]);
	c->p->ncclGroupEnd();
}

static void destroy_twice(struct native_clique *c)
{
	c->p->ncclCommDestroy(c->comm[1]);
	c->p->ncclCommDestroy(c->comm[1]);
}

static void destroy_after_abort(struct native_clique *c)
{
	c->p->ncclCommAbort(c->comm[1]);
	c->p->ncclCommDestroy(c->comm[1]);
}

static void abort_after_destroy(struct native_clique *c)
{
	c->p->ncclCommDestroy(c->comm[2]);
	c->p->ncclCommAbort(c->comm[2]);
}

Test(strict, strict_mode_reports_a_second_abort, .timeout = 10)
{
	doomed_expect(abort_twice,
	              "ncclCommAbort: rank 0, device 0, communicator 0: "
	              "already released by ncclCommAbort");
}

Test(strict, strict_mode_reports_a_second_destroy, .timeout = 10)
{
	doomed_expect(destroy_twice,
	              "ncclCommDestroy: rank 1, device 1, communicator 0: "
	              "already released by ncclCommDestroy");
}

Test(strict, strict_mode_reports_a_destroy_after_an_abort, .timeout = 10)
{
	doomed_expect(destroy_after_abort,
	              "ncclCommDestroy: rank 1, device 1, communicator 0: "
	              "already released by ncclCommAbort");
}

Test(strict, strict_mode_reports_an_abort_after_a_destroy, .timeout = 10)
{
	doomed_expect(abort_after_destroy,
	              "ncclCommAbort: rank 2, device 2, communicator 0: "
	              "already released by ncclCommDestroy");
}

/* ---- communicators used after they were freed -------------------------- */

/* Open the second clique of the process, and free it. */
static void free_second(struct native_clique *c)
{
	native_clique_open(c, c->p, 3);
	native_clique_destroy(c);
}

static void sum_freed(struct native_clique *c)
{
	free_second(c);
	c->p->ncclAllReduce(c->send[2], c->recv[2], 1, ncclInt32, ncclSum,
	                    c->comm[2], NULL);
}

static void ask_freed(struct native_clique *c)
{
	ncclResult_t error;

	free_second(c);
	c->p->ncclCommGetAsyncError(c->comm[0], &error);
}

static void abort_freed(struct native_clique *c)
{
	free_second(c);
	c->p->ncclCommAbort(c->comm[1]);
}

static void destroy_freed(struct native_clique *c)
{
	free_second(c);
	c->p->ncclCommDestroy(c->comm[1]);
}

static void finalize_freed(struct native_clique *c)
{
	free_second(c);
	c->p->ncclCommFinalize(c->comm[1]);
}

static void ask_error_of_freed(struct native_clique *c)
{
	free_second(c);
	c->p->ncclGetLastError(c->comm[1]);
}

Test(strict, strict_mode_reports_a_collective_on_a_freed_communicator,
     .timeout = 10)
{
	doomed_expect(sum_freed, "ncclAllReduce: rank 2, device 2, "
	                         "communicator 1: used after it was freed");
}

Test(strict, strict_mode_reports_a_query_of_a_freed_communicator, .timeout = 10)
{
	doomed_expect(ask_freed, "ncclCommGetAsyncError: rank 0, device 0, "
	                         "communicator 1: used after it was freed");
	doomed_expect(ask_error_of_freed,
	              "ncclGetLastError: rank 1, device 1, communicator 1: "
	              "used after it was freed");
}

Test(strict, strict_mode_reports_a_release_of_a_freed_communicator,
     .timeout = 10)
{
	doomed_expect(abort_freed, "ncclCommAbort: rank 1, device 1, "
	                           "communicator 1: used after it was freed");
	doomed_expect(destroy_freed, "ncclCommDestroy: rank 1, device 1, "
	                             "communicator 1: used after it was freed");
	doomed_expect(finalize_freed,
	              "ncclCommFinalize: rank 1, device 1, communicator 1: "
	              "used after it was freed");
}

/* ---- two threads inside one communicator ------------------------------- */

static sem_t entered; /* posted when a thread is inside a call */

static void wait_entered(void)
{
	while (sem_wait(&entered) != 0)
		continue;
}

static void *sum_in_open_group(void *user)
{
	struct native_clique *c = user;

	c->p->ncclGroupStart();
	native_sum(c, 1);
	sem_post(&entered);
	for (;;)
		pause();
	return NULL;
}

static void enter_and(void *(*enter)(void *user), struct native_clique *c)
{
	pthread_t thread;

	sem_init(&entered, 0, 0);
	pthread_create(&thread, NULL, enter, c);
	wait_entered();
}

static void sum_beside_group(struct native_clique *c)
{
	enter_and(sum_in_open_group, c);
	native_sum(c, 0);
	c->p->ncclBroadcast(c->send[1], c->recv[1], 1, ncclInt32, 0, c->comm[1],
	                    c->stream[1]);
}

static void destroy_beside_group(struct native_clique *c)
{
	enter_and(sum_in_open_group, c);
	c->p->ncclCommDestroy(c->comm[1]);
}

static void finalize_beside_group(struct native_clique *c)
{
	enter_and(sum_in_open_group, c);
	c->p->ncclCommFinalize(c->comm[1]);
}

Test(strict, strict_mode_reports_a_call_while_another_thread_has_a_group,
     .timeout = 10)
{
	doomed_expect(
		sum_beside_group,
		"ncclBroadcast: rank 1, device 1, communicator 0: another "
		"thread is using the communicator, in ncclAllReduce");
}

Test(strict, strict_mode_rejects_destroy_while_another_thread_has_a_group,
     .timeout = 10)
{
	doomed_expect(
		destroy_beside_group,
		"ncclCommDestroy: rank 1, device 1, communicator 0: another "
		"thread is using the communicator, in ncclAllReduce");
	doomed_expect(
		finalize_beside_group,
		"ncclCommFinalize: rank 1, device 1, communicator 0: another "
		"thread is using the communicator, in ncclAllReduce");
}

/* ---- communicators freed while a thread is inside ----------------------- */

static void abort_all(struct native_clique *c)
{
	int r;

	c->p->ncclGroupStart();
	for (r = 0; r < c->n; r++)
		c->p->ncclCommAbort(c->comm[r]);
	c->p->ncclGroupEnd();
}

static void free_beside_group(struct native_clique *c)
{
	enter_and(sum_in_open_group, c);
	abort_all(c);
}

static void *sum_and_die(void *user)
{
	native_sum(user, 2);
	return NULL;
}

static void free_after_death_inside(struct native_clique *c)
{
	pthread_t thread;

	ranks_fault(2, 0, COHORT_FAULT_DIE, 0);
	pthread_create(&thread, NULL, sum_and_die, c);
	pthread_join(thread, NULL);
	abort_all(c);
}

Test(strict, strict_mode_reports_a_free_while_a_thread_is_inside_a_call,
     .timeout = 10)
{
	doomed_expect(free_beside_group,
	              "ncclCommAbort: rank 1, device 1, communicator 0: freed "
	              "while a thread is using it, in ncclAllReduce");
}

/* A thread that has ended inside a call counts as inside. */
Test(strict, strict_mode_reports_a_free_after_a_thread_exited_in_a_call,
     .timeout = 10)
{
	doomed_expect(free_after_death_inside,
	              "ncclCommAbort: rank 2, device 2, communicator 0: freed "
	              "while a thread is using it, in ncclAllReduce");
}

/* ---- children that could not be created --------------------------------- */

struct split_in_group {
	struct native_clique *clique;
	ncclComm_t children[3];
};

static ncclResult_t split_all(void *user)
{
	struct split_in_group *s = user;
	const struct platform *p = s->clique->p;
	int r;

	p->ncclGroupStart();
	for (r = 0; r < 3; r++)
		p->ncclCommSplit(s->clique->comm[r], 0, r, &s->children[r],
		                 NULL);
	return p->ncclGroupEnd();
}

/* Start a split that fails: rank 2 does not arrive, and an abort of rank 0 ends
 * the split. */
static void fail_to_split(struct split_in_group *s)
{
	struct native_call call;

	ranks_fault(2, 1, COHORT_FAULT_INIT, 0);
	native_call_begin(&call, split_all, s);
	native_await_sleep(call.task);
	s->clique->p->ncclGroupStart();
	s->clique->p->ncclCommAbort(s->clique->comm[0]);
	cohort_sim_faults_clear();
	native_must(native_call_end(&call) == ncclSuccess, "a split");
}

static void free_children_first(struct native_clique *c)
{
	struct split_in_group s = { .clique = c };
	int r;

	fail_to_split(&s);
	for (r = 0; r < 3; r++)
		c->p->ncclCommAbort(s.children[r]);
	c->p->ncclGroupEnd();
	c->p->ncclCommAbort(c->comm[1]);
}

static void free_children_last(struct native_clique *c)
{
	struct split_in_group s = { .clique = c };
	int r;

	fail_to_split(&s);
	for (r = 1; r < 3; r++)
		c->p->ncclCommAbort(c->comm[r]);
	for (r = 0; r < 3; r++)
		c->p->ncclCommAbort(s.children[r]);
	c->p->ncclGroupEnd();
	for (r = 0; r < 3; r++)
		native_must(c->p->cudaStreamDestroy(c->stream[r]),
		            "cudaStreamDestroy");
}

Test(strict, strict_mode_reports_a_failed_child_freed_before_its_parent,
     .timeout = 10)
{
	doomed_expect(free_children_first,
	              "ncclCommAbort: rank 1, device 1, communicator 0: writes "
	              "to the flags of a child whose creation failed, after "
	              "ncclCommAbort released that child");
	doomed_expect_legal(free_children_last);
}

/* ---- children created while work is outstanding ------------------------- */

static void split_busy(struct native_clique *c)
{
	ncclComm_t child;

	native_sum(c, 1);
	c->p->ncclCommSplit(c->comm[1], 0, 0, &child, NULL);
}

static void shrink_busy(struct native_clique *c)
{
	int list[] = { 0, 1 };
	ncclComm_t child;

	native_sum(c, 2);
	c->p->ncclCommShrink(c->comm[2], list, 2, &child, NULL, 0);
}

Test(strict, strict_mode_reports_a_split_or_shrink_of_a_busy_parent,
     .timeout = 10)
{
	doomed_expect(split_busy,
	              "ncclCommSplit: rank 1, device 1, communicator 0: called "
	              "while work of ncclAllReduce is outstanding");
	doomed_expect(shrink_busy,
	              "ncclCommShrink: rank 2, device 2, communicator 0: "
	              "called while work of ncclAllReduce is outstanding");
}

/*
 * No work is outstanding if the program has waited for it or if the shrink ends
 * it.
 */
Test(strict, strict_mode_accepts_a_split_or_shrink_of_an_idle_parent,
     .timeout = 10)
{
	const struct platform *p;
	struct native_clique c;
	ncclComm_t child[2];
	int list[] = { 1, 2 };
	int r;

	setenv("COHORT_HOST_STRICT", "1", 1);
	p = native_open(3);
	native_clique_open(&c, p, 3);
	native_sum_all(&c);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	for (r = 0; r < 3; r++)
		cr_assert_eq(p->ncclCommSplit(c.comm[r], r ? -1 : 0, 0,
		                              &child[r > 0], NULL),
		             ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	cr_assert_eq(p->ncclCommDestroy(child[0]), ncclSuccess);
	cr_assert_eq(native_sum(&c, 0), ncclSuccess);
	cr_assert_eq(p->ncclCommShrink(c.comm[0], list, 2, &child[0], NULL,
	                               NCCL_SHRINK_ABORT),
	             ncclSuccess);
	cr_assert_eq(p->ncclCommDestroy(child[0]), ncclSuccess);
	native_clique_abort(&c);
}

/* ---- destroys and aborts of one communicator ---------------------------- */

static void destroy_busy_then_abort(struct native_clique *c)
{
	native_sum(c, 0);
	c->p->ncclCommDestroy(c->comm[0]);
	c->p->ncclCommAbort(c->comm[1]);
}

static void abort_then_destroy_busy(struct native_clique *c)
{
	native_sum(c, 2);
	c->p->ncclCommAbort(c->comm[1]);
	c->p->ncclCommDestroy(c->comm[2]);
}

Test(strict, strict_mode_reports_a_destroy_while_a_peer_is_aborted,
     .timeout = 10)
{
	doomed_expect(destroy_busy_then_abort,
	              "ncclCommAbort: rank 1, device 1, communicator 0: a rank "
	              "released by ncclCommDestroy has work in flight, but "
	              "another rank was released by ncclCommAbort");
	doomed_expect(abort_then_destroy_busy,
	              "ncclCommDestroy: rank 2, device 2, communicator 0: a "
	              "rank released by ncclCommDestroy has work in flight, "
	              "but another rank was released by ncclCommAbort");
}

/*
 * Idle ranks may be released by any mix of destroys and aborts. Ranks with work
 * in flight may be destroyed if all of them are.
 */
Test(strict, strict_mode_accepts_any_release_of_idle_ranks, .timeout = 10)
{
	const struct platform *p;
	struct native_clique c;
	int r;

	setenv("COHORT_HOST_STRICT", "1", 1);
	p = native_open(2);
	native_clique_open(&c, p, 2);
	native_sum_all(&c);
	cr_assert_eq(p->ncclCommDestroy(c.comm[0]), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(c.comm[1]), ncclSuccess);
	native_clique_open(&c, p, 2);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	for (r = 0; r < 2; r++)
		cr_assert_eq(native_sum(&c, r), ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	native_clique_destroy(&c);
}

/* ---- groups that are not ended ------------------------------------------ */

static void *leave_open(void *user)
{
	const struct platform *p = user;

	p->ncclGroupStart();
	return NULL;
}

static void *leave_open_with_sum(void *user)
{
	struct native_clique *c = user;

	c->p->ncclGroupStart();
	c->p->ncclGroupStart();
	native_sum(c, 1);
	c->p->ncclGroupEnd();
	return NULL;
}

static void end_with_group(struct native_clique *c)
{
	pthread_t thread;

	pthread_create(&thread, NULL, leave_open, (void *)(uintptr_t)c->p);
	pthread_join(thread, NULL);
}

static void end_with_group_of_sum(struct native_clique *c)
{
	pthread_t thread;

	pthread_create(&thread, NULL, leave_open_with_sum, c);
	pthread_join(thread, NULL);
}

Test(strict, strict_mode_reports_a_group_that_is_left_open, .timeout = 10)
{
	doomed_expect(end_with_group,
	              "ncclGroupStart: the thread ends with an open group");
	doomed_expect(end_with_group_of_sum,
	              "ncclGroupStart: rank 1, device 1, communicator 0: the "
	              "thread ends with an open group");
}

/* ---- legal programs --------------------------------------------------- */

#define ROUNDS 30

struct worker {
	struct native_clique *clique;
	int rank;
	int sums;
	bool ends; /* finalize and destroy each rank separately */
};

/* Make one rank's sums, in groups of different kinds. */
static void *work(void *user)
{
	struct worker *w = user;
	struct native_clique *c = w->clique;
	const struct platform *p = c->p;
	int i;

	for (i = 0; i < w->sums; i++) {
		native_must(p->ncclGroupStart(), "ncclGroupStart");
		native_must(p->ncclGroupStart(), "ncclGroupStart");
		native_must(native_sum(c, w->rank), "ncclAllReduce");
		native_must(p->ncclGroupEnd(), "ncclGroupEnd");
		native_must(native_sum(c, w->rank), "ncclAllReduce");
		native_must(p->ncclGroupEnd(), "ncclGroupEnd");
		native_must(native_sum(c, w->rank), "ncclAllReduce");
	}
	native_must(p->cudaStreamSynchronize(c->stream[w->rank]), "work");
	if (w->ends) {
		native_must(p->ncclCommFinalize(c->comm[w->rank]), "finalize");
		native_must(p->ncclCommDestroy(c->comm[w->rank]), "destroy");
	}
	return NULL;
}

/* Make queries that every thread may make, while the ranks' threads work. */
static void ask(struct native_clique *c)
{
	ncclResult_t error;
	int i, r, value;

	for (i = 0; i < 100; i++)
		for (r = 0; r < c->n; r++) {
			cr_assert_eq(c->p->ncclCommGetAsyncError(c->comm[r],
			                                         &error),
			             ncclSuccess);
			cr_assert_eq(c->p->ncclCommUserRank(c->comm[r], &value),
			             ncclSuccess);
		}
}

/*
 * Start the ranks' sums. If @hold, the last rank makes too few calls, so that
 * the other ranks hang.
 */
static void start_work(struct native_clique *c, struct worker workers[],
                       pthread_t threads[], bool hold, bool ends)
{
	int r;

	for (r = 0; r < c->n; r++) {
		workers[r] = (struct worker){ c, r, 10, ends };
		if (hold && r == c->n - 1)
			workers[r].sums = 5;
		pthread_create(&threads[r], NULL, work, &workers[r]);
	}
}

static void join(pthread_t threads[], int n)
{
	int r;

	for (r = 0; r < n; r++)
		pthread_join(threads[r], NULL);
}

static void one_round(const struct platform *p, int number)
{
	struct native_clique c;
	struct worker workers[NATIVE_RANKS];
	pthread_t threads[NATIVE_RANKS];
	bool ends = number % 3 == 1, aborts = number % 3 == 2;
	int r;

	native_clique_open(&c, p, 4);
	native_sum_all(&c);
	start_work(&c, workers, threads, aborts, ends);
	if (!ends)
		ask(&c);
	if (aborts) {
		cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
		for (r = 0; r < c.n; r++)
			cr_assert_eq(p->ncclCommAbort(c.comm[r]), ncclSuccess);
	}
	join(threads, c.n);
	if (aborts)
		cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	else if (!ends)
		native_clique_destroy(&c);
}

Test(strict, strict_mode_accepts_a_legal_program, .timeout = 60)
{
	const struct platform *p;
	int i;

	setenv("COHORT_HOST_STRICT", "1", 1);
	p = native_open(4);
	for (i = 0; i < ROUNDS; i++)
		one_round(p, i);
}

/*
 * The failed group has released no communicator, so a second release is legal.
 */
Test(strict, strict_mode_does_not_count_releases_of_a_failed_group,
     .timeout = 10)
{
	const struct platform *p;
	struct native_clique c;

	setenv("COHORT_HOST_STRICT", "1", 1);
	p = native_open(2);
	native_clique_open(&c, p, 2);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(p->ncclCommDestroy(c.comm[0]), ncclSuccess);
	cr_assert_eq(p->ncclAllReduce(NULL, NULL, 1, ncclInt32, ncclSum, NULL,
	                              NULL),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclGroupEnd(), ncclInvalidArgument);
	native_clique_destroy(&c);
}

Test(strict, strict_mode_is_off_if_its_variable_is_0, .timeout = 10)
{
	const struct platform *p;
	struct native_clique c;

	place_need_our_nccl("strict mode");
	setenv("COHORT_HOST_STRICT", "0", 1);
	p = native_open(3);
	native_clique_open(&c, p, 3);
	cr_assert_eq(p->ncclCommAbort(c.comm[0]), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(c.comm[0]), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(c.comm[1]), ncclSuccess);
}
