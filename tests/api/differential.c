/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Compares every collective with a plain reference
 *
 * There is one test for each collective and number of ranks. It opens one
 * group, whose ranks run the same list of cases: all types, operations, counts,
 * alignments of the buffers, in place and not. These are the steps of a case,
 * with a barrier after each:
 *
 *   every rank     makes its input, and puts its buffers between guards
 *   every rank     calls, waits, saves its result; then calls once more
 *   rank 0         computes the results of all ranks
 *   every rank     compares both runs with the computed results, and
 *                  checks the guards
 *
 * The header does not specify which NaN a result is. So a NaN of any rank and
 * run is compared, bit by bit, with rank 0's.
 *
 * On the host platform, device memory is the program's memory, so buffers are
 * filled and read in place. A worker that finds a difference prints the case
 * and ends the process, because only the main thread may use Criterion's
 * assertions.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cohort/cohort.h>

#include "support/expect.h"
#include "support/fill.h"
#include "support/ranks.h"
#include "support/reference.h"
#include "support/spread.h"

#define TYPES 12
#define OPS 5
#define MAX_RANKS 8
#define GUARD 64
#define SLACK 32
#define LARGEST 40001 /* approximate number of elements of the larger buffer */

enum kind {
	ALL_REDUCE,
	BROADCAST,
	REDUCE,
	ALL_GATHER,
	REDUCE_SCATTER,
	ALL_REDUCE_MANY,
	SPECIAL_VALUES,
	GROUP_ALL_REDUCE,
	GROUP_BROADCAST,
};

/* The properties by which the collectives differ */
struct shape {
	const char *name;
	bool has_op;
	bool has_root;
	bool gathers;  /* every rank receives size * count elements */
	bool scatters; /* every rank sends size * count elements */
};

static const struct shape shapes[] = {
	[ALL_REDUCE] = { "all_reduce", .has_op = true },
	[BROADCAST] = { "broadcast", .has_root = true },
	[REDUCE] = { "reduce", .has_op = true, .has_root = true },
	[ALL_GATHER] = { "all_gather", .gathers = true },
	[REDUCE_SCATTER] = { "reduce_scatter", .has_op = true,
	                     .scatters = true },
	[ALL_REDUCE_MANY] = { "all_reduce_many", .has_op = true },
	[SPECIAL_VALUES] = { "all_reduce of special values", .has_op = true },
	[GROUP_ALL_REDUCE] = { "group_all_reduce", .has_op = true },
	[GROUP_BROADCAST] = { "group_broadcast", .has_root = true },
};

/* A test case */
struct config {
	int kind;
	int n;
	int type;
	int op;
	int root;
	size_t count;
	bool in_place;
	size_t send_off; /* offset in bytes from the memory's alignment */
	size_t recv_off;
};

/* Memory of a rank, used by all cases */
struct rank_memory {
	char *send_block; /* send buffer with its guards */
	char *recv_block;
	char *input; /* contents of send before the call */
	char *first; /* result of the first run */
};

struct bench {
	int kind;
	int n;
	struct cohort_group *group;
	struct rank_memory memory[MAX_RANKS];
	char *expected;
	struct spread_barrier *all;
};

static void die(const struct config *c, int rank, const char *what,
                size_t where)
{
	fprintf(stderr,
	        "%s: rank %d of %d: %s at %zu: type %d op %d root %d count "
	        "%zu%s send off %zu recv off %zu: %s\n",
	        shapes[c->kind].name, rank, c->n, what, where, c->type, c->op,
	        c->root, c->count, c->in_place ? " in place" : "", c->send_off,
	        c->recv_off, cohort_last_error());
	_exit(1);
}

/* ---- the cases -------------------------------------------------------- */

static const size_t counts[] = { 0, 1, 3, 17, 1023, LARGEST };

/*
 * Number of alignments of the buffers: aligned, one element off, or an odd
 * number of bytes off. In the third layout, the two buffers have different
 * offsets. If the collective needs alignment, offsets are whole elements.
 */
#define LAYOUTS 3

