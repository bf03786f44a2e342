/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of COHORT_HOST_SYNC=device: which calls wait for which work, and which
 * calls do not wait (sim/cuda/sync.h)
 *
 * In most tests, a collective of ranks 0 and 1, on devices 0 and 1, hangs
 * because rank 1's stream is blocked.
 */

#include <criterion/criterion.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/sim.h>

#include "sim/cuda/sync.h"
#include "sim/host.h"
#include "support/native.h"
#include "support/place.h"

TestSuite(sync, .timeout = 20);

#define DEVICES 6
#define BYTES 256

/* Objects for a test, created before anything hangs */
struct scene {
	const struct platform *p;
	/* cliques on devices 0 and 1, and on devices 2 and 3 */
	struct native_clique c, other;
	cudaStream_t stream;      /* stream on device 2 */
	char *device[2], *pinned; /* memory of device 2 */
	void *mapped, *handle;
	ncclWindow_t window;
};

/*
 * A clique on devices 2, 3 and 4. It is static so that it does not leak if a
 * test does not destroy it.
 */
static struct native_clique wider;

static char own[8192] __attribute__((aligned(4096)));
static char own_registered[8192] __attribute__((aligned(4096)));

static void open_clique(struct native_clique *c, const struct platform *p,
                        int first, int n)
{
	int devices[NATIVE_RANKS];
	int r;

	memset(c, 0, sizeof(*c));
	c->p = p;
	c->n = n;
	for (r = 0; r < n; r++)
		devices[r] = first + r;
	native_must(p->ncclCommInitAll(c->comm, n, devices), "ncclCommInitAll");
	for (r = 0; r < n; r++)
		c->stream[r] = native_stream(p, first + r);
	native_fill(c);
}

static const char *mode = "device";

static void open_scene(struct scene *s)
{
	const struct platform *p;

	memset(s, 0, sizeof(*s));
	setenv("COHORT_HOST_SYNC", mode, 1);
	s->p = p = native_open_host(DEVICES);
	open_clique(&s->c, p, 0, 2);
	open_clique(&s->other, p, 2, 2);
	open_clique(&wider, p, 2, 3);
	native_must(p->cudaSetDevice(2), "cudaSetDevice");
	native_must(host_cudaDeviceEnablePeerAccess(4, 0), "peer access");
	s->stream = native_stream(p, 2);
	native_must(p->cudaMalloc((void **)&s->device[0], BYTES), "cudaMalloc");
	native_must(p->cudaMalloc((void **)&s->device[1], BYTES), "cudaMalloc");
	native_must(p->cudaMallocHost((void **)&s->pinned, BYTES),
	            "cudaMallocHost");
	native_must(p->ncclMemAlloc(&s->mapped, 2 * 4096), "ncclMemAlloc");
	native_must(p->ncclCommRegister(s->other.comm[0], s->mapped, BYTES,
	                                &s->handle),
	            "ncclCommRegister");
	native_must(host_cudaHostRegister(own_registered,
	                                  sizeof(own_registered), 0),
	            "cudaHostRegister");
	/* Load the kernel of sums on devices 0 to 3. */
	native_sum_all(&s->c);
	native_sum_all(&s->other);
	native_fill(&s->c);
	native_fill(&s->other);
}

/* ---- calls that wait -------------------------------------------------- */

static int do_malloc(struct scene *s)
{
	void *memory;

	return (int)s->p->cudaMalloc(&memory, 1);
}

static int do_malloc_host(struct scene *s)
{
	void *memory;

	return (int)s->p->cudaMallocHost(&memory, 1);
}

static int do_host_alloc(struct scene *s)
{
	void *memory;

	return (int)s->p->cudaHostAlloc(&memory, 1, cudaHostAllocPortable);
}

static int do_malloc_managed(struct scene *s)
{
	void *memory;

	(void)s;
	return (int)host_cudaMallocManaged(&memory, 1, cudaMemAttachGlobal);
}

static int do_malloc_pitch(struct scene *s)
{
	void *memory;
	size_t pitch;

	(void)s;
	return (int)host_cudaMallocPitch(&memory, &pitch, 1, 1);
}

