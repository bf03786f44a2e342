/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of memory operations beside a collective, on devices whose memory
 * functions wait for each other's kernels
 *
 * The host platform runs with COHORT_HOST_SYNC=device. Rank 0 has called a
 * collective. Before rank 1 calls it, rank 1 makes a call in which CUDA may
 * wait for every device. If ranks launch ahead, this is a deadlock, which the
 * watchdog ends. If they launch together, the program completes.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/clock.h"
#include "support/cuda_calls.h"
#include "support/native.h"
#include "support/ranks.h"

TestSuite(sync_device, .timeout = 60);

/*
 * Deadline after which a deadlock is detected, in ns
 */
#define DEADLINE UINT64_C(300000000)
#define LATE UINT64_C(5000000000)

#define SMALL 16
#define LARGE (1024 * 1024)
#define TENSORS 4

/* The collectives that both ranks call */
enum collective { ONE, LIST, HOST_MEMORY };

struct scene {
	const struct platform *p;
	int launch; /* value of enum cohort_launch */
	struct cohort_group *group;
	struct cohort_comm *comms[2];

	struct cohort_group *others; /* group on devices 2 and 3, not split */
	/* rank 1's communicator of a child that rank 0 has closed */
	struct cohort_comm *child;

	/* memory and a stream on rank 1's device */
	void *device, *pinned, *memory;
	cudaStream_t stream;

	int32_t *data[2]; /* each rank's data in host memory */
	size_t count;
	enum collective collective;
	void (*operation)(struct scene *s);

	pid_t first; /* thread of rank 0 */
	sem_t is_up;
	int rc[2];        /* each rank's result of the collective */
	uint64_t took_ns; /* duration of rank 0's call */
};

/* ---- operations of rank 1 ----------------------------------------------- */

static void check(const struct scene *s, const char *what, cudaError_t error)
{
	(void)s;
	native_must((int)error, what);
}

static void do_malloc(struct scene *s)
{
	void *memory;

	check(s, "cudaMalloc", s->p->cudaMalloc(&memory, SMALL));
	check(s, "cudaFree", s->p->cudaFree(memory));
}

static void do_free(struct scene *s)
{
	check(s, "cudaFree", s->p->cudaFree(s->device));
	s->device = NULL;
}

static void do_host_alloc(struct scene *s)
{
	void *memory;

	check(s, "cudaHostAlloc", s->p->cudaHostAlloc(&memory, SMALL, 0));
	check(s, "cudaFreeHost", s->p->cudaFreeHost(memory));
}

static void do_free_host(struct scene *s)
{
	check(s, "cudaFreeHost", s->p->cudaFreeHost(s->pinned));
	s->pinned = NULL;
}

static void do_copy(struct scene *s)
{
	check(s, "cudaMemcpy",
	      s->p->cudaMemcpy(s->device, s->pinned, SMALL,
	                       cudaMemcpyHostToDevice));
}

static void do_pageable_copy(struct scene *s)
{
	check(s, "cudaMemcpyAsync",
	      s->p->cudaMemcpyAsync(s->device, s->data[1], SMALL,
	                            cudaMemcpyHostToDevice, s->stream));
}

static void do_cohort_alloc(struct scene *s)
{
	void *memory;

	ranks_must(cohort_alloc(s->comms[1], SMALL, &memory), "alloc");
	ranks_must(cohort_free(s->comms[1], memory), "free");
}

static void do_cohort_free(struct scene *s)
{
	ranks_must(cohort_free(s->comms[1], s->memory), "free");
	s->memory = NULL;
}

/* The first broadcast on a device loads its kernel. */
static void do_lazy_loading(struct scene *s)
{
	const void *send[] = { s->data[0], s->data[0] };
	void *recv[] = { s->data[0], s->data[0] };
	uint64_t ticket;

	place_skip_on_nvidia("its kernels are loaded with the library");
	ranks_must(cohort_group_broadcast(s->others, send, recv, 1, COHORT_I32,
	                                  0, NULL, &ticket),
	           "broadcast");
	ranks_must(cohort_group_wait(s->others, ticket, RANKS_SOON), "wait");
}

