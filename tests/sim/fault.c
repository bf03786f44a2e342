/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the host platform's scripted faults (sim.h)
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cohort/sim.h>

#include "platform/platform.h"
#include "support/expect.h"
#include "support/native.h"
#include "support/place.h"
#include "support/ranks.h"

/* ---- error ------------------------------------------------------------ */

Test(fault, error_fault_is_returned_once_and_nothing_is_enqueued, .timeout = 10)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 3);

	ranks_fault(1, 0, COHORT_FAULT_ERROR, ncclSystemError);
	cr_assert_eq(native_sum(&clique, 1), ncclSystemError);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[1]), cudaSuccess);
	native_sum_all(&clique);
	native_clique_destroy(&clique);
}

Test(fault, error_fault_may_have_an_unknown_code, .timeout = 10)
{
	struct native_clique clique;

	native_clique_begin(&clique, 2);
	ranks_fault(0, 0, COHORT_FAULT_ERROR, 99);
	cr_assert_eq((int)native_sum(&clique, 0), 99);
	native_clique_destroy(&clique);
}

Test(fault, error_fault_in_a_group_drops_the_group, .timeout = 10)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 3);
	int r;

	ranks_fault(1, 0, COHORT_FAULT_ERROR, ncclSystemError);
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

Test(fault, fault_strikes_the_given_operation, .timeout = 10)
{
	struct native_clique clique;

	native_clique_begin(&clique, 2);
	ranks_fault(1, 2, COHORT_FAULT_ERROR, ncclInternalError);
	native_sum_all(&clique);
	native_sum_all(&clique);
	cr_assert_eq(native_sum(&clique, 1), ncclInternalError);
	native_clique_destroy(&clique);
}

Test(fault, fault_strikes_only_the_given_rank, .timeout = 10)
{
	struct native_clique clique;

	native_clique_begin(&clique, 3);
	ranks_fault(2, 0, COHORT_FAULT_ERROR, ncclInternalError);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 1), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 2), ncclInternalError);
	native_clique_abort(&clique);
}

Test(fault, fault_for_any_rank_hits_the_first_rank_that_calls, .timeout = 10)
{
	struct native_clique clique;

	native_clique_begin(&clique, 2);
	ranks_fault(-1, 0, COHORT_FAULT_ERROR, ncclInternalError);
	cr_assert_eq(native_sum(&clique, 1), ncclInternalError);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	native_clique_abort(&clique);
}

Test(fault, fault_counts_operations_of_no_elements, .timeout = 10)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 2);

	ranks_fault(0, 1, COHORT_FAULT_ERROR, ncclInternalError);
	cr_assert_eq(p->ncclAllReduce(NULL, NULL, 0, ncclInt32, ncclSum,
	                              clique.comm[0], clique.stream[0]),
	             ncclSuccess);
	cr_assert_eq(native_sum(&clique, 0), ncclInternalError);
	native_clique_destroy(&clique);
}

Test(fault, fault_counts_operations_of_a_single_rank, .timeout = 10)
{
	const struct platform *p = native_open(2);
	struct native_clique clique;

	native_clique_open(&clique, p, 1);
	ranks_fault(0, 1, COHORT_FAULT_ERROR, ncclInternalError);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 0), ncclInternalError);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	native_clique_destroy(&clique);
}

Test(fault, fault_does_not_strike_after_it_was_cleared, .timeout = 10)
{
	struct native_clique clique;

	native_clique_begin(&clique, 2);
	ranks_fault(0, 0, COHORT_FAULT_ERROR, ncclInternalError);
	ranks_fault(-1, 0, COHORT_FAULT_NEVER, 0);
	cohort_sim_faults_clear();
	native_sum_all(&clique);
	native_clique_destroy(&clique);
}

/* ---- never ------------------------------------------------------------ */

/* Enqueue a sum on the 3 ranks of @clique.  Expect that all ranks wait until the
 * abort, and that no buffer changes. */
