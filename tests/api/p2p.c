/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of gather, scatter, all-to-all, sends and receives: their results, with
 * and without NCCL's own functions, and the verdicts if they do not finish
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>

#include "support/clock.h"
#include "support/expect.h"
#include "support/ranks.h"
#include "support/spread.h"
#include "support/verdicts.h"

#define RANKS 4
#define COUNT 3

TestSuite(p2p, .timeout = 60);

static void await(struct cohort_comm *c)
{
	ranks_must(cohort_synchronize(c, RANKS_SOON), "synchronize");
}

/* ---- results ---------------------------------------------------------- */

SPREAD_SHARED static struct {
	int32_t send[RANKS * COUNT], recv[RANKS * COUNT];
} memory[RANKS];

/* Return element @i of the block that rank @from sends to rank @to. */
static int32_t value(int from, int to, int i)
{
	return 100 * from + 10 * to + i;
}

static void fill(int rank)
{
	int i;

	for (i = 0; i < RANKS * COUNT; i++) {
		memory[rank].send[i] = value(rank, i / COUNT, i % COUNT);
		memory[rank].recv[i] = -1;
	}
}

/* Check that block @block that @rank received is the block that rank @from sent
 * to rank @to. */
static void check_block(int rank, int block, int from, int to)
{
	const int32_t *got = &memory[rank].recv[block * COUNT];
	int i;

	for (i = 0; i < COUNT; i++)
		cr_assert_eq(got[i], from < 0 ? -1 : value(from, to, i),
		             "rank %d, block %d, element %d: %d", rank, block,
		             i, got[i]);
}

static int spread(struct cohort_comm *c, void *user)
{
	void *stream = cohort_comm_stream(c);
	int r, rank = cohort_comm_rank(c);
	int32_t *send = memory[rank].send, *recv = memory[rank].recv;

	(void)user;
	fill(rank);
	ranks_must(cohort_gather(c, send, recv, COUNT, COHORT_I32, 2, stream,
	                         NULL),
	           "gather");
	await(c);
	for (r = 0; r < RANKS; r++)
		check_block(rank, r, rank == 2 ? r : -1, 0);
	fill(rank);
	ranks_must(cohort_scatter(c, send, recv, COUNT, COHORT_I32, 1, stream,
	                          NULL),
	           "scatter");
	await(c);
	check_block(rank, 0, 1, rank);
	check_block(rank, 1, -1, 0);
	fill(rank);
	ranks_must(cohort_all_to_all(c, send, recv, COUNT, COHORT_I32, stream,
	                             NULL),
	           "all_to_all");
	await(c);
	for (r = 0; r < RANKS; r++)
		check_block(rank, r, r, rank);
	/* A call with a count of 0 needs no buffers. */
	ranks_must(cohort_gather(c, NULL, NULL, 0, COHORT_I32, 2, stream, NULL),
	           "gather");
	ranks_must(cohort_scatter(c, NULL, NULL, 0, COHORT_I32, 2, stream,
	                          NULL),
	           "scatter");
	ranks_must(cohort_all_to_all(c, NULL, NULL, 0, COHORT_I32, stream,
	                             NULL),
	           "all_to_all");
	await(c);
	return 0;
}

Test(p2p, gather_scatter_and_all_to_all_deliver_the_right_blocks)
{
	expect_run(RANKS, spread, NULL);
}

/* Gather and scatter in place. Blocks in the root's buffer are in rank
 * order. */
static int in_place(struct cohort_comm *c, void *user)
{
	void *stream = cohort_comm_stream(c);
	int r, i, rank = cohort_comm_rank(c);
	int32_t *all = memory[rank].recv, *own = all + (size_t)rank * COUNT;

	(void)user;
	fill(rank);
	for (i = 0; i < COUNT; i++)
		own[i] = value(rank, 0, i);
	ranks_must(cohort_gather(c, own, all, COUNT, COHORT_I32, 0, stream,
	                         NULL),
	           "gather");
	await(c);
	for (r = 0; rank == 0 && r < RANKS; r++)
		check_block(rank, r, r, 0);
	/* The scatter returns to each rank the block that it gave to the
	 * gather. */
	ranks_must(cohort_scatter(c, all, own, COUNT, COHORT_I32, 0, stream,
	                          NULL),
	           "scatter");
	await(c);
	check_block(rank, rank, rank, 0);
	return 0;
}

Test(p2p, gather_and_scatter_work_in_place)
{
	expect_run(RANKS, in_place, NULL);
}

/* Hide ncclGather, ncclScatter and ncclAlltoAll, which older versions of NCCL
 * lack. */
static void without_spreading(void)
{
	static struct platform old;
	static bool lacks[FUNCTIONS];

	old = *place_table();
	lacks[FUNCTION_ncclGather] = true;
	lacks[FUNCTION_ncclScatter] = true;
	lacks[FUNCTION_ncclAlltoAll] = true;
	old.lacks = lacks;
	old.ncclGather = NULL;
	old.ncclScatter = NULL;
	old.ncclAlltoAll = NULL;
	platform_override(&old);
}

static int spread_in_a_batch(struct cohort_comm *c, void *user)
{
	int r, rank = cohort_comm_rank(c);
	int32_t *send = memory[rank].send, *recv = memory[rank].recv;
	int32_t sum = 1;

	(void)user;
	fill(rank);
	ranks_must(cohort_batch_begin(c), "batch");
	ranks_must(cohort_all_to_all(c, send, recv, COUNT, COHORT_I32, NULL,
	                             NULL),
	           "all_to_all");
	ranks_must(cohort_all_reduce(c, &sum, &sum, 1, COHORT_I32, COHORT_SUM,
	                             NULL, NULL),
	           "sum");
	ranks_must(cohort_batch_end(c, cohort_comm_stream(c), NULL), "batch");
	await(c);
	for (r = 0; r < RANKS; r++)
		check_block(rank, r, r, rank);
	cr_assert_eq(sum, RANKS);
	return 0;
}