static void do_close(struct scene *s)
{
	ranks_must(cohort_group_close(s->others), "close");
	s->others = NULL;
}

static void do_close_child(struct scene *s)
{
	ranks_must(cohort_comm_close(s->child), "close");
	s->child = NULL;
}

/* An aborted group frees memory when it ends. */
static void do_abort(struct scene *s)
{
	ranks_must(cohort_group_abort(s->others, "over"), "abort");
	do_close(s);
}

static char own[8192] __attribute__((aligned(4096)));

static void do_host_register(struct scene *s)
{
	check(s, "cudaHostRegister",
	      cuda_calls()->cudaHostRegister(own, sizeof(own), 0));
	check(s, "cudaHostUnregister", cuda_calls()->cudaHostUnregister(own));
}

static void do_peer_access(struct scene *s)
{
	check(s, "cudaDeviceEnablePeerAccess",
	      cuda_calls()->cudaDeviceEnablePeerAccess(2, 0));
	check(s, "cudaDeviceDisablePeerAccess",
	      cuda_calls()->cudaDeviceDisablePeerAccess(2));
}

static void do_nothing(struct scene *s)
{
	(void)s;
}

static void do_open(struct scene *s)
{
	const int devices[] = { 2, 3 };
	struct cohort_group_options o;
	struct cohort_group *group;

	(void)s;
	cohort_group_options_init(&o);
	o.platform = place_platform();
	ranks_must(cohort_group_open(devices, 2, &o, &group), "open");
	ranks_must(cohort_group_close(group), "close");
}

/* ---- the two ranks ---------------------------------------------------- */

static const struct platform *real;

/* rank 0 has launched a sum since the last reset */
static atomic_bool has_launched;

static ncclResult_t launch_and_tell(const void *send, void *recv, size_t count,
                                    ncclDataType_t type, ncclRedOp_t op,
                                    ncclComm_t comm, cudaStream_t stream)
{
	ncclResult_t result;
	int rank;

	real->ncclCommUserRank(comm, &rank);
	result = real->ncclAllReduce(send, recv, count, type, op, comm, stream);
	if (rank == 0)
		atomic_store(&has_launched, true);
	return result;
}

/* Open a platform with @all_reduce in place of ncclAllReduce(). */
static void open_platform(int devices,
                          __typeof__(real->ncclAllReduce) all_reduce)
{
	static struct platform table;

	setenv("COHORT_HOST_SYNC", "device", 1);
	real = native_open(devices);
	table = *real;
	table.ncclAllReduce = all_reduce;
	platform_override(&table);
}

static int reduce(struct scene *s, int r, enum collective collective,
                  uint64_t *ticket)
{
	struct cohort_comm *comm = s->comms[r];
	void *stream = cohort_comm_stream(comm);
	const size_t each = s->count / TENSORS;
	struct cohort_tensor list[TENSORS];
	size_t i;

	if (collective == ONE)
		return cohort_all_reduce(comm, s->data[r], s->data[r], s->count,
		                         COHORT_I32, COHORT_SUM, stream,
		                         ticket);
	for (i = 0; i < TENSORS; i++)
		list[i] = (struct cohort_tensor){ s->data[r] + i * each,
			                          s->data[r] + i * each, each,
			                          COHORT_I32 };
	return cohort_all_reduce_many(comm, list, TENSORS, COHORT_SUM, stream,
	                              ticket);
}

static int sum(struct scene *s, int r, enum collective collective)
{
	uint64_t ticket;
	int rc;

	if (collective == HOST_MEMORY)
		return cohort_all_reduce_host(s->comms[r], s->data[r], s->count,
		                              COHORT_I32, COHORT_SUM,
		                              RANKS_SOON);
	rc = reduce(s, r, collective, &ticket);
	return rc == COHORT_OK ? cohort_wait(s->comms[r], ticket, RANKS_SOON)
	                       : rc;
}