static int do_free(struct scene *s)
{
	return (int)s->p->cudaFree(s->device[0]);
}

static int do_free_host(struct scene *s)
{
	return (int)s->p->cudaFreeHost(s->pinned);
}

static int do_host_register(struct scene *s)
{
	(void)s;
	return (int)host_cudaHostRegister(own, sizeof(own), 0);
}

static int do_host_unregister(struct scene *s)
{
	(void)s;
	return (int)host_cudaHostUnregister(own_registered);
}

static int do_enable_peer(struct scene *s)
{
	(void)s;
	return (int)host_cudaDeviceEnablePeerAccess(3, 0);
}

static int do_reset(struct scene *s)
{
	(void)s;
	native_must(host_cudaSetDevice(5), "cudaSetDevice");
	return (int)host_cudaDeviceReset();
}

static int do_nccl_alloc(struct scene *s)
{
	void *memory;

	return (int)s->p->ncclMemAlloc(&memory, 1);
}

static int do_nccl_free(struct scene *s)
{
	return (int)s->p->ncclMemFree(s->device[0]);
}

static int do_nccl_register(struct scene *s)
{
	void *handle;

	return (int)s->p->ncclCommRegister(
		s->other.comm[0], (char *)s->mapped + 4096, 1, &handle);
}

static int do_nccl_deregister(struct scene *s)
{
	return (int)s->p->ncclCommDeregister(s->other.comm[0], s->handle);
}

static int do_copy(struct scene *s)
{
	return (int)s->p->cudaMemcpy(s->device[0], s->device[1], BYTES,
	                             cudaMemcpyDeviceToDevice);
}

static int do_pageable_copy(struct scene *s)
{
	return (int)s->p->cudaMemcpyAsync(s->device[0], own, BYTES,
	                                  cudaMemcpyHostToDevice, s->stream);
}

static int do_pageable_copy_back(struct scene *s)
{
	return (int)s->p->cudaMemcpyAsync(own, s->device[0], BYTES,
	                                  cudaMemcpyDeviceToHost, s->stream);
}

static int do_copy_2d(struct scene *s)
{
	return (int)host_cudaMemcpy2D(s->device[0], 16, s->device[1], 16, 16, 2,
	                              cudaMemcpyDeviceToDevice);
}

static int do_pageable_copy_2d(struct scene *s)
{
	return (int)host_cudaMemcpy2DAsync(s->device[0], 16, own, 16, 16, 2,
	                                   cudaMemcpyHostToDevice, s->stream);
}

static int do_init(struct scene *s)
{
	const int devices[] = { 4, 5 };
	ncclComm_t comm[2];
	ncclResult_t result = s->p->ncclCommInitAll(comm, 2, devices);

	if (result != ncclSuccess)
		return (int)result;
	s->p->ncclGroupStart();
	s->p->ncclCommDestroy(comm[0]);
	s->p->ncclCommDestroy(comm[1]);
	return (int)s->p->ncclGroupEnd();
}

static int do_destroy(struct scene *s)
{
	s->p->ncclGroupStart();
	s->p->ncclCommDestroy(s->other.comm[0]);
	s->p->ncclCommDestroy(s->other.comm[1]);
	return (int)s->p->ncclGroupEnd();
}

/* Make a call whose kernel is not loaded on any device of the communicator. */
static int do_first_use(struct scene *s)
{
	return (int)s->p->ncclBroadcast(s->other.send[0], s->other.recv[0],
	                                NATIVE_COUNT, ncclInt32, 0,
	                                s->other.comm[0], s->other.stream[0]);
}

static int do_first_send(struct scene *s)
{
	return (int)s->p->ncclSend(s->other.send[0], 1, ncclInt32, 1,
	                           s->other.comm[0], s->other.stream[0]);
}

/* Make a call on device 2 whose kernel is loaded on device 2 but not on device
 * 4. */
static int do_first_use_elsewhere(struct scene *s)
{
	(void)s;
	return (int)native_sum(&wider, 0);
}