Test(p2p, gather_scatter_and_all_to_all_work_without_nccls_functions)
{
	without_spreading();
	expect_run(RANKS, spread, NULL);
	expect_run(RANKS, in_place, NULL);
	expect_run(RANKS, spread_in_a_batch, NULL);
}

Test(p2p, gather_scatter_and_all_to_all_work_in_a_batch)
{
	expect_run(RANKS, spread_in_a_batch, NULL);
}

/*
 * Queue the calls in a different order on each of the first two ranks. Which
 * receive gets a block or a message must not depend on the order.
 */
static int send_beside_spread(struct cohort_comm *c, void *user)
{
	int rank = cohort_comm_rank(c);
	int32_t send[RANKS], recv[RANKS], more = rank ? -1 : 77, r;

	(void)user;
	for (r = 0; r < RANKS; r++)
		send[r] = value(rank, r, 0);
	ranks_must(cohort_batch_begin(c), "batch");
	if (rank == 1)
		ranks_must(cohort_recv(c, &more, 1, COHORT_I32, 0, NULL, NULL),
		           "recv");
	ranks_must(cohort_all_to_all(c, send, recv, 1, COHORT_I32, NULL, NULL),
	           "all_to_all");
	if (rank == 0)
		ranks_must(cohort_send(c, &more, 1, COHORT_I32, 1, NULL, NULL),
		           "send");
	ranks_must(cohort_batch_end(c, cohort_comm_stream(c), NULL), "batch");
	await(c);
	for (r = 0; r < RANKS; r++)
		cr_assert_eq(recv[r], value(r, rank, 0));
	cr_assert_eq(more, rank > 1 ? -1 : 77);
	return 0;
}

Test(p2p, all_to_all_does_not_receive_messages_of_its_batch)
{
	expect_run(RANKS, send_beside_spread, NULL);
	without_spreading();
	expect_run(RANKS, send_beside_spread, NULL);
}

/* Send around a ring in one batch. Then make two transfers, which must be
 * matched in the order of the calls. */
static int ring(struct cohort_comm *c, void *user)
{
	int rank = cohort_comm_rank(c);
	int next = (rank + 1) % RANKS, before = (rank + RANKS - 1) % RANKS;
	void *stream = cohort_comm_stream(c);
	int32_t mine = rank, got[2] = { -1, -1 };
	uint64_t ticket;

	(void)user;
	ranks_must(cohort_batch_begin(c), "batch");
	ranks_must(cohort_send(c, &mine, 1, COHORT_I32, next, NULL, NULL),
	           "send");
	ranks_must(cohort_recv(c, got, 1, COHORT_I32, before, NULL, NULL),
	           "recv");
	ranks_must(cohort_batch_end(c, stream, &ticket), "batch");
	ranks_must(cohort_wait(c, ticket, RANKS_SOON), "wait");
	cr_assert_eq(got[0], before);
	if (rank % 2) {
		ranks_must(cohort_recv(c, &got[0], 1, COHORT_I32, before,
		                       stream, NULL),
		           "recv");
		ranks_must(cohort_recv(c, &got[1], 1, COHORT_I32, before,
		                       stream, &ticket),
		           "recv");
		ranks_must(cohort_wait(c, ticket, RANKS_SOON), "wait");
		cr_assert_eq(got[0], before);
		cr_assert_eq(got[1], before + 50);
	} else {
		int32_t other = rank + 50;

		ranks_must(cohort_send(c, &mine, 1, COHORT_I32, next, stream,
		                       NULL),
		           "send");
		ranks_must(cohort_send(c, &other, 1, COHORT_I32, next, stream,
		                       &ticket),
		           "send");
		ranks_must(cohort_wait(c, ticket, RANKS_SOON), "wait");
	}
	return 0;
}

Test(p2p, sends_and_receives_match_in_order)
{
	expect_run(RANKS, ring, NULL);
}

static int to_itself(struct cohort_comm *c, void *user)
{
	int rank = cohort_comm_rank(c);
	int32_t mine = rank + 5, got = -1;

	(void)user;
	expect(cohort_send(c, &mine, 1, COHORT_I32, rank, NULL, NULL),
	       COHORT_INVALID, "which is this rank: allowed only in a batch");
	ranks_must(cohort_batch_begin(c), "batch");
	ranks_must(cohort_recv(c, &got, 1, COHORT_I32, rank, NULL, NULL),
	           "recv");
	ranks_must(cohort_send(c, &mine, 1, COHORT_I32, rank, NULL, NULL),
	           "send");
	ranks_must(cohort_batch_end(c, NULL, NULL), "batch");
	await(c);
	cr_assert_eq(got, rank + 5);
	ranks_must(cohort_batch_begin(c), "batch");
	ranks_must(cohort_recv(c, &got, 1, COHORT_I32, rank, NULL, NULL),
	           "recv");
	expect(cohort_batch_end(c, NULL, NULL), COHORT_INVALID,
	       "the batch has no matching send");
	return 0;
}

Test(p2p, rank_may_send_to_itself_in_a_batch)
{
	expect_run(RANKS, to_itself, NULL);
}

