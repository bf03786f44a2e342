/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the host platform's communicators: init, properties, finalize,
 * destroy and abort
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "platform/platform.h"
#include "support/expect.h"
#include "support/native.h"
#include "support/place.h"

/* ---- init-all --------------------------------------------------------- */

Test(init, init_all_refuses_a_null_array, .timeout = 60)
{
	const struct platform *p = native_open(4);

	cr_assert_eq(p->ncclCommInitAll(NULL, 2, NULL), ncclInvalidArgument);
	cr_assert_eq(p->ncclCommInitAll(NULL, 0, NULL), ncclInvalidArgument);
}

Test(init, init_all_refuses_a_negative_number_of_ranks, .timeout = 60)
{
	const struct platform *p = native_open(4);
	ncclComm_t comms[4];

	cr_assert_eq(p->ncclCommInitAll(comms, -1, NULL), ncclInvalidArgument);
}

Test(init, init_all_of_no_ranks_succeeds, .timeout = 60)
{
	const struct platform *p;
	ncclComm_t comms[4];

	place_skip_on_nvidia("it divides by the number of ranks");
	p = native_open(4);
	cr_assert_eq(p->ncclCommInitAll(comms, 0, NULL), ncclSuccess);
}

Test(init, init_all_refuses_a_device_out_of_range, .timeout = 60)
{
	const struct platform *p = native_open(4);
	ncclComm_t comms[4];

	cr_assert_eq(p->ncclCommInitAll(comms, 2, (int[]){ 0, 4 }),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclCommInitAll(comms, 2, (int[]){ -1, 0 }),
	             ncclInvalidArgument);
}

Test(init, init_all_refuses_the_same_device_twice, .timeout = 60)
{
	const struct platform *p = native_open(4);
	ncclComm_t comms[4];

	cr_assert_eq(p->ncclCommInitAll(comms, 3, (int[]){ 2, 1, 2 }),
	             ncclInvalidUsage);
}

Test(init, init_all_refuses_more_ranks_than_devices, .timeout = 60)
{
	const struct platform *p = native_open(2);
	ncclComm_t comms[3];

	place_need_host("the number of devices");
	cr_assert_neq(p->ncclCommInitAll(comms, 3, NULL), ncclSuccess);
}

Test(init, init_all_restores_the_current_device, .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct native_clique clique;
	ncclComm_t comms[2];
	int device = -1;

	cr_assert_eq(p->cudaSetDevice(3), cudaSuccess);
	native_clique_open(&clique, p, 2);
	cr_assert_eq(p->cudaGetDevice(&device), cudaSuccess);
	cr_assert_eq(device, 3);
	cr_assert_neq(p->ncclCommInitAll(comms, 2, (int[]){ 0, 9 }),
	              ncclSuccess);
	cr_assert_neq(p->ncclCommInitAll(comms, 2, (int[]){ 1, 1 }),
	              ncclSuccess);
	cr_assert_eq(p->cudaGetDevice(&device), cudaSuccess);
	cr_assert_eq(device, 3);
	native_clique_destroy(&clique);
	cr_assert_eq(p->cudaGetDevice(&device), cudaSuccess);
	cr_assert_eq(device, 3);
}

Test(init, init_all_works_after_it_failed, .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct native_clique clique;
	ncclComm_t comms[2];

	cr_assert_neq(p->ncclCommInitAll(comms, 2, (int[]){ 0, 0 }),
	              ncclSuccess);
	native_clique_open(&clique, p, 3);
	native_sum_all(&clique);
	native_clique_destroy(&clique);
}

/* ---- properties ------------------------------------------------------- */

Test(comm, communicator_knows_its_rank_size_and_device, .timeout = 60)
{
	const struct platform *p = native_open(4);
	const int devices[] = { 3, 0, 2 };
	ncclComm_t comms[3];
	int value;
	int r;

	cr_assert_eq(p->ncclCommInitAll(comms, 3, devices), ncclSuccess);
	for (r = 0; r < 3; r++) {
		cr_assert_eq(p->ncclCommUserRank(comms[r], &value),
		             ncclSuccess);
		cr_assert_eq(value, r);
		cr_assert_eq(p->ncclCommCount(comms[r], &value), ncclSuccess);
		cr_assert_eq(value, 3);
		cr_assert_eq(p->ncclCommCuDevice(comms[r], &value),
		             ncclSuccess);
		cr_assert_eq(value, devices[r]);
	}
	for (r = 0; r < 3; r++)
		cr_assert_eq(p->ncclCommDestroy(comms[r]), ncclSuccess);
}

