/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests that calls with host memory give, bit by bit, the results of the
 * corresponding calls with device memory
 *
 * The calls are random: any type and operation, in place or not, with counts
 * from 0 to many chunks. All ranks make the same calls, each after a random
 * delay. Chunks are small, so that a call can end anywhere in a chunk. Each
 * call is first made with device memory.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/fill.h"
#include "support/random.h"
#include "support/ranks.h"
#include "support/reference.h"
#include "support/spread.h"

#define MAX_RANKS 4
#define CHUNK 8192
#define ROOM ((size_t)3 << 20) /* size of a buffer, in bytes */
#define CALLS 150

enum kind {
	ALL_REDUCE,
	BROADCAST,
	REDUCE,
	ALL_GATHER,
	REDUCE_SCATTER,
	GATHER,
	SCATTER,
	ALL_TO_ALL,
	TRANSFER, /* send or recv, from rank @root to the next rank */
	KINDS
};

static const char *const names[] = {
	"all_reduce", "broadcast",      "reduce",
	"all_gather", "reduce_scatter", "gather",
	"scatter",    "all_to_all",     "send or recv",
};

struct call {
	enum kind kind;
	int type, op, root;
	size_t count;
	bool in_place;
	uint64_t seed;
};

/* Buffers of one rank for the call with host memory or with device memory */
struct buffers {
	char *send, *recv;
};

struct scene {
	int ranks;
	struct buffers device[MAX_RANKS], host[MAX_RANKS];
	struct spread_barrier *all;
};

static size_t random_count(uint64_t *state)
{
	switch (test_random(state) % 6) {
	case 0:
		return test_random(state) % 3;
	case 1:
		return test_random(state) % 300;
	case 2: /* whole chunks, one element fewer, or one element more */
		return CHUNK * (1 + test_random(state) % 9) / 4 +
		       test_random(state) % 3 - 1;
	case 3:
	case 4:
		return test_random(state) % 9000;
	}
	return test_random(state) % 90000;
}

/* NVIDIA's NCCL refuses averages of 8-bit floats over one rank. */
static int op_of(const struct call *c, int ranks)
{
	return place_is_nvidia() && ranks == 1 && c->op == COHORT_AVG &&
	                       reference_is_float(c->type) &&
	                       reference_size(c->type) == 1
	               ? COHORT_SUM
	               : c->op;
}

static struct call random_call(int ranks, uint64_t seed)
{
	uint64_t state = seed * 7919 + 1;
	struct call c = {
		.kind = test_random(&state) % KINDS,
		.type = (int)(test_random(&state) % 12),
		.op = (int)(test_random(&state) % 5),
		.root = (int)(test_random(&state) % (unsigned)ranks),
		.in_place = test_random(&state) % 2,
		.seed = seed,
	};

	if (c.kind == TRANSFER && ranks < 2)
		c.kind = ALL_REDUCE;
	c.op = op_of(&c, ranks);
	c.count = random_count(&state);
	return c;
}

/* ---- buffers ---------------------------------------------------------- */

static bool is_alike(const struct call *c)
{
	return c->kind == ALL_REDUCE || c->kind == BROADCAST ||
	       c->kind == REDUCE;
}

static size_t bytes_of(const struct call *c, int blocks)
{
	return c->count * (size_t)blocks * reference_size(c->type);
}

/*
 * Return the buffers that @rank passes to a call. If the call takes one buffer,
 * both members are that buffer.
 */
static struct buffers passed(const struct call *c, const struct buffers *of,
                             int rank)
{
	struct buffers b = of[rank];
	size_t own = bytes_of(c, rank);

	if (is_alike(c))
		b.recv = b.send;
	else if (c->in_place && (c->kind == ALL_GATHER || c->kind == GATHER))
		b.send = b.recv + own;
	else if (c->in_place &&
	         (c->kind == REDUCE_SCATTER || c->kind == SCATTER))
		b.recv = b.send + own;
	return b;
}

/* Fill the buffers of both calls with equal bytes. */
static void fill(const struct scene *s, const struct call *c, int rank)
{
	size_t bytes = bytes_of(c, s->ranks) + 64;
	struct buffers d = s->device[rank], h = s->host[rank];

	fill_random(d.send, c->count * (size_t)s->ranks, c->type,
	            c->seed * 31 + (unsigned)rank, false);
	fill_random(d.recv, c->count * (size_t)s->ranks, c->type,
	            c->seed * 37 + (unsigned)rank, false);
	fill_guard(d.send + bytes - 64, 64);
	fill_guard(d.recv + bytes - 64, 64);
	memcpy(h.send, d.send, bytes);
	memcpy(h.recv, d.recv, bytes);
}

