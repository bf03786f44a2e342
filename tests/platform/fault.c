/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Scripted faults of the host platform (sim.h)
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cohort/sim.h>

#include "platform/platform.h"
#include "support/native.h"

static void add(int rank, uint64_t operation, int kind, uint64_t value)
{
	const struct cohort_fault fault = {
		.rank = rank,
		.operation = operation,
		.kind = kind,
		.value = value,
	};

	native_must(cohort_sim_fault_add(&fault), "cohort_sim_fault_add");
}

/* ---- error ------------------------------------------------------------ */

Test(fault, error_is_returned_once_and_nothing_is_queued, .timeout = 10)
{
	const struct platform *p = native_open(3);
	struct native_clique clique;

	native_clique_open(&clique, p, 3);
	add(1, 0, COHORT_FAULT_ERROR, ncclSystemError);
	cr_assert_eq(native_sum(&clique, 1), ncclSystemError);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[1]), cudaSuccess);
	native_sum_all(&clique);
	native_clique_destroy(&clique);
}

Test(fault, unknown_error_codes_pass_through, .timeout = 10)
{
	const struct platform *p = native_open(2);
	struct native_clique clique;

	native_clique_open(&clique, p, 2);
	add(0, 0, COHORT_FAULT_ERROR, 99);
	cr_assert_eq((int)native_sum(&clique, 0), 99);
	native_clique_destroy(&clique);
}

Test(fault, error_in_a_group_drops_the_group, .timeout = 10)
{
	const struct platform *p = native_open(3);
	struct native_clique clique;
	int r;

	native_clique_open(&clique, p, 3);
	add(1, 0, COHORT_FAULT_ERROR, ncclSystemError);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 1), ncclSystemError);
	cr_assert_eq(native_sum(&clique, 2), ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclSystemError);
	for (r = 0; r < 3; r++) {
		cr_assert_eq(p->cudaStreamQuery(clique.stream[r]), cudaSuccess);
		cr_assert_eq(native_touched(&clique, r), 0);
	}
	native_sum_all(&clique);
	native_clique_destroy(&clique);
}

Test(fault, strikes_the_named_operation, .timeout = 10)
{
	const struct platform *p = native_open(2);
	struct native_clique clique;

	native_clique_open(&clique, p, 2);
	add(1, 2, COHORT_FAULT_ERROR, ncclInternalError);
	native_sum_all(&clique);
	native_sum_all(&clique);
	cr_assert_eq(native_sum(&clique, 1), ncclInternalError);
	native_clique_destroy(&clique);
}

Test(fault, strikes_the_named_rank_only, .timeout = 10)
{
	const struct platform *p = native_open(3);
	struct native_clique clique;

	native_clique_open(&clique, p, 3);
	add(2, 0, COHORT_FAULT_ERROR, ncclInternalError);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 1), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 2), ncclInternalError);
	native_clique_abort(&clique);
}

Test(fault, of_any_rank_strikes_the_first_to_come, .timeout = 10)
{
	const struct platform *p = native_open(2);
	struct native_clique clique;

	native_clique_open(&clique, p, 2);
	add(-1, 0, COHORT_FAULT_ERROR, ncclInternalError);
	cr_assert_eq(native_sum(&clique, 1), ncclInternalError);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	native_clique_abort(&clique);
}

Test(fault, counts_operations_without_elements, .timeout = 10)
{
	const struct platform *p = native_open(2);
	struct native_clique clique;

	native_clique_open(&clique, p, 2);
	add(0, 1, COHORT_FAULT_ERROR, ncclInternalError);
	cr_assert_eq(p->ncclAllReduce(NULL, NULL, 0, ncclInt32, ncclSum,
	                              clique.comm[0], clique.stream[0]),
	             ncclSuccess);
	cr_assert_eq(native_sum(&clique, 0), ncclInternalError);
	native_clique_destroy(&clique);
}

Test(fault, counts_operations_of_one_rank_alone, .timeout = 10)
{
	const struct platform *p = native_open(2);
	struct native_clique clique;

	native_clique_open(&clique, p, 1);
	add(0, 1, COHORT_FAULT_ERROR, ncclInternalError);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 0), ncclInternalError);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	native_clique_destroy(&clique);
}

Test(fault, is_forgotten_when_cleared, .timeout = 10)
{
	const struct platform *p = native_open(2);
	struct native_clique clique;

	native_clique_open(&clique, p, 2);
	add(0, 0, COHORT_FAULT_ERROR, ncclInternalError);
	add(-1, 0, COHORT_FAULT_NEVER, 0);
	cohort_sim_faults_clear();
	native_sum_all(&clique);
	native_clique_destroy(&clique);
}

/* ---- never ------------------------------------------------------------ */