static void *first_rank(void *user)
{
	struct scene *s = user;
	uint64_t began_ns;

	s->first = gettid();
	sem_post(&s->is_up);
	began_ns = test_now();
	s->rc[0] = sum(s, 0, s->collective);
	s->took_ns = test_now() - began_ns;
	return NULL;
}

static bool has_ended(const struct scene *s)
{
	struct cohort_cause cause;

	ranks_must(cohort_group_cause(s->group, &cause), "cause");
	return cause.status != COHORT_OK;
}

/*
 * If the ranks launch together, wait until rank 0 is in its call. If they
 * launch ahead, wait until NCCL has rank 0's call, or until the group has
 * ended, which can happen if this thread was not scheduled in time. It would
 * not be enough to wait until rank 0's stream is busy, because a copy may
 * precede the collective.
 */
static void await_first(const struct scene *s)
{
	if (s->launch == COHORT_LAUNCH_TOGETHER)
		native_await_sleep(s->first);
	else
		while (!atomic_load(&has_launched) && !has_ended(s))
			sched_yield();
}

static void *second_rank(void *user)
{
	struct scene *s = user;

	native_must(s->p->cudaSetDevice(1), "cudaSetDevice");
	await_first(s);
	s->operation(s);
	s->rc[1] = sum(s, 1, s->collective);
	return NULL;
}

/* Make the first calls, and create a child that rank 0 closes. */
static void set_up(struct scene *s, int r)
{
	struct cohort_comm *child;

	s->rc[r] = sum(s, r, ONE);
	if (s->rc[r] == COHORT_OK && s->launch == COHORT_LAUNCH_TOGETHER)
		s->rc[r] = sum(s, r, s->collective);
	ranks_must(cohort_comm_split(s->comms[r], 0, 0, &child), "split");
	if (r == 0)
		ranks_must(cohort_comm_close(child), "close");
	else
		s->child = child;
}

static void *set_up_second(void *user)
{
	set_up(user, 1);
	return NULL;
}

/*
 * Load the kernel. If the ranks launch together, also make the library allocate
 * memory blocks that are too small for the call under test.
 */
static void warm_up(struct scene *s)
{
	pthread_t thread;
	int r;

	for (r = 0; r < 2; r++)
		s->data[r] = calloc(LARGE, sizeof(int32_t));
	s->count = SMALL;
	native_must(pthread_create(&thread, NULL, set_up_second, s), "thread");
	set_up(s, 0);
	pthread_join(thread, NULL);
	ranks_must(s->rc[0], "warm up");
	ranks_must(s->rc[1], "warm up");
	atomic_store(&has_launched, false);
	s->count = s->collective == ONE ? SMALL : LARGE;
	for (r = 0; r < 2; r++)
		s->data[r][s->count - 1] = r + 1;
}

static void open_scene(struct scene *s)
{
	const int devices[] = { 2, 3 };
	struct cohort_group_options o;

	place_need_host("devices that always wait for each other");
	open_platform(4, launch_and_tell);
	s->p = real;
	cohort_group_options_init(&o);
	o.launch = s->launch;
	o.many = COHORT_MANY_FLAT;
	o.deadlines.join_ns =
		s->launch == COHORT_LAUNCH_AHEAD ? DEADLINE : RANKS_SOON;
	s->group = ranks_split(2, &o, s->comms);
	o.platform = place_platform();
	o.deadlines.join_ns = RANKS_SOON;
	ranks_must(cohort_group_open(devices, 2, &o, &s->others), "open");
	native_must(s->p->cudaSetDevice(1), "cudaSetDevice");
	s->stream = native_stream(s->p, 1);
	native_must(s->p->cudaMalloc(&s->device, SMALL), "cudaMalloc");
	native_must(s->p->cudaHostAlloc(&s->pinned, SMALL, 0), "cudaHostAlloc");
	ranks_must(cohort_alloc(s->comms[1], SMALL, &s->memory), "alloc");
	warm_up(s);
}