Test(p2p, send_of_count_0_waits_for_its_receive)
{
	struct cohort_comm *c[2];
	struct cohort_group *group = ranks_split(2, NULL, c);
	uint64_t ticket;

	place_need_order();
	place_skip_on_nvidia("small messages are done without a receive");
	ranks_must(cohort_send(c[0], NULL, 0, COHORT_I32, 1,
	                       cohort_comm_stream(c[0]), &ticket),
	           "send");
	cr_assert_eq(cohort_wait(c[0], ticket, 2 * 1000 * 1000),
	             COHORT_TIMED_OUT);
	ranks_must(cohort_recv(c[1], NULL, 0, COHORT_I32, 0,
	                       cohort_comm_stream(c[1]), NULL),
	           "recv");
	cr_assert_eq(cohort_wait(c[0], ticket, RANKS_SOON), COHORT_OK);
	expect_close(group);
}

/* ---- arguments -------------------------------------------------------- */

Test(p2p, message_calls_name_the_invalid_argument_and_its_value)
{
	struct cohort_comm *c[2];
	struct cohort_group *group = ranks_ahead(2, NULL, c);
	int32_t x[4] = { 0 };
	uint64_t ticket = 77;

	expect(cohort_send(c[0], x, 1, COHORT_I32, 2, NULL, &ticket),
	       COHORT_INVALID, "send: peer is 2");
	expect(cohort_recv(c[0], x, 1, COHORT_I32, -1, NULL, &ticket),
	       COHORT_INVALID, "recv: peer is -1");
	expect(cohort_send(c[0], NULL, 1, COHORT_I32, 1, NULL, &ticket),
	       COHORT_INVALID, "send: send is NULL");
	expect(cohort_recv(c[0], NULL, 1, COHORT_I32, 1, NULL, &ticket),
	       COHORT_INVALID, "recv: recv is NULL");
	expect(cohort_send(c[0], x, 1, 12, 1, NULL, &ticket), COHORT_INVALID,
	       "send: type is 12");
	expect(cohort_gather(c[0], x, x, 1, COHORT_I32, 2, NULL, &ticket),
	       COHORT_INVALID, "gather: root is 2");
	expect(cohort_scatter(c[0], NULL, x, 1, COHORT_I32, 0, NULL, &ticket),
	       COHORT_INVALID, "scatter: send is NULL");
	expect(cohort_all_to_all(c[0], x, x + 1, 1, COHORT_I32, NULL, &ticket),
	       COHORT_INVALID, "overlap");
	expect(cohort_all_to_all(c[0], x, x + 2, SIZE_MAX / 8, COHORT_I32, NULL,
	                         &ticket),
	       COHORT_INVALID, "count is");
	expect(cohort_send(NULL, x, 1, COHORT_I32, 1, NULL, &ticket),
	       COHORT_INVALID, "comm is NULL");
	cr_assert_eq(ticket, 77);
	ranks_must(cohort_barrier(c[0], NULL, NULL), "barrier");
	ranks_must(cohort_barrier(c[1], NULL, NULL), "barrier");
	expect_close(group);
}

/* ---- ranks that make different calls ------------------------------------- */

static int odd_call(struct cohort_comm *c, void *user)
{
	int what = *(const int *)user, rank = cohort_comm_rank(c);
	int32_t *send = memory[rank].send, *recv = memory[rank].recv;
	size_t count = what == 0 && rank == 1 ? 2 : COUNT;
	int root = what == 1 && rank == 1, rc;

	if (what == 2 && rank == 1)
		rc = cohort_scatter(c, send, recv, count, COHORT_I32, 0, NULL,
		                    NULL);
	else if (what == 3 && rank != 1)
		rc = cohort_all_to_all(c, send, recv, count, COHORT_I32, NULL,
		                       NULL);
	else
		rc = cohort_gather(c, send, recv, count,
		                   what == 4 && rank == 1 ? COHORT_F32
		                                          : COHORT_I32,
		                   root, NULL, NULL);
	return rc == COHORT_OK ? cohort_synchronize(c, RANKS_SOON) : rc;
}

static void differ(int what, const char *text)
{
	struct cohort_group *group = ranks_open(RANKS, NULL);
	struct cohort_cause cause;

	cause = expect_end_of_run(group, odd_call, &what, COHORT_MISMATCH);
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	expect_text(cause.text, text);
	expect_close(group);
}

Test(p2p, mismatch_of_gather_and_all_to_all_calls_is_found)
{
	differ(0, "rank 1 calls gather of 2 int32, root 0");
	differ(1, "rank 1 calls gather of 3 int32, root 1");
	differ(2, "rank 1 calls scatter of 3 int32, root 0");
	differ(3, "ranks 0, 2-3 call all_to_all of 3 int32");
	differ(4, "rank 1 calls gather of 3 float32, root 0");
}

/* ---- sends and receives that do not match ------------------------------- */

#define PAIR 2
#define MOST_MESSAGES 300
#define UNTOUCHED 77

/* A message from rank 0 to rank 1, as one of the two ranks passes it */
struct message {
	size_t count;
	int type;
	bool from_host;
};

/* A sequence of messages, of which the last one differs between the ranks */
struct misfit {
	struct message calls[PAIR][MOST_MESSAGES];
	int n;
	int first;     /* rank that calls first, or -1 if both call together */
	bool in_batch; /* each rank makes all messages in one batch */
	bool with_sum; /* the batch also contains a sum */
	int results[PAIR];
	struct cohort_cause cause;
};

SPREAD_SHARED static struct spread_barrier step;
static int32_t outbox[MOST_MESSAGES][200], inbox[MOST_MESSAGES][200];

