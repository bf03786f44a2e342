/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Memory operations beside a collective, on devices that wait for each other
 *
 * On the host platform with COHORT_SIM_SYNC_DEVICE: rank 0 has called a collective,
 * and rank 1 first does something for which CUDA may wait for every device.  If each
 * rank launches ahead, that is a deadlock, and the watchdog ends it.  If the ranks
 * launch together, the program runs through.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/native.h"
#include "support/ranks.h"

TestSuite(sync_device, .timeout = 60);

/* To find a deadlock; and more than rank 1 takes where there is none. */
#define DEADLINE UINT64_C(300000000)

#define SMALL 16
#define LARGE (1024 * 1024)

struct scene {
	const struct platform *p;
	int launch; /* enum cohort_launch */
	struct cohort_group *group;
	struct cohort_comm *comms[2];

	struct cohort_group *others; /* of devices 2 and 3, not split */

	/* On rank 1's device. */
	void *device, *pinned, *memory;
	cudaStream_t stream;

	int32_t *data[2]; /* host memory */
	size_t count;
	bool in_host_memory; /* the collective is */
	void (*operation)(struct scene *s);

	pid_t first; /* the thread of rank 0 */
	sem_t is_up;
	int rc[2]; /* what the collective answers */
};

/* ---- what rank 1 does meanwhile --------------------------------------- */

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

/* The first use of that kernel, which is loaded. */
static void do_lazy_loading(struct scene *s)
{
	const void *send[] = { s->data[0], s->data[0] };
	void *recv[] = { s->data[0], s->data[0] };
	uint64_t ticket;

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

static int sum(struct scene *s, int r)
{
	struct cohort_comm *comm = s->comms[r];
	uint64_t ticket;
	int rc;

	if (s->in_host_memory)
		return cohort_all_reduce_host(comm, s->data[r], s->count,
		                              COHORT_I32, COHORT_SUM,
		                              RANKS_SOON);
	rc = cohort_all_reduce(comm, s->data[r], s->data[r], s->count,
	                       COHORT_I32, COHORT_SUM, cohort_comm_stream(comm),
	                       &ticket);
	return rc == COHORT_OK ? cohort_wait(comm, ticket, RANKS_SOON) : rc;
}

static void *first_rank(void *user)
{
	struct scene *s = user;

	s->first = gettid();
	sem_post(&s->is_up);
	s->rc[0] = sum(s, 0);
	return NULL;
}

/* Ahead: rank 0's kernel is on its device.  Together: it is in its call. */
static void await_first(const struct scene *s)
{
	cudaStream_t stream = cohort_comm_stream(s->comms[0]);

	if (s->launch == COHORT_LAUNCH_TOGETHER)
		native_await_sleep(s->first);
	else
		while (s->p->cudaStreamQuery(stream) != cudaErrorNotReady)
			sched_yield();
}

static void *second_rank(void *user)
{
	struct scene *s = user;

	native_must(s->p->cudaSetDevice(1), "cudaSetDevice");
	await_first(s);
	s->operation(s);
	s->rc[1] = sum(s, 1);
	return NULL;
}

static void *set_up_rank(void *user)
{
	struct scene *s = user;

	s->rc[1] = sum(s, 1);
	return NULL;
}

/* A first call, after which the kernel is loaded and host memory has blocks that are
 * too small. */
static void warm_up(struct scene *s)
{
	pthread_t thread;
	int r;

	for (r = 0; r < 2; r++)
		s->data[r] = calloc(LARGE, sizeof(int32_t));
	s->count = SMALL;
	native_must(pthread_create(&thread, NULL, set_up_rank, s), "thread");
	s->rc[0] = sum(s, 0);
	pthread_join(thread, NULL);
	ranks_must(s->rc[0], "warm up");
	ranks_must(s->rc[1], "warm up");
	s->count = s->in_host_memory ? LARGE : SMALL;
	for (r = 0; r < 2; r++)
		s->data[r][s->count - 1] = r + 1;
}

static void open_scene(struct scene *s)
{
	const int devices[] = { 2, 3 };
	struct cohort_group_options o;

	place_need_host("devices that always wait for each other");
	ranks_must(cohort_sim_set_sync(COHORT_SIM_SYNC_DEVICE), "set_sync");
	s->p = native_open(4);
	cohort_group_options_init(&o);
	o.launch = s->launch;
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
                bool in_host_memory)
{
	struct scene s = {
		.launch = launch,
		.operation = operation,
		.in_host_memory = in_host_memory,
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

/* What rank 1 does before its call. */
#define OPERATIONS(X)                                                          \
	X(malloc)                                                              \
	X(free)                                                                \
	X(host_alloc)                                                          \
	X(free_host)                                                           \
	X(copy)                                                                \
	X(pageable_copy)                                                       \
	X(cohort_alloc)                                                        \
	X(cohort_free)                                                         \
	X(lazy_loading)                                                        \
	X(close)                                                               \
	X(open)

#define AHEAD(what)                                                            \
	Test(sync_device, what##_is_a_deadlock_where_ranks_launch_ahead)       \
	{                                                                      \
		run(COHORT_LAUNCH_AHEAD, do_##what, false);                    \
	}
OPERATIONS(AHEAD)

#define TOGETHER(what)                                                         \
	Test(sync_device, what##_is_none_where_ranks_launch_together)          \
	{                                                                      \
		run(COHORT_LAUNCH_TOGETHER, do_##what, false);                 \
	}
OPERATIONS(TOGETHER)

Test(sync_device, growing_host_memory_is_none_where_ranks_launch_together)
{
	run(COHORT_LAUNCH_TOGETHER, do_nothing, true);
}
