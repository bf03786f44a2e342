/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tests of ncclSend() and ncclRecv(): which of them match, and which rank waits
 * for which
 *
 * To show that something is not done, a test queries streams instead of waiting
 * for them. A thread that queries a stream does all work that can be done.
 */

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <cohort/sim.h>

#include "platform/platform.h"
#include "support/native.h"
#include "support/place.h"
#include "support/stress.h"

static const struct platform *p;

static void open_platform(void)
{
	p = native_open(NATIVE_RANKS);
}

TestSuite(p2p, .init = open_platform, .timeout = 60);

static ncclResult_t send(struct native_clique *c, int from, int to,
                         const int32_t *data, size_t count)
{
	return p->ncclSend(data, count, ncclInt32, to, c->comm[from],
	                   c->stream[from]);
}

static ncclResult_t receive(struct native_clique *c, int to, int from,
                            int32_t *data, size_t count)
{
	return p->ncclRecv(data, count, ncclInt32, from, c->comm[to],
	                   c->stream[to]);
}

static cudaError_t state(const struct native_clique *c, int r)
{
	return p->cudaStreamQuery(c->stream[r]);
}

static void finish(const struct native_clique *c, int r)
{
	cr_assert_eq(p->cudaStreamSynchronize(c->stream[r]), cudaSuccess);
}

/* ---- pairs ------------------------------------------------------------ */

Test(p2p, message_between_two_ranks_needs_no_other_rank)
{
	struct native_clique c;
	int32_t out = 7, in = 0;

	native_clique_open(&c, p, 3);
	cr_assert_eq(send(&c, 0, 2, &out, 1), ncclSuccess);
	cr_assert_eq(state(&c, 0), cudaErrorNotReady);
	cr_assert_eq(receive(&c, 2, 0, &in, 1), ncclSuccess);
	finish(&c, 0);
	finish(&c, 2);
	cr_assert_eq(in, 7);
	native_clique_destroy(&c);
}

Test(p2p, receive_may_be_called_before_the_send)
{
	struct native_clique c;
	int32_t out = 7, in = 0;

	native_clique_open(&c, p, 2);
	cr_assert_eq(receive(&c, 1, 0, &in, 1), ncclSuccess);
	cr_assert_eq(state(&c, 1), cudaErrorNotReady);
	cr_assert_eq(send(&c, 0, 1, &out, 1), ncclSuccess);
	finish(&c, 1);
	finish(&c, 0);
	cr_assert_eq(in, 7);
	native_clique_destroy(&c);
}

Test(p2p, messages_of_a_pair_keep_their_order)
{
	struct native_clique c;
	int32_t out[6] = { 1, 2, 3, 4, 5, 6 }, in[6] = { 0 };
	int i;

	native_clique_open(&c, p, 2);
	/* Make rank 0's calls in groups of two, and rank 1's in groups of
	 * three. */
	for (i = 0; i < 6; i++) {
		if (i % 2 == 0)
			p->ncclGroupStart();
		cr_assert_eq(send(&c, 0, 1, &out[i], 1), ncclSuccess);
		if (i % 2 == 1)
			cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	}
	for (i = 0; i < 6; i++) {
		if (i % 3 == 0)
			p->ncclGroupStart();
		cr_assert_eq(receive(&c, 1, 0, &in[i], 1), ncclSuccess);
		if (i % 3 == 2)
			cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	}
	finish(&c, 0);
	finish(&c, 1);
	cr_assert_arr_eq(in, out, sizeof(out));
	native_clique_destroy(&c);
}

Test(p2p, send_of_no_elements_waits_for_its_receive)
{
	struct native_clique c;

	native_clique_open(&c, p, 2);
	cr_assert_eq(send(&c, 0, 1, NULL, 0), ncclSuccess);
	cr_assert_eq(state(&c, 0), cudaErrorNotReady);
	cr_assert_eq(receive(&c, 1, 0, NULL, 0), ncclSuccess);
	finish(&c, 0);
	finish(&c, 1);
	native_clique_destroy(&c);
}