static int call_one(struct cohort_comm *c, const struct message *m, int i)
{
	const bool sends = cohort_comm_rank(c) == 0;

	if (m->from_host)
		return sends ? cohort_send_host(c, outbox[i], m->count, m->type,
		                                1, RANKS_SOON)
		             : cohort_recv_host(c, inbox[i], m->count, m->type,
		                                0, RANKS_SOON);
	return sends ? cohort_send(c, outbox[i], m->count, m->type, 1, NULL,
	                           NULL)
	             : cohort_recv(c, inbox[i], m->count, m->type, 0, NULL,
	                           NULL);
}

static int call_messages(struct cohort_comm *c, const struct misfit *m)
{
	static int32_t sums[PAIR];
	const int rank = cohort_comm_rank(c);
	int i, rc = m->in_batch ? cohort_batch_begin(c) : COHORT_OK;

	for (i = 0; i < m->n && rc == COHORT_OK; i++)
		rc = call_one(c, &m->calls[rank][i], i);
	if (rc == COHORT_OK && m->with_sum)
		rc = cohort_all_reduce(c, &sums[rank], &sums[rank], 1,
		                       COHORT_I32, COHORT_SUM, NULL, NULL);
	return rc == COHORT_OK && m->in_batch ? cohort_batch_end(c, NULL, NULL)
	                                      : rc;
}

/* Connect the ranks, so that no later message waits inside its call. */
static void connect_pair(struct cohort_comm *c)
{
	int32_t x = 0;

	ranks_must(cohort_comm_rank(c)
	                   ? cohort_recv(c, &x, 1, COHORT_I32, 0, NULL, NULL)
	                   : cohort_send(c, &x, 1, COHORT_I32, 1, NULL, NULL),
	           "message");
	await(c);
}

static int call_misfit(struct cohort_comm *c, void *user)
{
	struct misfit *m = user;
	const int rank = cohort_comm_rank(c);
	int rc;

	connect_pair(c);
	ranks_must(cohort_tag(c, rank ? NULL : "step 7"), "tag");
	if (m->first >= 0 && rank != m->first)
		spread_wait(&step, PAIR);
	rc = call_messages(c, m);
	if (rank == m->first)
		spread_wait(&step, PAIR);
	/* The second rank to call detects the mismatch before it launches. */
	if (m->first >= 0 && rank != m->first)
		cr_assert_eq(rc, COHORT_MISMATCH, "rank %d: %s", rank,
		             cohort_last_error());
	m->results[rank] =
		rc == COHORT_OK ? cohort_synchronize(c, RANKS_SOON) : rc;
	return m->results[rank];
}

/* Run @m, and check that the group ends with the cause @text. */
static void misfit(struct misfit *m, const char *text)
{
	struct cohort_group *group;
	int r;

	step = (struct spread_barrier){ 0 };
	memset(inbox, UNTOUCHED, sizeof(inbox));
	group = ranks_open(PAIR, NULL);
	cr_assert_eq(cohort_group_run(group, call_misfit, m, &m->cause),
	             COHORT_MISMATCH, "%s", cohort_last_error());
	for (r = 0; r < PAIR; r++)
		/* NVIDIA's NCCL buffers small messages, so rank 0's may be
		 * done. */
		cr_assert(m->results[r] == COHORT_MISMATCH ||
		                  (r == 0 && m->results[r] == COHORT_OK &&
		                   place_is_nvidia()),
		          "rank %d: %d", r, m->results[r]);
	cr_assert_str_eq(m->cause.text, text);
	cr_assert_eq(m->cause.status, COHORT_MISMATCH);
	cr_assert_eq(m->cause.kind, COHORT_VERDICT_DIFFERENT_CALL);
	cr_assert_eq(m->cause.rank, -1);
	cr_assert_eq(m->cause.joined[0], 3);
	cr_assert_eq(m->cause.missing[0], 0);
	expect_close(group);
}

/* Run one message that rank 0 passes as @send and rank 1 as @recv, in both
 * orders of the calls. */
static void misfit_of(struct message send, struct message recv,
                      const char *send_text, const char *recv_text)
{
	struct misfit m = { .calls = { { send }, { recv } }, .n = 1 };
	char text[300];

	snprintf(text, sizeof(text),
	         "message 2 from rank 0 to rank 1 differs: rank 0 calls %s to "
	         "rank 1 (ticket 2, tag \"step 7\"); rank 1 calls %s from "
	         "rank 0 (ticket 2)",
	         send_text, recv_text);
	for (m.first = 0; m.first < PAIR; m.first++)
		misfit(&m, text);
	cr_assert_eq(inbox[0][0] & 0xff, UNTOUCHED, "a message was received");
}

static void need_one_process(void)
{
	spread_not("messages between processes are not compared");
}

Test(p2p, send_and_recv_of_different_counts_are_a_mismatch,
     .init = need_one_process)
{
	misfit_of((struct message){ 100, COHORT_I32, false },
	          (struct message){ 200, COHORT_I32, false },
	          "send of 100 int32", "recv of 200 int32");
	misfit_of((struct message){ 200, COHORT_I32, false },
	          (struct message){ 100, COHORT_I32, false },
	          "send of 200 int32", "recv of 100 int32");
	misfit_of((struct message){ 0, COHORT_I32, false },
	          (struct message){ 1, COHORT_I32, false }, "send of 0 int32",
	          "recv of 1 int32");
}

Test(p2p, send_and_recv_of_different_types_are_a_mismatch,
     .init = need_one_process)
{
	misfit_of((struct message){ 100, COHORT_I32, false },
	          (struct message){ 100, COHORT_F32, false },
	          "send of 100 int32", "recv of 100 float32");
	/* The types differ, but the sizes in bytes do not. */
	misfit_of((struct message){ 100, COHORT_F32, false },
	          (struct message){ 400, COHORT_U8, false },
	          "send of 100 float32", "recv of 400 uint8");
}