/* A call on device 2, on a new thread that does not end after the call */
struct visitor {
	int (*call)(struct scene *s);
	struct scene *s;
	struct native_call thread;
	atomic_bool is_back;
	sem_t leave;
	int result;
};

static ncclResult_t visit(void *user)
{
	struct visitor *v = user;

	native_must(v->s->p->cudaSetDevice(2), "cudaSetDevice");
	v->result = v->call(v->s);
	atomic_store(&v->is_back, true);
	while (sem_wait(&v->leave) != 0)
		continue;
	return ncclSuccess;
}

static void visitor_begin(struct visitor *v, int (*call)(struct scene *),
                          struct scene *s)
{
	*v = (struct visitor){ .call = call, .s = s };
	native_must(sem_init(&v->leave, 0, 0), "sem_init");
	native_call_begin(&v->thread, visit, v);
}

static bool a_device_is_held(void)
{
	bool held = false;
	int i;

	for (i = 0; i < DEVICES; i++)
		held |= sync_is_held(i);
	return held;
}

/*
 * Start a visitor that calls a memory function, and check that its call waits.
 */
static void visitor_waits(struct visitor *v, int (*call)(struct scene *),
                          struct scene *s)
{
	visitor_begin(v, call, s);
	while (!a_device_is_held())
		sched_yield();
	cr_assert_not(atomic_load(&v->is_back), "the call does not wait");
}

static int visitor_end(struct visitor *v)
{
	sem_post(&v->leave);
	native_call_end(&v->thread);
	return v->result;
}

static struct native_gate hold;

static void hang(struct scene *s)
{
	native_must(native_sum(&s->c, 0), "ncclAllReduce");
	native_gate_hold(s->p, &hold, s->c.stream[1]);
	native_must(native_sum(&s->c, 1), "ncclAllReduce");
}

static void go_on(struct scene *s)
{
	native_gate_open(&hold);
	native_must(s->p->cudaStreamSynchronize(s->c.stream[0]), "the work");
	native_must(s->p->cudaStreamSynchronize(s->c.stream[1]), "the work");
	cr_assert_eq(native_wrong(&s->c, 0), 0);
}

/* Check that @call waits, and returns after the collective on devices 0 and 1
 * has continued. */
static void check_waits(int (*call)(struct scene *))
{
	struct visitor v;
	struct scene s;

	open_scene(&s);
	hang(&s);
	visitor_waits(&v, call, &s);
	go_on(&s);
	cr_assert_eq(visitor_end(&v), 0);
}

Test(sync, cudaMalloc_waits_for_kernels_of_other_devices)
{
	check_waits(do_malloc);
}

Test(sync, cudaMallocHost_waits_for_kernels_of_other_devices)
{
	check_waits(do_malloc_host);
}

Test(sync, cudaHostAlloc_waits_for_kernels_of_other_devices)
{
	check_waits(do_host_alloc);
}

Test(sync, cudaMallocManaged_waits_for_kernels_of_other_devices)
{
	check_waits(do_malloc_managed);
}

Test(sync, cudaMallocPitch_waits_for_kernels_of_other_devices)
{
	check_waits(do_malloc_pitch);
}

Test(sync, cudaFree_waits_for_kernels_of_other_devices)
{
	check_waits(do_free);
}

Test(sync, cudaFreeHost_waits_for_kernels_of_other_devices)
{
	check_waits(do_free_host);
}

Test(sync, cudaHostRegister_waits_for_kernels_of_other_devices)
{
	check_waits(do_host_register);
}

Test(sync, cudaHostUnregister_waits_for_kernels_of_other_devices)
{
	check_waits(do_host_unregister);
}

Test(sync, enabling_peer_access_waits_for_kernels_of_other_devices)
{
	check_waits(do_enable_peer);
}

Test(sync, cudaDeviceReset_waits_for_kernels_of_other_devices)
{
	check_waits(do_reset);
}

Test(sync, ncclMemAlloc_waits_for_kernels_of_other_devices)
{
	check_waits(do_nccl_alloc);
}

