/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of NCCL's collective kernels on CPUs, without NVIDIA's library
 *
 * The kernels process structures with the layout of NCCL's host code, for two
 * to four ranks with one thread each.
 */

#include "sim/nvidia/kernel/kernel_run.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "platform/nccl_abi.h"
#include "sim/nvidia/kernel/layout_read.h"
#include "support/nccl_values.h"
#include "support/nccl_world.h"

#define MOST 20011

TestSuite(nvidia, .timeout = 60);

/* ---- collectives ------------------------------------------------------- */

struct call {
	struct function function;
	enum reduction reduction;
	size_t count;
	int root;
	bool in_place;
	int registered; /* the CONNECTION_P2P_... flags, or 0 */
};

struct buffers {
	void *send[WORLD_RANKS], *recv[WORLD_RANKS];
};

static bool only_copies(const struct call *c)
{
	return c->function.collective == ALL_GATHER ||
	       c->function.collective == BROADCAST;
}

static size_t send_count(const struct call *c, int ranks)
{
	return c->count *
	       (c->function.collective == REDUCE_SCATTER ? (size_t)ranks : 1);
}

static size_t recv_count(const struct call *c, int ranks)
{
	return c->count *
	       (c->function.collective == ALL_GATHER ? (size_t)ranks : 1);
}

/* Allocate the buffers of @rank. In place, the smaller buffer is the rank's
 * part of the larger one. */
static void allocate(struct buffers *b, const struct call *c, int rank,
                     int ranks)
{
	const int type = c->function.type;
	const size_t sent = send_count(c, ranks), got = recv_count(c, ranks);
	const size_t most = sent > got ? sent : got;
	const size_t own = (size_t)rank * c->count * nccl_type_size(type);

	b->recv[rank] = calloc(most + 1, nccl_type_size(type));
	b->send[rank] = c->in_place ? b->recv[rank]
	                            : calloc(most + 1, nccl_type_size(type));
	if (c->in_place && sent < got)
		b->send[rank] = (char *)b->recv[rank] + own;
	if (c->in_place && got < sent)
		b->recv[rank] = (char *)b->send[rank] + own;
	for (size_t i = 0; i < sent; i++)
		nccl_put(type, b->send[rank], i, nccl_value(type, rank, i));
}

static void release(struct buffers *b, const struct call *c, int ranks)
{
	for (int rank = 0; rank < ranks; rank++) {
		if (!c->in_place || recv_count(c, ranks) > c->count)
			free(b->recv[rank]);
		if (!c->in_place || recv_count(c, ranks) <= c->count)
			free(b->send[rank]);
	}
}

static struct coll_work work_of(const struct nccl_world *w,
                                const struct call *c, const struct buffers *b,
                                int rank, uintptr_t *remote)
{
	struct coll_work work = {
		.scalar = nccl_scalar(c->function.type, c->reduction, w->ranks),
		.root = c->root,
		.send = b->send[rank],
		.recv = b->recv[rank],
		.registered = c->registered != 0,
		.direct = c->registered & 3,
		.recv_remote = remote,
	};
	size_t count = c->count;

	/* If a collective only moves data, NCCL counts its elements in
	 * bytes. */
	if (only_copies(c))
		count *= nccl_type_size(c->function.type);
	nccl_split(w, &work, &c->function, count);
	for (int peer = 0; peer < w->ranks; peer++)
		remote[peer] = (uintptr_t)b->recv[rank];
	return work;
}

static double expected(const struct call *c, int rank, int ranks, size_t i)
{
	const int type = c->function.type;

	switch (c->function.collective) {
	case BROADCAST:
		return nccl_value(type, c->root, i);
	case ALL_GATHER:
		return nccl_value(type, (int)(i / c->count), i % c->count);
	case REDUCE_SCATTER:
		i += (size_t)rank * c->count;
		break;
	default:
		break;
	}
	return nccl_expect(type, c->reduction, ranks, i);
}