Test(p2p, host_memory_send_and_device_memory_recv_are_a_mismatch,
     .init = need_one_process)
{
	struct misfit m = {
		.calls = { { { 100, COHORT_I32, true } },
		           { { 100, COHORT_I32, false } } },
		.n = 1,
		.first = -1,
	};

	place_need_no_sync("staging memory waits for the receive");
	misfit(&m, "message 2 from rank 0 to rank 1 differs: rank 0 calls "
	           "send_host of 100 int32 to rank 1 (ticket 2, tag \"step "
	           "7\"); rank 1 calls recv of 100 int32 from rank 0 (ticket "
	           "2)");
}

/* Make the last of @n messages differ between the ranks. */
static void differ_at_the_end(struct misfit *m, int n)
{
	int r, i;

	m->n = n;
	for (r = 0; r < PAIR; r++)
		for (i = 0; i < n; i++)
			m->calls[r][i] = (struct message){ 1 + (size_t)i % 100,
				                           COHORT_I32, false };
	m->calls[1][n - 1].count = 101;
}

Test(p2p, each_message_in_flight_is_compared_with_its_counterpart,
     .init = need_one_process)
{
	static struct misfit m;
	int i;

	differ_at_the_end(&m, 40);
	for (m.first = 0; m.first < PAIR; m.first++) {
		for (i = 0; i < m.n; i++)
			outbox[i][0] = i;
		misfit(&m, "message 41 from rank 0 to rank 1 differs: rank 0 "
		           "calls send of 40 int32 to rank 1 (ticket 41, tag "
		           "\"step 7\"); rank 1 calls recv of 101 int32 from "
		           "rank 0 (ticket 41)");
		cr_assert(inbox[39][0] != 39, "the misfit was received");
	}
}

Test(p2p, mismatch_is_found_in_a_batch_of_300_messages,
     .init = need_one_process)
{
	static struct misfit m = { .in_batch = true };
	int i;

	differ_at_the_end(&m, MOST_MESSAGES);
	for (m.first = 0; m.first < PAIR; m.first++) {
		misfit(&m,
		       "message 301 from rank 0 to rank 1 differs: rank 0 "
		       "calls send of 100 int32 to rank 1 (ticket 2, a "
		       "batch of 300 calls, tag \"step 7\"); rank 1 calls "
		       "recv of 101 int32 from rank 0 (ticket 2, a batch of "
		       "300 calls)");
		for (i = 0; i < MOST_MESSAGES; i++)
			cr_assert_eq(inbox[i][0] & 0xff, UNTOUCHED,
			             "message %d of the batch was received", i);
	}
}

Test(p2p, mismatched_message_ends_the_wait_for_its_batch,
     .init = need_one_process)
{
	static struct misfit m = { .in_batch = true, .with_sum = true };

	m.first = -1;
	differ_at_the_end(&m, 2);
	misfit(&m, "message 3 from rank 0 to rank 1 differs: rank 0 calls send "
	           "of 2 int32 to rank 1 (ticket 2, a batch of 3 calls, tag "
	           "\"step 7\"); rank 1 calls recv of 101 int32 from rank 0 "
	           "(ticket 2, a batch of 3 calls)");
}

Test(p2p, mismatch_of_racing_send_and_recv_is_found, .init = need_one_process)
{
	struct misfit m = {
		.calls = { { { 1, COHORT_I32, false } },
		           { { 2, COHORT_I32, false } } },
		.n = 1,
		.first = -1,
	};
	int i;

	for (i = 0; i < place_times(30); i++)
		misfit(&m,
		       "message 2 from rank 0 to rank 1 differs: rank 0 "
		       "calls send of 1 int32 to rank 1 (ticket 2, tag "
		       "\"step 7\"); rank 1 calls recv of 2 int32 from rank "
		       "0 (ticket 2)");
}

/* Exchange messages of different sizes between all ranks. The size that rank 2
 * expects from rank 1 differs from the size that rank 1 sends. */
static int odd_all_to_all(struct cohort_comm *c, void *user)
{
	static int32_t send[RANKS][RANKS][20], recv[RANKS][RANKS][20];
	int peer, i, rank = cohort_comm_rank(c), rc;

	(void)user;
	memset(recv[rank], UNTOUCHED, sizeof(recv[rank]));
	rc = cohort_batch_begin(c);
	for (peer = 0; peer < RANKS && rc == COHORT_OK; peer++) {
		rc = cohort_send(c, send[rank][peer], (size_t)(4 * rank + peer),
		                 COHORT_I32, peer, NULL, NULL);
		if (rc == COHORT_OK)
			rc = cohort_recv(c, recv[rank][peer],
			                 (size_t)(4 * peer + rank +
			                          (rank == 2 && peer == 1)),
			                 COHORT_I32, peer, NULL, NULL);
	}
	if (rc == COHORT_OK)
		rc = cohort_batch_end(c, NULL, NULL);
	if (rc == COHORT_OK)
		rc = cohort_synchronize(c, RANKS_SOON);
	for (i = 0; rank == 2 && i < 20; i++)
		cr_assert_eq(recv[2][1][i] & 0xff, UNTOUCHED,
		             "the misfit was received");
	return rc;
}

Test(p2p, all_to_all_of_mismatched_messages_is_a_mismatch,
     .init = need_one_process)
{
	struct cohort_group *group = ranks_open(RANKS, NULL);
	struct cohort_cause cause;

	cause = expect_end_of_run(group, odd_all_to_all, NULL, COHORT_MISMATCH);
	cr_assert_str_eq(
		cause.text,
		"message 1 from rank 1 to rank 2 differs: rank 1 "
		"calls send of 6 int32 to rank 2 (ticket 1, a batch of "
		"8 calls); rank 2 calls recv of 7 int32 from rank 1 "
		"(ticket 1, a batch of 8 calls)");
	expect_close(group);
}

