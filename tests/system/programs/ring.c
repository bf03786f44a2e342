/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A ring: every rank sends to the next one and receives from the previous one,
 * until its data has returned. This is done first on one thread, then on one
 * thread per rank.
 */

#include "program.h"

static struct rank ranks[MAX_RANKS];
static int n;

static void pass_on(struct rank *r)
{
	int next = (r->rank + 1) % n, before = (r->rank + n - 1) % n;

	NCCL(ncclGroupStart());
	NCCL(ncclSend(r->send, COUNT, ncclFloat, next, r->comm, r->stream));
	NCCL(ncclRecv(r->recv, COUNT, ncclFloat, before, r->comm, r->stream));
	NCCL(ncclGroupEnd());
}

static void swap(struct rank *r)
{
	float *was = r->send;

	r->send = r->recv;
	r->recv = was;
}

static void one_thread(void)
{
	int i, step;

	for (step = 0; step < n; step++) {
		NCCL(ncclGroupStart());
		for (i = 0; i < n; i++)
			pass_on(&ranks[i]);
		NCCL(ncclGroupEnd());
		for (i = 0; i < n; i++) {
			expect(&ranks[i], ranks[i].recv, COUNT,
			       (float)((i + n - 1 - step % n) % n), 1);
			swap(&ranks[i]);
		}
	}
}

static void *worker(void *argument)
{
	struct rank *r = (struct rank *)argument;
	int step;

	CUDA(cudaSetDevice(r->rank));
	for (step = 0; step < n; step++) {
		pass_on(r);
		swap(r);
	}
	expect(r, r->send, COUNT, (float)r->rank, 1);
	return NULL;
}

int main(void)
{
	int i;

	n = open_ranks(ranks);
	for (i = 0; i < n; i++)
		fill(&ranks[i], ranks[i].send, COUNT, (float)i, 1);
	one_thread();
	run_ranks(ranks, n, worker);
	close_ranks(ranks, n);
	puts("OK");
	return 0;
}