Test(comm, communicator_queries_check_their_arguments, .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct native_clique clique;
	int value;

	native_clique_open(&clique, p, 2);
	cr_assert_eq(p->ncclCommUserRank(NULL, &value), ncclInvalidArgument);
	cr_assert_eq(p->ncclCommCount(NULL, &value), ncclInvalidArgument);
	cr_assert_eq(p->ncclCommCuDevice(NULL, &value), ncclInvalidArgument);
	cr_assert_eq(p->ncclCommUserRank(clique.comm[0], NULL),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclCommCount(clique.comm[0], NULL),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclCommCuDevice(clique.comm[0], NULL),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclGetVersion(NULL), ncclInvalidArgument);
	native_clique_destroy(&clique);
}

Test(comm, async_error_query_reports_none_and_checks_arguments, .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct native_clique clique;
	ncclResult_t error = ncclInternalError;

	native_clique_open(&clique, p, 2);
	cr_assert_eq(p->ncclCommGetAsyncError(clique.comm[1], &error),
	             ncclSuccess);
	cr_assert_eq(error, ncclSuccess);
	cr_assert_eq(p->ncclCommGetAsyncError(NULL, &error),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclCommGetAsyncError(clique.comm[1], NULL),
	             ncclInvalidArgument);
	native_clique_destroy(&clique);
}

/* Expect the last error to contain @name, except with NVIDIA's NCCL, whose
 * texts differ. */
static void assert_error_names(const struct platform *p, const char *name)
{
	const char *text = p->ncclGetLastError(NULL);

	place_need_our_nccl("texts of errors");
	cr_assert_not_null(text);
	expect_text(text, name);
}

Test(comm, nccl_last_error_names_the_function_and_the_argument, .timeout = 60)
{
	const struct platform *p = native_open(4);

	cr_assert_not_null(p->ncclGetLastError(NULL));
	p->ncclCommInitAll(NULL, 2, NULL);
	assert_error_names(p, "ncclCommInitAll");
	assert_error_names(p, "comms");
}

/* ---- finalize and destroy --------------------------------------------- */

Test(comm, null_communicator_may_be_released, .timeout = 60)
{
	const struct platform *p = native_open(4);

	cr_assert_eq(p->ncclCommFinalize(NULL), ncclSuccess);
	cr_assert_eq(p->ncclCommDestroy(NULL), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(NULL), ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclInvalidUsage,
	             "no group may be left open");
}

#define ENDS_WAIT "from 2.31 on the end of a rank waits for the others'"