static void config_lay(struct config *c, int layout, bool is_aligned)
{
	size_t size = reference_size(c->type);
	size_t unit = is_aligned ? size : 1;

	c->send_off = layout == 0 ? 0 : layout == 1 ? size : unit;
	c->recv_off = layout == 0 ? 0 : layout == 1 ? size : 3 * unit;
	if (c->in_place)
		c->recv_off = c->send_off;
}

/*
 * Return the count of a case. If one of its buffers has a block for each rank,
 * LARGEST is the count of the whole buffer.
 */
static size_t config_count(int kind, int n, size_t count)
{
	if (count == LARGEST && (shapes[kind].gathers || shapes[kind].scatters))
		return (size_t)(LARGEST / n);
	return count;
}

/*
 * Return whether NVIDIA's NCCL computes this average differently: it divides
 * each rank's values before it adds them, and refuses averages of 8-bit floats
 * over one rank.
 */
static bool is_averaged_otherwise(const struct config *c)
{
	return place_is_nvidia() && c->op == COHORT_AVG &&
	       reference_is_float(c->type) &&
	       ((c->n & (c->n - 1)) ||
	        (c->n == 1 && reference_size(c->type) == 1));
}

/* Return whether to test the case. LARGEST is tested in one layout of each type
 * and operation only. */
static bool config_wanted(const struct config *c, int layout)
{
	if (is_averaged_otherwise(c))
		return false;
	if (c->count < LARGEST / MAX_RANKS)
		return true;
	return layout == (c->type + c->op) % LAYOUTS &&
	       c->in_place == (c->type % 2 == c->op % 2);
}

/* Call @visit for every case, in the same order on every rank. */
static void each_config(int kind, int n,
                        void (*visit)(const struct config *c, void *user),
                        void *user)
{
	int ops = shapes[kind].has_op ? OPS : 1;
	size_t k;
	int i;

	for (k = 0; k < sizeof(counts) / sizeof(counts[0]); k++)
		for (i = 0; i < TYPES * ops * 2 * LAYOUTS; i++) {
			int layout = i / 2 % LAYOUTS;
			struct config c = {
				.kind = kind,
				.n = n,
				.type = i / (2 * LAYOUTS) % TYPES,
				.op = i / (2 * LAYOUTS * TYPES),
				.count = config_count(kind, n, counts[k]),
				.in_place = i % 2,
			};

			c.root = shapes[kind].has_root
			                 ? (int)(k + (size_t)i / 6) % n
			                 : 0;
			config_lay(&c, layout, shapes[c.kind].has_op);
			if (config_wanted(&c, layout))
				visit(&c, user);
		}
}

/* ---- buffers ---------------------------------------------------------- */

static size_t send_count(const struct config *c)
{
	return shapes[c->kind].scatters ? c->count * (size_t)c->n : c->count;
}

static size_t recv_count(const struct config *c)
{
	return shapes[c->kind].gathers ? c->count * (size_t)c->n : c->count;
}

/*
 * Return @rank's send buffer. In place, the smaller buffer is the rank's block
 * in the larger one.
 */
static char *send_buffer(const struct bench *b, const struct config *c,
                         int rank)
{
	size_t block = c->count * reference_size(c->type);

	if (c->in_place && shapes[c->kind].gathers)
		return b->memory[rank].recv_block + GUARD + c->recv_off +
		       (size_t)rank * block;
	if (c->in_place && !shapes[c->kind].scatters)
		return b->memory[rank].recv_block + GUARD + c->recv_off;
	return b->memory[rank].send_block + GUARD + c->send_off;
}

static char *recv_buffer(const struct bench *b, const struct config *c,
                         int rank)
{
	size_t block = c->count * reference_size(c->type);

	if (c->in_place && shapes[c->kind].scatters)
		return b->memory[rank].send_block + GUARD + c->send_off +
		       (size_t)rank * block;
	return b->memory[rank].recv_block + GUARD + c->recv_off;
}

static bool receives(const struct config *c, int rank)
{
	return c->kind != REDUCE || rank == c->root;
}