static void expect_sum_hangs(struct native_clique *clique)
{
	const struct platform *p = clique->p;
	int r;

	for (r = 0; r < 3; r++)
		cr_assert_eq(native_sum(clique, r), ncclSuccess);
	for (r = 0; r < 3; r++)
		cr_assert_eq(p->cudaStreamQuery(clique->stream[r]),
		             cudaErrorNotReady);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	for (r = 0; r < 3; r++)
		cr_assert_eq(p->ncclCommAbort(clique->comm[r]), ncclSuccess);
	for (r = 0; r < 3; r++) {
		cr_assert_eq(p->cudaStreamSynchronize(clique->stream[r]),
		             cudaSuccess);
		cr_assert_eq(native_touched(clique, r), 0);
	}
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
}

Test(fault, COHORT_FAULT_NEVER_blocks_all_ranks_until_the_abort, .timeout = 10)
{
	struct native_clique clique;

	native_clique_begin(&clique, 3);
	ranks_fault(1, 0, COHORT_FAULT_NEVER, 0);
	expect_sum_hangs(&clique);
}

Test(fault, COHORT_FAULT_NEVER_strikes_only_one_communicator, .timeout = 10)
{
	struct native_clique struck;
	const struct platform *p = native_clique_begin(&struck, 2);
	struct native_clique spared;

	native_clique_open(&spared, p, 2);
	ranks_fault(0, 0, COHORT_FAULT_NEVER, 0);
	cr_assert_eq(native_sum(&struck, 0), ncclSuccess);
	cr_assert_eq(native_sum(&struck, 1), ncclSuccess);
	native_sum_all(&spared);
	cr_assert_eq(p->cudaStreamQuery(struck.stream[1]), cudaErrorNotReady);
	native_clique_abort(&struck);
	native_clique_destroy(&spared);
}

Test(fault, clearing_a_never_fault_does_not_release_its_ranks, .timeout = 10)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 2);

	ranks_fault(0, 0, COHORT_FAULT_NEVER, 0);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 1), ncclSuccess);
	cohort_sim_faults_clear();
	cr_assert_eq(p->cudaStreamQuery(clique.stream[0]), cudaErrorNotReady);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[1]), cudaErrorNotReady);
	native_clique_abort(&clique);
}

/* ---- delay ------------------------------------------------------------ */

Test(fault, delay_fault_makes_a_rank_late, .timeout = 10)
{
	struct native_clique clique;
	double before;

	native_clique_begin(&clique, 3);
	ranks_fault(2, 0, COHORT_FAULT_DELAY, 50 * 1000 * 1000);
	before = native_now_ms();
	native_sum_all(&clique);
	cr_assert_geq(native_now_ms() - before, 50.0);
	native_sum_all(&clique);
	native_clique_destroy(&clique);
}

Test(fault, delay_fault_does_not_block_the_call, .timeout = 10)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 2);

	ranks_fault(0, 0, COHORT_FAULT_DELAY, UINT64_C(3600000000000));
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 1), ncclSuccess);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[1]), cudaErrorNotReady);
	native_clique_abort(&clique);
}

/*
 * After the first abort, the stream reaches the delayed work, where its thread
 * sleeps. The second abort must end this sleep.
 */
Test(fault, delay_fault_ends_with_the_abort, .timeout = 10)
{
	struct native_clique first;
	const struct platform *p = native_clique_begin(&first, 2);
	struct native_clique second;
	int i;

	native_clique_open(&second, p, 2);
	cr_assert_eq(native_sum(&first, 0), ncclSuccess);
	ranks_fault(0, 0, COHORT_FAULT_DELAY, UINT64_C(3600000000000));
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
	pid_t id; /* thread id, set when the thread is about to call */
	sem_t calls;
	ncclResult_t result;
	atomic_bool returned;
};

static void *get_stuck(void *user)
{
	struct stuck *stuck = user;

	stuck->id = gettid();
	sem_post(&stuck->calls);
	stuck->result = native_sum(stuck->clique, stuck->rank);
	atomic_store(&stuck->returned, true);
	return NULL;
}

