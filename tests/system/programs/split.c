/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Communicators that are created from others: halves by a split, and a shrink
 */

#include <string.h>

#include "program.h"

static struct rank ranks[MAX_RANKS];
static int n;

static void fill_both(struct rank *r, float value)
{
	fill(r, r->send, COUNT, value, 0);
	fill(r, r->recv, COUNT, -1, 0);
}

/* All-reduce on all communicators in @comms that exist. */
static void reduce(const ncclComm_t *comms)
{
	int i;

	NCCL(ncclGroupStart());
	for (i = 0; i < n; i++)
		if (comms[i])
			NCCL(ncclAllReduce(ranks[i].send, ranks[i].recv, COUNT,
			                   ncclFloat, ncclSum, comms[i],
			                   ranks[i].stream));
	NCCL(ncclGroupEnd());
}

static void destroy(const ncclComm_t *comms)
{
	int i;

	for (i = 0; i < n; i++)
		if (comms[i])
			NCCL(ncclCommDestroy(comms[i]));
}

/*
 * Split into even and odd ranks, in reverse order. The last rank is in neither.
 */
static void split(const ncclComm_t *comms)
{
	ncclComm_t halves[MAX_RANKS];
	float sum[2] = { 0, 0 };
	int i, rank, size, count[2] = { 0, 0 };

	NCCL(ncclGroupStart());
	for (i = 0; i < n; i++) {
		int color = n > 1 && i == n - 1 ? NCCL_SPLIT_NOCOLOR : i % 2;

		NCCL(ncclCommSplit(comms[i], color, n - i, &halves[i], NULL));
		if (color < 0)
			continue;
		sum[color] += (float)i;
		count[color]++;
	}
	NCCL(ncclGroupEnd());
	CHECK(n == 1 || !halves[n - 1]);
	for (i = 0; i < n; i++) {
		if (!halves[i])
			continue;
		NCCL(ncclCommUserRank(halves[i], &rank));
		NCCL(ncclCommCount(halves[i], &size));
		CHECK(size == count[i % 2] && rank == size - 1 - i / 2);
		fill_both(&ranks[i], (float)i);
	}
	reduce(halves);
	for (i = 0; i < n; i++)
		if (halves[i])
			expect(&ranks[i], ranks[i].recv, COUNT, sum[i % 2], 0);
	destroy(halves);
}

/* Shrink without rank 0, as if it had failed. */
static void shrink(const ncclComm_t *comms)
{
	ncclComm_t rest[MAX_RANKS];
	int i, rank, excluded[1] = { 0 };

	memset(rest, 0, sizeof(rest));
	NCCL(ncclGroupStart());
	for (i = 1; i < n; i++)
		NCCL(ncclCommShrink(comms[i], excluded, 1, &rest[i], NULL,
		                    NCCL_SHRINK_DEFAULT));
	NCCL(ncclGroupEnd());
	for (i = 1; i < n; i++) {
		NCCL(ncclCommUserRank(rest[i], &rank));
		CHECK(rank == i - 1);
		fill_both(&ranks[i], 1);
	}
	reduce(rest);
	for (i = 1; i < n; i++)
		expect(&ranks[i], ranks[i].recv, COUNT, (float)(n - 1), 0);
	destroy(rest);
}

int main(void)
{
	ncclComm_t comms[MAX_RANKS];
	int i;

	n = count_devices();
	NCCL(ncclCommInitAll(comms, n, NULL));
	for (i = 0; i < n; i++)
		rank_open(&ranks[i], i, n);
	split(comms);
	if (n > 1)
		shrink(comms);
	destroy(comms);
	for (i = 0; i < n; i++)
		rank_close(&ranks[i]);
	puts("OK");
	return 0;
}