Test(sync, ncclMemFree_waits_for_kernels_of_other_devices)
{
	check_waits(do_nccl_free);
}

Test(sync, ncclCommRegister_waits_for_kernels_of_other_devices)
{
	check_waits(do_nccl_register);
}

Test(sync, ncclCommDeregister_waits_for_kernels_of_other_devices)
{
	check_waits(do_nccl_deregister);
}

Test(sync, cudaMemcpy_waits_for_kernels_of_other_devices)
{
	check_waits(do_copy);
}

Test(sync, copy_from_pageable_memory_waits_for_other_devices)
{
	check_waits(do_pageable_copy);
}

Test(sync, copy_to_pageable_memory_waits_for_kernels_of_other_devices)
{
	check_waits(do_pageable_copy_back);
}

Test(sync, cudaMemcpy2D_waits_for_kernels_of_other_devices)
{
	check_waits(do_copy_2d);
}

Test(sync, pageable_copy2d_waits_for_kernels_of_other_devices)
{
	check_waits(do_pageable_copy_2d);
}

Test(sync, ncclCommInitAll_waits_for_kernels_of_other_devices)
{
	check_waits(do_init);
}

Test(sync, ncclCommDestroy_waits_for_kernels_of_other_devices)
{
	check_waits(do_destroy);
}

Test(sync, first_use_of_a_kernel_waits_for_kernels_of_other_devices)
{
	check_waits(do_first_use);
}

Test(sync, first_send_waits_for_kernels_of_other_devices)
{
	check_waits(do_first_send);
}

Test(sync, first_use_by_a_peer_waits_for_kernels_of_other_devices)
{
	check_waits(do_first_use_elsewhere);
}

Test(sync, only_memory_functions_wait_in_memory_sync_mode)
{
	static int (*const copies[])(struct scene *) = {
		do_copy, do_pageable_copy, do_copy_2d, do_pageable_copy_2d
	};
	struct visitor v;
	struct scene s;
	size_t i;

	mode = "memory";
	open_scene(&s);
	hang(&s);
	native_must(s.p->cudaSetDevice(2), "cudaSetDevice");
	for (i = 0; i < sizeof(copies) / sizeof(copies[0]); i++)
		cr_assert_eq(copies[i](&s), 0);
	visitor_waits(&v, do_malloc, &s);
	go_on(&s);
	cr_assert_eq(visitor_end(&v), 0);
}

Test(sync, abort_ends_the_work_that_cudaMalloc_waits_for)
{
	struct visitor v;
	struct scene s;

	open_scene(&s);
	native_must(native_sum(&s.c, 0), "ncclAllReduce");
	visitor_waits(&v, do_malloc, &s);
	native_clique_abort(&s.c);
	cr_assert_eq(visitor_end(&v), 0);
}

Test(sync, cudaMalloc_waits_for_host_functions)
{
	struct native_gate gate;
	struct visitor v;
	struct scene s;

	open_scene(&s);
	native_gate_hold(s.p, &gate, s.c.stream[1]);
	native_gate_reached(&gate);
	visitor_waits(&v, do_malloc, &s);
	native_gate_open(&gate);
	cr_assert_eq(visitor_end(&v), 0);
}

Test(sync, copy_does_not_wait_for_work_that_is_launched_later)
{
	struct visitor v;
	struct scene s;

	open_scene(&s);
	hang(&s);
	visitor_waits(&v, do_copy, &s);
	/* A call that waits on device 2 does not block device 3. */
	native_must(native_sum(&s.other, 1), "ncclAllReduce");
	go_on(&s);
	cr_assert_eq(visitor_end(&v), 0);
	cr_assert_eq(s.p->cudaStreamQuery(s.other.stream[1]),
	             cudaErrorNotReady);
	native_must(native_sum(&s.other, 0), "ncclAllReduce");
	/* Wait for the collectives, because they write to the scene on the
	 * stack. */
	native_must(s.p->cudaStreamSynchronize(s.other.stream[0]), "rank 0");
	native_must(s.p->cudaStreamSynchronize(s.other.stream[1]), "rank 1");
}