static void start_stuck(struct stuck *stuck, pthread_t *thread)
{
	sem_init(&stuck->calls, 0, 0);
	pthread_create(thread, NULL, get_stuck, stuck);
	while (sem_wait(&stuck->calls) != 0)
		continue;
	native_await_sleep(stuck->id);
}

/* Let rank 1 of the 2 ranks of @clique, for which a fault is scripted, get stuck
 * in a sum.  Expect that the sum fails at the abort, and enqueues nothing. */
static void expect_sum_stuck(struct native_clique *clique)
{
	const struct platform *p = clique->p;
	struct stuck stuck = { .clique = clique, .rank = 1 };
	pthread_t thread;

	start_stuck(&stuck, &thread);
	cr_assert_eq(native_sum(clique, 0), ncclSuccess);
	cr_assert_eq(p->cudaStreamQuery(clique->stream[0]), cudaErrorNotReady);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(clique->comm[0]), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(clique->comm[1]), ncclSuccess);
	pthread_join(thread, NULL);
	cr_assert_neq(stuck.result, ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(clique->stream[1]), cudaSuccess);
	cr_assert_eq(native_touched(clique, 1), 0);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
}

Test(fault, stuck_fault_makes_a_call_fail_at_the_abort, .timeout = 10)
{
	struct native_clique clique;

	native_clique_begin(&clique, 2);
	ranks_fault(1, 0, COHORT_FAULT_STUCK, 0);
	expect_sum_stuck(&clique);
}

Test(fault, stuck_fault_does_not_block_other_communicators, .timeout = 10)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 2);
	struct native_clique other;
	struct stuck stuck = { .clique = &clique, .rank = 0 };
	pthread_t thread;

	native_clique_open(&other, p, 2);
	ranks_fault(0, 0, COHORT_FAULT_STUCK, 0);
	start_stuck(&stuck, &thread);
	native_sum_all(&other);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(clique.comm[0]), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(clique.comm[1]), ncclSuccess);
	pthread_join(thread, NULL);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	native_clique_destroy(&other);
}

/* ---- die -------------------------------------------------------------- */

Test(fault, die_fault_ends_the_thread_inside_the_call, .timeout = 10)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 2);
	struct stuck stuck = { .clique = &clique, .rank = 1 };
	pthread_t thread;

	ranks_fault(1, 0, COHORT_FAULT_DIE, 0);
	sem_init(&stuck.calls, 0, 0);
	pthread_create(&thread, NULL, get_stuck, &stuck);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert(!atomic_load(&stuck.returned));
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[0]), cudaErrorNotReady);
	native_clique_abort(&clique);
}

static void *sum_both(void *user)
{
	struct native_clique *clique = user;

	native_must(clique->p->ncclGroupStart(), "ncclGroupStart");
	native_must(native_sum(clique, 0), "ncclAllReduce");
	native_sum(clique, 1);
	return clique;
}

Test(fault, die_fault_drops_the_open_group, .timeout = 10)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 2);
	pthread_t thread;
	void *returned;

	ranks_fault(1, 0, COHORT_FAULT_DIE, 0);
	pthread_create(&thread, NULL, sum_both, &clique);
	cr_assert_eq(pthread_join(thread, &returned), 0);
	cr_assert_null(returned);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[0]), cudaSuccess);
	native_sum_all(&clique);
	native_clique_destroy(&clique);
}

/* ---- async ------------------------------------------------------------ */

Test(fault, async_fault_blocks_the_rank_and_is_reported_by_a_query,
     .timeout = 10)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 2);
	ncclResult_t error = ncclSuccess;

	ranks_fault(1, 1, COHORT_FAULT_ASYNC, ncclRemoteError);
	native_sum_all(&clique);
	cr_assert_eq(p->ncclCommGetAsyncError(clique.comm[1], &error),
	             ncclSuccess);
	cr_assert_eq(error, ncclSuccess);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 1), ncclSuccess);
	cr_assert_eq(p->ncclCommGetAsyncError(clique.comm[1], &error),
	             ncclSuccess);
	cr_assert_eq(error, ncclRemoteError);
	cr_assert_eq(p->ncclCommGetAsyncError(clique.comm[0], &error),
	             ncclSuccess);
	cr_assert_eq(error, ncclSuccess);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[0]), cudaErrorNotReady);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[1]), cudaErrorNotReady);
	native_clique_abort(&clique);
}