/* ---- calls ------------------------------------------------------------ */

static int call_device(struct cohort_comm *comm, const struct call *c,
                       struct buffers b)
{
	const int rank = cohort_comm_rank(comm);
	void *s = cohort_comm_stream(comm);
	uint64_t *t = NULL;

	switch (c->kind) {
	case ALL_REDUCE:
		return cohort_all_reduce(comm, b.send, b.recv, c->count,
		                         c->type, c->op, s, t);
	case BROADCAST:
		return cohort_broadcast(comm, b.send, b.recv, c->count, c->type,
		                        c->root, s, t);
	case REDUCE:
		return cohort_reduce(comm, b.send, b.recv, c->count, c->type,
		                     c->op, c->root, s, t);
	case ALL_GATHER:
		return cohort_all_gather(comm, b.send, b.recv, c->count,
		                         c->type, s, t);
	case REDUCE_SCATTER:
		return cohort_reduce_scatter(comm, b.send, b.recv, c->count,
		                             c->type, c->op, s, t);
	case GATHER:
		return cohort_gather(comm, b.send, b.recv, c->count, c->type,
		                     c->root, s, t);
	case SCATTER:
		return cohort_scatter(comm, b.send, b.recv, c->count, c->type,
		                      c->root, s, t);
	case ALL_TO_ALL:
		return cohort_all_to_all(comm, b.send, b.recv, c->count,
		                         c->type, s, t);
	case TRANSFER:
		if (rank == c->root)
			return cohort_send(comm, b.send, c->count, c->type,
			                   (rank + 1) % cohort_comm_size(comm),
			                   s, t);
		if (rank == (c->root + 1) % cohort_comm_size(comm))
			return cohort_recv(comm, b.recv, c->count, c->type,
			                   c->root, s, t);
		return COHORT_OK;
	case KINDS:
		break;
	}
	return COHORT_INVALID;
}

static int call_host(struct cohort_comm *comm, const struct call *c,
                     struct buffers b, uint64_t timeout)
{
	const int rank = cohort_comm_rank(comm);

	switch (c->kind) {
	case ALL_REDUCE:
		return cohort_all_reduce_host(comm, b.send, c->count, c->type,
		                              c->op, timeout);
	case BROADCAST:
		return cohort_broadcast_host(comm, b.send, c->count, c->type,
		                             c->root, timeout);
	case REDUCE:
		return cohort_reduce_host(comm, b.send, c->count, c->type,
		                          c->op, c->root, timeout);
	case ALL_GATHER:
		return cohort_all_gather_host(comm, b.send, b.recv, c->count,
		                              c->type, timeout);
	case REDUCE_SCATTER:
		return cohort_reduce_scatter_host(comm, b.send, b.recv,
		                                  c->count, c->type, c->op,
		                                  timeout);
	case GATHER:
		return cohort_gather_host(comm, b.send, b.recv, c->count,
		                          c->type, c->root, timeout);
	case SCATTER:
		return cohort_scatter_host(comm, b.send, b.recv, c->count,
		                           c->type, c->root, timeout);
	case ALL_TO_ALL:
		return cohort_all_to_all_host(comm, b.send, b.recv, c->count,
		                              c->type, timeout);
	case TRANSFER:
		if (rank == c->root)
			return cohort_send_host(
				comm, b.send, c->count, c->type,
				(rank + 1) % cohort_comm_size(comm), timeout);
		if (rank == (c->root + 1) % cohort_comm_size(comm))
			return cohort_recv_host(comm, b.recv, c->count, c->type,
			                        c->root, timeout);
		return COHORT_OK;
	case KINDS:
		break;
	}
	return COHORT_INVALID;
}

static void die(const struct call *c, int rank, int ranks, const char *what)
{
	fprintf(stderr,
	        "%s_host of %zu of type %d, op %d, root %d%s, seed %llu: rank "
	        "%d of %d: %s: %s\n",
	        names[c->kind], c->count, c->type, c->op, c->root,
	        c->in_place ? ", in place" : "", (unsigned long long)c->seed,
	        rank, ranks, what, cohort_last_error());
	_exit(1);
}

/* Compare all bytes of both calls' buffers, including bytes that the call must
 * not change. */
static void compare(const struct scene *s, const struct call *c, int rank)
{
	size_t bytes = bytes_of(c, s->ranks) + 64;

	if (memcmp(s->device[rank].send, s->host[rank].send, bytes))
		die(c, rank, s->ranks, "send differs");
	if (memcmp(s->device[rank].recv, s->host[rank].recv, bytes))
		die(c, rank, s->ranks, "recv differs");
}

