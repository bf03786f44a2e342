/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of the element types without arithmetic: every call that moves elements
 * accepts them, every call that reduces refuses them, and ranks that pass
 * different types of one size get an error
 */

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include <cohort/reducer.h>

#include "support/expect.h"
#include "support/ranks.h"
#include "support/spread.h"

#define RANKS 3
#define ROOT 1
#define COUNT 5
/* size in bytes of a list with a tensor of each type */
#define MOST (COUNT * 29)

TestSuite(moved, .timeout = 60);

static const int types[] = { COHORT_BOOL, COHORT_I16, COHORT_U16, COHORT_C64,
	                     COHORT_C128 };

SPREAD_SHARED static struct {
	unsigned char send[RANKS * MOST], recv[RANKS * MOST];
} memory[RANKS];

/* Return byte @i of the data that rank @from sends. */
static unsigned char value(int from, size_t i)
{
	return (unsigned char)(251 * (unsigned)from + 7 * i + 1);
}

static void fill(int rank)
{
	size_t i;

	for (i = 0; i < sizeof(memory->send); i++)
		memory[rank].send[i] = value(rank, i);
	memset(memory[rank].recv, 0, sizeof(memory->recv));
}

/* Check that the @block-th block that @rank received equals the @at-th block of
 * rank @from's data. A block has @bytes bytes. */
static void check_block(int rank, int block, int from, int at, size_t bytes)
{
	const unsigned char *got = memory[rank].recv + (size_t)block * bytes;
	size_t i;

	for (i = 0; i < bytes; i++)
		cr_assert_eq(got[i], value(from, (size_t)at * bytes + i),
		             "rank %d, block %d, byte %zu of %zu: %d", rank,
		             block, i, bytes, got[i]);
}

static void await(struct cohort_comm *c)
{
	ranks_must(cohort_synchronize(c, RANKS_SOON), "synchronize");
}

/* ---- calls that move elements ----------------------------------------- */

static void check_blocks(int rank, int at, size_t bytes)
{
	int r;

	for (r = 0; r < RANKS; r++)
		check_block(rank, r, r, at, bytes);
	fill(rank);
}

static void move_to_all(struct cohort_comm *c, int type, bool host)
{
	void *stream = cohort_comm_stream(c);
	const int rank = cohort_comm_rank(c);
	const size_t bytes = COUNT * cohort_type_size(type);
	unsigned char *send = memory[rank].send, *recv = memory[rank].recv;

	if (host && rank == ROOT)
		memcpy(recv, send, bytes);
	ranks_must(host ? cohort_broadcast_host(c, recv, COUNT, type, ROOT,
	                                        RANKS_SOON)
	                : cohort_broadcast(c, send, recv, COUNT, type, ROOT,
	                                   stream, NULL),
	           "broadcast");
	await(c);
	check_block(rank, 0, ROOT, 0, bytes);
	fill(rank);
	ranks_must(host ? cohort_all_gather_host(c, send, recv, COUNT, type,
	                                         RANKS_SOON)
	                : cohort_all_gather(c, send, recv, COUNT, type, stream,
	                                    NULL),
	           "all_gather");
	await(c);
	check_blocks(rank, 0, bytes);
	ranks_must(host ? cohort_all_to_all_host(c, send, recv, COUNT, type,
	                                         RANKS_SOON)
	                : cohort_all_to_all(c, send, recv, COUNT, type, stream,
	                                    NULL),
	           "all_to_all");
	await(c);
	check_blocks(rank, rank, bytes);
}