/* ---- devices ---------------------------------------------------------- */

Test(fault, device_fault_is_returned_until_it_is_cleared, .timeout = 10)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 2);

	ranks_fault(1, 1, COHORT_FAULT_DEVICE, cudaErrorLaunchFailure);
	native_sum_all(&clique);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[1]), cudaSuccess);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 1), ncclSuccess);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[0]), cudaErrorNotReady);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[1]),
	             cudaErrorLaunchFailure);
	cr_assert_eq(p->cudaStreamSynchronize(clique.stream[1]),
	             cudaErrorLaunchFailure);
	cr_assert_eq(p->cudaGetLastError(), cudaErrorLaunchFailure);
	cohort_sim_faults_clear();
	cr_assert_eq(p->cudaStreamQuery(clique.stream[1]), cudaErrorNotReady);
	native_clique_abort(&clique);
}

/* A GPU's kernel reads whole elements, and fails if they are misaligned. So
 * must the simulator. */
Test(fault, misaligned_elements_make_the_device_fail, .timeout = 10)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 2);
	int32_t in[2] = { 1, 2 }, out[2];
	char moved[2][8];
	int r;

	for (r = 0; r < 2; r++)
		cr_assert_eq(p->ncclReduce((char *)in + r, out, 1, ncclInt32,
		                           ncclSum, 0, clique.comm[r],
		                           clique.stream[r]),
		             ncclSuccess);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[1]),
	             cudaErrorMisalignedAddress);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[0]), cudaErrorNotReady);
	cohort_sim_faults_clear();
	native_clique_abort(&clique);
	/* Collectives that only copy elements work at any alignment. */
	native_clique_open(&clique, p, 2);
	for (r = 0; r < 2; r++)
		cr_assert_eq(p->ncclBroadcast((char *)in + 1, moved[r] + 1, 1,
		                              ncclInt32, 0, clique.comm[r],
		                              clique.stream[r]),
		             ncclSuccess);
	for (r = 0; r < 2; r++) {
		cr_assert_eq(p->cudaStreamSynchronize(clique.stream[r]),
		             cudaSuccess);
		cr_assert_arr_eq(moved[r] + 1, (char *)in + 1, sizeof(in[0]));
	}
	native_clique_destroy(&clique);
}

/* Make rank 1's device fail with @error during a call that hangs. */
static void lose_device_1(struct native_clique *clique, cudaError_t error)
{
	const struct platform *p = native_open(3);

	native_clique_open(clique, p, 2);
	ranks_fault(1, 0, COHORT_FAULT_DEVICE, (uint64_t)error);
	cr_assert_eq(native_sum(clique, 1), ncclSuccess);
	cr_assert_eq(p->cudaSetDevice(1), cudaSuccess);
}

static void never_run(void *user)
{
	(void)user;
	abort();
}

#define IS_LOST(call) cr_assert_eq(call, cudaErrorIllegalAddress, #call)