static void try(struct scene *s, struct cohort_comm *comm, const struct call *c)
{
	const int rank = cohort_comm_rank(comm);
	uint64_t timeout = (c->seed * 13 + (unsigned)rank) % 3 ? COHORT_FOREVER
	                                                       : RANKS_SOON;

	fill(s, c, rank);
	if (call_device(comm, c, passed(c, s->device, rank)) != COHORT_OK ||
	    cohort_synchronize(comm, RANKS_SOON) != COHORT_OK)
		die(c, rank, s->ranks, "of the device");
	if (call_host(comm, c, passed(c, s->host, rank), timeout) != COHORT_OK)
		die(c, rank, s->ranks, "fails");
	/* Buffers may be filled again only after all ranks are done. */
	spread_wait(s->all, s->ranks);
	compare(s, c, rank);
}

static int worker(struct cohort_comm *comm, void *user)
{
	struct scene *s = user;
	/* Make the largest call first, because it allocates memory, which may
	 * wait for a peer's send. */
	struct call c = {
		.kind = ALL_GATHER,
		.type = COHORT_F64,
		.count = (ROOM - 64) / ((size_t)s->ranks * sizeof(double)),
	};
	uint64_t i;

	try(s, comm, &c);
	for (i = 0; i < CALLS; i++) {
		c = random_call(s->ranks, i + (unsigned)s->ranks * 1000);
		try(s, comm, &c);
	}
	/* Make every call with every type, over several chunks. */
	for (i = 0; i < KINDS * 12; i++) {
		c = (struct call){
			.kind = (enum kind)(i / 12),
			.type = (int)(i % 12),
			.op = (int)(i % 5),
			.root = (int)i % s->ranks,
			.count = 5003,
			.in_place = i % 2,
			.seed = 77000 + i,
		};
		c.op = op_of(&c, s->ranks);
		if (c.kind != TRANSFER || s->ranks > 1)
			try(s, comm, &c);
	}
	return 0;
}

static void try_all(int ranks)
{
	struct scene s = { .ranks = ranks };
	struct cohort_group *group;
	int r;

	reference_begin();
	place_set_chunk(CHUNK);
	group = ranks_open(ranks, NULL);
	s.all = spread_alloc(sizeof(*s.all));
	for (r = 0; r < ranks; r++) {
		s.device[r] = (struct buffers){ spread_alloc(ROOM),
			                        spread_alloc(ROOM) };
		s.host[r] = (struct buffers){ spread_alloc(ROOM),
			                      spread_alloc(ROOM) };
	}
	ranks_must(cohort_group_run(group, worker, &s, NULL), "run");
	ranks_must(cohort_group_close(group), "close");
	for (r = 0; r < ranks; r++) {
		spread_free(s.device[r].send);
		spread_free(s.device[r].recv);
		spread_free(s.host[r].send);
		spread_free(s.host[r].recv);
	}
	spread_free(s.all);
}

Test(host_memory, host_memory_results_equal_device_results_on_one_rank,
     .timeout = 60)
{
	try_all(1);
}

Test(host_memory, host_memory_results_equal_device_results_on_two_ranks,
     .timeout = 120)
{
	try_all(2);
}

Test(host_memory, host_memory_results_equal_device_results_on_three_ranks,
     .timeout = 120)
{
	try_all(3);
}

Test(host_memory, host_memory_results_equal_device_results_on_four_ranks,
     .timeout = 180)
{
	try_all(4);
}

/* Sum ones at an odd address, both without and with a timeout. */
static int sum_unaligned(struct cohort_comm *comm, void *unused)
{
	static const uint64_t timeouts[] = { COHORT_FOREVER, RANKS_SOON };
	char room[16] = { 0 };
	int32_t value;
	size_t i;

	(void)unused;
	for (i = 0; i < 2; i++) {
		value = 1;
		memcpy(room + 1, &value, sizeof(value));
		ranks_must(cohort_all_reduce_host(comm, room + 1, 1, COHORT_I32,
		                                  COHORT_SUM, timeouts[i]),
		           "all_reduce_host");
		memcpy(&value, room + 1, sizeof(value));
		ranks_must(value - cohort_comm_size(comm), "the sum");
	}
	return 0;
}

Test(host_memory, host_memory_need_not_be_aligned, .timeout = 60)
{
	struct cohort_group *group = ranks_open(2, NULL);

	ranks_must(cohort_group_run(group, sum_unaligned, NULL, NULL), "run");
	ranks_must(cohort_group_close(group), "close");
}