/* Make a native send in place of a send of the library. Then the library's call
 * numbers no longer show which send pairs with which receive. */
static int native_first(struct cohort_comm *c, void *user)
{
	const struct platform *p = place_table();
	int32_t x[2] = { 0 };
	void *native;

	(void)user;
	connect_pair(c);
	if (cohort_comm_rank(c) == 0) {
		ranks_must(cohort_comm_native_enter(c, &native), "enter");
		cr_assert_eq(p->ncclSend(x, 1, ncclInt32, 1, native,
		                         cohort_comm_stream(c)),
		             ncclSuccess);
		ranks_must(cohort_comm_native_leave(c), "leave");
		ranks_must(cohort_send(c, x, 2, COHORT_I32, 1, NULL, NULL),
		           "send");
	} else {
		ranks_must(cohort_recv(c, x, 1, COHORT_I32, 0, NULL, NULL),
		           "recv");
		ranks_must(cohort_recv(c, x, 2, COHORT_I32, 0, NULL, NULL),
		           "recv");
	}
	await(c);
	return 0;
}

Test(p2p, messages_are_not_compared_after_native_calls)
{
	struct cohort_group *group = ranks_open(PAIR, NULL);

	expect_run_in(group, native_first, NULL);
	expect_close(group);
}

/* ---- transfers that do not finish --------------------------------------- */

#define SHORT (100 * 1000 * 1000)
#define MOMENT (1000 * 1000)

static struct cohort_cause cause;

/* Barrier of ranks 0 and 1 */
SPREAD_SHARED static struct spread_barrier both;

static const struct cohort_deadlines patient = { .join_ns = RANKS_SOON,
	                                         .exec_ns = RANKS_SOON };

/* Let rank 0 send or receive, without a matching call of rank 1. */
static int alone(struct cohort_comm *c, void *user)
{
	static int32_t x[RANKS];
	int rank = cohort_comm_rank(c), rc;
	struct cohort_cause now = { .status = COHORT_OK };

	/* Set a long deadline, because ranks can start this call at very
	 * different times. */
	ranks_must(cohort_deadline_push(c, &patient), "push");
	ranks_must(cohort_barrier(c, NULL, NULL), "barrier");
	ranks_must(cohort_synchronize(c, RANKS_SOON), "synchronize");
	ranks_must(cohort_deadline_pop(c), "pop");
	/* After this barrier, rank 1 is busy in the program. */
	spread_wait(&both, 2);
	if (rank == 0) {
		rc = *(const int *)user
		             ? cohort_send(c, x, 1, COHORT_I32, 1, NULL, NULL)
		             : cohort_recv(c, x, 1, COHORT_I32, 1, NULL, NULL);
		/* The first message of two ranks can wait inside its call. */
		if (rc == COHORT_STALLED)
			return 0;
		ranks_must(rc, "transfer");
		return cohort_synchronize(c, RANKS_SOON) != COHORT_STALLED;
	}
	while (now.status == COHORT_OK) {
		test_nap();
		cohort_comm_cause(c, &now);
	}
	return 0;
}

static void stall(cohort_worker_fn worker, void *user,
                  struct cohort_deadlines deadlines)
{
	struct cohort_group_options o;
	struct cohort_group *group;

	cohort_group_options_init(&o);
	o.deadlines = deadlines;
	/* Connect in the open, because a message that connects its ranks may
	 * take init_ns instead of exec_ns. */
	if (deadlines.exec_ns)
		o.connect = COHORT_CONNECT_ALL;
	group = ranks_open(2, &o);
	cause = expect_end_of_run(group, worker, user, COHORT_STALLED);
	expect_close(group);
}

static void says_at_length(const char *text)
{
	expect_text(cause.details, text);
}

static void says(const char *text)
{
	cr_assert(verdict_says(cause.text, text), "\"%s\" is not in %s", text,
	          cause.text);
}

Test(p2p, verdict_on_an_unmatched_send_names_both_ranks)
{
	int sends = 1;

	spread_not("the text names ranks of one process");
	place_need_order();
	place_skip_on_nvidia("small messages are done without a receive");
	stall(alone, &sends, (struct cohort_deadlines){ .join_ns = SHORT });
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	cr_assert_eq(cause.kind, COHORT_VERDICT_OUTSIDE);
	cr_assert_eq(cause.joined[0], 1);
	cr_assert_eq(cause.missing[0], 2);
	cr_assert_eq(cause.collective, 0);
	says("rank 1 has not called recv 1 from rank 0 of \"cohort\" (");
	says(", limit 100 ms): ");
	says_at_length("\nwait   rank 0, in send of 1 int32 to rank 1");
	says_at_length("its last call was barrier, ");
}

Test(p2p, verdict_on_an_unmatched_receive_names_both_ranks)
{
	int sends = 0;

	place_need_order();
	/* Set both deadlines, because only exec_ns applies to transfers between
	 * processes. */
	stall(alone, &sends,
	      (struct cohort_deadlines){ .join_ns = SHORT, .exec_ns = SHORT });
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	says("rank 1 has not called send 1 to rank 0 of ");
	says_at_length("\nwait   rank 0, in recv of 1 int32 from rank 1");
}

static int second_alone(struct cohort_comm *c, void *user)
{
	int sends = 1;
	int32_t x = 0;

	(void)user;
	ranks_must(cohort_deadline_push(c, &patient), "push");
	ranks_must(cohort_comm_rank(c)
	                   ? cohort_recv(c, &x, 1, COHORT_I32, 0, NULL, NULL)
	                   : cohort_send(c, &x, 1, COHORT_I32, 1, NULL, NULL),
	           "transfer");
	await(c);
	ranks_must(cohort_deadline_pop(c), "pop");
	return alone(c, &sends);
}