static void close_scene(struct scene *s)
{
	free(s->data[0]);
	free(s->data[1]);
	native_must(s->p->cudaStreamDestroy(s->stream), "cudaStreamDestroy");
	native_must(s->p->cudaFree(s->device), "cudaFree");
	native_must(s->p->cudaFreeHost(s->pinned), "cudaFreeHost");
	ranks_must(cohort_free(s->comms[1], s->memory), "free");
	if (s->child)
		ranks_must(cohort_comm_close(s->child), "close");
	ranks_must(cohort_group_close(s->others), "close");
	ranks_must(cohort_group_close(s->group), "close");
}

/* ---- both launch modes ------------------------------------------------ */

static void check_deadlock(struct scene *s)
{
	struct cohort_cause cause;
	int r;

	ranks_must(cohort_group_cause(s->group, &cause), "cause");
	for (r = 0; r < 2; r++)
		cr_assert_eq(s->rc[r], COHORT_STALLED, "rank %d: %s: %s", r,
		             cohort_status_text(s->rc[r]), cause.text);
	cr_assert_eq(cause.status, COHORT_STALLED);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	cr_assert_geq(s->took_ns, DEADLINE);
	cr_assert_lt(s->took_ns, DEADLINE + LATE);
}

static void check_sums(const struct scene *s)
{
	int r;

	for (r = 0; r < 2; r++) {
		ranks_must(s->rc[r], "the collective");
		cr_assert_eq(s->data[r][s->count - 1], 3);
	}
}

static void run(int launch, void (*operation)(struct scene *s),
                enum collective collective)
{
	struct scene s = {
		.launch = launch,
		.operation = operation,
		.collective = collective,
	};
	pthread_t threads[2];

	open_scene(&s);
	sem_init(&s.is_up, 0, 0);
	native_must(pthread_create(&threads[0], NULL, first_rank, &s),
	            "thread");
	while (sem_wait(&s.is_up) != 0)
		continue;
	native_must(pthread_create(&threads[1], NULL, second_rank, &s),
	            "thread");
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	if (launch == COHORT_LAUNCH_AHEAD)
		check_deadlock(&s);
	else
		check_sums(&s);
	close_scene(&s);
}

Test(sync_device, cudaMalloc_deadlocks_if_ranks_launch_ahead)
{
	run(COHORT_LAUNCH_AHEAD, do_malloc, ONE);
}

Test(sync_device, cudaMalloc_is_safe_if_ranks_launch_together)
{
	run(COHORT_LAUNCH_TOGETHER, do_malloc, ONE);
}

Test(sync_device, cudaFree_deadlocks_if_ranks_launch_ahead)
{
	run(COHORT_LAUNCH_AHEAD, do_free, ONE);
}

Test(sync_device, cudaFree_is_safe_if_ranks_launch_together)
{
	run(COHORT_LAUNCH_TOGETHER, do_free, ONE);
}

Test(sync_device, cudaHostAlloc_deadlocks_if_ranks_launch_ahead)
{
	run(COHORT_LAUNCH_AHEAD, do_host_alloc, ONE);
}

Test(sync_device, cudaHostAlloc_is_safe_if_ranks_launch_together)
{
	run(COHORT_LAUNCH_TOGETHER, do_host_alloc, ONE);
}

Test(sync_device, cudaFreeHost_deadlocks_if_ranks_launch_ahead)
{
	run(COHORT_LAUNCH_AHEAD, do_free_host, ONE);
}

Test(sync_device, cudaFreeHost_is_safe_if_ranks_launch_together)
{
	run(COHORT_LAUNCH_TOGETHER, do_free_host, ONE);
}

Test(sync_device, cudaMemcpy_deadlocks_if_ranks_launch_ahead)
{
	run(COHORT_LAUNCH_AHEAD, do_copy, ONE);
}

Test(sync_device, cudaMemcpy_is_safe_if_ranks_launch_together)
{
	run(COHORT_LAUNCH_TOGETHER, do_copy, ONE);
}