Test(comm, second_finalize_is_an_invalid_argument, .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct native_clique clique;

	native_clique_open(&clique, p, 2);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(p->ncclCommFinalize(clique.comm[0]), ncclSuccess);
	cr_assert_eq(p->ncclCommFinalize(clique.comm[1]), ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	cr_assert_eq(p->ncclCommFinalize(clique.comm[0]), ncclInvalidArgument);
	native_clique_destroy(&clique);
}

Test(comm, one_thread_can_finalize_and_destroy_rank_by_rank, .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct native_clique clique;
	int r;

	place_skip_on_nvidia_from(23100, ENDS_WAIT);
	native_clique_open(&clique, p, 4);
	native_sum_all(&clique);
	for (r = 0; r < 4; r++) {
		cr_assert_eq(p->ncclCommFinalize(clique.comm[r]), ncclSuccess);
		cr_assert_eq(p->ncclCommDestroy(clique.comm[r]), ncclSuccess);
	}
}

/* A clique whose sum is blocked by a gate, and the thread that opens the
 * gate */
struct held {
	struct native_clique clique;
	struct native_gate gate;
	atomic_bool opened; /* set just before the gate is opened */
	pthread_t opener;
};

static void *open_in_a_while(void *user)
{
	struct held *held = user;
	int i;

	native_gate_reached(&held->gate);
	for (i = 0; i < 1000; i++)
		sched_yield();
	atomic_store(&held->opened, true);
	native_gate_open(&held->gate);
	return NULL;
}

static void start_held(struct held *held, const struct platform *p)
{
	native_clique_open(&held->clique, p, 2);
	atomic_init(&held->opened, false);
	native_gate_hold(p, &held->gate, held->clique.stream[0]);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(native_sum(&held->clique, 0), ncclSuccess);
	cr_assert_eq(native_sum(&held->clique, 1), ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
}

static void start_opener(struct held *held)
{
	pthread_create(&held->opener, NULL, open_in_a_while, held);
}

/* Only the last rank's ncclCommDestroy() waits for enqueued work. */
Test(comm, destroy_of_the_last_rank_waits_for_the_work, .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct held held;

	start_held(&held, p);
	cr_assert_eq(p->ncclCommDestroy(held.clique.comm[0]), ncclSuccess);
	start_opener(&held);
	cr_assert_eq(p->ncclCommDestroy(held.clique.comm[1]), ncclSuccess);
	cr_assert(atomic_load(&held.opened));
	cr_assert_eq(native_wrong(&held.clique, 0), 0);
	cr_assert_eq(native_wrong(&held.clique, 1), 0);
	pthread_join(held.opener, NULL);
}

Test(comm, finalize_waits_for_enqueued_work, .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct held held;

	place_skip_on_nvidia_from(23100, ENDS_WAIT);
	start_held(&held, p);
	start_opener(&held);
	cr_assert_eq(p->ncclCommFinalize(held.clique.comm[1]), ncclSuccess);
	cr_assert(atomic_load(&held.opened));
	cr_assert_eq(native_wrong(&held.clique, 1), 0);
	cr_assert_eq(p->ncclCommFinalize(held.clique.comm[0]), ncclSuccess);
	cr_assert_eq(native_wrong(&held.clique, 0), 0);
	native_clique_destroy(&held.clique);
	pthread_join(held.opener, NULL);
}

Test(comm, destroy_of_the_first_rank_does_not_wait, .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct native_clique clique;
	struct native_gate gate;

	native_clique_open(&clique, p, 2);
	native_gate_hold(p, &gate, clique.stream[0]);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 1), ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	cr_assert_eq(p->ncclCommDestroy(clique.comm[0]), ncclSuccess);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[1]), cudaErrorNotReady);
	native_gate_open(&gate);
	cr_assert_eq(p->ncclCommDestroy(clique.comm[1]), ncclSuccess);
	cr_assert_eq(native_wrong(&clique, 1), 0);
}

/* ---- abort ------------------------------------------------------------ */

Test(abort, abort_frees_a_rank_that_has_called_alone, .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct native_clique clique;

	native_clique_open(&clique, p, 2);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[0]), cudaErrorNotReady);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(clique.comm[0]), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(clique.comm[1]), ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(clique.stream[0]), cudaSuccess);
}

/*
 * When ncclCommAbort() returns, the abort flag is set. The communicator exists
 * until the end of the group.
 */
Test(abort, aborted_communicator_exists_until_the_group_end, .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct native_clique clique;
	int value = -1;

	native_clique_open(&clique, p, 2);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(clique.comm[0]), ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(clique.stream[0]), cudaSuccess);
	cr_assert_eq(p->ncclCommAbort(clique.comm[1]), ncclSuccess);
	cr_assert_eq(p->ncclCommCount(clique.comm[0], &value), ncclSuccess);
	cr_assert_eq(value, 2);
	cr_assert_eq(p->ncclCommUserRank(clique.comm[1], &value), ncclSuccess);
	cr_assert_eq(value, 1);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
}

Test(abort, abort_of_all_ranks_but_one_frees_no_communicator, .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct native_clique clique;
	int value = -1;
	int r;

	native_clique_open(&clique, p, 3);
	cr_assert_eq(p->ncclCommAbort(clique.comm[0]), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(clique.comm[2]), ncclSuccess);
	for (r = 0; r < 3; r++) {
		cr_assert_eq(p->ncclCommUserRank(clique.comm[r], &value),
		             ncclSuccess);
		cr_assert_eq(value, r);
	}
	cr_assert_eq(p->ncclCommAbort(clique.comm[1]), ncclSuccess);
}