Test(p2p, message_of_no_elements_keeps_its_place_in_the_order)
{
	struct native_clique c;
	int32_t out = 7, in = 0;

	native_clique_open(&c, p, 2);
	cr_assert_eq(send(&c, 0, 1, NULL, 0), ncclSuccess);
	cr_assert_eq(send(&c, 0, 1, &out, 1), ncclSuccess);
	cr_assert_eq(receive(&c, 1, 0, NULL, 0), ncclSuccess);
	finish(&c, 1);
	cr_assert_eq(in, 0);
	cr_assert_eq(receive(&c, 1, 0, &in, 1), ncclSuccess);
	finish(&c, 1);
	finish(&c, 0);
	cr_assert_eq(in, 7);
	native_clique_destroy(&c);
}

Test(p2p, message_with_different_counts_transfers_the_smaller)
{
	struct native_clique c;
	int32_t out[3] = { 1, 2, 3 }, in[3] = { -1, -1, -1 };

	native_clique_open(&c, p, 2);
	cr_assert_eq(send(&c, 0, 1, out, 3), ncclSuccess);
	cr_assert_eq(receive(&c, 1, 0, in, 2), ncclSuccess);
	cr_assert_eq(send(&c, 1, 0, out, 1), ncclSuccess);
	cr_assert_eq(receive(&c, 0, 1, in + 2, 1), ncclSuccess);
	finish(&c, 0);
	finish(&c, 1);
	cr_assert_eq(in[0], 1);
	cr_assert_eq(in[1], 2);
	cr_assert_eq(in[2], 1);
	native_clique_destroy(&c);
}

#define MANY ((size_t)1000003)

Test(p2p, large_messages_can_go_both_ways_at_once)
{
	static int32_t out[2][MANY], in[2][MANY];
	struct native_clique c;
	size_t i;
	int r;

	native_clique_open(&c, p, 2);
	for (r = 0; r < 2; r++)
		for (i = 0; i < MANY; i++)
			out[r][i] = (int32_t)(2 * i) + r;
	for (r = 0; r < 2; r++) {
		p->ncclGroupStart();
		cr_assert_eq(send(&c, r, 1 - r, out[r], MANY), ncclSuccess);
		cr_assert_eq(receive(&c, r, 1 - r, in[r], MANY), ncclSuccess);
		cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	}
	for (r = 0; r < 2; r++)
		finish(&c, r);
	for (r = 0; r < 2; r++)
		cr_assert_eq(memcmp(in[r], out[1 - r], sizeof(in[r])), 0);
	native_clique_destroy(&c);
}

/* The message must arrive although no rank waits for its stream. */
Test(p2p, small_message_is_transferred_during_the_second_call)
{
	struct native_clique c;
	int32_t out = 7, in = 0;

	native_clique_open(&c, p, 2);
	cr_assert_eq(send(&c, 0, 1, &out, 1), ncclSuccess);
	cr_assert_eq(receive(&c, 1, 0, &in, 1), ncclSuccess);
	cr_assert_eq(in, 7);
	finish(&c, 0);
	finish(&c, 1);
	native_clique_destroy(&c);
}

/* The sender's thread may have ended, so a query of either rank must copy the
 * message. */
Test(p2p, large_message_is_transferred_when_either_rank_is_queried)
{
	enum { COUNT = 100000 };
	int32_t *out = malloc(COUNT * sizeof(*out)),
		*in = calloc(COUNT, sizeof(*in));
	struct native_clique c;
	int asked;

	place_skip_if_shared("messages are copied by their receivers");
	native_clique_open(&c, p, 2);
	for (asked = 0; asked < 2; asked++) {
		out[COUNT - 1] = asked + 1;
		cr_assert_eq(receive(&c, 1, 0, in, COUNT), ncclSuccess);
		cr_assert_eq(send(&c, 0, 1, out, COUNT), ncclSuccess);
		cr_assert_eq(state(&c, asked), cudaSuccess);
		cr_assert_eq(state(&c, 1 - asked), cudaSuccess);
		cr_assert_eq(in[COUNT - 1], asked + 1);
	}
	native_clique_destroy(&c);
	free(out);
	free(in);
}

/* Each call of progress() has time for only a piece of the message. */
Test(p2p, large_message_continues_where_it_was_left)
{
	static int32_t out[MANY], in[MANY];
	struct native_clique c;
	size_t i;

	native_clique_open(&c, p, 2);
	for (i = 0; i < MANY; i++)
		out[i] = (int32_t)i;
	cr_assert_eq(send(&c, 0, 1, out, MANY), ncclSuccess);
	cr_assert_eq(receive(&c, 1, 0, in, MANY), ncclSuccess);
	for (i = 0; i < 4; i++)
		p->progress((int)i % 2, c.stream[i % 2], NULL, 0, 1);
	finish(&c, 1);
	finish(&c, 0);
	cr_assert_eq(memcmp(in, out, sizeof(in)), 0);
	native_clique_destroy(&c);
}