Test(sync_device, pageable_cudaMemcpyAsync_deadlocks_if_ranks_launch_ahead)
{
	run(COHORT_LAUNCH_AHEAD, do_pageable_copy, ONE);
}

Test(sync_device, pageable_cudaMemcpyAsync_is_safe_if_ranks_launch_together)
{
	run(COHORT_LAUNCH_TOGETHER, do_pageable_copy, ONE);
}

Test(sync_device, cohort_alloc_deadlocks_if_ranks_launch_ahead)
{
	run(COHORT_LAUNCH_AHEAD, do_cohort_alloc, ONE);
}

Test(sync_device, cohort_alloc_is_safe_if_ranks_launch_together)
{
	run(COHORT_LAUNCH_TOGETHER, do_cohort_alloc, ONE);
}

Test(sync_device, cohort_free_deadlocks_if_ranks_launch_ahead)
{
	run(COHORT_LAUNCH_AHEAD, do_cohort_free, ONE);
}

Test(sync_device, cohort_free_is_safe_if_ranks_launch_together)
{
	run(COHORT_LAUNCH_TOGETHER, do_cohort_free, ONE);
}

Test(sync_device, loading_a_kernel_deadlocks_if_ranks_launch_ahead)
{
	run(COHORT_LAUNCH_AHEAD, do_lazy_loading, ONE);
}

Test(sync_device, loading_a_kernel_is_safe_if_ranks_launch_together)
{
	run(COHORT_LAUNCH_TOGETHER, do_lazy_loading, ONE);
}

Test(sync_device, closing_another_group_deadlocks_if_ranks_launch_ahead)
{
	run(COHORT_LAUNCH_AHEAD, do_close, ONE);
}

Test(sync_device, closing_another_group_is_safe_if_ranks_launch_together)
{
	run(COHORT_LAUNCH_TOGETHER, do_close, ONE);
}

Test(sync_device, aborting_another_group_deadlocks_if_ranks_launch_ahead)
{
	run(COHORT_LAUNCH_AHEAD, do_abort, ONE);
}

Test(sync_device, aborting_another_group_is_safe_if_ranks_launch_together)
{
	run(COHORT_LAUNCH_TOGETHER, do_abort, ONE);
}

Test(sync_device, opening_another_group_deadlocks_if_ranks_launch_ahead)
{
	run(COHORT_LAUNCH_AHEAD, do_open, ONE);
}

Test(sync_device, opening_another_group_is_safe_if_ranks_launch_together)
{
	run(COHORT_LAUNCH_TOGETHER, do_open, ONE);
}

Test(sync_device, cudaHostRegister_deadlocks_if_ranks_launch_ahead)
{
	run(COHORT_LAUNCH_AHEAD, do_host_register, ONE);
}

Test(sync_device, cudaHostRegister_is_safe_if_ranks_launch_together)
{
	run(COHORT_LAUNCH_TOGETHER, do_host_register, ONE);
}

Test(sync_device, cudaDeviceEnablePeerAccess_deadlocks_if_ranks_launch_ahead)
{
	place_skip_on_nvidia("NCCL may enable peer access itself");
	run(COHORT_LAUNCH_AHEAD, do_peer_access, ONE);
}

Test(sync_device, cudaDeviceEnablePeerAccess_is_safe_if_ranks_launch_together)
{
	place_skip_on_nvidia("NCCL may enable peer access itself");
	run(COHORT_LAUNCH_TOGETHER, do_peer_access, ONE);
}

/*
 * Rank 1 is the last rank to close the child, and does not wait until the
 * reaper has freed the child. So rank 1 can launch, and there is no deadlock
 * even if ranks launch ahead.
 */
Test(sync_device, child_can_be_closed_while_its_parents_call_waits)
{
	run(COHORT_LAUNCH_TOGETHER, do_close_child, ONE);
}

/* ---- memory that the library's calls allocate or enlarge ---------------- */

Test(sync_device, host_memory_calls_deadlock_if_ranks_launch_ahead)
{
	run(COHORT_LAUNCH_AHEAD, do_nothing, HOST_MEMORY);
}