Test(fault, sticky_device_error_is_returned_by_every_call, .timeout = 10)
{
	static char host[8];
	struct native_clique clique;
	const struct platform *p = native_open(3);
	cudaStream_t stream = native_stream(p, 1), other;
	cudaEvent_t event, another;
	char *memory;

	cr_assert_eq(p->cudaSetDevice(1), cudaSuccess);
	cr_assert_eq(p->cudaMalloc((void **)&memory, 8), cudaSuccess);
	cr_assert_eq(p->cudaEventCreate(&event), cudaSuccess);
	lose_device_1(&clique, cudaErrorIllegalAddress);
	IS_LOST(p->cudaMalloc((void **)&memory, 8));
	IS_LOST(p->cudaMallocHost((void **)&memory, 8));
	IS_LOST(p->cudaMemcpy(memory, host, 8, cudaMemcpyDefault));
	IS_LOST(p->cudaMemcpyAsync(memory, host, 8, cudaMemcpyDefault, stream));
	IS_LOST(p->cudaMemset(memory, 0, 8));
	IS_LOST(p->cudaMemsetAsync(memory, 0, 8, stream));
	IS_LOST(p->cudaStreamCreate(&other));
	IS_LOST(p->cudaStreamQuery(stream));
	IS_LOST(p->cudaStreamSynchronize(stream));
	IS_LOST(p->cudaStreamWaitEvent(stream, event, 0));
	IS_LOST(p->cudaLaunchHostFunc(stream, never_run, NULL));
	IS_LOST(p->cudaEventCreate(&another));
	IS_LOST(p->cudaEventRecord(event, stream));
	IS_LOST(p->cudaEventQuery(event));
	IS_LOST(p->cudaEventSynchronize(event));
	IS_LOST(p->cudaDeviceSynchronize());
	IS_LOST(p->cudaGetLastError());
	IS_LOST(p->cudaGetLastError());
	IS_LOST(p->cudaPeekAtLastError());
	cr_assert_eq(native_sum(&clique, 1), ncclUnhandledCudaError);
	cr_assert_eq(p->ncclMemAlloc((void **)&memory, 8),
	             ncclUnhandledCudaError);
	IS_LOST(p->cudaEventDestroy(event));
	IS_LOST(p->cudaStreamDestroy(stream));
	native_must(p->ncclGroupStart(), "ncclGroupStart");
	cr_assert_eq(p->ncclCommAbort(clique.comm[0]), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(clique.comm[1]), ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	IS_LOST(p->cudaFree(memory));
}

Test(fault, sticky_device_error_affects_only_its_device, .timeout = 10)
{
	static const int devices[] = { 0, 2 }, lost[] = { 0, 1 };
	struct native_clique clique, other = { .n = 2 };
	const struct platform *p;
	void *memory;

	lose_device_1(&clique, cudaErrorIllegalAddress);
	p = other.p = clique.p;
	cr_assert_eq(p->ncclCommInitAll(other.comm, 2, lost),
	             ncclUnhandledCudaError);
	native_must(p->ncclGroupStart(), "ncclGroupStart");
	cr_assert_eq(p->ncclCommAbort(other.comm[0]), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(other.comm[1]), ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	cr_assert_eq(p->cudaSetDevice(0), cudaSuccess);
	cr_assert_eq(p->cudaGetLastError(), cudaSuccess);
	cr_assert_eq(p->cudaMalloc(&memory, 8), cudaSuccess);
	cr_assert_eq(p->ncclCommInitAll(other.comm, 2, devices), ncclSuccess);
	other.stream[0] = native_stream(p, 0);
	other.stream[1] = native_stream(p, 2);
	native_sum_all(&other);
	native_clique_destroy(&other);
	cohort_sim_faults_clear();
	native_clique_abort(&clique);
	cr_assert_eq(p->cudaFree(memory), cudaSuccess);
}

Test(fault, non_sticky_device_error_does_not_fail_later_calls, .timeout = 10)
{
	struct native_clique clique;
	const struct platform *p;
	void *memory;

	lose_device_1(&clique, cudaErrorLaunchOutOfResources);
	p = clique.p;
	cr_assert_eq(p->cudaStreamQuery(clique.stream[1]),
	             cudaErrorLaunchOutOfResources);
	cr_assert_eq(p->cudaMalloc(&memory, 8), cudaSuccess);
	cr_assert_eq(p->cudaGetLastError(), cudaErrorLaunchOutOfResources);
	cr_assert_eq(p->cudaGetLastError(), cudaSuccess);
	native_clique_abort(&clique);
	cr_assert_eq(p->cudaFree(memory), cudaSuccess);
}

/* ---- hung ------------------------------------------------------------- */

Test(fault, hung_fault_outlasts_the_abort, .timeout = 10)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 2);
	struct stuck stuck = { .clique = &clique, .rank = 1 };
	pthread_t thread;
	int i;

	ranks_fault(1, 0, COHORT_FAULT_HUNG, 0);
	start_stuck(&stuck, &thread);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(clique.comm[0]), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(clique.comm[1]), ncclSuccess);
	for (i = 0; i < 10000; i++)
		sched_yield();
	cr_assert(!atomic_load(&stuck.returned));
	cohort_sim_faults_clear();
	pthread_join(thread, NULL);
	cr_assert_neq(stuck.result, ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
}