Test(abort, calls_after_an_abort_succeed_and_do_nothing, .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct native_clique clique;

	native_clique_open(&clique, p, 2);
	cr_assert_eq(p->ncclCommAbort(clique.comm[0]), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(clique.stream[0]), cudaSuccess);
	cr_assert_eq(native_touched(&clique, 0), 0);
	cr_assert_eq(p->ncclCommAbort(clique.comm[1]), ncclSuccess);
}

Test(abort, calls_after_an_abort_still_check_their_arguments, .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct native_clique clique;

	native_clique_open(&clique, p, 2);
	cr_assert_eq(p->ncclCommAbort(clique.comm[0]), ncclSuccess);
	cr_assert_eq(p->ncclBroadcast(clique.send[0], clique.recv[0], 1,
	                              ncclInt32, 7, clique.comm[0],
	                              clique.stream[0]),
	             ncclInvalidArgument);
	cr_assert_eq(p->ncclCommAbort(clique.comm[1]), ncclSuccess);
}

struct waiter {
	const struct platform *p;
	cudaStream_t stream;
	cudaError_t result;
};

static void *wait_for_stream(void *user)
{
	struct waiter *waiter = user;

	waiter->result = waiter->p->cudaStreamSynchronize(waiter->stream);
	return NULL;
}

Test(abort, abort_wakes_a_thread_that_waits_for_the_stream, .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct native_clique clique;
	struct waiter waiter;
	pthread_t thread;
	int r;

	native_clique_open(&clique, p, 3);
	cr_assert_eq(native_sum(&clique, 1), ncclSuccess);
	waiter = (struct waiter){ p, clique.stream[1], cudaErrorUnknown };
	pthread_create(&thread, NULL, wait_for_stream, &waiter);
	cr_assert_eq(p->ncclGroupStart(), ncclSuccess);
	for (r = 0; r < 3; r++)
		cr_assert_eq(p->ncclCommAbort(clique.comm[r]), ncclSuccess);
	pthread_join(thread, NULL);
	cr_assert_eq(waiter.result, cudaSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
}

static void post(void *user)
{
	sem_post(user);
}

/* No thread queries the stream, so only the abort can make it continue. */
Test(abort, abort_frees_a_stream_that_no_thread_waits_for, .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct native_clique clique;
	sem_t ran;

	sem_init(&ran, 0, 0);
	native_clique_open(&clique, p, 2);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(p->cudaLaunchHostFunc(clique.stream[0], post, &ran),
	             cudaSuccess);
	cr_assert_eq(sem_trywait(&ran), -1);
	cr_assert_eq(p->ncclCommAbort(clique.comm[0]), ncclSuccess);
	while (sem_wait(&ran) != 0)
		continue;
	cr_assert_eq(p->ncclCommAbort(clique.comm[1]), ncclSuccess);
}

/*
 * A rank's abort flag ends only its own part of an operation. The rank's peers
 * hang until their own flags are set.
 */
Test(abort, abort_of_one_rank_leaves_its_peers_hanging, .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct native_clique clique;

	native_clique_open(&clique, p, 3);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(native_sum(&clique, 1), ncclSuccess);
	cr_assert_eq(p->ncclCommAbort(clique.comm[0]), ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(clique.stream[0]), cudaSuccess);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[1]), cudaErrorNotReady);
	cr_assert_eq(p->ncclCommAbort(clique.comm[1]), ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(clique.stream[1]), cudaSuccess);
	cr_assert_eq(p->ncclCommAbort(clique.comm[2]), ncclSuccess);
}

Test(abort, abort_does_not_affect_other_communicators, .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct native_clique ended;
	struct native_clique lives;

	native_clique_open(&ended, p, 3);
	native_clique_open(&lives, p, 3);
	cr_assert_eq(native_sum(&ended, 2), ncclSuccess);
	native_clique_abort(&ended);
	native_sum_all(&lives);
	native_clique_destroy(&lives);
}