Test(sync_device, host_memory_calls_are_safe_if_ranks_launch_together)
{
	run(COHORT_LAUNCH_TOGETHER, do_nothing, HOST_MEMORY);
}

Test(sync_device, packed_lists_deadlock_if_ranks_launch_ahead)
{
	run(COHORT_LAUNCH_AHEAD, do_nothing, LIST);
}

Test(sync_device, packed_lists_are_safe_if_ranks_launch_together)
{
	run(COHORT_LAUNCH_TOGETHER, do_nothing, LIST);
}

/* ---- registered memory ------------------------------------------------ */

#define RANKS_REGISTERED 4

/* Make a call, a list and a batch, each on registered memory that is used for
 * the first time. */
static int use_registered(struct cohort_comm *comm, void *unused)
{
	void *stream = cohort_comm_stream(comm);
	struct cohort_tensor list[2] = { { .recv = NULL } };
	void *each, *all;
	uint64_t ticket;
	size_t i;

	(void)unused;
	ranks_must(cohort_alloc_registered(comm, SMALL, &each), "alloc");
	ranks_must(cohort_alloc_registered(comm, RANKS_REGISTERED * SMALL,
	                                   &all),
	           "alloc");
	ranks_must(cohort_all_gather(comm, each, all, SMALL, COHORT_I8, stream,
	                             &ticket),
	           "all_gather");
	for (i = 0; i < 2; i++) {
		ranks_must(cohort_alloc_registered(comm, SMALL, &list[i].recv),
		           "alloc");
		list[i].send = list[i].recv;
		list[i].count = SMALL / sizeof(int32_t);
		list[i].type = COHORT_I32;
	}
	ranks_must(cohort_all_reduce_many(comm, list, 2, COHORT_SUM, stream,
	                                  &ticket),
	           "all_reduce_many");
	ranks_must(cohort_alloc_registered(comm, SMALL, &each), "alloc");
	ranks_must(cohort_batch_begin(comm), "begin");
	ranks_must(cohort_broadcast(comm, each, each, SMALL, COHORT_I8, 0,
	                            stream, NULL),
	           "broadcast");
	ranks_must(cohort_batch_end(comm, stream, &ticket), "end");
	return cohort_wait(comm, ticket, RANKS_SOON);
}

/* NCCL allocates memory in the call. If a rank allocated after another rank's
 * launch, the two would wait for each other. */
Test(sync_device, registered_memory_is_completed_before_any_rank_launches)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	place_need_host("devices that always wait for each other");
	setenv("COHORT_HOST_SYNC", "device", 1);
	native_open(RANKS_REGISTERED);
	cohort_group_options_init(&o);
	o.launch = COHORT_LAUNCH_TOGETHER;
	o.many = COHORT_MANY_GROUP;
	o.deadlines.join_ns = o.deadlines.exec_ns = RANKS_SOON;
	group = ranks_open(RANKS_REGISTERED, &o);
	ranks_must(cohort_group_run(group, use_registered, NULL, NULL), "run");
	ranks_must(cohort_group_close(group), "close");
}

/* ---- two groups on the same devices ----------------------------------- */

/*
 * Two groups on the same devices. Rank 0 of group a has launched. When rank 1
 * of group a is about to launch, a thread of group b makes a call on rank 1's
 * device.
 */
struct beside {
	void (*operation)(struct beside *b);
	bool is_quiet;
	struct cohort_group *groups[2];
	struct cohort_comm *a[2], *b[2];
	void *memory, *stream; /* memory and stream on rank 1's device */
	char pageable[SMALL];
};

static struct beside *beside;

/* makes rank 1 wait in its launches until the operation waits */
static atomic_bool is_armed;

/* id of the thread that is about to make the operation, or 0 */
static atomic_int operating;