static void check(const struct call *c, const struct buffers *b, int ranks)
{
	const int type = c->function.type;

	for (int rank = 0; rank < ranks; rank++) {
		if (c->function.collective == REDUCE && rank != c->root)
			continue;
		for (size_t i = 0; i < recv_count(c, ranks); i++)
			cr_assert_eq(
				nccl_get(type, b->recv[rank], i),
				nccl_bits(type, expected(c, rank, ranks, i)),
				"collective %d algorithm %d protocol %d type "
				"%d reduction %d, %d ranks, count %zu: rank %d "
				"at %zu: %llx",
				c->function.collective, c->function.algorithm,
				c->function.protocol, type, c->reduction, ranks,
				c->count, rank, i,
				(unsigned long long)nccl_get(type,
			                                     b->recv[rank], i));
	}
}

/* Run a batch that repeats the call @times times, and check the last result. */
static void run_works(struct nccl_world *w, struct call c, int times, bool fifo)
{
	uintptr_t remote[WORLD_RANKS][WORLD_RANKS];
	struct nccl_plan plans[WORLD_RANKS];
	struct coll_work works[4];
	struct buffers b;

	c.function.operation = nccl_operation(c.reduction);
	for (int rank = 0; rank < w->ranks; rank++) {
		allocate(&b, &c, rank, w->ranks);
		for (int i = 0; i < times; i++)
			works[i] = work_of(w, &c, &b, rank, remote[rank]);
		nccl_plan_init(&plans[rank], w, rank, 1, fifo);
		nccl_plan_add(&plans[rank], w, WORK_COLL,
		              nccl_row(w, &c.function), works, times);
	}
	nccl_world_run(w, plans);
	for (int rank = 0; rank < w->ranks; rank++)
		cr_assert_eq(plans[rank].result, NVIDIA_DONE);
	check(&c, &b, w->ranks);
	release(&b, &c, w->ranks);
}

static void run(struct nccl_world *w, struct call c)
{
	run_works(w, c, 1, false);
}

static void run_all_protocols(struct nccl_world *w, struct call c)
{
	static const size_t counts[] = { 1, 33, 1000, MOST };

	for (int p = 0; p < PROTOCOLS; p++)
		for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
			c.function.protocol = p;
			c.count = counts[i];
			c.in_place = false;
			run(w, c);
			c.in_place = true;
			run(w, c);
		}
}

static struct call ring(enum collective collective)
{
	return (struct call){
		.function = {
			.collective = collective,
			.type = ncclFloat32,
			.algorithm = ALGORITHM_RING,
			.protocol = PROTOCOL_SIMPLE,
		},
		.count = 1000,
		.root = 1,
	};
}

/*
 * Run a collective on rings of 2 to 4 ranks. All calls on a ring use one world,
 * because each call continues with the step numbers of the previous call.
 */
static void run_ring(enum collective collective)
{
	for (int ranks = 2; ranks <= WORLD_RANKS; ranks++) {
		struct nccl_world *w =
			nccl_world_new(ranks, WORLD_CHANNELS, 0, ranks == 3);

		run_all_protocols(w, ring(collective));
		nccl_world_free(w);
	}
}

Test(nvidia, nccl_ring_all_reduce_is_correct)
{
	run_ring(ALL_REDUCE);
}

Test(nvidia, nccl_ring_all_gather_is_correct)
{
	run_ring(ALL_GATHER);
}

Test(nvidia, nccl_ring_reduce_scatter_is_correct)
{
	run_ring(REDUCE_SCATTER);
}

Test(nvidia, nccl_ring_broadcast_is_correct)
{
	run_ring(BROADCAST);
}

Test(nvidia, nccl_ring_reduce_is_correct)
{
	run_ring(REDUCE);
}

Test(nvidia, nccl_tree_all_reduce_is_correct)
{
	struct call c = ring(ALL_REDUCE);

	c.function.algorithm = ALGORITHM_TREE;
	for (int ranks = 2; ranks <= WORLD_RANKS; ranks++) {
		struct nccl_world *w =
			nccl_world_new(ranks, WORLD_CHANNELS, 0, false);

		run_all_protocols(w, c);
		nccl_world_free(w);
	}
}