/* Fill @rank's memory, except the input, with the guard pattern. */
static void lay_buffers(const struct bench *b, const struct config *c, int rank)
{
	size_t size = reference_size(c->type);
	size_t longest =
		send_count(c) > recv_count(c) ? send_count(c) : recv_count(c);
	size_t bytes = longest * size + 2 * GUARD + SLACK;

	fill_guard(b->memory[rank].send_block, bytes);
	fill_guard(b->memory[rank].recv_block, bytes);
	memcpy(send_buffer(b, c, rank), b->memory[rank].input,
	       send_count(c) * size);
}

static void make_input(const struct bench *b, const struct config *c, int rank)
{
	uint64_t seed = (uint64_t)(rank + 1) * 1000003 + c->count * 31 +
	                (uint64_t)c->op * 7 + c->send_off;

	fill_random(b->memory[rank].input, send_count(c), c->type, seed,
	            c->kind == SPECIAL_VALUES);
}

/* ---- the call --------------------------------------------------------- */

/*
 * Call with a list of three tensors: two of one element, and the rest. If the
 * count is less than 3, the list has one tensor.
 */
static int call_many(const struct config *c, struct cohort_comm *comm,
                     char *send, char *recv, uint64_t *ticket)
{
	size_t size = reference_size(c->type);
	size_t most = c->count > 2 ? c->count - 2 : c->count;
	struct cohort_tensor list[3];
	size_t at = 0;
	size_t n = 0;

	do {
		list[n] = (struct cohort_tensor){
			.send = send + at * size,
			.recv = recv + at * size,
			.count = at == 0 ? most : 1,
			.type = c->type,
		};
		at += list[n++].count;
	} while (at < c->count);
	return cohort_all_reduce_many(comm, list, n, c->op,
	                              cohort_comm_stream(comm), ticket);
}

static int call(const struct config *c, struct cohort_comm *comm, char *send,
                char *recv, uint64_t *ticket)
{
	void *stream = cohort_comm_stream(comm);

	switch (c->kind) {
	case ALL_REDUCE:
	case SPECIAL_VALUES: /* small values, some NaNs and infinities */
		return cohort_all_reduce(comm, send, recv, c->count, c->type,
		                         c->op, stream, ticket);
	case BROADCAST:
		return cohort_broadcast(comm, send, recv, c->count, c->type,
		                        c->root, stream, ticket);
	case REDUCE:
		return cohort_reduce(comm, send, recv, c->count, c->type, c->op,
		                     c->root, stream, ticket);
	case ALL_GATHER:
		return cohort_all_gather(comm, send, recv, c->count, c->type,
		                         stream, ticket);
	case REDUCE_SCATTER:
		return cohort_reduce_scatter(comm, send, recv, c->count,
		                             c->type, c->op, stream, ticket);
	default:
		return call_many(c, comm, send, recv, ticket);
	}
}

/* ---- expectation and comparison --------------------------------------- */

/* Compute the results of all ranks. They are stored in rank order if the ranks
 * get different blocks. */
static void expect_results(struct bench *b, const struct config *c)
{
	const void *in[MAX_RANKS];
	int r;

	for (r = 0; r < c->n; r++)
		in[r] = b->memory[r].input;
	if (c->kind == BROADCAST || c->kind == GROUP_BROADCAST)
		reference_broadcast(b->expected, in, c->count, c->type,
		                    c->root);
	else if (c->kind == ALL_GATHER)
		reference_all_gather(b->expected, in, c->n, c->count, c->type);
	else
		reference_reduce(b->expected, in, c->n, send_count(c), c->type,
		                 c->op);
}