/* ---- waiting ---------------------------------------------------------- */

Test(p2p, ungrouped_mutual_sends_block_the_streams_not_the_host)
{
	struct native_clique c;
	int32_t out[2] = { 1, 2 }, in[2] = { -1, -1 };
	int r;

	native_clique_open(&c, p, 2);
	for (r = 0; r < 2; r++)
		cr_assert_eq(send(&c, r, 1 - r, &out[r], 1), ncclSuccess);
	for (r = 0; r < 2; r++)
		cr_assert_eq(receive(&c, r, 1 - r, &in[r], 1), ncclSuccess);
	for (r = 0; r < 2; r++)
		cr_assert_eq(state(&c, r), cudaErrorNotReady);
	cr_assert_eq(in[0], -1);
	native_clique_abort(&c);
	cr_assert_eq(in[0], -1);
	cr_assert_eq(in[1], -1);
}

Test(p2p, launches_of_a_communicator_keep_order_across_streams)
{
	struct native_clique c;
	cudaStream_t other;
	int32_t out[2] = { 1, 2 }, in[2] = { 0 };

	native_clique_open(&c, p, 2);
	other = native_stream(p, 0);
	cr_assert_eq(send(&c, 0, 1, &out[0], 1), ncclSuccess);
	cr_assert_eq(p->ncclRecv(&in[0], 1, ncclInt32, 1, c.comm[0], other),
	             ncclSuccess);
	/* Rank 0's second launch waits for its first one, even on another
	 * stream. */
	cr_assert_eq(send(&c, 1, 0, &out[1], 1), ncclSuccess);
	cr_assert_eq(state(&c, 1), cudaErrorNotReady);
	cr_assert_eq(p->cudaStreamQuery(other), cudaErrorNotReady);
	p->ncclCommAbort(c.comm[0]);
	p->ncclCommAbort(c.comm[1]);
	cr_assert_eq(in[0], 0);
	p->cudaStreamDestroy(other);
	p->cudaStreamDestroy(c.stream[0]);
	p->cudaStreamDestroy(c.stream[1]);
}

Test(p2p, group_can_send_and_receive_on_two_streams)
{
	struct native_clique c;
	cudaStream_t other[2];
	int32_t out[2] = { 1, 2 }, in[2] = { 0 };
	int r;

	native_clique_open(&c, p, 2);
	for (r = 0; r < 2; r++) {
		other[r] = native_stream(p, r);
		p->ncclGroupStart();
		cr_assert_eq(send(&c, r, 1 - r, &out[r], 1), ncclSuccess);
		cr_assert_eq(p->ncclRecv(&in[r], 1, ncclInt32, 1 - r, c.comm[r],
		                         other[r]),
		             ncclSuccess);
		cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	}
	for (r = 0; r < 2; r++) {
		finish(&c, r);
		cr_assert_eq(in[r], out[1 - r]);
		p->cudaStreamSynchronize(other[r]);
		p->cudaStreamDestroy(other[r]);
	}
	native_clique_destroy(&c);
}

Test(p2p, pending_message_does_not_block_another_communicator)
{
	struct native_clique x, y;
	int32_t out = 7, in = 0;

	native_clique_open(&x, p, 2);
	native_clique_open(&y, p, 2);
	cr_assert_eq(send(&x, 0, 1, &out, 1), ncclSuccess);
	cr_assert_eq(send(&y, 0, 1, &out, 1), ncclSuccess);
	cr_assert_eq(receive(&y, 1, 0, &in, 1), ncclSuccess);
	finish(&y, 0);
	finish(&y, 1);
	cr_assert_eq(in, 7);
	cr_assert_eq(state(&x, 0), cudaErrorNotReady);
	cr_assert_eq(receive(&x, 1, 0, &in, 1), ncclSuccess);
	finish(&x, 0);
	native_clique_destroy(&x);
	native_clique_destroy(&y);
}

