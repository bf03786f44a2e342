/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Races sends, receives and collectives with aborts
 *
 * In every round, a thread per rank makes the same random NCCL groups: messages
 * to and from other ranks, and sometimes a sum. In some rounds, all ranks are
 * aborted at a random moment, in a random order. Each thread waits for its
 * stream and frees its buffers. Checks that nothing accesses a freed buffer
 * and, if no rank was aborted, that every message is right.
 */

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "support/buffer.h"
#include "support/crew.h"
#include "support/native.h"
#include "support/stress.h"

#define MOST_RANKS 5
#define GROUPS 4
#define MOST 3 /* most messages of a pair in one group */

struct round {
	struct native_clique c;
	uint64_t seed;
	bool is_cut;
	uint32_t delay;
	int first; /* the first rank to be aborted */
	atomic_int called;
};

static const struct platform *p;
static struct crew ranks;

/* Return the byte that fills the @k-th message between two ranks. */
static uint8_t token(const struct round *round, int group, int from, int to,
                     int k)
{
	uint64_t seed =
		round->seed + (uint64_t)(((group * 8 + from) * 8 + to) * 8 + k);

	return (uint8_t)(stress_random(&seed) % 200);
}

/*
 * Return the length of the @k-th message between two ranks: from a few bytes to
 * more than the platform copies at a time.
 */
static size_t length(const struct round *round, int group, int from, int to,
                     int k)
{
	static const size_t most[] = { 1, 4000, 20000, 300000 };
	uint64_t seed = round->seed + token(round, group, from, to, k) * 7919;

	return stress_random(&seed) % most[stress_random(&seed) % 4];
}

static int messages(const struct round *round, int group, int from, int to)
{
	return token(round, group, from, to, MOST) % (MOST + 1);
}

static bool has_sum(const struct round *round, int group)
{
	return token(round, group, 0, 0, MOST + 1) % 2;
}

/* One rank's buffers in one group. */
struct mail {
	struct buffer *out[MOST_RANKS][MOST];
	struct buffer *in[MOST_RANKS][MOST];
	int32_t sum;
};

static void post(struct round *round, int group, int rank, struct mail *mail)
{
	const ncclComm_t comm = round->c.comm[rank];
	const cudaStream_t stream = round->c.stream[rank];
	size_t bytes;
	int peer, k;

	for (peer = 0; peer < round->c.n; peer++) {
		for (k = 0; k < messages(round, group, rank, peer); k++) {
			bytes = length(round, group, rank, peer, k);
			mail->out[peer][k] = buffer_get(bytes);
			memset(mail->out[peer][k]->data,
			       token(round, group, rank, peer, k), bytes);
			native_must(p->ncclSend(mail->out[peer][k]->data, bytes,
			                        ncclUint8, peer, comm, stream),
			            "ncclSend");
		}
		for (k = 0; k < messages(round, group, peer, rank); k++) {
			bytes = length(round, group, peer, rank, k);
			mail->in[peer][k] = buffer_get(bytes);
			native_must(p->ncclRecv(mail->in[peer][k]->data, bytes,
			                        ncclUint8, peer, comm, stream),
			            "ncclRecv");
		}
	}
	mail->sum = rank;
	if (has_sum(round, group))
		native_must(p->ncclAllReduce(&mail->sum, &mail->sum, 1,
		                             ncclInt32, ncclSum, comm, stream),
		            "ncclAllReduce");
}

static void check(const struct round *round, int group, int rank,
                  const struct mail *mail)
{
	const int n = round->c.n;
	const struct buffer *b;
	size_t i;
	int peer, k;

	for (peer = 0; peer < n; peer++)
		for (k = 0; k < messages(round, group, peer, rank); k++) {
			b = mail->in[peer][k];
			for (i = 0; i < b->bytes; i++)
				if (b->data[i] !=
				    token(round, group, peer, rank, k))
					stress_fail("the wrong message");
		}
	if (has_sum(round, group) && mail->sum != n * (n - 1) / 2)
		stress_fail("a wrong sum: %d", mail->sum);
}

static void give_back(struct mail *mail)
{
	int peer, k;

	for (peer = 0; peer < MOST_RANKS; peer++)
		for (k = 0; k < MOST; k++) {
			buffer_put(mail->out[peer][k]);
			buffer_put(mail->in[peer][k]);
		}
}

static void be_a_rank(void *user, int rank)
{
	static struct mail mails[MOST_RANKS][GROUPS];
	struct round *round = user;
	struct mail *mail = mails[rank];
	int group;

	if (rank >= round->c.n)
		return;
	memset(mail, 0, sizeof(mails[rank]));
	for (group = 0; group < GROUPS; group++) {
		p->ncclGroupStart();
		post(round, group, rank, &mail[group]);
		native_must(p->ncclGroupEnd(), "ncclGroupEnd");
		atomic_fetch_add(&round->called, 1);
	}
	p->cudaStreamSynchronize(round->c.stream[rank]);
	for (group = 0; group < GROUPS; group++) {
		if (!round->is_cut)
			check(round, group, rank, &mail[group]);
		give_back(&mail[group]);
	}
}

/* End a round. Raise all abort flags before anything is freed. */
static void end_round(struct round *round)
{
	int r, n = round->c.n;

	if (!round->is_cut) {
		crew_end(&ranks);
		native_clique_destroy(&round->c);
		return;
	}
	while (atomic_load(&round->called) < (int)(round->delay % GROUPS))
		sched_yield();
	stress_spin(round->delay);
	p->ncclGroupStart();
	for (r = 0; r < n; r++)
		p->ncclCommAbort(round->c.comm[(round->first + r) % n]);
	crew_end(&ranks);
	native_must(p->ncclGroupEnd(), "ncclGroupEnd");
	for (r = 0; r < n; r++)
		p->cudaStreamDestroy(round->c.stream[r]);
}

static void one_round(struct round *round, uint64_t *seed)
{
	memset(round, 0, sizeof(*round));
	native_clique_open(&round->c, p,
	                   2 + (int)(stress_random(seed) % (MOST_RANKS - 1)));
	round->seed = stress_random(seed);
	round->is_cut = stress_random(seed) % 3 != 0;
	round->delay = stress_random(seed) % (2u << stress_random(seed) % 18);
	round->first = (int)(stress_random(seed) % MOST_RANKS);
	crew_begin(&ranks, round);
	end_round(round);
	buffers_check();
}

int main(int argc, char **argv)
{
	static struct round round;
	uint64_t seed = 4;
	unsigned long n;

	p = native_open(MOST_RANKS);
	crew_start(&ranks, MOST_RANKS, be_a_rank);
	for (n = 0; stress_continue(argc, argv); n++)
		one_round(&round, &seed);
	printf("%lu rounds\n", n);
	return 0;
}