static void compare_result(struct bench *b, const struct config *c, int rank)
{
	size_t size = reference_size(c->type);
	size_t skip = shapes[c->kind].scatters ? (size_t)rank * c->count : 0;
	const char *got = recv_buffer(b, c, rank);
	size_t bytes = recv_count(c) * size;
	size_t at;

	at = reference_compare(got, b->expected + skip * size, recv_count(c),
	                       c->type);
	if (at != recv_count(c))
		die(c, rank, "not what the reference says", at);
	if (memcmp(got, b->memory[rank].first, bytes) != 0)
		die(c, rank, "the second run differs from the first", 0);
	if (c->kind != REDUCE && !shapes[c->kind].scatters &&
	    memcmp(b->memory[rank].first, b->memory[0].first, bytes) != 0)
		die(c, rank, "differs from rank 0", 0);
}

/*
 * Check the guards around @rank's buffers. This overwrites the buffers, so
 * compare them first.
 */
static void compare_guards(struct bench *b, const struct config *c, int rank)
{
	size_t size = reference_size(c->type);
	size_t longest =
		send_count(c) > recv_count(c) ? send_count(c) : recv_count(c);
	char *blocks[2] = { b->memory[rank].send_block,
		            b->memory[rank].recv_block };
	char *used[2] = { send_buffer(b, c, rank), recv_buffer(b, c, rank) };
	size_t lengths[2] = { send_count(c) * size, recv_count(c) * size };
	size_t total = longest * size + 2 * GUARD + SLACK;
	int i;

	for (i = 0; i < 2; i++)
		fill_guard(used[i], lengths[i]);
	for (i = 0; i < 2; i++)
		if (!fill_guard_intact(blocks[i], total))
			die(c, rank,
			    i ? "recv's guard was written"
			      : "send's guard was written",
			    0);
}

/*
 * Check that the send buffer is unchanged, unless the call is in place.
 */
static void compare_input(struct bench *b, const struct config *c, int rank)
{
	if (c->in_place)
		return;
	if (memcmp(send_buffer(b, c, rank), b->memory[rank].input,
	           send_count(c) * reference_size(c->type)) != 0)
		die(c, rank, "send was written", 0);
}

static void compare_untouched(struct bench *b, const struct config *c, int rank)
{
	size_t bytes = recv_count(c) * reference_size(c->type);
	const char *recv = recv_buffer(b, c, rank);

	if (c->in_place ? memcmp(recv, b->memory[rank].input, bytes) != 0
	                : !fill_guard_intact(recv, bytes))
		die(c, rank, "recv was written on a rank that is not the root",
		    0);
}

static void compare(struct bench *b, const struct config *c, int rank)
{
	if (receives(c, rank))
		compare_result(b, c, rank);
	else
		compare_untouched(b, c, rank);
	compare_input(b, c, rank);
	compare_guards(b, c, rank);
}

/* ---- one worker for each rank ------------------------------------------ */

struct worker {
	struct bench *bench;
	struct cohort_comm *comm;
	int rank;
};

static void run_once(struct worker *w, const struct config *c)
{
	uint64_t ticket = 0;
	int rc;

	lay_buffers(w->bench, c, w->rank);
	rc = call(c, w->comm, send_buffer(w->bench, c, w->rank),
	          recv_buffer(w->bench, c, w->rank), &ticket);
	if (rc != COHORT_OK)
		die(c, w->rank, "the call failed", 0);
	rc = cohort_wait(w->comm, ticket, COHORT_FOREVER);
	if (rc != COHORT_OK)
		die(c, w->rank, "the wait failed", 0);
}

static void work_config(const struct config *c, void *user)
{
	struct worker *w = user;
	struct bench *b = w->bench;

	make_input(b, c, w->rank);
	spread_wait(b->all, b->n);
	run_once(w, c);
	memcpy(b->memory[w->rank].first, recv_buffer(b, c, w->rank),
	       recv_count(c) * reference_size(c->type));
	run_once(w, c);
	if (w->rank == 0)
		expect_results(b, c);
	spread_wait(b->all, b->n);
	compare(b, c, w->rank);
	spread_wait(b->all, b->n);
}

static int work(struct cohort_comm *comm, void *user)
{
	struct worker w = {
		.bench = user,
		.comm = comm,
		.rank = cohort_comm_rank(comm),
	};

	each_config(w.bench->kind, w.bench->n, work_config, &w);
	return 0;
}