/* ---- init ------------------------------------------------------------- */

struct opener {
	const struct platform *p;
	sem_t calls;
	pid_t id;
	struct native_clique clique;
	atomic_bool returned;
};

static void *open_clique(void *user)
{
	struct opener *opener = user;

	opener->id = gettid();
	sem_post(&opener->calls);
	native_clique_open(&opener->clique, opener->p, 2);
	atomic_store(&opener->returned, true);
	return NULL;
}

Test(fault, init_fault_blocks_the_init_until_it_is_cleared, .timeout = 10)
{
	struct opener opener = { .p = native_open(2) };
	pthread_t thread;
	int i;

	ranks_fault(1, 0, COHORT_FAULT_INIT, 0);
	sem_init(&opener.calls, 0, 0);
	pthread_create(&thread, NULL, open_clique, &opener);
	while (sem_wait(&opener.calls) != 0)
		continue;
	native_await_sleep(opener.id);
	for (i = 0; i < 10000; i++)
		sched_yield();
	cr_assert(!atomic_load(&opener.returned));
	cohort_sim_faults_clear();
	pthread_join(thread, NULL);
	native_sum_all(&opener.clique);
	native_clique_destroy(&opener.clique);
}

Test(fault, init_fault_can_delay_the_init, .timeout = 10)
{
	const struct platform *p = native_open(2);
	struct native_clique clique;
	double before = native_now_ms();

	ranks_fault(-1, 0, COHORT_FAULT_INIT, 20 * 1000 * 1000);
	native_clique_open(&clique, p, 2);
	cr_assert_geq(native_now_ms() - before, 20.0);
	native_sum_all(&clique);
	native_clique_destroy(&clique);
}

Test(fault, init_error_fault_makes_the_init_fail, .timeout = 10)
{
	const struct platform *p = native_open(2);
	const int devices[2] = { 0, 1 };
	ncclComm_t comms[2];

	ranks_fault(1, 0, COHORT_FAULT_INIT_ERROR, ncclInternalError);
	cr_assert_eq(p->ncclCommInitAll(comms, 2, devices), ncclInternalError);
	/* The caller must abort the communicators that were created. */
	cr_assert_eq(p->ncclCommAbort(comms[0]), ncclSuccess);
	cr_assert_null(comms[1]);
	cr_assert_eq(p->ncclCommInitAll(comms, 2, devices), ncclSuccess);
	p->ncclGroupStart();
	p->ncclCommDestroy(comms[0]);
	p->ncclCommDestroy(comms[1]);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
}

static ncclResult_t split_both(struct native_clique *clique, ncclComm_t *out)
{
	const struct platform *p = clique->p;
	ncclResult_t result = ncclSuccess, r;
	int i;

	p->ncclGroupStart();
	for (i = 0; i < 2; i++) {
		r = p->ncclCommSplit(clique->comm[i], 0, i, &out[i], NULL);
		if (result == ncclSuccess)
			result = r;
	}
	r = p->ncclGroupEnd();
	return result == ncclSuccess ? r : result;
}

Test(fault, init_faults_also_strike_a_split, .timeout = 10)
{
	const struct platform *p = native_open(2);
	struct native_clique clique;
	ncclComm_t children[2];
	double before;

	ranks_fault(0, 1, COHORT_FAULT_INIT, 20 * 1000 * 1000);
	ranks_fault(1, 1, COHORT_FAULT_INIT_ERROR, ncclInternalError);
	native_clique_open(&clique, p, 2);
	native_sum_all(&clique);
	before = native_now_ms();
	cr_assert_eq(split_both(&clique, children), ncclInternalError);
	ranks_fault(0, 1, COHORT_FAULT_INIT, 20 * 1000 * 1000);
	cr_assert_eq(split_both(&clique, children), ncclSuccess);
	cr_assert_geq(native_now_ms() - before, 20.0);
	p->ncclGroupStart();
	p->ncclCommDestroy(children[0]);
	p->ncclCommDestroy(children[1]);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	native_clique_destroy(&clique);
}