Test(p2p, two_communicators_can_share_a_group_and_a_stream)
{
	struct native_clique x, y;
	int32_t out[2] = { 1, 2 }, in[2] = { 0 };
	struct native_clique *both[2] = { &x, &y };
	int i, r;

	native_clique_open(&x, p, 2);
	native_clique_open(&y, p, 2);
	/* The order of the calls differs between the ranks. */
	for (r = 0; r < 2; r++) {
		p->ncclGroupStart();
		for (i = 0; i < 2; i++) {
			int k = i ^ r;

			if (r == 0)
				p->ncclSend(&out[k], 1, ncclInt32, 1,
				            both[k]->comm[0], x.stream[0]);
			else
				p->ncclRecv(&in[k], 1, ncclInt32, 0,
				            both[k]->comm[1], x.stream[1]);
		}
		cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	}
	finish(&x, 0);
	finish(&x, 1);
	cr_assert_eq(in[0], 1);
	cr_assert_eq(in[1], 2);
	native_clique_destroy(&x);
	native_clique_destroy(&y);
}

/* ---- to the rank itself ----------------------------------------------- */

static void send_to_itself(int n)
{
	struct native_clique c;
	int32_t out[2] = { 1, 2 }, in[2] = { 0 };
	int i;

	native_clique_open(&c, p, n);
	p->ncclGroupStart();
	for (i = 0; i < 2; i++)
		cr_assert_eq(send(&c, 0, 0, &out[i], 1), ncclSuccess);
	for (i = 0; i < 2; i++)
		cr_assert_eq(receive(&c, 0, 0, &in[i], 1), ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	finish(&c, 0);
	cr_assert_arr_eq(in, out, sizeof(out));
	native_clique_destroy(&c);
}

Test(p2p, rank_can_send_to_itself_in_a_group)
{
	send_to_itself(2);
}

Test(p2p, single_rank_can_send_to_itself_in_a_group)
{
	send_to_itself(1);
}

Test(p2p, message_to_itself_in_place_changes_nothing)
{
	struct native_clique c;
	int32_t same = 7;

	native_clique_open(&c, p, 2);
	p->ncclGroupStart();
	cr_assert_eq(receive(&c, 1, 1, &same, 1), ncclSuccess);
	cr_assert_eq(send(&c, 1, 1, &same, 1), ncclSuccess);
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	finish(&c, 1);
	cr_assert_eq(same, 7);
	native_clique_destroy(&c);
}

Test(p2p, unmatched_message_to_itself_drops_the_group)
{
	struct native_clique c;
	int32_t x = 7;
	int i;

	native_clique_open(&c, p, 2);
	for (i = 0; i < 2; i++) {
		p->ncclGroupStart();
		cr_assert_eq(native_sum(&c, 0), ncclSuccess);
		cr_assert_eq(native_sum(&c, 1), ncclSuccess);
		cr_assert_eq(i ? send(&c, 1, 1, &x, 1)
		               : receive(&c, 1, 1, &x, 1),
		             ncclSuccess);
		cr_assert_eq(p->ncclGroupEnd(), ncclInvalidUsage);
		cr_assert_eq(state(&c, 0), cudaSuccess);
		cr_assert_eq(native_touched(&c, 0), 0);
	}
	native_sum_all(&c);
	native_clique_destroy(&c);
}

Test(p2p, ungrouped_send_to_self_is_invalid)
{
	struct native_clique c;
	int32_t x = 7;

	native_clique_open(&c, p, 1);
	cr_assert_eq(send(&c, 0, 0, &x, 1), ncclInvalidUsage);
	cr_assert_eq(receive(&c, 0, 0, &x, 1), ncclInvalidUsage);
	cr_assert_eq(state(&c, 0), cudaSuccess);
	native_clique_destroy(&c);
}

/* ---- with collectives ------------------------------------------------- */

/* A ring and a sum, in one group of all ranks */
Test(p2p, messages_and_collectives_can_share_a_group)
{
	struct native_clique c;
	int32_t out[4], in[4];
	int r;

	native_clique_open(&c, p, 4);
	p->ncclGroupStart();
	for (r = 0; r < 4; r++) {
		out[r] = 10 + r;
		cr_assert_eq(send(&c, r, (r + 1) % 4, &out[r], 1), ncclSuccess);
		cr_assert_eq(native_sum(&c, r), ncclSuccess);
		cr_assert_eq(receive(&c, r, (r + 3) % 4, &in[r], 1),
		             ncclSuccess);
	}
	cr_assert_eq(p->ncclGroupEnd(), ncclSuccess);
	for (r = 0; r < 4; r++) {
		finish(&c, r);
		cr_assert_eq(native_wrong(&c, r), 0);
		cr_assert_eq(in[r], 10 + (r + 3) % 4);
	}
	native_clique_destroy(&c);
}

Test(p2p, launch_is_done_when_its_message_and_collective_are)
{
	struct native_clique c;
	int32_t out = 7, in = 0;
	int r;

	native_clique_open(&c, p, 3);
	p->ncclGroupStart();
	send(&c, 0, 1, &out, 1);
	native_sum(&c, 0);
	p->ncclGroupEnd();
	native_sum(&c, 1);
	native_sum(&c, 2);
	finish(&c, 1);
	finish(&c, 2);
	cr_assert_eq(native_wrong(&c, 0), 0);
	cr_assert_eq(state(&c, 0), cudaErrorNotReady);
	receive(&c, 1, 0, &in, 1);
	for (r = 0; r < 2; r++)
		finish(&c, r);
	cr_assert_eq(in, 7);
	native_clique_destroy(&c);
}

/* ---- aborts ----------------------------------------------------------- */

Test(p2p, unmatched_receive_waits_for_an_abort_and_writes_nothing)
{
	struct native_clique c;
	int32_t out = 7, in = -1;

	native_clique_open(&c, p, 2);
	cr_assert_eq(receive(&c, 0, 1, &in, 1), ncclSuccess);
	cr_assert_eq(state(&c, 0), cudaErrorNotReady);
	p->ncclCommAbort(c.comm[0]);
	finish(&c, 0);
	/* The peer's call is too late. It hangs until its own rank is
	 * aborted. */
	cr_assert_eq(send(&c, 1, 0, &out, 1), ncclSuccess);
	cr_assert_eq(state(&c, 1), cudaErrorNotReady);
	p->ncclCommAbort(c.comm[1]);
	finish(&c, 1);
	cr_assert_eq(in, -1);
}

Test(p2p, abort_of_a_rank_stops_collectives_but_not_messages)
{
	struct native_clique c;
	int32_t out = 7, in = 0;
	int r;

	native_clique_open(&c, p, 3);
	p->ncclCommAbort(c.comm[2]);
	cr_assert_eq(send(&c, 0, 1, &out, 1), ncclSuccess);
	cr_assert_eq(receive(&c, 1, 0, &in, 1), ncclSuccess);
	finish(&c, 0);
	finish(&c, 1);
	cr_assert_eq(in, 7);
	for (r = 0; r < 2; r++)
		cr_assert_eq(native_sum(&c, r), ncclSuccess);
	for (r = 0; r < 2; r++)
		cr_assert_eq(state(&c, r), cudaErrorNotReady);
	p->ncclCommAbort(c.comm[0]);
	p->ncclCommAbort(c.comm[1]);
	cr_assert_eq(native_touched(&c, 0), 0);
}

/* ---- random patterns -------------------------------------------------- */

#define ROUNDS 150
#define MESSAGES 6 /* maximum number of messages of a pair in one round */

/* Return the first element of message @k from @from to @to in a round. */
static int32_t token(int round, int from, int to, int k)
{
	return round << 12 | from << 8 | to << 4 | k;
}

static size_t message_count(int32_t token)
{
	uint64_t seed = (uint64_t)token;

	return 1 + stress_random(&seed) % 5000;
}

static int messages(int round, int from, int to)
{
	uint64_t seed = (uint64_t)token(round, from, to, 0) * 31;

	return (int)(stress_random(&seed) % (MESSAGES + 1));
}

struct exchange {
	struct native_clique *c;
	int rank;
	int wrong;
};

/* Buffers for all messages that a rank sends, or receives, in a round */
typedef int32_t room[NATIVE_RANKS][MESSAGES][5000];

static void send_all(struct exchange *x, int round, room *out)
{
	int to, k;

	for (to = 0; to < x->c->n; to++)
		for (k = 0; k < messages(round, x->rank, to); k++) {
			int32_t t = token(round, x->rank, to, k);
			int32_t *data = (*out)[to][k];

			data[0] = t;
			data[message_count(t) - 1] = t;
			x->wrong += send(x->c, x->rank, to, data,
			                 message_count(t)) != ncclSuccess;
		}
}

static void receive_all(struct exchange *x, int round, room *in)
{
	int from, k;

	/* Pairs are independent, so the peers can be in reverse order. */
	for (from = x->c->n - 1; from >= 0; from--)
		for (k = 0; k < messages(round, from, x->rank); k++)
			x->wrong += receive(x->c, x->rank, from, (*in)[from][k],
			                    message_count(token(round, from,
			                                        x->rank, k))) !=
			            ncclSuccess;
}

static void check_all(struct exchange *x, int round, room *in)
{
	int from, k;

	for (from = 0; from < x->c->n; from++)
		for (k = 0; k < messages(round, from, x->rank); k++) {
			int32_t t = token(round, from, x->rank, k);
			const int32_t *data = (*in)[from][k];

			x->wrong += data[0] != t;
			x->wrong += data[message_count(t) - 1] != t;
		}
}

static void *exchange(void *user)
{
	struct exchange *x = user;
	room *out = calloc(1, sizeof(*out)), *in = calloc(1, sizeof(*in));
	int round;

	for (round = 0; round < ROUNDS; round++) {
		p->ncclGroupStart();
		if (round % 2)
			send_all(x, round, out);
		receive_all(x, round, in);
		if (round % 2 == 0)
			send_all(x, round, out);
		if (round % 7 == 0)
			x->wrong += native_sum(x->c, x->rank) != ncclSuccess;
		x->wrong += p->ncclGroupEnd() != ncclSuccess;
		p->cudaStreamSynchronize(x->c->stream[x->rank]);
		check_all(x, round, in);
		x->wrong += round % 7 == 0 && native_wrong(x->c, x->rank);
	}
	free(out);
	free(in);
	return NULL;
}

static void exchange_among(int n)
{
	struct native_clique c;
	struct exchange x[NATIVE_RANKS];
	pthread_t threads[NATIVE_RANKS];
	int r;

	native_clique_open(&c, p, n);
	for (r = 0; r < n; r++) {
		x[r] = (struct exchange){ &c, r, 0 };
		pthread_create(&threads[r], NULL, exchange, &x[r]);
	}
	for (r = 0; r < n; r++) {
		pthread_join(threads[r], NULL);
		cr_expect_eq(x[r].wrong, 0, "rank %d of %d: %d wrong", r, n,
		             x[r].wrong);
	}
	native_clique_destroy(&c);
}

Test(p2p, random_messages_of_two_ranks_match)
{
	exchange_among(2);
}

Test(p2p, random_messages_of_three_ranks_match)
{
	exchange_among(3);
}

Test(p2p, random_messages_of_five_ranks_match)
{
	exchange_among(5);
}

Test(p2p, random_messages_of_eight_ranks_match)
{
	exchange_among(8);
}

/* ---- arguments -------------------------------------------------------- */

/* Expect a send and a receive to return @result, with any count. */
static void expect_both(ncclResult_t result, struct native_clique *c, int type,
                        int peer)
{
	int32_t x = 0;
	size_t count;

	for (count = 0; count < 2; count++) {
		cr_expect_eq(p->ncclSend(&x, count, (ncclDataType_t)type, peer,
		                         c->comm[0], c->stream[0]),
		             result);
		cr_expect_eq(p->ncclRecv(&x, count, (ncclDataType_t)type, peer,
		                         c->comm[0], c->stream[0]),
		             result);
	}
	cr_expect_eq(state(c, 0), cudaSuccess);
}

Test(p2p, send_and_recv_check_their_arguments)
{
	struct native_clique c;
	int x = 0;

	native_clique_open(&c, p, 2);
	expect_both(ncclInvalidArgument, &c, ncclInt32, -1);
	expect_both(ncclInvalidArgument, &c, ncclInt32, 2);
	expect_both(ncclInvalidArgument, &c, -1, 1);
	expect_both(ncclInvalidArgument, &c, ncclNumTypes, 1);
	cr_expect_eq(p->ncclSend(&x, 1, ncclInt32, 0, NULL, NULL),
	             ncclInvalidArgument);
	cr_expect_eq(p->ncclRecv(&x, 1, ncclInt32, 0, NULL, NULL),
	             ncclInvalidArgument);
	native_clique_destroy(&c);
}