/* ---- all ranks from one thread ---------------------------------------- */

static void group_run_once(struct bench *b, const struct config *c)
{
	const void *send[MAX_RANKS];
	void *recv[MAX_RANKS];
	uint64_t ticket = 0;
	int rc;
	int r;

	for (r = 0; r < c->n; r++) {
		lay_buffers(b, c, r);
		send[r] = send_buffer(b, c, r);
		recv[r] = recv_buffer(b, c, r);
		if (c->kind == GROUP_BROADCAST && r != c->root && r % 2)
			send[r] = NULL;
	}
	if (c->kind == GROUP_BROADCAST)
		rc = cohort_group_broadcast(b->group, send, recv, c->count,
		                            c->type, c->root, NULL, &ticket);
	else
		rc = cohort_group_all_reduce(b->group, send, recv, c->count,
		                             c->type, c->op, NULL, &ticket);
	if (rc != COHORT_OK)
		die(c, -1, "the call failed", 0);
	if (cohort_group_wait(b->group, ticket, COHORT_FOREVER) != COHORT_OK)
		die(c, -1, "the wait failed", 0);
}

static void group_config(const struct config *c, void *user)
{
	struct bench *b = user;
	int r;

	for (r = 0; r < c->n; r++)
		make_input(b, c, r);
	group_run_once(b, c);
	for (r = 0; r < c->n; r++)
		memcpy(b->memory[r].first, recv_buffer(b, c, r),
		       recv_count(c) * reference_size(c->type));
	group_run_once(b, c);
	expect_results(b, c);
	for (r = 0; r < c->n; r++)
		compare(b, c, r);
}

/* ---- tests ------------------------------------------------------------ */

static bool is_copy(int kind)
{
	return kind == BROADCAST || kind == GROUP_BROADCAST ||
	       kind == ALL_GATHER;
}

static void bench_open(struct bench *b, int kind, int n)
{
	size_t most = ((size_t)n * 1023 + LARGEST) * 8;
	struct cohort_group_options options;
	int r;

	place_need(n);
	if (n > 1 && !is_copy(kind))
		place_need_host("arithmetic that is the same everywhere");
	if (kind == SPECIAL_VALUES)
		place_need_our_nccl("an order of additions");
	reference_begin();
	b->kind = kind;
	b->n = n;
	cohort_group_options_init(&options);
	b->group = ranks_open(n, &options);
	for (r = 0; r < n; r++) {
		struct rank_memory *m = &b->memory[r];

		m->send_block = spread_alloc(most + 2 * GUARD + SLACK);
		m->recv_block = spread_alloc(most + 2 * GUARD + SLACK);
		m->input = spread_alloc(most);
		m->first = spread_alloc(most);
	}
	b->expected = spread_alloc(most);
	b->all = spread_alloc(sizeof(*b->all));
}

static void bench_close(struct bench *b)
{
	int r;

	expect_close(b->group);
	for (r = 0; r < b->n; r++) {
		spread_free(b->memory[r].send_block);
		spread_free(b->memory[r].recv_block);
		spread_free(b->memory[r].input);
		spread_free(b->memory[r].first);
	}
	spread_free(b->expected);
	spread_free(b->all);
}

static void run_workers(int kind, int n)
{
	struct bench b;

	bench_open(&b, kind, n);
	expect_run_in(b.group, work, &b);
	bench_close(&b);
}

static void run_group(int kind, int n)
{
	struct bench b;

	spread_not("the test makes the calls of all ranks");
	bench_open(&b, kind, n);
	each_config(kind, n, group_config, &b);
	bench_close(&b);
}

/* Parameterized tests are not used, because Criterion leaks the parameters, and
 * AddressSanitizer reports that. */
Test(differential, all_reduce_on_one_rank_equals_reference, .timeout = 120)
{
	run_workers(ALL_REDUCE, 1);
}

Test(differential, all_reduce_on_two_ranks_equals_reference, .timeout = 120)
{
	run_workers(ALL_REDUCE, 2);
}