Test(abort, abort_lets_work_after_the_collective_run, .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct native_clique clique;
	char byte = 0;

	native_clique_open(&clique, p, 2);
	cr_assert_eq(native_sum(&clique, 0), ncclSuccess);
	cr_assert_eq(p->cudaMemsetAsync(&byte, 1, 1, clique.stream[0]),
	             cudaSuccess);
	native_clique_abort(&clique);
	cr_assert_eq(p->cudaDeviceSynchronize(), cudaSuccess);
	cr_assert_eq(byte, 1);
}

/* ---- abort of work in progress ---------------------------------------- */

/*
 * A gate that stops a thread in the middle of its work. The thread accesses a
 * protected page, waits in the signal handler, and then repeats the access. The
 * fault comes from a load or store in the work itself, so the handler can call
 * any function.
 */
static struct native_gate inside;

static void wait_inside(int signal)
{
	(void)signal;
	sem_post(&inside.reached);
	while (sem_wait(&inside.open) != 0)
		continue;
}

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

static void *page_of(int32_t *memory, size_t k)
{
	return (char *)memory + k * page_bytes();
}

/* Allocate @pages pages. Page @closed must not be accessed. */
static int32_t *page_closed(size_t pages, size_t closed)
{
	/* Run the handler only once: a second fault ends the test. */
	const struct sigaction action = {
		.sa_handler = wait_inside,
		.sa_flags = (int)SA_RESETHAND,
	};
	int32_t *memory =
		mmap(NULL, pages * page_bytes(), PROT_READ | PROT_WRITE,
	             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	place_skip_if_shared("plain memory is copied when its rank arrives");
	cr_assert_neq(memory, MAP_FAILED);
	cr_assert_eq(mprotect(page_of(memory, closed), page_bytes(), PROT_NONE),
	             0);
	sem_init(&inside.reached, 0, 0);
	sem_init(&inside.open, 0, 0);
	cr_assert_eq(sigaction(SIGSEGV, &action, NULL), 0);
	return memory;
}

static void page_open(void *page)
{
	cr_assert_eq(mprotect(page, page_bytes(), PROT_READ | PROT_WRITE), 0);
	native_gate_open(&inside);
}

/* Number of elements; too many to be copied during the call, so the buffer is
 * read later. */
#define PAGE_COUNT 100

/* Make two sums on rank @r in one group: first in @page, then in the clique's
 * buffers. */
static void sum_twice(struct native_clique *clique, int r, int32_t *page)
{
	const struct platform *p = clique->p;

	native_must(p->ncclGroupStart(), "ncclGroupStart");
	native_must(p->ncclAllReduce(page, page, PAGE_COUNT, ncclInt32, ncclSum,
	                             clique->comm[r], clique->stream[r]),
	            "ncclAllReduce");
	native_must(native_sum(clique, r), "ncclAllReduce");
	native_must(p->ncclGroupEnd(), "ncclGroupEnd");
}

static void *last_to_arrive(void *user)
{
	static int32_t own[PAGE_COUNT];

	sum_twice(user, 1, own);
	return NULL;
}

/*
 * A thread that is working on an operation may still access an aborted rank's
 * buffers. Once this thread is done, no further part of the operation may
 * start.
 */
Test(abort, abort_waits_for_working_threads_and_starts_no_more_work,
     .timeout = 60)
{
	const struct platform *p = native_open(4);
	int32_t *page = page_closed(1, 0);
	struct native_clique clique;
	pthread_t thread;

	native_clique_open(&clique, p, 2);
	sum_twice(&clique, 0, page);
	pthread_create(&thread, NULL, last_to_arrive, &clique);
	native_gate_reached(&inside);
	cr_assert_eq(p->ncclCommAbort(clique.comm[0]), ncclSuccess);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[0]), cudaErrorNotReady);
	page_open(page);
	cr_assert_eq(p->cudaStreamSynchronize(clique.stream[0]), cudaSuccess);
	pthread_join(thread, NULL);
	cr_assert_eq(native_touched(&clique, 0), 0);
	cr_assert_eq(native_touched(&clique, 1), 0);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[1]), cudaErrorNotReady);
	cr_assert_eq(p->ncclCommAbort(clique.comm[1]), ncclSuccess);
}