Test(nvidia, nccl_all_reduce_supports_all_types_and_operations)
{
	struct nccl_world *w = nccl_world_new(WORLD_RANKS, 1, 0, false);
	struct call c = ring(ALL_REDUCE);

	c.count = 777;
	for (int p = 0; p < PROTOCOLS; p++)
		for (int type = 0; type < ncclNumTypes; type++)
			for (int r = SUM; r <= AVERAGE; r++) {
				if (r == AVERAGE && type > ncclUint64)
					continue;
				c.function.protocol = p;
				c.function.type = type;
				c.reduction = r;
				run(w, c);
			}
	nccl_world_free(w);
}

static void run_registered(struct call c, int way)
{
	const int flags = CONNECTION_P2P_WRITE | CONNECTION_P2P_READ;
	struct nccl_world *w = nccl_world_new(3, WORLD_CHANNELS, flags, false);

	c.count = MOST;
	c.registered = way;
	run(w, c);
	run(w, c);
	nccl_world_free(w);
}

Test(nvidia, nccl_kernel_writes_registered_buffers_directly)
{
	struct call c = ring(ALL_REDUCE);

	run_registered(ring(ALL_GATHER), CONNECTION_P2P_WRITE);
	run_registered(ring(BROADCAST), CONNECTION_P2P_WRITE);
	run_registered(c, CONNECTION_P2P_WRITE);
	c.function.algorithm = ALGORITHM_TREE;
	run_registered(c, CONNECTION_P2P_WRITE);
}

Test(nvidia, nccl_kernel_reads_registered_buffers_directly)
{
	run_registered(ring(ALL_GATHER), CONNECTION_P2P_READ);
	run_registered(ring(BROADCAST), CONNECTION_P2P_READ);
}

Test(nvidia, nccl_kernel_runs_the_work_items_of_a_batch_in_order)
{
	struct nccl_world *w = nccl_world_new(3, WORLD_CHANNELS, 0, false);

	run_works(w, ring(ALL_REDUCE), 3, false);
	cr_assert_eq(*read_channel(w->layout, w->comm[1], 1).work_count, 3);
	cr_assert_eq(w->started[1][1][3][0], 3);
	cr_assert_eq(w->completed[1][1][2][0], 2);
	nccl_world_free(w);
}

Test(nvidia, nccl_work_items_may_wrap_around_in_their_buffer)
{
	struct nccl_world *w = nccl_world_new(2, WORLD_CHANNELS, 0, false);

	run_works(w, ring(REDUCE_SCATTER), 2, true);
	nccl_world_free(w);
}

/* The thread that moves data between the ranks needs the sizes and the lines
 * that the kernels announce. */
Test(nvidia, nccl_collectives_work_with_a_proxy_between_ranks)
{
	struct call c = ring(ALL_REDUCE);
	struct nccl_world *w;

	c.count = MOST;
	for (int p = 0; p < PROTOCOLS; p++) {
		w = nccl_world_new_carried(3, p, p == PROTOCOL_SIMPLE ? 2 : 1);
		c.function.protocol = p;
		run(w, c);
		run(w, c);
		nccl_world_free(w);
	}
}

/* ---- aborts ------------------------------------------------------------ */

static void *run_alone(void *arg)
{
	struct nccl_plan *p = arg;

	p->result = nvidia_kernel_run(&p->launch);
	return NULL;
}

/* Check that a rank whose peers never arrive ends when its abort flag is set,
 * and that it does not change its output. */