Test(differential, all_reduce_on_three_ranks_equals_reference, .timeout = 120)
{
	run_workers(ALL_REDUCE, 3);
}

Test(differential, all_reduce_on_four_ranks_equals_reference, .timeout = 120)
{
	run_workers(ALL_REDUCE, 4);
}

Test(differential, all_reduce_on_seven_ranks_equals_reference, .timeout = 120)
{
	run_workers(ALL_REDUCE, 7);
}

Test(differential, all_reduce_on_eight_ranks_equals_reference, .timeout = 120)
{
	run_workers(ALL_REDUCE, 8);
}

Test(differential, broadcast_on_one_rank_equals_reference, .timeout = 120)
{
	run_workers(BROADCAST, 1);
}

Test(differential, broadcast_on_two_ranks_equals_reference, .timeout = 120)
{
	run_workers(BROADCAST, 2);
}

Test(differential, broadcast_on_three_ranks_equals_reference, .timeout = 120)
{
	run_workers(BROADCAST, 3);
}

Test(differential, broadcast_on_four_ranks_equals_reference, .timeout = 120)
{
	run_workers(BROADCAST, 4);
}

Test(differential, broadcast_on_seven_ranks_equals_reference, .timeout = 120)
{
	run_workers(BROADCAST, 7);
}

Test(differential, broadcast_on_eight_ranks_equals_reference, .timeout = 120)
{
	run_workers(BROADCAST, 8);
}

Test(differential, reduce_on_one_rank_equals_reference, .timeout = 120)
{
	run_workers(REDUCE, 1);
}

Test(differential, reduce_on_two_ranks_equals_reference, .timeout = 120)
{
	run_workers(REDUCE, 2);
}

Test(differential, reduce_on_three_ranks_equals_reference, .timeout = 120)
{
	run_workers(REDUCE, 3);
}

Test(differential, reduce_on_four_ranks_equals_reference, .timeout = 120)
{
	run_workers(REDUCE, 4);
}

Test(differential, reduce_on_seven_ranks_equals_reference, .timeout = 120)
{
	run_workers(REDUCE, 7);
}

Test(differential, reduce_on_eight_ranks_equals_reference, .timeout = 120)
{
	run_workers(REDUCE, 8);
}

Test(differential, all_gather_on_one_rank_equals_reference, .timeout = 120)
{
	run_workers(ALL_GATHER, 1);
}

Test(differential, all_gather_on_two_ranks_equals_reference, .timeout = 120)
{
	run_workers(ALL_GATHER, 2);
}

Test(differential, all_gather_on_three_ranks_equals_reference, .timeout = 120)
{
	run_workers(ALL_GATHER, 3);
}

Test(differential, all_gather_on_four_ranks_equals_reference, .timeout = 120)
{
	run_workers(ALL_GATHER, 4);
}

Test(differential, all_gather_on_seven_ranks_equals_reference, .timeout = 120)
{
	run_workers(ALL_GATHER, 7);
}

Test(differential, all_gather_on_eight_ranks_equals_reference, .timeout = 120)
{
	run_workers(ALL_GATHER, 8);
}

Test(differential, reduce_scatter_on_one_rank_equals_reference, .timeout = 120)
{
	run_workers(REDUCE_SCATTER, 1);
}

Test(differential, reduce_scatter_on_two_ranks_equals_reference, .timeout = 120)
{
	run_workers(REDUCE_SCATTER, 2);
}

Test(differential, reduce_scatter_on_three_ranks_equals_reference,
     .timeout = 120)
{
	run_workers(REDUCE_SCATTER, 3);
}

Test(differential, reduce_scatter_on_four_ranks_equals_reference,
     .timeout = 120)
{
	run_workers(REDUCE_SCATTER, 4);
}

Test(differential, reduce_scatter_on_seven_ranks_equals_reference,
     .timeout = 120)
{
	run_workers(REDUCE_SCATTER, 7);
}

Test(differential, reduce_scatter_on_eight_ranks_equals_reference,
     .timeout = 120)
{
	run_workers(REDUCE_SCATTER, 8);
}