Test(fault, init_is_not_counted_as_a_collective, .timeout = 10)
{
	const struct platform *p = native_open(2);
	struct native_clique clique;
	struct native_clique second;
	double before;

	ranks_fault(0, 0, COHORT_FAULT_ERROR, ncclSystemError);
	native_clique_open(&clique, p, 2);
	ranks_fault(0, 0, COHORT_FAULT_INIT, 20 * 1000 * 1000);
	cr_assert_eq(native_sum(&clique, 0), ncclSystemError);
	native_sum_all(&clique);
	before = native_now_ms();
	native_clique_open(&second, p, 2);
	cr_assert_geq(native_now_ms() - before, 20.0);
	native_clique_destroy(&clique);
	native_clique_destroy(&second);
}

/* ---- memory ----------------------------------------------------------- */

Test(fault, memory_fault_fails_the_call_and_enqueues_nothing, .timeout = 10)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 2);

	ranks_fault(1, 0, COHORT_FAULT_MEMORY, 0);
	cr_assert_eq(native_sum(&clique, 1), ncclUnhandledCudaError);
	expect_text(p->ncclGetLastError(NULL), "memory");
	cr_assert_eq(p->cudaStreamQuery(clique.stream[1]), cudaSuccess);
	native_sum_all(&clique);
	native_clique_destroy(&clique);
}

/* ---- argument --------------------------------------------------------- */

/* Ranks with different counts hang. */
Test(fault, argument_fault_makes_the_counts_differ, .timeout = 10)
{
	struct native_clique clique;

	native_clique_begin(&clique, 3);
	ranks_fault(1, 0, COHORT_FAULT_ARGUMENT, 0);
	expect_sum_hangs(&clique);
}

Test(fault, argument_fault_reduces_the_count_by_one, .timeout = 10)
{
	const struct platform *p = native_open(2);
	struct native_clique clique;

	native_clique_open(&clique, p, 1);
	ranks_fault(0, 0, COHORT_FAULT_ARGUMENT, 0);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(clique.stream[0]), cudaSuccess);
	cr_assert_eq(native_touched(&clique, 0), NATIVE_COUNT - 1);
	native_clique_destroy(&clique);
}

Test(fault, argument_fault_does_not_reduce_a_count_of_0, .timeout = 10)
{
	struct native_clique clique;
	const struct platform *p = native_clique_begin(&clique, 2);

	ranks_fault(0, 0, COHORT_FAULT_ARGUMENT, 0);
	cr_assert_eq(p->ncclAllReduce(NULL, NULL, 0, ncclInt32, ncclSum,
	                              clique.comm[0], clique.stream[0]),
	             ncclSuccess);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[0]), cudaSuccess);
	native_clique_destroy(&clique);
}

/* ---- the script ------------------------------------------------------- */

Test(fault, bad_field_of_a_fault_is_refused_and_named, .timeout = 10)
{
	const struct cohort_fault rank = { -2, 0, COHORT_FAULT_NEVER, 0 };
	const struct cohort_fault kind = { 0, 0, 99, 0 };
	const struct cohort_fault init = { 0, 7, COHORT_FAULT_INIT, 0 };
	const struct cohort_fault async = { 0, 0, COHORT_FAULT_ASYNC, 0 };

	cr_assert_eq(cohort_sim_fault_add(&rank), COHORT_INVALID);
	expect_text(cohort_last_error(), "rank");
	expect_text(cohort_last_error(), "-2");
	cr_assert_eq(cohort_sim_fault_add(&kind), COHORT_INVALID);
	expect_text(cohort_last_error(), "kind");
	expect_text(cohort_last_error(), "99");
	cr_assert_eq(cohort_sim_fault_add(&init), COHORT_INVALID);
	expect_text(cohort_last_error(), "operation is 7");
	cr_assert_eq(cohort_sim_fault_add(&async), COHORT_INVALID);
	expect_text(cohort_last_error(), "value is 0");
	cr_assert_eq(cohort_sim_fault_add(NULL), COHORT_INVALID);
}