static void abort_alone(struct call c)
{
	struct nccl_world *w =
		nccl_world_new(2, WORLD_CHANNELS, CONNECTION_P2P_WRITE, false);
	const struct timespec while_it_waits = { .tv_nsec = 5000000 };
	uintptr_t remote[WORLD_RANKS];
	struct coll_work work;
	struct nccl_plan p;
	struct buffers b;
	pthread_t thread;

	allocate(&b, &c, 0, 2);
	work = work_of(w, &c, &b, 0, remote);
	nccl_plan_init(&p, w, 0, 1, false);
	nccl_plan_add(&p, w, WORK_COLL, nccl_row(w, &c.function), &work, 1);
	pthread_create(&thread, NULL, run_alone, &p);
	nanosleep(&while_it_waits, NULL);
	__atomic_store_n(&w->abort_flag[0], 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	cr_assert_eq(p.result, NVIDIA_ABORTED);
	for (size_t i = 0; i < c.count; i++)
		cr_assert_eq(nccl_get(ncclFloat32, b.recv[0], i), 0);
	release(&b, &c, 1);
	nccl_world_free(w);
}

Test(nvidia, abort_flag_ends_an_nccl_collective_that_waits)
{
	struct call c = ring(ALL_REDUCE);

	for (int p = 0; p < PROTOCOLS; p++) {
		c.function.protocol = p;
		c.function.algorithm = ALGORITHM_RING;
		c.count = MOST;
		abort_alone(c);
		c.function.algorithm = ALGORITHM_TREE;
		abort_alone(c);
	}
	c = ring(ALL_GATHER);
	c.registered = CONNECTION_P2P_WRITE;
	abort_alone(c);
}

/* ---- the program's buffers ---------------------------------------------- */

/* Buffers that may_use_limited() allows, with their sizes */
static struct {
	const char *send, *recv;
	size_t send_bytes, recv_bytes;
} limits;

static bool may_use_limited(const void *p, size_t bytes, bool write)
{
	const char *start = write ? limits.recv : limits.send;

	return p == start &&
	       bytes <= (write ? limits.recv_bytes : limits.send_bytes);
}

/* Run a rank's kernel with its abort flag set, so that it waits for no other
 * rank. Return the result. */
static enum nvidia_result end_of(struct nccl_world *w, struct call c,
                                 const struct buffers *b, int rank)
{
	uintptr_t remote[WORLD_RANKS];
	struct coll_work work = work_of(w, &c, b, rank, remote);
	struct nccl_plan p;

	nccl_plan_init(&p, w, rank, 1, false);
	nccl_plan_add(&p, w, WORK_COLL, nccl_row(w, &c.function), &work, 1);
	p.launch.may_use = may_use_limited;
	w->abort_flag[rank] = 1;
	return nvidia_kernel_run(&p.launch);
}

/* Check that the kernel requests access to exactly the memory that it reads and
 * writes. */
static void look_at_buffers(struct nccl_world *w, struct call c, int rank)
{
	const enum collective kind = c.function.collective;
	const bool reads = kind != BROADCAST || rank == c.root;
	const bool writes = kind != REDUCE || rank == c.root;
	struct buffers b;

	allocate(&b, &c, rank, w->ranks);
	limits.send = b.send[rank];
	limits.recv = b.recv[rank];
	limits.send_bytes = reads ? 4 * send_count(&c, w->ranks) : 0;
	limits.recv_bytes = writes ? 4 * recv_count(&c, w->ranks) : 0;
	cr_assert_eq(end_of(w, c, &b, rank), NVIDIA_ABORTED);
	limits.send_bytes -= reads;
	cr_assert_eq(end_of(w, c, &b, rank),
	             reads ? NVIDIA_ILLEGAL_ADDRESS : NVIDIA_ABORTED);
	limits.send_bytes += reads;
	limits.recv_bytes -= writes;
	cr_assert_eq(end_of(w, c, &b, rank),
	             writes ? NVIDIA_ILLEGAL_ADDRESS : NVIDIA_ABORTED);
	free(b.send[rank]);
	free(b.recv[rank]);
}

Test(nvidia, nccl_kernel_does_nothing_if_it_may_not_use_a_buffer)
{
	static const enum collective kinds[] = { ALL_REDUCE, ALL_GATHER,
		                                 REDUCE_SCATTER, BROADCAST,
		                                 REDUCE };
	struct nccl_world *w = nccl_world_new(3, WORLD_CHANNELS, 0, false);

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		for (int rank = 0; rank < 2; rank++)
			look_at_buffers(w, ring(kinds[i]), rank);
	nccl_world_free(w);
}
