/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of calls with host memory: the order of their steps, and their copies
 *
 * A table in front of the platform's table records the calls for rank 0, and
 * records an event after each copy and each collective. The tests measure no
 * time. They block a collective to show which steps do not wait for it.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/ranks.h"

#define RANKS 2
#define CHUNK 4096
#define CHUNKS 6
#define COUNT (CHUNKS * CHUNK / sizeof(int32_t))
#define MOST 64

/* Largest number of chunks on the device at a time */
#define RING 3

enum what { LOAD, WORK, STORE, WHATS };

/* Rank 0's calls of each kind, with an event recorded after each call */
static struct {
	_Atomic int n;
	cudaEvent_t events[MOST];
	const void *host[MOST]; /* host memory that is copied */
	cudaStream_t stream;
} seen[WHATS];

static _Thread_local bool is_watched;
static const struct platform *real;
static struct platform table;
static atomic_int waits; /* number of calls that waited for a device */
static atomic_int allocations;
static struct cohort_group *group;
static struct cohort_comm *comms[RANKS];

static void note(enum what what, const void *host, cudaStream_t stream)
{
	int n = atomic_load(&seen[what].n);

	if (!is_watched)
		return;
	cr_assert_lt(n, MOST);
	cr_assert_eq(real->cudaEventCreateWithFlags(&seen[what].events[n],
	                                            cudaEventDisableTiming),
	             cudaSuccess);
	cr_assert_eq(real->cudaEventRecord(seen[what].events[n], stream),
	             cudaSuccess);
	seen[what].host[n] = host;
	seen[what].stream = stream;
	atomic_store(&seen[what].n, n + 1);
}

static bool is_pinned(const void *at)
{
	struct cudaPointerAttributes a;

	return real->cudaPointerGetAttributes(&a, at) == cudaSuccess &&
	       a.type == cudaMemoryTypeHost;
}

static cudaError_t copy_async(void *dst, const void *src, size_t bytes,
                              enum cudaMemcpyKind kind, cudaStream_t stream)
{
	bool loads = kind == cudaMemcpyHostToDevice;
	cudaError_t error =
		real->cudaMemcpyAsync(dst, src, bytes, kind, stream);

	/* CUDA copies asynchronously only if the host memory is pinned. */
	cr_assert(is_pinned(loads ? src : dst));
	note(loads ? LOAD : STORE, loads ? src : dst, stream);
	return error;
}

static ncclResult_t all_reduce(const void *send, void *recv, size_t count,
                               ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
	ncclResult_t result =
		real->ncclAllReduce(send, recv, count, type, op, comm, stream);

	note(WORK, NULL, stream);
	return result;
}

static cudaError_t copy_now(void *dst, const void *src, size_t bytes,
                            enum cudaMemcpyKind kind)
{
	atomic_fetch_add(&waits, 1);
	return real->cudaMemcpy(dst, src, bytes, kind);
}

static cudaError_t wait_stream(cudaStream_t stream)
{
	atomic_fetch_add(&waits, 1);
	return real->cudaStreamSynchronize(stream);
}

static cudaError_t wait_event(cudaEvent_t event)
{
	atomic_fetch_add(&waits, 1);
	return real->cudaEventSynchronize(event);
}

static cudaError_t wait_device(void)
{
	atomic_fetch_add(&waits, 1);
	return real->cudaDeviceSynchronize();
}

static cudaError_t host_alloc(void **memory, size_t bytes, unsigned int flags)
{
	atomic_fetch_add(&allocations, 1);
	return real->cudaHostAlloc(memory, bytes, flags);
}

static cudaError_t device_alloc(void **memory, size_t bytes)
{
	atomic_fetch_add(&allocations, 1);
	return real->cudaMalloc(memory, bytes);
}