static ncclResult_t launch_in_turn(const void *send, void *recv, size_t count,
                                   ncclDataType_t type, ncclRedOp_t op,
                                   ncclComm_t comm, cudaStream_t stream)
{
	int rank;

	real->ncclCommUserRank(comm, &rank);
	/* Wait until the operation blocks launches on device 1, or until the
	 * quiet section waits to start. */
	if (atomic_load(&is_armed) && rank == 1)
		native_await_wait(&operating);
	return launch_and_tell(send, recv, count, type, op, comm, stream);
}

static void beside_copy(struct beside *b)
{
	ranks_must(cohort_copy(b->b[1], b->memory, b->pageable, SMALL,
	                       b->stream),
	           "copy");
}

static void beside_malloc(struct beside *b)
{
	void *memory;

	(void)b;
	native_must(real->cudaMalloc(&memory, SMALL), "cudaMalloc");
}

static void *operate(void *unused)
{
	(void)unused;
	native_must(real->cudaSetDevice(1), "cudaSetDevice");
	while (!atomic_load(&has_launched))
		sched_yield();
	atomic_store(&operating, gettid());
	if (beside->is_quiet)
		ranks_must(cohort_quiet_begin(), "begin");
	beside->operation(beside);
	if (beside->is_quiet)
		ranks_must(cohort_quiet_end(), "end");
	return NULL;
}

static void *sum_once(void *comm)
{
	int32_t value = 1;
	int rc = ranks_sum_wait(comm, &value);

	return (void *)(intptr_t)rc;
}

/* Make a sum on both ranks, and store the results in @rc. */
static void sum_both(struct cohort_comm *comms[2], int rc[2])
{
	pthread_t threads[2];
	void *answer;
	int r;

	for (r = 0; r < 2; r++)
		native_must(pthread_create(&threads[r], NULL, sum_once,
		                           comms[r]),
		            "thread");
	for (r = 0; r < 2; r++) {
		pthread_join(threads[r], &answer);
		rc[r] = (int)(intptr_t)answer;
	}
}

static void open_beside(void)
{
	struct cohort_group_options o;

	place_need_host("devices that always wait for each other");
	open_platform(2, launch_in_turn);
	cohort_group_options_init(&o);
	o.launch = COHORT_LAUNCH_TOGETHER;
	o.deadlines.exec_ns = beside->is_quiet ? RANKS_SOON : 4 * DEADLINE;
	beside->groups[0] = ranks_split(2, &o, beside->a);
	beside->groups[1] = ranks_split(2, &o, beside->b);
	beside->stream = cohort_comm_stream(beside->b[1]);
	ranks_must(cohort_alloc(beside->b[1], SMALL, &beside->memory), "alloc");
}

/* Make the operation while a collective is in flight, and check that the
 * collective returns @expected. */
static void run_beside(struct beside *b, int expected)
{
	pthread_t thread;
	int r, rc[2];

	beside = b;
	open_beside();
	sum_both(b->a, rc); /* loads the kernel */
	atomic_store(&has_launched, false);
	atomic_store(&is_armed, true);
	native_must(pthread_create(&thread, NULL, operate, NULL), "thread");
	sum_both(b->a, rc);
	pthread_join(thread, NULL);
	for (r = 0; r < 2; r++)
		cr_assert_eq(rc[r], expected, "rank %d: %s", r,
		             cohort_status_text(rc[r]));
	ranks_must(cohort_synchronize(b->b[1], RANKS_SOON), "synchronize");
	ranks_must(cohort_free(b->b[1], b->memory), "free");
	for (r = 0; r < 2; r++)
		ranks_must(cohort_group_close(b->groups[r]), "close");
}

/* The header documents both results: a copy outside a quiet section causes a
 * deadlock, and a copy inside one completes. */
Test(sync_device, cohort_copy_beside_another_groups_launch_deadlocks)
{
	run_beside(&(struct beside){ .operation = beside_copy },
	           COHORT_STALLED);
}

Test(sync_device, cohort_copy_beside_a_launch_is_safe_in_a_quiet_section)
{
	run_beside(&(struct beside){ .operation = beside_copy,
	                             .is_quiet = true },
	           COHORT_OK);
}