Test(fault, never_holds_every_rank_until_the_abort, .timeout = 10)
{
	const struct platform *p = native_open(3);
	struct native_clique clique;
	int r;

	native_clique_open(&clique, p, 3);
	add(1, 0, COHORT_FAULT_NEVER, 0);
	for (r = 0; r < 3; r++)
		cr_assert_eq(native_sum(&clique, r), ncclSuccess);
	for (r = 0; r < 3; r++)
		cr_assert_eq(p->cudaStreamQuery(clique.stream[r]),
		             cudaErrorNotReady);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	for (r = 0; r < 3; r++)
		cr_assert_eq(p->ncclCommAbort(clique.comm[r]), ncclSuccess);
	for (r = 0; r < 3; r++)
		cr_assert_eq(p->cudaStreamSynchronize(clique.stream[r]),
		             cudaSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
}

Test(fault, never_strikes_one_communicator_only, .timeout = 10)
{
	const struct platform *p = native_open(2);
	struct native_clique struck;
	struct native_clique spared;

	native_clique_open(&struck, p, 2);
	native_clique_open(&spared, p, 2);
	add(0, 0, COHORT_FAULT_NEVER, 0);
	cr_assert_eq(native_sum(&struck, 0), ncclSuccess);
	cr_assert_eq(native_sum(&struck, 1), ncclSuccess);
	native_sum_all(&spared);
	cr_assert_eq(p->cudaStreamQuery(struck.stream[1]), cudaErrorNotReady);
	native_clique_abort(&struck);
	native_clique_destroy(&spared);
}

Test(fault, ranks_held_by_never_stay_held_when_cleared, .timeout = 10)
{
	const struct platform *p = native_open(2);
	struct native_clique clique;

	native_clique_open(&clique, p, 2);
	add(0, 0, COHORT_FAULT_NEVER, 0);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 1), ncclSuccess);
	cohort_sim_faults_clear();
	cr_assert_eq(p->cudaStreamQuery(clique.stream[0]), cudaErrorNotReady);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[1]), cudaErrorNotReady);
	native_clique_abort(&clique);
}

/* ---- delay ------------------------------------------------------------ */

Test(fault, delay_makes_a_rank_come_late_but_come, .timeout = 10)
{
	const struct platform *p = native_open(3);
	struct native_clique clique;
	double before;

	native_clique_open(&clique, p, 3);
	add(2, 0, COHORT_FAULT_DELAY, 50 * 1000 * 1000);
	before = native_now_ms();
	native_sum_all(&clique);
	cr_assert_geq(native_now_ms() - before, 50.0);
	native_sum_all(&clique);
	native_clique_destroy(&clique);
}

Test(fault, delay_does_not_hold_the_call, .timeout = 10)
{
	const struct platform *p = native_open(2);
	struct native_clique clique;

	native_clique_open(&clique, p, 2);
	add(0, 0, COHORT_FAULT_DELAY, UINT64_C(3600000000000));
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 1), ncclSuccess);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[1]), cudaErrorNotReady);
	native_clique_abort(&clique);
}

/* The first abort lets the stream come to the delayed work, on this thread; the
 * work then sleeps on the stream's own thread, and the second abort must not
 * leave it there. */
Test(fault, delay_ends_with_the_abort, .timeout = 10)
{
	const struct platform *p = native_open(2);
	struct native_clique first;
	struct native_clique second;
	int i;

	native_clique_open(&first, p, 2);
	native_clique_open(&second, p, 2);
	cr_assert_eq(native_sum(&first, 0), ncclSuccess);
	add(0, 0, COHORT_FAULT_DELAY, UINT64_C(3600000000000));
	cr_assert_eq(p->ncclAllReduce(second.send[0], second.recv[0], 1,
	                              ncclInt32, ncclSum, second.comm[0],
	                              first.stream[0]),
	             ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(first.comm[0]), ncclSuccess);
	for (i = 0; i < 10000; i++)
		sched_yield();
	cr_assert_eq(p->ncclCommAbort(second.comm[0]), ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(first.stream[0]), cudaSuccess);
	cr_assert_eq(p->ncclCommAbort(first.comm[1]), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(second.comm[1]), ncclSuccess);
}

/* ---- stuck ------------------------------------------------------------ */

struct stuck {
	struct native_clique *clique;
	int rank;
	pid_t id; /* of the thread, once it is about to call */
	sem_t calls;
	ncclResult_t result;
};

static void *get_stuck(void *user)
{
	struct stuck *stuck = user;

	stuck->id = gettid();
	sem_post(&stuck->calls);
	stuck->result = native_sum(stuck->clique, stuck->rank);
	return NULL;
}

/* True if the thread is asleep, as the kernel tells. */
static bool is_asleep(pid_t id)
{
	char path[64];
	char state = '?';
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)id);
	file = fopen(path, "r");
	cr_assert_not_null(file);
	if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = '?';
	fclose(file);
	return state == 'S';
}