Test(p2p, stalled_second_message_of_a_pair_is_named_by_number)
{
	spread_not("a transfer between processes has exec_ns alone");
	place_skip_on_nvidia("small messages are done without a receive");
	stall(second_alone, NULL,
	      (struct cohort_deadlines){ .join_ns = SHORT });
	says("rank 1 has not called recv 2 from rank 0 of ");
}

/* Pause both ranks, so that no clock runs before both have started. */
static int both_call(struct cohort_comm *c, void *user)
{
	int32_t x = 0;

	(void)user;
	ranks_must(cohort_pause(c), "pause");
	ranks_must(cohort_comm_rank(c)
	                   ? cohort_recv(c, &x, 1, COHORT_I32, 0, NULL, NULL)
	                   : cohort_send(c, &x, 1, COHORT_I32, 1, NULL, NULL),
	           "transfer");
	cr_assert_eq(cohort_synchronize(c, MOMENT), COHORT_TIMED_OUT);
	spread_wait(&both, 2);
	ranks_must(cohort_resume(c), "resume");
	return cohort_synchronize(c, RANKS_SOON) != COHORT_STALLED;
}

Test(p2p, neither_rank_is_blamed_for_a_stall_after_send_and_receive)
{
	ranks_fault(1, 0, COHORT_FAULT_NEVER, 0);
	stall(both_call, NULL, (struct cohort_deadlines){ .exec_ns = SHORT });
	cr_assert_eq(cause.joined[0], 3);
	says(" has started and has not finished on ranks 0-1 (");
	says_at_length("\nnote   no single rank can be blamed");
}

/*
 * Send from rank 0 to both other ranks in one batch. Rank 1 has made its
 * receive, but rank 2 never receives.
 */
static int send_to_both(struct cohort_comm *c, void *user)
{
	struct cohort_cause now = { .status = COHORT_OK };
	int32_t x = 0;
	int peer;

	if (cohort_comm_rank(c) == 1) {
		ranks_must(cohort_recv(c, &x, 1, COHORT_I32, 0, NULL, NULL),
		           "recv");
		sem_post(user);
		return cohort_synchronize(c, RANKS_SOON) != COHORT_OK;
	}
	if (cohort_comm_rank(c) == 0) {
		sem_wait(user);
		ranks_must(cohort_batch_begin(c), "batch");
		for (peer = 1; peer < 3; peer++)
			ranks_must(cohort_send(c, &x, 1, COHORT_I32, peer, NULL,
			                       NULL),
			           "send");
		ranks_must(cohort_batch_end(c, NULL, NULL), "batch");
		return cohort_synchronize(c, RANKS_SOON) != COHORT_STALLED;
	}
	while (now.status == COHORT_OK) {
		test_nap();
		cohort_comm_cause(c, &now);
	}
	return 0;
}

Test(p2p, missing_receive_of_a_batch_is_named)
{
	struct cohort_group_options o;
	struct cohort_group *group;
	sem_t ready;

	spread_not("the ranks share a semaphore");
	place_skip_on_nvidia("small messages are done without a receive");
	sem_init(&ready, 0, 0);
	cohort_group_options_init(&o);
	/* longer than a busy machine may delay rank 0 */
	o.deadlines.join_ns = 10 * SHORT;
	group = ranks_open(3, &o);
	cause = expect_end_of_run(group, send_to_both, &ready, COHORT_STALLED);
	cr_assert_eq(cause.rank, 2, "%s", cause.text);
	says("rank 2 has not called recv 1 from rank 0 of ");
	expect_close(group);
}

/*
 * Rank 0 calls last, with a send and a sum in one batch. No clock runs before
 * rank 0's call.
 */
static int sum_and_send(struct cohort_comm *c, void *user)
{
	struct cohort_cause now = { .status = COHORT_OK };
	int32_t sum = 1, x = 0;

	(void)user;
	if (cohort_comm_rank(c) == 0)
		spread_wait(&both, 2);
	else
		ranks_must(cohort_pause(c), "pause");
	ranks_must(cohort_batch_begin(c), "batch");
	ranks_must(cohort_all_reduce(c, &sum, &sum, 1, COHORT_I32, COHORT_SUM,
	                             NULL, NULL),
	           "sum");
	if (cohort_comm_rank(c) == 0)
		ranks_must(cohort_send(c, &x, 1, COHORT_I32, 1, NULL, NULL),
		           "send");
	ranks_must(cohort_batch_end(c, NULL, NULL), "batch");
	spread_wait(&both, 2);
	if (cohort_comm_rank(c) == 0)
		return cohort_synchronize(c, RANKS_SOON) != COHORT_STALLED;
	spread_wait(&both, 2);
	ranks_must(cohort_resume(c), "resume");
	while (now.status == COHORT_OK) {
		test_nap();
		cohort_comm_cause(c, &now);
	}
	return 0;
}

Test(p2p, missing_receive_of_a_batch_with_a_collective_is_named)
{
	spread_not("the text names ranks of one process");
	place_skip_on_nvidia("small messages are done without a receive");
	place_need_no_sync("ranks that launch ahead load the kernel of sends "
	                   "beside a sum");
	ranks_launch_ahead();
	stall(sum_and_send, NULL,
	      (struct cohort_deadlines){ .join_ns = SHORT });
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	says("rank 1 has not called recv 1 from rank 0 of ");
}