Test(sync_device, cudaMalloc_beside_another_groups_launch_deadlocks)
{
	run_beside(&(struct beside){ .operation = beside_malloc },
	           COHORT_STALLED);
}

Test(sync_device, cudaMalloc_beside_a_launch_is_safe_in_a_quiet_section)
{
	run_beside(&(struct beside){ .operation = beside_malloc,
	                             .is_quiet = true },
	           COHORT_OK);
}

/*
 * A chain of waits that would be a deadlock if cohort_copy() used a memory
 * section
 *
 * A copy on device 0 waits for an earlier receive on its stream. The sender, on
 * device 1, first makes a collective with device 2. A memory section would
 * block the launch of that collective.
 */
struct chain {
	struct cohort_group *groups[2];
	struct cohort_comm *pair[2], *others[2];
	atomic_int copying; /* id of the thread that copies, or 0 */
	void *memory;       /* memory on device 0 */
};

static void *receive_and_copy(void *user)
{
	struct chain *c = user;
	void *stream = cohort_comm_stream(c->pair[0]);
	int32_t value = 0;

	ranks_must(cohort_recv(c->pair[0], c->memory, 1, COHORT_I32, 1, stream,
	                       NULL),
	           "recv");
	atomic_store(&c->copying, gettid());
	ranks_must(cohort_copy(c->pair[0], &value, c->memory, sizeof(value),
	                       stream),
	           "copy");
	ranks_must(cohort_synchronize(c->pair[0], RANKS_SOON), "receive");
	return (void *)(intptr_t)value;
}

static void open_chain(struct chain *c)
{
	const int devices[] = { 1, 2 };
	struct cohort_group_options o;

	place_need_host("devices that always wait for each other");
	setenv("COHORT_HOST_SYNC", "device", 1);
	native_open(3);
	cohort_group_options_init(&o);
	o.launch = COHORT_LAUNCH_TOGETHER;
	/* Use deadlines below 30 s, after which a launch no longer waits for a
	 * memory operation. */
	o.deadlines.join_ns = o.deadlines.exec_ns = UINT64_C(10000000000);
	c->groups[0] = ranks_split(2, &o, c->pair);
	o.platform = place_platform();
	ranks_must(cohort_group_open(devices, 2, &o, &c->groups[1]), "open");
	ranks_must(cohort_group_split(c->groups[1], c->others), "split");
	ranks_must(cohort_alloc(c->pair[0], sizeof(int32_t), &c->memory),
	           "alloc");
}

/* Call each collective once to load its kernel. */
static void warm_chain(struct chain *c)
{
	pthread_t thread;
	int32_t value = 1;
	void *copied;
	int rc[2];

	sum_both(c->others, rc);
	ranks_must(rc[0], "warm up");
	native_must(pthread_create(&thread, NULL, receive_and_copy, c),
	            "thread");
	ranks_must(cohort_send(c->pair[1], &value, 1, COHORT_I32, 0,
	                       cohort_comm_stream(c->pair[1]), NULL),
	           "send");
	pthread_join(thread, &copied);
	atomic_store(&c->copying, 0);
}

Test(sync_device, copy_after_a_receive_does_not_block_other_launches)
{
	struct chain c = { .copying = 0 };
	int32_t value = 7;
	pthread_t thread;
	void *copied;
	int r, rc[2];

	open_chain(&c);
	warm_chain(&c);
	native_must(pthread_create(&thread, NULL, receive_and_copy, &c),
	            "thread");
	native_await_wait(&c.copying);
	sum_both(c.others, rc);
	for (r = 0; r < 2; r++)
		ranks_must(rc[r], "the collective");
	ranks_must(cohort_send(c.pair[1], &value, 1, COHORT_I32, 0,
	                       cohort_comm_stream(c.pair[1]), NULL),
	           "send");
	pthread_join(thread, &copied);
	cr_assert_eq((intptr_t)copied, 7);
	ranks_must(cohort_free(c.pair[0], c.memory), "free");
	for (r = 0; r < 2; r++)
		ranks_must(cohort_group_close(c.groups[r]), "close");
}
