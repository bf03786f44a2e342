/* SPDX-License-Identifier: Apache-2.0 */

/*
 * All-to-all, gather and scatter, by their functions and by groups of sends and
 * receives
 */

#include "program.h"

static ncclUniqueId id;

static float *part(float *buffer, int i)
{
	return buffer + (size_t)i * COUNT;
}

static void clear(struct rank *r)
{
	fill(r, r->recv, (size_t)r->ranks * COUNT, -1, 0);
}

static void all_to_all(struct rank *r)
{
	int i;

	clear(r);
	NCCL(ncclAlltoAll(r->send, r->recv, COUNT, ncclFloat, r->comm,
	                  r->stream));
	for (i = 0; i < r->ranks; i++)
		expect(r, part(r->recv, i), COUNT, (float)(100 * i + r->rank),
		       0);

	clear(r);
	NCCL(ncclGroupStart());
	for (i = 0; i < r->ranks; i++) {
		NCCL(ncclSend(part(r->send, i), COUNT, ncclFloat, i, r->comm,
		              r->stream));
		NCCL(ncclRecv(part(r->recv, i), COUNT, ncclFloat, i, r->comm,
		              r->stream));
	}
	NCCL(ncclGroupEnd());
	for (i = 0; i < r->ranks; i++)
		expect(r, part(r->recv, i), COUNT, (float)(100 * i + r->rank),
		       0);
}

static void gather(struct rank *r, int root)
{
	int i;

	clear(r);
	NCCL(ncclGather(r->send, r->recv, COUNT, ncclFloat, root, r->comm,
	                r->stream));
	for (i = 0; i < r->ranks; i++)
		expect(r, part(r->recv, i), COUNT,
		       r->rank == root ? (float)(100 * i) : -1, 0);

	clear(r);
	NCCL(ncclGroupStart());
	if (r->rank == root)
		for (i = 0; i < r->ranks; i++)
			NCCL(ncclRecv(part(r->recv, i), COUNT, ncclFloat, i,
			              r->comm, r->stream));
	NCCL(ncclSend(r->send, COUNT, ncclFloat, root, r->comm, r->stream));
	NCCL(ncclGroupEnd());
	for (i = 0; i < r->ranks; i++)
		expect(r, part(r->recv, i), COUNT,
		       r->rank == root ? (float)(100 * i) : -1, 0);
}

static void scatter(struct rank *r, int root)
{
	clear(r);
	NCCL(ncclScatter(r->send, r->recv, COUNT, ncclFloat, root, r->comm,
	                 r->stream));
	expect(r, r->recv, COUNT, (float)(100 * root + r->rank), 0);
}

static void *worker(void *argument)
{
	struct rank *r = (struct rank *)argument;
	int i;

	rank_open(r, r->rank, r->ranks);
	NCCL(ncclCommInitRank(&r->comm, r->ranks, id, r->rank));
	for (i = 0; i < r->ranks; i++)
		fill(r, part(r->send, i), COUNT, (float)(100 * r->rank + i), 0);
	all_to_all(r);
	for (i = 0; i < r->ranks; i++) {
		gather(r, i);
		scatter(r, i);
	}
	NCCL(ncclCommDestroy(r->comm));
	rank_close(r);
	return NULL;
}

int main(void)
{
	NCCL(ncclGetUniqueId(&id));
	run_devices(worker);
	puts("OK");
	return 0;
}