/* Sum two pages on one rank. */
static void sum_pages(struct native_clique *clique, int r, int32_t *memory)
{
	native_must(clique->p->ncclAllReduce(
			    memory, memory, 2 * page_bytes() / sizeof(*memory),
			    ncclInt32, ncclSum, clique->comm[r],
			    clique->stream[r]),
	            "ncclAllReduce");
}

/* Posted after rank 1's call has returned */
static sem_t called;

static void *wait_for_pages(void *user)
{
	struct native_clique *clique = user;
	int32_t *own = calloc(2, page_bytes());

	sum_pages(clique, 1, own);
	sem_post(&called);
	clique->p->cudaStreamSynchronize(clique->stream[1]);
	free(own);
	return NULL;
}

/*
 * Check that an abort of rank 0 waits while another thread works on page
 * @closed of rank 0's memory. If each rank has a core, the first page is in
 * rank 0's own share, which the poller works on. The second page is in rank 1's
 * share.
 */
static void expect_waits_for_page(size_t closed)
{
	static struct native_clique clique;
	const struct platform *p = native_open(4);
	int32_t *memory = page_closed(2, closed);
	pthread_t thread;

	native_clique_open(&clique, p, 2);
	sem_init(&called, 0, 0);
	sum_pages(&clique, 0, memory);
	pthread_create(&thread, NULL, wait_for_pages, &clique);
	native_gate_reached(&inside);
	cr_assert_eq(p->ncclCommAbort(clique.comm[0]), ncclSuccess);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[0]), cudaErrorNotReady);
	page_open(page_of(memory, closed));
	cr_assert_eq(p->cudaStreamSynchronize(clique.stream[0]), cudaSuccess);
	sem_wait(&called);
	cr_assert_eq(p->ncclCommAbort(clique.comm[1]), ncclSuccess);
	pthread_join(thread, NULL);
}

Test(abort, abort_waits_for_a_thread_that_reduces_its_own_share, .timeout = 60)
{
	expect_waits_for_page(1);
}

/* A waiting rank takes over part of another rank's share. */
Test(abort, abort_waits_for_a_thread_that_reduces_another_ranks_share,
     .timeout = 60)
{
	expect_waits_for_page(0);
}

/*
 * Check that rank 0 gets the result of a sum of @count elements. Rank 1 is
 * aborted after it has finished, and no thread has queried rank 0's stream
 * since rank 0's call.
 */
static void expect_result_after_peers_abort(size_t count)
{
	const struct platform *p = native_open(4);
	int32_t *x[2] = { calloc(count, sizeof(**x)),
		          calloc(count, sizeof(**x)) };
	struct native_clique clique;
	cudaError_t error = cudaErrorNotReady;
	int r;

	native_clique_open(&clique, p, 2);
	for (r = 0; r < 2; r++) {
		x[r][count - 1] = r + 1;
		native_must(p->ncclAllReduce(x[r], x[r], count, ncclInt32,
		                             ncclSum, clique.comm[r],
		                             clique.stream[r]),
		            "ncclAllReduce");
	}
	while (error == cudaErrorNotReady)
		error = p->cudaStreamQuery(clique.stream[1]);
	cr_assert_eq(error, cudaSuccess);
	cr_assert_eq(p->ncclCommAbort(clique.comm[1]), ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(clique.stream[0]), cudaSuccess);
	for (r = 0; r < 2; r++) {
		cr_assert_eq(x[r][count - 1], 3);
		free(x[r]);
	}
	cr_assert_eq(p->ncclCommAbort(clique.comm[0]), ncclSuccess);
}

Test(abort, abort_of_a_finished_rank_keeps_its_peers_result, .timeout = 60)
{
	expect_result_after_peers_abort(1);
	expect_result_after_peers_abort(1024);
	expect_result_after_peers_abort(100000);
}