static void start_stuck(struct stuck *stuck, pthread_t *thread)
{
	sem_init(&stuck->calls, 0, 0);
	pthread_create(thread, NULL, get_stuck, stuck);
	while (sem_wait(&stuck->calls) != 0)
		continue;
	while (!is_asleep(stuck->id))
		sched_yield();
}

Test(fault, stuck_call_returns_an_error_on_the_abort, .timeout = 10)
{
	const struct platform *p = native_open(2);
	struct native_clique clique;
	struct stuck stuck = { .clique = &clique, .rank = 1 };
	pthread_t thread;

	native_clique_open(&clique, p, 2);
	add(1, 0, COHORT_FAULT_STUCK, 0);
	start_stuck(&stuck, &thread);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[0]), cudaErrorNotReady);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(clique.comm[0]), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(clique.comm[1]), ncclSuccess);
	pthread_join(thread, NULL);
	cr_assert_neq(stuck.result, ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(clique.stream[1]), cudaSuccess);
	cr_assert_eq(native_touched(&clique, 1), 0);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
}

Test(fault, stuck_holds_nobody_of_another_communicator, .timeout = 10)
{
	const struct platform *p = native_open(2);
	struct native_clique clique;
	struct native_clique other;
	struct stuck stuck = { .clique = &clique, .rank = 0 };
	pthread_t thread;

	native_clique_open(&clique, p, 2);
	native_clique_open(&other, p, 2);
	add(0, 0, COHORT_FAULT_STUCK, 0);
	start_stuck(&stuck, &thread);
	native_sum_all(&other);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(clique.comm[0]), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(clique.comm[1]), ncclSuccess);
	pthread_join(thread, NULL);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	native_clique_destroy(&other);
}

/* ---- the script ------------------------------------------------------- */

Test(fault, fields_are_checked_and_named, .timeout = 10)
{
	const struct cohort_fault rank = { -2, 0, COHORT_FAULT_NEVER, 0 };
	const struct cohort_fault kind = { 0, 0, 9, 0 };

	cr_assert_eq(cohort_sim_fault_add(&rank), COHORT_INVALID);
	cr_assert_not_null(strstr(cohort_last_error(), "rank"));
	cr_assert_not_null(strstr(cohort_last_error(), "-2"));
	cr_assert_eq(cohort_sim_fault_add(&kind), COHORT_INVALID);
	cr_assert_not_null(strstr(cohort_last_error(), "kind"));
	cr_assert_not_null(strstr(cohort_last_error(), "9"));
	cr_assert_eq(cohort_sim_fault_add(NULL), COHORT_INVALID);
}

Test(fault, there_are_64_at_a_time, .timeout = 10)
{
	const struct cohort_fault fault = { 0, 0, COHORT_FAULT_NEVER, 0 };
	int i;

	for (i = 0; i < 64; i++)
		add(0, (uint64_t)i, COHORT_FAULT_NEVER, 0);
	cr_assert_eq(cohort_sim_fault_add(&fault), COHORT_NO_MEMORY);
	cohort_sim_faults_clear();
	cr_assert_eq(cohort_sim_fault_add(&fault), COHORT_OK);
}

Test(fault, environment_scripts_them, .timeout = 10)
{
	const struct platform *p;
	struct native_clique clique;
	double before;

	setenv("COHORT_FAULTS", "1@0:error=3,0@1:delay=20ms,*@3:error=2", 1);
	p = native_open(2);
	native_clique_open(&clique, p, 2);
	cr_assert_eq(native_sum(&clique, 1), ncclInternalError);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 1), ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(clique.stream[0]), cudaSuccess);
	before = native_now_ms();
	native_sum_all(&clique);
	cr_assert_geq(native_now_ms() - before, 20.0);
	cr_assert_eq(native_sum(&clique, 1), ncclSystemError);
	native_clique_destroy(&clique);
}

Test(fault, environment_knows_never_and_stuck, .timeout = 10)
{
	const struct platform *p;
	struct native_clique clique;
	struct stuck stuck = { .clique = &clique, .rank = 1 };
	pthread_t thread;

	setenv("COHORT_FAULTS", "0@0:never,1@0:stuck", 1);
	p = native_open(2);
	native_clique_open(&clique, p, 2);
	start_stuck(&stuck, &thread);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[0]), cudaErrorNotReady);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(clique.comm[0]), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(clique.comm[1]), ncclSuccess);
	pthread_join(thread, NULL);
	cr_assert_neq(stuck.result, ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
}

Test(fault, environment_that_cannot_be_read_fails_the_opening, .timeout = 10)
{
	const struct platform *p;

	setenv("COHORT_FAULTS", "0@0:never,1@x:bogus", 1);
	cr_assert_neq(platform_open(COHORT_PLATFORM_HOST, &p), COHORT_OK);
	cr_assert_not_null(strstr(cohort_last_error(), "1@x:bogus"));
}
