/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests that the library creates no CUDA context on a device that no rank uses.
 * Its threads must set a device before any other CUDA call, and no call may
 * switch to a device without a context.
 *
 * A table in front of the platform's table records which threads have set a
 * device and which devices have a context, by the rules of CUDA 12.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "support/expect.h"
#include "support/ranks.h"

#define DEVICES 3
#define RANKS 2

static const struct platform *real;
static struct cohort_group_options o;
static struct cohort_group *group;
static struct cohort_comm *comms[RANKS];

/* ---- the table -------------------------------------------------------- */

static _Thread_local int current = -1; /* -1 if no device was set */
static atomic_bool has_context[DEVICES];
/* Function that created each context */
static const char *_Atomic made_by[DEVICES];
static atomic_int
	asked[DEVICES]; /* calls of cudaEventQuery() with this device current */

/* Return whether the function needs no context. */
static bool is_free(const char *name)
{
	static const char *const names[] = {
		"cudaRuntimeGetVersion", "cudaDriverGetVersion",
		"cudaGetDeviceCount",    "cudaGetDevice",
		"cudaGetErrorName",      "cudaGetErrorString",
		"cudaGetLastError",      "cudaPeekAtLastError",
	};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

static void make_context(int device, const char *name)
{
	if (!atomic_exchange(&has_context[device], true))
		atomic_store(&made_by[device], name);
}

static void record_call(const char *name)
{
	const int device = current < 0 ? 0 : current;

	if (is_free(name) || strcmp(name, "cudaSetDevice") == 0)
		return;
	make_context(device, name);
	if (strcmp(name, "cudaEventQuery") == 0)
		atomic_fetch_add(&asked[device], 1);
}

#define FRONT(since, result, name, parameters, arguments)                      \
	static result front_##name parameters                                  \
	{                                                                      \
		record_call(#name);                                            \
		return real->name arguments;                                   \
	}
CUDA_FUNCTIONS(FRONT)
#undef FRONT

static cudaError_t set_device(int device)
{
	cudaError_t error = real->cudaSetDevice(device);

	if (error != cudaSuccess)
		return error;
	current = device;
	make_context(device, "cudaSetDevice");
	return error;
}

static int context_state(int device, unsigned int *flags, int *active)
{
	*flags = 0;
	*active = atomic_load(&has_context[device]);
	return cudaSuccess;
}

static void set_up(void)
{
	static struct platform table;

	real = place_open(DEVICES);
	table = *real;
#define FRONT(since, result, name, parameters, arguments)                      \
	table.name = front_##name;
	CUDA_FUNCTIONS(FRONT)
#undef FRONT
	table.cudaSetDevice = set_device;
	table.cuDevicePrimaryCtxGetState = context_state;
	platform_override(&table);
	cohort_group_options_init(&o);
}

TestSuite(contexts, .init = set_up, .timeout = 60);

/* ---- groups on devices 1 and 2 ------------------------------------------ */

static void open_ranks(void)
{
	const int devices[RANKS] = { 1, 2 };
	int r;

	ranks_must(cohort_group_open(devices, RANKS, &o, &group), "open");
	ranks_must(cohort_group_split(group, comms), "split");
	for (r = 0; r < RANKS; r++)
		cr_assert(atomic_load(&has_context[r + 1]));
}

static void *rank_main(void *arg)
{
	const int rank = (int)(intptr_t)arg;
	int32_t value = rank + 1;

	ranks_must(ranks_sum_wait(comms[rank], &value), "sum");
	return (void *)(intptr_t)(value != 3);
}

/* Make a sum on threads that have set no device. */
static void sum_by_threads(void)
{
	pthread_t threads[RANKS];
	void *wrong;
	int r;

	for (r = 0; r < RANKS; r++)
		pthread_create(&threads[r], NULL, rank_main,
		               (void *)(intptr_t)r);
	for (r = 0; r < RANKS; r++) {
		pthread_join(threads[r], &wrong);
		cr_assert_null(wrong);
	}
}

static void expect_none_on_0(void)
{
	const char *name = atomic_load(&made_by[0]);

	cr_assert(!atomic_load(&has_context[0]),
	          "%s made a context on device 0", name ? name : "?");
}

static void close_group(void)
{
	expect_close(group);
	expect_none_on_0();
}

Test(contexts, open_and_close_create_no_context_on_other_devices)
{
	open_ranks();
	expect_none_on_0();
	sum_by_threads();
	expect_none_on_0();
	close_group();
}

Test(contexts, abort_and_respawn_create_no_context_on_other_devices)
{
	int lost = 1;

	open_ranks();
	ranks_must(cohort_group_abort(group, "enough"), "abort");
	ranks_must(cohort_group_respawn(group, &lost, 1), "respawn");
	close_group();
}

/* Create a stream for the program, and one that the library must refuse. */
static void *make_stream(void *arg)
{
	cudaStream_t stream;

	cr_assert_eq(real->cudaSetDevice((int)(intptr_t)arg), cudaSuccess);
	cr_assert_eq(real->cudaStreamCreateWithFlags(&stream,
	                                             cudaStreamNonBlocking),
	             cudaSuccess);
	return stream;
}

static void *stream_of(intptr_t device)
{
	pthread_t thread;
	void *stream;

	pthread_create(&thread, NULL, make_stream, (void *)device);
	pthread_join(thread, &stream);
	return stream;
}

static void *call_with_all(void *arg)
{
	void *stream = arg, *memory;
	int32_t x[1] = { 1 };

	(void)arg;
	expect(cohort_all_reduce(comms[1], x, x, 1, COHORT_I32, COHORT_SUM,
	                         stream, NULL),
	       COHORT_INVALID, "a stream of");
	ranks_must(cohort_alloc(comms[0], 64, &memory), "alloc");
	ranks_must(cohort_copy(comms[0], memory, x, sizeof(x), stream), "copy");
	ranks_must(cohort_after_stream(comms[0], stream), "after_stream");
	ranks_must(cohort_synchronize(comms[0], RANKS_SOON), "synchronize");
	ranks_must(cohort_free(comms[0], memory), "free");
	return NULL;
}

Test(contexts, memory_and_streams_create_no_context_on_other_devices)
{
	pthread_t thread;

	open_ranks();
	pthread_create(&thread, NULL, call_with_all, stream_of(1));
	pthread_join(thread, NULL);
	close_group();
}

/* The prober queries only ranks that others wait for. In this test, the ranks
 * wait for rank 1, which is late. */
Test(contexts, prober_queries_each_device_on_its_own_thread)
{
	static int32_t values[RANKS] = { 1, 2 };
	uint64_t tickets[RANKS];
	int r;

	ranks_launch_ahead();
	open_ranks();
	tickets[0] = ranks_sum(comms[0], &values[0]);
	for (r = 0; r < RANKS; r++)
		while (!atomic_load(&asked[r + 1]))
			sched_yield();
	cr_assert_eq(atomic_load(&asked[0]), 0);
	tickets[1] = ranks_sum(comms[1], &values[1]);
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(cohort_wait(comms[r], tickets[r], RANKS_SOON),
		             COHORT_OK);
	close_group();
}

/* After a call, the caller's device is current again only if it has a context.
 * Otherwise the rank's device stays current. */
Test(contexts, call_restores_the_current_device_if_it_has_a_context)
{
	void *memory;

	open_ranks();
	ranks_must(cohort_alloc(comms[1], 64, &memory), "alloc");
	cr_assert_eq(current, 2, "switched to a device without a context");
	cr_assert_eq(set_device(1), cudaSuccess);
	ranks_must(cohort_free(comms[1], memory), "free");
	cr_assert_eq(current, 1);
	close_group();
	cr_assert_eq(current, 1);
}
