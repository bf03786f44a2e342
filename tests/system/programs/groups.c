/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Every collective as a group of calls on all devices, made by one thread
 */

#include "program.h"

static struct rank ranks[MAX_RANKS];
static int n;

#define EACH_RANK (struct rank *r = ranks; r < ranks + n; r++)

static void fill_all(size_t count)
{
	for
		EACH_RANK
		{
			fill(r, r->send, count, (float)r->rank + 1, 1);
			fill(r, r->recv, count, -1, 0);
		}
}

/* Return the sum of rank + 1 over all ranks. */
static float sum_of_ranks(void)
{
	return (float)(n * (n + 1)) / 2;
}

static void all_reduce(void)
{
	fill_all(COUNT);
	NCCL(ncclGroupStart());
	for
		EACH_RANK
	NCCL(ncclAllReduce(r->send, r->recv, COUNT, ncclFloat, ncclSum, r->comm,
	                   r->stream));
	NCCL(ncclGroupEnd());
	for
		EACH_RANK
	expect(r, r->recv, COUNT, sum_of_ranks(), (float)n);

	/* In place, with another operation */
	NCCL(ncclGroupStart());
	for
		EACH_RANK
	NCCL(ncclAllReduce(r->send, r->send, COUNT, ncclFloat, ncclMax, r->comm,
	                   r->stream));
	NCCL(ncclGroupEnd());
	for
		EACH_RANK
	expect(r, r->send, COUNT, (float)n, 1);
}

static void broadcast_and_reduce(void)
{
	int root = n - 1;

	fill_all(COUNT);
	NCCL(ncclGroupStart());
	for
		EACH_RANK
	NCCL(ncclBroadcast(r->send, r->recv, COUNT, ncclFloat, root, r->comm,
	                   r->stream));
	NCCL(ncclGroupEnd());
	for
		EACH_RANK
	expect(r, r->recv, COUNT, (float)root + 1, 1);

	fill_all(COUNT);
	NCCL(ncclGroupStart());
	for
		EACH_RANK
	NCCL(ncclReduce(r->send, r->rank == root ? r->recv : NULL, COUNT,
	                ncclFloat, ncclMin, root, r->comm, r->stream));
	NCCL(ncclGroupEnd());
	for
		EACH_RANK
	expect(r, r->recv, COUNT, r->rank == root ? 1 : -1,
	       r->rank == root ? 1 : 0);
}

static void gather_and_scatter(void)
{
	int i;

	fill_all(COUNT);
	NCCL(ncclGroupStart());
	for
		EACH_RANK
	NCCL(ncclAllGather(r->send, r->recv, COUNT, ncclFloat, r->comm,
	                   r->stream));
	NCCL(ncclGroupEnd());
	for
		EACH_RANK
	for (i = 0; i < n; i++)
		expect(r, r->recv + (size_t)i * COUNT, COUNT, (float)i + 1, 1);

	/* Two collectives of each rank, in one group */
	fill_all((size_t)n * COUNT);
	NCCL(ncclGroupStart());
	for
		EACH_RANK
		{
			NCCL(ncclReduceScatter(r->send, r->recv, COUNT,
			                       ncclFloat, ncclSum, r->comm,
			                       r->stream));
			NCCL(ncclBcast(r->recv, 0, ncclFloat, 0, r->comm,
			               r->stream));
		}
	NCCL(ncclGroupEnd());
	for
		EACH_RANK
	expect(r, r->recv, COUNT, sum_of_ranks() + (float)(n * r->rank * COUNT),
	       (float)n);
}

int main(void)
{
	n = open_ranks(ranks);
	all_reduce();
	broadcast_and_reduce();
	gather_and_scatter();
	close_ranks(ranks, n);
	puts("OK");
	return 0;
}