static void set_up(void)
{
	if (place_platform() != COHORT_PLATFORM_GPU)
		place_skip("the host platform copies nothing");
	real = place_table();
	table = *real;
	table.cudaMemcpyAsync = copy_async;
	table.ncclAllReduce = all_reduce;
	table.cudaMemcpy = copy_now;
	table.cudaStreamSynchronize = wait_stream;
	table.cudaEventSynchronize = wait_event;
	table.cudaDeviceSynchronize = wait_device;
	table.cudaHostAlloc = host_alloc;
	table.cudaMalloc = device_alloc;
	table.chunk_bytes = CHUNK;
	platform_override(&table);
	group = ranks_split(RANKS, NULL, comms);
	/* Do not count waits during the open. */
	atomic_store(&waits, 0);
}

TestSuite(host_memory_order, .init = set_up, .timeout = 60);

/* A call of a rank on a new thread */
struct caller {
	int rank;
	int32_t *data;
	uint64_t timeout;
	int rc;
	pthread_t thread;
};

static void *call(void *arg)
{
	struct caller *c = arg;

	is_watched = !c->rank;
	c->rc = cohort_all_reduce_host(comms[c->rank], c->data, COUNT,
	                               COHORT_I32, COHORT_SUM, c->timeout);
	return NULL;
}

static void begin(struct caller *c, int rank, int32_t *data, uint64_t timeout)
{
	size_t i;

	for (i = 0; i < COUNT; i++)
		data[i] = rank + 1;
	*c = (struct caller){ .rank = rank, .data = data, .timeout = timeout };
	cr_assert_eq(pthread_create(&c->thread, NULL, call, c), 0);
}

static int end(struct caller *c)
{
	pthread_join(c->thread, NULL);
	return c->rc;
}

static bool is_done(enum what what, int k)
{
	return atomic_load(&seen[what].n) > k &&
	       real->cudaEventQuery(seen[what].events[k]) == cudaSuccess;
}

static void await(enum what what, int k)
{
	uint64_t deadline = test_now() + RANKS_SOON;

	while (!is_done(what, k)) {
		cr_assert_lt(test_now(), deadline, "%d of kind %d is not done",
		             k, what);
		sched_yield();
	}
}

static void await_queued(enum what what, int n)
{
	while (atomic_load(&seen[what].n) < n)
		sched_yield();
}

static void set_up_ahead(void)
{
	place_need_no_sync("a rank that launches ahead loads its kernel behind "
	                   "the copies of its first chunk");
	expect_close(group);
	group = ranks_ahead(RANKS, NULL, comms);
	atomic_store(&waits, 0);
}

/*
 * The peer never arrives. If ranks launch ahead, the call is queued
 * nevertheless, and as many chunks as possible are copied to the device.
 */
Test(host_memory_order,
     host_memory_chunks_are_copied_in_while_the_first_is_reduced,
     .init = set_up_ahead)
{
	static int32_t a[COUNT], b[COUNT];
	struct caller c[RANKS];
	size_t i;

	begin(&c[0], 0, a, COHORT_FOREVER);
	await(LOAD, 1);
	await(LOAD, RING - 1);
	await_queued(STORE, CHUNKS);
	cr_assert_not(is_done(WORK, 0));
	cr_assert_not(is_done(LOAD, RING));
	cr_assert_eq(atomic_load(&seen[LOAD].n), CHUNKS);
	cr_assert_eq(atomic_load(&seen[WORK].n), CHUNKS);
	begin(&c[1], 1, b, COHORT_FOREVER);
	cr_assert_eq(end(&c[0]), COHORT_OK);
	cr_assert_eq(end(&c[1]), COHORT_OK);
	for (i = 0; i < COUNT; i++)
		cr_assert(a[i] == 3 && b[i] == 3);
	cr_assert_eq(atomic_load(&waits), 0);
	cr_assert(seen[LOAD].stream != seen[WORK].stream &&
	          seen[WORK].stream != seen[STORE].stream &&
	          seen[STORE].stream != seen[LOAD].stream);
	expect_close(group);
}