static void move_with_root(struct cohort_comm *c, int type, bool host)
{
	void *stream = cohort_comm_stream(c);
	const int rank = cohort_comm_rank(c);
	const size_t bytes = COUNT * cohort_type_size(type);
	unsigned char *send = memory[rank].send, *recv = memory[rank].recv;

	ranks_must(host ? cohort_gather_host(c, send, recv, COUNT, type, ROOT,
	                                     RANKS_SOON)
	                : cohort_gather(c, send, recv, COUNT, type, ROOT,
	                                stream, NULL),
	           "gather");
	await(c);
	if (rank == ROOT)
		check_blocks(rank, 0, bytes);
	ranks_must(host ? cohort_scatter_host(c, send, recv, COUNT, type, ROOT,
	                                      RANKS_SOON)
	                : cohort_scatter(c, send, recv, COUNT, type, ROOT,
	                                 stream, NULL),
	           "scatter");
	await(c);
	check_block(rank, 0, ROOT, rank, bytes);
	fill(rank);
}

/* Send from rank 0 to rank 1. Rank 2's next call allocates host memory, which
 * must not happen between the launches of the send and its receive, so a
 * barrier follows. */
static void move_by_message(struct cohort_comm *c, int type, bool host)
{
	void *stream = cohort_comm_stream(c);
	const int rank = cohort_comm_rank(c);
	unsigned char *send = memory[rank].send, *recv = memory[rank].recv;

	if (rank == 0)
		ranks_must(host ? cohort_send_host(c, send, COUNT, type, 1,
		                                   RANKS_SOON)
		                : cohort_send(c, send, COUNT, type, 1, stream,
		                              NULL),
		           "send");
	if (rank == 1)
		ranks_must(host ? cohort_recv_host(c, recv, COUNT, type, 0,
		                                   RANKS_SOON)
		                : cohort_recv(c, recv, COUNT, type, 0, stream,
		                              NULL),
		           "recv");
	ranks_must(cohort_barrier(c, stream, NULL), "barrier");
	await(c);
	if (rank == 1)
		check_block(rank, 0, 0, 0, COUNT * cohort_type_size(type));
	fill(rank);
}

/* Broadcast a list with a tensor of each type. */
static void move_lists(struct cohort_comm *c)
{
	enum { N = sizeof(types) / sizeof(types[0]) };
	void *stream = cohort_comm_stream(c);
	const int rank = cohort_comm_rank(c);
	unsigned char *send = memory[rank].send, *recv = memory[rank].recv;
	struct cohort_tensor list[N];
	size_t i, at[N + 1] = { 0 };

	for (i = 0; i < N; i++) {
		list[i] = (struct cohort_tensor){ send + at[i], recv + at[i],
			                          COUNT, types[i] };
		at[i + 1] = at[i] + COUNT * cohort_type_size(types[i]);
	}
	ranks_must(cohort_broadcast_many(c, list, N, ROOT, stream, NULL),
	           "broadcast_many");
	await(c);
	check_block(rank, 0, ROOT, 0, at[N]);
}

static int move_all(struct cohort_comm *c, void *user)
{
	size_t i;

	(void)user;
	fill(cohort_comm_rank(c));
	for (i = 0; i < 2 * sizeof(types) / sizeof(types[0]); i++) {
		move_to_all(c, types[i / 2], i % 2);
		move_with_root(c, types[i / 2], i % 2);
		move_by_message(c, types[i / 2], i % 2);
	}
	move_lists(c);
	return 0;
}

static void move_in_group(const struct cohort_group_options *options)
{
	struct cohort_group *group = ranks_open(RANKS, options);

	expect_run_in(group, move_all, NULL);
	expect_close(group);
}

Test(moved, calls_that_only_copy_accept_types_without_arithmetic)
{
	move_in_group(NULL);
}

Test(moved, packed_lists_move_elements_of_types_without_arithmetic)
{
	struct cohort_group_options options;

	cohort_group_options_init(&options);
	options.many = COHORT_MANY_FLAT;
	move_in_group(&options);
}

/* ---- calls that reduce ------------------------------------------------ */

static void expect_refusal(int rc, const char *what)
{
	cr_expect_eq(rc, COHORT_INVALID, "%s: %d", what, rc);
	cr_expect_not_null(strstr(cohort_last_error(), what), "%s: %s", what,
	                   cohort_last_error());
	cr_expect_not_null(strstr(cohort_last_error(),
	                          "which cannot be reduced, only moved"),
	                   "%s: %s", what, cohort_last_error());
}