/* Call on rank 0 only after rank 1 is about to call. */
static int stuck_call(struct cohort_comm *c, void *user)
{
	int32_t x = 0;
	int rc;

	(void)user;
	spread_wait(&both, 2);
	rc = cohort_comm_rank(c)
	             ? cohort_recv(c, &x, 1, COHORT_I32, 0, NULL, NULL)
	             : cohort_send(c, &x, 1, COHORT_I32, 1, NULL, NULL);
	if (rc == COHORT_OK)
		rc = cohort_synchronize(c, RANKS_SOON);
	return rc != COHORT_STALLED;
}

Test(p2p, rank_that_is_stuck_in_its_send_call_is_named)
{
	spread_not("the text names ranks of one process");
	ranks_fault(1, 0, COHORT_FAULT_STUCK, 0);
	stall(stuck_call, NULL, (struct cohort_deadlines){ .exec_ns = SHORT });
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	cr_assert_eq(cause.kind, COHORT_VERDICT_NOT_STARTED);
	says("has not returned from the native call of ");
}

/* Make the call of kind @user. For every kind of call and fault, the cause must
 * name the rank and the call. */
static int call_of(struct cohort_comm *c, void *user)
{
	int what = *(const int *)user, rank = cohort_comm_rank(c);
	int32_t *send = memory[rank].send, *recv = memory[rank].recv;
	int rc = COHORT_OK;

	if (what == 0)
		rc = cohort_gather(c, send, recv, COUNT, COHORT_I32, 0, NULL,
		                   NULL);
	if (what == 1)
		rc = cohort_scatter(c, send, recv, COUNT, COHORT_I32, 0, NULL,
		                    NULL);
	if (what == 2)
		rc = cohort_all_to_all(c, send, recv, COUNT, COHORT_I32, NULL,
		                       NULL);
	if (what == 3 && rank == 0)
		rc = cohort_send(c, send, COUNT, COHORT_I32, 1, NULL, NULL);
	if (what == 3 && rank == 1)
		rc = cohort_recv(c, recv, COUNT, COHORT_I32, 0, NULL, NULL);
	return rc == COHORT_OK ? cohort_synchronize(c, RANKS_SOON) : rc;
}

static void strike(int what, int kind, uint64_t code, int status,
                   const char *text)
{
	struct cohort_group_options o;
	struct cohort_group *group;
	int closed;

	cohort_group_options_init(&o);
	/* If a thread has ended inside a call, the abort waits until its
	 * deadline. */
	o.deadlines.abort_ns =
		kind == COHORT_FAULT_DIE ? 500 * 1000 * 1000 : RANKS_SOON;
	group = ranks_open(2, &o);
	ranks_fault(1, 0, kind, code);
	cr_assert_eq(cohort_group_run(group, call_of, &what, &cause), status,
	             "call %d, fault %d: %s", what, kind, cohort_last_error());
	cr_assert_eq(cause.rank, 1, "%s", cause.text);
	says(text);
	/*
	 * Until the abort deadline, the thread that has ended counts as inside
	 * its call, so the close is refused.
	 */
	do
		closed = cohort_group_close(group);
	while (closed == COHORT_STATE && kind == COHORT_FAULT_DIE);
	cr_assert_eq(closed,
	             kind == COHORT_FAULT_DIE ? COHORT_WEDGED : COHORT_OK);
}

Test(p2p, fault_in_any_call_names_the_rank_and_the_call)
{
	static const char *const names[] = {
		"rank 1, gather, ticket 1: ", "rank 1, scatter, ticket 1: ",
		"rank 1, all_to_all, ticket 1: ", "rank 1, recv, ticket 1: "
	};
	int i;

	spread_not("a worker left behind is known in its process");
	for (i = 0; i < 4; i++) {
		strike(i, COHORT_FAULT_ERROR, ncclSystemError, COHORT_NCCL,
		       names[i]);
		strike(i, COHORT_FAULT_MEMORY, 0, COHORT_NCCL, names[i]);
		strike(i, COHORT_FAULT_DIE, 0, COHORT_THREAD_EXITED,
		       "the thread of rank 1");
		strike(i, COHORT_FAULT_ASYNC, ncclRemoteError, COHORT_NCCL,
		       "rank 1: the native communicator has failed");
	}
}

Test(p2p, abort_ends_every_kind_of_message_call)
{
	struct cohort_comm *c[2];
	struct cohort_group *group;
	int i, rc = COHORT_OK;
	uint64_t ticket = 0;

	place_need_order();
	for (i = 0; i < 5; i++) {
		group = ranks_ahead(2, NULL, c);
		if (i == 0)
			rc = cohort_gather(c[0], memory[0].send, memory[0].recv,
			                   1, COHORT_I32, 0, NULL, &ticket);
		if (i == 1)
			rc = cohort_scatter(c[0], memory[0].send,
			                    memory[0].recv, 1, COHORT_I32, 1,
			                    NULL, &ticket);
		if (i == 2)
			rc = cohort_all_to_all(c[0], memory[0].send,
			                       memory[0].recv, 1, COHORT_I32,
			                       NULL, &ticket);
		if (i == 3)
			rc = cohort_send(c[0], memory[0].send, 1, COHORT_I32, 1,
			                 NULL, &ticket);
		if (i == 4)
			rc = cohort_recv(c[0], memory[0].recv, 1, COHORT_I32, 1,
			                 NULL, &ticket);
		ranks_must(rc, "call");
		cohort_group_abort(group, "enough");
		rc = cohort_wait(c[0], ticket, RANKS_SOON);
		/* NVIDIA's NCCL buffers small messages, so rank 0's may be
		 * done. */
		cr_assert(rc == COHORT_ABORTED ||
		          (rc == COHORT_OK && place_is_nvidia()));
		expect_close(group);
	}
}