/*
 * The second collective never ends. The first chunk must be copied back
 * nevertheless, and the next chunks must be on the device.
 */
Test(host_memory_order,
     host_memory_chunk_is_copied_out_while_the_next_is_reduced)
{
	static int32_t a[COUNT], b[COUNT];
	struct caller c[RANKS];

	ranks_fault(1, 1, COHORT_FAULT_NEVER, 0);
	begin(&c[0], 0, a, COHORT_FOREVER);
	begin(&c[1], 1, b, COHORT_FOREVER);
	await(STORE, 0);
	await(LOAD, RING);
	cr_assert_not(is_done(WORK, 1));
	cr_assert_not(is_done(LOAD, RING + 1));
	cr_assert_eq(cohort_group_abort(group, "enough"), COHORT_OK);
	cr_assert_eq(end(&c[0]), COHORT_ABORTED);
	cr_assert_eq(end(&c[1]), COHORT_ABORTED);
	expect_close(group);
}

Test(host_memory_order, pinned_memory_is_staged_only_if_the_call_has_a_timeout)
{
	static int32_t b[COUNT];
	struct caller c[RANKS];
	void *pinned;
	int32_t *a;
	size_t i;
	int k;

	ranks_must(real->cudaHostAlloc(&pinned, COUNT * sizeof(*a),
	                               cudaHostAllocPortable),
	           "cudaHostAlloc");
	a = pinned;
	begin(&c[0], 0, a, COHORT_FOREVER);
	begin(&c[1], 1, b, RANKS_SOON);
	cr_assert_eq(end(&c[0]), COHORT_OK);
	cr_assert_eq(end(&c[1]), COHORT_OK);
	for (i = 0; i < COUNT; i++)
		cr_assert(a[i] == 3 && b[i] == 3);
	for (k = 0; k < CHUNKS; k++) {
		cr_assert_eq(seen[LOAD].host[k], (char *)a + k * CHUNK);
		cr_assert_eq(seen[STORE].host[k], (char *)a + k * CHUNK);
	}
	begin(&c[0], 0, a, RANKS_SOON);
	begin(&c[1], 1, b, RANKS_SOON);
	cr_assert_eq(end(&c[0]), COHORT_OK);
	cr_assert_eq(end(&c[1]), COHORT_OK);
	for (k = CHUNKS; k < 2 * CHUNKS; k++) {
		const char *from = seen[LOAD].host[k];

		cr_assert(from < (char *)a || from >= (char *)(a + COUNT));
	}
	expect_close(group);
	real->cudaFreeHost(pinned);
}

Test(host_memory_order, staging_memory_is_allocated_only_once)
{
	static int32_t a[COUNT], b[COUNT];
	struct caller c[RANKS];
	int i, once = 0;

	for (i = 0; i < 4; i++) {
		begin(&c[0], 0, a, COHORT_FOREVER);
		begin(&c[1], 1, b, RANKS_SOON);
		cr_assert_eq(end(&c[0]), COHORT_OK);
		cr_assert_eq(end(&c[1]), COHORT_OK);
		if (!i)
			once = atomic_load(&allocations);
	}
	cr_assert_eq(atomic_load(&allocations), once);
	expect_close(group);
}

Test(host_memory_order, host_memory_call_refuses_device_memory)
{
	int32_t *data;

	ranks_must(cohort_alloc(comms[0], 64, (void **)&data), "alloc");
	expect(cohort_all_reduce_host(comms[0], data, 4, COHORT_I32, COHORT_SUM,
	                              0),
	       COHORT_INVALID, "all_reduce_host: data is ");
	expect(cohort_all_reduce_host(comms[0], data, 4, COHORT_I32, COHORT_SUM,
	                              0),
	       COHORT_INVALID, ", which is device memory");
	ranks_must(cohort_free(comms[0], data), "free");
	expect_close(group);
}