Test(moved, reductions_of_types_without_arithmetic_are_refused)
{
	static unsigned char data[RANKS * MOST];
	struct cohort_comm *comms[1], *c;
	struct cohort_group *group = ranks_split(1, NULL, comms);
	struct cohort_reducer *reducer = NULL;
	char what[64];
	int op;

	c = comms[0];
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		const int type = types[i];
		const struct cohort_tensor tensors[] = {
			{ data, data, COUNT, COHORT_F32 },
			{ data, data, COUNT, type },
		};
		const struct cohort_parameter parameter = { .count = COUNT,
			                                    .type = type };

		snprintf(what, sizeof(what), "all_reduce: type is %s",
		         cohort_type_name(type));
		expect_refusal(cohort_all_reduce(c, data, data, COUNT, type,
		                                 COHORT_SUM, NULL, NULL),
		               what);
		expect_refusal(cohort_reduce(c, data, data, COUNT, type,
		                             COHORT_MAX, 0, NULL, NULL),
		               "reduce: type is");
		expect_refusal(cohort_reduce_scatter(c, data, data, COUNT, type,
		                                     COHORT_MIN, NULL, NULL),
		               "reduce_scatter: type is");
		expect_refusal(cohort_all_reduce_many(c, tensors, 2, COHORT_SUM,
		                                      NULL, NULL),
		               "all_reduce: tensors[1].type is");
		expect_refusal(cohort_all_reduce_host(c, data, COUNT, type,
		                                      COHORT_SUM, RANKS_SOON),
		               "all_reduce_host: type is");
		expect_refusal(cohort_premul_sum_create(
				       c, data, type, COHORT_SCALAR_HOST, &op),
		               "premul_sum_create: type is");
		expect_refusal(cohort_reducer_create(c, &parameter, 1, NULL,
		                                     &reducer),
		               "parameters[0].type is");
	}
	expect_close(group);
}

/* ---- ranks that differ ------------------------------------------------ */

static int differ_in_collective(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);
	uint64_t ticket;
	int rc = cohort_all_gather(c, memory[rank].send, memory[rank].recv,
	                           COUNT, rank ? COHORT_U8 : COHORT_BOOL,
	                           cohort_comm_stream(c), &ticket);

	(void)user;
	return rc == COHORT_OK ? cohort_wait(c, ticket, RANKS_SOON) : rc;
}

static int differ_in_message(struct cohort_comm *c, void *user)
{
	const int rank = cohort_comm_rank(c);
	uint64_t ticket = 0;
	int rc;

	(void)user;
	if (rank > 1)
		return COHORT_OK;
	rc = rank ? cohort_recv(c, memory[rank].recv, COUNT, COHORT_C64, 0,
	                        cohort_comm_stream(c), &ticket)
	          : cohort_send(c, memory[rank].send, COUNT, COHORT_F64, 1,
	                        cohort_comm_stream(c), &ticket);
	return rc == COHORT_OK ? cohort_wait(c, ticket, RANKS_SOON) : rc;
}

/* Check that @worker ends its group with a mismatch that names both types. */
static void expect_mismatch(cohort_worker_fn worker, const char *one,
                            const char *other)
{
	struct cohort_group *group = ranks_open(RANKS, NULL);
	struct cohort_cause cause;

	cause = expect_end_of_run(group, worker, NULL, COHORT_MISMATCH);
	expect_text(cause.text, one);
	expect_text(cause.text, other);
	expect_close(group);
}

Test(moved, ranks_with_different_types_of_equal_size_are_a_mismatch)
{
	expect_mismatch(differ_in_collective, "5 bool", "5 uint8");
}

Test(moved, messages_of_different_types_of_equal_size_are_a_mismatch)
{
	spread_not("messages between processes are not compared");
	expect_mismatch(differ_in_message, "5 complex64", "5 float64");
}