/* Later calls must not depend on the aborted operation. */
Test(abort, abort_of_a_peer_does_not_end_later_calls, .timeout = 60)
{
	const struct platform *p = native_open(4);
	struct native_clique clique;
	int i, r;

	native_clique_open(&clique, p, 2);
	for (i = 0; i < 3; i++) {
		for (r = 0; r < 2; r++)
			native_must(native_sum(&clique, r), "ncclAllReduce");
		for (r = 0; r < 2; r++)
			native_must(p->cudaStreamSynchronize(clique.stream[r]),
			            "cudaStreamSynchronize");
	}
	cr_assert_eq(p->ncclCommAbort(clique.comm[1]), ncclSuccess);
	native_fill(&clique);
	native_must(native_sum(&clique, 0), "ncclAllReduce");
	cr_assert_eq(p->cudaStreamQuery(clique.stream[0]), cudaErrorNotReady);
	cr_assert_eq(native_touched(&clique, 0), 0);
	cr_assert_eq(p->ncclCommAbort(clique.comm[0]), ncclSuccess);
}

/* number of pages, more than a call itself transfers */
#define MESSAGE_PAGES 3

/* Enqueue rank @r's side of a message from rank 0 to rank 1. */
static void call_message(struct native_clique *clique, int r, void *memory)
{
	const struct platform *p = clique->p;
	const size_t bytes = MESSAGE_PAGES * page_bytes();

	native_must(r ? p->ncclRecv(memory, bytes, ncclInt8, 0, clique->comm[1],
	                            clique->stream[1])
	              : p->ncclSend(memory, bytes, ncclInt8, 1, clique->comm[0],
	                            clique->stream[0]),
	            r ? "ncclRecv" : "ncclSend");
}

/* Arguments of the thread for one side of a message */
struct end {
	struct native_clique clique;
	int rank;
};

static void *wait_for_message(void *user)
{
	struct end *end = user;
	char *own = malloc(MESSAGE_PAGES * page_bytes());

	call_message(&end->clique, end->rank, own);
	end->clique.p->cudaStreamSynchronize(end->clique.stream[end->rank]);
	free(own);
	return NULL;
}

/* Check that an abort of rank @r waits while the other rank's thread accesses
 * rank @r's memory. */
static void expect_waits_for_message(int r)
{
	static struct end end;
	const struct platform *p = native_open(4);
	struct native_clique *clique = &end.clique;
	int32_t *memory = page_closed(MESSAGE_PAGES, 0);
	pthread_t thread;

	native_clique_open(clique, p, 2);
	call_message(clique, r, memory);
	end.rank = 1 - r;
	pthread_create(&thread, NULL, wait_for_message, &end);
	native_gate_reached(&inside);
	cr_assert_eq(p->ncclCommAbort(clique->comm[r]), ncclSuccess);
	cr_assert_eq(p->cudaStreamQuery(clique->stream[r]), cudaErrorNotReady);
	page_open(memory);
	cr_assert_eq(p->cudaStreamSynchronize(clique->stream[r]), cudaSuccess);
	cr_assert_eq(p->ncclCommAbort(clique->comm[1 - r]), ncclSuccess);
	pthread_join(thread, NULL);
}

/*
 * The sender copies the message. If the receiver waits for a while, it takes
 * over the copy.
 */
Test(abort, abort_of_a_sender_waits_for_the_copying_thread, .timeout = 60)
{
	expect_waits_for_message(0);
}

Test(abort, abort_of_a_receiver_waits_for_the_copying_thread, .timeout = 60)
{
	expect_waits_for_message(1);
}

/*
 * The abort does not wait for a thread that has not started to copy. After the
 * abort, no thread starts to copy.
 */
Test(abort, abort_withdraws_a_message_whose_copy_has_not_started, .timeout = 60)
{
	const struct platform *p = native_open(4);
	const size_t bytes = MESSAGE_PAGES * page_bytes();
	char *to = calloc(bytes, 1), *from = malloc(bytes);
	struct native_clique clique;
	size_t i;

	memset(from, 1, bytes);
	native_clique_open(&clique, p, 2);
	call_message(&clique, 0, from);
	call_message(&clique, 1, to);
	cr_assert_eq(p->ncclCommAbort(clique.comm[1]), ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(clique.stream[1]), cudaSuccess);
	cr_assert_eq(p->cudaStreamQuery(clique.stream[0]), cudaErrorNotReady);
	for (i = 0; i < bytes; i++)
		cr_assert_eq(to[i], 0);
	cr_assert_eq(p->ncclCommAbort(clique.comm[0]), ncclSuccess);
	cr_assert_eq(p->cudaStreamSynchronize(clique.stream[0]), cudaSuccess);
	free(to);
	free(from);
}