/* ---- calls that do not wait ------------------------------------------- */

static int do_pinned_copy(struct scene *s)
{
	int error =
		(int)s->p->cudaMemcpyAsync(s->device[0], s->pinned, BYTES,
	                                   cudaMemcpyHostToDevice, s->stream);

	return error ? error : (int)s->p->cudaStreamSynchronize(s->stream);
}

static int do_memset(struct scene *s)
{
	return (int)s->p->cudaMemsetAsync(s->device[0], 0, BYTES, s->stream);
}

static int do_event(struct scene *s)
{
	cudaEvent_t event;

	native_must(s->p->cudaEventCreate(&event), "cudaEventCreate");
	native_must(s->p->cudaEventRecord(event, s->stream), "cudaEventRecord");
	return (int)s->p->cudaEventSynchronize(event);
}

static int do_query(struct scene *s)
{
	return s->p->cudaStreamQuery(s->c.stream[0]) != cudaErrorNotReady;
}

static int do_collective(struct scene *s)
{
	native_sum_all(&s->other);
	return 0;
}

static int do_registered_again(struct scene *s)
{
	void *handle;

	return (int)s->p->ncclCommRegister(s->other.comm[0], s->mapped, BYTES,
	                                   &handle);
}

static int do_peer_again(struct scene *s)
{
	(void)s;
	return host_cudaDeviceEnablePeerAccess(4, 0) !=
	       cudaErrorPeerAccessAlreadyEnabled;
}

static int do_free_nothing(struct scene *s)
{
	return (int)s->p->cudaFree(NULL);
}

static void check_goes_on(int (*call)(struct scene *))
{
	struct visitor v;
	struct scene s;

	open_scene(&s);
	hang(&s);
	visitor_begin(&v, call, &s);
	cr_assert_eq(visitor_end(&v), 0);
	go_on(&s);
}

Test(sync, copy_of_pinned_memory_does_not_wait_for_other_devices)
{
	check_goes_on(do_pinned_copy);
}

Test(sync, cudaMemsetAsync_does_not_wait_for_other_devices)
{
	check_goes_on(do_memset);
}

Test(sync, event_does_not_wait_for_other_devices)
{
	check_goes_on(do_event);
}

Test(sync, cudaStreamQuery_does_not_wait_for_other_devices)
{
	check_goes_on(do_query);
}

Test(sync, collective_does_not_wait_for_other_devices)
{
	check_goes_on(do_collective);
}

Test(sync, second_registration_does_not_wait_for_other_devices)
{
	check_goes_on(do_registered_again);
}

Test(sync, second_peer_access_does_not_wait_for_other_devices)
{
	check_goes_on(do_peer_again);
}

Test(sync, cudaFree_of_null_does_not_wait_for_other_devices)
{
	check_goes_on(do_free_nothing);
}

/* ---- launches that are blocked ---------------------------------------- */

static int launch_on_2(struct scene *s)
{
	return (int)native_sum(&s->other, 0);
}

static int launch_on_3(struct scene *s)
{
	return (int)native_sum(&s->other, 1);
}

static int host_function_on_2(struct scene *s)
{
	struct native_gate gate;

	native_gate_hold(s->p, &gate, s->stream);
	native_gate_open(&gate);
	return (int)s->p->cudaStreamSynchronize(s->stream);
}

/* Check whether @call, on device 2, blocks @launch. @held is the expected
 * result. */
static void check_held_by(int (*call)(struct scene *),
                          int (*launch)(struct scene *), bool held)
{
	struct visitor memory, launcher;
	struct scene s;
	int i;

	open_scene(&s);
	hang(&s);
	visitor_waits(&memory, call, &s);
	visitor_begin(&launcher, launch, &s);
	if (held) {
		native_await_sleep(launcher.thread.task);
		cr_assert_not(atomic_load(&launcher.is_back));
	} else {
		cr_assert_eq(visitor_end(&launcher), 0);
	}
	go_on(&s);
	cr_assert_eq(visitor_end(&memory), 0);
	if (held)
		cr_assert_eq(visitor_end(&launcher), 0);
	if (launch != launch_on_2 && launch != launch_on_3)
		return;
	native_must(native_sum(&s.other, launch == launch_on_2), "rest");
	/* Wait for the blocked launches, because they write to the scene on the
	 * stack. */
	for (i = 0; i < 2; i++)
		native_must(s.p->cudaStreamSynchronize(s.other.stream[i]),
		            "cudaStreamSynchronize");
}