Test(fault, fault_list_has_room_for_64_faults, .timeout = 10)
{
	const struct cohort_fault fault = { 0, 0, COHORT_FAULT_NEVER, 0 };
	int i;

	for (i = 0; i < 64; i++)
		ranks_fault(0, (uint64_t)i, COHORT_FAULT_NEVER, 0);
	cr_assert_eq(cohort_sim_fault_add(&fault), COHORT_NO_MEMORY);
	cohort_sim_faults_clear();
	cr_assert_eq(cohort_sim_fault_add(&fault), COHORT_OK);
}

Test(fault, faults_can_be_scripted_in_the_environment, .timeout = 10)
{
	const struct platform *p;
	struct native_clique clique;
	double before;

	place_need_our_nccl("faults");
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

Test(fault, environment_can_script_never_and_stuck_faults, .timeout = 10)
{
	struct native_clique clique;

	place_need_our_nccl("faults");
	setenv("COHORT_FAULTS", "0@0:never,1@0:stuck", 1);
	native_clique_begin(&clique, 2);
	expect_sum_stuck(&clique);
}

Test(fault, environment_can_script_faults_of_a_call, .timeout = 10)
{
	const struct platform *p;
	struct native_clique clique;
	ncclResult_t error = ncclSuccess;
	pthread_t thread;
	void *returned;

	place_need_our_nccl("faults");
	setenv("COHORT_FAULTS", "0@0:memory,1@0:die,0@2:argument,1@1:async=6",
	       1);
	p = native_clique_begin(&clique, 2);
	cr_assert_eq(native_sum(&clique, 0), ncclUnhandledCudaError);
	pthread_create(&thread, NULL, sum_both, &clique);
	pthread_join(thread, &returned);
	cr_assert_null(returned);
	cr_assert_eq(p->ncclAllReduce(clique.send[0], clique.recv[0], 1,
	                              ncclInt32, ncclSum, clique.comm[0],
	                              clique.stream[0]),
	             ncclSuccess);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[0]), cudaSuccess,
	             "a count of 1 became 0");
	cr_assert_eq(native_sum(&clique, 1), ncclSuccess);
	cr_assert_eq(p->ncclCommGetAsyncError(clique.comm[1], &error),
	             ncclSuccess);
	cr_assert_eq(error, ncclRemoteError);
	native_clique_abort(&clique);
}

Test(fault, environment_can_script_hung_and_init_faults, .timeout = 10)
{
	struct opener opener = { 0 };
	struct stuck stuck = { .clique = &opener.clique, .rank = 1 };
	pthread_t thread;
	double before = native_now_ms();

	place_need_our_nccl("faults");
	setenv("COHORT_FAULTS",
	       "1@0:hung,0@0:init=20ms,0@0:init,0@1:init-error=3,"
	       "1@2:device=719",
	       1);
	opener.p = native_open(2);
	native_clique_open(&opener.clique, opener.p, 2);
	cr_assert_geq(native_now_ms() - before, 20.0);
	start_stuck(&stuck, &thread);
	cohort_sim_faults_clear();
	pthread_join(thread, NULL);
	cr_assert_neq(stuck.result, ncclSuccess);
	native_clique_destroy(&opener.clique);
}

Test(fault, malformed_fault_in_the_environment_fails_the_open, .timeout = 10)
{
	const struct platform *p;

	place_need_our_nccl("faults");
	setenv("COHORT_FAULTS", "0@0:never,1@x:bogus", 1);
	cr_assert_neq(platform_open(COHORT_PLATFORM_HOST, &p), COHORT_OK);
	expect_text(cohort_last_error(), "1@x:bogus");
}