Test(differential, all_reduce_many_on_one_rank_equals_reference, .timeout = 120)
{
	run_workers(ALL_REDUCE_MANY, 1);
}

Test(differential, all_reduce_many_on_two_ranks_equals_reference,
     .timeout = 120)
{
	run_workers(ALL_REDUCE_MANY, 2);
}

Test(differential, all_reduce_many_on_three_ranks_equals_reference,
     .timeout = 120)
{
	run_workers(ALL_REDUCE_MANY, 3);
}

Test(differential, all_reduce_many_on_four_ranks_equals_reference,
     .timeout = 120)
{
	run_workers(ALL_REDUCE_MANY, 4);
}

Test(differential, all_reduce_many_on_seven_ranks_equals_reference,
     .timeout = 120)
{
	run_workers(ALL_REDUCE_MANY, 7);
}

Test(differential, all_reduce_many_on_eight_ranks_equals_reference,
     .timeout = 120)
{
	run_workers(ALL_REDUCE_MANY, 8);
}

Test(differential, all_reduce_of_nan_on_one_rank_equals_reference,
     .timeout = 120)
{
	run_workers(SPECIAL_VALUES, 1);
}

Test(differential, all_reduce_of_nan_on_two_ranks_equals_reference,
     .timeout = 120)
{
	run_workers(SPECIAL_VALUES, 2);
}

Test(differential, all_reduce_of_nan_on_three_ranks_equals_reference,
     .timeout = 120)
{
	run_workers(SPECIAL_VALUES, 3);
}

Test(differential, all_reduce_of_nan_on_four_ranks_equals_reference,
     .timeout = 120)
{
	run_workers(SPECIAL_VALUES, 4);
}

Test(differential, all_reduce_of_nan_on_seven_ranks_equals_reference,
     .timeout = 120)
{
	run_workers(SPECIAL_VALUES, 7);
}

Test(differential, all_reduce_of_nan_on_eight_ranks_equals_reference,
     .timeout = 120)
{
	run_workers(SPECIAL_VALUES, 8);
}

Test(differential, group_all_reduce_on_one_rank_equals_reference,
     .timeout = 120)
{
	run_group(GROUP_ALL_REDUCE, 1);
}

Test(differential, group_all_reduce_on_two_ranks_equals_reference,
     .timeout = 120)
{
	run_group(GROUP_ALL_REDUCE, 2);
}

Test(differential, group_all_reduce_on_three_ranks_equals_reference,
     .timeout = 120)
{
	run_group(GROUP_ALL_REDUCE, 3);
}

Test(differential, group_all_reduce_on_four_ranks_equals_reference,
     .timeout = 120)
{
	run_group(GROUP_ALL_REDUCE, 4);
}

Test(differential, group_all_reduce_on_seven_ranks_equals_reference,
     .timeout = 120)
{
	run_group(GROUP_ALL_REDUCE, 7);
}

Test(differential, group_all_reduce_on_eight_ranks_equals_reference,
     .timeout = 120)
{
	run_group(GROUP_ALL_REDUCE, 8);
}

Test(differential, group_broadcast_on_one_rank_equals_reference, .timeout = 120)
{
	run_group(GROUP_BROADCAST, 1);
}

Test(differential, group_broadcast_on_two_ranks_equals_reference,
     .timeout = 120)
{
	run_group(GROUP_BROADCAST, 2);
}

Test(differential, group_broadcast_on_three_ranks_equals_reference,
     .timeout = 120)
{
	run_group(GROUP_BROADCAST, 3);
}

Test(differential, group_broadcast_on_four_ranks_equals_reference,
     .timeout = 120)
{
	run_group(GROUP_BROADCAST, 4);
}

Test(differential, group_broadcast_on_seven_ranks_equals_reference,
     .timeout = 120)
{
	run_group(GROUP_BROADCAST, 7);
}

Test(differential, group_broadcast_on_eight_ranks_equals_reference,
     .timeout = 120)
{
	run_group(GROUP_BROADCAST, 8);
}