static void check_held(int (*launch)(struct scene *), bool held)
{
	check_held_by(do_malloc, launch, held);
}

Test(sync, collective_is_blocked_while_its_device_allocates)
{
	check_held(launch_on_2, true);
}

Test(sync, memset_is_blocked_while_its_device_allocates)
{
	check_held(do_memset, true);
}

Test(sync, host_function_is_blocked_while_its_device_allocates)
{
	check_held(host_function_on_2, true);
}

Test(sync, collective_is_blocked_while_another_device_allocates)
{
	check_held(launch_on_3, true);
}

Test(sync, copy_blocks_launches_on_its_own_device)
{
	check_held_by(do_copy, launch_on_2, true);
}

Test(sync, copy_does_not_block_launches_on_another_device)
{
	check_held_by(do_copy, launch_on_3, false);
}

/*
 * The deadlock for which the sync mode exists: one of two ranks has launched,
 * and the other rank's device is in a memory function.
 */
Test(sync, abort_ends_a_deadlock_of_a_launch_and_an_allocation)
{
	struct visitor memory, launcher;
	struct scene s;

	open_scene(&s);
	native_must(native_sum(&s.other, 1), "ncclAllReduce");
	visitor_waits(&memory, do_malloc, &s);
	visitor_begin(&launcher, launch_on_2, &s);
	native_await_sleep(launcher.thread.task);
	/* Set the abort flags. ncclGroupEnd() frees the communicators after all
	 * threads have left their calls. */
	native_must(s.p->ncclGroupStart(), "ncclGroupStart");
	native_must(s.p->ncclCommAbort(s.other.comm[0]), "ncclCommAbort");
	native_must(s.p->ncclCommAbort(s.other.comm[1]), "ncclCommAbort");
	cr_assert_eq(visitor_end(&memory), 0);
	visitor_end(&launcher);
	native_must(s.p->ncclGroupEnd(), "ncclGroupEnd");
}

/* ---- kernels ---------------------------------------------------------- */

Test(sync, first_use_loads_a_kernel_for_all_ranks)
{
	struct scene s;

	open_scene(&s);
	native_must(do_first_use(&s), "ncclBroadcast");
	/* If the kernel were loaded only now, this call would wait forever for
	 * rank 0. */
	native_must(s.p->ncclBroadcast(s.other.send[1], s.other.recv[1],
	                               NATIVE_COUNT, ncclInt32, 0,
	                               s.other.comm[1], s.other.stream[1]),
	            "ncclBroadcast");
	native_must(s.p->cudaStreamSynchronize(s.other.stream[0]), "the work");
	native_must(s.p->cudaStreamSynchronize(s.other.stream[1]), "the work");
	cr_assert_arr_eq(s.other.recv[1], s.other.send[0],
	                 sizeof(s.other.send[0]));
}

Test(sync, first_launch_also_loads_the_kernel_on_other_devices)
{
	struct scene s;
	int r;

	open_scene(&s);
	/*
	 * Devices 2 and 3 have the kernel, and device 4 does not. If rank 2 had
	 * to load it now, it would wait forever for ranks 0 and 1.
	 */
	for (r = 0; r < 3; r++)
		native_must(native_sum(&wider, r), "ncclAllReduce");
	for (r = 0; r < 3; r++) {
		native_must(s.p->cudaStreamSynchronize(wider.stream[r]),
		            "the work");
		cr_assert_eq(native_wrong(&wider, r), 0);
	}
}

/* Enqueue an all-to-all on rank @r and, on ranks 0 and 1, a message in the same
 * group. */
static void spread(struct native_clique *c, int r)
{
	const struct platform *p = c->p;

	native_must(p->ncclGroupStart(), "ncclGroupStart");
	native_must(p->ncclAlltoAll(c->send[r], c->recv[r], 1, ncclInt32,
	                            c->comm[r], c->stream[r]),
	            "ncclAlltoAll");
	if (r == 0)
		native_must(p->ncclSend(&c->send[r][4], 1, ncclInt32, 1,
		                        c->comm[r], c->stream[r]),
		            "ncclSend");
	else if (r == 1)
		native_must(p->ncclRecv(&c->recv[r][4], 1, ncclInt32, 0,
		                        c->comm[r], c->stream[r]),
		            "ncclRecv");
	native_must(p->ncclGroupEnd(), "ncclGroupEnd");
}

Test(sync, sends_share_the_kernel_of_all_to_all)
{
	struct scene s;
	int r;

	open_scene(&s);
	/*
	 * Rank 2 calls first, without a message. For ranks 0 and 1, the kernel
	 * must already be loaded.
	 */
	for (r = 2; r >= 0; r--)
		spread(&wider, r);
	for (r = 0; r < 3; r++)
		native_must(s.p->cudaStreamSynchronize(wider.stream[r]),
		            "the work");
	cr_assert_eq(wider.recv[1][4], wider.send[0][4]);
}

/* ---- the setting ------------------------------------------------------ */

Test(sync, memory_functions_do_not_wait_without_sync_mode)
{
	const struct platform *p;
	struct native_clique c;
	void *memory;

	unsetenv("COHORT_HOST_SYNC");
	p = native_open_host(2);
	native_clique_open(&c, p, 2);
	native_must(native_sum(&c, 0), "ncclAllReduce");
	cr_assert_eq(p->cudaSetDevice(1), cudaSuccess);
	cr_assert_eq(p->cudaMalloc(&memory, 1), cudaSuccess);
	cr_assert_eq(p->cudaFree(memory), cudaSuccess);
	cr_assert_eq(host_cudaDeviceEnablePeerAccess(0, 0), cudaSuccess);
	native_must(native_sum(&c, 1), "ncclAllReduce");
	native_clique_destroy(&c);
}

static int open_with(const char *value)
{
	const struct platform *p;

	setenv("COHORT_HOST_SYNC", value, 1);
	return platform_open(COHORT_PLATFORM_HOST, &p);
}

Test(sync, bad_value_of_COHORT_HOST_SYNC_is_named)
{
	place_need_built_in("a variable of the environment");
	cr_assert_eq(open_with("devices"), COHORT_INVALID);
	cr_assert_str_eq(cohort_last_error(),
	                 "COHORT_HOST_SYNC is \"devices\", not device, memory "
	                 "or none");
	cr_assert_eq(open_with("none"), COHORT_OK);
}

static ncclResult_t malloc_on_2(void *user)
{
	const struct platform *p = user;
	void *memory;

	native_must(p->cudaSetDevice(2), "cudaSetDevice");
	return (ncclResult_t)p->cudaMalloc(&memory, 1);
}

Test(sync, sync_mode_also_holds_for_the_drop_in_libraries)
{
	const struct platform *p;
	struct native_call call;
	struct native_clique c;
	struct native_gate gate;

	setenv("COHORT_HOST_SYNC", "device", 1);
	p = native_open(3);
	place_need_host("a device that always waits");
	native_clique_open(&c, p, 2);
	native_sum_all(&c);
	native_gate_hold(p, &gate, c.stream[1]);
	native_must(native_sum(&c, 0), "ncclAllReduce");
	native_must(native_sum(&c, 1), "ncclAllReduce");
	native_call_begin(&call, malloc_on_2, (void *)(uintptr_t)p);
	native_await_sleep(call.task);
	cr_assert_eq(p->cudaStreamQuery(c.stream[0]), cudaErrorNotReady);
	native_gate_open(&gate);
	cr_assert_eq(native_call_end(&call), 0);
	native_clique_destroy(&c);
}
